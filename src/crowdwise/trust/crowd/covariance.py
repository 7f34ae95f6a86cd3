"""Spammers by cross-covariance: whoever answers regardless of the item covaries with nobody.

Answers x_na (one-hot, centred by annotator) have cross-covariances of rank K - 1 between annotators:

    E[x_na x_nb'] = V_a V_b',   V_a = pi_a' (D - d d')^(1/2)      (low rank + block diagonal)

V is fitted to the off-diagonal blocks alone, by alternating least squares weighted with the items in
common. A spammer has V_a = 0. Two rules say when V_a is small:

"k-means"  two clusters of the norms |V_a|; the one nearer 0 is spam (the tutorial's S2 and S3). It
           always finds some, in an honest crowd too.
"fdr"      t_na = sum of V_b' x_nb over the *other* annotators of n is a linear score of the item. With the
           squared canonical correlations of x_na and t_na over a's items,
               T_a = N_a sum of them ~ noncentral chi^2((rank x)(rank t), N_a phi_a)
           and phi_a = 0 for a spammer. The null hypothesis is that a carries at least `least` of what a
           perfect annotator would on the same items, phi_a >= least * phi_perfect; a small T_a rejects it.
           Benjamini-Hochberg over annotators bounds the share of honest among the flagged; an annotator
           with few votes is not flagged, because little can be said.

Symbols
-------
V_akr : [A, L, K - 1]   loadings;  x_cl : [C, L] answers;  t_cr : [C, K - 1] scores without the own answer

Notes
-----
The tutorial codes labels as numbers; one-hot coding makes the result independent of their order.
``least=0.05`` is the usual threshold of Raykar and Yu's score, to which `score` is comparable: for
one-coin annotators both are ((K accuracy - 1) / (K - 1))^2. Cost: O(C K^2) per sweep, as two products with a sparse
matrix of items and (annotator, label); no pair is built, and nothing has more numbers per answer than x or t.

References
----------
ICASSP 2025 tutorial on learning from crowdsourced labels, "Flagging spammers with cross-covariances".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import SingleAnswers, answers_of
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import ratio, segment_sum
from crowdwise.kernels.types import Flags, Floats
from crowdwise.trust.crowd.report import Report, benjamini_hochberg, check_level, report, votes_of

__all__ = ["score"]


# Most sweeps and the change that ends them. The test holds for any loadings of the others, so rough ones do;
# clusters compare the loadings themselves, and stopped early they prune others than the fitted ones would.
_SWEEPS = {"fdr": (50, 1e-4), "k-means": (1000, 1e-6)}
# With fewer answers the chi-square limit says nothing.
_FEWEST = 10
# Annotators times the cube of the classes, which a sweep costs: beyond, it takes minutes, and the classes are texts.
_MOST_WORK = 50_000_000


def score(
    result: Result, votes: Annotations | None = None, *, rule: str = "fdr", fdr: float = 0.05, least: float = 0.05
) -> Report:
    """Flag annotators whose answers covary with nobody's; `score` is the share of a perfect annotator's information."""
    if rule not in ("fdr", "k-means"):
        raise SettingError(f"rule must be fdr or k-means; got {rule!r}")
    check_level(fdr)
    votes = votes_of(result, votes)
    answers = answers_of(votes)
    n_answers = segment_sum(answers.annotator, None, votes.n_annotators)
    too_much = votes.n_annotators * votes.n_classes**3 > _MOST_WORK
    if votes.n_classes < 2 or len(answers.item) == 0 or too_much:
        nothing = np.full(votes.n_annotators, np.nan)
        flag = np.zeros(votes.n_annotators, bool)
        reason = ["too many classes to tell" if too_much else "nothing to tell apart"] * votes.n_annotators
        return report("covariance", votes, score=nothing, p_value=nothing, q_value=nothing, flag=flag, reason=reason)
    table = _Table(answers, votes.n_items)
    loading = _loadings(table, _from_confusion(result), *_SWEEPS[rule])
    t_cr = table.of_others(loading)
    tt = table.products(t_cr, t_cr)
    statistic, degrees = _association(table, t_cr, tt)
    perfect = _perfect(table, result.model_posterior, t_cr, tt)
    share = ratio((statistic - degrees) / np.maximum(n_answers, 1), perfect, np.nan)
    p_value = np.where(n_answers >= _FEWEST, _below(statistic, degrees, n_answers * least * perfect), np.nan)
    q_value = benjamini_hochberg(p_value)
    norm = np.sqrt(np.einsum("alr,alr->a", loading, loading))
    if rule == "k-means":
        flag = _near_zero(norm, n_answers > 0)
    else:
        flag = np.nan_to_num(q_value, nan=1.0) <= fdr
    reason = [_reason(*row, rule) for row in zip(flag.tolist(), share, q_value, n_answers, strict=True)]
    more = {"loading": norm}
    return report("covariance", votes, score=share, p_value=p_value, q_value=q_value, flag=flag, reason=reason, more=more)


def _reason(flag: bool, share: float, q_value: float, n_answers: float, rule: str) -> str:
    if flag and rule == "k-means":
        return f"answers covary with the others' like those of the lower cluster ({max(share, 0):.0%} of a perfect annotator's)"
    if flag:
        return f"answers say {max(share, 0):.0%} of what a perfect annotator's would (false-discovery rate {q_value:.2g})"
    return "too few votes to tell" if n_answers < _FEWEST else ""


def _from_confusion(result: Result) -> Floats:
    """Loadings that the fitted confusion matrices imply, [A, L, K - 1]: where the sweeps start."""
    d = result.class_prior
    value, vector = np.linalg.eigh(np.diag(d) - np.outer(d, d))
    root = vector[:, 1:] * np.sqrt(np.maximum(value[1:], 1e-6))
    return np.asarray(np.einsum("akl,kr->alr", result.confusion, root))


class _Table:
    """Answers as a sparse matrix by (annotator, label), with a row per item or per answer, and sums that no sweep changes."""

    def __init__(self, answers: SingleAnswers, n_items: int) -> None:
        from scipy.sparse import csr_array

        who, share_cl, n = answers.annotator, answers.share_cl, answers.n_annotators
        self.who, self.item, self.shape = who, answers.item, (n, answers.n_classes)
        self.count = segment_sum(who, None, n)
        cell, label = np.nonzero(share_cl)
        column, share = (who[cell] * answers.n_classes + label).astype(np.int32), share_cl[cell, label]
        # Answers are sorted by item, so the same entries in the same order are the rows of both matrices.
        self.items, self.answers = (
            csr_array(
                (share, column, np.concatenate([[0], np.cumsum(np.bincount(row, minlength=size))])),
                (size, n * share_cl.shape[1]),
            )
            for row, size in ((self.item[cell], n_items), (cell, len(who)))
        )
        self.mean_al = self.by_label(self.answers, np.ones((len(who), 1)))[:, :, 0] / np.maximum(self.count, 1)[:, None]
        centred = share_cl - self.mean_al[who]
        self.xx_alm = self.products(centred, centred)

    def by_label(self, matrix: Any, values: Floats) -> Floats:
        """Sum of the values of rows over the answers of every annotator and label, [A, L, R]."""
        return np.asarray(matrix.T @ values).reshape(*self.shape, -1)

    def scores(self, loading: Floats) -> Floats:
        """V_a' x for every label that a could give, [A, L, R]."""
        return np.asarray(loading - np.einsum("al,alr->ar", self.mean_al, loading)[:, None, :])

    def of_others(self, loading: Floats) -> Floats:
        """t of every answer, the scores of the others' on its item, centred by annotator, [C, R]."""
        flat = self.scores(loading).reshape(-1, loading.shape[2])
        t_cr = (self.items @ flat)[self.item]
        t_cr -= self.answers @ flat
        t_cr -= self.means(t_cr)[self.who]
        return np.asarray(t_cr)

    def means(self, values: Floats) -> Floats:
        """Mean over the answers of every annotator, [A, R]."""
        n = len(self.count)
        total = np.column_stack([segment_sum(self.who, column, n) for column in values.T])
        return np.asarray(total / np.maximum(self.count, 1)[:, None])

    def products(self, left: Floats, right: Floats) -> Floats:
        """Sum of outer products of rows over the answers of every annotator, [A, I, J]; one pair of columns at a time."""
        n, made = len(self.count), np.empty((len(self.count), left.shape[1], right.shape[1]))
        for i, j in np.ndindex(made.shape[1:]):
            made[:, i, j] = made[:, j, i] if left is right and j < i else segment_sum(self.who, left[:, i] * right[:, j], n)
        return made


def _loadings(table: _Table, loading: Floats, sweeps: int, tol: float) -> Floats:
    """Alternating least squares on the off-diagonal blocks, [A, L, R]; half steps, because all move at once."""
    n_annotators, n_labels, rank = loading.shape
    upper, lower = np.triu_indices(rank)
    gram = np.empty((n_annotators, rank, rank))
    for _ in range(sweeps):
        own = np.einsum("alr,als->ars", loading, loading)[:, upper, lower]
        # Scores of labels and squares of annotators side by side: one pass over the answers there, and one back.
        both = np.concatenate([table.scores(loading), np.repeat(own[:, None], n_labels, axis=1)], axis=2)
        back = table.by_label(table.items, table.items @ both.reshape(n_annotators * n_labels, -1))
        total = back.sum(axis=1)
        # The own answer is taken out of the sums over its item, here for all answers of an annotator at once.
        right = back[:, :, :rank] - table.mean_al[:, :, None] * total[:, None, :rank] - table.xx_alm @ loading
        gram[:, upper, lower] = gram[:, lower, upper] = total[:, rank:] - table.count[:, None] * own
        # A ridge as large as one typical answer: annotators with a handful of answers stay bounded.
        ridge = np.trace(gram.sum(axis=0)) / max(len(table.who), 1) / rank + 1e-12
        fitted = right @ np.linalg.inv(gram + ridge * np.eye(rank))
        change = np.abs(fitted - loading).max()
        loading = 0.5 * (loading + fitted)
        if change < tol:
            break
    return loading


def _association(table: _Table, t_cr: Floats, tt: Floats) -> tuple[Floats, Floats]:
    """N_a times the sum of squared canonical correlations of answers and scores, and its degrees of freedom, [A]."""
    inverse_x, rank_x = _pseudo_inverse(table.xx_alm)
    inverse_t, rank_t = _pseudo_inverse(tt)
    # Scores are centred, so that answers need not be.
    xt = table.by_label(table.answers, t_cr)
    total = np.einsum("alm,amr,ars,als->a", inverse_x, xt, inverse_t, xt, optimize=True)
    return table.count * total, rank_x * rank_t


def _perfect(table: _Table, q_nk: Floats, t_cr: Floats, tt: Floats) -> Floats:
    """The same sum for somebody who would answer the true class, per answer, [A]: labels drawn from the posterior."""
    count = np.maximum(table.count, 1)[:, None, None]
    q_ck = q_nk[table.item]
    mean_q = table.means(q_ck)
    zz = np.einsum("ak,kj->akj", mean_q, np.eye(q_ck.shape[1])) - np.einsum("ak,aj->akj", mean_q, mean_q)
    zt = table.products(q_ck, t_cr) / count
    inverse_z, inverse_t = _pseudo_inverse(zz)[0], _pseudo_inverse(tt / count)[0]
    return np.asarray(np.einsum("alm,amr,ars,als->a", inverse_z, zt, inverse_t, zt, optimize=True))


def _below(statistic: Floats, degrees: Floats, noncentrality: Floats) -> Floats:
    """P(noncentral chi^2 <= statistic); without degrees of freedom (one answer throughout) the atom at zero."""
    from scipy.special import chndtr

    p_value = np.exp(-noncentrality / 2)
    some = degrees > 0
    p_value[some] = chndtr(statistic[some], degrees[some], np.maximum(noncentrality[some], 1e-12))
    return p_value


def _near_zero(norm: Floats, present: Flags) -> Flags:
    """Two-means of the norms by Lloyd's rule from both ends; True for the lower cluster."""
    values = norm[present]
    flag = np.zeros(len(norm), bool)
    if len(values) < 2 or np.ptp(values) == 0:
        return flag
    low, high = float(values.min()), float(values.max())
    for _ in range(100):
        lower = values < (low + high) / 2
        low, high = float(values[lower].mean()), float(values[~lower].mean())
    flag[present] = values < (low + high) / 2
    return flag


def _pseudo_inverse(matrix: Floats) -> tuple[Floats, Floats]:
    """Pseudo-inverses and ranks of covariances, [A, R, R] and [A]."""
    value, vector = np.linalg.eigh(matrix)
    kept = value > np.maximum(value[:, -1:], 1e-12) * 1e-8
    inverse = np.where(kept, 1 / np.where(kept, value, 1.0), 0.0)
    return np.einsum("aij,aj,akj->aik", vector, inverse, vector), kept.sum(axis=1).astype(float)
