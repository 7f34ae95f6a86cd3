"""How far the probability of a label on an item may be believed: that of a yes-no question with the votes on it.

    logit q_nl = logit p_nl / T_nl,   T_nl = (answers that say anything of label l on item n)^gamma,  as in
                 `crowdwise.estimator.judgement`, but not across the share s_l of items that the label applies to:
    q_nl <= s_l where p_nl <= s_l,   q_nl >= s_l where p_nl >= s_l

Most labels apply to few items. Doubt in the votes alone would make a rare label that everybody left out more probable than it
is on an item that nobody was asked about.
"""

from __future__ import annotations

import numpy as np

from crowdwise.kernels.numerics import tempered
from crowdwise.kernels.types import Floats

__all__ = ["cooled", "on_its_side"]


def cooled(probability: Floats, votes: Floats, exponent: float) -> Floats:
    """Probabilities of labels with so many votes each, as experience has them, [N, K] all."""
    both = np.stack([1 - probability.ravel(), probability.ravel()], axis=1)
    q = tempered(both, np.maximum(votes, 1).ravel() ** exponent)[:, 1]
    return np.asarray(q.reshape(probability.shape))


def on_its_side(believed: Floats, inferred: Floats, share: Floats) -> Floats:
    """What is believed, moved back to a label's share where it left the side of it on which the model is, [N, K]."""
    return np.where(inferred <= share, np.minimum(believed, share), np.maximum(believed, share))
