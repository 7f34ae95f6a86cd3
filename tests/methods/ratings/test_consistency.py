"""More answers bring every method for numbers nearer to the truth, and models to the noise of each annotator."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from crowdwise import make
from crowdwise.data.ratings import Ratings
from crowdwise.estimator.registry import METHODS
from crowdwise.methods.ratings.problem import Problem

Floats = NDArray[np.float64]
NUMBERS = [name for name, method in METHODS.items() if method.answers == "ratings" and not method.features]
MODELS = ["gaussian-crowd", "gaussian-crowd-bayes", "student-crowd", "covariance-crowd"]
# One precise annotator, one good one, and eight who are five to twenty times as noisy as the first.
NOISE = np.array([0.2, 0.5, 1, 1.5, 2, 2, 3, 3, 4, 4])


def uneven(
    n_items: int, votes_per_item: int, seed: int, noise: NDArray[np.float64] = NOISE
) -> tuple[Ratings, NDArray[np.float64]]:
    """Standard normal truth, and answers of these annotators."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n_items)
    item = np.repeat(np.arange(n_items), votes_per_item)
    annotator = np.argsort(rng.random((n_items, len(noise))), axis=1)[:, :votes_per_item].ravel()
    value = truth[item] + noise[annotator] * rng.normal(size=len(item))
    return Ratings.from_arrays(item, annotator, value, items=range(n_items), annotators=range(len(noise))), truth


def error(name: str, ratings: Ratings, truth: Floats) -> float:
    return float(np.sqrt(((make(name).fit(ratings).estimate_[:, 0] - truth) ** 2).mean()))


# The loop of weighted-mean ends with one annotator alone; its docstring says so.
@pytest.mark.usefixtures("model_alone")
@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "weighted-mean"])
def test_sixteen_times_the_answers_leave_about_a_quarter_of_the_error(name: str) -> None:
    crowd = np.tile([0.5, 1.0, 1.5, 2.0], 16)
    few, many = (error(name, *uneven(150, per_item, 1, crowd)) for per_item in (4, 64))
    assert many < few / 2.5


@pytest.mark.usefixtures("model_alone")
@pytest.mark.parametrize("name", MODELS)
def test_the_noise_of_a_precise_annotator_among_noisy_ones_is_found(name: str) -> None:
    ratings, truth = uneven(6000, 5, 0)
    model = make(name).fit(ratings)
    found = model.annotators_frame()["noise"].to_numpy()
    # EM holds two answers of the overall variance against every annotator, which is seen longest on the best.
    np.testing.assert_allclose(found[0], 0.2, atol=0.12 if name == "gaussian-crowd" else 0.05)
    np.testing.assert_allclose(found[1:], NOISE[1:], rtol=0.06)
    # As good as if the noise were known: the mean of the posterior under the true model.
    precision = 1 / NOISE[ratings.annotator] ** 2
    total = 1 + np.bincount(ratings.item, precision, minlength=6000)
    best = np.bincount(ratings.item, precision * ratings.value[:, 0], minlength=6000) / total
    known = np.sqrt(((best - truth) ** 2).mean())
    assert np.sqrt(((model.estimate_[:, 0] - truth) ** 2).mean()) < 1.05 * known


@pytest.mark.parametrize("name", ["mean", "gaussian-crowd", "gaussian-crowd-bayes", "student-crowd", "covariance-crowd"])
def test_intervals_cover_on_an_uneven_crowd(name: str) -> None:
    ratings, truth = uneven(3000, 5, 2)
    low, high = make(name).fit(ratings).result_.interval(0.95)
    covered = ((low[:, 0] <= truth) & (truth <= high[:, 0])).mean()
    assert 0.93 < covered < 0.99


@pytest.mark.usefixtures("model_alone")
@pytest.mark.parametrize("name", ["gaussian-crowd-bayes", "student-crowd"])
def test_the_noise_of_a_precise_annotator_is_found_in_rounded_answers_too(name: str) -> None:
    """Steps of two thirds of the spread: the best annotator's noise of 0.2 becomes 0.28 by rounding, and no more."""
    exact, truth = uneven(6000, 5, 0)
    step = 2 / 3
    rounded = Ratings.from_arrays(exact.item, exact.annotator, np.round(exact.value / step) * step)
    model = make(name).fit(rounded)
    with_rounding = np.sqrt(NOISE**2 + step**2 / 12)
    np.testing.assert_allclose(model.annotators_frame()["noise"].to_numpy(), with_rounding, rtol=0.15)
    precision = 1 / with_rounding[rounded.annotator] ** 2
    best = np.bincount(rounded.item, precision * rounded.value[:, 0]) / (1 + np.bincount(rounded.item, precision))
    known = np.sqrt(((best - truth) ** 2).mean())
    assert np.sqrt(((model.estimate_[:, 0] - truth) ** 2).mean()) < 1.02 * known


def of_values(values: Floats) -> Problem:
    """These values, four to an item."""
    return Problem.of(
        Ratings.from_arrays(np.arange(len(values)) // 4, np.arange(len(values)) % 4, values), np.full((100, 1), np.nan)
    )


def test_steps_are_seen_where_no_value_stands_out() -> None:
    rng = np.random.default_rng(0)
    exact = rng.normal(0, 3, 400)
    halves = of_values(np.round(2 * exact) / 2)
    assert halves.steps()[0] * halves.spread[0] == pytest.approx(0.5)
    assert of_values(exact).steps()[0] == np.inf
    # Three in four say 0, which is no rounding; nor is there a step in one value.
    assert of_values(np.where(np.arange(400) % 4, 0.0, np.round(exact))).steps()[0] == np.inf
    assert of_values(np.zeros(400)).steps()[0] == np.inf
    # A few answers between the steps make the least difference no step of the others.
    assert of_values(np.where(np.arange(400) < 2, 0.1, np.round(exact))).steps()[0] == np.inf


def test_nobody_is_more_precise_than_steps_are() -> None:
    truth = np.random.default_rng(0).normal(0, 3, 300)
    item, annotator = np.repeat(np.arange(300), 3), np.tile(range(3), 300)
    ratings = Ratings.from_arrays(item, annotator, np.round(truth)[item])
    noise = make("gaussian-crowd-bayes").fit(ratings).annotators_frame()["noise"].to_numpy()
    assert (noise >= np.sqrt(1 / 12) - 0.01).all()


def test_the_step_of_rounded_answers_is_found_from_their_ties() -> None:
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(4000), 4)
    value = rng.normal(0, 5, 4000)[item] + rng.normal(0, 2, len(item))
    ratings = Ratings.from_arrays(item, np.tile(range(4), 4000), np.round(value))
    problem = Problem.of(ratings, np.full((4000, 1), np.nan))
    # Steps of 1, noise of standard deviation 2: ties on 1 / sqrt(4 pi 4) of the pairs, and a variance of 1 / 12.
    assert problem.ties()[0] == pytest.approx(1 / np.sqrt(16 * np.pi), rel=0.05)
    assert problem.rounding()[0] * problem.spread[0] ** 2 == pytest.approx(1 / 12, rel=0.1)
    exact = Problem.of(Ratings.from_arrays(item, np.tile(range(4), 4000), value), np.full((4000, 1), np.nan))
    # As if one pair more had been equal, of all 24,000.
    assert exact.ties()[0] == pytest.approx(1 / 24_002)
    assert exact.rounding()[0] < 1e-8


def test_ties_by_hand() -> None:
    """Three of the six pairs on the first item are equal, none on the second; repeats of one annotator are no pairs."""
    ratings = Ratings.from_arrays([1, 1, 1, 1, 2, 2, 3, 3], list("abcdabaa"), [5, 5, 5, 7, 5, 7, 5, 5])
    assert Problem.of(ratings, np.full((3, 1), np.nan)).ties().tolist() == [(3 + 1) / (7 + 2)]
    # A weight of two is two answers: five pairs, of which two are equal.
    weighed = Ratings.from_arrays([1, 1, 1], list("abc"), [5, 5, 7], weight=[2, 1, 1])
    assert Problem.of(weighed, np.full((1, 1), np.nan)).ties().tolist() == [(2 + 1) / (5 + 2)]
