from __future__ import annotations

import re

import numpy as np
import pytest
from tests.trust.calibration.crowds import teams

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import make
from crowdwise.report.trust_text import decision_lines
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


def dependent_crowd(seed: int = 0):
    """Three teams whose members repeat each other: what experience with real crowds is about."""
    votes, truth = teams(400, [3, 2, 2], 0.85, 0.9, seed=seed)
    return make("consensus").fit(votes).result_, truth


def test_labels_that_the_fit_knew_buy_no_errors_among_the_others():
    """What is certain by being told would lower the mean error of the surest, and let doubtful labels in."""
    drawn, _ = crowd()
    names, classes = drawn.votes.items, drawn.votes.classes
    gold = {names[n]: classes[drawn.truth[n]] for n in range(250)}
    found = decide(make("consensus").fit(drawn.votes, gold=gold).result_, 0.05)
    chosen = found.accept & (np.arange(400) >= 250)
    error = np.sort(1 - found.result.confidence[250:])
    # As many of the surest others as keep their own mean error within the rate.
    most = int((np.cumsum(error) / np.arange(1, 151) <= 0.05).sum())
    assert 0 < most < 150
    assert chosen.sum() == most
    said = list(decision_lines(found, 0.05, 0.05))
    assert said[1].startswith(f"accept {most} of 150 items")
    assert said[2].startswith("expected error of the accepted: 0.0")
    assert not found.checked


def test_the_range_lies_above_the_expected_error():
    result, _ = dependent_crowd()
    found = decide(result, 0.2)
    assert found.result.confidence_source == "experience"
    assert 0 < found.accept.sum() < 400
    expected = (1 - result.confidence[found.accept]).mean()
    assert expected <= 0.2
    assert found.range_error is not None
    assert found.range_error > expected
    assert found.range_error == pytest.approx((1 - result.confidence_in(0.9)[found.accept]).mean())
    assert found.facts()["range_error"] == found.range_error
    assert found.facts()["confidence_source"] == "experience"


def test_assurance_accepts_a_part_of_what_is_expected_to_be_within_the_rate():
    result, _ = dependent_crowd()
    average = decide(result, 0.2)
    held = [decide(result, 0.2, assurance=share) for share in (0.6, 0.9, 0.99)]
    for more, fewer in zip([average, *held], held, strict=False):
        assert fewer.accept.sum() < more.accept.sum()
        assert not (fewer.accept & ~more.accept).any()
    # In nine of ten crowds the rate is kept.
    nine = held[1]
    assert (1 - result.confidence_in(0.9)[nine.accept]).mean() <= 0.2
    assert nine.range_error is not None
    assert nine.range_error <= 0.2
    # The next label and all that are as sure would be too many.
    surest = np.sort(result.confidence_in(0.9))[::-1]
    following = surest >= surest[nine.accept.sum()] - 1e-9
    assert (1 - surest[following]).mean() > 0.2


def test_assurance_is_about_crowds_in_general():
    drawn, result = crowd()
    for options in ({"truth": drawn.gold}, {"how": "none"}):
        with pytest.raises(SettingError, match="assurance"):
            decide(result, 0.1, assurance=0.9, **options)


def test_there_is_no_range_by_the_model_alone_nor_with_truth_nor_where_nothing_is_accepted():
    drawn, result = crowd()
    assert decide(result, 0.1, how="none").range_error is None
    assert decide(result, 0.2, truth=drawn.gold).range_error is None
    nothing = decide(result, 1e-6)
    assert not nothing.accept.any()
    assert nothing.range_error is None


def test_the_lines_say_what_was_accepted_and_in_how_many_crowds():
    result, truth = dependent_crowd()
    found = decide(result, 0.2)
    lines = list(decision_lines(found, 0.2, 0.05))
    accepted = int(found.accept.sum())
    assert lines[0].startswith("consensus: confidence by experience")
    assert lines[1].startswith(f"accept {accepted:,} of 400 items")
    assert lines[1].endswith(f"review {400 - accepted:,}")
    expected = (1 - result.confidence[found.accept]).mean()
    shown = [float(number) for number in re.findall(r"\d\.\d+", lines[2])]
    assert shown == pytest.approx([expected, found.range_error], rel=0.01)
    assert "nine of ten crowds" in lines[2]
    assert "audit" in lines[3]
    # With known labels the lines are about them, and promise no range.
    known = dict(zip(result.votes.items.tolist()[::2], result.votes.classes[truth[::2]].tolist(), strict=True))
    checked = "\n".join(decision_lines(decide(result, 0.3, truth=known), 0.3, 0.05))
    assert "nine of ten" not in checked
    assert "with a true label" in checked
    nothing = list(decision_lines(decide(result, 1e-6), 1e-6, 0.05))
    assert nothing[1] == "accept 0 of 400 items, review 400"


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
