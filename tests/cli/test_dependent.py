"""``crowdwise aggregate`` on judges of whom three share errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

NAMES = ["m-a", "m-b", "m-c", "ann", "bob", "cleo", "dan"]
FIT = ("--method", "dawid-skene")


@pytest.fixture
def truth(folder: Path) -> pl.Series:
    """Write verdicts.csv and families.csv; return the true labels by item."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=300)

    def answer(right: float, seen: np.ndarray) -> np.ndarray:
        return np.where(rng.random(300) < right, seen, (seen + rng.integers(1, 3, size=300)) % 3)

    shared = answer(0.75, truth)
    labels = [answer(0.97, shared) for _ in range(3)] + [answer(0.8, truth) for _ in range(4)]
    frame = pl.DataFrame(
        {
            "item": np.tile(np.arange(300), 7),
            "annotator": np.repeat(NAMES, 300),
            "label": np.array(["bad", "fair", "good"])[np.concatenate(labels)],
        }
    )
    frame.write_csv(folder / "verdicts.csv")
    (folder / "families.csv").write_text("annotator,group\nm-a,model m\nm-b,model m\nm-c,model m\nann,people\nghost,ghosts\n")
    return pl.Series(np.array(["bad", "fair", "good"])[truth])


def test_the_warning_comes_first_and_names_the_next_step(run: Run, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv")
    lines = result.stderr.splitlines()
    assert lines[0].startswith("warning: 3 annotators seem to share errors: m-a, m-b, m-c (43 % of the votes; ")
    assert any("--groups families.csv" in line and "crowdwise audit" in line for line in lines)
    first_number = next(k for k, line in enumerate(lines) if "2,100 votes on 300 items" in line)
    assert next(k for k, line in enumerate(lines) if line.startswith("next:")) < first_number


def test_labels_stay_and_confidence_falls(run: Run, folder: Path, truth: pl.Series) -> None:
    import crowdwise

    run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv", "--save", "model")
    labels = pl.read_csv(folder / "labels.csv")
    plain = crowdwise.make("dawid-skene").fit(crowdwise.read(folder / "verdicts.csv")).result_.items_frame()
    assert labels["label"].to_list() == plain["label"].to_list()
    assert (labels["confidence"] <= plain["confidence"] + 1e-6).all()
    right = (labels["label"] == truth).mean()
    assert plain["confidence"].mean() - right > 0.15
    assert labels["confidence"].mean() - right < 0.6 * (plain["confidence"].mean() - right)
    saved = crowdwise.load(folder / "model").result_.items_frame()
    np.testing.assert_allclose(saved["confidence"], labels["confidence"], rtol=1e-4)


def test_quiet_still_warns_and_json_holds_the_groups(run: Run, truth: pl.Series) -> None:
    result = run("aggregate", "verdicts.csv", *FIT, "--quiet", "--json")
    assert result.stderr.startswith("warning: 3 annotators seem to share errors")
    (group,) = json.loads(result.stdout)["dependence"][0]
    assert group["annotators"] == ["m-a", "m-b", "m-c"]
    assert group["p_value"] < 0.01
    assert group["share_of_votes"] == pytest.approx(3 / 7)


def test_given_groups_count_as_one_and_labels_improve(run: Run, folder: Path, truth: pl.Series) -> None:
    run("aggregate", "verdicts.csv", *FIT, "-o", "plain.csv")
    result = run("aggregate", "verdicts.csv", *FIT, "--groups", "families.csv", "-o", "l.csv", "--annotators", "a.csv")
    assert "3 annotators count as 1 group: model m" in result.stderr
    assert "warning" not in result.stderr
    assert "2,100 votes on 300 items by 7 annotators" in result.stderr
    labels, plain = pl.read_csv(folder / "l.csv"), pl.read_csv(folder / "plain.csv")
    assert labels["n_votes"].to_list() == [7] * 300
    assert (labels["label"] == truth).mean() > (plain["label"] == truth).mean() + 0.1
    assert sorted(pl.read_csv(folder / "a.csv")["annotator"]) == ["ann", "bob", "cleo", "dan", "model m"]


def test_independent_annotators_are_not_accused(run: Run, folder: Path, truth: pl.Series) -> None:
    frame = pl.read_csv(folder / "verdicts.csv").filter(~pl.col("annotator").is_in(["m-b", "m-c"]))
    frame.write_csv(folder / "independent.csv")
    result = run("aggregate", "independent.csv", *FIT, "--json")
    assert "share errors" not in result.stderr
    assert "dependence" not in json.loads(result.stdout)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--type", "multilabel"), "one class per item"),
        (("--warm-from", "model"), "--warm-from is about single annotators"),
        (("--trusted", "x"), "--trusted is about single annotators"),
        (("--history", "truth.csv"), "single annotators"),
        (("--engine", "local"), "in memory"),
        (("-o", "families.csv"), "also the input"),
    ],
)
def test_what_groups_do_not_go_with_is_refused(run: Run, truth: pl.Series, options: tuple[str, ...], words: str) -> None:
    assert words in run("aggregate", "verdicts.csv", "--groups", "families.csv", *options, code=2).stderr


@pytest.mark.parametrize(
    ("table", "words", "code"),
    [
        ("annotator,team\nm-a,x\n", "no group column", 1),
        ("annotator,group\nm-a,x\nm-a,y\n", "annotator 'm-a' is in 'x' and in 'y'", 1),
        ("annotator,group\nnobody,x\nnone,x\n", "names no annotator of these votes", 2),
    ],
)
def test_a_wrong_table_of_groups_is_refused(
    run: Run, folder: Path, truth: pl.Series, table: str, words: str, code: int
) -> None:
    (folder / "families.csv").write_text(table)
    assert words in run("aggregate", "verdicts.csv", "--groups", "families.csv", code=code).stderr


@pytest.mark.parametrize(
    "arguments", [("review", "-o", "out.csv"), ("plan",), ("calibrate", "-o", "out.csv"), ("explain", "0")]
)
def test_other_commands_warn_too(run: Run, truth: pl.Series, arguments: tuple[str, ...]) -> None:
    command, *rest = arguments
    wanted = rest[:1] if command == "explain" else []
    more = [] if command == "explain" else rest
    result = run(command, *wanted, "verdicts.csv", *FIT, *more)
    assert "3 annotators seem to share errors: m-a, m-b, m-c" in result.stderr


def test_review_accepts_what_aggregate_is_sure_of(run: Run, folder: Path, truth: pl.Series) -> None:
    run("aggregate", "verdicts.csv", *FIT, "-o", "labels.csv")
    run("review", "verdicts.csv", *FIT, "-o", "decisions.csv")
    labels, decisions = (pl.read_csv(folder / name)["confidence"] for name in ("labels.csv", "decisions.csv"))
    assert labels.to_list() == decisions.to_list()


@pytest.mark.parametrize("shards", ["1", "3"])
def test_votes_in_shards_are_believed_as_little(run: Run, folder: Path, truth: pl.Series, shards: str) -> None:
    run("aggregate", "verdicts.csv", *FIT, "-o", "memory.csv")
    result = run("aggregate", "verdicts.csv", *FIT, "-o", "shards.csv", "--shards", shards)
    assert result.stderr.startswith("warning: 3 annotators seem to share errors: m-a, m-b, m-c")
    memory, sharded = (pl.read_csv(folder / f"{name}.csv").sort("item") for name in ("memory", "shards"))
    assert sharded["label"].to_list() == memory["label"].to_list()
    # Both fits end where they have nearly converged, and files hold six digits.
    np.testing.assert_allclose(sharded["confidence"], memory["confidence"], atol=1e-4)


def test_suggest_says_it_too(run: Run, truth: pl.Series) -> None:
    result = run("suggest", "verdicts.csv", "--budget", "5", "-o", "ask.csv")
    assert result.stderr.startswith("warning: 3 annotators seem to share errors: m-a, m-b, m-c")


@pytest.mark.parametrize("where", [(), ("--shards", "2")])
def test_a_trusted_annotator_settles_it(run: Run, folder: Path, truth: pl.Series, where: tuple[str, ...]) -> None:
    plain = run("aggregate", "verdicts.csv", *FIT, "-o", "plain.csv", *where)
    told = run("aggregate", "verdicts.csv", *FIT, "-o", "told.csv", "--trusted", "ann", *where)
    assert "the votes can also be read so that" in plain.stderr
    assert "the votes can also be read so that" not in told.stderr
    plain_frame, frame = (pl.read_csv(folder / f"{name}.csv").sort("item") for name in ("plain", "told"))
    assert frame["label"].to_list() == plain_frame["label"].to_list()
    assert (frame["confidence"] >= plain_frame["confidence"] - 1e-6).all()
    refused = run("aggregate", "verdicts.csv", *FIT, "-o", "x.csv", "--trusted", "nobody", *where, code=2)
    assert "no annotator is called 'nobody'" in refused.stderr
