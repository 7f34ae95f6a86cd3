"""Ensembles and dropout at prediction: means, spread and disagreement against numpy, on the networks themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax, xlogy

torch = pytest.importorskip("torch")
from tests.engines.gradient.helpers import quiet, small_crowd  # noqa: E402
from torch import nn  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.errors import NotFittedError, SettingError  # noqa: E402
from crowdwise.methods.classify.ccem import CCEM  # noqa: E402
from crowdwise.methods.classify.deep_mf import DeepMF  # noqa: E402
from crowdwise.methods.classify.network_model import NetworkModel, Uncertainty  # noqa: E402

FEATURES, VOTES = small_crowd()
FAST: dict[str, Any] = {"epochs": 3, "warmup": 1, "batch_size": 16, "hidden": 8}
CPU = torch.device("cpu")


def fitted(cls: Any = CCEM, **more: Any) -> Any:
    with quiet():
        return cls(**(FAST | more)).fit(FEATURES, VOTES)


def answers(model: Any, features: np.ndarray = FEATURES) -> np.ndarray:
    """Of every network on its own, without dropout, [M, N, K]."""
    with torch.no_grad():
        logits = [network.eval()(torch.tensor(features)).numpy() for network in model.model_.networks]
    return softmax(np.array(logits), axis=2)


def entropy(probability: np.ndarray) -> np.ndarray:
    return -xlogy(probability, probability).sum(axis=-1)


def wrapped(*networks: nn.Module, passes: int = 0) -> NetworkModel:
    return NetworkModel(tuple(network.double() for network in networks), None, torch.float64, CPU, False, passes)


@pytest.mark.parametrize("cls", [CCEM, DeepMF])
def test_an_ensemble_answers_with_the_mean_of_its_networks(cls: Any) -> None:
    model = fitted(cls, members=3)
    single = answers(model)
    assert single.shape == (3, 60, 3)
    assert single.std(axis=0).max() > 0.01, "networks differ"
    np.testing.assert_allclose(model.predict_proba(FEATURES), single.mean(axis=0), rtol=1e-10)
    got = model.uncertainty(FEATURES)
    np.testing.assert_allclose(got.probability, single.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(got.sd, single.std(axis=0), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(got.entropy, entropy(single.mean(axis=0)), rtol=1e-10)
    expected = entropy(single.mean(axis=0)) - entropy(single).mean(axis=0)
    np.testing.assert_allclose(got.disagreement, expected, atol=1e-12)
    assert (got.disagreement >= 0).all()
    assert got.disagreement.max() > 1e-4


def test_the_first_network_of_an_ensemble_is_the_one_without_it() -> None:
    alone, ensemble = fitted(), fitted(members=2)
    for one, two in zip(alone.network_.parameters(), ensemble.network_.parameters(), strict=True):
        assert torch.equal(one, two)
    assert alone.history_ == ensemble.history_


def test_members_of_neighbouring_seeds_are_not_shared() -> None:
    first, second = fitted(members=2), fitted(members=2, random_state=1)
    flat = [torch.cat([p.detach().ravel() for p in n.parameters()]) for m in (first, second) for n in m.model_.networks]
    for i in range(4):
        for j in range(i):
            assert not torch.equal(flat[i], flat[j])


def test_the_matrices_of_an_ensemble_are_the_mean_of_its_members() -> None:
    one = fitted(members=1)
    two = fitted(members=2)
    assert np.abs(one.confusion_ - two.confusion_).max() > 1e-6
    np.testing.assert_allclose(two.confusion_.sum(axis=2), 1, rtol=1e-9)
    # Half of the mean is the first member's, so the rest must be a matrix too.
    other = 2 * two.confusion_ - one.confusion_
    np.testing.assert_allclose(other.sum(axis=2), 1, rtol=1e-6)
    assert other.min() > -1e-9


def test_networks_that_are_alike_agree() -> None:
    network = nn.Linear(4, 3)
    got = Uncertainty.of(wrapped(network, network, network), FEATURES)
    np.testing.assert_allclose(got.disagreement, 0, atol=1e-12)
    np.testing.assert_allclose(got.sd, 0, atol=1e-12)
    assert (got.entropy > 0).all()


def test_disagreement_by_hand() -> None:
    """Two networks that are sure of different classes: the mean is even, and all doubt is disagreement."""
    sure = [nn.Linear(1, 2), nn.Linear(1, 2)]
    for k, network in enumerate(sure):
        nn.init.zeros_(network.weight)
        with torch.no_grad():
            network.bias.copy_(torch.tensor([0.0, 2000.0] if k else [2000.0, 0.0]))
    got = Uncertainty.of(wrapped(*sure), np.zeros((2, 1)))
    np.testing.assert_allclose(got.probability, 0.5)
    np.testing.assert_allclose(got.sd, 0.5)
    np.testing.assert_allclose(got.entropy, np.log(2))
    np.testing.assert_allclose(got.disagreement, np.log(2))


def test_dropout_at_prediction_is_the_mean_of_its_passes_and_deterministic() -> None:
    model = fitted(dropout=0.5, dropout_passes=40)
    first, second = model.uncertainty(FEATURES), model.uncertainty(FEATURES)
    for name in ("probability", "sd", "entropy", "disagreement"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    np.testing.assert_allclose(model.predict_proba(FEATURES), first.probability, rtol=1e-10)
    assert model.predict_proba(FEATURES).tobytes() == model.predict_proba(FEATURES).tobytes()
    assert first.sd.max() > 0.02, "passes differ"
    assert (first.disagreement >= 0).all()
    assert first.disagreement.max() > 1e-4
    # Near the network without dropout, but not it.
    plain = answers(model)[0]
    assert 1e-4 < np.abs(first.probability - plain).max() < 0.4
    assert model.model_.n_draws == 40


def test_the_mean_over_many_passes_is_the_expectation_over_dropout() -> None:
    """One input, dropped half of the time: f(0) or f(2x), each with probability one half."""
    network = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 2))
    with torch.no_grad():
        network[1].weight.copy_(torch.tensor([[1.0], [-1.0]]))
        network[1].bias.zero_()
    got = Uncertainty.of(wrapped(network, passes=4000), np.array([[1.0]]))
    single = np.array([0.5, 1 / (1 + np.exp(-4.0))])
    # Four standard errors.
    assert got.probability[0, 0] == pytest.approx(single.mean(), abs=4 * single.std() / np.sqrt(4000))
    assert got.sd[0, 0] == pytest.approx(single.std(), abs=0.01)


def test_passes_leave_other_layers_and_the_users_randomness_alone() -> None:
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    model = wrapped(network, passes=5)
    network.train()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    state = torch.random.get_rng_state()
    model.log_prob(FEATURES)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not any(module.training for module in network.modules())


def test_passes_without_dropout_in_the_network_are_refused() -> None:
    with pytest.raises(SettingError, match="the network has no dropout, so that all passes would agree"):
        fitted(dropout=0.0, dropout_passes=5)


class Within(nn.Module):
    """Drops by a call, or within attention, where torch does not let one see it."""

    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.hidden, self.last = hidden, nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        if not self.hidden:
            return self.last(nn.functional.dropout(x, p=0.5, training=self.training))
        rows = x[:, None]
        dropped = 0.5 if self.training else 0.0
        return self.last(nn.functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=dropped)[:, 0])


def test_dropout_called_within_forward_counts_and_what_cannot_be_left_on_is_refused() -> None:
    model = fitted(network=lambda: Within(False), dropout_passes=8)
    assert model.uncertainty(FEATURES).sd.max() > 0.02
    with pytest.raises(SettingError, match="that within attention"):
        fitted(network=lambda: Within(True), dropout_passes=8)


class Always(nn.Linear):
    """Forgets to say when it trains."""

    def forward(self, x: Any) -> Any:
        return super().forward(nn.functional.dropout(x, p=0.1))


@pytest.mark.parametrize("passes", [0, 4])
def test_dropout_that_is_never_switched_off_is_refused(passes: int) -> None:
    """Its labels would depend on the place of a row among others."""
    with pytest.raises(SettingError, match=r"drops when it is evaluated, too: .*training=self\.training"):
        fitted(network=lambda: Always(FEATURES.shape[1], 3), dropout_passes=passes)


def test_copies_of_one_module_are_no_ensemble() -> None:
    with pytest.raises(SettingError, match="copies of one module would all start alike; give a function"):
        fitted(members=2, network=torch.nn.Linear(FEATURES.shape[1], 3))


def test_an_ensemble_may_drop_out_too() -> None:
    model = fitted(members=2, dropout=0.5, dropout_passes=3)
    assert model.model_.n_draws == 6
    parts = [draws for _, draws in model.model_.log_draws(FEATURES)]
    assert parts[0].shape == (6, 60, 3)
    np.testing.assert_allclose(model.predict_proba(FEATURES), torch.cat(parts, 1).exp().mean(0), rtol=1e-10)


def test_the_posterior_of_an_ensemble_rests_on_its_mean() -> None:
    model = fitted(members=3)
    expected = answers(model).mean(axis=0)
    for e in range(VOTES.n_votes):
        expected[VOTES.item[e]] *= model.confusion_[VOTES.annotator[e], :, VOTES.label[e]]
    np.testing.assert_allclose(model.result_.model_posterior, expected / expected.sum(axis=1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    "settings", [{"members": 3}, {"dropout": 0.4, "dropout_passes": 4}, {"members": 2, "dropout_passes": 2}]
)
def test_a_saved_ensemble_is_the_same_ensemble(settings: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(**settings)
    model.save(tmp_path / "model")
    again = crowdwise.load(tmp_path / "model")
    assert len(again.model_.networks) == settings.get("members", 1)
    assert again.model_.n_draws == model.model_.n_draws
    assert again.predict_proba(FEATURES).tobytes() == model.predict_proba(FEATURES).tobytes()
    one, two = model.uncertainty(FEATURES), again.uncertainty(FEATURES)
    for name in ("probability", "sd", "entropy", "disagreement"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()


def own_network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))


def test_a_saved_ensemble_of_the_users_own_networks(tmp_path: Path) -> None:
    model = fitted(members=2, dropout_passes=2, network=own_network)
    model.save(tmp_path / "model")
    again = crowdwise.load(tmp_path / "model", network=own_network)
    assert again.predict_proba(FEATURES).tobytes() == model.predict_proba(FEATURES).tobytes()
    assert again.uncertainty(FEATURES).sd.tobytes() == model.uncertainty(FEATURES).sd.tobytes()


def test_members_train_without_dropout_left_on() -> None:
    """Every network of an ensemble answers in evaluation mode from the first question on."""
    model = fitted(members=3, dropout=0.5)
    assert not any(module.training for network in model.model_.networks for module in network.modules())
    np.testing.assert_allclose(model.predict_proba(FEATURES), answers(model).mean(axis=0), rtol=1e-10)


def test_one_network_that_answers_once_cannot_say() -> None:
    with pytest.raises(SettingError, match=r"one network answers once; fit with members=5 .* or dropout_passes=20"):
        fitted().uncertainty(FEATURES)
    with pytest.raises(NotFittedError):
        CCEM(members=2).uncertainty(FEATURES)


def test_rows_that_do_not_fit_are_refused() -> None:
    model = fitted(members=2)
    with pytest.raises(ValueError, match="3 features, but CCEM is expecting 4 features"):
        model.uncertainty(FEATURES[:, :3])


def test_many_rows_are_answered_in_parts_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(members=2)
    whole = model.uncertainty(FEATURES)
    monkeypatch.setattr("crowdwise.methods.classify.network_model.evaluated_at_once", lambda rows: 7)
    parts = model.uncertainty(FEATURES)
    np.testing.assert_allclose(parts.probability, whole.probability, rtol=1e-10)
    np.testing.assert_allclose(parts.disagreement, whole.disagreement, atol=1e-12)
