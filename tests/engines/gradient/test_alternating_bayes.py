"""Inference between a network's epochs with distributions over annotators: deepMF's and deepBP's rounds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import digamma
from tests.engines.gradient.helpers import batch_of, even, quiet, random_logits, votes_on
from tests.methods.classify.loop_oracle import loop_round

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.alternating import AlternatingHead
from crowdwise.methods.labels.belief_propagation import BeliefPropagation
from crowdwise.methods.labels.mean_field import MeanField

TIGHT: dict[str, Any] = {"tol": 1e-13, "max_iter": 5000}
DRAWS = np.random.default_rng(3).dirichlet(np.ones(3), (20, 3)) * 0.5 + 0.5 * np.eye(3)


def crowd(n_classes: int, n_items: int = 40) -> Annotations:
    """Six annotators of whom five are good, on two thirds of the items each."""
    truth = np.random.default_rng(0).integers(0, n_classes, n_items)
    confusion = even(6, n_classes, 0.75)
    confusion[5] = 1 / n_classes
    return votes_on(truth, confusion, seed=5, share=0.67)


def shares(votes: Annotations) -> torch.Tensor:
    counts = np.zeros((votes.n_items, votes.n_classes))
    np.add.at(counts, (votes.item, votes.label), 1.0)
    total = counts.sum(axis=1, keepdims=True)
    return torch.tensor(np.where(total > 0, counts / np.maximum(total, 1), 1 / votes.n_classes))


def flat(votes: Annotations) -> torch.Tensor:
    return torch.full((votes.n_items, votes.n_classes), -np.log(votes.n_classes), dtype=torch.float64)


def head_of(aggregator: Any, votes: Annotations, start: torch.Tensor | None = None, **more: Any) -> AlternatingHead:
    return AlternatingHead(votes, aggregator._annotators(votes, None), shares(votes) if start is None else start, **more)


METHODS: dict[str, tuple[Any, int]] = {
    "mean field, one-coin": (MeanField(**TIGHT), 3),
    "mean field, two-coin": (MeanField(family="two-coin", **TIGHT), 3),
    "mean field, confusion": (MeanField(family="confusion", annotator_prior="dir:3,1", **TIGHT), 3),
    "mean field, draws": (MeanField(annotator_prior=DRAWS, **TIGHT), 3),
    "mean field, spammer-hammer": (MeanField(annotator_prior="spammer-hammer:0.6", **TIGHT), 2),
    "belief propagation, one-coin": (BeliefPropagation(**TIGHT), 2),
    "belief propagation, one-coin, three classes": (BeliefPropagation(**TIGHT), 3),
    "belief propagation, two-coin": (BeliefPropagation(family="two-coin", **TIGHT), 2),
    "belief propagation, confusion": (BeliefPropagation(family="confusion", samples=64, **TIGHT), 3),
    "belief propagation, draws": (BeliefPropagation(annotator_prior=DRAWS, **TIGHT), 3),
    "belief propagation, damped": (BeliefPropagation(damping=0.3, **TIGHT), 3),
}


# Several rounds per epoch are a loop around any of them: one of each engine shows it.
@pytest.mark.parametrize(
    ("method", "rounds"), [*((method, 1) for method in METHODS), ("mean field, one-coin", 4), ("belief propagation, damped", 4)]
)
def test_with_a_network_that_knows_nothing_it_ends_where_the_method_without_features_does(method: str, rounds: int) -> None:
    aggregator, n_classes = METHODS[method]
    votes = crowd(n_classes)
    with quiet():
        reference = aggregator.fit(votes)
    head = head_of(aggregator, votes, rounds=rounds)
    early = None
    for epoch in range(200 if rounds == 1 else 60):
        head.begin_epoch(epoch, lambda: flat(votes))
        early = head.target.clone() if early is None else early
    np.testing.assert_allclose(head.target, reference.result_.model_posterior, atol=1e-8)
    np.testing.assert_allclose(head.confusion(), reference.confusion_, atol=1e-8)
    assert early is not None
    if rounds == 1:
        assert np.abs(early.numpy() - reference.posterior_).max() > 1e-4, "not there from the first round on"


@pytest.mark.parametrize("method", METHODS)
def test_at_the_fixed_point_one_more_round_changes_nothing(method: str) -> None:
    """What was learned is kept: a head that began anew would need its rounds again."""
    aggregator, n_classes = METHODS[method]
    votes, log_f = crowd(n_classes), 2 * random_logits(1, 40, n_classes)
    head = head_of(aggregator, votes)
    for epoch in range(200):
        head.begin_epoch(epoch, lambda: log_f.log_softmax(1))
    before = head.target.clone()
    head.begin_epoch(200, lambda: log_f.log_softmax(1))
    np.testing.assert_allclose(head.target, before, atol=1e-9)
    head.begin_epoch(201, lambda: (log_f + random_logits(2, 40, n_classes)).log_softmax(1))
    assert np.abs((head.target - before).numpy()).max() > 0.01


def test_rounds_of_messages_are_those_of_the_loop_while_the_network_changes() -> None:
    votes, start = crowd(3), random_logits(0, 40, 3).softmax(1)
    head = head_of(BeliefPropagation(annotator_prior=DRAWS), votes, start)
    known = (votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist())
    flat_messages = np.full((votes.n_votes, 3), 1 / 3)
    # Before its first epoch the head has sent one round, with the labels it starts from in the place of the prior.
    messages, _ = loop_round(*known, start.numpy(), DRAWS, flat_messages)
    for epoch in range(4):
        log_f = (1.5 * random_logits(10 + epoch, 40, 3)).log_softmax(1)
        messages, beliefs = loop_round(*known, log_f.exp().numpy(), DRAWS, messages)
        head.begin_epoch(epoch, lambda log_f=log_f: log_f)
        np.testing.assert_allclose(head.target, beliefs, rtol=1e-9)


def test_several_rounds_are_one_round_repeated() -> None:
    votes, log_f = crowd(3), random_logits(1, 40, 3).log_softmax(1)
    three, one = (head_of(BeliefPropagation(annotator_prior=DRAWS), votes, rounds=rounds) for rounds in (3, 1))
    three.begin_epoch(0, lambda: log_f)
    for epoch in range(3):
        one.begin_epoch(epoch, lambda: log_f)
    np.testing.assert_allclose(three.target, one.target, rtol=1e-10)


def test_a_round_of_mean_field_is_that_of_loops() -> None:
    """Labels under the annotators of before, the annotators under these labels, and the labels again."""
    votes, start, log_f = crowd(3), random_logits(0, 40, 3).softmax(1), random_logits(1, 40, 3).log_softmax(1)
    head = head_of(MeanField(family="confusion", annotator_prior="dir:3,1"), votes, start)

    def conditioned(q: np.ndarray) -> np.ndarray:
        beta = np.tile(np.where(np.eye(3, dtype=bool), 3.0, 0.5), (6, 1, 1))
        for e in range(votes.n_votes):
            beta[votes.annotator[e], :, votes.label[e]] += q[votes.item[e]]
        return beta

    def inferred(beta: np.ndarray) -> np.ndarray:
        log_q = log_f.numpy().copy()
        for e in range(votes.n_votes):
            rows = beta[votes.annotator[e]]
            log_q[votes.item[e]] += digamma(rows[:, votes.label[e]]) - digamma(rows.sum(axis=1))
        q = np.exp(log_q)
        return q / q.sum(axis=1, keepdims=True)

    head.begin_epoch(0, lambda: log_f)
    beta = conditioned(inferred(conditioned(start.numpy())))
    np.testing.assert_allclose(head.annotators.concentration(), beta, rtol=1e-10)
    np.testing.assert_allclose(head.target, inferred(beta), rtol=1e-10)


# -- state -----------------------------------------------------------------------------------------


def float_arrays(model: Any) -> dict[str, np.ndarray]:
    values = {field.name: getattr(model, field.name) for field in fields(model)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray) and value.dtype.kind == "f"}


@pytest.mark.parametrize("method", METHODS)
def test_the_state_of_the_head_holds_the_annotators_to_the_bit(method: str) -> None:
    aggregator, n_classes = METHODS[method]
    votes = crowd(n_classes)
    head = head_of(aggregator, votes, rounds=2)
    for epoch in range(3):
        log_f = random_logits(epoch, 40, n_classes).log_softmax(1)
        head.begin_epoch(epoch, lambda log_f=log_f: log_f)
    state = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    other = head_of(aggregator, votes, random_logits(7, 40, n_classes).softmax(1), rounds=2)
    other.load_state_dict(state)
    own, restored = float_arrays(head.annotators), float_arrays(other.annotators)
    assert own.keys() == restored.keys()
    for name, values in own.items():
        assert values.tobytes() == restored[name].tobytes(), name
    # The head goes on; what was loaded must be copies.
    for one in (head, other):
        one.begin_epoch(3, lambda: random_logits(9, 40, n_classes).log_softmax(1))
    assert head.target.numpy().tobytes() == other.target.numpy().tobytes()
    assert head.confusion().numpy().tobytes() == other.confusion().numpy().tobytes()
    third = head_of(aggregator, votes, rounds=2)
    third.load_state_dict(state)
    third.begin_epoch(3, lambda: random_logits(9, 40, n_classes).log_softmax(1))
    assert third.target.numpy().tobytes() == other.target.numpy().tobytes()


# -- the ceiling -----------------------------------------------------------------------------------


@pytest.mark.parametrize("aggregator", [MeanField(), BeliefPropagation(), MeanField(family="confusion")])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_the_lowest_ceiling_the_network_has_no_say(aggregator: Any, n_classes: int) -> None:
    votes = crowd(n_classes)
    targets = []
    for log_f in (flat(votes), (9 * random_logits(1, 40, n_classes)).log_softmax(1)):
        head = head_of(aggregator, votes, ceiling=1 / n_classes)
        for epoch in range(3):
            head.begin_epoch(epoch, lambda log_f=log_f: log_f)
        targets.append(head.target.numpy())
    np.testing.assert_allclose(targets[0], targets[1], atol=1e-10)


@pytest.mark.parametrize("aggregator", [MeanField(), BeliefPropagation()])
def test_an_item_without_votes_gets_the_networks_answer_up_to_the_ceiling(aggregator: Any) -> None:
    votes = crowd(2)
    votes = votes.take_votes(votes.item > 2)
    log_f = flat(votes)
    log_f[:3] = torch.tensor([[0.99, 0.01], [0.25, 0.75], [0.05, 0.95]]).double().log()
    head = head_of(aggregator, votes, ceiling=0.8)
    head.begin_epoch(0, lambda: log_f)
    np.testing.assert_allclose(head.target[:3], [[0.8, 0.2], [0.25, 0.75], [0.2, 0.8]], rtol=1e-6)


def test_the_ceiling_bounds_the_prior_of_the_messages() -> None:
    votes, start = crowd(2), random_logits(0, 40, 2).softmax(1)
    draws = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.5, 0.5]], [[0.8, 0.2], [0.4, 0.6]]])
    head = head_of(BeliefPropagation(annotator_prior=draws), votes, start, ceiling=0.7)
    log_f = (4 * random_logits(1, 40, 2)).log_softmax(1)
    head.begin_epoch(0, lambda: log_f)
    known = (votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist())
    messages, _ = loop_round(*known, start.numpy(), draws, np.full((votes.n_votes, 2), 0.5))
    _, beliefs = loop_round(*known, log_f.exp().numpy().clip(0.3, 0.7), draws, messages)
    np.testing.assert_allclose(head.target, beliefs, rtol=1e-9)


def test_the_loss_sees_the_network_unclipped() -> None:
    """Where a clipped network would have no gradient, this one is drawn back to the labels."""
    votes = crowd(2)
    head = head_of(BeliefPropagation(), votes, ceiling=0.6)
    logits = torch.where(torch.arange(80).reshape(40, 2) % 4 < 2, 15.0, -15.0).double().requires_grad_()
    head.begin_epoch(0, lambda: logits.detach().log_softmax(1))
    head.loss(logits, batch_of(votes)).backward()
    assert logits.grad is not None
    expected = (logits.detach().softmax(1) - head.target) / 40
    np.testing.assert_allclose(logits.grad, expected, atol=1e-12)


def test_gold_labels_inform_the_messages() -> None:
    """Two annotators who always disagree: known labels say who is right, also elsewhere."""
    item, annotator = np.repeat(np.arange(12), 2), np.tile([0, 1], 12)
    truth = np.arange(12) % 2
    label = np.stack([truth, 1 - truth], axis=1).ravel()
    votes = Annotations.from_arrays(item, annotator, label, items=range(12), annotators=range(2), classes=range(2))
    votes = votes.with_gold([int(truth[n]) if n < 8 else None for n in range(12)])
    for aggregator in (MeanField(), BeliefPropagation()):
        head = head_of(aggregator, votes, flat(votes).exp(), rounds=5)
        head.begin_epoch(0, lambda: flat(votes))
        np.testing.assert_array_equal(head.target[:8], np.eye(2)[truth[:8]])
        assert (head.target.numpy()[np.arange(8, 12), truth[8:]] > 0.8).all()
