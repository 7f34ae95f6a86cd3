"""CoNAL: the mixture one vote after the other, its two ends, its slopes, and a crowd that is misled together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, blobs, quiet, random_logits, small_crowd, some_votes, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.loading import load
from crowdwise.methods.classify.conal import CoNAL
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.methods.classify.two_stage import TwoStage
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.common import CommonHead
from crowdwise.parts.heads.confusion import ConfusionHead


def start_of(seed: int, n_annotators: int = 3, n_classes: int = 3) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).dirichlet(4 * np.ones(n_classes), (n_annotators, n_classes)))


def head_of(seed: int = 0, strength: float = 0.0, traits: int = 2) -> CommonHead:
    head = CommonHead(start_of(seed), start_of(seed + 50)[0], 4, traits, strength)
    for number, values in enumerate((head.annotator_traits, head.direction, head.offset)):
        values.data = random_logits(seed + number, *values.shape)
    return head


def batch_with_features(votes: Annotations, seed: int = 0, **more: Any) -> Batch:
    batch = batch_of(votes, **more)
    return replace(batch, features=random_logits(seed, votes.n_items, 4)[batch.rows])


def matrix_of(head: CommonHead, features: Any, annotator: int) -> Any:
    """w G + (1 - w) R_a as the module's docstring writes it, [K, L]."""
    direction, offset, traits = (values.detach().numpy() for values in (head.direction, head.offset, head.annotator_traits))
    v, u = direction @ np.asarray(features) / math.sqrt(4) + offset, traits[annotator]
    w = 1 / (1 + math.exp(-(u @ v) / math.sqrt((u @ u) * (v @ v))))
    assert 0.268 < w < 0.732
    common, own = np.exp(head.common_logits.detach().numpy()), np.exp(head.logits.detach().numpy()[annotator])
    return w * (common / common.sum(0)).T + (1 - w) * (own / own.sum(0)).T


@pytest.mark.parametrize("weighted", [False, True])
def test_votes_go_through_the_mixture_one_by_one(weighted: bool) -> None:
    votes, head, logits = some_votes(weighted=weighted), head_of(1, strength=0.3), random_logits(2, 5, 3)
    batch = batch_with_features(votes)
    assert batch.features is not None
    alone, evidence = head.vote_log_prob(logits, batch).detach().numpy(), head.evidence(batch).detach().numpy()
    f, weight = logits.softmax(1).numpy(), np.ones(votes.n_votes) if votes.weight is None else votes.weight
    total = 0.0
    for e in range(votes.n_votes):
        matrix = matrix_of(head, batch.features[votes.item[e]], votes.annotator[e])
        np.testing.assert_allclose(evidence[e], np.log(matrix[:, votes.label[e]]), rtol=1e-9)
        assert alone[e] == pytest.approx(math.log(f[votes.item[e]] @ matrix[:, votes.label[e]]), rel=1e-9)
        total -= weight[e] * alone[e]
    own, common = start_of(1).numpy(), start_of(51)[0].numpy()
    apart = sum(math.sqrt(((own[a] - common) ** 2).sum()) for a in range(3))
    assert head.loss(logits, batch).item() == pytest.approx(total / weight.sum() - 0.3 * apart, rel=1e-9)


class _Fixed(CommonHead):
    """With one weight for all votes, which no traits could reach."""

    odds = 0.0

    def log_odds(self, batch: Batch) -> torch.Tensor:
        return torch.full((len(batch.entry),), self.odds, dtype=torch.float64)


def test_without_the_common_matrix_it_is_ccem_and_with_it_alone_one_matrix_for_all() -> None:
    votes, logits, start, common = some_votes(), random_logits(0, 5, 3), start_of(0), start_of(50)[0]
    head, batch = _Fixed(start, common, 4, 2, 0.0), batch_of(votes)
    for odds, matrices in ((-50.0, start), (50.0, common.expand(3, 3, 3))):
        head.odds = odds
        plain = ConfusionHead(matrices.clone())
        assert head.loss(logits, batch).item() == pytest.approx(plain.loss(logits, batch).item(), rel=1e-12)
        np.testing.assert_allclose(head.evidence(batch).detach(), plain.evidence(batch).detach(), rtol=1e-12)


class _Loss(torch.nn.Module):
    """So that `functional_call` can put other parameters into a head's loss."""

    def __init__(self, head: CommonHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> torch.Tensor:
        return self.head.loss(*given)


def test_the_gradients_are_those_of_finite_differences_and_the_features_get_none() -> None:
    votes, head = some_votes(1), head_of(2, strength=0.5)
    model, batch = _Loss(head), batch_with_features(votes)
    names = [name for name, _ in model.named_parameters()]

    def loss(logits: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (logits, batch))

    given = [random_logits(3, 5, 3), *(values.detach().clone() for values in model.parameters())]
    assert torch.autograd.gradcheck(loss, tuple(values.requires_grad_() for values in given))
    assert batch.features is not None
    features = batch.features.clone().requires_grad_()
    head.loss(given[0], replace(batch, features=features)).backward()
    assert features.grad is None


def test_equal_matrices_have_a_finite_slope() -> None:
    """An annotator without votes starts at the common matrix."""
    votes, common = some_votes(), start_of(0)[0]
    head = CommonHead(common.expand(3, 3, 3).clone(), common, 4, 2, 1.0)
    head.loss(random_logits(0, 5, 3), batch_with_features(votes)).backward()
    assert all(torch.isfinite(values.grad).all() for values in head.parameters() if values.grad is not None)


# -- the classifier ----------------------------------------------------------------------------


def test_matrices_of_rows_average_to_the_annotators_are_the_heads_and_survive_saving(tmp_path: Any) -> None:
    features, votes = small_crowd()
    with quiet():
        model = CoNAL(epochs=4, warmup=1, batch_size=32).fit(features, votes)
    of_rows = model.confusion_of(features)
    np.testing.assert_allclose(of_rows.sum(3), 1)
    for a in range(4):
        np.testing.assert_allclose(model.confusion_[a], of_rows[votes.item[votes.annotator == a], a].mean(0), atol=1e-7)
    seen: list[torch.Tensor] = []
    layer = next(module for module in reversed(list(model.network_.modules())) if isinstance(module, torch.nn.Linear))
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.network_(torch.tensor(features))
        evidence = model.head_.evidence(replace(batch_of(votes), features=seen[0])).exp().numpy()
    np.testing.assert_allclose(evidence, of_rows[votes.item, votes.annotator, :, votes.label], rtol=1e-7)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.confusion_of(features, [2]), of_rows[:, [2]], rtol=1e-10)
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))


def misled(n_items: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Ten annotators who all take class 2 for class 0 in 45 of 100 votes; three votes per item."""
    features, truth = blobs(seed, n_items, 3, gap=3.0)
    one = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.45, 0.05, 0.5]])
    return features, truth, votes_on(truth, np.repeat(one[None], 10, axis=0), seed, share=0.3)


def test_a_crowd_that_is_misled_together_is_read_better_than_by_its_majority() -> None:
    features, truth, votes = misled(900)
    train, test = np.arange(600), np.arange(600, 900)
    common = {"epochs": 20, "validation": 0.0, "learning_rate": 5e-3, "random_state": 0}
    with quiet():
        model = CoNAL(**common, network="linear").fit(features[train], votes[train])
        plain = TwoStage(aggregator="majority", classifier=SoftNetwork(**common, network="linear"))
        plain.fit(features[train], votes[train])
    right, base = ((fitted.predict(features[test]) == truth[test]).mean() for fitted in (model, plain))
    assert right > base
    # The common matrix knows the confusion that all have: true 2, observed 0.
    assert model.common_confusion_[2, 0] > 0.3
    assert model.common_confusion_[2, 0] > 2 * model.common_confusion_[0, 2]
