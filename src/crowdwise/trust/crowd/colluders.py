"""Colluders by the rank of the agreement matrix: who agrees as no independent annotator could.

For independent annotators the probability of agreement is an inner product,

    c_ab = tr(pi_a' D pi_b) = u_a . u_b,   u_a = vec(D^(1/2) pi_a) in R^(K^2)      (a != b)

Colluders follow it with the honest, whose noise they do not share, but not among themselves. So: fit u_a of
everybody to the columns of an honest set H alone (alternating least squares, weights = common items),
predict all agreements, and average the squared standardised residuals of every row. The half with the
smallest averages is the next H, until H stands (least trimmed squares). Starts: the fitted result, and
"whoever agrees most with this annotator" for a few annotators, or for the trusted ones alone. At last H
takes in everybody who fits. Of all starts, the one that leaves most annotators outside, but less than
half, is kept.

Under honesty a row's sum is about chi^2(partners - K^2); chi^2(partners), which is safer, gives the p-values;
Benjamini-Hochberg over annotators.

Symbols
-------
agree_ab, n_ab     agreements and common items of pairs that met, as sparse matrices
u_ar : [A, K^2]    one vector per annotator
honest_a : [A]     membership of H

Notes
-----
Needs more than K^2 honest annotators, besides an honest majority or a trusted annotator: with fewer, any
row can be fitted and a note says so (use `crowdwise.trust.crowd.copiers`, which needs neither). The diagonal
(1, not u_a . u_a) is never used. Residuals are scaled by their median in H where that exceeds what
chance explains, so that mild misfit of everybody (difficulty of items) flags nobody.

References
----------
Traganitis and Giannakis (2021), as described in the ICASSP 2025 tutorial, "Annotator agreement matrix".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.independence import Agreement
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Flags, Floats
from crowdwise.trust.crowd.pairs import Met, of_pairs, sampling_notes
from crowdwise.trust.crowd.report import Report, benjamini_hochberg, check_level, report, votes_of

__all__ = ["score"]


_SWEEPS, _ROUNDS, _FEWEST, _STARTS = 30, 10, 5, 8
# A row this many times farther off than the honest half's is not taken in.
_FAR = 3.0
# Numbers that a sweep may add up; two thousand sweeps of this size take about five seconds.
_MOST_WORK = 8_000_000


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    trusted: Iterable[Any] | None = None,
    fdr: float = 0.05,
    met: Met | None = None,
) -> Report:
    """Flag annotators whose agreements leave the honest subspace; `score` is the mean squared residual.

    Parameters
    ----------
    trusted : annotators, optional
        Known to be honest (the variant "TA"); without any, at least half must be (the variant "H").
    met : Met, optional
        `crowdwise.trust.crowd.pairs.of_pairs`, where it is available.
    """
    from scipy.special import chdtrc

    check_level(fdr)
    votes = votes_of(result, votes)
    n_annotators, rank = votes.n_annotators, votes.n_classes**2
    given = np.zeros(n_annotators, bool)
    if trusted is not None:
        given[votes.positions(trusted, "annotator")] = True
    met = of_pairs(votes) if met is None else met
    found = met.pairs
    kept, n_searched = _affordable(found, votes, given, rank)
    # Only those who met somebody have rows.
    who, pairs = np.unique(np.concatenate([found.first[kept], found.second[kept]]), return_inverse=True)
    first, second = pairs.reshape(2, -1)
    edges = _Edges(first, second, found.n[kept], found.agree[kept], len(who))
    model = np.einsum("k,akl->akl", np.sqrt(result.class_prior), result.confusion[who]).reshape(len(who), rank)
    # Too few for any test: nothing to search for.
    tested = len(who) > rank
    honest, residual_p = _honest_set(edges, model, given[who]) if tested else (np.ones(len(who), bool), np.zeros(len(edges.n)))
    partners, total = np.zeros((2, n_annotators))
    partners[who] = edges.per_annotator(np.ones(len(edges.n)))
    total[who] = edges.per_annotator(residual_p**2)
    degrees = partners - rank
    enough = (honest.sum() > rank) & (degrees > 0)
    inside = honest[edges.first] & honest[edges.second]
    # 0.455 is the median of chi^2(1).
    scale = max(float(np.median(residual_p[inside] ** 2)) / 0.455, 1.0) if inside.any() else 1.0
    p_value = np.where(enough, chdtrc(np.maximum(partners, 1), total / scale), np.nan)
    q_value = benjamini_hochberg(p_value)
    flag = (np.nan_to_num(q_value, nan=1.0) <= fdr) & ~given
    mean = np.where(partners > 0, total / np.maximum(partners, 1), np.nan)
    notes = sampling_notes(met)
    if n_searched < n_annotators:
        notes += (f"colluders were looked for among the {n_searched} annotators with most votes: among all it takes too long",)
    notes += () if honest.sum() > rank else (
        f"colluders were not tested: that needs more than K^2 = {rank} honest annotators who met each other, and there "
        f"are at most {int(honest.sum())}; pairs who agree too much are flagged as copiers",
    )  # fmt: skip
    reason = [f"agreements with others are {m / scale:.1f} times farther off than chance" if f else ""
              for f, m in zip(flag, mean, strict=True)]  # fmt: skip
    return report("colluders", votes, score=mean, p_value=p_value, q_value=q_value, flag=flag, reason=reason, notes=notes)


def _affordable(found: Agreement, votes: Annotations, given: Flags, rank: int) -> tuple[Flags, int]:
    """The pairs to search, and among how many annotators: all, or the trusted and those with most votes."""
    kept = found.n >= _FEWEST
    place = np.empty(votes.n_annotators, np.int64)
    place[np.lexsort((-votes.votes_per_annotator, ~given))] = np.arange(len(place))
    later = np.maximum(place[found.first], place[found.second])
    n_pairs = np.cumsum(np.bincount(later[kept], minlength=len(place)))
    # A sweep adds K^4 numbers per pair, and solves K^2 equations per annotator.
    work = (n_pairs + np.arange(1, len(place) + 1) * rank) * rank**2
    n_searched = int(np.searchsorted(work, _MOST_WORK, side="right"))
    return kept & (later < n_searched), n_searched


class _Edges:
    """Pairs that met, with their agreement rates and weights, as symmetric sparse products."""

    def __init__(self, first: Any, second: Any, n: Floats, agree: Floats, n_annotators: int) -> None:
        self.first, self.second, self.n, self.size = first, second, n, n_annotators
        self.rate = agree / np.maximum(n, 1)
        # Half an agreement and half a disagreement keep the variance of unanimous pairs above zero.
        smooth = (agree + 0.5) / (n + 1)
        self.weight = n / np.maximum(smooth * (1 - smooth), 1e-12)

    def per_annotator(self, values: Floats) -> Floats:
        """Sum over the pairs of every annotator, [A]."""
        return segment_sum(self.first, values, self.size) + segment_sum(self.second, values, self.size)

    def distance(self, residual_p: Floats) -> Floats:
        """Mean squared residual of every row; infinite for those who met nobody."""
        count = self.per_annotator(np.ones(len(self.n)))
        return np.where(count > 0, self.per_annotator(residual_p**2) / np.maximum(count, 1), np.inf)

    def matrix(self, values: Floats) -> Any:
        from scipy.sparse import csr_array

        rows, columns = np.concatenate([self.first, self.second]), np.concatenate([self.second, self.first])
        return csr_array((np.concatenate([values, values]), (rows, columns)), shape=(self.size, self.size))


def _honest_set(edges: _Edges, model_ar: Floats, given: Flags) -> tuple[Flags, Floats]:
    """The best-fitting half over all starts, enlarged by everybody who fits; and the residuals of all pairs."""
    if len(edges.n) == 0:
        return np.zeros(edges.size, bool), np.empty(0)
    weight, product = edges.matrix(edges.weight), edges.matrix(edges.weight * edges.rate)
    met = edges.per_annotator(np.ones(len(edges.n))) > 0
    half = (int(met.sum()) + 1) // 2

    def nearest(closeness: Floats) -> Flags:
        ranked = np.where(given, -np.inf, np.where(met, -closeness, np.inf))
        chosen = np.zeros(edges.size, bool)
        chosen[np.argsort(ranked, kind="stable")[:half]] = True
        return chosen & met

    rates = edges.matrix(edges.rate)
    if given.any():
        starts = [nearest(np.asarray(rates @ given.astype(float)))]
    else:
        starts = [nearest(-edges.distance(_residuals(edges, model_ar)))]
        # Seeds range over those with much and with little agreement; colluders may be either.
        mean = edges.per_annotator(edges.rate) / np.maximum(edges.per_annotator(np.ones(len(edges.n))), 1)
        order = np.flatnonzero(met)[np.argsort(mean[met], kind="stable")]
        seeds = order[np.linspace(0, len(order) - 1, min(_STARTS, len(order))).astype(int)]
        starts += [nearest(rates[[seed]].toarray()[0] + (np.arange(edges.size) == seed)) for seed in seeds]
    best: tuple[int, float] | None = None
    for start in starts:
        honest, u_ar = start, model_ar
        for _ in range(_ROUNDS):
            u_ar, cov_ars = _fit(weight, product, u_ar, honest)
            distance = edges.distance(_residuals(edges, u_ar, cov_ars))
            chosen = nearest(-distance)
            if (chosen == honest).all():
                break
            honest = chosen
        trimmed = float(np.sort(distance[met])[:half].mean())
        for _ in range(_ROUNDS):
            distance = edges.distance(_residuals(edges, u_ar, cov_ars))
            wider = met & (given | (distance <= _FAR * max(float(np.median(distance[honest])), 1.0)))
            u_ar, cov_ars = _fit(weight, product, u_ar, wider)
            if (wider == honest).all():
                break
            honest = wider
        outside = int(met.sum() - honest.sum())
        # K^2 dimensions can take colluders in, so a start that leaves nobody outside proves nothing; one
        # that leaves out half contradicts the honest majority.
        rank = (outside if 2 * outside < met.sum() else -1, -trimmed)
        if best is None or rank > best:
            best, kept = rank, (honest, _residuals(edges, u_ar, cov_ars))
    return kept


def _residuals(edges: _Edges, u_ar: Floats, cov_ars: Floats | None = None) -> Floats:
    """Agreement beyond u_a . u_b over its standard error: that of the rate, and those of the fitted u."""
    first, second = u_ar[edges.first], u_ar[edges.second]
    variance = 1 / edges.weight
    if cov_ars is not None:
        # Without this, rows outside H, which were not fitted to all their pairs, would look far off.
        upper, lower = np.triu_indices(u_ar.shape[1])
        cov_ah, square_ah = cov_ars[:, upper, lower] * np.where(upper == lower, 1, 2), u_ar[:, upper] * u_ar[:, lower]
        for part in np.array_split(np.arange(len(variance)), max(len(variance) * len(upper) // 2**22, 1)):
            a, b = edges.first[part], edges.second[part]
            variance[part] += np.einsum("ph,ph->p", cov_ah[a], square_ah[b]) + np.einsum("ph,ph->p", cov_ah[b], square_ah[a])
    return np.asarray((edges.rate - np.einsum("pr,pr->p", first, second)) / np.sqrt(variance))


def _fit(weight: Any, product: Any, u_ar: Floats, honest: Flags) -> tuple[Floats, Floats]:
    """Least squares of every row on the honest columns, and the covariances of the rows, [A, R] and [A, R, R].

    Half steps, because all rows move at once.
    """
    rank = u_ar.shape[1]
    upper, lower = np.triu_indices(rank)
    chosen = np.flatnonzero(honest)
    weight, product = weight[:, chosen], product[:, chosen]
    # Where row r and column s of a symmetric matrix stand among its entries on and above the diagonal.
    square = np.empty((rank, rank), np.int64)
    square[upper, lower] = square[lower, upper] = np.arange(len(upper))
    # A ridge around the present value, weighing as much as one item: directions that the columns do not span stay.
    ridge = 4.0
    for _ in range(_SWEEPS):
        columns = u_ar[chosen]
        gram = np.take(weight @ (columns[:, upper] * columns[:, lower]), square, axis=1)
        gram += ridge * np.eye(rank)
        fitted = np.linalg.solve(gram, (product @ columns + ridge * u_ar)[:, :, None])[:, :, 0]
        change = float(np.abs(fitted - u_ar).max(initial=0.0))
        u_ar = 0.5 * (u_ar + fitted)
        if change < 1e-4:
            break
    return u_ar, np.linalg.inv(gram)
