from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, stdtrit
from scipy.stats import chi2, invgamma

from crowdwise.data.ratings import Ratings
from crowdwise.methods.ratings.item_spread import item_spread, log_evidence
from crowdwise.methods.ratings.problem import Problem


def of_items(spread: np.ndarray, per_item: int, seed: int) -> Problem:
    """Answers of equal annotators on items at 0, with a noise of its own on each."""
    rng = np.random.default_rng(seed)
    item = np.repeat(np.arange(len(spread)), per_item)
    annotator = np.tile(np.arange(per_item), len(spread))
    values = Ratings.from_arrays(item, annotator, spread[item] * rng.normal(size=len(item)), items=range(len(spread)))
    return Problem.of(values, np.full((len(spread), 1), np.nan))


def spread_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    off = problem.value - problem.item_means()[problem.item]
    found = item_spread(problem, off, np.ones_like(off))
    return found.factor[:, 0], found.freedom[:, 0]


@pytest.mark.parametrize(("freedom", "typical"), [(3.0, 0.7), (12.0, 2.0)])
def test_the_evidence_is_the_integral_over_the_spread(freedom: float, typical: float) -> None:
    squares, degrees = np.array([0.4, 3.0, 9.0]), np.array([2.0, 4.0, 3.0])
    prior = invgamma(freedom / 2, scale=freedom * typical / 2)

    def density(s: float, d: float) -> float:
        found, _ = quad(lambda x: prior.pdf(x) * chi2.pdf(s / x, d) / x, 0, np.inf, limit=200)
        # Without the part of the chi-squared density that neither parameter touches, of s / lambda and of its constant.
        return float(np.log(found) - (d / 2 - 1) * np.log(s) + gammaln(d / 2))

    exact = sum(density(s, d) for s, d in zip(squares, degrees, strict=True))
    assert log_evidence(squares, degrees, freedom, typical) == pytest.approx(exact, abs=1e-6)


def test_the_evidence_of_items_alike_is_the_limit_of_many_degrees_of_freedom() -> None:
    squares, degrees = np.array([0.4, 3.0, 9.0]), np.array([2.0, 4.0, 3.0])
    near = log_evidence(squares, degrees, 1e7, 1.3)
    assert log_evidence(squares, degrees, np.inf, 1.3) == pytest.approx(near, abs=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_items_alike_stay_as_they_are(seed: int) -> None:
    factor, freedom = spread_of(of_items(np.ones(300), 5, seed))
    assert (factor == 1).all()
    assert np.isinf(freedom).all()


def test_items_that_differ_are_told_apart_and_t_intervals_cover() -> None:
    rng = np.random.default_rng(4)
    # lambda is scaled inverse chi-squared with 4 degrees of freedom.
    spread = np.sqrt(4 / rng.chisquare(4, size=4000))
    problem = of_items(spread, 4, 4)
    factor, freedom = spread_of(problem)
    assert freedom[0] == pytest.approx(4 + 3, abs=0.7)
    scale = np.sqrt(factor * problem.noise()[0] / 4)
    for level in (0.5, 0.9):
        hits = np.abs(problem.item_means()[:, 0] + problem.centre / problem.spread) <= stdtrit(freedom, (1 + level) / 2) * scale
        # The standard error of a share of 4,000 is 0.008 at most.
        assert hits.mean() == pytest.approx(level, abs=0.025)


def test_an_item_without_answers_has_the_usual_spread() -> None:
    spread = np.where(np.arange(400) % 2, 0.2, 2.0)
    problem = of_items(spread, 5, 0)
    answered = np.isin(problem.item, np.arange(1, 400))
    values = Ratings.from_arrays(
        problem.item[answered], problem.annotator[answered], problem.value[answered, 0], items=range(400), annotators=range(5)
    )
    factor, freedom = spread_of(Problem.of(values, np.full((400, 1), np.nan)))
    assert np.isfinite(factor[0])
    assert freedom[0] < freedom[1]
