from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run
from tests.trust.fairness.crowds import biased_crowd


@pytest.fixture
def files(folder: Path) -> Path:
    crowd = biased_crowd(0, n_items=120, n_annotators=10, per_item=4, bias=0.4)
    names = np.array(["men", "=women()"])
    sex = pl.Series(names[crowd.group[crowd.votes.item]])
    said = pl.col("label").replace_strict({0: "pass", 1: "hire"})
    crowd.votes.to_frame().with_columns(said, sex=sex).write_csv(folder / "v.csv")
    pl.DataFrame({"item": np.arange(120), "label": np.array(["pass", "hire"])[crowd.truth]}).write_csv(folder / "t.csv")
    pl.DataFrame({"item": np.arange(120), "group": names[crowd.group]}).write_csv(folder / "g.csv")
    return folder


@pytest.mark.slow
def test_gaps_as_csv_and_notes_beside_them(run: Run, files: Path) -> None:
    done = run("fairness", "v.csv", "--group", "sex")
    frame = pl.read_csv(done.stdout.encode())
    assert frame.columns == ["of", "against", "measure", "class", "higher", "lower", "gap", "low", "high", "n"]
    assert frame.filter(pl.col("of") == "consensus")["measure"].to_list() == ["demographic parity"]
    assert "cannot be seen in votes" in done.stderr
    assert "circular" in done.stderr
    assert run("fairness", "v.csv", "--groups", "g.csv", "-q").stdout == done.stdout
    assert run("fairness", "v.csv", "--groups", "g.csv", "-q", "--raw").stderr == ""


def test_the_document_holds_everything(run: Run, files: Path) -> None:
    found = json.loads(
        run(
            "fairness", "v.csv", "--group", "sex", "--truth", "t.csv", "--positive", "hire", "--parity", "opportunity", "--json"
        ).stdout
    )
    assert found["method"] == "item-group-ds"
    assert {row["group"] for row in found["groups"]} == {"men", "=women()"}
    assert {row["measure"] for row in found["gaps"]} >= {"equal opportunity", "equalised odds", "accuracy"}
    assert found["parity"]["gap"] <= 0.02 + 1e-9
    assert found["parity"]["against"] == "truth"
    assert len(found["annotators"]) == 10


def test_labels_under_parity_are_written_with_their_cost(run: Run, files: Path) -> None:
    options = ["--parity", "demographic", "--within", "0.05", "--positive", "hire"]
    done = run("fairness", "v.csv", "--group", "sex", *options, "-o", "l.csv", "--annotators", "a.csv")
    labels = pl.read_csv(files / "l.csv")
    assert labels.columns == ["item", "group", "label", "label_before", "margin"]
    share = labels.group_by("group").agg((pl.col("label") == "hire").mean())["label"].to_list()
    assert abs(share[0] - share[1]) <= 0.05 + 1e-9
    assert "the cost is not known" in done.stderr
    assert "'=women()" in labels["group"].to_list()
    assert pl.read_csv(files / "a.csv").height == 10
    known = run("fairness", "v.csv", "--group", "sex", *options, "--truth", "t.csv", "-o", "-")
    assert known.stdout.startswith("item,group,label")
    assert "on 120 known labels: gained" in known.stderr


def test_predictions_and_other_methods_are_measured(run: Run, files: Path) -> None:
    run("aggregate", "v.csv", "-m", "majority", "-o", "p.csv")
    frame = pl.read_csv(
        run("fairness", "v.csv", "--group", "sex", "-m", "majority", "--truth", "t.csv", "--predicted", "p.csv").stdout.encode()
    )
    assert set(frame["of"]) == {"annotators", "consensus", "predictions"}
    same = [frame.filter(pl.col("of") == of)["gap"].to_list() for of in ("consensus", "predictions")]
    assert same[0] == same[1]


@pytest.mark.slow
def test_a_saved_classifier_is_measured(run: Run, files: Path) -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    np.savez(files / "x.npz", X=X, items=np.arange(120))
    run("train", "v.csv", "--features", "x.npz", "-m", "raykar", "--save", "model")
    frame = pl.read_csv(run("fairness", "v.csv", "--group", "sex", "--model", "model", "--features", "x.npz").stdout.encode())
    assert "predictions" in frame["of"].to_list()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([], "say which group"),
        (["--group", "sex", "--groups", "g.csv"], "not by both"),
        (["--group", "sex", "--parity", "demographc"], "did you mean"),
        (["--group", "sex", "--within", "0.1"], "name the rate"),
        (["--group", "sex", "--model", "m"], "--model DIR and --features FILE together"),
        (["--group", "sex", "--set", "kapa=1"], "kapa"),
        (["--group", "sex", "-m", "item-group-dss"], "no method"),
        (["--group", "sex", "--json", "-o", "-"], "both ask for stdout"),
        (["--group", "sex", "-o", "v.csv"], "also the input"),
        (["--group", "sex", "--positive", "hired"], "no class 'hired'"),
    ],
)
def test_wrong_usage_is_explained(run: Run, files: Path, wrong: list[str], words: str) -> None:
    assert words in run("fairness", "v.csv", *wrong, code=2).stderr


def test_wrong_data_name_the_row(run: Run, files: Path) -> None:
    assert "v.csv row 3: item 0 is in group" in run("fairness", "v.csv", "--group", "annotator", code=1).stderr
    assert "no column 'sexe'" in run("fairness", "v.csv", "--group", "sexe", code=1).stderr
    (files / "short.csv").write_text("item,group\n1,x\n")
    assert "no group for 119 of 120 items" in run("fairness", "v.csv", "--groups", "short.csv", code=1).stderr
    (files / "other.csv").write_text("item,label\nq,hire\n")
    assert "names no item of the votes" in run("fairness", "v.csv", "--group", "sex", "--predicted", "other.csv", code=1).stderr


@pytest.mark.slow
def test_the_report_has_a_section_when_groups_are_given(run: Run, files: Path) -> None:
    run("report", "v.csv", "--group", "sex", "--truth", "t.csv", "-o", "with.html", "-m", "dawid-skene")
    run("report", "v.csv", "-o", "without.html", "-m", "dawid-skene")
    page = (files / "with.html").read_text(encoding="utf-8")
    assert "How groups are treated" in page
    assert "=women()" in page
    assert "--group sex" in page
    assert "How groups are treated" not in (files / "without.html").read_text(encoding="utf-8")
    assert "not by both" in run("report", "v.csv", "--group", "sex", "--groups", "g.csv", code=2).stderr
