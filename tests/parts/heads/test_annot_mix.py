"""annot-mix: the likelihood one vote after the other, mixtures by hand, and networks that learn nothing by heart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import batch_of, blobs, quiet, random_logits, small_crowd, some_votes, votes_on
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.gradient.trainer import Trainer
from crowdwise.errors import SettingError
from crowdwise.estimator.loading import load
from crowdwise.methods.classify.annot_mix import AnnotMix
from crowdwise.methods.classify.soft_network import SoftNetwork
from crowdwise.methods.classify.two_stage import TwoStage
from crowdwise.parts.heads.annot_mix import AnnotMixHead
from crowdwise.parts.heads.batch import Batch, Mix
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.targets import WarmStart


def start_of(seed: int) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).dirichlet(4 * np.ones(3), (3, 3)))


def head_of(seed: int = 0, alpha: float = 1.0) -> AnnotMixHead:
    head = AnnotMixHead(start_of(seed), 4, 2, alpha)
    for number, values in enumerate(head.parameters()):
        values.data = random_logits(seed + number, *values.shape)
    return head


def batch_with_features(votes: Annotations, seed: int = 0, **more: Any) -> Batch:
    batch = batch_of(votes, **more)
    return replace(batch, features=random_logits(seed, votes.n_items, 4)[batch.rows])


def matrix_of(head: AnnotMixHead, features: Any, embedding: Any, log_start: Any) -> Any:
    """T as the module's docstring writes it, [K, L]."""
    weights = {name: values.detach().numpy() for name, values in head.named_parameters()}
    read = weights["items.weight"] @ np.asarray(features) + weights["items.bias"]
    hidden = np.maximum(weights["hidden.weight"] @ np.concatenate([read, embedding]) + weights["hidden.bias"], 0)
    scores = log_start + (weights["output.weight"] @ hidden + weights["output.bias"]).reshape(3, 3)
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_without_mixtures_it_is_the_likelihood_of_the_votes_one_by_one(weighted: bool) -> None:
    votes, head, logits = some_votes(weighted=weighted), head_of(1, alpha=0), random_logits(2, 5, 3)
    batch = batch_with_features(votes)
    assert head.mixed(batch) is batch
    assert batch.features is not None
    evidence, f = head.evidence(batch).detach().numpy(), logits.softmax(1).numpy()
    weight, total = np.ones(votes.n_votes) if votes.weight is None else votes.weight, 0.0
    for e in range(votes.n_votes):
        n, a = votes.item[e], votes.annotator[e]
        matrix = matrix_of(head, batch.features[n], head.annotators[a].detach().numpy(), np.log(start_of(1)[a].numpy()))
        np.testing.assert_allclose(evidence[e], np.log(matrix[:, votes.label[e]]), rtol=1e-9)
        total -= weight[e] * math.log(f[n] @ matrix[:, votes.label[e]])
    assert head.loss(logits, batch).item() == pytest.approx(total / weight.sum(), rel=1e-9)


def mixed_batch(votes: Annotations, share: Any, seed: int = 0) -> Batch:
    """Every vote mixed with the next, with features of the mixed rows as if the network had computed them."""
    batch = batch_of(votes).by_vote()
    partner = torch.arange(votes.n_votes).roll(-1)
    features = random_logits(seed, votes.n_votes, 4)
    return replace(batch, features=features, mix=Mix(partner, torch.tensor(share)))


@pytest.mark.parametrize("weighted", [False, True])
def test_mixed_votes_are_those_of_mixed_annotators_one_by_one(weighted: bool) -> None:
    votes, head = some_votes(weighted=weighted), head_of(1)
    share = np.random.default_rng(0).random(votes.n_votes)
    batch, logits = mixed_batch(votes, share), random_logits(2, votes.n_votes, 3)
    assert batch.features is not None
    weight, f = np.ones(votes.n_votes) if votes.weight is None else votes.weight, logits.softmax(1).numpy()
    total, mass = 0.0, 0.0
    for e, s in enumerate(share):
        other = (e + 1) % votes.n_votes
        a, b = votes.annotator[e], votes.annotator[other]
        embedding = (s * head.annotators[a] + (1 - s) * head.annotators[b]).detach().numpy()
        log_start = s * np.log(start_of(1)[a].numpy()) + (1 - s) * np.log(start_of(1)[b].numpy())
        p = f[e] @ matrix_of(head, batch.features[e], embedding, log_start)
        total -= s * weight[e] * math.log(p[votes.label[e]]) + (1 - s) * weight[other] * math.log(p[votes.label[other]])
        mass += s * weight[e] + (1 - s) * weight[other]
    assert head.loss(logits, batch).item() == pytest.approx(total / mass, rel=1e-9)
    # A share of one is the vote itself.
    alone = mixed_batch(votes, np.ones(votes.n_votes))
    plain = head.loss(logits, replace(alone, mix=None)).item()
    assert head.loss(logits, alone).item() == pytest.approx(plain, rel=1e-12)


class _Loss(nn.Module):
    """So that `functional_call` can put other parameters into a head's loss."""

    def __init__(self, head: AnnotMixHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> torch.Tensor:
        return self.head.loss(*given)


def test_the_gradients_are_those_of_finite_differences() -> None:
    votes = some_votes(1)
    model, batch = _Loss(head_of(2)), mixed_batch(votes, np.random.default_rng(0).random(votes.n_votes))
    names = [name for name, _ in model.named_parameters()]

    def loss(logits: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), (logits, batch))

    given = [random_logits(3, votes.n_votes, 3), *(values.detach().clone() for values in model.parameters())]
    assert torch.autograd.gradcheck(loss, tuple(values.requires_grad_() for values in given))


def test_the_matrices_start_at_the_start() -> None:
    votes, logits, start = some_votes(), random_logits(0, 5, 3), start_of(0)
    head = AnnotMixHead(start, 4, 2, 1.0)
    np.testing.assert_allclose(head.confusion().detach(), start, rtol=1e-12)
    batch = batch_with_features(votes)
    assert head.loss(logits, batch).item() == pytest.approx(ConfusionHead(start).loss(logits, batch).item(), rel=1e-12)


def test_partners_and_shares_depend_on_seed_epoch_and_batch_and_on_nothing_else() -> None:
    votes, head = some_votes(), head_of(alpha=0.5)
    first, second = head.mixed(batch_of(votes)), head.mixed(batch_of(votes))
    assert first.mix is not None
    assert second.mix is not None
    assert torch.equal(first.mix.share, second.mix.share)
    np.testing.assert_array_equal(first.rows, votes.item)
    assert sorted(first.mix.partner.tolist()) == list(range(votes.n_votes))
    later = head.mixed(batch_of(votes, epoch=1)).mix
    assert later is not None
    assert not torch.equal(first.mix.share, later.share)
    # The labels of the start are learned unmixed, and a batch without votes has nothing to mix.
    warm = WarmStart(head, torch.zeros(5, 3), 1)
    assert warm.mixed(batch_of(votes)).mix is None
    assert warm.mixed(batch_of(votes, epoch=1)).mix is not None
    assert head.mixed(batch_of(votes, order=[4])).mix is None


def test_shares_are_drawn_from_the_beta_distribution() -> None:
    """Of Beta(a, a) the mean is 1/2 and the variance 1 / (4 (2 a + 1))."""
    votes = votes_on(np.zeros(2000, int), np.ones((3, 1, 1)))
    for alpha in (0.2, 1.0, 5.0):
        mix = head_of(alpha=alpha).mixed(batch_of(votes)).mix
        assert mix is not None
        assert mix.share.mean().item() == pytest.approx(0.5, abs=0.03)
        assert mix.share.var().item() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.1)


# -- the classifier ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_network_sees_mixtures_of_rows_and_known_labels_unmixed(monkeypatch: pytest.MonkeyPatch) -> None:
    features, votes = small_crowd()
    seen: list[tuple[Batch, torch.Tensor]] = []
    taken = Trainer._taken

    def spy(self: Trainer, batch: Batch, source: Rows) -> torch.Tensor:
        rows: torch.Tensor = taken(self, batch, source)
        seen.append((batch, rows))
        return rows

    monkeypatch.setattr(Trainer, "_taken", spy)
    with quiet():
        AnnotMix(epochs=1, warmup=0, validation=0.0, batch_size=100).fit(features, votes, gold={3: 1})
    (batch, rows), (whole, plain) = seen
    assert batch.mix is not None
    for e in range(votes.n_votes):
        n, other = int(batch.rows[e]), int(batch.rows[batch.mix.partner[e]])
        s = batch.mix.share[e].item()
        np.testing.assert_allclose(rows[e], s * features[n] + (1 - s) * features[other], rtol=1e-9)
    assert whole.mix is None
    np.testing.assert_array_equal(plain, features[whole.rows])


def test_it_is_saved_repeats_itself_and_shows_the_matrices_of_its_head(tmp_path: Any) -> None:
    features, votes = small_crowd()
    with quiet():
        first, model = (AnnotMix(epochs=3, warmup=1, batch_size=32, embedding=8).fit(features, votes) for _ in range(2))
    np.testing.assert_array_equal(first.predict_proba(features), model.predict_proba(features))
    of_rows = model.confusion_of(features)
    np.testing.assert_allclose(of_rows.sum(3), 1)
    for a in range(4):
        np.testing.assert_allclose(model.confusion_[a], of_rows[votes.item[votes.annotator == a], a].mean(0), atol=1e-7)
    seen: list[torch.Tensor] = []
    layer = next(module for module in reversed(list(model.network_.modules())) if isinstance(module, nn.Linear))
    layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.network_(torch.tensor(features))
        evidence = model.head_.evidence(replace(batch_of(votes), features=seen[0])).exp().numpy()
    np.testing.assert_allclose(evidence, of_rows[votes.item, votes.annotator, :, votes.label], rtol=1e-7)
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_allclose(again.confusion_of(features, [1]), of_rows[:, [1]], rtol=1e-10)
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))


class _Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.output(self.embedding(rows).mean(1))
        return answer


def test_tokens_cannot_be_mixed() -> None:
    _, votes = small_crowd()
    tokens = np.random.default_rng(0).integers(0, 9, (60, 5))
    with pytest.raises(SettingError, match="set alpha=0"):
        AnnotMix(network=_Tokens).fit(tokens, votes)
    with quiet():
        AnnotMix(network=_Tokens, alpha=0, epochs=1).fit(tokens, votes)


def noisy(seed: int) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Two good annotators, and three who are right in half of their votes; about 1.5 votes on an item."""
    features, truth = blobs(seed, 600, 3, n_features=10, gap=2.0)
    right = np.array([0.9, 0.9, 0.5, 0.5, 0.5])[:, None, None]
    return features, truth, votes_on(truth, (1 - right) / 2 + (1.5 * right - 0.5) * np.eye(3), seed, share=0.3)


@pytest.mark.slow
def test_votes_that_could_be_learned_by_heart_mislead_it_less_than_their_majority() -> None:
    settings: dict[str, Any] = {"epochs": 40, "validation": 0.0, "learning_rate": 5e-3, "dropout": 0.0, "hidden": 64}
    right = np.zeros((2, 2))
    for seed in range(2):
        features, truth, votes = noisy(seed)
        models = [AnnotMix(**settings, embedding=16), TwoStage(aggregator="majority", classifier=SoftNetwork(**settings))]
        with quiet():
            fitted = [model.fit(features[:300], votes[:300]) for model in models]
        right[seed] = [(model.predict(features[300:]) == truth[300:]).mean() for model in fitted]
    assert right[:, 0].mean() > right[:, 1].mean() + 0.02
