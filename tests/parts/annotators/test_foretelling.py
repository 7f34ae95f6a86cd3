"""New votes are foretold by mean matrices: the predictive probability, not the bound."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.methods.labels.mean_field import MeanField
from crowdwise.parts.annotators.model import predictive

VOTES = Annotations.from_arrays(
    np.repeat(np.arange(8), 3), np.tile([0, 1, 2], 8), [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1]
)
NEW = Annotations.from_arrays([0, 0, 1], [0, 2, 1], [0, 1, 1], classes=[0, 1])


@pytest.mark.parametrize(
    "method", [BayesGC(), MeanField(), MeanField(family="confusion"), MeanField(annotator_prior="spammer-hammer:0.5")]
)
def test_the_score_of_new_votes_is_their_predictive_probability(method: BayesGC | MeanField) -> None:
    model = method.fit(VOTES)
    mean, prior = model.confusion_, np.exp(model.result_.prior.log_prob()[0])
    expected = np.log((prior * mean[0, :, 0] * mean[2, :, 1]).sum()) + np.log((prior * mean[1, :, 1]).sum())
    assert model.score(NEW) == pytest.approx(expected / 3, rel=1e-9)


def test_points_foretell_as_they_infer() -> None:
    annotators = DawidSkene().fit(VOTES).result_.annotators
    assert predictive(annotators) is annotators
