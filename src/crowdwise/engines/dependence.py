"""Which annotators agree more than their confusion matrices explain, and the groups they form.

For annotators a, b and an item n that both answered, under independence given the true class,

    expected_nab = sum_k q_nk m_abk,   m_abk = sum_l pi_akl pi_bkl
    r_ab = sum_n (1[y_na = y_nb] - expected_nab) / sqrt(sum_n expected_nab (1 - expected_nab))

is about standard normal. Groups: pairs whose r_ab passes a Bonferroni bound connect annotators;
inside each connected part, average-linkage clustering of r_ab, cut at the same bound, so that one
chance link does not merge two groups.

Notes
-----
q_n is the posterior given all votes, those of a and b among them. By the tower rule E[q_nk] = d_k, so
the sum is still centred under the model; its variance is at most the one used, so the test is
conservative. Cost: O(pairs of answers on an item x K^2), in chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.meetings import answers_of, pair_sums, sampled
from crowdwise.kernels.numerics import COMPILED_FROM
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Residuals", "group_codes", "residual_agreement"]


# Average linkage holds a dense matrix of a connected part; larger parts stay one group.
_LARGEST_PART = 4000


@dataclass(frozen=True, eq=False)
class Residuals:
    """Per pair that met: items in common, observed and expected agreements, the variance of their difference, [P] each."""

    first: Integers
    second: Integers
    n_items: Floats
    agree: Floats
    expected: Floats
    variance: Floats
    #: Share of the meetings that was looked at: items are drawn where there are too many.
    share: float = 1.0

    def z(self, least: float = 0.0) -> Floats:
        """Standardised excess over the expected agreement plus `least` per item; 0 where nothing can vary."""
        excess = self.agree - self.expected - least * self.n_items
        return np.where(self.variance > 1e-9, excess / np.sqrt(np.maximum(self.variance, 1e-9)), 0.0)


def residual_agreement(votes: Annotations, posterior: Floats, confusion_akl: Floats, most: int | None = None) -> Residuals:
    """Compare how often every two annotators agree with how often they should.

    Beyond `most` pairs of answers, on items drawn with a fixed seed.
    """
    whole = answers_of(votes)
    answers = whole if most is None else sampled(whole, most)
    who, item, share = answers.annotator, answers.item, answers.share_cl
    confusion = np.ascontiguousarray(confusion_akl)

    def statistics(first: Integers, second: Integers) -> Floats:
        if len(first) >= COMPILED_FROM:
            from crowdwise.kernels.group_loops import add_agreements

            found = np.empty((len(first), 3))
            add_agreements(first, second, who, item, share, confusion, posterior, found)
            return found
        agree = np.einsum("pl,pl->p", share[first], share[second])
        expected = np.zeros(len(first))
        for k in range(posterior.shape[1]):
            both = np.einsum("pl,pl->p", confusion[who[first], k], confusion[who[second], k])
            expected += posterior[item[first], k] * both
        return np.column_stack([agree, expected, expected * (1 - expected)])

    pairs = pair_sums(answers, statistics, 3)
    agree, expected, variance = pairs.sums.T
    looked_at = 1.0 if answers is whole else _meetings(answers.item) / _meetings(whole.item)
    return Residuals(pairs.first, pairs.second, pairs.n_items, agree, expected, variance, looked_at)


def _meetings(item: Integers) -> float:
    size = np.bincount(item)
    return float((size * (size - 1)).sum())


def group_codes(residuals: Residuals, n_annotators: int, level: float = 0.05, least: float = 0.0) -> Integers:
    """Group of every annotator, [A]; -1 for those who depend on nobody.

    `level` is the chance, by Bonferroni, that any pair of independent annotators is connected.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.special import ndtri

    z = residuals.z(least)
    bound = float(-ndtri(level / max(len(z), 1)))
    tied = z > bound
    graph = coo_array(
        (np.ones(int(tied.sum())), (residuals.first[tied], residuals.second[tied])), shape=(n_annotators, n_annotators)
    )
    _, part = connected_components(graph, directed=False)
    group = np.full(n_annotators, -1)
    found = 0
    for code in np.flatnonzero(np.bincount(part) > 1):
        members = np.flatnonzero(part == code)
        cut = _clusters(members, residuals, z, bound) if len(members) <= _LARGEST_PART else np.zeros(len(members), int)
        for cluster in np.flatnonzero(np.bincount(cut) > 1):
            group[members[cut == cluster]] = found
            found += 1
    return group


def _clusters(members: Integers, residuals: Residuals, z: Floats, bound: float) -> Integers:
    """Average linkage inside one connected part; pairs that never met count as unrelated."""
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    place = np.full(max(int(members.max()) + 1, int(residuals.second.max()) + 1), -1)
    place[members] = np.arange(len(members))
    first, second = place[residuals.first], place[residuals.second]
    inside = (first >= 0) & (second >= 0)
    similarity = np.zeros((len(members), len(members)))
    similarity[first[inside], second[inside]] = z[inside]
    similarity += similarity.T
    top = max(float(similarity.max()), bound) + 1.0
    distance = top - similarity
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    return np.asarray(fcluster(tree, top - bound, "distance"), np.int64) - 1
