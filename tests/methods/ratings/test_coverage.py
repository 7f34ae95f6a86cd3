from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import crowdwise
from crowdwise.data.ratings import Ratings
from crowdwise.data.simulate.ratings import simulate_values
from crowdwise.errors import CrowdwiseWarning
from crowdwise.methods.ratings.coverage import held_out_products, widening


def fit(name: str, values: Ratings, gold: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return crowdwise.make(name).fit(values, gold=gold).result_


def covered(result: Any, truth: np.ndarray, level: float = 0.9) -> float:
    low, high = result.interval(level)
    return float(((low[:, 0] <= truth) & (truth <= high[:, 0])).mean())


def test_products_are_those_of_all_pairs_of_annotators() -> None:
    rng = np.random.default_rng(0)
    item, who = [0, 0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 2, 0, 1, 2, 0, 2, 3]
    value, weight = rng.normal(size=(10, 2)), rng.integers(1, 3, 10).astype(float)
    values = Ratings.from_arrays(item, who, value, weight=weight, items=range(5), annotators=range(4))
    estimate = rng.normal(size=(5, 2))
    # The weight of an annotator: the squared correlation with the estimates, adjusted for one slope, of three answers or more.
    follows = np.zeros((4, 2))
    for a in range(4):
        own = values.annotator == a
        y, z, w = values.value[own], estimate[values.item[own]], values.weights[own]
        for d in range(2):
            covariance = np.cov(y[:, d], z[:, d], aweights=w) if own.sum() > 1 else np.zeros((2, 2))
            r = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]) if own.sum() > 1 else 0.0
            if r > 0 and w.sum() > 2:
                follows[a, d] = max(1 - (1 - r**2) * (w.sum() - 1) / (w.sum() - 2), 0)
    assert (follows > 0).any()
    errors: dict[tuple[int, int], np.ndarray] = {}
    mass: dict[tuple[int, int], float] = {}
    for n, a, y, w in zip(values.item.tolist(), values.annotator.tolist(), values.value, values.weights, strict=True):
        errors[n, a] = errors.get((n, a), np.zeros(2)) + w * (y - estimate[n])
        mass[n, a] = mass.get((n, a), 0.0) + w
    expected, pairs = np.zeros((5, 2)), np.zeros((5, 2))
    for n in range(5):
        said: list[tuple[np.ndarray, np.ndarray]] = []
        for a in range(4):
            other = [key for key in errors if key[1] == a and key[0] != n]
            if (n, a) in errors and other:
                bias = sum(errors[key] for key in other) / sum(mass[key] for key in other)
                said.append((follows[a] * (errors[n, a] - mass[n, a] * bias), follows[a] * mass[n, a]))
        for (x, v), (y, w) in combinations(said, 2):
            expected[n] += x * y
            pairs[n] += v * w
    products, found = held_out_products(values, estimate)
    assert products == pytest.approx(expected)
    assert found == pytest.approx(pairs)
    assert (pairs[3] == 0).all()  # annotator 3 answered nothing else


def test_products_show_the_squared_error_of_estimates_whatever_the_noise() -> None:
    rng = np.random.default_rng(1)
    n, a = 4000, 6
    noise, bias, wrong = np.array([0.1, 0.5, 1, 1, 1, 2]), rng.normal(size=a), 0.7 * rng.normal(size=n)
    truth = rng.normal(size=n)
    value = truth[:, None] + bias + noise * rng.normal(size=(n, a))
    values = Ratings.from_arrays(np.repeat(np.arange(n), a), np.tile(np.arange(a), n), value.ravel(), items=range(n))
    products, pairs = held_out_products(values, (truth + wrong)[:, None])
    assert products.sum() / pairs.sum() == pytest.approx(0.49, abs=0.07)


def test_ratios_near_one_or_below_widen_nothing_and_others_are_shrunk() -> None:
    found = widening(np.array([0.3, 1.5, 3.0, 3.0]), np.array([0.1, 0.6, 0.0, 1.0]))
    assert found == pytest.approx([1, 1, 3, 2.5])


def test_a_crowd_that_keeps_to_the_model_keeps_its_intervals() -> None:
    widened = [fit("gaussian-crowd-bayes", simulate_values(200, random_state=seed).values).widened[0] for seed in range(4)]
    assert np.mean(widened) < 1.15


def silent(simulated: Any, silent: np.ndarray) -> Ratings:
    """The same crowd, in which these annotators say 0 whatever the item."""
    values = simulated.values
    value = np.where(silent[values.annotator][:, None], 0.0, values.value)
    return Ratings.from_arrays(values.item, values.annotator, value, items=range(values.n_items))


def test_where_most_say_the_same_held_out_annotators_show_that_estimates_are_off() -> None:
    simulated = simulate_values(150, 30, 8, noise=0.7, random_state=0)
    result, truth = fit("gaussian-crowd-bayes", silent(simulated, np.arange(30) % 10 < 7)), simulated.truth[:, 0]
    plain = np.abs(result.estimate[:, 0] - truth) <= 1.645 * result.sd[:, 0] / result.widened[0]
    assert plain.mean() < 0.5
    assert covered(result, truth) > plain.mean() + 0.2


def test_a_few_who_always_say_the_same_change_nothing() -> None:
    simulated = simulate_values(150, 30, 8, noise=0.4, random_state=0)
    assert fit("gaussian-crowd-bayes", silent(simulated, np.arange(30) % 10 < 2)).widened[0] < 1.2


@pytest.mark.parametrize("name", ["mean", "gaussian-crowd-bayes"])
def test_known_values_show_what_the_crowd_as_a_whole_gets_wrong(name: str) -> None:
    simulated = simulate_values(200, 30, 8, random_state=3)
    seen, rng = simulated.truth[:, 0], np.random.default_rng(3)
    # What everybody sees is not what is there, and no answer can tell.
    truth = seen + rng.normal(size=200)
    assert covered(fit(name, simulated.values), truth) < 0.6
    gold = {n: truth[n] for n in range(40)}
    result = fit(name, simulated.values, gold)
    # The standard deviation of what everybody gets wrong is 1.
    assert result.crowd_error[0] == pytest.approx(1, abs=0.25)
    low, high = result.interval(0.9)
    hits = ((low[:, 0] <= truth) & (truth <= high[:, 0]))[40:]
    # The standard error of a share of 160 is 0.024, and the factor rests on 40 values.
    assert hits.mean() == pytest.approx(0.9, abs=0.08)


def test_two_known_values_are_too_few_to_widen_anything() -> None:
    values = simulate_values(60, 10, 5, random_state=0).values
    assert fit("mean", values, {0: 50.0, 1: -50.0}).crowd_error == 0
