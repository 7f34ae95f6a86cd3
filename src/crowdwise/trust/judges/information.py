"""What a judge adds: bits about the class given what all others answered.

    I(Y; V_j | V_-j) = E[ H(Y | v_-j) - sum_l P(V_j = l | v_-j) H(Y | v_-j, l) ]

under a `JudgeModel`. The mean is over the items that the judge answered, with the answers of the others as they are; the judge's
own answer is summed over all that it could have been, so that every term is zero or more and no luck of a single answer counts.
Over answers of the others drawn from the model, the mean is the conditional mutual information itself.

Within a family, answers of the other members say what the family's hidden answer was. With w_kc = B_f[k, c] times the
probabilities of their answers:

    P(their answers, l | k) = lam_j w_kl + (1 - lam_j) D_j[k, l] sum_c w_kc
"""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.meetings import answers_of
from crowdwise.kernels.numerics import log_floored, segment_sum
from crowdwise.kernels.types import Floats
from crowdwise.trust.judges.model import Cells, JudgeModel, log_sum, softmax

__all__ = ["added_bits", "entropy"]


def added_bits(model: JudgeModel, votes: Annotations) -> Floats:
    """Bits that every judge's answer is expected to add to those of the others, [A]; NaN without an answer."""
    cells = Cells.of(answers_of(votes), model.family)
    p_ekc = model.probability(cells)
    log_mkc = model.messages(cells, p_ekc)
    log_mk = log_sum(log_mkc)
    score_nk = model.scores(cells, log_mk, votes.n_items)
    # Without this answer: the family's other answers, and everybody else's.
    log_w = log_mkc[cells.cell] - log_floored(p_ekc)
    top = log_w.max(axis=(1, 2), keepdims=True)
    w_ekc = np.exp(log_w - top)
    lam = model.lam_a[cells.annotator][:, None, None]
    joint_ekl = lam * w_ekc + (1 - lam) * model.own_akl[cells.annotator] * w_ekc.sum(axis=2, keepdims=True)
    outside_ek = score_nk[cells.item] - log_mk[cells.cell]
    joint_ekl *= softmax(outside_ek)[:, :, None]
    joint_ekl /= joint_ekl.sum(axis=(1, 2), keepdims=True)
    answer_el = joint_ekl.sum(axis=1)
    with_it = np.einsum("el,el->e", answer_el, entropy(joint_ekl.transpose(0, 2, 1) / np.maximum(answer_el, 1e-300)[:, :, None]))
    bits_e = entropy(joint_ekl.sum(axis=2)) - with_it
    n_votes = segment_sum(cells.annotator, None, model.n_judges)
    total = segment_sum(cells.annotator, np.maximum(bits_e, 0.0), model.n_judges)
    return np.asarray(np.where(n_votes > 0, total / np.maximum(n_votes, 1), np.nan))


def entropy(probability: Floats) -> Floats:
    """In bits, along the last axis."""
    return np.asarray(-(probability * log_floored(probability)).sum(axis=-1) / np.log(2))
