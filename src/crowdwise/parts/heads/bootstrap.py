"""Labels by the votes, annotators by what a network predicted: the step between two trainings of MBEM.

    t_n   = argmax_k f(x_n)_k                                       the network trained before
    R_a   = votes of annotator a counted under t, plus pseudo-votes
    q_nk  proportional to prod_e R_{a_e}[k, y_e]                    what the next network is trained on

Annotators are judged by the network and not by each other, so one vote per item is enough to tell them apart. The network
itself has no say in q beyond R: else it would be taught its own predictions. The paper also has the class shares of t in q,
the authors' code has not. They feed on themselves: a vote that says nothing then teaches these shares, a network that is taught
them predicts the frequent class more often than it occurs, and after a few rounds nothing else (simulated, one vote per item).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import clamp
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.model import AnnotatorModel
from crowdwise.parts.heads.targets import SoftTargets

__all__ = ["BootstrapHead", "judged_by"]


class BootstrapHead(SoftTargets):
    """Cross-entropy with labels that are inferred once, before the training.

    Parameters
    ----------
    votes : Annotations
        The votes that teach (held-out ones left out).
    annotators : AnnotatorModel
        The model before any data, with confusion matrices as points.
    predicted : [N, K]
        All mass on the class that a network predicts.
    """

    def __init__(self, votes: Annotations, annotators: AnnotatorModel, predicted: Floats, dtype: torch.dtype) -> None:
        fitted = judged_by(predicted, votes, annotators)
        posterior = predicted.copy()
        fitted.infer(votes, np.full((1, votes.n_classes), -np.log(votes.n_classes)), votes.known_codes, posterior)
        confusion = fitted.confusion()
        assert confusion is not None
        super().__init__(torch.tensor(posterior, dtype=dtype), _positive(torch.tensor(np.array(confusion), dtype=dtype)))


def judged_by(predicted: Floats, votes: Annotations, annotators: AnnotatorModel) -> AnnotatorModel:
    """Annotators by predictions taken for the truth; known labels are the truth."""
    labels = predicted.copy()
    clamp(labels, votes.known_codes)
    return annotators.update(votes, labels)


def _positive(confusion: Tensor) -> Tensor:
    """Without pseudo-votes an entry may be zero; a held-out vote shall cost much, not everything."""
    return confusion.clamp(min=1e-30)
