"""Gaussian processes whose classes have kernels of their own, through the public interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.engines.gradient.helpers import blobs, even, quiet, votes_on  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.errors import InputError, SettingError  # noqa: E402
from crowdwise.methods.classify import opened  # noqa: E402

FEATURES, TRUTH = blobs(0, 90, 3, gap=5.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.8), share=0.8)
FAST: dict[str, Any] = {
    "epochs": 12,
    "batch_size": 15,
    "inducing": 9,
    "likelihood": "softmax",
    "scaling": "columns",
    "random_state": 0,
    "learning_rate": 0.02,
}


def model_of(name: str = "svgpcr", **more: Any) -> Any:
    return crowdwise.make(name, **(FAST | {"class_kernels": "own"} | more))


def fitted(name: str = "svgpcr", **more: Any) -> Any:
    with quiet():
        return model_of(name, **more).fit(FEATURES, VOTES)


OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "svgpcr": ("svgpcr", {}),
    "svgp": ("svgp", {}),
    "robust-max": ("svgpcr", {"likelihood": "robust-max"}),
    "flows": ("svgpcr-nf", {"layers": 2, "draws": 4}),
    "flows, from the start": ("svgpcr-nf", {"layers": 2, "draws": 4, "base": 0.2, "covariance": "diagonal"}),
    "diagonal": ("svgpcr", {"covariance": "diagonal"}),
    "optimiser": ("svgpcr", {"posterior_steps": "optimizer", "learning_rate": 0.03}),
    "a sum with a product, ard": ("svgpcr", {"kernel": "rbf+linear*matern", "ard": True}),
}


@pytest.mark.parametrize(("name", "options"), OPTIONS.values(), ids=OPTIONS)
def test_every_option_learns_and_comes_back_from_its_file(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(name, **options)
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.95
    assert list(model.kernel_) == [0, 1, 2]
    assert len(set(map(repr, model.kernel_.values()))) == 3
    mean, covariance = model.latent(FEATURES[:7], covariance=True)
    variance = model.latent(FEATURES[:7])[1]
    assert mean.shape == (7, 3)
    np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2).T, variance, rtol=1e-6, atol=1e-9)
    assert model.latent_draws(FEATURES[:7], 5, random_state=0).shape == (5, 7, 3)
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(FEATURES), model.predict_proba(FEATURES))
    assert again.kernel_ == model.kernel_
    assert again.bound_ == model.bound_


@pytest.mark.parametrize("name", ["svgpcr", "svgp", "svgpcr-nf"])
def test_kernels_that_do_not_move_give_what_the_shared_one_gives(name: str) -> None:
    """Also after half of the epochs, when there are three covariances where there was one."""
    still = {"epochs": 6, "base": 1.0} if name == "svgpcr-nf" else {"epochs": 6}
    own, shared = (fitted(name, **still, learning_rate=1e-30, class_kernels=kind) for kind in ("own", "shared"))
    for term, value in shared.bound_.items():
        assert own.bound_[term] == pytest.approx(value, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(own.predict_proba(FEATURES), shared.predict_proba(FEATURES), rtol=1e-9, atol=1e-10)
    assert set(own.kernel_.values()) == {shared.kernel_}


def test_half_of_the_epochs_the_kernels_go_together() -> None:
    model, heads, seen = model_of(epochs=4), [], []
    made = model._head
    model._head = lambda *given: heads.append(made(*given)) or heads[-1]
    with quiet():
        model.fit(FEATURES, VOTES, progress=lambda *_: seen.append(bool(heads[-1].process[0].covariance.apart)))
    assert seen == [False, False, True, True]


@pytest.mark.slow
def test_where_an_early_epoch_was_the_best_one_kernel_serves_all(tmp_path: Path) -> None:
    model = fitted(validation=0.3, warm_start=True, likelihood="robust-max", epsilon="fixed")
    assert model.history_["best_epoch"] <= 6  # counted from one
    assert len(set(model.kernel_.values())) == 1
    model.save(tmp_path / "model.zip")
    np.testing.assert_array_equal(crowdwise.load(tmp_path / "model.zip").predict_proba(FEATURES), model.predict_proba(FEATURES))
    before = model.kernel_
    model.set_params(validation=0.0, learning_rate=1e-30)
    with quiet():
        model.fit(FEATURES, VOTES)
    assert bool(model.network_[1].covariance.apart)
    assert model.kernel_ == before


def spots(seed: int) -> tuple[np.ndarray, np.ndarray, Annotations]:
    """Three wide sectors of a square, and a fourth class in spots all over it."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-2, 2, size=(400, 2))
    truth = (np.arctan2(features[:, 1], features[:, 0]) // (2 * np.pi / 3) % 3).astype(int)
    truth[np.cos(2.2 * features).prod(axis=1) > 0.3] = 3
    return features, truth, votes_on(truth, even(3, 4, 0.9), seed=seed)


@pytest.mark.slow
def test_a_class_that_varies_faster_has_the_shortest_length_scale() -> None:
    features, truth, votes = spots(0)
    settings = {"inducing": 40, "epochs": 30, "batch_size": 40}
    with quiet():
        own, shared = (model_of(**settings, class_kernels=kind).fit(features, votes) for kind in ("own", "shared"))
    scale = [own.kernel_[k].lengthscale for k in range(4)]
    assert scale[3] < 0.9 * min(scale[:3])
    assert scale[3] < shared.kernel_.lengthscale < max(scale[:3])
    assert sum(own.bound_.values()) > sum(shared.bound_.values())
    assert (own.predict(features) == truth).mean() > 0.93


def test_kernels_have_the_names_of_classes_and_features() -> None:
    pl = pytest.importorskip("polars")
    named = Annotations.from_arrays(VOTES.item, VOTES.annotator, np.array(["sun", "rain", "snow"])[VOTES.label])
    frame = pl.DataFrame(FEATURES, schema=[f"x{i}" for i in range(FEATURES.shape[1])])
    with quiet():
        model = model_of(epochs=2, ard=True).fit(frame, named)
    assert set(model.kernel_) == {"sun", "rain", "snow"}
    assert list(model.kernel_["snow"].lengthscale) == frame.columns


def test_gpytorch_kernels_are_copied_for_every_class(tmp_path: Path) -> None:
    gpytorch = pytest.importorskip("gpytorch")
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    before = kernel.base_kernel.lengthscale.item()
    model = fitted(kernel=kernel, epochs=6)
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.95
    assert len({found.lengthscale for found in model.kernel_.values()}) == 3
    assert kernel.base_kernel.lengthscale.item() == before
    model.latent_draws(FEATURES[:4], 3)
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip", network=kernel)
    np.testing.assert_array_equal(again.predict_proba(FEATURES), model.predict_proba(FEATURES))


def test_a_feature_map_serves_all_kernels() -> None:
    torch.manual_seed(0)
    model = fitted(feature_map=torch.nn.Linear(FEATURES.shape[1], 2))
    assert model.inducing_points_.shape == (9, 2)
    assert len({kernel.lengthscale for kernel in model.kernel_.values()}) == 3
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.95


def test_a_fit_goes_on_from_the_kernels_of_the_classes() -> None:
    model = fitted(warm_start=True)
    before = model.kernel_
    model.set_params(learning_rate=1e-30, epochs=2)
    with quiet():
        model.fit(FEATURES, VOTES)
    for k in range(3):
        assert model.kernel_[k].lengthscale == pytest.approx(before[k].lengthscale, rel=1e-9)
    model.set_params(class_kernels="shared")
    with pytest.warns(Warning, match="starts afresh"):
        model.fit(FEATURES, VOTES)


def test_draws_of_too_many_rows_and_other_words_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    own, shared = (fitted(epochs=1, class_kernels=kind) for kind in ("own", "shared"))
    monkeypatch.setattr(opened, "_MOST_ENTRIES", 3 * 5**2)
    with pytest.raises(InputError, match="at most 5 rows at a time; got 6"):
        own.latent_draws(FEATURES[:6], 2)
    assert own.latent_draws(FEATURES[:5], 2).shape == (2, 5, 3)
    assert shared.latent_draws(FEATURES[:6], 2).shape == (2, 6, 3)
    with pytest.raises(SettingError, match="class_kernels"):
        fitted(class_kernels="each")
