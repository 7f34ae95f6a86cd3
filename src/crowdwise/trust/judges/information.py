"""What a judge adds: bits about the class given what all others answered.

    I(Y; V_j | V_-j) = E[ H(Y | v_-j) - sum_l P(V_j = l | v_-j) H(Y | v_-j, l) ]

under a `JudgeModel`. The mean is over the items that the judge answered, with the answers of the others as they are; the
judge's own answer is summed over all that it could have been, so that every term is zero or more and no luck of a single
answer counts. Over answers of the others drawn from the model, the mean is the conditional mutual information itself.

Soft votes are as sure as they are: of them, the mean is of H(Y | v_-j) - H(Y | v) with the vote as it was given.

Within a family, answers of the other members say what the family's hidden answer was. With w_sc the probability of these and of
the answer c of the judge's group (`JudgeModel.downward`), and s the state of the item, its class and whether it is hard:

    P(their answers, l | s) = lam_j w_sl + (1 - lam_j) D_j[s, l] sum_c w_sc
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Floats
from crowdwise.trust.judges.cells import Cells, log_sum
from crowdwise.trust.judges.model import JudgeModel, Upward

__all__ = ["added_bits", "entropy", "group_bits"]


def added_bits(model: JudgeModel, votes: Annotations) -> Floats:
    """Bits that every judge's answer is expected to add to those of the others, [A]; NaN without an answer."""
    cells = Cells.of(answers_of(votes), model.codes, votes.n_items)
    said = model.upward(cells)
    # Without this answer: the family's other answers, and everybody else's.
    *_, log_esl = model.downward(cells, said)
    log_esl = log_esl + _outside(model, cells, said, 0)[:, :, None]
    joint_elk = model.by_class(np.exp(log_esl - log_esl.max(axis=(1, 2), keepdims=True)).transpose(0, 2, 1))
    joint_elk /= joint_elk.sum(axis=(1, 2), keepdims=True)
    n_votes = segment_sum(cells.annotator, None, model.n_judges)
    total = segment_sum(cells.annotator, _bits(joint_elk, cells.share_el if votes.soft else None), model.n_judges)
    return np.asarray(np.where(n_votes > 0, np.maximum(total, 0.0) / np.maximum(n_votes, 1), np.nan))


def group_bits(model: JudgeModel, votes: Annotations, level: int) -> Floats:
    """Bits that the answers of every group of a level add to those of all others, [J]; NaN without an answer.

    The mean over items of H(Y | answers of the others) - H(Y | all answers), with the answers as they are. Level 1 has the
    smallest groups, the last one families.
    """
    cells = Cells.of(answers_of(votes), model.codes, votes.n_items)
    said = model.upward(cells)
    log_msl = list(model.downward(cells, said))[::-1][level]
    without = _outside(model, cells, said, level) + log_sum(log_msl)
    all_ms = model.scores(cells, said.log_ms)[cells.items[level]]
    left, full = (entropy(model.by_class(np.exp(one - log_sum(one)[:, None]))) for one in (without, all_ms))
    node, size = cells.nodes[level], len(model.levels[level].lam)
    n_items, total = segment_sum(node, None, size), np.maximum(segment_sum(node, left - full, size), 0.0)
    return np.asarray(np.where(n_items > 0, total / np.maximum(n_items, 1), np.nan))


def _outside(model: JudgeModel, cells: Cells, said: Upward, level: int) -> Floats:
    """log P(s, answers of all other families) of every cell of a level, [M, S]."""
    family = np.arange(len(cells.items[level]))
    for above in cells.above[level:]:
        family = above[family]
    return np.asarray(model.scores(cells, said.log_ms)[cells.items[level]] - said.log_ms[family])


def _bits(joint_elk: Floats, share_el: Floats | None) -> Floats:
    """What every answer adds, from P(answer, class | the others), [E]: over all answers that it could be, or in fractions."""
    before = entropy(joint_elk.sum(axis=1))
    if share_el is not None:
        with_it = np.einsum("elk,el->ek", joint_elk, share_el)
        return np.asarray(before - entropy(with_it / np.maximum(with_it.sum(axis=1, keepdims=True), 1e-300)))
    answer_el = joint_elk.sum(axis=2)
    given_el = entropy(joint_elk / np.maximum(answer_el, 1e-300)[:, :, None])
    return np.asarray(before - (answer_el * given_el).sum(axis=1))


def entropy(probability: Floats) -> Floats:
    """In bits, along the last axis."""
    return np.asarray(-(probability * log_floored(probability)).sum(axis=-1) / np.log(2))
