"""A thousand cases of the fuzzer; `python -m tests.fuzz --cases 1000000` tries more of them."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from crowdwise.errors import InputError
from tests.fuzz import runner
from tests.fuzz.mutate import mutate
from tests.fuzz.runner import run_cases
from tests.fuzz.targets import Finding, attack
from tests.fuzz.worker import case


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="limits memory as POSIX does")
def test_a_thousand_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    assert run_cases(seed=0, start=0, stop=1000, jobs=1, folder=tmp_path) == []


def test_a_case_is_the_same_whenever_it_is_drawn() -> None:
    seeds = {"a.csv": b"item,annotator,label\n1,2,3\n", "b.json": b'[{"item": 1}]'}
    first, again = case(3, 14, seeds), case(3, 14, seeds)
    assert first[:3] == again[:3]
    assert first[3].random() == again[3].random()
    assert len({mutate("a.csv", seeds["a.csv"], random.Random(n)) for n in range(50)}) > 30


def test_what_is_no_error_of_ours_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tidy.csv"
    path.write_text("item,annotator,label\na,x,cat\n")
    assert attack(path, "tidy.csv", random.Random(0)) == "read"

    def say(*_: object, **__: object) -> None:
        problem = InputError("short")
        problem.args = ("x" * 2000,)
        raise problem

    monkeypatch.setattr("tests.fuzz.targets.read", say)
    with pytest.raises(Finding, match="2,000 characters"):
        attack(path, "tidy.csv", random.Random(0))


WORKER = """
import os, sys, time
from pathlib import Path
seed, start, stop, step, folder = *map(int, sys.argv[1:5]), Path(sys.argv[5])
for index in range(start, stop, step):
    (folder / f"at-{start % step}").write_text(str(index))
    if index == 2:
        time.sleep(60)
    if index == 4:
        os._exit(3)
(folder / f"at-{start % step}").write_text(str(stop))
"""


@pytest.mark.slow
def test_hangs_and_deaths_are_noted_and_the_rest_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tests" / "fuzz"
    package.mkdir(parents=True)
    (tmp_path / "tests" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "worker.py").write_text(WORKER)
    monkeypatch.setattr(runner, "_ROOT", tmp_path)
    monkeypatch.setattr(runner, "LONGEST", 1.0)
    monkeypatch.setattr(runner, "_PATIENCE", 2)
    started = time.monotonic()
    found = run_cases(seed=0, start=0, stop=6, jobs=1, folder=tmp_path / "out")
    assert [(each["case"], each["what"][:5]) for each in found] == [(2, "hung "), (4, "ended")]
    assert (tmp_path / "out" / "at-0").read_text() == "6"
    # A run that is stopped while a process starts continues there, and one that is done has nothing to do.
    (tmp_path / "out" / "at-0").unlink()
    assert (tmp_path / "out" / "from-0").read_text() == "5"
    assert len(run_cases(seed=0, start=0, stop=6, jobs=1, folder=tmp_path / "out")) == 2
    assert time.monotonic() - started < 30
