"""Gaussian processes that continue a fit, train a feature map along, and run on any device."""

from __future__ import annotations

import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.base import clone  # noqa: E402
from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, votes_on  # noqa: E402
from torch import nn  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.errors import DataWarning, InputError, SettingError  # noqa: E402
from crowdwise.parts.heads.flow_process import FlowProcessHead  # noqa: E402
from crowdwise.parts.heads.inference_network import InferenceNetworkHead  # noqa: E402
from crowdwise.parts.heads.process import ProcessHead  # noqa: E402
from crowdwise.parts.priors.covariance import covariance  # noqa: E402
from crowdwise.parts.priors.flow_gp import FlowGP  # noqa: E402
from crowdwise.parts.priors.inference_network import InferenceNetwork, RandomFeatures  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax, Softmax  # noqa: E402
from crowdwise.parts.priors.sparse_gp import SparseGP  # noqa: E402

FEATURES, TRUTH = blobs(0, 120, 3, gap=3.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.75), share=0.8)
# A choice would take three more fits: test_chosen_settings.py has it.
CHOSEN = {"likelihood": "robust-max", "scaling": "columns"}
FAST: dict[str, dict[str, Any]] = {
    "svgpcr": {**CHOSEN, "epochs": 20, "batch_size": 30, "inducing": 9},
    "svgp": {**CHOSEN, "epochs": 20, "batch_size": 30, "inducing": 9},
    "svgpcr-nf": {
        "likelihood": "robust-max",
        "scaling": "columns",
        "epochs": 20,
        "batch_size": 30,
        "inducing": 9,
        "layers": 2,
        "draws": 4,
    },
    "gpnetcr": {
        "likelihood": "robust-max",
        "scaling": "columns",
        "epochs": 15,
        "batch_size": 30,
        "hidden": 15,
        "measured": 8,
        "learning_rate": 0.03,
    },
}
PAPERS = {"likelihood": "robust-max", "epsilon": "fixed"}
every_method = pytest.mark.parametrize("name", FAST)


def model_of(name: str, **more: Any) -> Any:
    return crowdwise.make(name, **({"random_state": 0} | FAST[name] | more))


@cache
def kept(name: str) -> Any:
    with quiet():
        return model_of(name, warm_start=True).fit(FEATURES, VOTES)


def started(name: str) -> Any:
    """A fit to go on from: a copy of one that tests share."""
    return pickle.loads(pickle.dumps(kept(name)))


# -- going on from a fit ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf"])
def test_going_on_with_the_same_votes_does_not_lower_the_bound(name: str) -> None:
    model = started(name)
    before = sum(model.bound_.values())
    with quiet():
        model.set_params(epochs=10).fit(FEATURES, VOTES)
    # Flows are judged by 64 draws, and their steps by four.
    assert sum(model.bound_.values()) > before - (0.5 if name == "svgpcr-nf" else 0)


@pytest.mark.slow
@every_method
def test_going_on_takes_fewer_epochs_to_the_same_labels(name: str) -> None:
    with quiet():
        model = model_of(name, warm_start=True, **PAPERS).fit(FEATURES, VOTES)
        first, loss = model.labels_.copy(), model.history_["loss"][-1]
        model.set_params(epochs=2).fit(FEATURES, VOTES)
        afresh = model_of(name, epochs=2, **PAPERS).fit(FEATURES, VOTES)
    assert (model.labels_ == first).mean() > 0.98
    assert model.history_["loss"][0] < loss + 0.5 * abs(afresh.history_["loss"][0] - loss)


@every_method
def test_it_goes_on_from_kernel_process_and_steps(name: str) -> None:
    """With steps that are hardly any, everything is where it was; without warm_start a fit begins from nothing."""
    model = started(name)
    before, steps = model.kernel_, model.history_["steps"]
    mean, _ = model.latent(FEATURES)
    with quiet():
        small = {"learning_rate": 1e-9} | ({} if name == "gpnetcr" else {"rate": 1e-9})
        model.set_params(epochs=1, **small).fit(FEATURES, VOTES)
        other = model_of(name, **small, epochs=1).fit(FEATURES, VOTES)
    # Of a posterior that is bent there are no natural steps any more.
    assert model.history_["steps"] == steps + (0 if name == "svgpcr-nf" else 4)
    assert model.kernel_.lengthscale == pytest.approx(before.lengthscale, rel=1e-6)
    np.testing.assert_allclose(model.latent(FEATURES)[0], mean, atol=1e-3)
    assert np.abs(other.latent(FEATURES)[0] - mean).max() > 0.5


@every_method
def test_it_goes_on_with_more_rows_and_votes_and_other_annotators(name: str, tmp_path: Path) -> None:
    features, truth = blobs(0, 120, 3, gap=5.0)
    votes = votes_on(truth, even(4, 3, 0.75), share=0.8)
    some = votes.take_votes((votes.item < 60) & (votes.annotator < 3))[:60]
    with quiet():
        model = model_of(name, warm_start=True).fit(features[:60], some)
        model.save(tmp_path / "model.zip")
        again = crowdwise.load(tmp_path / "model.zip")
        for each in (model, again):
            each.set_params(epochs=4).fit(features, votes)
    assert model.confusion_.shape == (4, 3, 3)
    assert (model.labels_ == truth).mean() > 0.95
    np.testing.assert_allclose(again.predict_proba(features), model.predict_proba(features), atol=1e-9)


def test_where_it_cannot_go_on_it_says_so_and_starts_afresh() -> None:
    with quiet():
        model = model_of("svgpcr", epochs=5, warm_start=True).fit(FEATURES, VOTES)
        afresh = model_of("svgpcr", epochs=5).fit(FEATURES[:, :3], VOTES)
    with pytest.warns(DataWarning, match="warm_start: other classes or columns; the process starts afresh"):
        model.fit(FEATURES[:, :3], VOTES)
    np.testing.assert_array_equal(model.predict_proba(FEATURES[:, :3]), afresh.predict_proba(FEATURES[:, :3]))
    with pytest.warns(DataWarning, match="warm_start: settings that make another process"):
        model.set_params(inducing=12).fit(FEATURES[:, :3], VOTES)
    assert len(model.inducing_points_) == 12


@pytest.mark.slow
def test_svgp_goes_on_with_the_labels_that_it_is_given() -> None:
    with quiet():
        model = model_of("svgp", warm_start=True, init="identity", **PAPERS).fit(FEATURES, TRUTH)
        model.set_params(epochs=40).fit(FEATURES, (TRUTH + 1) % 3)
    assert (model.predict(FEATURES) == (TRUTH + 1) % 3).mean() > 0.9


def test_a_fit_that_fails_leaves_nothing_behind_that_the_next_goes_on_from() -> None:
    model = started("svgpcr")
    with quiet(), pytest.raises(SettingError):
        model.set_params(annotator_prior="nonsense").fit(FEATURES, VOTES)
    assert model._earlier is None


# -- a feature map ----------------------------------------------------------------------------


def spirals(n_items: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Two spirals of one and a half turns, one in the other, and four columns of noise."""
    rng = np.random.default_rng(0)
    truth = np.arange(n_items) % 2
    turn = np.sqrt(rng.uniform(0.02, 1, n_items))
    angle = 3 * np.pi * turn + np.pi * truth
    plane = np.column_stack([turn * np.cos(angle), turn * np.sin(angle)])
    return np.column_stack([plane + 0.02 * rng.normal(size=plane.shape), rng.normal(size=(n_items, 4))]), truth


def small_map(width: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, width))


@pytest.mark.slow
def test_a_map_finds_the_direction_that_counts() -> None:
    """Classes by the distance from a plane in ten dimensions: no length scales of columns can show it, a linear map can."""
    rng = np.random.default_rng(0)
    features, normal = rng.normal(size=(700, 10)), rng.normal(size=10)
    truth = (np.abs(features @ normal) / np.linalg.norm(normal) > 0.67).astype(int)
    votes = votes_on(truth[:400], even(3, 2, 0.9))
    settings = {"epochs": 40, "batch_size": 50, "inducing": 20, "learning_rate": 0.01}
    torch.manual_seed(0)
    with quiet():
        plain = model_of("svgpcr", **settings, **PAPERS, ard=True).fit(features[:400], votes)
        deep = model_of("svgpcr", **settings, **PAPERS, feature_map=nn.Linear(10, 2)).fit(features[:400], votes)
    right = [(model.predict(features[400:]) == truth[400:]).mean() for model in (plain, deep)]
    assert right[1] > max(0.9, right[0] + 0.03), right
    assert sum(deep.bound_.values()) > sum(plain.bound_.values()) + 50


@pytest.mark.parametrize("name", ["svgpcr", "svgp", "svgpcr-nf"])
def test_the_map_is_trained_and_the_users_module_stays_as_it_is(name: str, tmp_path: Path) -> None:
    features, truth = spirals(120)
    votes, own = votes_on(truth, even(3, 2, 0.9)), small_map()
    given = {key: value.clone() for key, value in own.state_dict().items()}
    with quiet():
        model = model_of(name, feature_map=own, frozen=0).fit(features, votes)
    for key, value in own.state_dict().items():
        assert torch.equal(value, given[key])
    trained = model.network_[0][1]
    assert all((value.float() - given[key]).abs().max() > 1e-4 for key, value in trained.state_dict().items())
    assert model.inducing_points_.shape == (9, 3)
    assert isinstance(model.kernel_.lengthscale, float)
    mean, joint = model.latent(features[:7], covariance=True)
    assert (mean.shape, joint.shape) == ((7, 2), (2, 7, 7))
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip", network=small_map())
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))
    assert isinstance(again.feature_map, nn.Module)
    with pytest.raises(InputError, match=r"your own feature map; in Python: load\(folder, network=feature_map\)"):
        crowdwise.load(tmp_path / "model.zip")
    with pytest.raises(InputError, match="not the one that was trained"):
        crowdwise.load(tmp_path / "model.zip", network=small_map(4))


def test_inducing_points_start_among_mapped_rows() -> None:
    features, truth = spirals(60)
    own = small_map().double()
    with quiet():
        settings = {"feature_map": own, "inducing": 60, "epochs": 1, "frozen": 9, "learning_rate": 1e-12}
        model = model_of("svgpcr", **settings).fit(features, votes_on(truth, even(3, 2, 0.9)))
    with torch.no_grad():
        mapped = own(torch.tensor((features - features.mean(axis=0)) / features.std(axis=0))).numpy()
    apart = np.abs(model.inducing_points_[:, None] - mapped[None]).max(axis=2)
    assert apart.min(axis=1).max() < 1e-8


def test_a_model_with_a_map_is_cloned_repeated_and_gone_on_with() -> None:
    features, truth = spirals(60)
    votes = votes_on(truth, even(3, 2, 0.9))
    with quiet():
        first = model_of("svgpcr", feature_map=small_map, epochs=4)
        again = clone(first)
        torch.manual_seed(5)
        first.fit(features, votes)
        torch.manual_seed(6)
        again.fit(features, votes)
        np.testing.assert_array_equal(first.predict_proba(features), again.predict_proba(features))
        again.set_params(warm_start=True, epochs=1, learning_rate=1e-9, rate=1e-9).fit(features, votes)
    np.testing.assert_allclose(again.latent(features)[0], first.latent(features)[0], atol=1e-3)


@pytest.mark.parametrize(
    ("odd", "error", "said"),
    [
        (nn.Linear(5, 2), InputError, r"feature_map cannot take rows of shape \(6,\)"),
        (nn.Unflatten(1, (2, 3)), InputError, r"must return features \[rows, F\]; for 60 rows it returned \(60, 2, 3\)"),
        (7, SettingError, "feature_map must be a torch module"),
        (lambda: 7, SettingError, "feature_map must be a torch module"),
    ],
)
def test_maps_that_are_none_are_refused(odd: Any, error: type[Exception], said: str) -> None:
    features, truth = spirals(60)
    with pytest.raises(error, match=said):
        model_of("svgpcr", feature_map=odd).fit(features, votes_on(truth, even(3, 2, 0.9)))


def test_a_map_with_a_kernel_of_ones_own_is_refused() -> None:
    kernels = pytest.importorskip("gpytorch.kernels")
    features, truth = spirals(60)
    with pytest.raises(SettingError, match="feature_map goes with the built-in kernels"):
        model_of("svgpcr", feature_map=small_map(), kernel=kernels.RBFKernel()).fit(features, votes_on(truth, even(3, 2, 0.9)))


# -- devices ----------------------------------------------------------------------------------


def steps_of(kind: str, likelihood: str) -> tuple[nn.Module, nn.Module]:
    """A process and its head, in double precision on the processor."""
    link = RobustMax() if likelihood == "robust-max" else Softmax(3)
    points, start = torch.tensor(FEATURES[:9]), torch.full((120, 3), 1 / 3, dtype=torch.float64)
    own, prior = covariance("rbf+matern*linear", 4, lengthscale=2.0, ard=True).double(), np.ones((1, 3, 3))
    options: dict[str, Any] = {"rate": 0.1, "warmup": 1, "frozen": 0}
    if kind == "network":
        network = InferenceNetwork(RandomFeatures("rbf", 4, 3, 10), own, link, 5, points).double()
        return network, InferenceNetworkHead(VOTES, prior, start, network, beta=1.0, decay=0.1, hold=2, warmup=1)
    if kind == "flows":
        bent = FlowGP(own, link, points, 3, 2, 4).double()
        return bent, FlowProcessHead(VOTES, prior, start, bent, base=0, **options)
    process = SparseGP(own, link, points, 3, diagonal=kind == "diagonal", natural=kind != "optimiser")
    return process, ProcessHead(VOTES, prior, start, process, **options)


@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "optimiser", "flows", "network"])
def test_nothing_is_made_on_another_device_than_the_process_is_on(kind: str, likelihood: str) -> None:
    """Whatever is made without a device lands on "meta" here, where it cannot meet the numbers of the process."""
    process, head = steps_of(kind, likelihood)
    rows, batch = torch.tensor(FEATURES), batch_of(VOTES)
    generator = torch.Generator("cpu").manual_seed(0)
    with torch.device("meta"):
        for _ in range(2):
            head.loss(process.train()(rows), batch).backward()
            if hasattr(head, "natural_step"):
                head.natural_step()
        if kind == "flows":
            process.flowing.fill_(True)
            head.loss(process.train()(rows), batch).backward()
        with torch.no_grad():
            answers = [process.eval()(rows), *process.latent(rows), process.joint(rows), process.draw(rows, 2, generator)]
            if kind != "network":
                answers += [process.expected_log(rows), process.whole_kl()]
    assert all(answer.device.type == "cpu" and bool(torch.isfinite(answer).all()) for answer in answers)


def test_that_check_finds_what_is_made_on_another_device() -> None:
    class Wrong(nn.Module):
        def forward(self, rows: Any) -> Any:
            return rows @ torch.eye(4, dtype=torch.float64)

    with torch.device("meta"), pytest.raises((RuntimeError, NotImplementedError)):
        Wrong()(torch.tensor(FEATURES)).sum().item()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here: training on cuda is not tried out")
@every_method
def test_a_gpu_gives_what_the_processor_gives(name: str) -> None:
    with quiet():
        there, here = (model_of(name, device=device, epochs=4).fit(FEATURES, VOTES) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there.predict_proba(FEATURES), here.predict_proba(FEATURES), atol=1e-4)
    np.testing.assert_allclose(there.latent_draws(FEATURES, 2, random_state=0).shape, (2, 120, 3))


def test_fits_without_any_oddity_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model_of("svgpcr", epochs=2, warm_start=True).fit(FEATURES, VOTES).fit(FEATURES, VOTES)
