"""Campaigns that are killed and go on: nothing lost, nothing doubled."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.strategies import edges

from crowdwise.campaign.journal import JOURNAL, SNAPSHOT
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.policies import policy_of
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.methods.labels.bayes_gc import BayesGC

ITEMS, PEOPLE, CLASSES = [f"i{n}" for n in range(8)], ["x", "y", "z"], ["cat", "dog"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9 is a thing of POSIX")


def begin(path: Path, **options: Any) -> ActiveLoop:
    given: dict[str, Any] = {"items": ITEMS, "annotators": PEOPLE, "classes": CLASSES, "path": path} | options
    return ActiveLoop(BayesGC(), **given)


def answers(questions: pl.DataFrame, label: str = "cat") -> pl.DataFrame:
    return questions.select("item", "annotator").with_columns(label=pl.lit(label))


def books(loop: ActiveLoop) -> tuple[Any, ...]:
    return edges(loop.votes), loop.open.rows()


# -- resuming -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_resumed_campaign_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    endless, path = begin(tmp_path / "a", capacity={"x": 5, "y": 9, "z": 9}, per_item=2), tmp_path / "b"
    begin(path, capacity={"x": 5, "y": 9, "z": 9}, per_item=2)
    for label in ("cat", "dog", "cat"):
        stopped = ActiveLoop.load(path, BayesGC())
        questions = endless.ask(6)
        assert stopped.ask(6).equals(questions)
        for loop in (endless, stopped):
            loop.tell(answers(questions[:4], label))
            loop.withdraw(questions[4:5])
            loop.extend(annotators=[f"late-{label}"])
        assert books(stopped) == books(endless) == books(ActiveLoop.load(path, BayesGC()))


def test_everything_of_the_start_is_kept(tmp_path: Path) -> None:
    frame = {"item": [7, 7, 8], "annotator": ["x", "y", "x"], "label": [1, 0, 1]}
    votes = Annotations.from_arrays(*frame.values(), weight=[1.0, 0.5, 2.0]).with_gold({8: 1})
    allowed = Annotations.from_arrays([7, 9], ["w", "w"], [0, 1])
    options: dict[str, Any] = {"items": [9, 7], "capacity": {"w": 2, "x": 0}, "cost": {"w": 2.0}, "allowed": allowed}
    begun = ActiveLoop(BayesGC(), "error-reduction", votes, path=tmp_path, explore=0.5, random_state=4, **options)
    later = ActiveLoop.load(tmp_path, BayesGC())
    assert later.votes.to_frame().equals(begun.votes.to_frame())
    assert later.votes.items.tolist() == begun.votes.items.tolist()
    assert later.votes.gold is not None
    assert later.votes.gold.tolist() == begun.votes.gold.tolist()  # type: ignore[union-attr]
    asked = begun.ask(4)
    assert set(asked.select("item", "annotator").rows()) == {(7, "w"), (9, "w")}
    assert asked["cost"].to_list() == [2.0, 2.0]
    assert later.result.posterior == pytest.approx(begun.result.posterior)


def test_tokens_are_remembered(tmp_path: Path) -> None:
    begin(tmp_path, repeats=True).tell({"item": ["i0"], "annotator": ["x"], "label": ["cat"]}, token="monday")
    later = ActiveLoop.load(tmp_path, BayesGC())
    with pytest.warns(DataWarning, match="taken before"):
        assert later.tell({"item": ["i0"], "annotator": ["x"], "label": ["cat"]}, token="monday") == 0


def test_features_and_a_policy_of_your_own_are_given_again(tmp_path: Path) -> None:
    own = policy_of("entropy+ucb")
    begin(tmp_path, policy=own, features=np.arange(8.0)[:, None])
    with pytest.raises(SettingError, match="a policy of your own"):
        ActiveLoop.load(tmp_path, BayesGC())
    assert ActiveLoop.load(tmp_path, BayesGC(), policy=own, features=np.arange(8.0)[:, None]).ask(3).height == 3


def test_what_was_known_of_annotators_is_kept(tmp_path: Path) -> None:
    votes = Annotations.from_arrays(["p", "q"], ["x", "y"], ["cat", "dog"])
    model = BayesGC().fit(votes, history={"x": [[40, 5], [3, 50]], "y": (50, 50)})
    begun = ActiveLoop(model, items=["r", "p"], explore=0, path=tmp_path)
    later = ActiveLoop.load(tmp_path, BayesGC())
    assert later.result.history == pytest.approx(begun.result.history)
    # x, who was mostly right before, is asked; without the history nothing speaks for either.
    assert later.result.confusion == pytest.approx(begun.result.confusion)
    assert later.ask(1)["annotator"].to_list() == ["x"]


def test_items_that_came_later_have_their_rows_after_those_of_the_start(tmp_path: Path) -> None:
    from tests.campaign.test_loop import Nearest

    rows = np.arange(1.0, 11.0)[:, None]
    options: dict[str, Any] = {"items": ITEMS, "annotators": PEOPLE, "classes": CLASSES, "path": tmp_path}
    loop = ActiveLoop(Nearest(), "predictive-entropy+accuracy", features=rows[:8], **options)
    loop.tell(answers(loop.ask(8)))
    loop.extend(items=["new1"], features=rows[8:9])
    loop.extend(items=["new2"], features=rows[9:])
    later = ActiveLoop.load(tmp_path, Nearest(), features=rows)
    assert later.result.votes.items.tolist() == [*ITEMS, "new1", "new2"]
    assert later.result.posterior == pytest.approx(loop.result.posterior)
    assert set(later.ask(10)["item"].to_list()) == {*ITEMS, "new1", "new2"}
    with pytest.raises(InputError, match="no features of 2 items that came later, such as 'new1'"):
        ActiveLoop.load(tmp_path, Nearest(), features=rows[:8])


def test_a_campaign_is_never_begun_over_another(tmp_path: Path) -> None:
    begin(tmp_path).tell({"item": ["i0"], "annotator": ["x"], "label": ["cat"]})
    with pytest.raises(SettingError, match="holds a campaign already"):
        begin(tmp_path)
    (tmp_path / SNAPSHOT).unlink()
    with pytest.raises(SettingError, match="journal of another campaign"):
        begin(tmp_path)


def test_two_at_once_are_noticed_before_anything_is_written(tmp_path: Path) -> None:
    first, second = begin(tmp_path), ActiveLoop.load(tmp_path, BayesGC())
    first.tell({"item": ["i0"], "annotator": ["x"], "label": ["cat"]})
    with pytest.raises(InputError, match="another process has continued"):
        second.tell({"item": ["i1"], "annotator": ["x"], "label": ["dog"]})
    assert second.votes.n_votes == 0
    assert edges(ActiveLoop.load(tmp_path, BayesGC()).votes) == [("i0", "x", "cat")]


def test_foreign_and_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no campaign here"):
        ActiveLoop.load(tmp_path, BayesGC())
    (tmp_path / SNAPSHOT).write_bytes(b"no zip")
    with pytest.raises(InputError, match="not a campaign that this version"):
        ActiveLoop.load(tmp_path, BayesGC())


# -- broken off ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_line_cut_off_anywhere_is_as_if_it_had_not_been_told(tmp_path: Path) -> None:
    loop = begin(tmp_path)
    loop.tell({"item": ["i0"], "annotator": ["x"], "label": ["cat"]})
    journal = tmp_path / JOURNAL
    before = journal.read_bytes()
    loop.tell({"item": ["i1", "i2"], "annotator": ["x", "y"], "label": ["dog", "cat"]})
    after = journal.read_bytes()
    for size in range(len(before), len(after)):
        journal.write_bytes(after[:size])
        torn = ActiveLoop.load(tmp_path, BayesGC())
        assert edges(torn.votes) == [("i0", "x", "cat")]
    # The next line takes the place of the torn one.
    torn.tell({"item": ["i3"], "annotator": ["z"], "label": ["dog"]})
    assert edges(ActiveLoop.load(tmp_path, BayesGC()).votes) == [("i0", "x", "cat"), ("i3", "z", "dog")]


def test_damage_in_the_middle_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    loop = begin(tmp_path)
    for item in ITEMS[:3]:
        loop.tell({"item": [item], "annotator": ["x"], "label": ["cat"]})
    journal = tmp_path / JOURNAL
    journal.write_bytes(journal.read_bytes().replace(b'"i1"', b'"i7"'))
    with pytest.raises(InputError, match=r"journal\.txt line 2: damaged"):
        ActiveLoop.load(tmp_path, BayesGC())


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = begin(tmp_path)
    loop.tell({"item": ["i0"], "annotator": ["x"], "label": ["cat"]})
    size = (tmp_path / JOURNAL).stat().st_size

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("crowdwise.campaign.journal.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            loop.tell({"item": ["i1"], "annotator": ["x"], "label": ["cat"]})
    assert (tmp_path / JOURNAL).stat().st_size == size
    assert loop.votes.n_votes == 1
    assert loop.tell({"item": ["i1"], "annotator": ["x"], "label": ["cat"]}) == 1


WORKER = """
import os, signal, sys, warnings
warnings.simplefilter("ignore")
from crowdwise.campaign import journal
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.methods.labels.bayes_gc import BayesGC

path, first, n_votes, moment = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
write, die = os.write, lambda: os.kill(os.getpid(), signal.SIGKILL)

def at_write(file, data):
    if moment == "before":
        die()
    if moment == "half":
        write(file, bytes(data)[: len(data) // 2])
        die()
    done = write(file, data)
    if moment == "after":
        die()
    return done

def begin():
    items, people = [f"i{n}" for n in range(100)], [f"a{n}" for n in range(10)]
    return ActiveLoop(BayesGC(), items=items, annotators=people, classes=["cat", "dog"], path=path, repeats=True)

if moment == "start":
    journal.os.replace = lambda *_: die()
    import crowdwise.io.writer
    crowdwise.io.writer.os.replace = lambda *_: die()
try:
    loop = ActiveLoop.load(path, BayesGC())
except Exception:
    loop = begin()
print("ready", flush=True)
for k in range(first, n_votes):
    if moment != "none" and k == first + 2:
        journal.os.write = at_write
    loop.tell({"item": [f"i{k % 100}"], "annotator": [f"a{k % 10}"], "label": ["cat" if k % 3 else "dog"]}, token=str(k))
    os.write(1, f"told {k}\\n".encode()) if moment == "none" else print("told", k, flush=True)
print("done", flush=True)
"""


def expected(n_votes: int) -> list[tuple[str, str, str]]:
    return sorted(((f"i{k % 100}", f"a{k % 10}", "cat" if k % 3 else "dog") for k in range(n_votes)), key=repr)


def worker(path: Path, first: int, n_votes: int, moment: str = "none") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(path), str(first), str(n_votes), moment]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def last_told(output: str, before: int) -> int:
    """The first vote that the caller does not know to have arrived; a killed worker may leave half a line."""
    told = [line for line in output.splitlines(keepends=True) if line.startswith("told") and line.endswith("\n")]
    return int(told[-1].split()[1]) + 1 if told else before


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "arrived"), [("before", 2), ("half", 2), ("after", 3)])
def test_a_process_killed_while_it_writes(tmp_path: Path, moment: str, arrived: int) -> None:
    killed = worker(tmp_path / "c", 0, 10, moment)
    output, problem = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, problem
    assert last_told(output, 0) == 2
    assert ActiveLoop.load(tmp_path / "c", BayesGC()).votes.n_votes == arrived
    # The caller tells again what it does not know to have arrived.
    again = worker(tmp_path / "c", 2, 10)
    _, problem = again.communicate(timeout=60)
    assert again.returncode == 0, problem
    assert edges(ActiveLoop.load(tmp_path / "c", BayesGC()).votes) == expected(10)


@pytest.mark.slow
def test_a_process_killed_while_it_begins_leaves_no_campaign(tmp_path: Path) -> None:
    killed = worker(tmp_path / "c", 0, 3, "start")
    _, problem = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, problem
    with pytest.raises(InputError, match="no campaign here"):
        ActiveLoop.load(tmp_path / "c", BayesGC())
    assert begin(tmp_path / "c").ask(2).height == 2


@pytest.mark.slow
def test_processes_killed_at_random_moments_lose_and_double_nothing(tmp_path: Path) -> None:
    n_votes, first, kills = 3000, 0, 0
    dice = random.Random(0)
    while kills < 3:
        running = worker(tmp_path / "c", first, n_votes)
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        # On a busy machine no process may have got anywhere yet; the last one is killed at work.
        begun = running.stdout.readline() if kills == 2 and not first else ""
        time.sleep(dice.uniform(0, 0.15))
        running.kill()
        output, problem = running.communicate(timeout=60)
        assert running.returncode in (0, -signal.SIGKILL), problem
        known = last_told(begun + output, first)
        present = ActiveLoop.load(tmp_path / "c", BayesGC()).votes.n_votes
        # What the caller knows of is there; at most the one vote that was on its way may be there as well.
        assert known <= present <= known + 1
        first, kills = known, kills + 1
    assert first > 0
    end = first + 20
    last = worker(tmp_path / "c", first, end)
    _, problem = last.communicate(timeout=60)
    assert last.returncode == 0, problem
    assert edges(ActiveLoop.load(tmp_path / "c", BayesGC()).votes) == expected(end)
