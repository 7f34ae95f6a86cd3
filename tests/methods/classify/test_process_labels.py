"""`posterior_` of the Gaussian processes is the q(z) of their bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, ndtr
from tests.methods.classify.crowds import clouds, vote

torch = pytest.importorskip("torch")

from crowdwise.estimator.registry import make_classifier  # noqa: E402


@pytest.mark.parametrize("name", ["svgpcr", "gpnetcr"])
def test_labels_are_inferred_under_the_expected_log_likelihood(name: str) -> None:
    X, truth = clouds(0, 80, 2, gap=1.0)
    votes = vote(0, truth, [[[0.8, 0.2], [0.3, 0.7]]] * 3)
    model: Any = make_classifier(name, likelihood="robust-max", epsilon=0.05, epochs=8, random_state=0).fit(X, votes)
    mean, variance = model.latent(X)
    first = ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(variance.sum(axis=1)))
    p = np.stack([first, 1 - first], axis=1)
    scores = p * np.log(0.95) + (1 - p) * np.log(0.05)
    beta = model.result_.annotators.beta_alk
    rows = digamma(beta) - digamma(beta.sum(axis=1, keepdims=True))
    np.add.at(scores, votes.item, rows[votes.annotator, votes.label])
    q = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.posterior_, q / q.sum(axis=1, keepdims=True), atol=1e-6)
