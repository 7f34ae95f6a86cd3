"""COINNet: the loss against the published one with its dense table, the outlier shares, planted outliers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, random_logits, small_crowd, some_votes, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning
from crowdwise.estimator.loading import load
from crowdwise.methods.classify.ccem import CCEM
from crowdwise.methods.classify.coinnet import COINNet
from crowdwise.parts.heads import outliers
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.outliers import OutlierHead
from crowdwise.parts.heads.penalties import PredictionVolume

MU = 0.9
GRID = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.95)


def start_of(seed: int, n_annotators: int = 3, n_classes: int = 3) -> torch.Tensor:
    rows = np.random.default_rng(seed).dirichlet(2 * np.ones(n_classes), (n_annotators, n_classes))
    return torch.tensor(np.maximum(rows, 0.01) / np.maximum(rows, 0.01).sum(-1, keepdims=True))


def published_loss(f: Any, confusion: Any, votes: Annotations, omega: Any, strength: float, power: float, zeta: float) -> float:
    """The loss with a vector e per vote that sums to zero and adds omega (1 - s) at the vote, one vote after the other."""
    n_classes = votes.n_classes
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    likelihood, norm = 0.0, np.zeros(votes.n_items)
    for e in range(votes.n_votes):
        n, y = votes.item[e], votes.label[e]
        p = np.array([sum(f[n, k] * confusion[votes.annotator[e], k, l] for k in range(n_classes)) for l in range(n_classes)])
        added = omega[n] * (1 - p[y])
        table_row = np.full(n_classes, -added / (n_classes - 1))
        table_row[y] = added
        assert abs(table_row.sum()) < 1e-12
        likelihood += weight[e] * math.log((p + table_row)[y])
        norm[n] += weight[e] * (table_row**2).sum()
    voted = np.flatnonzero(votes.votes_per_item > 0)
    return float(-likelihood / weight.sum() + strength * np.mean((norm[voted] + zeta) ** (power / 2)))


def head_of(seed: int = 0, strength: float = 0.7, n_classes: int = 3, **more: Any) -> OutlierHead:
    return OutlierHead(start_of(seed, 3, n_classes), strength=strength, **more)


@pytest.fixture(params=["torch", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways for few votes, which alone would not be worth a compiled loop."""
    monkeypatch.setattr(outliers, "_COMPILED_FROM", 0 if request.param == "compiled" else math.inf)
    return str(request.param)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_the_published_one_at_the_best_outlier_shares(way: str, weighted: bool) -> None:
    votes = some_votes(3, n_items=6, weighted=weighted)
    head, logits = head_of(1, strength=MU), random_logits(2, 6, 3)
    f, confusion = logits.softmax(1).numpy(), head.confusion().detach().numpy()
    # Item by item: the loss is a sum over items, so each has its own best share.
    omega = np.full(6, GRID[0])
    for n in np.flatnonzero(votes.votes_per_item):
        tried = []
        for share in GRID:
            omega[n] = share
            tried.append(published_loss(f, confusion, votes, omega, MU, 0.4, 1e-4))
        omega[n] = GRID[int(np.argmin(tried))]
    got = head.loss(logits, batch_of(votes)).item()
    assert got == pytest.approx(published_loss(f, confusion, votes, omega, MU, 0.4, 1e-4), rel=1e-10)
    assert len(set(omega[votes.votes_per_item > 0])) > 1


@given(seed=st.integers(0, 2**20), n_classes=st.integers(2, 6))
def test_no_vector_that_sums_to_zero_raises_the_vote_more_cheaply(seed: int, n_classes: int) -> None:
    rng = np.random.default_rng(seed)
    vector = rng.normal(size=n_classes)
    vector -= vector.mean()
    assert (vector**2).sum() >= vector[0] ** 2 * n_classes / (n_classes - 1) - 1e-12


def test_before_its_epoch_comes_no_item_is_an_outlier(way: str) -> None:
    votes, logits = some_votes(), random_logits(0, 5, 3)
    head = head_of(begin=3)
    plain = ConfusionHead(start_of(0)).loss(logits, batch_of(votes, epoch=2)).item()
    assert head.loss(logits, batch_of(votes, epoch=2)).item() == pytest.approx(plain, rel=1e-12)
    assert head.rate.item() == 0
    assert head.loss(logits, batch_of(votes, epoch=3)).item() != pytest.approx(plain, rel=1e-3)
    assert head.rate.item() > 0


def test_the_volume_is_added_to_the_loss() -> None:
    votes, logits = some_votes(), random_logits(0, 5, 3)
    volume = PredictionVolume(0.3)
    expected = head_of().loss(logits, batch_of(votes)) + volume(logits.log_softmax(1), torch.zeros(0), batch_of(votes))
    assert head_of(penalties=[volume]).loss(logits, batch_of(votes)).item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("strength", [0.2, 1.0, 5.0])
def test_the_gradients_are_those_of_finite_differences(way: str, strength: float) -> None:
    votes = some_votes(1)
    head = head_of(2, strength=strength)
    logits = random_logits(3, 5, 3).requires_grad_()

    def loss(logits: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        head.logits.data = table.data
        return torch.func.functional_call(_Loss(head), {"head.logits": table}, (logits, batch_of(votes)))

    assert torch.autograd.gradcheck(loss, (logits, head.logits.detach().clone().requires_grad_()))


class _Loss(torch.nn.Module):
    """So that `functional_call` can put other parameters into a head's loss."""

    def __init__(self, head: OutlierHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *given: Any) -> torch.Tensor:
        return self.head.loss(*given)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**20), scale=st.floats(0.1, 30))
def test_any_parameters_give_probabilities(seed: int, scale: float) -> None:
    votes, head = some_votes(seed), head_of(seed)
    head.logits.data = scale * random_logits(seed, 3, 3, 3)
    batch, logits = batch_of(votes), scale * random_logits(seed + 1, 5, 3)
    missing = 1 - head.vote_log_prob(logits, batch).exp()
    omega = head.outlier_share(missing, batch)
    assert ((omega >= 0) & (omega <= 1)).all()
    assert torch.isfinite(head.loss(logits, batch))
    np.testing.assert_allclose(head.confusion().detach().sum(2), 1)
    assert (head.vote_log_prob(logits, batch) <= 1e-12).all()
    scores = head.scores(logits, batch).numpy()
    # At most K / (K - 1) per vote of weight one.
    assert ((scores >= 0) & (scores <= 1.5 * np.bincount(votes.item, votes.weight, 5) + 1e-9)).all()


def test_an_item_of_weight_two_counts_as_two_items_with_its_votes(way: str) -> None:
    votes = some_votes(weighted=False)
    twice = votes[np.array([0, 1, 1, 2, 3, 4, 4])]
    logits = random_logits(0, 5, 3)
    weighted = head_of().loss(logits, batch_of(votes, item_weight=np.array([1.0, 2, 1, 1, 2]))).item()
    assert weighted == pytest.approx(head_of().loss(logits[[0, 1, 1, 2, 3, 4, 4]], batch_of(twice)).item(), rel=1e-12)


def test_items_without_votes_pull_nowhere_and_a_batch_of_them_costs_nothing(way: str) -> None:
    votes = some_votes()
    logits = random_logits(0, 5, 3).requires_grad_()
    head_of().loss(logits, batch_of(votes)).backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad[4], 0, atol=1e-15)
    head = head_of()
    assert head.loss(logits[4:], batch_of(votes, order=[4])).item() == pytest.approx(0, abs=1e-12)
    assert head.scores(logits[4:], batch_of(votes, order=[4])).item() == 0


def test_an_item_of_many_votes_underflows_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """500 votes of probability 1e-4 each, whose product is no double: both ways agree."""
    votes = Annotations.from_arrays(np.arange(500) // 500, np.arange(500), [1] * 500, classes=range(2))
    found = []
    for least in (0, math.inf):
        monkeypatch.setattr(outliers, "_COMPILED_FROM", least)
        head = OutlierHead(torch.tensor(even(500, 2, 1 - 1e-4)), strength=1.0)
        logits = torch.tensor([[40.0, -40.0]], dtype=torch.float64, requires_grad=True)
        loss = head.loss(logits, batch_of(votes))
        loss.backward()
        assert head.logits.grad is not None
        found.append((loss.item(), head.rate.item(), head.logits.grad.numpy()))
    np.testing.assert_allclose(found[0][:2], found[1][:2], rtol=1e-12)
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-9, atol=1e-15)
    # (1000 omega^2)^0.2 - log omega is 3.665 at 0.35 and 3.70 at 0.2, more elsewhere; the newest batch counts a tenth.
    assert found[0][1] == pytest.approx(0.1 * 0.35)


def test_many_votes_are_compiled_and_leave_no_graph_in_the_rate() -> None:
    votes = some_votes(0, n_items=400)
    head = head_of()
    head.loss(random_logits(0, 400, 3).requires_grad_(), batch_of(votes)).backward()
    assert head.rate.item() > 0
    assert not head.rate.requires_grad
    assert head.logits.grad is not None


def test_votes_on_unseen_items_are_outliers_at_the_running_rate() -> None:
    votes, logits, head = some_votes(), random_logits(0, 5, 3), head_of()
    head.rate.fill_(0.25)
    confusion, f = head.confusion().detach().numpy(), logits.softmax(1).numpy()
    batch = batch_of(votes)
    evidence, alone = head.evidence(batch).detach().numpy(), head.vote_log_prob(logits, batch).detach().numpy()
    for e in range(votes.n_votes):
        row = 0.75 * confusion[votes.annotator[e], :, votes.label[e]] + 0.25 / 3
        np.testing.assert_allclose(evidence[e], np.log(row), rtol=1e-9)
        assert alone[e] == pytest.approx(math.log(row @ f[votes.item[e]]), rel=1e-9)


def test_the_item_whose_votes_contradict_its_features_has_the_highest_score() -> None:
    votes = Annotations.from_matrix([["a", "a", "a"], ["a", "a", "b"], ["b", "b", "b"]])
    logits = torch.tensor([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
    head = OutlierHead(torch.tensor(even(3, 2, 0.9)), strength=0.8)
    scores = head.scores(logits, batch_of(votes)).numpy()
    assert scores[0] < scores[1] < scores[2]
    # f is .982 sure of a, so a vote b has probability .9 x .018 + .1 x .982 = .1144; three of them at omega = .95.
    assert scores[2] == pytest.approx(3 * 2 * (0.95 * (1 - 0.1144)) ** 2, rel=1e-3)


# -- the classifier ----------------------------------------------------------------------------


def crowd_with_outliers(
    seed: int, kind: str, n_items: int = 1500, n_classes: int = 4, n_annotators: int = 10
) -> tuple[np.ndarray, Annotations, np.ndarray, np.ndarray]:
    """Five votes per item by real confusion; on a tenth of the items all see the same wrong class, or guess."""
    rng = np.random.default_rng(seed)
    features, truth = blobs(seed, n_items, n_classes, n_features=10, gap=4.5)
    right = rng.uniform(0.5, 0.9, (n_annotators, 1, 1))
    errors = rng.dirichlet(np.ones(n_classes), (n_annotators, n_classes)) * (1 - np.eye(n_classes))
    confusion = right * np.eye(n_classes) + (1 - right) * errors / errors.sum(2, keepdims=True)
    outlier = rng.random(n_items) < 0.1
    seen = np.where(outlier, (truth + rng.integers(1, n_classes, n_items)) % n_classes, truth)
    votes = votes_on(seen, confusion, seed, share=0.5)
    if kind == "guesses":
        label = np.where(
            outlier[votes.item], rng.integers(0, n_classes, votes.n_votes), votes_on(truth, confusion, seed, 0.5).label
        )
        votes = Annotations.from_arrays(
            votes.item, votes.annotator, label, items=range(n_items), annotators=range(n_annotators), classes=range(n_classes)
        )
    return features, votes, truth, outlier


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one wrong class", "guesses"])
def test_planted_outliers_have_the_highest_scores(kind: str) -> None:
    features, votes, _, outlier = crowd_with_outliers(0, kind)
    model = COINNet(epochs=40).fit(features, votes)
    assert roc_auc_score(outlier, model.outlier_scores_) > 0.85


@pytest.mark.slow
def test_a_crowd_without_outliers_is_learned_as_well_as_by_ccem() -> None:
    features, truth = blobs(5, 1600, 4, n_features=10, gap=3.0)
    votes = votes_on(truth[:600], even(8, 4, 0.65), 5, share=0.5)
    right = []
    for model in (COINNet(epochs=50), CCEM(epochs=50)):
        right.append(np.mean(model.fit(features[:600], votes).predict(features[600:]) == truth[600:]))
    assert right[0] > right[1] - 0.015


@pytest.mark.parametrize("n_classes", [2, 10])
def test_it_fits_predicts_and_repeats_itself_to_the_bit(n_classes: int) -> None:
    features, votes = small_crowd(1, n_items=80, n_classes=n_classes)
    with quiet():
        first, second = (COINNet(epochs=12, batch_size=32, outliers_from=4).fit(features, votes) for _ in range(2))
    np.testing.assert_array_equal(first.outlier_scores_, second.outlier_scores_)
    np.testing.assert_array_equal(first.predict_proba(features), second.predict_proba(features))
    np.testing.assert_allclose(first.predict_proba(features).sum(1), 1)
    np.testing.assert_allclose(first.confusion_.sum(2), 1)
    assert first.outlier_scores_.shape == (80,)


@pytest.mark.slow
def test_compiled_loops_fit_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    features, votes = small_crowd()
    found = []
    for least in (0, math.inf):
        monkeypatch.setattr(outliers, "_COMPILED_FROM", least)
        with quiet():
            model = COINNet(epochs=12, batch_size=32, outliers_from=4).fit(features, votes)
        found.append((model.predict_proba(features), model.outlier_scores_))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_scores_survive_saving(tmp_path: Any) -> None:
    features, votes = small_crowd()
    with quiet():
        model = COINNet(epochs=8).fit(features, votes)
    model.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").outlier_scores_, model.outlier_scores_, rtol=1e-10)


def test_one_vote_per_item_is_warned_about() -> None:
    features, truth = blobs(0, 60, 2)
    with pytest.warns(DataWarning, match="0 of 60 items have several votes"):
        model = COINNet(epochs=3).fit(features, truth)
    assert model.predict(features).shape == (60,)


def test_an_item_without_votes_scores_zero() -> None:
    features, votes = small_crowd()
    kept = votes.take_votes(votes.item > 2)
    with quiet():
        scores = COINNet(epochs=3).fit(features, kept, items=range(60)).outlier_scores_
    assert (scores[:3] == 0).all()
    assert (scores[3:] > 0).all()
