"""Several processes on one journal: every event that was acknowledged is there, also when one is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import crowdwise
from crowdwise.campaign.journal import Journal
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.errors import InputError, SettingError
from crowdwise.io import lock

# Appends and prints what was acknowledged; loads again whenever another process was quicker.
WRITER = """
import random, sys, time
from crowdwise.campaign.journal import Journal
from crowdwise.errors import InputError
folder, name, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
journal, n, end = Journal.open(folder)[0], 0, time.monotonic() + seconds
print("ready", flush=True)
while time.monotonic() < end:
    try:
        journal.append({"event": "x", "who": name, "n": n, "more": "y" * 2000})
    except InputError:
        journal = Journal.open(folder)[0]
        continue
    print(name, n, flush=True)
    n += 1
    # So that others get their turn; without a lock, one or two events in a thousand are lost all the same.
    time.sleep(random.random() / 200)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ActiveLoop(crowdwise.DawidSkene(), path=tmp_path / "c", items=["a"], annotators=["b"], classes=["x", "y"])
    return tmp_path / "c"


def start(folder: Path, name: str, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(folder), name, str(seconds)], stdout=subprocess.PIPE, text=True)


def kept(folder: Path) -> list[tuple[str, int]]:
    return [(event["who"], event["n"]) for event in Journal.open(folder)[2]]


def acknowledged(output: str) -> list[tuple[str, int]]:
    # The last line of a killed process may be a part of one.
    lines = output[: output.rfind("\n") + 1].splitlines()
    return [(line.split()[0], int(line.split()[1])) for line in lines if line != "ready"]


@pytest.mark.slow
def test_no_acknowledged_event_is_lost(folder: Path) -> None:
    writers = [start(folder, name, 1.0) for name in ("p", "q", "r")]
    said = [event for writer in writers for event in acknowledged(writer.communicate(timeout=60)[0])]
    assert all(writer.returncode == 0 for writer in writers)
    found = kept(folder)
    assert sorted(found) == sorted(said)
    assert len({who for who, _ in found}) > 1, "the writers never met"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_writer_holds_nobody_up(folder: Path) -> None:
    said: list[tuple[str, int]] = []
    for turn in range(2):
        writers = [start(folder, f"{name}{turn}", 30.0) for name in ("p", "q")]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        time.sleep(0.2)
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        said += [event for writer in writers for event in acknowledged(writer.communicate(timeout=60)[0])]
    found = kept(folder)
    # What was written and not acknowledged any more may be there too.
    assert set(said) <= set(found)
    assert len(found) == len(set(found))
    Journal.open(folder)[0].append({"event": "x", "who": "last", "n": 0})
    assert kept(folder)[-1] == ("last", 0)


def test_who_finds_the_journal_held_is_told_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal.open(folder)[0]
    monkeypatch.setattr("crowdwise.campaign.journal.hold", lambda file: lock.hold(file, 0.05))
    other = os.open(journal.path, os.O_RDWR)
    try:
        assert lock.try_hold(other)
        with pytest.raises(InputError, match="another process is writing and does not finish"):
            journal.append({"event": "x"})
    finally:
        os.close(other)
    journal.append({"event": "x", "who": "me", "n": 1})
    assert kept(folder) == [("me", 1)]


def test_two_campaigns_never_share_a_folder(folder: Path) -> None:
    with pytest.raises(SettingError, match="holds a campaign already"):
        ActiveLoop(crowdwise.DawidSkene(), path=folder, items=["a"], annotators=["b"], classes=["x", "y"])
