"""Votes that are right with probability sigmoid(ability x easiness): numpy, compiled and threaded paths against plain loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.kernels.test_numerics_votes import NONE_KNOWN, PATHS, force

from crowdwise.kernels.logistic import LogisticVotes, climb
from crowdwise.kernels.numerics import NO_WEIGHT

N, A, CENTRE = 23, 5, 1.0


@pytest.fixture(params=PATHS)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    force(request.param, monkeypatch)
    return request.param


class Case:
    """Ragged items, some without votes; `many` votes of one annotator, so that products of factors would overflow.

    With `copies` there are more items and votes than compiled loops look at together.
    """

    def __init__(self, n_classes: int, seed: int, *, weights: bool = False, many: bool = False, copies: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.n_items = N * copies
        sizes = rng.integers(0, 9, self.n_items)
        sizes[[0, 7, -1]] = 0
        sizes[3] = 3000 if many else 4
        self.item_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        n_votes = int(self.item_ptr[-1])
        self.item = np.repeat(np.arange(self.n_items), sizes)
        self.annotator = rng.integers(0, A, n_votes).astype(np.int32)
        self.label = rng.integers(0, n_classes, n_votes).astype(np.int16)
        self.weight = rng.random(n_votes) * 3 if weights else NO_WEIGHT
        self.posterior = rng.dirichlet(np.ones(n_classes), self.n_items)
        self.ability, self.log_easiness = rng.normal(1, 1, A) * (0.01 if many else 1), rng.normal(0, 1, self.n_items)
        self.votes = LogisticVotes(self.item_ptr, self.annotator, self.label, self.weight)

    def values(self, ability: np.ndarray, log_easiness: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Expected log-likelihood by annotator and by item."""
        sums = np.zeros(A), np.zeros(self.n_items)
        for e, n in enumerate(self.item):
            s, rho = ability[self.annotator[e]] * math.exp(log_easiness[n]), self.posterior[n, self.label[e]]
            value = -rho * math.log1p(math.exp(-s)) - (1 - rho) * math.log1p(math.exp(s))
            value *= self.weight[e] if len(self.weight) else 1.0
            sums[0][self.annotator[e]] += value
            sums[1][n] += value
        return sums


CASES: dict[str, dict[str, Any]] = {"plain": {}, "weights": {"weights": True}, "many": {"many": True}, "copies": {"copies": 9}}


@pytest.mark.parametrize("case", CASES)
def test_sums_by_ability_equal_a_naive_loop_and_its_differences(path: str, case: str) -> None:
    given = Case(3, seed=8, **CASES[case])
    terms, h = given.votes.ability_terms(given.posterior, given.ability, np.exp(given.log_easiness)), 1e-5
    down, middle, up = (given.values(given.ability + step, given.log_easiness)[0] for step in (-h, 0.0, h))
    np.testing.assert_allclose(terms[:, 0], middle, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(terms[:, 1], (up - down) / (2 * h), rtol=1e-5, atol=1e-6)
    far_down, far_up = (given.values(given.ability + step, given.log_easiness)[0] for step in (-1e-3, 1e-3))
    np.testing.assert_allclose(terms[:, 2], -(far_up - 2 * middle + far_down) / 1e-6, rtol=1e-3, atol=1e-4)


def climbed(given: Case, n: int) -> float:
    """The rule of `climb` on one item, with differences in the place of derivatives."""

    own = np.flatnonzero(given.item == n)
    ability, rho = given.ability[given.annotator[own]], given.posterior[n, given.label[own]]
    w = given.weight[own] if len(given.weight) else np.ones(len(own))

    def value(b: float) -> float:
        s = ability * math.exp(b)
        return float(w @ (-rho * np.log1p(np.exp(-s)) - (1 - rho) * np.log1p(np.exp(s)))) - 0.5 * (b - CENTRE) ** 2

    def slope_of_votes(b: float) -> float:
        s = ability * math.exp(b)
        return float(w @ ((rho - 1 / (1 + np.exp(-s))) * s))

    b = float(given.log_easiness[n])
    for _ in range(5):
        h = 1e-5
        slope = slope_of_votes(b)
        exact = -(slope_of_votes(b + h) - slope_of_votes(b - h)) / (2 * h)
        # The exact curvature of the votes is Gauss-Newton's less the slope.
        wanted = (slope + CENTRE - b) / (exact + slope + max(-slope, 0.0) + 1)
        step, before = min(max(wanted, -1.0), 1.0), value(b)
        for shrink in (0.25, 0.25, 0.0):
            if value(b + step) >= before - 1e-12 * (1 + abs(before)):
                break
            step *= shrink
        b += step
        if abs(wanted) <= 1:
            break
    return b


@pytest.mark.parametrize("case", ["plain", "weights", "copies"])
@pytest.mark.parametrize("far", [0.0, 4.0])
def test_steps_on_items_follow_the_rule_item_by_item(path: str, case: str, far: float) -> None:
    given = Case(3, seed=8, **CASES[case])
    # From far off, steps are cut and there are several.
    given.log_easiness = given.log_easiness - far
    reached = given.votes.climb_easiness(given.posterior, given.ability, given.log_easiness, CENTRE)
    np.testing.assert_allclose(reached, [climbed(given, n) for n in range(given.n_items)], atol=1e-7)


def test_steps_never_lower_what_they_climb_and_items_do_not_wait_for_each_other(path: str) -> None:
    given = Case(4, seed=2)
    b = given.log_easiness
    value = given.values(given.ability, b)[1] - 0.5 * (b - CENTRE) ** 2
    for _ in range(20):
        b = given.votes.climb_easiness(given.posterior, given.ability, b, CENTRE)
        after = given.values(given.ability, b)[1] - 0.5 * (b - CENTRE) ** 2
        assert (after >= value - 1e-10).all()
        value = after
    # An item far off takes several steps; the others must not follow it.
    far = given.log_easiness.copy()
    far[3] -= 6
    near = given.votes.climb_easiness(given.posterior, given.ability, given.log_easiness, CENTRE)
    both = given.votes.climb_easiness(given.posterior, given.ability, far, CENTRE)
    np.testing.assert_allclose(np.delete(both, 3), np.delete(near, 3), atol=1e-13)


def test_a_quadratic_is_climbed_in_one_step_and_a_far_one_in_cut_steps() -> None:
    top = np.array([0.5, 30.0, -0.25])

    def objective(x: np.ndarray) -> np.ndarray:
        return np.column_stack([-0.5 * (x - top) ** 2, top - x, np.ones(3)])

    np.testing.assert_allclose(climb(objective, np.zeros(3)), [0.5, 5.0, -0.25])


def test_nothing_is_computed_to_see_that_a_sure_step_climbs() -> None:
    calls = []

    def objective(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return np.column_stack([np.zeros(2), np.array([0.1, -0.2]), np.ones(2)])

    # Over a distance of 0.2 the curvature grows at most by exp(0.6), or by exp(0.8), which is more than 2.
    np.testing.assert_allclose(climb(objective, np.zeros(2), 3.0), [0.1, -0.2])
    assert len(calls) == 1
    climb(objective, np.zeros(2), 4.0)
    assert len(calls) == 3


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_exponentials_are_exact_to_the_last_digits(size: int) -> None:
    from crowdwise.kernels.logistic_loops import exponentials

    rng = np.random.default_rng(size)
    x = np.concatenate([[0.0, -0.0, -1e-300, -707.9, -np.inf, 2.5, 700.0], -rng.exponential(30.0, 993)])[:size]
    out = np.full(size + 1, 7.0)
    exponentials(size, x.copy(), out)
    np.testing.assert_allclose(out[:-1], [math.exp(value) for value in x], rtol=5e-16)
    assert out[-1] == 7.0


def test_exponentials_of_what_is_far_below_zero_are_zero() -> None:
    from crowdwise.kernels.logistic_loops import exponentials

    out = np.ones(3)
    exponentials(3, np.array([-708.1, -1e300, -np.inf]), out)
    assert out.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("n_classes", [1, 2, 5])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("extra", ["", "gold", "a prior per item"])
def test_inference_equals_bayes_rule_item_by_item(path: str, n_classes: int, case: str, extra: str) -> None:
    given = Case(n_classes, seed=5, **CASES[case])
    rng = np.random.default_rng(0)
    known = np.where(rng.random(given.n_items) < 0.3, 0, -1).astype(np.int16) if extra == "gold" else NONE_KNOWN
    log_prior = np.log(rng.dirichlet(np.ones(n_classes), given.n_items if extra == "a prior per item" else 1))
    posterior, expected, evidence = given.posterior.copy(), [], 0.0
    found, change = given.votes.infer(given.ability, given.log_easiness, log_prior, known, posterior)
    for n in range(given.n_items):
        scores = [float(value) for value in log_prior[n if len(log_prior) > 1 else 0]]
        for e in range(given.item_ptr[n], given.item_ptr[n + 1]):
            s = given.ability[given.annotator[e]] * math.exp(given.log_easiness[n])
            w = given.weight[e] if len(given.weight) else 1.0
            for k in range(n_classes):
                right = -math.log1p(math.exp(-s))
                wrong = -math.log1p(math.exp(s)) - math.log(max(n_classes - 1, 1))
                scores[k] += w * (right if k == given.label[e] else wrong)
        if len(known) and known[n] >= 0:
            scores = [score if k == known[n] else -math.inf for k, score in enumerate(scores)]
        top = max(scores)
        total = math.fsum(math.exp(score - top) for score in scores)
        evidence += top + math.log(total)
        expected.append([math.exp(score - top) / total for score in scores])
    np.testing.assert_allclose(posterior, expected, atol=1e-11)
    assert found == pytest.approx(evidence, rel=1e-11)
    assert change == pytest.approx(0.5 * np.abs(np.array(expected) - given.posterior).sum(), abs=1e-9)
