"""Annotators of one group as one annotator: their votes on an item become one soft vote.

A group has a hidden answer c on every item, and a member gives it or answers at random by the overall label shares t:

    p(votes of the group | c) = prod_a [lam_a 1(y_a = c) + (1 - lam_a) t_{y_a}]
    g(c) proportional to t_c p(votes | c)                            one vote in fractions g

lam_a, how faithfully a member gives the group's answer, is fitted to the agreement inside the group, s_ab = lam_a lam_b,
shrunk to the group's mean by five meetings. Groups whose members never met on an item stay as they are: their votes are
never counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import vocabulary_array, vocabulary_series
from crowdwise.data.meetings import MOST_MEETINGS, answers_of, sampled
from crowdwise.engines.independence import agreement_of
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["Messages", "fidelity", "fused", "joined", "messages", "met"]


# Fractions of a soft vote up to this are left out: most groups then have one or two rows per item.
_LEAST = 0.01
_ROUNDS, _PSEUDO = 20, 5.0


@dataclass(frozen=True, eq=False)
class Messages:
    """What every group says about every item that it answered.

    Attributes
    ----------
    item, group : [M]
    log_p : [M, K]
        log p(votes | c), up to a constant of each row.
    weight : [M]
        Mean summed weight of the members who answered: one, unless votes are repeated or weighted.
    """

    item: Integers
    group: Integers
    log_p: Floats
    weight: Floats


def fused(votes: Annotations, code: Integers, names: Sequence[str] | None = None) -> Annotations:
    """Votes in which every group is one annotator with soft votes.

    Parameters
    ----------
    code : [A]
        Group of every annotator, -1 for those who stand alone.
    names : sequence, optional
        Names of the groups as annotators; "group 1" and so on without them.

    Examples
    --------
    >>> votes = Annotations.from_matrix([[0, 0, 1], [1, 1, 1], [0, 1, 0]], annotators=["x", "y", "z"])
    >>> fused(votes, np.array([0, 0, -1])).annotators.tolist()
    ['z', 'group 1']
    """
    return joined(votes, code, names)[0]


def joined(votes: Annotations, code: Integers, names: Sequence[str] | None = None) -> tuple[Annotations, Integers]:
    """As `fused`, and the new code of every annotator, which is that of the group for its members, [A]."""
    code, names = met(votes, code, names)
    if not (code >= 0).any():
        return votes, np.arange(votes.n_annotators)
    said = messages(votes, code, fidelity(votes, code))
    log_g = said.log_p + np.log(_label_shares(votes) + 1e-12)
    soft = np.exp(log_g - log_g.max(axis=1, keepdims=True))
    soft /= soft.sum(axis=1, keepdims=True)
    row, label = np.nonzero(soft > _LEAST)
    alone = np.flatnonzero(code[votes.annotator] < 0)
    weight = votes.weights
    # Codes of the groups follow those of the annotators, whom the vocabulary then loses.
    who = np.concatenate([votes.annotator[alone], votes.n_annotators + said.group[row]])
    everybody = [*votes.annotators.tolist(), *_names(votes, code, names)]
    kept = np.concatenate([code < 0, np.ones(len(everybody) - votes.n_annotators, bool)])
    left = [str(name) for name, stays in zip(everybody, kept, strict=True) if stays]
    place = np.cumsum(kept) - 1
    together = Annotations.from_codes(
        np.concatenate([votes.item[alone], said.item[row]]),
        place[who],
        np.concatenate([votes.label[alone], label]),
        votes.items,
        vocabulary_array(vocabulary_series(left, "annotators")),
        votes.classes,
        np.concatenate([weight[alone], soft[row, label] * said.weight[row]]),
        votes.gold,
        n_missing=votes.n_missing,
        groups=votes.groups,
    )
    return together, place[np.where(code < 0, np.arange(votes.n_annotators), votes.n_annotators + code)]


def met(votes: Annotations, code: Integers, names: Sequence[str] | None = None) -> tuple[Integers, list[str] | None]:
    """The groups whose members met on an item, [A] with -1 for everybody else, and their names; numbered without gaps."""
    code = np.where(np.isfinite(fidelity(votes, code)), code, -1)
    left = np.unique(code[code >= 0])
    renumbered = np.full(int(code.max(initial=-1)) + 2, -1)
    renumbered[left] = np.arange(len(left))
    return renumbered[code], None if names is None else [names[j] for j in left]


def messages(votes: Annotations, code: Integers, lam_a: Floats) -> Messages:
    """What every group says about every item that it answered, given the fidelity of its members, [A]."""
    answers = answers_of(votes)
    answers = answers.at(code[answers.annotator] >= 0)
    n_groups, n_classes = int(code.max()) + 1, votes.n_classes
    cell, row = np.unique(answers.item * n_groups + code[answers.annotator], return_inverse=True)
    shares_l, lam_c = _label_shares(votes), lam_a[answers.annotator]
    # log p of an answer is a mean over its labels, where there are several: log t_y (1 - lam) for all c, and more where c = y.
    guessed = np.log((1 - lam_c)[:, None] * shares_l + 1e-12)
    given = np.log(lam_c[:, None] + (1 - lam_c)[:, None] * shares_l + 1e-12)
    log_p = answers.share_cl * (given - guessed) + (answers.share_cl * guessed).sum(axis=1, keepdims=True)
    total = np.column_stack([segment_sum(row, log_p[:, k], len(cell)) for k in range(n_classes)])
    weight = segment_sum(row, answers.weight, len(cell)) / segment_sum(row, None, len(cell))
    return Messages(cell // n_groups, cell % n_groups, total, weight)


def fidelity(votes: Annotations, code: Integers) -> Floats:
    """lam_a of every member of a group whose members met, [A]; NaN for everybody else."""
    pairs = agreement_of(sampled(votes, MOST_MEETINGS))
    inside = (code[pairs.first] == code[pairs.second]) & (code[pairs.first] >= 0)
    a, b, n, s = pairs.first[inside], pairs.second[inside], pairs.n[inside], np.clip(pairs.beyond[inside], 0.01, 0.995)
    size, n_groups = votes.n_annotators, int(code.max(initial=-1)) + 1
    total = segment_sum(code[a], n, n_groups)
    mean_j = np.sqrt(segment_sum(code[a], n * s, n_groups) / np.where(total > 0, total, np.nan))
    mean_a = np.append(mean_j, np.nan)[code]
    lam_a = mean_a
    for _ in range(_ROUNDS):
        up = segment_sum(a, n * lam_a[b] * s, size) + segment_sum(b, n * lam_a[a] * s, size) + _PSEUDO * mean_a
        down = segment_sum(a, n * lam_a[b] ** 2, size) + segment_sum(b, n * lam_a[a] ** 2, size) + _PSEUDO
        lam_a = 0.5 * lam_a + 0.5 * np.clip(up / down, 0.05, 0.98)
    return lam_a


def _label_shares(votes: Annotations) -> Floats:
    """Overall shares of the labels, each answer counting one, [L]."""
    share = answers_of(votes).share_cl.sum(axis=0)
    return np.asarray(share / share.sum())


def _names(votes: Annotations, code: Integers, names: Sequence[str] | None) -> list[str]:
    """A name of every group that no annotator outside the groups has."""
    taken = {str(name) for name in votes.annotators[code < 0].tolist()}
    found = []
    for name in [f"group {j + 1}" for j in range(int(code.max()) + 1)] if names is None else names:
        while name in taken:
            name = f"group {name}"
        taken.add(name)
        found.append(name)
    return found
