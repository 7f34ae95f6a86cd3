"""DALC: recovery of expertise on simulated crowds, the E-step, its options, saving and resuming."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import logsumexp

torch = pytest.importorskip("torch")
from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, votes_on  # noqa: E402
from torch import nn  # noqa: E402

from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.errors import InputError, NotFittedError, SettingError  # noqa: E402
from crowdwise.methods.classify.dalc import DALC  # noqa: E402
from crowdwise.methods.labels.majority import MajorityVote  # noqa: E402
from crowdwise.methods.labels.one_coin import OneCoin  # noqa: E402
from crowdwise.parts.annotators.expertise import Factors  # noqa: E402
from crowdwise.parts.heads.expertise import ExpertiseHead, HiddenRows, mean_log_prob  # noqa: E402

FEATURES, TRUTH = blobs(0, 60, 3, gap=5.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.8), share=0.8)
FAST: dict[str, Any] = {"epochs": 4, "warmup": 1, "batch_size": 16, "hidden": 8, "dropout_passes": 3, "alternations": 1}


def fitted(features: Any = FEATURES, votes: Any = VOTES, fit: Any = None, **more: Any) -> DALC:
    with quiet():
        return DALC(**(FAST | more)).fit(features, votes, **(fit or {}))


def specialists(
    seed: int, n_items: int, n_annotators: int, n_classes: int, per_item: int = 5
) -> tuple[Any, Any, Any, Annotations]:
    """x in R^20; log-odds of a right vote are 0.85 + u . F x with three traits: features, truth, eta [N, A] and votes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_items, 20))
    truth = (3 * x @ rng.normal(size=(20, n_classes)) / np.sqrt(20) + 0.5 * rng.gumbel(size=(n_items, n_classes))).argmax(1)
    projection = rng.normal(size=(3, 20)) / np.sqrt(20)
    eta = 1 / (1 + np.exp(-(0.85 + x @ projection.T @ rng.normal(0, 1.5, (3, n_annotators)))))
    who = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :per_item].ravel()
    item = np.repeat(np.arange(n_items), per_item)
    wrong = (truth[item] + rng.integers(1, n_classes, len(item))) % n_classes
    label = np.where(rng.random(len(item)) < eta[item, who], truth[item], wrong)
    votes = Annotations.from_arrays(
        item, who, label, items=range(n_items), annotators=range(n_annotators), classes=range(n_classes)
    )
    return x, truth, eta, votes


def correlation(first: Any, second: Any) -> float:
    return float(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1])


# -- recovery ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_expertise_with_three_traits_is_recovered() -> None:
    """Among five classes; the next tests have two."""
    x, truth, eta, votes = specialists(0, 1000, 30, 5)
    model = DALC(epochs=18).fit(x, votes)
    assert correlation(model.expertise(x), eta) > 0.8
    labels = (model.labels_ == truth).mean()
    assert labels > (MajorityVote().fit(votes).labels_ == truth).mean() + 0.1
    # Accuracies alone, without features, cannot tell who knows what.
    assert labels > (OneCoin().fit(votes).labels_ == truth).mean() + 0.1
    # The share of right ones among an annotator's 167 votes has a standard deviation of 0.037.
    assert np.abs(model.result_.accuracy - eta.mean(axis=0)).mean() < 0.037


@pytest.mark.slow
def test_expertise_is_recovered_by_a_linear_classifier() -> None:
    x, truth, eta, votes = specialists(1, 600, 20, 2)
    model = DALC(epochs=12, network="linear", learning_rate=0.02).fit(x, votes)
    assert correlation(model.expertise(x), eta) > 0.8
    assert (model.labels_ == truth).mean() > (MajorityVote().fit(votes).labels_ == truth).mean() + 0.1


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"embedding": "full"}, {"reads": "hidden"}])
def test_full_embeddings_and_hidden_rows_recover_it_too(settings: dict[str, Any]) -> None:
    x, truth, eta, votes = specialists(0, 600, 20, 2)
    model = DALC(epochs=20, **settings).fit(x, votes)
    assert correlation(model.expertise(x), eta) > 0.7
    assert (model.labels_ == truth).mean() > 0.9


@pytest.mark.parametrize("n_classes", [2, 5])
def test_adversaries_do_not_turn_the_labels_round(n_classes: int) -> None:
    features, truth = blobs(3, 200, n_classes, gap=4.0)
    votes = votes_on(truth, np.concatenate([even(4, n_classes, 0.8), even(2, n_classes, 0.1)]))
    model = fitted(features, votes, epochs=10, learning_rate=0.02)
    assert (model.labels_ == truth).mean() > 0.9
    mean = model.expertise(features).mean(axis=0)
    assert (mean[:4] > 0.6).all()
    assert (mean[4:] < 0.4).all()
    np.testing.assert_allclose(model.result_.accuracy, mean, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 5])
def test_one_annotator_and_one_vote_per_item(n_classes: int) -> None:
    features, truth = blobs(4, 120, n_classes, gap=6.0)
    alone = fitted(features, truth, epochs=10, learning_rate=0.05)
    assert (alone.labels_ == truth).mean() > 0.9
    assert alone.expertise(features).shape == (120, 1)
    single = votes_on(truth, even(1, n_classes, 0.85), seed=1)
    everyone = Annotations.from_arrays(
        single.item, np.arange(120) % 40, single.label, items=range(120), classes=range(n_classes)
    )
    # Eight hidden units, half of them dropped, are too few for five classes.
    model = fitted(features, everyone, epochs=10, learning_rate=0.05, hidden=32)
    assert (model.predict(features) == truth).mean() > 0.85


# -- the E-step --------------------------------------------------------------------------------


def bayes(prior: Any, eta: Any, votes: Annotations) -> Any:
    joint = prior.copy()
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        right = eta[item, annotator]
        joint[item] *= np.where(np.arange(votes.n_classes) == label, right, (1 - right) / (votes.n_classes - 1))
    return joint / joint.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("settings", [{}, {"reads": "hidden"}, {"embedding": "full"}, {"network": "linear"}, {"members": 2}])
def test_the_posterior_is_bayes_rule(settings: dict[str, Any]) -> None:
    model = fitted(**settings)
    expected = bayes(model.predict_proba(FEATURES), model.expertise(FEATURES), VOTES)
    np.testing.assert_allclose(model.result_.model_posterior, expected, atol=1e-9)
    np.testing.assert_allclose(model.set_params(confidence="model").predict_proba(FEATURES, VOTES), expected, atol=1e-9)


def head_of(votes: Annotations, network: nn.Module, passes: int, table: Any = FEATURES, every: int = 1) -> ExpertiseHead:
    width = 8 if table is None else table.shape[1]
    factors = Factors.start(votes, width, np.random.default_rng(0), rank=2, full=False)
    start = torch.full((60, 3), 1 / 3, dtype=torch.float64)
    start[torch.arange(60), torch.as_tensor(TRUTH)] = 2 / 3
    start /= start.sum(1, keepdim=True)
    return ExpertiseHead(votes, factors, start, network, table, passes=passes, alternations=1, every=every, seed=5)


def small_network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)).double()


def evaluation(network: nn.Module) -> Any:
    """As the trainer evaluates: dropout off."""

    def log_prob() -> Any:
        network.eval()
        with torch.no_grad():
            return network(torch.tensor(FEATURES)).log_softmax(1)

    return log_prob


def test_an_epoch_begins_with_annotators_and_then_labels_by_enumeration() -> None:
    network = small_network()
    head = head_of(VOTES, network, 0)
    before, start = head.factors, head.target.numpy().copy()
    head.begin_epoch(0, evaluation(network))
    # The M-step has a test of its own, against scipy; the first takes a quarter of the penalties.
    quarter = replace(before, l2=before.l2 / 4, projection_l2=before.projection_l2 / 4)
    after = quarter.refined(FEATURES, VOTES, start, 1)
    np.testing.assert_array_equal(head.factors.embedding, after.embedding)
    eta = after.annotators(after.traits(FEATURES), 3).reliability(after.traits(FEATURES))
    np.testing.assert_allclose(head.target, bayes(evaluation(network)().exp().numpy(), eta, VOTES), atol=1e-12)
    # Held-out votes are judged by the same numbers.
    batch = batch_of(VOTES)
    right = eta[VOTES.item, VOTES.annotator]
    expected = np.where(np.arange(3) == VOTES.label[:, None], right[:, None], (1 - right[:, None]) / 2)
    np.testing.assert_allclose(head.evidence(batch).exp(), expected)
    logits = torch.randn(60, 3, dtype=torch.float64)
    np.testing.assert_allclose(
        head.vote_log_prob(logits, batch).exp(), (logits.softmax(1).numpy()[VOTES.item] * expected).sum(axis=1)
    )
    np.testing.assert_allclose(head.confusion().sum(2), 1)


def test_penalties_grow_to_the_whole_in_ten_rounds() -> None:
    network = small_network()
    head = head_of(VOTES, network, 0)
    for epoch in range(12):
        before, start = head.factors, head.target.numpy().copy()
        head.begin_epoch(epoch, evaluation(network))
    np.testing.assert_array_equal(head.factors.embedding, before.refined(FEATURES, VOTES, start, 1).embedding)


def test_passes_are_averaged_in_probability_space_with_dropout_on() -> None:
    network = small_network()
    log_prob = evaluation(network)
    plain = log_prob().numpy()
    np.testing.assert_array_equal(mean_log_prob(log_prob, 0), plain)
    torch.manual_seed(3)
    found = mean_log_prob(log_prob, 4)
    torch.manual_seed(3)
    # The same four passes by hand: only the dropout layer is in training mode.
    network[2].train()
    with torch.no_grad():
        draws = np.array([network(torch.tensor(FEATURES)).log_softmax(1).numpy() for _ in range(4)])
    np.testing.assert_allclose(found, logsumexp(draws, axis=0) - np.log(4))
    assert np.abs(found - plain).max() > 1e-3
    np.testing.assert_array_equal(log_prob(), plain)


class CallsDropout(nn.Module):
    """Dropout without a layer of its own, as many networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        hidden = nn.functional.dropout(self.norm(self.first(x)).relu(), 0.5, self.training)
        return self.last(hidden)


def test_dropout_called_within_a_network_is_left_on_too() -> None:
    model = fitted(network=CallsDropout)
    assert model.model_.passes == 3
    assert model.uncertainty(FEATURES).disagreement.max() > 1e-4
    # Three passes by hand, in which only the call drops: running means of the normalisation are those of the fit.
    network = model.model_.network
    dtype = next(network.parameters()).dtype
    before = {name: value.clone() for name, value in network.state_dict().items()}
    rows = torch.as_tensor(FEATURES, dtype=dtype)
    hidden = network.norm(network.first(rows)).relu()
    from crowdwise.parts.heads.seeding import seeded

    with seeded(0, 0, 0, torch.device("cpu")), torch.no_grad():
        draws = [network.last(nn.functional.dropout(hidden, 0.5)).double().softmax(1) for _ in range(3)]
    np.testing.assert_allclose(model.predict_proba(FEATURES), torch.stack(draws).mean(0), atol=1e-6)
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_a_round_every_ten_steps_of_a_small_set() -> None:
    network = small_network()
    head = head_of(VOTES, network, 0, every=5)
    seen = []
    for epoch in range(11):
        head.begin_epoch(epoch, evaluation(network))
        seen.append(head.factors.embedding.copy())
    changed = [bool((one != other).any()) for one, other in pairwise(seen)]
    assert [epoch + 1 for epoch, change in enumerate(changed) if change] == [5, 10]
    assert fitted(batch_size=16).head_.every == 10 * 16 // 60
    assert fitted(batch_size=128).head_.every == 10 * 128 // 60


def test_hidden_rows_are_what_the_last_linear_layer_reads() -> None:
    network = small_network()
    scaling, rows = HiddenRows(network).read(evaluation(network))
    with torch.no_grad():
        hidden = network[:2](torch.tensor(FEATURES)).numpy()
    np.testing.assert_allclose(rows, scaling.apply(hidden))
    live = hidden.std(axis=0) > 0
    np.testing.assert_allclose(rows.std(axis=0)[live], 1)
    head = head_of(VOTES, network, 2, table=None)
    head.begin_epoch(0, evaluation(network))
    np.testing.assert_allclose(head.traits, head.factors.traits(rows))


# -- use ---------------------------------------------------------------------------------------


def test_expertise_has_a_column_per_annotator_asked_for_and_strangers_are_like_the_crowd() -> None:
    model = fitted()
    everyone = model.expertise(FEATURES)
    assert everyone.shape == (60, 4)
    assert model.embedding_.shape == (4, 5)  # four columns and a constant allow no more than five traits
    np.testing.assert_allclose(everyone, 1 / (1 + np.exp(-model.traits(FEATURES) @ model.embedding_.T)))
    np.testing.assert_array_equal(model.expertise(FEATURES, [2, 0]), everyone[:, [2, 0]])
    stranger = model.expertise(FEATURES[:5], ["nobody"])[:, 0]
    crowd = model.result_.annotators.population
    np.testing.assert_allclose(stranger, 1 / (1 + np.exp(-model.traits(FEATURES[:5]) @ crowd)))
    assert (stranger > 0.5).all()
    with pytest.raises(NotFittedError):
        DALC().expertise(FEATURES)


def test_a_sparse_table_is_read_as_it_is() -> None:
    dense, sparse = fitted(), fitted(scipy.sparse.csr_matrix(FEATURES))
    assert sparse.expertise(scipy.sparse.csr_matrix(FEATURES)).shape == (60, 4)
    assert correlation(sparse.result_.accuracy, dense.result_.accuracy) > 0.9


def test_images_need_the_hidden_rows() -> None:
    images = np.random.default_rng(0).random((60, 8, 8, 3)).astype(np.float32)
    with pytest.raises(SettingError, match='set reads="hidden"'):
        fitted(images)
    model = fitted(images, reads="hidden")
    assert model.expertise(images[:5]).shape == (5, 4)
    np.testing.assert_allclose(
        model.result_.model_posterior, bayes(model.predict_proba(images), model.expertise(images), VOTES), atol=1e-9
    )


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingError, match="low-rank"):
        fitted(scipy.sparse.csr_matrix(FEATURES), embedding="full")
    with pytest.raises(InputError, match="last linear layer"):
        fitted(network=lambda: nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 4), nn.Flatten()), reads="hidden")
    for bad in ({"reads": "nothing"}, {"embedding": "wide"}, {"rank": 0}, {"penalty": 0.0}, {"projection_penalty": -1.0}):
        with pytest.raises(SettingError):
            fitted(**bad)


def test_uncertainty_comes_from_dropout() -> None:
    model = fitted()
    doubt = model.uncertainty(FEATURES)
    np.testing.assert_allclose(doubt.probability, model.predict_proba(FEATURES))
    assert doubt.disagreement.max() > 0
    with pytest.raises(SettingError, match="answers once"):
        fitted(network="linear").uncertainty(FEATURES)


def test_a_network_of_ones_own() -> None:
    model = fitted(network=lambda: nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3)), reads="hidden")
    assert model.projection_.shape[0] == 7
    assert model.model_.passes == 3


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"reads": "hidden", "validation": 0.2}, {"embedding": "full", "random_state": 3}])
def test_an_interrupted_run_ends_in_the_same_bits(settings: dict[str, Any], tmp_path: Path) -> None:
    whole = fitted(**settings)
    assert fitted(**settings).posterior_.tobytes() == whole.posterior_.tobytes()

    def stop(number: int, *_: Any) -> None:
        if number == 3:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fitted(fit={"progress": stop}, checkpoint=path, **settings)
    assert os.listdir(tmp_path) != []
    resumed = fitted(checkpoint=path, **settings)
    assert os.listdir(tmp_path) == []
    assert resumed.posterior_.tobytes() == whole.posterior_.tobytes()
    assert resumed.embedding_.tobytes() == whole.embedding_.tobytes()
    assert resumed.predict_proba(FEATURES).tobytes() == whole.predict_proba(FEATURES).tobytes()


@pytest.mark.parametrize("settings", [{}, {"reads": "hidden"}, {"embedding": "full"}, {"network": "linear"}])
def test_a_saved_model_says_the_same(settings: dict[str, Any], tmp_path: Path) -> None:
    from crowdwise.estimator.loading import load

    model = fitted(**settings)
    model.save(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded) is DALC
    assert loaded.predict_proba(FEATURES).tolist() == model.predict_proba(FEATURES).tolist()
    assert loaded.predict_proba(FEATURES, VOTES).tolist() == model.predict_proba(FEATURES, VOTES).tolist()
    assert loaded.score(FEATURES, VOTES) == model.score(FEATURES, VOTES)
    assert loaded.expertise(FEATURES, [1, "nobody"]).tolist() == model.expertise(FEATURES, [1, "nobody"]).tolist()
    assert loaded.embedding_.tolist() == model.embedding_.tolist()
    assert loaded.confusion_.tolist() == model.confusion_.tolist()
    assert loaded.explain(0).total == model.explain(0).total
