from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.data.simulate import simulate


@pytest.fixture
def crowd(folder: Path) -> Path:
    """Three hundred items in crowd.csv, the truth of all of them in all.csv, of a third of them in some.csv."""
    drawn = simulate(300, 12, 2, 5, "one-coin", options={"one-coin": {"a": 7, "b": 3}}, random_state=0)
    drawn.votes.to_frame().write_csv(folder / "crowd.csv")
    truth = pl.DataFrame({"item": list(drawn.gold), "label": list(drawn.gold.values())})
    truth.write_csv(folder / "all.csv")
    truth[::3].write_csv(folder / "some.csv")
    return folder


def test_without_truth_experience_decides(run: Run, crowd: Path) -> None:
    done = run("calibrate", "crowd.csv", "-o", "labels.csv")
    assert "confidence by experience with other crowds" in done.stderr
    assert "give some with --truth" in done.stderr
    plain = pl.read_csv(run("aggregate", "crowd.csv").stdout.encode())
    labels = pl.read_csv(crowd / "labels.csv")
    assert labels.columns == plain.columns
    assert labels.equals(plain)
    assert set(labels["confidence_source"]) == {"experience"}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["temperature", "dirichlet", "isotonic", "groups", "none"])
def test_with_truth_the_error_before_and_after_is_told(run: Run, crowd: Path, how: str) -> None:
    done = run("calibrate", "crowd.csv", "--truth", "some.csv", "--how", how, "-o", "labels.csv")
    assert "checked on 100 items with a true label" in done.stderr
    assert "before: ECE" in done.stderr
    assert ("after: ECE" in done.stderr) == (how != "none")
    facts = json.loads(run("calibrate", "crowd.csv", "--truth", "some.csv", "--how", how, "--json").stdout)
    assert facts["how"] == how
    assert facts["n_checked"] == 100
    assert facts["before"]["ece_low"] <= facts["before"]["ece"]
    assert sum(row["n_items"] for row in facts["after"]["curve"]) == 100
    assert len(facts["labels"]) == 300


@pytest.mark.slow
def test_gold_of_the_votes_is_set_aside_as_the_truth(run: Run, crowd: Path) -> None:
    votes = pl.read_csv(crowd / "crowd.csv").join(
        pl.read_csv(crowd / "some.csv").rename({"label": "gold"}), on="item", how="left"
    )
    votes.write_csv(crowd / "with_gold.csv")
    done = run("calibrate", "with_gold.csv", "-o", "one.csv")
    assert "by 100 known labels" in done.stderr
    run("calibrate", "crowd.csv", "--truth", "some.csv", "-o", "two.csv")
    assert (crowd / "one.csv").read_text() == (crowd / "two.csv").read_text()


@pytest.mark.slow
def test_a_plot_is_drawn(run: Run, crowd: Path) -> None:
    pytest.importorskip("matplotlib")
    run("calibrate", "crowd.csv", "--truth", "some.csv", "--plot", "curve.svg", "-o", "labels.csv")
    assert "<svg" in (crowd / "curve.svg").read_text()
    assert "needs true labels" in run("calibrate", "crowd.csv", "--plot", "other.png", code=2).stderr
    assert not (crowd / "other.png").exists()


@pytest.mark.slow
def test_a_saved_model_is_calibrated(run: Run, crowd: Path) -> None:
    run("aggregate", "crowd.csv", "--save", "model", "-o", "plain.csv")
    saved = run("calibrate", "model", "--truth", "some.csv").stdout
    assert saved == run("calibrate", "crowd.csv", "--truth", "some.csv").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--how", "isotonic"], "needs true labels; give them with --truth FILE"),
        (["--how", "isotonik", "--truth", "some.csv"], "did you mean 'isotonic'"),
        (["--plot", "curve.txt", "--truth", "some.csv"], "a plot ends in"),
        (["-o", "crowd.csv"], "is also the input"),
        (["-o", "-", "--json"], "choose one"),
    ],
)
def test_wrong_usage_of_calibrate_is_named(run: Run, crowd: Path, arguments: list[str], message: str) -> None:
    before = sorted(path.name for path in crowd.iterdir())
    assert message in run("calibrate", "crowd.csv", *arguments, code=2).stderr
    assert sorted(path.name for path in crowd.iterdir()) == before


@pytest.mark.slow
def test_a_truth_that_fits_no_item_or_class_is_named(run: Run, crowd: Path) -> None:
    (crowd / "other.csv").write_text("item,label\nnobody,class-0\n")
    assert "same item ids" in run("calibrate", "crowd.csv", "--truth", "other.csv", code=1).stderr
    (crowd / "odd.csv").write_text("item,label\nitem-000001,class-9\n")
    problem = run("calibrate", "crowd.csv", "--truth", "odd.csv", code=1).stderr
    assert "odd.csv" in problem
    assert "class-9" in problem
    (crowd / "few.csv").write_text("item,label\nitem-000001,class-0\n")
    assert "at least 4" in run("calibrate", "crowd.csv", "--truth", "few.csv", code=1).stderr


def test_review_without_truth(run: Run, crowd: Path) -> None:
    done = run("review", "crowd.csv", "--error", "0.2", "-o", "decisions.csv")
    frame = pl.read_csv(crowd / "decisions.csv")
    assert frame.columns == ["item", "label", "confidence", "decision", "note"]
    accepted = frame.filter(pl.col("decision") == "accept")
    assert 0 < accepted.height < 300
    assert (1 - accepted["confidence"]).mean() <= 0.2
    assert f"accept {accepted.height} of 300 items" in done.stderr
    assert "nine of ten" in done.stderr
    assert "audit" in done.stderr
    few = run("review", "crowd.csv", "--error", "0.2", "--assurance", "0.9", "-o", "fewer.csv")
    fewer = pl.read_csv(crowd / "fewer.csv").filter(pl.col("decision") == "accept")
    assert fewer.height < accepted.height
    assert set(fewer["item"]) <= set(accepted["item"])
    assert f"accept {fewer.height} of 300 items" in few.stderr


def test_review_accepts_nothing_where_experience_allows_nothing(run: Run, crowd: Path) -> None:
    done = run("review", "crowd.csv", "--error", "0.001", "-o", "decisions.csv")
    assert "accept 0 of 300 items" in done.stderr
    assert set(pl.read_csv(crowd / "decisions.csv")["decision"]) == {"review"}


def test_review_with_truth_states_the_error_and_its_interval(run: Run, crowd: Path) -> None:
    done = run("review", "crowd.csv", "--error", "0.2", "--truth", "some.csv", "--sets", "-o", "decisions.csv")
    assert "accepted items with a true label" in done.stderr
    assert "with probability 0.95" in done.stderr
    frame = pl.read_csv(crowd / "decisions.csv")
    assert frame.filter(pl.col("note") == "known").height == 100
    assert frame["set"].null_count() == 0
    facts = json.loads(run("review", "crowd.csv", "--error", "0.2", "--truth", "some.csv", "--json").stdout)
    assert facts["error_bound"] <= 0.2
    assert facts["n_accepted"] + facts["n_review"] == 200
    assert [row["item"] for row in facts["decisions"]] == frame["item"].to_list()


def test_review_of_items_that_are_all_known_has_nothing_to_decide(run: Run, crowd: Path) -> None:
    done = run("review", "crowd.csv", "--truth", "all.csv", "--sets", "-o", "decisions.csv")
    assert "nothing to decide" in done.stderr
    assert "add true labels" not in done.stderr
    assert "label sets" not in done.stderr


def test_review_says_how_many_true_labels_are_lacking(run: Run, crowd: Path) -> None:
    done = run("review", "crowd.csv", "--error", "0.01", "--truth", "some.csv", "-o", "decisions.csv")
    assert "at least 299 surest items" in done.stderr
    frame = pl.read_csv(crowd / "decisions.csv")
    assert set(frame.filter(pl.col("note") != "known")["decision"]) == {"review"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--error", "1"], "--error must lie between 0 and 1"),
        (["--risk", "0"], "--risk must lie between 0 and 1"),
        (["--how", "temperature"], "true labels are kept for the check"),
        (["--adaptive"], "need true labels"),
        (["-o", "nowhere/decisions.csv"], "does not exist; create it first"),
    ],
)
def test_wrong_usage_of_review_is_named(run: Run, crowd: Path, arguments: list[str], message: str) -> None:
    assert message in run("review", "crowd.csv", *arguments, code=2).stderr


def test_ids_that_a_spreadsheet_would_run_are_escaped(run: Run, folder: Path) -> None:
    rows = "\n".join(f"=cmd{n},{who},{'a' if (n + who // 3) % 2 else 'b'}" for n in range(8) for who in range(4))
    (folder / "odd.csv").write_text("item,annotator,label\n" + rows + "\n")
    for verb in ("calibrate", "review"):
        run(verb, "odd.csv", "-o", "out.csv")
        assert not any(str(item).startswith("=") for item in pl.read_csv(folder / "out.csv")["item"])
