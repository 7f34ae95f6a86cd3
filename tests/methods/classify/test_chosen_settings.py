"""The likelihood and scale of features that Gaussian processes choose, and what is learned: in fits, files and checkpoints."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy.sparse import csr_matrix  # noqa: E402
from sklearn.base import clone  # noqa: E402
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.methods.classify.chosen_settings import chosen_settings  # noqa: E402

FEATURES, TRUTH = blobs(0, 150, 3, gap=2.5)
VOTES = votes_on(TRUTH, even(4, 3, 0.75), share=0.8)
FAST: dict[str, dict[str, Any]] = {
    "svgpcr": {"epochs": 16, "batch_size": 20, "inducing": 9},
    "svgp": {"epochs": 16, "batch_size": 20, "inducing": 9},
    "svgpcr-nf": {"epochs": 16, "batch_size": 20, "inducing": 9, "layers": 2, "draws": 4},
    "gpnetcr": {"epochs": 16, "batch_size": 20, "hidden": 15, "measured": 8, "learning_rate": 0.03},
}


def model_of(name: str = "svgpcr", **more: Any) -> Any:
    return crowdwise.make(name, **({"random_state": 0, "scaling": "columns"} | FAST[name] | more))


def fitted(name: str = "svgpcr", features: Any = FEATURES, votes: Any = VOTES, **more: Any) -> Any:
    with quiet():
        return model_of(name, **more).fit(features, votes)


def learned(model: Any) -> float:
    likelihood = model.network_[1].likelihood
    return float(likelihood.eps if model.likelihood_ == "robust-max" else likelihood.temperature)


def weights(model: Any) -> bytes:
    return b"".join(value.numpy().tobytes() for value in model.network_.state_dict().values())


# -- the choice -------------------------------------------------------------------------------


def simulated(likelihood: str, seed: int) -> tuple[np.ndarray, Any]:
    """Classes by the largest of smooth functions but for one in ten, or drawn from their softmax."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-2, 2, (600, 2))
    f = np.stack([features @ [np.cos(turn), np.sin(turn)] for turn in (0, 2.1, 4.2)], axis=1)
    if likelihood == "robust-max":
        truth = np.where(rng.random(600) < 0.1, rng.integers(3, size=600), f.argmax(axis=1))
    else:
        truth = (f + rng.gumbel(size=f.shape)).argmax(axis=1)
    return features, votes_on(truth, even(5, 3, 0.9), seed)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_the_likelihood_that_data_come_from_is_chosen(likelihood: str) -> None:
    features, votes = simulated(likelihood, 0)
    with quiet():
        found, tried = chosen_settings(model_of(epochs=20, batch_size=50), features, votes)
    assert found == {"likelihood": likelihood, "scaling": "columns"}
    assert tried[likelihood] == min(tried.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgpcr", "gpnetcr"])
def test_the_choice_is_the_same_every_time_and_the_fit_that_of_the_likelihood_by_name(name: str) -> None:
    first = fitted(name, epochs=6)
    with quiet():
        again, tried = chosen_settings(model_of(name, epochs=6), FEATURES, VOTES)
    assert (again["likelihood"], tried) == (first.likelihood_, first.history_["tried"])
    assert first.likelihood_ == min(tried, key=tried.__getitem__)
    named = fitted(name, epochs=6, likelihood=first.likelihood_)
    assert "tried" not in named.history_
    assert weights(first) == weights(named)


def test_the_callers_estimator_and_kernel_stay_as_they_are() -> None:
    kernels = pytest.importorskip("gpytorch.kernels")
    kernel = kernels.ScaleKernel(kernels.RBFKernel())
    before = copy.deepcopy(kernel.state_dict())
    model = model_of(kernel=kernel, epochs=4)
    settings = dict(model.get_params())
    with quiet():
        found, _ = chosen_settings(model, FEATURES, VOTES)
    assert found["likelihood"] in ("robust-max", "softmax")
    assert model.get_params() == settings
    assert model.kernel is kernel
    assert not hasattr(model, "result_")
    assert all(torch.equal(value, before[name]) for name, value in kernel.state_dict().items())


@pytest.mark.slow
def test_a_fit_chooses_whatever_it_is_given() -> None:
    posterior = np.full((150, 3), 0.1) + 0.7 * np.eye(3)[TRUTH]
    sparse = fitted(features=csr_matrix(FEATURES), epochs=2)
    for each in (
        sparse,
        fitted(init=posterior, epochs=2),
        fitted(random_state=None, epochs=2),
        fitted("svgp", votes=TRUTH, epochs=2),
        fitted("svgp", votes=np.array(["x", "y", "z"])[TRUTH], epochs=2),
        fitted(votes=VOTES.with_gold({0: int(TRUTH[0]), 7: int(TRUTH[7])}), epochs=2),
    ):
        assert set(each.history_["tried"]) == {"robust-max", "softmax"}
        assert each.likelihood_ in each.history_["tried"]
    # The same rows give the same choice, however they are stored.
    assert sparse.history_["tried"] == pytest.approx(fitted(epochs=2).history_["tried"])


def test_few_items_and_one_class_leave_nothing_to_choose_by() -> None:
    few = fitted(features=FEATURES[:39], votes=VOTES[:39])
    assert few.likelihood_ == "robust-max"
    assert "tried" not in few.history_


def spread(seed: int, informative: float) -> tuple[np.ndarray, Any]:
    """Two columns of this spread that tell the classes, beside eight of spread one that do not."""
    rng = np.random.default_rng(seed)
    X, truth = blobs(seed, 400, 3, gap=3.0)
    X = np.hstack([X[:, :2] / X[:, :2].std(axis=0) * informative, rng.normal(size=(400, 8))])
    return X, votes_on(truth, even(5, 3, 0.9), seed)


@pytest.mark.slow
@pytest.mark.parametrize(("informative", "scaling"), [(10.0, "together"), (0.1, "columns")])
def test_the_spread_of_columns_is_kept_where_it_says_what_they_are_worth(informative: float, scaling: str) -> None:
    features, votes = spread(0, informative)
    model = fitted(features=features, votes=votes, likelihood="softmax", scaling="auto", epochs=12, batch_size=50)
    assert model.scaling_ == scaling
    assert set(model.history_["tried"]) == {"columns", "together"}
    named = fitted(features=features, votes=votes, likelihood="softmax", scaling=scaling, epochs=12, batch_size=50)
    assert weights(named) == weights(model)


@pytest.mark.slow
def test_the_scale_comes_first_then_the_likelihood_under_it(tmp_path: Path) -> None:
    features, votes = spread(0, 10.0)
    model = fitted(features=features, votes=votes, scaling="auto", epochs=6, batch_size=50)
    tried = model.history_["tried"]
    scaling = min(("columns", "together"), key=lambda name: tried[f"{name}, robust-max"])
    assert set(tried) == {"columns, robust-max", "together, robust-max", f"{scaling}, softmax"}
    assert model.scaling_ == scaling
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip")
    assert (again.scaling_, again.likelihood_) == (model.scaling_, model.likelihood_)


def test_columns_of_one_spread_leave_no_scale_to_choose() -> None:
    model = fitted(features=FEATURES / FEATURES.std(axis=0), scaling="auto", likelihood="softmax", epochs=2)
    assert model.scaling_ == "columns"
    assert "tried" not in model.history_


# -- what is learned --------------------------------------------------------------------------


# Both likelihoods are kept by one state of the network; each of its kinds is saved with one of them.
@pytest.mark.parametrize(
    ("name", "likelihood"),
    [
        ("svgpcr", "robust-max"),
        ("svgpcr", "softmax"),
        pytest.param("svgp", "softmax", marks=pytest.mark.slow),
        pytest.param("svgpcr-nf", "robust-max", marks=pytest.mark.slow),
        pytest.param("gpnetcr", "softmax", marks=pytest.mark.slow),
    ],
)
def test_what_is_learned_is_kept_in_the_file(name: str, likelihood: str, tmp_path: Path) -> None:
    # More of the votes disagree with any function of the features than the paper's share.
    features = np.random.default_rng(0).normal(size=FEATURES.shape) + 0.6 * FEATURES
    model = fitted(name, features=features, likelihood=likelihood)
    assert learned(model) != (1e-3 if likelihood == "robust-max" else 1.0)
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip")
    assert again.likelihood_ == likelihood
    assert learned(again) == learned(model)
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "epsilon", "kept"), [("robust-max", "fixed", 0.001), ("robust-max", 0.05, 0.05), ("softmax", "fixed", 1.0)]
)
def test_what_is_given_is_kept(likelihood: str, epsilon: Any, kept: float) -> None:
    assert learned(fitted(likelihood=likelihood, epsilon=epsilon)) == kept


def test_trainings_of_few_steps_learn_nothing_but_the_functions() -> None:
    """Eight epochs of six steps: functions at half of that know little, and a share of two thirds would explain all."""
    features, truth = blobs(0, 60, 3, gap=5.0)
    votes = votes_on(truth, even(4, 3, 0.8), share=0.8)
    model = fitted(features=features, votes=votes, likelihood="robust-max", epochs=8, batch_size=10)
    assert learned(model) == 1e-3
    assert (model.predict(features) == truth).mean() > 0.9


class StopError(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "likelihood"), [("svgpcr", "robust-max"), pytest.param("gpnetcr", "softmax", marks=pytest.mark.slow)]
)
def test_a_run_that_learns_resumes_to_the_same_bits(name: str, likelihood: str, tmp_path: Path) -> None:
    """Stopped while the likelihood learns."""

    def stop(iteration: int, *_: Any) -> None:
        if iteration == 10:
            raise StopError

    whole = fitted(name, likelihood=likelihood)
    with quiet(), pytest.raises(StopError):
        model_of(name, likelihood=likelihood, checkpoint=tmp_path / "run").fit(FEATURES, VOTES, progress=stop)
    resumed = fitted(name, likelihood=likelihood, checkpoint=tmp_path / "run")
    assert weights(resumed) == weights(whole)
    assert learned(resumed) == learned(whole)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgpcr", "gpnetcr"])
def test_a_fit_that_goes_on_keeps_the_likelihood(name: str, tmp_path: Path) -> None:
    first = fitted(name, likelihood="softmax", epochs=2)
    model = model_of(name, warm_start=True)
    with quiet():
        model.fit(FEATURES, VOTES)
        kept, value = model.likelihood_, learned(model)
        model.set_params(epochs=2).fit(FEATURES, VOTES)
    assert model.likelihood_ == kept
    assert learned(model) == value
    assert "tried" not in model.history_
    # One that was loaded goes on with its own, whatever a choice would be.
    first.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip").set_params(warm_start=True, epochs=2)
    with quiet():
        again.fit(FEATURES, VOTES)
    assert again.likelihood_ == "softmax"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf", "gpnetcr"])
def test_features_that_are_noise_do_not_talk_the_votes_down(name: str) -> None:
    """With a share that is learned labels are those of the votes, and new items as open as ever; with the paper's neither."""
    rng = np.random.default_rng(0)
    noise, truth = rng.normal(size=(600, 6)), rng.permutation(np.arange(600) % 4)
    votes = votes_on(truth[:300], np.concatenate([even(2, 4, right) for right in (0.9, 0.7, 0.45)]), share=0.7)

    def outcome(**more: Any) -> tuple[float, float]:
        model = fitted(name, noise[:300], votes, likelihood="robust-max", **more)
        new = model.predict_proba(noise[300:])[np.arange(300), truth[300:]]
        return float((model.result_.codes == truth[:300]).mean()), float(-np.log(new).mean())

    by_votes = float((crowdwise.make("dawid-skene").fit(votes).result_.codes == truth[:300]).mean())
    labels, unlikely = outcome()
    assert labels > by_votes - 0.02
    assert unlikely < np.log(4) + 0.05
    labels, unlikely = outcome(epsilon="fixed")
    assert labels < by_votes - 0.2
    assert unlikely > 2 * np.log(4)


@pytest.mark.slow
@pytest.mark.parametrize("n_items", [30, 60])
def test_sets_of_one_batch_have_the_steps_to_learn_as_well(n_items: int) -> None:
    """With an epoch per step there were too few for a likelihood to learn, and noise talked the votes down."""
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        noise, truth = rng.normal(size=(n_items + 300, 10)), rng.permutation(np.arange(n_items + 300) % 2)
        votes = votes_on(truth[:n_items], even(10, 2, 0.85), share=0.3)
        model = crowdwise.make("svgpcr", likelihood="robust-max", scaling="columns", random_state=0)
        with quiet():
            by_votes = crowdwise.make("dawid-skene").fit(votes).result_.codes == truth[:n_items]
            learns = model.fit(noise[:n_items], votes)
            fixed = clone(model).set_params(epsilon="fixed").fit(noise[:n_items], votes)
        unlikely = [-np.log(m.predict_proba(noise[n_items:])[np.arange(300), truth[n_items:]]).mean() for m in (learns, fixed)]
        found.append([(learns.result_.codes == truth[:n_items]).mean() - by_votes.mean(), *unlikely])
    gain, learnt, fixed_eps = np.mean(found, axis=0)
    assert gain > -0.05
    assert learnt < 1.0 < fixed_eps


def test_rows_without_votes_are_no_steps() -> None:
    """Of forty items with votes there is one batch, however many others stand beside them."""
    votes = VOTES.take_votes(VOTES.item < 40)
    model = crowdwise.make("svgpcr", likelihood="softmax", scaling="columns", inducing=9, random_state=0)
    with quiet():
        assert model.fit(FEATURES, votes).result_.n_iter == 333
        assert clone(model).set_params(batch_size=5).fit(FEATURES, votes).result_.n_iter == 50
        assert clone(model).set_params(epochs=3).fit(FEATURES, votes).result_.n_iter == 3


# -- batches ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_remainder_of_the_items_spoils_a_fit() -> None:
    """Batches of 50, and 0, 1, 2, 25 or 49 items over: a batch of one or two, taken for all items, broke fits."""
    features, truth = blobs(3, 800, 3, gap=2.5)
    loss = np.empty((5, 2))
    for row, n_items in enumerate((300, 301, 302, 325, 349)):
        for seed in range(2):
            votes = votes_on(truth[:n_items], even(4, 3, 0.75), seed, share=0.8)
            settings = {"epochs": 12, "batch_size": 50, "likelihood": "robust-max", "random_state": seed}
            proba = fitted(features=features[:n_items], votes=votes, **settings).predict_proba(features[400:])
            loss[row, seed] = -np.log(proba[np.arange(400), truth[400:]]).mean()
    assert loss.max() < np.median(loss) + 0.15, loss
