from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest
from tests.trust.crowd.crowds import fit

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd import drift
from crowdwise.trust.crowd.times import time_of_votes


def tired_crowd(seed: int) -> tuple[Result, np.ndarray]:
    """Annotator 1 answers at random in the last third of the time."""
    votes = simulate(900, 12, 3, 6, "one-coin", random_state=seed).votes
    rng = np.random.default_rng(seed)
    time = rng.random(votes.n_votes)
    label = votes.label.astype(int)
    tired = (votes.annotator == 0) & (time > 2 / 3)
    label[tired] = rng.integers(3, size=int(tired.sum()))
    changed = Annotations.from_arrays(votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[label])
    return fit(changed), time


def test_a_change_is_found_and_dated() -> None:
    for seed in range(5):
        result, time = tired_crowd(seed)
        report = drift.score(result, time)
        assert report.flagged == ["annotator-01"]
        row = report.frame.row(0, named=True)
        assert row["before"] - row["after"] > 0.2
        assert 0.55 < row["changed_at"] < 0.8
        assert "fell from" in row["reason"]


@pytest.mark.slow
def test_constant_annotators_do_not_drift() -> None:
    small, flagged = 0, 0
    for seed in range(25):
        votes = simulate(500, 12, 3, 6, "one-coin", random_state=seed).votes
        frame = drift.score(fit(votes), np.random.default_rng(seed).random(votes.n_votes)).frame
        small += int((frame["p_value"] < 0.05).sum())
        flagged += int(frame["flag"].any())
    assert small / 300 < 0.08
    assert flagged <= 3


def test_a_changing_mix_of_classes_is_no_drift() -> None:
    # Class 0 comes first and everybody is bad at it; that is not a change of anybody.
    confusion = np.repeat(np.array([[[0.6, 0.4], [0.05, 0.95]]]), 10, axis=0)
    crowd = simulate(1500, annotators=confusion, votes_per_item=6, random_state=0)
    time = crowd.truth[crowd.votes.item] + np.random.default_rng(0).random(crowd.votes.n_votes)
    assert drift.score(fit(crowd.votes), time).flagged == []


def test_those_beside_somebody_who_changes_are_not_flagged() -> None:
    # Annotator 0 says 0 whatever the item is from item 60 on: the consensus of four is less sure from then on.
    item, who = (codes.ravel() for codes in np.indices((120, 4)))
    label = np.where((who == 0) & (item >= 60), 0, item % 2)
    found = drift.score(fit(Annotations.from_arrays(item, who, label)), item)
    assert found.flagged == [0]


def test_votes_of_one_time_have_no_order() -> None:
    result, _ = tired_crowd(0)
    assert drift.score(result, np.zeros(result.votes.n_votes)).frame["score"].to_numpy().max() == pytest.approx(0, abs=1e-9)


def test_times_in_every_shape() -> None:
    votes = Annotations.from_arrays([1, 1, 2], ["x", "y", "x"], ["a", "b", "b"])
    given = {"item": [2, 1, 1], "annotator": ["x", "y", "x"], "time": [30, 20, 10]}
    assert time_of_votes(votes, pl.DataFrame(given)).tolist() == [10, 20, 30]
    assert time_of_votes(votes, given | {"label": ["b", "b", "a"]}).tolist() == [10, 20, 30]
    assert time_of_votes(votes, [1, 2.5, None])[:2].tolist() == [1, 2.5]
    for days in (
        ["2025-01-03", "2025-01-02", "2025-01-01"],
        [datetime.datetime(2025, 1, d) for d in (3, 2, 1)],
        ["3", "2", " 1 "],
    ):
        times = time_of_votes(votes, given | {"time": days})
        assert times.argsort().tolist() == [0, 1, 2]
    assert np.isnan(time_of_votes(votes, {"item": [1], "annotator": ["x"], "time": [5]})).tolist() == [False, True, True]


def test_times_that_cannot_be_used_are_refused() -> None:
    votes = Annotations.from_arrays([1, 1, 2], ["x", "y", "x"], ["a", "b", "b"])
    for wrong, message in (
        ([1, 2], "2 times for 3 votes"),
        ({"item": [9], "annotator": ["x"], "time": [1]}, "none of the times"),
        ({"item": [1], "annotator": ["x"], "when": [1]}, "column time"),
        (["soon", "later", "now"], "cannot read times such as 'soon'"),
    ):
        with pytest.raises(InputError, match=message):
            time_of_votes(votes, wrong)


def test_votes_without_a_time_are_left_out_and_counted() -> None:
    result, time = tired_crowd(0)
    time[:7] = np.nan
    assert drift.score(result, time).notes == ("7 votes without a time were left out",)
