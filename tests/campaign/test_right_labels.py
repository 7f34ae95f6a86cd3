"""How many labels are right: the mixture over crowds by enumeration, and what is said where votes cannot tell."""

from __future__ import annotations

import math
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.right_labels import RightLabels, in_crowds
from crowdwise.campaign.stopping import accuracy_words, chance_of, expected_accuracy, plan, reached
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import DataWarning
from crowdwise.estimator.experience import EXPONENT_SD, EXPONENT_SD_ABOVE, TEMPERATURE_SD, TEMPERATURE_SD_ABOVE
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.methods.labels.dawid_skene import DawidSkene

STEPS = [-3 + g / 4 for g in range(25)]


def believed(posterior: Any, votes: Annotations) -> Any:
    """A result that rests on experience."""
    posterior = np.asarray(posterior, float)
    return SimpleNamespace(
        votes=votes,
        posterior=posterior,
        codes=posterior.argmax(axis=1),
        confidence=posterior.max(axis=1),
        confidence_source="experience",
        method="dawid-skene",
        settings={"confidence": "experience"},
        history=None,
        prior=None,
    )


def in_crowd(row: list[float], n_votes: int, z: float) -> float:
    """Chance that the likeliest class of a row is right in a crowd z standard deviations from the usual one."""
    of_votes, other = (EXPONENT_SD_ABOVE, TEMPERATURE_SD_ABOVE) if z > 0 else (EXPONENT_SD, TEMPERATURE_SD)
    temperature = math.exp(z * math.sqrt((of_votes * math.log(n_votes)) ** 2 + other**2))
    powers = [p ** (1 / temperature) for p in row]
    return max(powers) / sum(powers)


def some_votes(counts: list[int]) -> Annotations:
    pairs = [(f"i{n}", f"a{a}", "cat" if n % 2 else "dog") for n, count in enumerate(counts) for a in range(count)]
    return Annotations.from_arrays(*map(list, zip(*pairs, strict=True)))


def test_the_mixture_over_crowds_is_the_enumerated_one() -> None:
    rows, counts = [[0.9, 0.1], [0.3, 0.7], [0.55, 0.45], [0.02, 0.98]], [2, 3, 1, 8]
    result = believed(rows, some_votes(counts))
    chances, weights = [0.0] * 5, [math.exp(-z * z / 2) for z in STEPS]
    for z, weight in zip(STEPS, weights, strict=True):
        right = [in_crowd(row, count, z) for row, count in zip(rows, counts, strict=True)]
        for outcome in product([0, 1], repeat=4):
            chance = math.prod(p if hit else 1 - p for p, hit in zip(right, outcome, strict=True))
            chances[sum(outcome)] += chance * weight / sum(weights)
    for needed in range(1, 5):
        assert chance_of(result, needed / 4) == pytest.approx(sum(chances[needed:]), abs=1e-12)
    mean, low, high = expected_accuracy(result, 0.9)
    below = np.cumsum(chances)
    assert mean == pytest.approx((0.9 + 0.7 + 0.55 + 0.98) / 4)
    assert (low, high) == (np.searchsorted(below, 0.05) / 4, np.searchsorted(below, 0.95) / 4)


def test_large_sets_are_as_wide_as_crowds_differ() -> None:
    # Crowds decide where items are many: the ends are the shares right at +-1.645 standard deviations.
    rows, counts = [[0.1, 0.9], [0.9, 0.1]] * 15_000, [4] * 30_000
    _, low, high = expected_accuracy(believed(rows, some_votes(counts)))
    assert low == pytest.approx(in_crowd(rows[0], 4, 1.645), abs=0.003)
    assert high == pytest.approx(in_crowd(rows[0], 4, -1.645), abs=0.003)


def test_one_vote_is_doubted_too() -> None:
    chances = in_crowds(np.array([[0.8, 0.2]]), np.array([0]), np.ones(1), "dawid-skene")
    assert chances[0, 0] > 0.85
    assert chances[12, 0] == pytest.approx(0.8)
    assert chances[-1, 0] < 0.7


def test_crowds_of_a_classifier_differ_in_temperature() -> None:
    few, many = (in_crowds(np.array([[0.8, 0.2]]), np.array([0]), np.array([votes]), "raykar") for votes in (1.0, 20.0))
    np.testing.assert_allclose(few, many)
    # Three standard deviations of .46: T is exp(1.38) = 3.9749, and 4 ** (1 / T) is 1.4174.
    assert few[-1, 0] == pytest.approx(1.4174 / 2.4174, abs=1e-4)
    assert few[0, 0] == pytest.approx(4**3.9749 / (1 + 4**3.9749), abs=1e-4)


def test_the_normal_distribution_agrees_with_the_exact_one() -> None:
    right = np.random.default_rng(0).uniform(0.5, 1, (25, 400))
    weight = np.full(25, 1 / 25)
    exact, normal = RightLabels.of(right, weight, 400), RightLabels.of(right, weight, 400, 0)
    for count in (280, 300, 310):
        assert exact.at_least(count) == pytest.approx(normal.at_least(count), abs=0.01)
    assert exact.quantile(0.05) == pytest.approx(normal.quantile(0.05), abs=0.005)


def test_where_a_rule_without_a_range_was_sure_and_half_the_labels_wrong() -> None:
    # One vote per item, and features that say nothing.
    drawn = simulate(200, 20, 3, 1, annotators="one-coin", random_state=0)
    features = np.random.default_rng(0).normal(size=(200, 4))
    result = Raykar().fit(features, drawn.votes).result_
    assert (result.codes == drawn.truth).mean() < 0.5
    assert RightLabels.of(result.model_posterior.max(axis=1)[None], np.ones(1), 200).at_least(140) == pytest.approx(1, abs=1e-3)
    assert chance_of(result, 0.7) == 0
    assert accuracy_words(result) == "expected accuracy unknown: most items have at most one vote"
    loop = ActiveLoop(Raykar(), votes=drawn.votes, features=features)
    assert loop.stop(target=0.7) == ""


def one_sided(n_against: int, n_all: int) -> Annotations:
    """Two votes per item for "no"; on some items two of three say "yes", and never the same two."""
    rows = [(f"i{n:02}", f"a{(n + v) % 40}", "no") for n in range(n_all) for v in range(2 - (n < n_against))]
    rows += [(f"i{n:02}", f"b{v}{n}", "yes") for n in range(n_against) for v in range(2)]
    return Annotations.from_arrays(*map(list, zip(*rows, strict=True)))


def test_a_model_that_gave_up_a_class_against_the_votes_is_not_believed() -> None:
    """Dawid-Skene on few votes of a skewed set: one class is left, every other vote is an error, and nothing is doubted."""
    votes = one_sided(12, 60)
    sure = np.tile([1 - 1e-9, 1e-9], (60, 1))
    result = believed(sure, votes)
    assert RightLabels.of(sure[:, 0][None], np.ones(1), 60).quantile(0.05) == 1
    assert accuracy_words(result) == "expected accuracy unknown: no label is 'yes', against the votes on 12 items"
    assert chance_of(result, 0.8) == 0
    assert expected_accuracy(result)[1:] == (0, 1)
    # Of the others alone, something is known.
    assert chance_of(result, 0.8, np.arange(12, 60)) > 0.95
    # To it, new votes would be errors as well.
    assert plan(result, 0.8).out_of_reach == 1


def test_a_class_that_nobody_is_may_be_given_up_where_the_range_leaves_room() -> None:
    votes = one_sided(3, 60)
    doubted = believed(np.tile([0.9, 0.1], (60, 1)), votes)
    assert accuracy_words(doubted).startswith("expected accuracy 90%")
    # Who asks what the model believes, or checks labels, is told that.
    doubted.confidence_source, doubted.posterior = "model", np.tile([1.0, 0.0], (60, 1))
    doubted.confidence = doubted.posterior.max(axis=1)
    assert accuracy_words(doubted) == "expected accuracy 100% (90% interval 100% to 100%, if the model is right)"


def test_classifiers_are_no_surer_than_experience_allows() -> None:
    drawn = simulate(60, 8, 2, 4, random_state=0)
    result = Raykar().fit(np.random.default_rng(0).normal(size=(60, 2)), drawn.votes).result_
    assert result.confidence.mean() < result.model_posterior.max(axis=1).mean()
    assert ", in nine of ten crowds between " in accuracy_words(result)
    # Who asks for the model's own confidence gets it.
    asked = DawidSkene(confidence="model").fit(drawn.votes).result_
    assert "if the model is right" in accuracy_words(asked)


def test_a_target_is_reached_when_the_lower_end_reaches_it() -> None:
    result = DawidSkene().fit(simulate(150, 8, 3, 5, random_state=1).votes).result_
    _, low, _ = expected_accuracy(result)
    assert reached(result, low - 0.01)
    assert not reached(result, low + 0.02)
    # The plan agrees with the stop.
    assert plan(result, low - 0.01, repeats=2).votes == 0
    assert plan(result, min(low + 0.02, 0.99), repeats=2).votes > 0


def test_no_votes_one_item_one_annotator_one_class() -> None:
    nothing = Annotations.from_arrays([], [], [], items=["i"], annotators=["a"], classes=["cat", "dog"])
    result = DawidSkene().fit(nothing).result_
    assert chance_of(result, 0.5) == 0
    assert accuracy_words(result) == "expected accuracy unknown: most items have at most one vote"
    assert expected_accuracy(result)[1:] == (0, 1)
    lonely = DawidSkene().fit(Annotations.from_arrays(["i", "j"], ["a", "a"], ["cat", "dog"])).result_
    assert not reached(lonely, 0.5)
    with pytest.warns(DataWarning, match="only one class"):
        agreed = DawidSkene().fit(Annotations.from_arrays(["i", "i"], ["a", "b"], ["cat", "cat"])).result_
    assert accuracy_words(agreed) == "expected accuracy unknown: one class only occurs"
    assert not reached(agreed, 0.5)
    none = nothing.take_items(np.empty(0, np.int64))
    assert math.isnan(expected_accuracy(DawidSkene().fit(none).result_)[0])
    assert accuracy_words(DawidSkene().fit(none).result_) == "expected accuracy unknown: there are no items"
