"""Confusion that depends on the item: likelihood and trace against loops, gradients, the simplex, planted annotators."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, random_logits, small_crowd, some_votes, votes_on
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.loading import load
from crowdwise.kernels import gated_mixture
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.instance_confusion import InstanceConfusion
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.instance import InstanceHead
from crowdwise.parts.heads.penalties import PredictionVolume, Trace


def start_of(seed: int, n_annotators: int = 3, n_classes: int = 3) -> torch.Tensor:
    rows = np.random.default_rng(seed).dirichlet(2 * np.ones(n_classes), (n_annotators, n_classes))
    return torch.tensor(np.maximum(rows, 0.01) / np.maximum(rows, 0.01).sum(-1, keepdims=True))


def head_of(seed: int = 0, components: int = 2, scale: float = 1.0, trace: float = 0.0, n_classes: int = 3) -> InstanceHead:
    head = InstanceHead(start_of(seed, 3, n_classes), 4, components, Trace(trace, 2))
    for number, values in enumerate(head.parameters()):
        values.data += scale * random_logits(seed + number, *values.shape)
    return head


def batch_with_features(votes: Annotations, seed: int = 0, **more: Any) -> Batch:
    batch = batch_of(votes, **more)
    return replace(batch, features=random_logits(seed, votes.n_items, 4)[batch.rows])


def matrix_of(head: InstanceHead, features: Any, annotator: int) -> Any:
    """T_a(x) as the module's docstring writes it, [K, L]."""
    n_components = head.offset.shape[1]
    score = [
        sum(head.direction[m, d].item() * float(features[d]) for d in range(4)) / math.sqrt(4)
        + head.offset[annotator, m].item()
        for m in range(n_components)
    ]
    gate = np.exp(score) / np.exp(score).sum()
    # Logits are [A, L, M, K].
    table = head.logits.detach().numpy()[annotator]
    return sum(gate[m] * (np.exp(table[:, m]) / np.exp(table[:, m]).sum(0)).T for m in range(n_components))


@pytest.mark.parametrize("components", [1, 2, 3])
def test_votes_go_through_the_matrix_of_their_item_one_by_one(components: int) -> None:
    votes, head, logits = some_votes(), head_of(1, components), random_logits(2, 5, 3)
    batch = batch_with_features(votes)
    alone, evidence = head.vote_log_prob(logits, batch).detach().numpy(), head.evidence(batch).detach().numpy()
    f = logits.softmax(1).numpy()
    assert batch.features is not None
    for e in range(votes.n_votes):
        matrix = matrix_of(head, batch.features[votes.item[e]], votes.annotator[e])
        np.testing.assert_allclose(evidence[e], np.log(matrix[:, votes.label[e]]), rtol=1e-9)
        assert alone[e] == pytest.approx(math.log(f[votes.item[e]] @ matrix[:, votes.label[e]]), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_the_mean_over_votes_of_surprise_and_trace(weighted: bool) -> None:
    votes, head, logits = some_votes(weighted=weighted), head_of(1, trace=0.3), random_logits(2, 5, 3)
    batch = batch_with_features(votes, epoch=2)
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    f = logits.softmax(1).numpy()
    surprise, trace = 0.0, 0.0
    assert batch.features is not None
    for e in range(votes.n_votes):
        matrix = matrix_of(head, batch.features[votes.item[e]], votes.annotator[e])
        surprise -= weight[e] * math.log(f[votes.item[e]] @ matrix[:, votes.label[e]])
        trace += weight[e] * np.trace(matrix)
    assert head.loss(logits, batch).item() == pytest.approx((surprise + 0.3 * trace) / weight.sum(), rel=1e-9)
    # The trace counts from its epoch on.
    before = head.loss(logits, replace(batch, epoch=1)).item()
    assert before == pytest.approx(surprise / weight.sum(), rel=1e-9)


def test_one_component_is_a_confusion_head() -> None:
    votes, logits, start = some_votes(), random_logits(0, 5, 3), start_of(0)
    plain = ConfusionHead(start)
    one = InstanceHead(start, 4, 1, Trace(0.0), [PredictionVolume(0.1)])
    assert one.loss(logits, batch_with_features(votes)).item() == pytest.approx(
        ConfusionHead(start, [PredictionVolume(0.1)]).loss(logits, batch_of(votes)).item(), rel=1e-12
    )
    np.testing.assert_allclose(one.confusion().detach(), plain.confusion().detach(), rtol=1e-12)


def test_components_start_apart_around_the_start() -> None:
    start = torch.tensor(even(2, 3, 0.7))
    head = InstanceHead(start, 4, 3, Trace(0.0))
    parts = head.logits.softmax(1).permute(0, 2, 3, 1).detach().numpy()
    np.testing.assert_allclose(parts[:, 1], start, rtol=1e-12)
    assert (parts[:, 0, 0, 0] > 0.75).all()
    assert (parts[:, 2, 0, 0] < 0.65).all()
    np.testing.assert_allclose(head.confusion().detach(), parts.mean(1), rtol=1e-12)


class _Loss(nn.Module):
    """So that `functional_call` can put other parameters into a head's loss."""

    def __init__(self, head: InstanceHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> torch.Tensor:
        return self.head.loss(*given)


def test_the_gradients_are_those_of_finite_differences() -> None:
    votes, head = some_votes(1), head_of(2, trace=0.5)
    model, batch = _Loss(head), batch_with_features(votes, epoch=2)

    def loss(logits: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        names = ("head.logits", "head.direction", "head.offset")
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (logits, batch))

    given = [random_logits(3, 5, 3), *(getattr(head, name).detach().clone() for name in ("logits", "direction", "offset"))]
    assert torch.autograd.gradcheck(loss, tuple(values.requires_grad_() for values in given))


def test_the_features_get_no_gradient() -> None:
    votes, head = some_votes(), head_of()
    batch = batch_with_features(votes)
    assert batch.features is not None
    features = batch.features.clone().requires_grad_()
    logits = random_logits(0, 5, 3).requires_grad_()
    head.loss(logits, replace(batch, features=features)).backward()
    assert features.grad is None
    assert logits.grad is not None
    assert logits.grad.abs().max() > 0


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 2**20), scale=st.floats(0.1, 10), components=st.integers(1, 4), n_classes=st.integers(2, 5))
def test_any_parameters_give_stochastic_matrices(seed: int, scale: float, components: int, n_classes: int) -> None:
    votes = some_votes(seed, n_classes=n_classes)
    head = head_of(seed, components, scale, n_classes=n_classes)
    batch, logits = batch_with_features(votes, seed), scale * random_logits(seed, 5, n_classes)
    np.testing.assert_allclose(head.vote_gate(batch).detach().sum(1), 1)
    np.testing.assert_allclose(head.confusion().detach().sum(2), 1)
    # The votes that an annotator could give on an item have probabilities that sum to one.
    every = Annotations.from_arrays(
        np.repeat([0, 1], n_classes), [0] * (2 * n_classes), [*range(n_classes)] * 2,
        items=range(2), annotators=range(3), classes=range(n_classes),
    )  # fmt: skip
    every_batch = batch_with_features(every, seed)
    np.testing.assert_allclose(head.vote_log_prob(logits[:2], every_batch).detach().exp().reshape(2, -1).sum(1), 1, rtol=1e-7)
    np.testing.assert_allclose(head.evidence(every_batch).detach().exp().reshape(2, n_classes, -1).sum(1), 1, rtol=1e-7)
    assert torch.isfinite(head.loss(logits, batch))


def test_items_without_votes_pull_nowhere_and_a_batch_of_them_costs_nothing() -> None:
    votes, head = some_votes(), head_of(trace=0.3)
    logits = random_logits(0, 5, 3).requires_grad_()
    head.loss(logits, batch_with_features(votes, epoch=2)).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[4], 0, atol=1e-15)
    assert head.loss(logits[4:], batch_with_features(votes, epoch=2, order=[4])).item() == pytest.approx(0, abs=1e-12)


# -- the classifier ----------------------------------------------------------------------------


def fitted(**more: Any) -> tuple[InstanceConfusion, np.ndarray, Annotations]:
    features, votes = small_crowd()
    with quiet():
        model = InstanceConfusion(epochs=8, batch_size=32, **more).fit(features, votes)
    return model, features, votes


def test_matrices_of_rows_are_stochastic_and_average_to_the_annotators() -> None:
    model, features, votes = fitted()
    of_rows = model.confusion_of(features)
    assert of_rows.shape == (60, 4, 3, 3)
    np.testing.assert_allclose(of_rows.sum(3), 1)
    for a in range(4):
        voted = votes.item[votes.annotator == a]
        np.testing.assert_allclose(model.confusion_[a], of_rows[voted, a].mean(0), atol=1e-7)


def test_matrices_of_rows_are_those_of_the_head() -> None:
    model, features, votes = fitted()
    seen: list[torch.Tensor] = []
    layer = next(module for module in reversed(list(model.network_.modules())) if isinstance(module, nn.Linear))
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.network_(torch.tensor(features))
        evidence = model.head_.evidence(replace(batch_of(votes), features=seen[0])).exp().numpy()
    of_rows = model.confusion_of(features)
    np.testing.assert_allclose(evidence, of_rows[votes.item, votes.annotator, :, votes.label], rtol=1e-7)


def test_matrices_can_be_asked_for_by_annotator() -> None:
    model, features, _ = fitted()
    np.testing.assert_allclose(model.confusion_of(features[:5], [2, 0]), model.confusion_of(features[:5])[:, [2, 0]])
    with pytest.raises(InputError, match="no annotator 9"):
        model.confusion_of(features, [9])


def test_matrices_of_rows_survive_saving(tmp_path: Any) -> None:
    model, features, _ = fitted()
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").confusion_of(features), model.confusion_of(features), rtol=1e-10)


@pytest.mark.parametrize("n_classes", [2, 10])
def test_it_fits_predicts_and_repeats_itself_to_the_bit(n_classes: int) -> None:
    features, votes = small_crowd(1, n_items=80, n_classes=n_classes)
    with quiet():
        first, second = (InstanceConfusion(epochs=8, batch_size=32).fit(features, votes) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(features), second.predict_proba(features))
    np.testing.assert_array_equal(first.confusion_of(features), second.confusion_of(features))
    np.testing.assert_allclose(first.predict_proba(features).sum(1), 1)
    np.testing.assert_allclose(first.confusion_.sum(2), 1)


@pytest.mark.slow
def test_compiled_loops_fit_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for least in (0, math.inf):
        monkeypatch.setattr(gated_mixture, "_COMPILED_FROM", least)
        model, features, _ = fitted(penalty_from=2, strength=0.1)
        found.append((model.predict_proba(features), model.confusion_of(features)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.slow
def test_one_label_per_row_is_enough() -> None:
    features, truth = blobs(0, 300, 3)
    model = InstanceConfusion(epochs=30).fit(features, truth)
    assert np.mean(model.predict(features) == truth) > 0.9


def test_a_linear_network_and_images_will_do() -> None:
    features, votes = small_crowd()
    rng = np.random.default_rng(0)
    with quiet():
        linear = InstanceConfusion(epochs=2, network="linear").fit(features, votes)
        images = InstanceConfusion(epochs=2).fit(rng.integers(0, 255, (60, 8, 8, 3)).astype(np.uint8), votes)
    assert linear.gate_direction_.shape == (3, 4)
    assert images.confusion_of(rng.integers(0, 255, (2, 8, 8, 3)).astype(np.uint8)).shape == (2, 4, 3, 3)


class _Pooled(nn.Module):
    """Linear per position, then the mean over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows[:, :, None]).mean(1)


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 4), nn.Flatten()), "has none"),
        (_Pooled, r"shape \(2, 4, 1\)"),
    ],
)
def test_a_network_without_features_per_row_is_refused(network: Any, reason: str) -> None:
    features, votes = small_crowd()
    with pytest.raises(SettingError, match=reason):
        InstanceConfusion(network=network).fit(features, votes)


def planted(seed: int, n_items: int) -> tuple[np.ndarray, Annotations, np.ndarray]:
    """Four even annotators, and one who is right where the first feature is positive and wrong elsewhere."""
    rng = np.random.default_rng(seed)
    features, truth = blobs(seed, n_items, 3, n_features=5, gap=4.0)
    votes = votes_on(truth, even(5, 3, 0.75), seed, share=0.8)
    whim = np.where(features[:, 0] > 0, truth, (truth + 1) % 3)
    label = np.where((votes.annotator == 0) & (rng.random(votes.n_votes) < 0.9), whim[votes.item], votes.label)
    return (
        features,
        Annotations.from_arrays(
            votes.item, votes.annotator, label, items=range(n_items), annotators=range(5), classes=range(3)
        ),
        truth,
    )  # fmt: skip


@pytest.mark.slow
def test_an_annotator_who_depends_on_the_item_is_explained_better_than_by_one_matrix() -> None:
    features, votes, truth = planted(0, 3000)
    train, test = np.arange(1500), np.arange(2000, 3000)
    model = InstanceConfusion(epochs=60).fit(features[train], votes[train])
    plain = CCEM(epochs=60, head_learning_rate=3e-3).fit(features[train], votes[train])
    unseen = votes[test]
    own = np.flatnonzero(unseen.annotator == 0)
    explained = []
    for confusion, f in (
        (model.confusion_of(features[test])[unseen.item, unseen.annotator], model.predict_proba(features[test])),
        (plain.confusion_[unseen.annotator], plain.predict_proba(features[test])),
    ):
        explained.append(np.log(np.einsum("ek,ekl->el", f[unseen.item], confusion))[np.arange(unseen.n_votes), unseen.label])
    assert explained[0][own].mean() > explained[1][own].mean() + 0.1
    assert explained[0].mean() > explained[1].mean() + 0.02
    # The matrices say where he can be trusted.
    right = model.confusion_of(features[test], [0])[:, 0].diagonal(axis1=1, axis2=2).mean(1)
    assert right[features[test, 0] > 1].mean() > right[features[test, 0] < -1].mean() + 0.3
    assert np.mean(model.predict(features[test]) == truth[test]) > np.mean(plain.predict(features[test]) == truth[test]) - 0.01
