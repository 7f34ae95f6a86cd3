"""Union-Net: the union by hand, its relation to confusion matrices, and annotators who choose their classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, blobs, quiet, random_logits, small_crowd, some_votes

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.loading import load
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.methods.classify.two_stage import TwoStage
from crowdwise.methods.classify.union_net import UnionNet
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.union import UnionHead

SHARE = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)


def start_of(seed: int, n_annotators: int = 3) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).dirichlet(4 * np.ones(3), (n_annotators, 3)))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_that_of_one_distribution_over_the_union_by_hand(weighted: bool) -> None:
    votes, head, logits = some_votes(weighted=weighted), UnionHead(start_of(0), SHARE), random_logits(2, 5, 3)
    head.logits.data = random_logits(3, 9, 3)
    # Column k: the probability of each of the nine pairs (annotator, label) for class k.
    union = np.exp(head.logits.detach().numpy())
    union /= union.sum(0)
    weight, f = np.ones(votes.n_votes) if votes.weight is None else votes.weight, logits.softmax(1).numpy()
    total, batch = 0.0, batch_of(votes)
    evidence = head.evidence(batch).detach().numpy()
    for e in range(votes.n_votes):
        row = union[3 * votes.annotator[e] + votes.label[e]]
        np.testing.assert_allclose(evidence[e], np.log(row), rtol=1e-9)
        total -= weight[e] * math.log(f[votes.item[e]] @ row)
    assert head.loss(logits, batch).item() == pytest.approx(total / weight.sum(), rel=1e-9)
    share, confusion = head.annotator_share().detach().numpy(), head.confusion().detach().numpy()
    np.testing.assert_allclose(share.sum(1), 1)
    np.testing.assert_allclose(confusion.sum(2), 1)
    for a, k, l in np.ndindex(3, 3, 3):
        assert share[k, a] * confusion[a, k, l] == pytest.approx(union[3 * a + l, k], rel=1e-9)


def test_one_annotator_has_a_single_transition_matrix() -> None:
    votes, logits, start = some_votes(n_annotators=1), random_logits(0, 5, 3), start_of(0, 1)
    head, plain = UnionHead(start, torch.ones(1, dtype=torch.float64)), ConfusionHead(start)
    assert head.loss(logits, batch_of(votes)).item() == pytest.approx(plain.loss(logits, batch_of(votes)).item(), rel=1e-12)
    np.testing.assert_allclose(head.confusion().detach(), start, rtol=1e-12)


def test_where_no_annotator_prefers_a_class_the_loss_is_that_of_confusion_matrices_and_a_constant() -> None:
    votes, logits, start = some_votes(), random_logits(0, 5, 3), start_of(0)
    head, plain, batch = UnionHead(start, SHARE), ConfusionHead(start), batch_of(votes)
    np.testing.assert_allclose(head.confusion().detach(), start, rtol=1e-12)
    np.testing.assert_allclose(head.annotator_share().detach(), SHARE.expand(3, 3), rtol=1e-12)
    constant = np.average(np.log(SHARE.numpy())[votes.annotator], weights=votes.weight)
    assert head.loss(logits, batch).item() == pytest.approx(plain.loss(logits, batch).item() - constant, rel=1e-12)


class _Loss(torch.nn.Module):
    """So that `functional_call` can put other parameters into a head's loss."""

    def __init__(self, head: UnionHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> torch.Tensor:
        return self.head.loss(*given)


def test_the_gradients_are_those_of_finite_differences() -> None:
    model, batch = _Loss(UnionHead(start_of(0), SHARE)), batch_of(some_votes(1))

    def loss(logits: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, {"head.logits": table}, (logits, batch))

    assert torch.autograd.gradcheck(loss, (random_logits(3, 5, 3).requires_grad_(), random_logits(4, 9, 3).requires_grad_()))


# -- the classifier ----------------------------------------------------------------------------


def test_it_is_saved_and_repeats_itself(tmp_path: Any) -> None:
    features, votes = small_crowd()
    with quiet():
        first, model = (UnionNet(epochs=3, warmup=1, batch_size=32).fit(features, votes) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(features), model.predict_proba(features))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.annotator_share_, model.annotator_share_)
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))


def specialists(seed: int) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Three annotators with a class of their own, of which are nine in ten of their items; half of the votes are right."""
    rng = np.random.default_rng(seed)
    features, truth = blobs(seed, 900, 3, gap=2.0)
    who = np.where(rng.random(300) < 0.85, truth[:300], rng.integers(0, 3, 300))
    label = np.where(rng.random(300) < 0.5, truth[:300], (truth[:300] + rng.integers(1, 3, 300)) % 3)
    return features, truth, Annotations.from_arrays(np.arange(300), who, label, annotators=range(3), classes=range(3))


@pytest.mark.slow
def test_who_votes_tells_of_the_label_where_annotators_choose_their_classes() -> None:
    settings: dict[str, Any] = {"epochs": 60, "batch_size": 32, "validation": 0.0, "learning_rate": 5e-3, "network": "linear"}
    right = np.zeros((2, 2))
    for seed in range(2):
        features, truth, votes = specialists(seed)
        models = [UnionNet(**settings), TwoStage(aggregator="majority", classifier=SoftNetwork(**settings))]
        with quiet():
            fitted: list[Any] = [model.fit(features[:300], votes) for model in models]
        right[seed] = [(model.predict(features[300:]) == truth[300:]).mean() for model in fitted]
        share = fitted[0].annotator_share_
        np.testing.assert_allclose(share.sum(1), 1)
        # 0.85 + 0.15 / 3 of the items of a class are labelled by the one who prefers it; classes overlap, and blur that.
        assert 0.65 < share.diagonal().min() <= share.diagonal().max() < 0.95
    assert right[:, 0].mean() > right[:, 1].mean() + 0.03
