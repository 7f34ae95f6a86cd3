from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.estimator.registry import make
from crowdwise.trust.calibration.decisions import decide


def crowd(seed: int = 0, n: int = 400):
    drawn = simulate(n, 15, 3, 5, "one-coin", options={"one-coin": {"a": 7, "b": 3}}, random_state=seed)
    return drawn, make("dawid-skene").fit(drawn.votes).result_


def test_without_truth_the_posterior_promises_the_rate():
    drawn, result = crowd()
    found = decide(result, 0.05, how="none")
    confidence = found.result.confidence
    assert (1 - confidence[found.accept]).mean() <= 0.05
    assert confidence[found.accept].min() > confidence[~found.accept].max()
    # Independent annotators, so the promise is kept: a standard error of about 0.012.
    assert (result.codes != drawn.truth)[found.accept].mean() < 0.05 + 3 * 0.012


def test_known_labels_are_accepted_as_they_are_and_items_without_votes_never():
    drawn, result = crowd()
    votes = drawn.votes.take_votes(drawn.votes.item != 5)
    result = make("dawid-skene").fit(votes).result_
    wrong = int(np.flatnonzero(result.codes != drawn.truth)[0])
    names = votes.items
    truth = {names[n]: votes.classes[drawn.truth[n]] for n in [wrong, *range(100, 250)]}
    found = decide(result, 0.2, truth=truth, how="none", sets=True)
    frame = found.frame()
    assert frame["label"][wrong] == votes.classes[drawn.truth[wrong]]
    assert frame.row(wrong)[2:] == (1.0, "accept", "known", votes.classes[drawn.truth[wrong]])
    assert frame["decision"][5] == "review"
    assert frame["note"][5] == "no votes"
    assert found.n_known == 151
    assert found.facts()["n_accepted"] + found.facts()["n_review"] + 151 == 400


def test_sets_are_written_from_the_most_probable_class():
    votes = Annotations.from_arrays(["a"] * 5 + ["b"] * 5, [1, 2, 3, 4, 5] * 2, ["x", "x", "x", "y", "y"] + ["y"] * 5)
    result = make("majority").fit(votes).result_
    frame = decide(result, 0.1, how="none", sets=True).frame()
    assert frame["set"].to_list() == ["x | y", "y"]


@pytest.mark.slow
def test_with_truth_the_accepted_err_within_the_rate():
    rates = []
    for seed in range(12):
        drawn, result = crowd(seed, n=800)
        known = {name: label for n, (name, label) in enumerate(drawn.gold.items()) if n % 2 == 0}
        found = decide(result, 0.1, truth=known, how="none", delta=0.1)
        new = found.accept & (np.arange(800) % 2 == 1)
        rates.append((result.codes != drawn.truth)[new].mean())
        assert found.selection.bound is not None
        assert found.selection.bound <= 0.1
    # Exceeding is allowed one time in ten; four or more of twelve has probability 0.026.
    assert np.sum(np.array(rates) > 0.1 + 0.015) <= 3
