"""svgpcr-nf and gpnetcr from votes to predictions: what they learn, how they are steered, saved and resumed."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, votes_on  # noqa: E402

from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.data.datasets import crowd_digits  # noqa: E402
from crowdwise.errors import SettingError  # noqa: E402
from crowdwise.methods.classify.gpnetcr import GPNETCR, build_inference_network  # noqa: E402
from crowdwise.methods.classify.svgpcr import SVGPCR  # noqa: E402
from crowdwise.methods.classify.svgpcr_nf import SVGPCRNF, build_flow_process  # noqa: E402
from crowdwise.parts.heads.flow_process import FlowProcessHead  # noqa: E402

BOTH = [SVGPCRNF, GPNETCR]
both = pytest.mark.parametrize("cls", BOTH)
FEATURES, TRUTH = blobs(0, 60, 3, gap=5.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.8), share=0.8)
# What a fit would choose by trial fits, which have tests of their own.
GIVEN = {"likelihood": "robust-max", "scaling": "columns"}
FAST: dict[type, dict[str, Any]] = {
    SVGPCRNF: GIVEN | {"epochs": 8, "batch_size": 10, "inducing": 8, "layers": 2, "draws": 4},
    GPNETCR: GIVEN | {"epochs": 6, "batch_size": 30, "hidden": 15, "measured": 8, "learning_rate": 0.03},
}


def fitted(cls: Any, features: Any = FEATURES, votes: Any = VOTES, **more: Any) -> Any:
    with quiet():
        return cls(**(FAST[cls] | more)).fit(features, votes)


@cache
def shared(cls: Any) -> Any:
    """A fit that tests share: look, do not touch."""
    return fitted(cls)


def weights(model: Any) -> bytes:
    state = {**model.network_.state_dict(), **{f"head.{name}": value for name, value in model.head_.state_dict().items()}}
    return b"".join(value.numpy().tobytes() for value in state.values())


# -- both -------------------------------------------------------------------------------------


@pytest.mark.slow
@both
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_easy_classes_are_learned(cls: Any, likelihood: str) -> None:
    model = fitted(cls, epochs=12, likelihood=likelihood)
    # A softmax is never sure of so few rows, and leaves more to the votes.
    assert (model.labels_ == TRUTH).mean() > (0.9 if likelihood == "robust-max" else 0.85)
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.9


@cache
@cache
def digits(cls: Any) -> tuple[float, float, float]:
    """Accuracy and log loss on half of the items, which is only predicted, and accuracy of the labels of the others.

    Five annotators, among them a spammer and an adversary.
    """
    features, votes, truth = crowd_digits()
    train = np.arange(len(truth)) % 2 > 0
    position = np.cumsum(train) - 1
    kept = train[votes.item]
    taught = Annotations.from_arrays(
        position[votes.item[kept]], votes.annotator[kept], votes.label[kept], items=range(train.sum()), classes=range(10)
    )
    with quiet():  # some pixels are always white
        settings = {"epochs": 5} if cls is GPNETCR else {"inducing": 50, "epochs": 10}
        model = cls(**GIVEN, **settings).fit(features[train], taught)
    proba = model.predict_proba(features[~train])
    loss = -np.log(proba[np.arange(len(proba)), truth[~train]]).mean()
    return (proba.argmax(axis=1) == truth[~train]).mean(), loss, (model.labels_ == truth[train]).mean()


@pytest.mark.slow
@both
def test_digits_are_learned_about_as_well_as_by_svgpcr(cls: Any) -> None:
    (known, known_loss, _), (accuracy, loss, labels) = digits(SVGPCR), digits(cls)
    assert labels > 0.995
    assert accuracy > max(0.95, known - 0.01)
    assert loss < known_loss + 0.03


@pytest.mark.slow
@both
def test_an_adversary_is_seen_through(cls: Any) -> None:
    confusion = np.concatenate([even(3, 3, 0.85), np.roll(even(1, 3, 0.9), 1, axis=2)])
    model = fitted(cls, votes=votes_on(TRUTH, confusion), epochs=10)
    assert (model.labels_ == TRUTH).mean() > 0.95
    assert (model.confusion_[3].argmax(axis=1) == [1, 2, 0]).all()


@pytest.mark.slow
@both
def test_a_saved_network_is_rebuilt_from_its_spec(cls: Any) -> None:
    """Weights and plain values alone give the same predictions: neither training rows nor code are stored."""
    model = shared(cls)
    arrays, plain = model.model_.state()
    build = build_flow_process if cls is SVGPCRNF else build_inference_network
    assert plain["spec"]["kind"] == ("flow-gp" if cls is SVGPCRNF else "gpnet")
    made = build(plain["spec"]).double()
    made.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    with torch.no_grad():
        answer = made.eval()(torch.tensor(FEATURES))
    np.testing.assert_allclose(answer.exp(), model.predict_proba(FEATURES), atol=1e-12)
    assert max(array.shape[0] for array in arrays.values() if array.ndim) < len(FEATURES)


@pytest.mark.slow
@both
def test_a_run_resumes_to_the_same_bits(cls: Any, tmp_path: Path) -> None:
    path = tmp_path / "run"
    more = {"hold": 3} if cls is GPNETCR else {}
    whole = fitted(cls, **more) if more else shared(cls)

    class StopError(Exception):
        pass

    def stop(iteration: int, *_: Any) -> None:
        if iteration == 5:
            raise StopError

    with quiet(), pytest.raises(StopError):
        cls(**(FAST[cls] | more), checkpoint=path).fit(FEATURES, VOTES, progress=stop)
    assert os.path.exists(path)
    resumed = fitted(cls, checkpoint=path, **more)
    assert weights(resumed) == weights(whole)


@both
def test_mixed_precision_is_refused(cls: Any) -> None:
    with pytest.raises(SettingError, match="Cholesky"):
        fitted(cls, precision="mixed")


@pytest.mark.slow
@both
def test_held_out_votes_can_stop_it(cls: Any) -> None:
    model = fitted(cls, validation=0.2, patience=2)
    assert len(model.history_["held_out"]) >= 1
    assert np.isfinite(model.history_["held_out"]).all()


# -- svgpcr-nf --------------------------------------------------------------------------------


@pytest.mark.slow
def test_at_rest_it_is_svgpcr() -> None:
    """With a likelihood that is given: which items wait is drawn after the flows are made."""
    plain = {name: value for name, value in FAST[SVGPCRNF].items() if name not in ("layers", "draws")}
    with quiet():
        expected = SVGPCR(**plain, epsilon="fixed").fit(FEATURES, VOTES)
    model = fitted(SVGPCRNF, base=1.0, epsilon="fixed")
    np.testing.assert_allclose(model.predict_proba(FEATURES), expected.predict_proba(FEATURES), atol=1e-9)
    np.testing.assert_allclose(model.trace_, expected.trace_, rtol=1e-9)


@pytest.mark.slow
def test_flows_move_once_their_time_has_come() -> None:
    for model, moved in ((fitted(SVGPCRNF, base=1.0), False), (shared(SVGPCRNF), True)):
        process = model.network_[1]
        assert bool(process.flowing) == moved
        for parameter in (process.flows.push_lkm, process.shift_km, process.log_scale_km):
            assert bool(parameter.abs().max() > 0) == moved


def test_a_gaussian_that_was_hardly_fitted_is_not_bent() -> None:
    """Two batches per epoch: eight natural steps are not enough."""
    model = fitted(SVGPCRNF, base=0.0, epochs=4, batch_size=30)
    assert not bool(model.network_[1].flowing)


@pytest.mark.slow
def test_the_bound_does_not_jump_when_flows_set_in() -> None:
    """Untrained flows are the identity: the loss of the same batch, by draws, is that of the closed form."""
    model = fitted(SVGPCRNF, base=1.0, draws=600)
    network, head = model.network_.train(), model.head_
    assert isinstance(head, FlowProcessHead)
    batch, rows = batch_of(VOTES, epoch=5), torch.tensor(FEATURES)
    head.warmup = 10  # labels fixed, so that both see the same
    losses = []
    for flowing in (False, True):
        network[1].flowing.fill_(flowing)
        torch.manual_seed(0)
        losses.append(float(head.loss(network(rows), batch).detach()))
    assert losses[1] == pytest.approx(losses[0], abs=0.05)


def test_a_share_above_one_is_refused() -> None:
    with pytest.raises(SettingError, match="base is a share"):
        fitted(SVGPCRNF, base=1.5)


# -- gpnetcr ----------------------------------------------------------------------------------


def test_the_step_size_falls_as_published() -> None:
    head = fitted(GPNETCR, beta=0.5, decay=0.1).head_
    assert [head.rate_of(t) for t in (0, 1, 100)] == pytest.approx([0.5, 0.5 / 1.1, 0.25])


@pytest.mark.slow
def test_beta_has_no_influence_on_single_steps_and_holds_back_longer_ones() -> None:
    """KL(q || q_t) has no gradient at q = q_t; on later steps it draws back to q_t."""

    def trained(**settings: Any) -> torch.Tensor:
        model = fitted(GPNETCR, batch_size=10, **settings)
        return model.network_[1].posterior.mean_kf.detach()

    start = trained(epochs=1, learning_rate=1e-12)
    moved = {
        (hold, beta): float((trained(hold=hold, beta=beta, decay=0.0, epochs=3) - start).abs().mean())
        for hold in (1, 6)
        for beta in (1e-3, 1.0)
    }
    assert moved[1, 1e-3] == moved[1, 1.0]
    assert moved[6, 1e-3] < 0.8 * moved[6, 1.0]


def test_the_start_is_shown_to_the_network_before_training() -> None:
    """One tiny step of the optimiser: what is predicted was learned from the labels of the start alone."""
    model = fitted(GPNETCR, epochs=1, batch_size=60, learning_rate=1e-9, init="dawid-skene")
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.9


def test_measurement_sets_beyond_the_rank_are_refused() -> None:
    with pytest.raises(SettingError, match="less than 2 hidden = 30"):
        fitted(GPNETCR, measured=30)
    with pytest.raises(SettingError, match="beta is a share"):
        fitted(GPNETCR, beta=2.0)


@pytest.mark.parametrize("kernel", ["rbf", "matern"])
def test_the_kernel_of_the_prior_is_trained(kernel: str) -> None:
    covariance = fitted(GPNETCR, kernel=kernel).network_[1].covariance
    assert float(covariance.log_variance.detach().abs()) > 1e-3
