"""`--method auto` and `--explain-choice` on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd
from tests.trust.choice.test_auto import biased_crowd
from typer.testing import CliRunner

import crowdwise
from crowdwise.cli.app import app

# tests/trust/choice/test_auto.py lets it choose among all.
AMONG = ["--method", "auto", "--set", "methods=majority,dawid-skene,mace"]


def run(*words: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def votes_file(tmp_path: Path) -> str:
    biased_crowd()[0].to_frame().write_csv(tmp_path / "votes.csv")
    return str(tmp_path / "votes.csv")


@pytest.mark.slow
def test_aggregate_says_what_it_chose_and_explains_it(votes_file: str, tmp_path: Path) -> None:
    model = str(tmp_path / "model")
    code, out, err = run("aggregate", votes_file, *AMONG, "--explain-choice", "--save", model)
    assert code == 0
    assert out.startswith("item,label")
    loaded = crowdwise.load(model)
    assert f"chose {loaded.reason_}" in " ".join(err.split())
    for name in loaded.choice_["method"]:
        assert name in err
    assert "difference" not in out


@pytest.mark.slow
def test_quiet_says_nothing_of_the_choice(votes_file: str) -> None:
    assert "chose" not in run("aggregate", votes_file, *AMONG, "--quiet")[2]


def test_there_is_nothing_to_explain_where_nothing_is_chosen(votes_file: str) -> None:
    code, _, err = run("aggregate", votes_file, "--method", "majority", "--explain-choice")
    assert code != 0
    assert "--method auto" in err


def test_train_chooses_a_classifier(tmp_path: Path) -> None:
    votes, truth = crowd(0, 60, diagonal_crowd(4, 2, 0.85))
    votes.to_frame().write_csv(tmp_path / "votes.csv")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "X.npz", X=truth[:, None] * 3 + rng.normal(size=(60, 3)), items=np.arange(60))
    words = [str(tmp_path / "votes.csv"), "--features", str(tmp_path / "X.npz"), "--method", "auto", "--explain-choice"]
    code, _, err = run("train", *words)
    assert code == 0
    assert "chose raykar (classifier=gaussian), without comparing methods: only 60 items" in " ".join(err.split())
