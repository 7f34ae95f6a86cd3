"""How sure we are of a score of confusion matrices: the same score of draws from their posterior.

Rows of a confusion matrix are Dirichlet with the result's `concentration`. A spammer score that is small
in nearly all draws is small; one that varies is unknown, which is what few votes should give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.judgement import ABOVE, UNJUDGED, Crowd, answered, can_tell
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import dirichlet_draw
from crowdwise.kernels.types import Array, Flags, Floats
from crowdwise.trust.crowd.report import Report, check_level, report, votes_of

__all__ = ["depends_on_class", "score_of_draws", "told_from_chance", "verdict_of_draws"]


# Whoever is more probably informative than not is no spammer.
_RATHER = 0.5
# Numbers of the matrices that are measured together: calls on small arrays would take most of the time.
_AT_ONCE = 1_000_000


def score_of_draws(
    detector: str,
    measure: Callable[[Floats], Floats],
    words: Callable[[str], str],
    result: Result,
    votes: Annotations | None,
    *,
    least: float,
    fdr: float,
    n_draws: int,
    random_state: int | None,
) -> Report:
    """Flag annotators whose measure is below `least` in the posterior.

    `p_value` is the posterior probability of at least `least` and `q_value` its running mean over the
    annotators in order of it: the expected share of wrong flags among those up to here; nobody is flagged whose own
    probability is above one half. `verdict` is
    "spammer", "informative" (the answers depend on the class by a G-test at level `fdr`) or "unknown".
    """
    check_level(fdr)
    votes = votes_of(result, votes)
    rng = np.random.default_rng(random_state)
    value = measure(result.confusion)
    drawn = _measured(measure, rng, result.concentration, n_draws)
    informative, q_value, flag, verdict = _judged(result, votes, (drawn >= least).mean(axis=0), fdr)
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
    reason = [
        # Not the score: that of the posterior's mean may lie below nearly all draws.
        words(f"{lo:.2g} to {hi:.2g}") if f else "too few votes to tell" if state == "unknown" else ""
        for f, lo, hi, state in zip(flag, low, high, verdict, strict=True)
    ]
    more = {"low": low, "high": high, "verdict": verdict}
    return report(detector, votes, score=value, p_value=informative, q_value=q_value, flag=flag, reason=reason, more=more)


def verdict_of_draws(
    reaches: Callable[[Floats], Floats], result: Result, *, fdr: float, n_draws: int, random_state: int | None
) -> Array:
    """The verdicts of `score_of_draws` alone, [A], from whether a draw's measure is large enough: less than its value takes."""
    check_level(fdr)
    drawn = _measured(reaches, np.random.default_rng(random_state), result.concentration, n_draws)
    return _judged(result, result.votes, drawn.mean(axis=0), fdr)[3]


def _judged(result: Result, votes: Annotations, informative: Floats, fdr: float) -> tuple[Floats, Floats, Flags, Array]:
    """The posterior probability of enough, its running mean, flags and verdicts, [A] each."""
    n_votes = votes.weight_per_annotator
    informative[n_votes == 0] = np.nan
    order = np.argsort(informative, kind="stable")
    q_value = np.empty(len(order))
    q_value[order] = np.cumsum(informative[order]) / np.arange(1, len(order) + 1)
    # Among many who surely are spammers, the mean leaves room for one who surely is none.
    flag = (np.nan_to_num(q_value, nan=1.0) <= fdr) & (np.nan_to_num(informative, nan=1.0) <= _RATHER)
    if votes.n_classes < 2:
        flag[:] = False
    clear = depends_on_class(result, fdr)
    return informative, q_value, flag, np.where(flag, "spammer", np.where(clear & (n_votes > 0), "informative", "unknown"))


def _measured(measure: Callable[[Floats], Floats], rng: np.random.Generator, concentration_akl: Floats, n_draws: int) -> Floats:
    """The measure of every draw, [n_draws, A]: of many draws at once where they are small, one by one where they are large."""
    at_once = max(_AT_ONCE // max(concentration_akl.size, 1), 1)
    parts = [np.empty((0, len(concentration_akl)))]
    for start in range(0, n_draws, at_once):
        draws = [dirichlet_draw(rng, concentration_akl) for _ in range(min(at_once, n_draws - start))]
        parts.append(measure(np.concatenate(draws)).reshape(len(draws), -1))
    return np.concatenate(parts)


def depends_on_class(result: Result, level: float) -> Flags:
    """Likelihood-ratio test of equal rows in the expected confusion counts, [A]."""
    from scipy.special import chdtrc

    from crowdwise.parts.annotators.model import counts_of

    counts = counts_of(result.votes, result.model_posterior)
    row, column = counts.sum(axis=1, keepdims=True), counts.sum(axis=2, keepdims=True)
    total = counts.sum(axis=(1, 2), keepdims=True)
    expected = row * column / np.where(total > 0, total, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        g = 2 * np.where(counts > 0, counts * np.log(counts / expected), 0.0).sum(axis=(1, 2))
    # Rows and columns that never occur have nothing to vary.
    used = [np.maximum((part > 1e-9).sum(axis=(1, 2)) - 1, 0) for part in (row, column)]
    degrees = used[0] * used[1]
    return np.asarray((degrees > 0) & (chdtrc(np.maximum(degrees, 1), g) < level))


def told_from_chance(crowd: Crowd, result: Result, level: float = 0.05) -> Crowd:
    """The crowd, with those above chance whose interval is, or whose answers depend on the class by a test, on votes enough.

    Only of the others does `crowdwise annotators` say "unknown" too.
    """
    if result.votes.n_classes < 2:
        return crowd
    clear = depends_on_class(result, level) | (crowd.low > crowd.chance)
    standing = np.where(clear & can_tell(answered(result), crowd.chance), ABOVE, UNJUDGED)
    return replace(crowd, grade=np.where(crowd.grade >= UNJUDGED, standing, crowd.grade))
