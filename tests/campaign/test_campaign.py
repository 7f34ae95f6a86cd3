"""Policies raced on one crowd."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import crowdwise
from crowdwise.campaign.campaign import race, summary, write_curves
from crowdwise.campaign.oracle import RecordedCrowd, SimulatedCrowd
from crowdwise.data.simulate import simulate
from crowdwise.errors import CrowdwiseWarning, InputError, SettingError
from crowdwise.io import read_gold
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.methods.labels.majority import MajorityVote
from crowdwise.report import race_table


def perfect(n_items: int = 10) -> SimulatedCrowd:
    return SimulatedCrowd(np.tile(np.eye(2), (3, 1, 1)), np.arange(n_items) % 2)


def test_a_row_after_every_batch_of_every_policy_and_seed() -> None:
    curves = race(["random+random", "entropy+accuracy"], perfect(), MajorityVote(), 10, 4, seeds=[3, 5], explore=0)
    assert curves.columns == [
        "policy",
        "seed",
        "votes",
        "cost",
        "accuracy",
        "expected_accuracy",
        "expected_low",
        "expected_high",
    ]
    assert curves["votes"].to_list() == [4, 8, 10] * 4
    assert curves["policy"].unique(maintain_order=True).to_list() == ["random+random", "entropy+accuracy"]
    assert curves["seed"].to_list() == [3, 3, 3, 5, 5, 5] * 2
    # Perfect annotators, the uncertain items first: after ten votes every item has one.
    last = curves.filter((pl.col("policy") == "entropy+accuracy") & (pl.col("votes") == 10))
    assert last["accuracy"].to_list() == [1, 1]


def test_the_model_that_was_given_stays_unfitted() -> None:
    model = MajorityVote()
    race(["random+random"], perfect(4), model, 4, 2, seeds=[0])
    assert not hasattr(model, "result_")


def test_a_random_start_is_the_same_for_all_policies() -> None:
    crowd = SimulatedCrowd.of(simulate(n_items=20, n_annotators=5, random_state=0))
    curves = race(["information", "margin+ucb"], crowd, BayesGC(), 30, 10, seeds=[0, 1], start=15)
    assert curves["votes"].to_list() == [15, 25, 30] * 4
    first = curves.filter(pl.col("votes") == 15)
    assert first["accuracy"].to_list()[:2] == first["accuracy"].to_list()[2:]


def test_a_recorded_crowd_ends_when_all_its_votes_are_told() -> None:
    drawn = simulate(n_items=12, n_annotators=5, votes_per_item=3, random_state=1)
    curves = race(["information"], RecordedCrowd(drawn.votes, drawn.gold), BayesGC(), 1000, 20, seeds=[0])
    assert curves["votes"][-1] == 36
    right = BayesGC().fit(drawn.votes).result_.codes
    assert curves["accuracy"][-1] == pytest.approx((right == drawn.truth).mean())


def test_the_summary_is_the_end_of_the_race() -> None:
    curves = pl.DataFrame(
        {
            "policy": ["a"] * 4,
            "seed": [0, 0, 1, 1],
            "votes": [1, 2, 1, 2],
            "accuracy": [0.2, 0.6, 0.4, 0.8],
            "expected_accuracy": [0.5] * 4,
            "expected_low": [0.3] * 4,
            "expected_high": [0.75] * 4,
        }
    )
    row = summary(curves).row(0, named=True)
    # Ends 0.6 and 0.8: their standard deviation is 0.1414, divided by the root of two.
    assert (row["campaigns"], row["votes"], row["expected_accuracy"], row["expected_low"]) == (2, 2, 0.5, 0.3)
    assert row["accuracy"] == pytest.approx(0.7)
    assert row["standard_error"] == pytest.approx(0.1)
    assert row["on_the_way"] == pytest.approx(0.5)
    assert summary(curves.head(2))["standard_error"].to_list() == [None]


def test_curves_are_written_as_a_table_and_a_picture(tmp_path: Path) -> None:
    curves = race(["random+random"], perfect(4), MajorityVote(), 4, 2, seeds=[0, 1])
    written = write_curves(curves, tmp_path / "race", plot=False)
    assert [path.name for path in written] == ["curves.csv"]
    assert pl.read_csv(written[0], schema=curves.schema).equals(curves)
    pytest.importorskip("matplotlib")
    assert write_curves(curves, tmp_path / "race")[1].read_bytes().startswith(b"\x89PNG")


def test_races_without_a_point_are_refused() -> None:
    crowd = perfect(2)
    for policies in ([], ["entropy", "entropy"]):
        with pytest.raises(SettingError, match="one or more different"):
            race(policies, crowd, MajorityVote(), 2, 1)
    with pytest.raises(SettingError, match="within the budget"):
        race(["entropy"], crowd, MajorityVote(), 2, 3)
    drawn = simulate(n_items=4, n_annotators=3, votes_per_item=2, random_state=1)
    with pytest.raises(InputError, match="does not know the truth"):
        race(["entropy"], RecordedCrowd(drawn.votes), MajorityVote(), 2, 1)


@pytest.mark.slow
def test_information_beats_chance_where_annotators_differ() -> None:
    drawn = simulate(
        n_items=100, n_annotators=12, n_classes=2, annotators={"one-coin": 0.5, "uniform-spammer": 0.5}, random_state=3
    )
    curves = race(["random+random", "information"], SimulatedCrowd.of(drawn), BayesGC(), 400, 50, seeds=range(3), start=100)
    accuracy = dict(summary(curves).select("policy", "accuracy").rows())
    assert accuracy["information"] > accuracy["random+random"]


@pytest.mark.slow
@pytest.mark.parametrize("model", [DawidSkene(), BayesGC()])
def test_the_default_is_never_worse_than_chance(model: Any) -> None:
    """The same questions as at random until votes overlap, then better ones, on a crowd in which half flip coins."""
    drawn = simulate(
        n_items=60, n_annotators=12, n_classes=2, annotators={"one-coin": 0.5, "uniform-spammer": 0.5}, random_state=3
    )
    curves = race(["random+random", "warm-information"], SimulatedCrowd.of(drawn), model, 240, 30, seeds=range(2))
    names = ("random+random", "warm-information")
    chance, default = (curves.filter(pl.col("policy") == name).sort("seed", "votes") for name in names)
    gain = default.select("votes", gain=default["accuracy"] - chance["accuracy"]).group_by("votes").agg(pl.col("gain").mean())
    assert (gain.filter(pl.col("votes") <= 60)["gain"] == 0).all()
    assert gain["gain"].min() > -0.02
    assert gain.filter(pl.col("votes") >= 150)["gain"].mean() > 0.02


@pytest.mark.slow
def test_recorded_people_answer_only_what_they_were_asked_then(shared_data: Path) -> None:
    votes = crowdwise.read(shared_data / "rte" / "annotations.csv")
    truth = read_gold(shared_data / "rte" / "truth.csv", votes)
    crowd = RecordedCrowd(votes, truth)
    curves = race(["random+random", "information"], crowd, BayesGC(), 2400, 800, seeds=[0])
    # A question per item and batch, of the ten votes that were recorded on each of the 800.
    assert curves["votes"].to_list() == [800, 1600, 2400] * 2
    assert (curves["accuracy"] > 0.5).all()


def test_without_matplotlib_the_table_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    curves = race(["random+random"], perfect(4), MajorityVote(), 4, 2, seeds=[0])
    with pytest.warns(CrowdwiseWarning, match=r"curves.png is not drawn: .*pip install"):
        written = write_curves(curves, tmp_path)
    assert [path.name for path in written] == ["curves.csv"]
    assert pl.read_csv(written[0]).height == 2


def test_what_is_not_known_yet_is_no_number() -> None:
    """Eight items: after eight votes hardly two on one item, after sixteen random ones some on most."""
    curves = race(["random+random"], perfect(8), MajorityVote(), 32, 8, seeds=[0], explore=0)
    expected = curves.select("expected_accuracy", "expected_low", "expected_high")
    assert expected.row(0) == (None, None, None)
    assert None not in expected.row(-1)
    assert curves["accuracy"].null_count() == 0
    unknown = race_table(summary(curves.head(1)))
    assert unknown["expected (in nine of ten crowds)"].to_list() == ["unknown"]
