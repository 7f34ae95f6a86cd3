"""``crowdwise aggregate --type``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise import LabelSets

RATED = "item,annotator,label\na,x,bad\na,y,bad\na,z,ok\nb,x,good\nb,y,ok\nb,z,good\nc,x,ok\nc,y,ok\nc,z,bad\n"
SETS = "item,annotator,label\na,x,cat|dog\na,y,cat|dog\na,z,cat\nb,x,none\nb,y,none\nb,z,!dog\nc,x,dog\nc,y,dog\nc,z,abstain\n"


@pytest.fixture
def files(folder: Path) -> Path:
    (folder / "rated.csv").write_text(RATED)
    (folder / "sets.csv").write_text(SETS)
    (folder / "partial.csv").write_text("item,annotator,label\na,x,cat\na,y,!dog\na,z,cat\nb,x,dog\nb,y,!cat\nb,z,abstain\n")
    return folder


def test_ordered_classes_give_a_median_and_a_rank(run: Run, files: Path) -> None:
    done = run("aggregate", "rated.csv", "--type", "ordinal", "--classes", "bad,ok,good", "-o", "labels.csv")
    assert "cumulative-link" in done.stderr
    labels = pl.read_csv(files / "labels.csv")
    assert labels.columns[:5] == ["item", "label", "confidence", "median", "expected_rank"]
    assert labels.columns[-3:] == ["p(bad)", "p(ok)", "p(good)"]
    assert labels["label"].to_list() == ["bad", "good", "ok"]
    for row in labels.iter_rows(named=True):
        assert row["expected_rank"] == pytest.approx(row["p(bad)"] + 2 * row["p(ok)"] + 3 * row["p(good)"], abs=1e-5)
    document = json.loads(run("aggregate", "rated.csv", "--type", "ordinal", "--classes", "bad,ok,good", "--json").stdout)
    assert document["labels"][1]["median"] == "good"


def test_the_alphabet_is_no_order(run: Run, files: Path) -> None:
    problem = run("aggregate", "rated.csv", "--type", "ordinal", code=1).stderr
    assert "--classes" in problem
    assert "bad,good,ok" in problem
    (files / "numbers.csv").write_text(RATED.replace("bad", "1").replace("ok", "2").replace("good", "3"))
    assert run("aggregate", "numbers.csv", "--type", "ordinal", "-m", "ordinal-binary").stdout.startswith("item,label")


def test_several_labels_per_item(run: Run, files: Path) -> None:
    done = run("aggregate", "sets.csv", "--type", "multilabel", "-o", "labels.csv", "--annotators", "people.csv")
    assert "consensus-sets: 3 items, 3 annotators; converged" in done.stderr
    assert "1 item to which no label applies, written []" in done.stderr
    assert "'none' (2 of 8 answers) is read as: no label applies" in done.stderr
    assert "expected accuracy: " in done.stderr
    labels = pl.read_csv(files / "labels.csv")
    assert labels["label"].to_list() == ["cat|dog", "[]", "dog"]
    assert labels.columns == ["item", "label", "confidence", "confidence_source", "n_votes", "note", "p(cat)", "p(dog)"]
    people = pl.read_csv(files / "people.csv")
    assert people.columns == ["annotator", "n_votes", "sensitivity", "specificity"]
    assert people["n_votes"].to_list() == [3, 3, 2]


def test_separator_threshold_and_settings(run: Run, files: Path) -> None:
    (files / "commas.csv").write_text(SETS.replace("|", ";"))
    options = ["--type", "multilabel", "--separator", ";", "-m", "label-wise", "--set", "dependence=true", "-q"]
    out = run("aggregate", "commas.csv", *options).stdout
    assert "cat;dog" in out
    assert "cat;dog" not in run("aggregate", "commas.csv", *options, "--threshold", "0.9999").stdout
    document = json.loads(run("aggregate", "sets.csv", "--type", "multilabel", "--json", "-q").stdout)
    assert document["items"][0]["label"] == "cat|dog"
    assert document["converged"]


def test_votes_against_classes(run: Run, files: Path) -> None:
    out = run("aggregate", "partial.csv", "--type", "partial", "-q").stdout.splitlines()
    assert out[0] == "item,label,confidence,n_votes,note,p(cat),p(dog)"
    assert [line.split(",")[1] for line in out[1:]] == ["cat", "dog"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--type", "multilabels"], "did you mean 'multilabel'"),
        (["--separator", ";"], "add --type multilabel"),
        (["--type", "ordinal", "--threshold", "0.3"], "add --type multilabel"),
        (["--type", "multilabel", "--gold", "sets.csv"], "--gold does not go with --type multilabel"),
        (["--type", "multilabel", "--save", "model"], "--save does not go with --type multilabel"),
        (["--type", "multilabel", "--threshold", "2"], "threshold must lie between 0 and 1"),
        (["--type", "multilabel", "-m", "dawid-skene"], "no method 'dawid-skene' (there are consensus-sets, label-wise"),
        (["--type", "partial", "-m", "label-wise"], "no method 'label-wise' (there are partial-"),
    ],
)
def test_options_that_do_not_fit_are_refused(run: Run, files: Path, options: list[str], message: str) -> None:
    assert message in run("aggregate", "sets.csv", *options, code=2).stderr


def test_contradictory_answers_name_file_and_row(run: Run, files: Path) -> None:
    (files / "odd.csv").write_text("item,annotator,label\na,x,cat|!cat\n")
    assert "odd.csv row 2: label 'cat' is both" in run("aggregate", "odd.csv", "--type", "multilabel", code=1).stderr


def test_labels_that_look_like_sets_or_votes_against_are_pointed_out(run: Run, folder: Path) -> None:
    (folder / "odd.csv").write_text("item,annotator,label\nx,a,red|blue\nx,b,red\ny,a,blue\ny,b,!red\n")
    refused = run("aggregate", "odd.csv", "-o", "out.csv", code=1).stderr
    assert "odd.csv row 2: several labels in one cell, 'red|blue', separated by '|', in 1 of 4 votes" in refused
    assert "crowdwise aggregate odd.csv -o out.csv --type multilabel" in refused
    for kept in (["--one-label"], ["--type", "classes"]):
        assert "'!red' look like votes against" in run("aggregate", "odd.csv", "-o", "out.csv", *kept).stderr
    (folder / "plain.csv").write_text("item,annotator,label\nx,a,a|b\nx,b,a|b\ny,a,!\n")
    assert "--type" not in run("aggregate", "plain.csv", "-o", "out.csv").stderr


@pytest.mark.slow
def test_the_only_answer_on_an_item_stands_and_what_nobody_answered_has_no_label(run: Run, folder: Path) -> None:
    # Rare labels, an answer per item and no overlap: nothing speaks against any answer.
    animals = {0: "mouse", 5: "deer", 10: "cat", 15: "bird", 20: "fox", 25: "dog", 30: "cat|dog"}
    given = {f"p{n:02d}": animals.get(n, "nothing") for n in range(31)}
    rows = [f"{item},u{n % 3},{labels}" for n, (item, labels) in enumerate(given.items())]
    (folder / "alone.csv").write_text("\n".join(["item,annotator,label", *rows, "p99,u0,"]) + "\n")
    run("aggregate", "alone.csv", "--type", "multilabel", "-o", "labels.csv")
    found = pl.read_csv(folder / "labels.csv")
    assert {row["item"]: row["label"] for row in found.to_dicts()} == given | {"p99": None}
    assert found.filter(pl.col("item") == "p99")["confidence"].to_list() == [None]
    assert found["confidence"].drop_nulls().max() < 0.9


def test_gold_of_sets_is_kept_and_named(run: Run, folder: Path) -> None:
    head = "_unit_id,_worker_id,_golden,animals,animals_gold\n"
    votes = [f"{unit},w{k},{str(unit < 2).lower()},cat,{'dog' if unit == 0 else ''}" for unit in range(4) for k in range(3)]
    several = '9,w0,false,"cat\ndog",\n'
    (folder / "appen.csv").write_text(head + "\n".join(votes) + "\n" + several)
    done = run("aggregate", "appen.csv", "--type", "multilabel", "-o", "labels.csv")
    assert "1 item with gold: kept as their labels" in done.stderr
    first = pl.read_csv(folder / "labels.csv").filter(pl.col("item") == 0).to_dicts()[0]
    assert (first["label"], first["confidence"], first["confidence_source"], first["note"]) == ("dog", 1.0, "gold", "known")


@pytest.mark.slow
@pytest.mark.parametrize("column", ["labels", "Tags"])
def test_several_labels_are_found_in_a_column_named_in_the_plural(run: Run, folder: Path, column: str) -> None:
    rows = [("a", "x", ["cat", "dog"]), ("a", "y", ["cat"]), ("b", "x", ["dog"]), ("b", "y", [])]
    table = [{"item": item, "annotator": annotator, column: labels} for item, annotator, labels in rows]
    (folder / "sets.jsonl").write_text("\n".join(json.dumps(row) for row in table))
    text = "\n".join(f"{item},{annotator},{'|'.join(labels) or 'none'}" for item, annotator, labels in rows)
    (folder / "sets.csv").write_text(f"item,annotator,{column}\n{text}\n")
    found = [run("aggregate", name, "--type", "multilabel").stdout for name in ("sets.csv", "sets.jsonl")]
    assert found[0] == found[1]
    assert found[0] == run("aggregate", "sets.csv", "--type", "multilabel", "--label", column).stdout
    frame = pl.DataFrame(table)
    assert LabelSets.from_frame(frame).labels.tolist() == ["cat", "dog"]
