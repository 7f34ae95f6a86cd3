"""The posterior of the Gaussian processes is the q(z) of their bound, drawn towards the class shares of the votes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import digamma, ndtr
from tests.methods.classify.crowds import clouds, vote

torch = pytest.importorskip("torch")

from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.estimator.registry import make_aggregator, make_classifier  # noqa: E402
from crowdwise.parts.heads.dirichlet import LatentHead  # noqa: E402


@pytest.mark.parametrize("class_shares", ["free", "anchored"])
@pytest.mark.parametrize("name", ["svgpcr", "gpnetcr"])
def test_labels_are_inferred_under_the_expected_log_likelihood(name: str, class_shares: str) -> None:
    X, truth = clouds(0, 80, 2, gap=1.0)
    votes = vote(0, truth, [[[0.8, 0.2], [0.3, 0.7]]] * 3)
    chosen = {"likelihood": "robust-max", "scaling": "columns", "epsilon": 0.05, "class_shares": class_shares}
    model: Any = make_classifier(name, epochs=8, random_state=0, **chosen).fit(X, votes)
    assert model.log_shares_.any() == (class_shares == "anchored")
    mean, variance = model.latent(X)
    first = ndtr((mean[:, 0] - mean[:, 1]) / np.sqrt(variance.sum(axis=1)))
    p = np.stack([first, 1 - first], axis=1)
    scores = p * np.log(0.95) + (1 - p) * np.log(0.05) + model.log_shares_
    beta = model.result_.annotators.beta_alk
    rows = digamma(beta) - digamma(beta.sum(axis=1, keepdims=True))
    np.add.at(scores, votes.item, rows[votes.annotator, votes.label])
    q = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(model.result_.model_posterior, q / q.sum(axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("anchored", [True, False])
def test_labels_are_drawn_towards_the_class_shares_of_the_votes(anchored: bool) -> None:
    votes = Annotations.from_arrays([0, 0, 1, 2], [0, 1, 0, 1], [0, 1, 1, 1], items=range(4), classes=range(2))
    posterior = torch.tensor([[1, 0], [1, 0], [0.5, 0.5], [0.5, 0.5]]).double()
    head = LatentHead(votes, np.ones((1, 2, 2)), posterior, 0, torch.nn.Identity(), None, anchored=anchored)
    # Votes: half an item of the first class and two and a half of the second; labels of voted items: two and a half, half.
    votes_say, labels_say = np.array([1.5, 3.5]) / 5, np.array([3.5, 1.5]) / 5
    expected = np.log(np.sqrt(votes_say * labels_say) / labels_say) if anchored else np.zeros(2)
    np.testing.assert_allclose(head.log_shares().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf", "gpnetcr"])
def test_the_prior_of_the_crowd_is_its_only_community(name: str) -> None:
    X, truth = clouds(0, 80, 2, gap=1.0)
    votes = vote(0, truth, [[[0.8, 0.2], [0.3, 0.7]]] * 3)
    model: Any = make_classifier(name, epochs=2, random_state=0, likelihood="softmax", scaling="columns").fit(X, votes)
    community = make_aggregator("cbcc", communities=1, class_prior="anchored").fit(votes).result_.annotators.eta_mlk
    np.testing.assert_array_equal(model.result_.annotators.prior_alk, community)


@pytest.mark.parametrize("n_annotators", [1, 2])
def test_one_or_two_annotators_have_a_prior_too(n_annotators: int) -> None:
    X, truth = clouds(0, 30, 2, gap=1.0)
    votes = vote(0, truth, [[[0.8, 0.2], [0.3, 0.7]]] * n_annotators)
    model: Any = make_classifier("svgpcr", epochs=3, random_state=0).fit(X, votes)
    assert np.isfinite(model.posterior_).all()
