from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.data.simulate import simulate


@pytest.fixture
def campaign(folder: Path) -> pl.DataFrame:
    """spam.csv: two annotators of fifteen answer at random; `when` is random, `day` splits annotator-01."""
    votes = simulate(500, 15, 3, 8, {"one-coin": 13 / 15, "uniform-spammer": 2 / 15}, random_state=0).votes
    rng = np.random.default_rng(0)
    frame = votes.to_frame().with_columns(when=pl.Series(rng.permutation(votes.n_votes)))
    mine = pl.col("annotator") == "annotator-01"
    late = mine & (pl.col("when") > votes.n_votes // 2)
    frame = frame.with_columns(label=pl.when(late).then(pl.lit("class-0")).otherwise(pl.col("label")))
    frame.write_csv(folder / "spam.csv")
    return frame


@pytest.mark.slow
def test_the_table(run: Run, campaign: pl.DataFrame, folder: Path) -> None:
    rows = json.loads(run("annotators", "spam.csv", "--json").stdout)
    assert {
        "annotator",
        "n_votes",
        "accuracy",
        "accuracy_low",
        "accuracy_high",
        "bits",
        "worst_confusion",
        "flags",
        "reasons",
    } <= set(rows[0])
    flags = {row["annotator"]: row["flags"] for row in rows}
    assert [name for name, text in flags.items() if "spammer" in text] == sorted(
        ["annotator-14", "annotator-15"], key=list(flags).index
    )
    result = run("annotators", "spam.csv", "-o", "a.csv")
    assert "spammer: annotator-14, annotator-15" in result.stderr
    assert pl.read_csv(folder / "a.csv").height == 15
    assert run("annotators", "spam.csv", "-q").stderr == ""


@pytest.mark.slow
def test_dropped_spammers_are_listed(run: Run, campaign: pl.DataFrame) -> None:
    rows = json.loads(run("annotators", "spam.csv", "--json", "--drop-spammers").stdout)
    assert [row["annotator"] for row in rows if "dropped" in row["flags"]] == [rows[-2]["annotator"], rows[-1]["annotator"]]
    assert len(rows) == 15
    result = run("aggregate", "spam.csv", "--drop-spammers", "--json", "-q")
    document = json.loads(result.stdout)
    assert document["dropped_annotators"] == ["annotator-14", "annotator-15"]
    assert (document["n_annotators"], document["n_items"]) == (13, 500)
    assert result.stderr == "dropped 2 spammers: annotator-14, annotator-15\n"


def test_nobody_is_dropped_from_an_honest_crowd(run: Run) -> None:
    assert "dropped_annotators" not in json.loads(run("aggregate", "votes.csv", "--drop-spammers", "--json").stdout)


@pytest.mark.slow
def test_time_finds_who_changed(run: Run, campaign: pl.DataFrame, folder: Path) -> None:
    result = run("annotators", "spam.csv", "--time", "when", "--json")
    flags = {row["annotator"]: row["flags"] for row in json.loads(result.stdout)}
    assert [name for name, text in flags.items() if "drift" in text] == ["annotator-01"]
    assert "did you mean 'when'" in run("annotators", "spam.csv", "--time", "whem", code=1).stderr
    run("aggregate", "spam.csv", "--save", "model", "-o", "l.csv")
    assert "--time reads a column" in run("annotators", "model", "--time", "when", code=2).stderr
    campaign.write_parquet(folder / "spam.parquet")
    assert "drift: annotator-01" in run("annotators", "spam.parquet", "--time", "when").stderr


def test_plot(run: Run, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    assert "3 confusion matrices" in run("annotators", "votes.csv", "--plot", "c.png").stderr
    assert (folder / "c.png").stat().st_size > 1000
    assert "a plot ends in" in run("annotators", "votes.csv", "--plot", "c.txt", code=2).stderr
    assert "does not exist" in run("annotators", "votes.csv", "--plot", "nowhere/c.png", code=2).stderr


@pytest.mark.parametrize("fdr", ["0", "1", "2"])
def test_a_wrong_rate_is_refused(run: Run, fdr: str) -> None:
    assert "fdr must lie" in run("annotators", "votes.csv", "--fdr", fdr, code=2).stderr
    assert "fdr must lie" in run("aggregate", "votes.csv", "--drop-spammers", "--fdr", fdr, code=2).stderr


def test_a_terminal_gets_what_fits_and_the_reasons(campaign: pl.DataFrame) -> None:
    from tests.trust.crowd.crowds import fit

    from crowdwise.data.annotations import Annotations
    from crowdwise.trust.crowd.table import examine, for_terminal

    table = for_terminal(examine(fit(Annotations.from_frame(campaign))).table)
    assert table.columns == ["annotator", "n_votes", "accuracy", "bits", "worst_confusion", "flags"]
    # One number and its interval, such as "0.84 (0.74 to 0.92)".
    flagged = table["flags"].is_in(["", "unknown"])
    assert flagged.is_sorted()
    assert table.filter(flagged)["accuracy"].str.slice(0, 4).is_sorted()
    assert table["accuracy"].str.contains(r"^[01]\.\d+ \([01]\.\d+ to [01]\.\d+\)$").all()


def test_detectors_by_name_are_columns(run: Run, folder: Path) -> None:
    simulate(100, 6, 2, 6, {"one-coin": 5 / 6, "uniform-spammer": 1 / 6}, random_state=0).votes.to_frame().write_csv(
        folder / "two.csv"
    )
    options = ("-m", "majority", "--detector", "spem", "--detector", "jaffe:2", "-o", "a.csv")
    run("annotators", "two.csv", *options)
    table = pl.read_csv(folder / "a.csv")
    assert table.columns[table.columns.index("bits") + 1 : table.columns.index("worst_confusion")] == ["spem", "jaffe"]
    assert set(table["jaffe"]) == {1, 2}
    assert table.sort("spem")["annotator"][0] == "annotator-06"
    refused = run("annotators", "two.csv", "--detector", "spam", code=2).stderr
    assert "--detector: no detector 'spam'; did you mean 'spem'?" in refused
