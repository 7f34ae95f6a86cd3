"""Whether independent annotators with confusion matrices of their own explain the agreement that one number each does not.

Skill as one number makes agreement beyond chance rank one. Independent annotators with full confusion matrices agree by

    e_ab = sum_k v_k sum_l p_akl p_bkl,

which is more: steady adversaries who answer class k + 1 for class k agree with each other as if they shared errors, and the
honest seem to share what the adversaries lack. So before groups are reported, such annotators are fitted: Dawid and Skene's
model by EM from vote shares, every row of a matrix with two pseudo-answers at the crowd's rates. They explain the votes if of
the agreement that they leave, inside every group and among everybody else, less than a twentieth of what is possible remains,
or no more than chance leaves (three standard deviations over items). Looking at
everybody else as well is what makes this safe: a fit that takes a group's answers for the truth explains the group, and leaves
the agreement of the others on the real truth.

Cost: one fit, where groups would be reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from crowdwise.data.meetings import SingleAnswers
from crowdwise.kernels.numerics import NO_WEIGHT, confusion_counts, infer_table, log_floored, segment_sum, vote_shares
from crowdwise.kernels.types import Floats, Integers

if TYPE_CHECKING:
    from crowdwise.engines.independence import Agreement

__all__ = ["explained_by_classes"]


_ROUNDS, _MOVING, _PSEUDO = 50, 1e-4, 2.0
# The share of the possible excess that counts: half of what a group must keep given those outside, for those whose answers the
# fit does not take for the truth show only a part of their agreement. Chosen in view of crowds with 26 colluders of 60, of
# which a tenth lost one in ten.
_LEAST = 0.05
# Standard deviations from which on what is left is no chance: once in 740 times for every set that is looked at.
_FAR = 3.0


def explained_by_classes(answers: SingleAnswers, pairs: Agreement, code: Integers) -> bool:
    """Whether no group, by the group of every annotator, nor those outside, keep an excess that counts and is no chance."""
    shares_k, table = _fitted(answers)
    root = (table.reshape(answers.n_annotators, -1, len(shares_k)) * np.sqrt(shares_k)).reshape(answers.n_annotators, -1)
    expected = pairs.products(root)
    left, possible = pairs.agree - pairs.n * expected, pairs.n * (1 - expected)
    inside = code[pairs.first] == code[pairs.second]
    for group in range(-1, int(code.max()) + 1):
        these = np.flatnonzero(inside & (code[pairs.first] == group))
        total, n = float(left[these].sum()), pairs.n[these]
        if total <= _LEAST * float(possible[these].sum()):
            continue
        model = float(n @ (expected[these] * (1 - expected[these])))
        over_items = _variance(answers.at(code[answers.annotator] == group), float(n @ expected[these] / n.sum()))
        if total > _FAR * np.sqrt(max(model, over_items)):
            return False
    return True


def _variance(answers: SingleAnswers, expected: float) -> float:
    """The variance over items of their agreements, where the pairs on an item agree with this probability."""
    _, place = np.unique(answers.item, return_inverse=True)
    sums = answers.label_sums(place, int(place.max(initial=-1)) + 1)
    own = segment_sum(place, None if answers.single else (answers.given**2).sum(axis=1), len(sums))
    size = segment_sum(place, None, len(sums))
    excess = ((sums**2).sum(axis=1) - own) / 2 - expected * size * (size - 1) / 2
    return float(excess @ excess)


def _fitted(answers: SingleAnswers) -> tuple[Floats, Floats]:
    """Class shares [K] and P(label l | class k) at [a L + l, k], by EM from vote shares."""
    if answers.single:
        item, annotator, label, weight = answers.item, answers.annotator, answers.given, NO_WEIGHT
    else:
        row, label = np.nonzero(answers.given)
        item, annotator, weight = answers.item[row], answers.annotator[row], answers.given[row, label]
    _, size = np.unique(item, return_counts=True)
    item_ptr, n_classes = np.concatenate([[0], np.cumsum(size)]), answers.n_classes
    row, n_rows = annotator * n_classes + label, answers.n_annotators * n_classes
    posterior, known = vote_shares(item_ptr, label, weight, n_classes), np.zeros(0, np.int16)
    for _ in range(_ROUNDS):
        shares_k = posterior.mean(axis=0)
        counts = confusion_counts(item_ptr, row, weight, posterior, n_rows).reshape(-1, n_classes, n_classes)
        crowd = counts.sum(axis=0) + 1 / n_classes
        counts += _PSEUDO * crowd / crowd.sum(axis=0)
        table = (counts / counts.sum(axis=1, keepdims=True)).reshape(n_rows, n_classes)
        _, change = infer_table(item_ptr, row, weight, table, log_floored(shares_k)[None], known, posterior)
        if change <= _MOVING * len(posterior):
            break
    return shares_k, table
