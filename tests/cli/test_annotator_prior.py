"""--annotator-prior on the command line, and the disagreement of networks in predictions."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import ROWS, Run

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import classifiers, label_methods

ALL_METHODS = {**label_methods(), **classifiers()}

pytest.importorskip("torch")

N = 40
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 2, N)
X = RNG.normal(size=(N, 3)) + 2.0 * TRUTH[:, None]
CLASSES = np.array(["cat", "dog"])
FAST = ["--set", "epochs=3", "--set", "warmup=1", "--set", "hidden=8"]


@pytest.fixture
def files(folder: Path) -> Path:
    """votes.csv of three annotators on forty photos, the last of whom is wrong half of the time, and X.npz."""
    rows = [f"photo-{n},{who},{CLASSES[TRUTH[n] ^ slip]}" for n in range(N) for who, slip in (("x", 0), ("y", 0), ("z", n % 2))]
    (folder / "votes.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    np.savez(folder / "X.npz", X=X, items=np.array([f"photo-{n}" for n in range(N)]))
    return folder


def table(text: str) -> pl.DataFrame:
    return pl.read_csv(text.encode())


def train(run: Run, method: str, *more: str, **options: Any) -> Any:
    return run("train", "votes.csv", "--features", "X.npz", "--method", method, *FAST, *more, **options)


# -- aggregate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["mean-field", "belief-propagation"])
def test_aggregate_uses_the_prior(run: Run, method: str) -> None:
    frame = table(run("aggregate", "votes.csv", "-m", method, "--annotator-prior", "beta:8,3").stdout)
    lines = [line.split(",") for line in ROWS.split()[1:]]
    cls = {"mean-field": crowdwise.MeanField, "belief-propagation": crowdwise.BeliefPropagation}[method]
    votes = Annotations.from_arrays(*map(list, zip(*lines, strict=True)))
    expected = cls(annotator_prior="beta:8,3").fit(votes).posterior_
    np.testing.assert_allclose(frame.select("p(cat)", "p(dog)").to_numpy(), expected, atol=1e-6)
    default = table(run("aggregate", "votes.csv", "-m", method).stdout)
    assert not default.equals(frame)


def test_the_option_is_the_setting(run: Run) -> None:
    option = run(
        "aggregate", "votes.csv", "-m", "mean-field", "--annotator-prior", "dir:3,1", "--set", "family=confusion"
    ).stdout
    setting = run(
        "aggregate", "votes.csv", "-m", "mean-field", "--set", "annotator_prior=dirichlet:3,1", "--set", "family=confusion"
    ).stdout
    assert option == setting


def test_other_commands_that_fit_take_it_too(run: Run) -> None:
    document = json.loads(
        run("aggregate", "votes.csv", "-m", "mean-field", "--annotator-prior", "spammer-hammer:0.5", "--json").stdout
    )
    assert document["settings"]["annotator_prior"] == "spammer-hammer:0.5"
    assert run("annotators", "votes.csv", "-m", "mean-field", "--annotator-prior", "beta:9,1").stdout


# -- train -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bayes-dgc", "deep-mf", "deep-bp"])
def test_train_uses_the_prior(run: Run, files: Path, method: str) -> None:
    document = json.loads(train(run, method, "--annotator-prior", "dir:9,1", "--json").stdout)
    assert (document["method"], document["settings"]["annotator_prior"]) == (method, "dir:9,1")
    assert [row["label"] for row in document["labels"]] == CLASSES[TRUTH].tolist()
    plain, strong = (train(run, method, "--annotator-prior", prior).stdout for prior in ("dir:2,1", "dir:9000,1000"))
    assert plain != strong


@pytest.mark.slow
@pytest.mark.parametrize("method", ["bayes-dgc", "deep-mf", "deep-bp"])
def test_a_strong_prior_shows_in_the_annotators(run: Run, files: Path, method: str) -> None:
    """Forty votes against a thousand: everybody is right nine times in ten."""
    train(run, method, "--annotator-prior", "dir:9000,1000", "--annotators", "people.csv", "-o", "labels.csv")
    np.testing.assert_allclose(pl.read_csv(files / "people.csv")["accuracy"], 0.9, atol=0.03)


@pytest.mark.slow
def test_what_was_trained_predicts_with_votes(run: Run, files: Path) -> None:
    train(run, "deep-mf", "--annotator-prior", "beta:4,1", "--save", "model", "-o", "labels.csv")
    again = table(run("predict", "model", "--features", "X.npz", "--votes", "votes.csv").stdout)
    labels = pl.read_csv(files / "labels.csv")
    np.testing.assert_allclose(again["p(cat)"], labels["p(cat)"], atol=1e-9)


# -- refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["2,1", "dir:2", "dir", "beta:0,1", "dirichlt:2,1", "beta:a,b", "", "spammer-hammer:2"])
def test_a_prior_that_cannot_be_read_is_refused(run: Run, files: Path, prior: str) -> None:
    for result in (
        run("aggregate", "votes.csv", "-m", "mean-field", "--annotator-prior", prior, code=2),
        train(run, "deep-bp", "--annotator-prior", prior, code=2),
    ):
        assert "--annotator-prior: annotator_prior must be like 'beta:2,1'" in " ".join(result.stderr.split())
        assert result.stdout == ""


def test_methods_without_such_a_prior_say_who_has_one(run: Run, files: Path) -> None:
    for result in (
        run("aggregate", "votes.csv", "--annotator-prior", "beta:2,1", code=2),
        run("aggregate", "votes.csv", "-m", "bayes-gc", "--annotator-prior", "beta:2,1", code=2),
        train(run, "ccem", "--annotator-prior", "beta:2,1", code=2),
    ):
        said = " ".join(result.stderr.split())
        assert "--annotator-prior: this method has no such prior; " in said
        named = said.partition("no such prior; ")[2].removesuffix(" have").split(", ")
        having = [name for name, method in ALL_METHODS.items() if "annotator_prior" in {f.name for f in fields(method.cls)}]
        assert sorted(named) == sorted(having)
        assert {"mean-field", "deep-bp"} <= set(named)


def test_two_ways_to_say_the_same_are_refused(run: Run, files: Path) -> None:
    result = train(run, "deep-mf", "--annotator-prior", "dir:2,1", "--set", "annotator_prior=dir:2,20", code=2)
    assert "--annotator-prior and --set annotator_prior= say the same thing" in " ".join(result.stderr.split())


@pytest.mark.slow
def test_a_prior_worse_than_chance_is_said_to_be_one(run: Run, files: Path) -> None:
    result = train(run, "deep-mf", "--annotator-prior", "dir:1,2", "-o", "labels.csv")
    assert "no better than chance among 2 classes: labels may come out swapped" in " ".join(result.stderr.split())


def test_bayes_dgc_refuses_other_priors_than_dirichlets(run: Run, files: Path) -> None:
    result = train(run, "bayes-dgc", "--annotator-prior", "beta:2,1", code=2)
    assert "annotator_prior must be like 'dir:5,2'; got 'beta:2,1'" in " ".join(result.stderr.split())


def test_a_saved_result_takes_no_prior(run: Run) -> None:
    run("aggregate", "votes.csv", "-m", "mean-field", "--save", "model", "-o", "labels.csv")
    result = run("annotators", "model", "--annotator-prior", "beta:2,1", code=2)
    assert "is a saved result" in result.stderr


def test_help_tells_of_it(run: Run) -> None:
    for command in ("train", "aggregate"):
        assert "--annotator-prior" in run(command, "--help", env={"COLUMNS": "200"}).stdout


# -- disagreement ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("settings", [["members=2"], ["dropout_passes=4", "dropout=0.4"]])
def test_predictions_of_several_answers_have_a_column_of_disagreement(run: Run, files: Path, settings: list[str]) -> None:
    given = [part for one in settings for part in ("--set", one)]
    train(run, "deep-mf", *given, "--save", "model", "-o", "labels.csv")
    frame = table(run("predict", "model", "--features", "X.npz").stdout)
    assert frame.columns == ["item", "label", "confidence", "p(cat)", "p(dog)", "disagreement"]
    expected = crowdwise.load(files / "model").uncertainty(X)
    np.testing.assert_allclose(frame["disagreement"], expected.disagreement, atol=1e-6)
    np.testing.assert_allclose(frame["p(dog)"], expected.probability[:, 1], atol=1e-6)
    assert frame["disagreement"].max() > 0
    document = json.loads(run("predict", "model", "--features", "X.npz", "--json").stdout)
    assert [row["disagreement"] for row in document["labels"]] == pytest.approx(expected.disagreement.tolist(), abs=1e-9)


def test_rows_on_disk_are_predicted_with_it_too(run: Run, files: Path) -> None:
    train(run, "deep-mf", "--set", "members=2", "--save", "model", "-o", "labels.csv")
    np.save(files / "X.npy", X)
    frame = table(run("predict", "model", "--features", "X.npy").stdout)
    other = table(run("predict", "model", "--features", "X.npz").stdout)
    np.testing.assert_allclose(frame["disagreement"], other["disagreement"], atol=1e-9)


def test_one_answer_has_no_such_column(run: Run, files: Path) -> None:
    train(run, "deep-mf", "--save", "model", "-o", "labels.csv")
    assert "disagreement" not in table(run("predict", "model", "--features", "X.npz").stdout).columns
