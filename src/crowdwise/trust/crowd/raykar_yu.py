"""Raykar and Yu's spammer score: how far the rows of a confusion matrix are from each other.

    S_a = 1 / (K (K - 1)) sum_{k < j} sum_l (pi_akl - pi_ajl)^2      in [0, 1]

0: the label does not depend on the class. 1: always right, or wrong in a fixed one-to-one way. For two
classes S = (sensitivity + specificity - 1)^2. The signed score is negative where another naming of the
classes explains the annotator better than the classes themselves.

References
----------
Raykar and Yu (2012), Eliminating spammers and ranking annotators for crowdsourced labeling tasks,
Journal of Machine Learning Research 13, 491-518.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Flags, Floats
from crowdwise.trust.crowd.draws import score_of_draws
from crowdwise.trust.crowd.report import Report

__all__ = ["score", "spammer_score"]


def score(
    result: Result,
    votes: Annotations | None = None,
    *,
    least: float = 0.05,
    fdr: float = 0.05,
    n_draws: int = 100,
    random_state: int | None = 0,
) -> Report:
    """Flag annotators with a score below `least` in the posterior; the frame has the signed score too."""
    found = score_of_draws(
        "raykar-yu",
        spammer_score,
        lambda span: f"rows of the confusion matrix are alike (score {span} in 90 % of draws)",
        result,
        votes,
        least=least,
        fdr=fdr,
        n_draws=n_draws,
        random_state=random_state,
    )
    return replace(found, frame=found.frame.with_columns(signed=spammer_score(result.confusion, signed=True)))


def spammer_score(confusion_akl: Floats, signed: bool = False) -> Floats:
    """S_a of confusion matrices [A, K, L], [A].

    Examples
    --------
    >>> spammer_score(np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0], [1.0, 0.0]]]), signed=True).round(4).tolist()
    [0.49, -1.0]
    """
    pi = np.asarray(confusion_akl, float)
    n_classes = pi.shape[1]
    if n_classes < 2:
        return np.zeros(len(pi))
    # sum_{k<j} |row_k - row_j|^2 = K sum_k |row_k|^2 - |sum_k row_k|^2, without pairs of rows.
    total = n_classes * np.einsum("akl,akl->a", pi, pi) - (pi.sum(axis=1) ** 2).sum(axis=1)
    value = np.clip(total / (n_classes * (n_classes - 1)), 0.0, 1.0)
    return np.asarray(np.where(_inverted(pi), -value, value) if signed else value)


def _inverted(pi: Floats) -> Flags:
    """Whether the diagonal is weaker than any spammer's, whose trace is exactly one."""
    return np.asarray(np.einsum("akk->a", pi) < 1.0)
