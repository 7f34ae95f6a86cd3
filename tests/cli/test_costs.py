"""``--costs`` and ``--abstain`` of every ``crowdwise aggregate``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

import crowdwise

COSTS = "true,label,cost\ncat,dog,1\ndog,cat,5\n"


@pytest.fixture
def costs(folder: Path) -> Path:
    (folder / "costs.csv").write_text(COSTS)
    return folder


@pytest.mark.parametrize("method", ["majority", "dawid-skene", "consensus"])
def test_labels_are_those_that_cost_least(run: Run, costs: Path, method: str) -> None:
    run("aggregate", "votes.csv", "-m", method, "--costs", "costs.csv", "--abstain", "0.7", "-o", "labels.csv", "--save", "m")
    written = pl.read_csv(costs / "labels.csv")
    expected = crowdwise.load(costs / "m").result_.decide(pl.read_csv(costs / "costs.csv"), abstain=0.7)
    assert written["label"].to_list() == expected["label"].to_list()
    assert written["expected_cost"].to_list() == pytest.approx(expected["expected_cost"].to_list(), rel=1e-4)
    assert written.columns[:4] == ["item", "label", "confidence", "expected_cost"]


def test_abstaining_alone_counts_every_mistake_as_one(run: Run, costs: Path) -> None:
    result = run("aggregate", "votes.csv", "-m", "majority", "--abstain", "0", "--json", "--set", "confidence=model")
    facts = json.loads(result.stdout)
    # Only c is unanimous.
    assert [row["label"] for row in facts["labels"]] == [None, None, "cat", None]
    assert facts["n_abstained"] == 3
    assert "3 items without a label by --abstain" in result.stderr
    assert "most expensive" not in result.stderr


def test_what_was_not_asked_for_is_not_spoken_of(run: Run, costs: Path) -> None:
    said = run("aggregate", "votes.csv", "-m", "majority", "--costs", "costs.csv", "-o", "labels.csv").stderr
    assert "--abstain" not in said
    assert "the most expensive mistake is to label an item cat that is dog: 5" in said


def test_shards_write_the_same_labels(run: Run, costs: Path) -> None:
    options = ["--costs", "costs.csv", "--abstain", "0.7", "-m", "dawid-skene"]
    run("aggregate", "votes.csv", *options, "-o", "here.csv")
    run("aggregate", "votes.csv", *options, "-o", "there.csv", "--engine", "local", "--shards", "2")
    here, there = (pl.read_csv(costs / name).sort("item") for name in ("here.csv", "there.csv"))
    assert here["label"].to_list() == there["label"].to_list()
    assert here["expected_cost"].to_list() == pytest.approx(there["expected_cost"].to_list(), rel=1e-4)


def test_ordered_classes_and_votes_against_classes_have_costs_too(run: Run, costs: Path) -> None:
    for kind in ("ordinal", "partial"):
        more = ["--classes", "cat,dog"] if kind == "ordinal" else []
        run("aggregate", "votes.csv", "--type", kind, *more, "--costs", "costs.csv", "-o", "labels.csv")
        assert pl.read_csv(costs / "labels.csv")["expected_cost"].min() >= 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("true,label,cost\ncat,dog,1\n", "nothing of 1 of the 2 mistakes: 'cat' on items that are 'dog'"),
        ("true,label,cost\ncat,dgo,1\n", "class 'dgo', which the votes do not have"),
        ("true,label,cost\ncat,dog,-1\ndog,cat,1\n", "costs are numbers of 0 or more"),
    ],
)
def test_wrong_costs_are_refused_before_the_fit(run: Run, costs: Path, text: str, message: str) -> None:
    (costs / "costs.csv").write_text(text)
    refused = run("aggregate", "votes.csv", "--costs", "costs.csv", "-o", "labels.csv", code=1).stderr
    assert "--costs: costs.csv" in refused
    assert message in refused
    assert not (costs / "labels.csv").exists()


def test_sets_of_labels_have_a_threshold_instead(run: Run, costs: Path) -> None:
    refused = run("aggregate", "votes.csv", "--type", "multilabel", "--costs", "costs.csv", code=2).stderr
    assert "--threshold weighs the two mistakes" in refused


def test_a_missing_table_is_named_once(run: Run, costs: Path) -> None:
    said = run("aggregate", "votes.csv", "--costs", "nothing.csv", "-o", "labels.csv", code=1).stderr
    assert "--costs: nothing.csv: no such file" in said
    assert said.count("nothing.csv") == 1
