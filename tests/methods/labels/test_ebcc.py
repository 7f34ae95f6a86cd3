"""EBCC: posterior and bound against enumerated states, the read-out, restarts, recovery, published accuracies."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.special import digamma, logsumexp
from tests.methods.labels.helpers import crowd, quiet, random_votes
from tests.methods.labels.real import accuracy_on
from tests.methods.labels.test_oracle import SITUATIONS, dirichlet_terms, fitted, history_counts

from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.ebcc import EBCC


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_posterior_and_bound_with_every_state_enumerated(situation: str, n_classes: int) -> None:
    model = fitted("ebcc", situation, n_classes, restarts=4, diagonal=3.0, off_diagonal=0.8, sparsity=0.7)
    votes, part = model.result_.votes, model.result_.annotators
    n_subtypes = part.eta_km.shape[1]
    beta = part.beta_als.reshape(3, n_classes, n_classes, n_subtypes)  # [a, l, k, m]
    log_v = digamma(beta) - digamma(beta.sum(axis=1, keepdims=True))
    log_pi = digamma(part.eta_km) - digamma(part.eta_km.sum(axis=1, keepdims=True))
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    gold = np.full(5, -1) if votes.gold is None else votes.gold
    bound, expected = 0.0, np.zeros((5, n_classes))
    for n in range(5):
        own = range(votes.item_ptr[n], votes.item_ptr[n + 1])
        states = [(k, m) for k, m in itertools.product(range(n_classes), range(n_subtypes)) if gold[n] in (-1, k)]
        scores = np.array(
            [
                np.log(model.prior_[k])
                + (log_pi[k, m] if len(own) else -np.log(n_subtypes))  # an empty item says nothing of subtypes
                + sum(weight[e] * log_v[votes.annotator[e], votes.label[e], k, m] for e in own)
                for k, m in states
            ]
        )
        q = np.exp(scores - logsumexp(scores))
        for (k, _), p in zip(states, q, strict=True):
            expected[n, k] += p
        bound += float((q * scores).sum() - (q[q > 0] * np.log(q[q > 0])).sum())
    np.testing.assert_allclose(model.result_.model_posterior, expected, atol=1e-10)
    beta0 = np.where(np.eye(n_classes, dtype=bool), 3.0, 0.8) + history_counts(model)  # [a, k, l]
    for a, k, m in itertools.product(range(3), range(n_classes), range(n_subtypes)):
        bound += dirichlet_terms(beta[a, :, k, m], beta0[a, k])
    bound += sum(dirichlet_terms(row, np.full(n_subtypes, 0.7 / n_subtypes)) for row in part.eta_km)
    if model.class_prior == "learn":
        shares = np.zeros(n_classes)
        for n in range(4):
            own = slice(votes.item_ptr[n], votes.item_ptr[n + 1])
            row = np.bincount(votes.label[own], weights=weight[own], minlength=n_classes) / weight[own].sum()
            shares += np.eye(n_classes)[gold[n]] if gold[n] >= 0 else row
        bound += float((shares * np.log(np.maximum(model.prior_, 1e-300))).sum())
    assert model.trace_[-1] == pytest.approx(bound, rel=1e-9)


@pytest.mark.slow
def test_the_bound_of_random_splits_never_falls() -> None:
    for seed in range(10):
        votes = random_votes(np.random.default_rng(seed), 12, 4, 3, 40)
        with quiet():
            trace = EBCC(restarts=5, random_state=seed, tol=1e-12, max_iter=100).fit(votes).trace_
        assert (np.diff(trace) >= -1e-9 * np.abs(trace[1:])).all()


def correlated(seed: int) -> tuple[Annotations, np.ndarray]:
    """Two classes; a third of class 1 is a subtype on which three of seven annotators err together.

    With four of seven the subtype would look like one of class 0, and no method could tell.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, 600)
    hard = (truth == 1) & (rng.random(600) < 0.33)
    item, annotator = (part.ravel() for part in np.indices((600, 7)))
    right = np.where(hard[item] & (annotator < 3), 0.1, 0.85)
    label = np.where(rng.random(len(item)) < right, truth[item], 1 - truth[item])
    return Annotations.from_arrays(item, annotator, label), truth


@pytest.mark.slow
def test_subtypes_explain_votes_on_which_annotators_err_together() -> None:
    # The bound always prefers a divided class 1; labels gain on average, not on every draw.
    gains = []
    for seed in range(2):
        votes, truth = correlated(seed)
        with quiet():
            divided, undivided = (EBCC(restarts=r).fit(votes) for r in (8, 1))
        assert divided.trace_[-1] > undivided.trace_[-1] + 10
        assert (divided.result_.annotators.eta_km[1] > 30).sum() == 2
        gains.append((divided.labels_ == truth).mean() - (undivided.labels_ == truth).mean())
    assert np.mean(gains) > 0


def test_one_subtype_recovers_asymmetric_confusion_untransposed() -> None:
    confusion = np.repeat(np.array([[[0.95, 0.05], [0.4, 0.6]]]), 6, axis=0)
    votes, _ = crowd(3, 4000, confusion)
    with quiet():
        np.testing.assert_allclose(EBCC(subtypes=1).fit(votes).confusion_, confusion, atol=0.06)


# Accuracies of the authors' release: 40 random starts, best bound (yuan-li/truth-inference-at-scale).
PUBLISHED = {
    "bluebird": 0.8611,
    "dog": 0.8401,
    "rte": 0.9313,
    "product": 0.9349,
    "cf": 0.8833,
}


@pytest.mark.slow
@pytest.mark.parametrize("dataset", PUBLISHED)
def test_published_accuracy(shared_data: Path, dataset: str) -> None:
    assert accuracy_on(shared_data, dataset, "ebcc") == pytest.approx(PUBLISHED[dataset], abs=0.0035)
