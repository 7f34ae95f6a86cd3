"""What a judge adds: bits about the class given what all others answered.

    I(Y; V_j | V_-j) = E[ H(Y | v_-j) - sum_l P(V_j = l | v_-j) H(Y | v_-j, l) ]

under a `JudgeModel`. The mean is over the items that the judge answered, with the answers of the others as they are; the
judge's own answer is summed over all that it could have been, so that every term is zero or more and no luck of a single
answer counts. Over answers of the others drawn from the model, the mean is the conditional mutual information itself.

Soft votes are as sure as they are: of them, the mean is of H(Y | v_-j) - H(Y | v) with the vote as it was given.

Within a family, answers of the other members say what the family's hidden answer was. With w_sc = B_f[s, c] times the
probabilities of their answers, and s the state of the item, its class and whether it is hard:

    P(their answers, l | s) = lam_j w_sl + (1 - lam_j) D_j[s, l] sum_c w_sc
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Floats
from crowdwise.trust.judges.cells import Cells, log_sum
from crowdwise.trust.judges.model import JudgeModel

__all__ = ["added_bits", "entropy", "family_bits"]


def added_bits(model: JudgeModel, votes: Annotations) -> Floats:
    """Bits that every judge's answer is expected to add to those of the others, [A]; NaN without an answer."""
    cells = Cells.of(answers_of(votes), model.family, votes.n_items)
    p_esc = model.probability(cells)
    log_msc = model.messages(cells, p_esc)
    log_ms = log_sum(log_msc)
    # Without this answer: the family's other answers, and everybody else's.
    log_w = log_msc[cells.cell] - log_floored(p_esc)
    w_esc = np.exp(log_w - log_w.max(axis=(1, 2), keepdims=True))
    lam = model.lam_a[cells.annotator][:, None, None]
    joint_esl = lam * w_esc + (1 - lam) * model.own_asl[cells.annotator] * w_esc.sum(axis=2, keepdims=True)
    outside_es = model.scores(cells, log_ms)[cells.item] - log_ms[cells.cell]
    joint_esl *= np.exp(outside_es - outside_es.max(axis=1, keepdims=True))[:, :, None]
    joint_elk = model.by_class(joint_esl.transpose(0, 2, 1))
    joint_elk /= joint_elk.sum(axis=(1, 2), keepdims=True)
    n_votes = segment_sum(cells.annotator, None, model.n_judges)
    total = segment_sum(cells.annotator, _bits(joint_elk, cells.share_el if votes.soft else None), model.n_judges)
    return np.asarray(np.where(n_votes > 0, np.maximum(total, 0.0) / np.maximum(n_votes, 1), np.nan))


def family_bits(model: JudgeModel, votes: Annotations) -> Floats:
    """Bits that the answers of every family add to those of all others, [F]; NaN without an answer.

    The mean over items of H(Y | answers of the others) - H(Y | all answers), with the answers as they are.
    """
    cells = Cells.of(answers_of(votes), model.family, votes.n_items)
    log_ms = log_sum(model.messages(cells, model.probability(cells)))
    score_ms = model.scores(cells, log_ms)[cells.item_m]
    with_it, without = (entropy(model.by_class(np.exp(one - log_sum(one)[:, None]))) for one in (score_ms, score_ms - log_ms))
    n_items, size = segment_sum(cells.family_m, None, len(model.shared_fsc)), len(model.shared_fsc)
    total = np.maximum(segment_sum(cells.family_m, without - with_it, size), 0.0)
    return np.asarray(np.where(n_items > 0, total / np.maximum(n_items, 1), np.nan))


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
