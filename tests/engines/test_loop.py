"""The one loop: when it stops, what it warns of, how it resumes. Steps are made up, so that every number is known."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.engines.helpers import InTwo
from tests.methods.labels.helpers import random_votes

from crowdwise.engines.loop import (
    Round,
    Run,
    alternate,
    alternate_over,
    infer_and_count,
    loop,
    remaining,
    settled,
    warn_unless_converged,
)
from crowdwise.engines.shards import Tally
from crowdwise.errors import ConvergenceWarning
from crowdwise.kernels.numerics import harden
from crowdwise.parts.annotators.model import Confusion
from crowdwise.parts.priors.marginals import Marginals

Step = Callable[[int], tuple[int, Round]]


def halving(bound: Callable[[int], float] | None = None) -> Step:
    """A step from n to n + 1, which moves items by 2 ** -n."""

    def step(n: int) -> tuple[int, Round]:
        return n + 1, Round(0.5 ** (n + 1), {} if bound is None else {"votes": bound(n + 1)})

    return step


def changing(change: Callable[[int], float]) -> Step:
    """A step from n to n + 1, which moves items by so much."""
    return lambda n: (n + 1, Round(change(n + 1)))


def test_it_stops_at_the_first_round_after_which_items_move_by_tol_at_most() -> None:
    """After 1/8 come 1/16 + 1/32 + ... = 1/8."""
    run = loop(halving(), 0, max_iter=100, tol=0.125)
    assert (run.state, run.n_iter, run.converged) == (3, 3, True)
    assert [done.change for done in run.rounds] == [0.5, 0.25, 0.125]


@pytest.mark.parametrize("rounds", [2, 10, 50])
def test_slow_fits_stop_when_the_sum_of_all_that_follows_is_at_most_tol(rounds: int) -> None:
    """Changes that halve in so many rounds: the sum is taken term by term, and the change itself is far below it."""

    def change(n: int) -> float:
        return 0.5 ** (n / rounds)

    run = loop(changing(change), 0, max_iter=5000, tol=1e-3)
    after = [sum(change(n) for n in range(first, first + 100 * rounds)) for first in (run.n_iter, run.n_iter + 1)]
    assert run.converged
    assert after[0] > 1e-3 >= after[1]
    assert run.rounds[-1].change < 1e-3 / rounds


def test_it_does_not_stop_where_changes_are_small_for_a_while_and_grow_again() -> None:
    """Past a saddle: one part fades by a tenth per round, another grows by a twentieth until round 300 and then fades too."""

    def change(n: int) -> float:
        return 0.9**n + 1e-10 * 1.05 ** min(n, 300) * 0.9 ** max(n - 300, 0)

    assert min(change(n) for n in range(1, 300)) < 3e-7
    run = loop(changing(change), 0, max_iter=1000, tol=1e-6)
    assert run.converged
    assert run.n_iter > 300
    assert sum(change(n) for n in range(run.n_iter + 1, 2000)) < 2e-6


def test_what_remains_by_hand() -> None:
    def after(*changes: float) -> float:
        return remaining([Round(change) for change in changes])

    assert after(8, 4, 2, 1) == 1
    assert after(8, 1) == 1  # never faster than by half in a round
    assert after(4, 3, 2) == pytest.approx(2 * (1 + math.sqrt(2)))  # half in two rounds
    assert after(1, 1, 1) == pytest.approx(1 / (2 ** (1 / 3) - 1))  # it has not halved in three
    assert after(9, 2, 3, 2, 1, 3, 2) == pytest.approx(2 / (2 ** (1 / 6) - 1))  # six rounds since it was twice as large
    assert after(1, 0) == after(0, 0) == 0
    assert after(1, math.inf) == math.inf
    assert math.isnan(after(1, math.nan))


def test_changes_that_are_rounding_errors_do_not_keep_it_going() -> None:
    run = loop(changing(lambda n: max(0.5**n, 1e-17)), 0, max_iter=1000, tol=1e-12)
    assert (run.n_iter, run.converged) == (40, True)
    assert 0.5**40 < 1e-12 < 0.5**39
    assert loop(lambda n: (n + 1, Round(1e-17)), 0, max_iter=1000, tol=1e-12).n_iter == 2


def test_one_round_is_never_enough() -> None:
    run = loop(lambda n: (n + 1, Round(0.0)), 0, max_iter=100, tol=1e-6)
    assert (run.n_iter, run.converged) == (2, True)


def test_the_bound_must_rest_too() -> None:
    """-100 - 10 / n changes by a share of 1e-3 for the first time from n = 10 to 11: 0.0909 of 100.909."""
    run = loop(halving(lambda n: -100 - 10 / n), 0, max_iter=100, tol=1e-3)
    assert (run.n_iter, run.converged) == (11, True)
    assert 10 / 10 - 10 / 11 <= 1e-3 * (100 + 10 / 11)
    assert 10 / 9 - 10 / 10 > 1e-3 * (100 + 10 / 10)


def test_a_change_that_is_no_number_does_not_stop_it() -> None:
    run = loop(lambda n: (n + 1, Round(math.nan)), 0, max_iter=5, tol=1.0)
    assert (run.n_iter, run.converged) == (5, False)


def test_the_trace_has_every_term_of_every_round() -> None:
    def step(n: int) -> tuple[int, Round]:
        return n + 1, Round(1.0, {"votes": -3.0 * n, "annotators": -1.0})

    run = loop(step, 1, max_iter=3, tol=1e-6)
    assert {name: values.tolist() for name, values in run.trace.items()} == {
        "votes": [-3.0, -6.0, -9.0],
        "annotators": [-1.0, -1.0, -1.0],
    }
    assert run.rounds[-1].bound == -10.0
    assert loop(halving(), 0, max_iter=2, tol=1e-9).trace == {}


def test_progress_and_keep_are_called_after_every_round() -> None:
    told: list[Any] = []
    kept: list[Any] = []
    loop(
        halving(lambda n: -1.0 * n),
        0,
        max_iter=3,
        tol=1e-9,
        progress=lambda *numbers: told.append(numbers),
        keep=lambda state, rounds: kept.append((state, len(rounds))),
    )
    assert told == [(1, -1.0, 0.5), (2, -2.0, 0.25), (3, -3.0, 0.125)]
    assert kept == [(1, 1), (2, 2), (3, 3)]


def test_a_resumed_run_is_the_run_that_was_not_interrupted() -> None:
    bound = lambda n: -100 - 10 / n  # noqa: E731
    whole = loop(halving(bound), 0, max_iter=100, tol=1e-3)
    first = loop(halving(bound), 0, max_iter=4, tol=1e-3)
    seen: list[int] = []
    rest = loop(halving(bound), first.state, max_iter=100, tol=1e-3, before=first.rounds, progress=lambda n, *_: seen.append(n))
    assert (rest.state, rest.rounds, rest.converged) == (whole.state, whole.rounds, True)
    assert seen == [5, 6, 7, 8, 9, 10, 11]


def test_a_run_that_has_ended_is_not_continued() -> None:
    done = loop(halving(), 0, max_iter=100, tol=0.125)

    def never(_: int) -> tuple[int, Round]:
        raise AssertionError

    assert loop(never, 3, max_iter=100, tol=0.125, before=done.rounds).converged
    assert not loop(never, 3, max_iter=3, tol=1e-9, before=done.rounds).converged


def test_it_warns_once_and_only_if_it_stopped_early() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped after 7 iterations") as caught:
        warn_unless_converged(Run(None, [Round(1.0)] * 7, converged=False))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_unless_converged(Run(None, [Round(1.0)] * 7, converged=True))


def test_settled_by_hand() -> None:
    def pair(before: float, last: float, change: float) -> list[Round]:
        return [Round(1.0, {"votes": before}), Round(change, {"votes": last})]

    assert settled(pair(-1000.0, -999.0, 1e-3), 1e-2)
    assert not settled(pair(-1000.0, -900.0, 1e-3), 1e-2)
    assert not settled(pair(-1000.0, -999.0, 2e-2), 1e-2)
    assert not settled(pair(-1000.0, -999.0, 1e-3)[1:], 1e-2)


# -- engine 1 is a step of it ------------------------------------------------------------------


@pytest.mark.parametrize("hard", [False, True])
def test_the_change_of_a_round_is_the_mean_share_of_probability_that_moved(hard: bool) -> None:
    votes = random_votes(np.random.default_rng(0), 30, 5, 3, 100)
    none = np.empty(0, np.int16)
    parts = Marginals(np.full(3, 1 / 3)), Confusion.start(np.full((1, 3, 3), 0.5), votes.n_annotators)
    start = np.random.default_rng(1).dirichlet(np.ones(3), votes.n_items)
    changes: list[float] = []
    posteriors = [start]
    for rounds in (1, 2, 3):
        changes.clear()
        fit = alternate(
            votes,
            *parts,
            start=start,
            known=none,
            max_iter=rounds,
            tol=1e-12,
            hard=hard,
            progress=lambda *n: changes.append(n[2]),
        )
        posteriors.append(fit.posterior)
    if hard:
        posteriors = [harden(posterior) for posterior in posteriors]
    expected = [np.maximum(new - old, 0).sum() / votes.n_items for old, new in pairwise(posteriors)]
    np.testing.assert_allclose(changes, expected, atol=1e-12)


def test_two_shards_are_one_fit_and_resume_where_they_were_interrupted() -> None:
    votes = random_votes(np.random.default_rng(3), 40, 6, 3, 200)
    none = np.empty(0, np.int16)
    prior, annotators = Marginals(np.full(3, 1 / 3)), Confusion.start(np.full((1, 3, 3), 0.5), votes.n_annotators)
    start = np.tile([0.5, 0.3, 0.2], (votes.n_items, 1))
    first = annotators.update(votes, start)
    start = np.zeros_like(start)
    first.infer(votes, prior.log_prob(), none, start)
    one = alternate(votes, prior, annotators, start=start, known=none, max_iter=200, tol=1e-8)

    def run(shards: Any, begun: Tally | None, **options: Any) -> Any:
        return alternate_over(shards, prior, annotators, start=begun, tol=1e-8, **options)

    def begin(shards: InTwo) -> Tally:
        return shards.renew(infer_and_count, prior, first, False)

    shards = InTwo(votes, votes.n_items // 2)
    fits = [run(shards, begin(shards), max_iter=200)]
    for rounds in (3, one.n_iter - 2):  # near the end, the rule looks at rounds before the interruption
        shards = InTwo(votes, votes.n_items // 2)
        run(shards, begin(shards), max_iter=rounds)
        fits.append(run(shards, None, max_iter=200))
    for fit in fits:
        assert (fit.n_iter, fit.converged) == (one.n_iter, True)
        np.testing.assert_allclose(fit.posterior, one.posterior, atol=1e-12)
        np.testing.assert_allclose(fit.trace["votes"], one.trace["votes"], rtol=1e-12)
