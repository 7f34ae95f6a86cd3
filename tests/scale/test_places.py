"""Which engine runs, and what is said where it is interrupted."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from crowdwise.data.simulate import simulate
from crowdwise.errors import ConvergenceWarning
from crowdwise.estimator.registry import make
from crowdwise.io import write_table
from crowdwise.scale.places import running
from crowdwise.scale.processes import resumable

RESUMES = "the same command resumes there"


def interrupted(work_dir: Path | None) -> str:
    with pytest.raises(KeyboardInterrupt) as stop, running("local", shards=2, work_dir=work_dir, address=None):
        raise KeyboardInterrupt
    return str(stop.value)


def test_an_interrupted_engine_says_what_its_folder_keeps(tmp_path: Path) -> None:
    assert interrupted(None) == ""
    assert interrupted(tmp_path) == f"{tmp_path} keeps nothing yet; {RESUMES}"
    (tmp_path / "store.json").write_text("{}")
    assert interrupted(tmp_path) == f"{tmp_path} keeps the encoded votes and the last iteration; {RESUMES}"


def test_an_interrupted_training_says_what_its_checkpoint_keeps(tmp_path: Path) -> None:
    file = tmp_path / "run.safetensors"
    for checkpoint in (None, file):
        with pytest.raises(KeyboardInterrupt) as stop, resumable(checkpoint):
            raise KeyboardInterrupt
        assert str(stop.value) == ""
    file.write_bytes(b"")
    with (
        pytest.raises(KeyboardInterrupt, match=f"run.safetensors keeps the epochs that were finished; {RESUMES}"),
        resumable(file),
    ):
        raise KeyboardInterrupt


def test_a_resumed_fit_knows_its_first_round(tmp_path: Path) -> None:
    votes = tmp_path / "votes.csv"
    write_table(simulate(n_items=60, n_annotators=5, n_classes=3, random_state=0).votes.to_frame(), votes)

    def first(max_iter: int) -> int | None:
        with running("local", shards=2, work_dir=tmp_path / "work", address=None) as engine, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            make("dawid-skene", max_iter=max_iter, tol=1e-12).fit(engine.encode([str(votes)]), engine=engine)
            return engine.first_round

    assert first(3) == 1
    assert first(5) == 4
    assert first(5) is None
