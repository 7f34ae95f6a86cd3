"""Methods in processes: same numbers, every bad end a row, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse
from tests.trust.compare.stand_ins import Dies, DiesLater, Fails, Leaves, Sleeps, SleepsLater

from crowdwise.data.annotations import Annotations
from crowdwise.data.anonymous import AnonymousVotes
from crowdwise.data.datasets import demo
from crowdwise.errors import DataWarning, SettingError
from crowdwise.trust.compare import compare, comparison, processes
from crowdwise.trust.compare.exchange import read_task, write_task
from crowdwise.trust.compare.fitting import Outcome, Task
from crowdwise.trust.compare.processes import run_all
from crowdwise.trust.compare.worker import peak_memory
from crowdwise.trust.heldout import deal

pytestmark = pytest.mark.slow
VOTES = Annotations.from_arrays(np.repeat(range(8), 3), ["x", "y", "z"] * 8, [0, 0, 1, 1, 1, 1] * 4)
TASK = Task(VOTES, deal(VOTES, 2, 0))
UNTIL = 20.0


def outcomes(*estimators: Any, **options: Any) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    run_all(estimators, TASK, done=lambda outcome: found.update({outcome.method: outcome}), **{"jobs": 2} | options)
    return found


def test_processes_change_no_number() -> None:
    campaign = demo()
    methods = ["majority", "ebcc"]
    options: dict[str, Any] = {"random_state": 3, "folds": 3, "n_resamples": 200}
    here = comparison(campaign.votes, campaign.gold, methods, **options)
    # Side by side; one at a time differs in nothing but when a process starts.
    found = comparison(campaign.votes, campaign.gold, methods, jobs=2, **options)
    assert found.wide().drop("seconds", "memory_mb").equals(here.wide().drop("seconds", "memory_mb"))
    assert found.agreement.equals(here.agreement)
    # Python with numpy and polars is not smaller, and a hundred items do not make it large.
    assert found.table["memory_mb"].is_between(30, 2000).all()


def test_votes_keep_their_kind_on_the_way_to_a_process(tmp_path: Path) -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 12)
    soft = Annotations.from_probabilities(np.repeat(range(4), 3), ["x", "y", "z"] * 4, shares, classes=["a", "b", "c"])
    nameless = AnonymousVotes.from_arrays([0, 0, 1], [0, 1, 2], ["a", "b", "a"])
    for name, votes in (("soft", soft), ("anonymous", nameless), ("plain", VOTES)):
        (tmp_path / name).mkdir()
        write_task(Task(votes), tmp_path / name)
        again = read_task(tmp_path / name).votes
        assert (again.soft, again.anonymous) == (name == "soft", name == "anonymous")
        assert again.n_annotators == votes.n_annotators


def test_every_bad_end_is_an_outcome() -> None:
    late = outcomes(SleepsLater(VOTES.n_votes), Sleeps(), jobs=2, time_limit=8)
    assert late["sleeps"].error == "stopped at the time limit of 8 s"
    assert late["sleeps-later"].error == "held-out votes: stopped at the time limit of 8 s"
    ends = outcomes(Dies(), Leaves(), DiesLater(VOTES.n_votes), Fails())
    assert ends["fails"].error == "no luck"
    assert ends["dies-later"].error == "held-out votes: ended by SIGKILL; perhaps it was out of memory"
    for outcome in (late["sleeps-later"], ends["dies-later"]):
        assert outcome.posterior is not None
        assert outcome.posterior.shape == (8, 2)
        assert outcome.seconds is not None
        assert outcome.log_prob is None
    assert ends["dies"].error == "ended by SIGKILL; perhaps it was out of memory"
    assert ends["leaves"].error == "its process ended with code 3: the last words"


def test_settings_that_cannot_travel_are_refused() -> None:
    with pytest.raises(SettingError, match="jobs=None"):
        compare(VOTES, methods=["mace"], settings={"mace": {"class_prior": lambda: None}}, jobs=1)


def test_warnings_come_back_under_their_method() -> None:
    votes = Annotations.from_arrays([1, 2], ["x", "x"], ["a", "a"])
    with pytest.warns(DataWarning, match="majority: only one class"):
        compare(votes, {1: "a"}, ["majority"], jobs=1)


def test_an_interrupt_ends_all_processes_and_removes_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started: list[subprocess.Popen[bytes]] = []
    start = processes._start
    monkeypatch.setattr(processes, "_start", lambda *given: started.append(start(*given)) or started[-1])

    def interrupt(*step: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcomes(Sleeps(), Fails(), progress=interrupt)
    assert len(started) == 2
    assert started[0].returncode == -signal.SIGKILL
    # The one that fails may have come to its end before it was ended.
    assert started[1].returncode in (0, -signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_a_process_starts_comes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = processes._start

    def interrupted(*given: Any) -> subprocess.Popen[bytes]:
        process = start(*given)
        started.append(process)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(processes, "_start", interrupted)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        outcomes(Sleeps(), Fails())
    assert [process.returncode for process in started] == [-signal.SIGKILL]
    assert signal.getsignal(signal.SIGINT) is before


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.trust.compare.stand_ins import Sleeps
from tests.trust.compare.test_processes import TASK
from crowdwise.trust.compare import processes
start = processes._start
def tell(*given):
    process = start(*given)
    print(process.pid, flush=True)
    return process
processes._start = tell
processes.run_all([Sleeps()], TASK, jobs=1, done=print)
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups there")
def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = SCRIPT.format(root=str(Path(__file__).resolve().parents[2]))
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    # Give it time to start watching.
    time.sleep(1)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    end = time.monotonic() + UNTIL
    while time.monotonic() < end and _alive(child):
        time.sleep(0.05)
    assert not _alive(child)


def _alive(process: int) -> bool:
    try:
        # A zombie that nobody waits for is dead enough.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from crowdwise.trust.compare import compare\nfrom crowdwise.data.datasets import demo\n"
        "print(compare(demo().votes, methods=['majority'], jobs=2, folds=0)['error'].to_list())\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[None]\n", 0), done.stderr


@pytest.mark.parametrize("kind", ["array", "file", "slice of a file", "frame", "sparse"])
def test_votes_and_features_arrive_as_they_were_sent(kind: str, tmp_path: Path) -> None:
    X = np.arange(20.0).reshape(10, 2)
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    given: Any = {
        "array": X,
        "file": on_disk,
        "slice of a file": on_disk[2:],
        "frame": pl.DataFrame(X, schema=["a", "b"], orient="row"),
        "sparse": scipy.sparse.csr_array(X),
    }[kind]
    folder = tmp_path / "task"
    folder.mkdir()
    weighted = Annotations.from_arrays([5, 5, 7], ["ä", "b", "b"], ["<script>", "=cmd()", "=cmd()"], [1.0, 0.5, 2.0])
    write_task(Task(weighted, np.array([0, 1, -1]), given, np.array([4, 0])), folder)
    task = read_task(folder)
    assert task.votes.annotators.tolist() == ["b", "ä"]
    assert task.votes.classes.tolist() == ["<script>", "=cmd()"]
    assert task.votes.items.tolist() == [0, 1]
    for name in ("item_ptr", "annotator", "label", "weight"):
        np.testing.assert_array_equal(getattr(task.votes, name), getattr(weighted, name))
    assert task.fold is not None
    assert task.fold.tolist() == [0, 1, -1]
    assert task.row is not None
    assert task.row.tolist() == [4, 0]
    assert type(task.features) is {"array": np.memmap, "file": np.memmap, "slice of a file": np.memmap}.get(kind, type(given))
    dense = task.features.toarray() if kind == "sparse" else np.asarray(task.features)
    np.testing.assert_array_equal(dense, X[2:] if kind == "slice of a file" else X)
    # What is in a file already is not written again.
    assert (folder / "features.npy").exists() == (kind in ("array", "slice of a file"))


def test_features_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="jobs=None"):
        write_task(Task(VOTES, None, np.array([["a"]] * 8), np.arange(8)), tmp_path)


def test_the_peak_grows_with_what_is_held() -> None:
    before = peak_memory()
    block = np.ones(30_000_000)
    after = peak_memory()
    assert block.sum() == 30_000_000
    assert before is not None
    assert after is not None
    assert after >= before
    assert after >= 240
