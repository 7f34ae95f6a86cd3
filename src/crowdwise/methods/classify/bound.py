"""The bound of a Gaussian process beside a crowd, term by term, over all items that teach.

    sum_n sum_k q_nk E log nu_k(f_n)                    labels under the functions
    sum_e w_e sum_k q_nk E log R[a_e, k, y_e]           votes under the labels
    sum_n H(q_n)                                        entropy of the labels
    - KL(u)                                             inducing values from their prior
    - KL(R)                                             confusion matrices from theirs

q(z) and q(R) are inferred to their end with the functions as they are: the best that this process allows. Class weights and
anchored class shares have no part in it. Items without votes and without a known label say nothing and are left out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import expected_log
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.variational import settled
from crowdwise.parts.annotators.model import AnnotatorModel, DirichletConfusion, counts_of

__all__ = ["TERMS", "bound_terms"]

TERMS = (
    "labels under the functions",
    "votes under the labels",
    "entropy of labels",
    "minus KL of inducing values",
    "minus KL of matrices",
)


def bound_terms(votes: Annotations, annotators: AnnotatorModel, expected: Floats, kl: float) -> dict[str, float]:
    """The terms by name; their sum is the bound.

    Parameters
    ----------
    annotators
        Where inference starts.
    expected : [N, K]
        E log nu.
    kl : float
        Of the inducing values.
    """
    found = settled(votes, annotators, expected)
    assert isinstance(found, DirichletConfusion)
    q = np.zeros_like(expected)
    found.infer(votes, expected, votes.known_codes, q)
    q[(votes.votes_per_item == 0) & ~votes.is_known] = 0
    values = (
        (q * expected).sum(),
        (counts_of(votes, q) * expected_log(found.beta_alk, 1)).sum(),
        -xlogy(q, q).sum(),
        -kl,
        -found.penalty(),
    )
    return {name: float(value) for name, value in zip(TERMS, values, strict=True)}
