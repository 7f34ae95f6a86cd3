from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from crowdwise.io import writer
from crowdwise.io.writer import replacing


def test_a_new_file_appears_with_the_umask_of_the_user(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        with replacing(tmp_path / "new.txt") as temporary:
            temporary.write_text("whole")
            assert not (tmp_path / "new.txt").exists()
    finally:
        os.umask(mask)
    assert (tmp_path / "new.txt").read_text() == "whole"
    assert (tmp_path / "new.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_exception_leaves_the_old_file_and_no_temporary(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("old")

    def fail_half_way() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of the n")
            raise error

    with pytest.raises(error):
        fail_half_way()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["votes.csv"]


def test_a_failing_replacement_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer.os, "replace", full)
    with pytest.raises(OSError, match="No space"), replacing(tmp_path / "x") as temporary:
        temporary.write_text("new")
    assert os.listdir(tmp_path) == []


def test_the_mode_of_the_old_file_stays_and_links_are_followed(tmp_path: Path) -> None:
    real = tmp_path / "real.csv"
    real.write_text("old")
    real.chmod(0o600)
    (tmp_path / "link.csv").symlink_to(real)
    with replacing(tmp_path / "link.csv") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o600


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match="folder"), replacing(tmp_path):
        pass


# Writes "aaa...", "bbb...", ... for ever; every state is one letter repeated, so a mixture shows.
WRITER = """
import itertools, os, sys, types
for name in ("crowdwise", "crowdwise.io"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [os.path.join({folder!r}, *name.split("."))]
from crowdwise.io.writer import replacing
for letter in itertools.cycle("abcdefgh"):
    with replacing({path!r}) as temporary:
        with open(temporary, "w") as file:
            for _ in range(8):
                file.write(letter * {part})
                file.flush()
    sys.stdout.write(".")
    sys.stdout.flush()
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    path, part = tmp_path / "state.txt", 1 << 18
    script = WRITER.format(folder=str(Path(writer.__file__).parents[2]), path=str(path), part=part)
    rng = random.Random(0)
    path.write_text("a" * 8 * part)
    for _ in range(30):
        # -I -S: a light start, without the packages that `__init__` modules need; hence the bare packages of the script.
        with subprocess.Popen([sys.executable, "-I", "-S", "-c", script], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"."
            time.sleep(rng.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
        text = path.read_text()
        assert len(text) == 8 * part
        assert len(set(text)) == 1
    # Temporary files of killed writers may stay, but only under names that no reader takes for data.
    assert all(name == "state.txt" or (name.startswith(".") and ".tmp" in name) for name in os.listdir(tmp_path))


# Writes half of a file, says so and waits to be killed.
HALF = """
import sys, time
from crowdwise.io.writer import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""
# Reads stdin into a temporary folder, says so and waits to be killed.
HOLD = """
import sys, time
from crowdwise.io.leftovers import held_folder
with held_folder() as folder:
    (folder / "votes").write_text("secret")
    print(folder, flush=True)
    time.sleep(60)
"""


def begin(script: str, *words: str, **more: str) -> tuple[subprocess.Popen[str], str]:
    environment = {**os.environ, **more}
    process = subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_the_next_writer_clears_what_killed_ones_left_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".mine.tmp").write_text("a file of the user")
    killed, alive = begin(HALF, str(tmp_path / "one.csv"))[0], begin(HALF, str(tmp_path / "two.csv"))[0]
    try:
        end(killed)
        assert len(os.listdir(tmp_path)) == 3
        monkeypatch.setattr(writer, "_CLEARED", set())
        with replacing(tmp_path / "three.csv") as temporary:
            temporary.write_text("whole")
        left = sorted(name for name in os.listdir(tmp_path) if name.endswith(".tmp.csv"))
        assert len(left) == 1, left
        assert (tmp_path / left[0]).read_text() == "half"
        assert (tmp_path / "three.csv").read_text() == "whole"
        assert (tmp_path / ".mine.tmp").exists()
    finally:
        end(alive)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_the_next_run_clears_folders_of_killed_ones_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "crowdwise-notes").mkdir()
    killed, first = begin(HOLD, TMPDIR=str(tmp_path))
    alive, second = begin(HOLD, TMPDIR=str(tmp_path))
    end(killed)
    assert (Path(first) / "votes").exists()
    third, place = begin(HOLD, TMPDIR=str(tmp_path))
    try:
        assert not Path(first).exists()
        assert (Path(second) / "votes").exists()
        assert (Path(place) / "votes").exists()
        assert (tmp_path / "crowdwise-notes").exists()
    finally:
        end(alive)
        end(third)
