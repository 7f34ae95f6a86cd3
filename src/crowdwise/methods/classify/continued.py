"""What a network's fit continues with more rows and votes: `partial_fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import translate, union
from crowdwise.estimator.carry import positions
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.network_model import NetworkModel
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import start_confusion
from crowdwise.parts.annotators.model import Confusion

__all__ = ["Continued", "continued", "with_annotators"]


@dataclass(frozen=True, eq=False)
class Continued:
    """The fitted network, labels of the new items under the earlier fit [N, K], and its annotators [A, K, L]."""

    model: NetworkModel
    posterior: Floats
    confusion: Floats

    def start(self, own: Start) -> Start:
        """A start from the earlier fit."""
        posterior, confusion = (torch.tensor(values, dtype=own.dtype) for values in (self.posterior, self.confusion))
        return Start(posterior, confusion, False, own.dtype, table=own.table)


def with_annotators(votes: Annotations, earlier: Annotations) -> Annotations:
    """The votes with the annotators of earlier ones beside their own."""
    annotators = union([earlier.annotators, votes.annotators], sort=True)
    code = translate(votes.annotators, annotators)[votes.annotator]
    return votes.from_codes(
        *(votes.item, code, votes.label, votes.items, annotators, votes.classes, votes.weight, votes.gold),
        n_missing=votes.n_missing,
        groups=votes.groups,
        soft=votes.soft,
    )


def continued(estimator: Any, features: Any, votes: Annotations) -> Continued:
    """The state of a fitted estimator, for these rows and votes; annotators that it does not know are like the others."""
    log_prob = estimator.model_.log_prob(features)
    posterior = np.zeros_like(log_prob)
    who = positions(votes.annotators, estimator.annotators_)
    model = estimator.result_.annotators
    # Matrices as they were trained, which votes on new rows are not judged by.
    trained = isinstance(model, Confusion)
    model = model.aligned(who, np.full(votes.n_items, -1)) if trained else estimator._annotators_on(features, who)
    model.infer(votes, estimator._prior(votes, log_prob), votes.known_codes, posterior)
    confusion = model.confusion()
    return Continued(estimator.model_, posterior, start_confusion(votes, posterior) if confusion is None else confusion)
