"""What users can see of a fitted Gaussian process: its bound, kernel, inducing points, functions and draws of them.

Expected values are written from the model alone, in numpy: a covariance and a Cholesky factor of their own, a dense process on
all items, and draws.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy.special import digamma, gammaln, logsumexp, ndtri  # noqa: E402
from scipy.stats import qmc  # noqa: E402
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.data.annotations import Annotations  # noqa: E402
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, NotFittedError, SettingError  # noqa: E402
from crowdwise.methods.classify import opened  # noqa: E402

FEATURES, TRUTH = blobs(0, 60, 3, gap=3.0)
FEATURES = FEATURES * np.array([1.0, 20.0, 0.1, 3.0]) + np.array([5.0, -100.0, 0.0, 7.0])
VOTES = votes_on(TRUTH, even(4, 3, 0.75), share=0.8)
FAST: dict[str, dict[str, Any]] = {
    "svgpcr": {"epochs": 12, "batch_size": 20, "inducing": 9},
    "svgp": {"epochs": 12, "batch_size": 20, "inducing": 9},
    "svgpcr-nf": {"epochs": 20, "batch_size": 20, "inducing": 9, "layers": 2, "draws": 4, "learning_rate": 0.02},
    "gpnetcr": {"epochs": 6, "batch_size": 30, "hidden": 15, "measured": 8, "learning_rate": 0.03},
}
# A choice would take two more fits: tests/methods/classify/test_chosen_settings.py.
GIVEN = {"random_state": 0, "likelihood": "robust-max", "scaling": "columns"}
SPARSE = ("svgpcr", "svgp", "svgpcr-nf")
every_method = pytest.mark.parametrize("name", FAST)
sparse_method = pytest.mark.parametrize("name", SPARSE)


def fitted(name: str, features: Any = FEATURES, votes: Any = VOTES, fit: dict[str, Any] | None = None, **more: Any) -> Any:
    with quiet():
        return crowdwise.make(name, **(GIVEN | FAST[name] | more)).fit(features, votes, **(fit or {}))


@cache
def shared(name: str) -> Any:
    """A fit of the paper's model that tests share: look, do not touch."""
    return fitted(name, likelihood="robust-max", epsilon="fixed")


# -- the process once more, in numpy ----------------------------------------------------------


def rbf(left: np.ndarray, right: np.ndarray, kernel: Any) -> np.ndarray:
    square = ((left[:, None] - right[None]) ** 2).sum(2)
    return kernel.variance * np.exp(-square / 2 / kernel.lengthscale**2)


def standardised(features: np.ndarray) -> np.ndarray:
    return (features - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)


def parts(model: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariance of rows given the inducing values [N, N], what multiplies these [N, M], and their prior's factor [M, M]."""
    rows, points = standardised(features), standardised(model.inducing_points_)
    between = rbf(points, points, model.kernel_)
    factor = np.linalg.cholesky(between + 1e-6 * model.kernel_.variance * np.eye(len(points)))
    weight = np.linalg.solve(factor, rbf(points, rows, model.kernel_)).T
    return rbf(rows, rows, model.kernel_) - weight @ weight.T, weight, factor


@pytest.mark.parametrize("options", [{}, {"covariance": "diagonal"}, {"posterior_steps": "optimizer", "learning_rate": 0.03}])
def test_means_and_joint_covariances_are_those_of_the_formulas(options: dict[str, Any]) -> None:
    model = fitted("svgpcr", **options)
    left, weight, _ = parts(model, FEATURES[:25])
    process = model.network_[1]
    mean, found = model.latent(FEATURES[:25], covariance=True)
    assert found.shape == (3, 25, 25)
    for k in range(3):
        root = np.tril(process.root_kmm[k].detach().numpy()) if options.get("posterior_steps") else process.root_kmm[k].numpy()
        np.testing.assert_allclose(found[k], left + weight @ root @ root.T @ weight.T, atol=1e-7)
        np.testing.assert_allclose(mean[:, k], weight @ process.mean_km[k].detach().numpy(), atol=1e-7)


def test_with_a_posterior_that_conditions_on_values_it_is_the_dense_process_on_them() -> None:
    """Inducing values seen with noise: the exact posterior of a dense Gaussian process at new rows."""
    model = fitted("svgpcr")
    process, noise = model.network_[1], 0.3
    _, _, factor = parts(model, FEATURES[:1])
    seen = np.random.default_rng(0).normal(size=(3, len(factor)))
    precision = np.eye(len(factor)) + factor.T @ factor / noise
    spread = np.linalg.inv(precision)
    with torch.no_grad():
        process.root_kmm.copy_(torch.tensor(np.linalg.cholesky(spread)).expand_as(process.root_kmm))
        process.mean_km.copy_(torch.tensor(seen @ factor @ spread / noise))
    rows, points = standardised(FEATURES[:20]), standardised(model.inducing_points_)
    inner = rbf(points, points, model.kernel_) + (noise + 1e-6 * model.kernel_.variance) * np.eye(len(points))
    across = rbf(rows, points, model.kernel_)
    gain = np.linalg.solve(inner, across.T).T
    mean, found = model.latent(FEATURES[:20], covariance=True)
    np.testing.assert_allclose(mean, gain @ seen.T, atol=1e-5)
    np.testing.assert_allclose(found, np.broadcast_to(rbf(rows, rows, model.kernel_) - gain @ across.T, found.shape), atol=1e-5)


@every_method
def test_variances_are_the_diagonal_of_the_covariances(name: str) -> None:
    model = shared(name)
    mean, variance = model.latent(FEATURES)
    again, joint = model.latent(FEATURES, covariance=True)
    np.testing.assert_allclose(again, mean, atol=1e-9)
    np.testing.assert_allclose(np.einsum("knn->nk", joint), variance, atol=1e-9)
    assert np.linalg.eigvalsh(joint).min() > -1e-8


def test_covariances_of_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opened, "_MOST_ENTRIES", 300)
    model = shared("svgpcr")
    assert model.latent(FEATURES[:10], covariance=True)[1].shape == (3, 10, 10)
    with pytest.raises(InputError, match="covariances of 3 functions are computed for at most 10 rows at a time; got 11"):
        model.latent(FEATURES[:11], covariance=True)


# -- draws ------------------------------------------------------------------------------------


@every_method
def test_draws_have_the_moments_of_the_functions(name: str) -> None:
    model = shared(name)
    mean, joint = model.latent(FEATURES[:8], covariance=True)
    drawn = model.latent_draws(FEATURES[:8], 20_000, random_state=3)
    assert drawn.shape == (20_000, 8, 3)
    # Of a bent posterior, `latent` has 64 draws of its own.
    few = 64 if name == "svgpcr-nf" else 20_000
    for k in range(3):
        sd = np.sqrt(np.diagonal(joint[k]))
        assert (np.abs(drawn[:, :, k].mean(axis=0) - mean[:, k]) < 5 * sd / few**0.5).all()
        apart = np.abs(np.cov(drawn[:, :, k].T) - joint[k]) / np.outer(sd, sd)
        assert apart.max() < 5 * (2 / few) ** 0.5
    across = np.corrcoef(drawn[:, 0].T)
    assert np.abs(across - np.eye(3)).max() < 0.04  # the functions of different classes are independent


@every_method
def test_draws_depend_on_the_seed_alone(name: str) -> None:
    model = shared(name)
    first, again, other = (model.latent_draws(FEATURES[:5], 4, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@every_method
@pytest.mark.parametrize("likelihood", ["robust-max", "softmax"])
def test_probabilities_of_draws_average_to_those_of_predictions(name: str, likelihood: str) -> None:
    """Of a softmax without a learned temperature, which is applied to the average and to draws alike."""
    model = fitted(name, likelihood=likelihood, epsilon="fixed", epochs=4) if likelihood == "softmax" else shared(name)
    drawn = model.latent_draws(FEATURES[:8], 4_000, random_state=0, probability=True)
    np.testing.assert_allclose(drawn.sum(axis=2), 1, atol=1e-9)
    # Predictions of flows are by 64 draws.
    exact = name != "svgpcr-nf"
    np.testing.assert_allclose(drawn.mean(axis=0), model.predict_proba(FEATURES[:8]), atol=0.03 if exact else 0.06)


def test_given_functions_the_largest_wins_but_for_a_share_and_a_softmax_is_one() -> None:
    hard, soft = shared("svgpcr"), fitted("svgpcr", likelihood="softmax", epsilon="fixed")
    drawn = hard.latent_draws(FEATURES, 5, random_state=0)
    won = hard.latent_draws(FEATURES, 5, random_state=0, probability=True)
    np.testing.assert_array_equal(won.argmax(axis=2), drawn.argmax(axis=2))
    assert len(np.unique(won.max(axis=2).round(6))) == 1
    drawn = soft.latent_draws(FEATURES, 5, random_state=0)
    expected = np.exp(drawn - logsumexp(drawn, axis=2, keepdims=True))
    np.testing.assert_allclose(soft.latent_draws(FEATURES, 5, random_state=0, probability=True), expected, atol=1e-5)


def test_draws_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = shared("svgpcr")
    for odd in (0, 1.5, True, "ten"):
        with pytest.raises(SettingError, match="n_draws"):
            model.latent_draws(FEATURES, odd)
    monkeypatch.setattr(opened, "_MOST_ROWS", 10)
    with pytest.raises(InputError, match="functions are drawn jointly for at most 10 rows at a time; got 11"):
        model.latent_draws(FEATURES[:11])


# -- the bound --------------------------------------------------------------------------------


def terms(model: Any, votes: Annotations, expected: np.ndarray, kl: float) -> np.ndarray:
    """The five terms at the fixed point of labels and matrices, by plain loops, from where the fit left the matrices."""
    prior = np.full((3, 3), 0.5) + 1.5 * np.eye(3)
    beta = model.concentration_.copy()
    weight = np.ones(votes.n_votes) if votes.weight is None else votes.weight
    taught = votes.votes_per_item > 0
    for _ in range(500):
        log = digamma(beta) - digamma(beta.sum(axis=2, keepdims=True))
        score = expected.copy()
        for i, a, y, w in zip(votes.item, votes.annotator, votes.label, weight, strict=True):
            score[i] += w * log[a, :, y]
        q = np.exp(score - logsumexp(score, axis=1, keepdims=True))
        if votes.gold is not None:
            q[votes.gold >= 0] = np.eye(3)[votes.gold[votes.gold >= 0]]
            taught = taught | (votes.gold >= 0)
        if _ == 499:
            break
        beta = np.tile(prior, (votes.n_annotators, 1, 1))
        for i, a, y, w in zip(votes.item, votes.annotator, votes.label, weight, strict=True):
            beta[a, :, y] += w * q[i]
    voted = sum(
        w * (q[i] * log[a, :, y]).sum() for i, a, y, w in zip(votes.item, votes.annotator, votes.label, weight, strict=True)
    )
    own = q[taught]
    matrices = gammaln(beta.sum(axis=2)) - gammaln(beta).sum(axis=2) - gammaln(prior.sum(axis=1)) + gammaln(prior).sum(axis=1)
    matrices = (matrices + ((beta - prior) * log).sum(axis=2)).sum()
    entropy = -(own[own > 0] * np.log(own[own > 0])).sum()
    return np.array([(own * expected[taught]).sum(), voted, entropy, -kl, -matrices])


def gaussian_kl(process: Any) -> float:
    total = 0.0
    for mean, root in zip(process.mean_km.numpy(), process.root_kmm.numpy(), strict=True):
        spread = root @ root.T
        total += (np.trace(spread) + mean @ mean - len(mean) - np.linalg.slogdet(spread)[1]) / 2
    return total


def crowds() -> dict[str, tuple[Annotations, dict[str, Any]]]:
    some = VOTES.take_votes(VOTES.item % 6 != 0)
    weight = np.random.default_rng(0).uniform(0.3, 2, VOTES.n_votes)
    heavy = Annotations.from_arrays(
        VOTES.item, VOTES.annotator, VOTES.label, weight, items=range(60), annotators=range(4), classes=range(3)
    )
    return {
        "plain": (VOTES, {}),
        "gold, and items without votes": (some, {"gold": {0: int(TRUTH[0]), 1: int(TRUTH[1])}}),
        "votes with weights": (heavy, {}),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("name", "which"), [*(("svgpcr", which) for which in crowds()), ("svgp", "votes with weights")])
def test_the_bound_by_its_terms(name: str, which: str) -> None:
    """E log nu of a softmax by draws of the functions' own moments; everything else in closed form."""
    votes, more = crowds()[which]
    model = fitted(name, votes=votes, fit=more, likelihood="softmax", epochs=6, class_shares="free", annotator_prior="dir:2,1")
    mean, variance = model.latent(FEATURES)
    draws = ndtri(qmc.Sobol(3, seed=9).random(2**13))
    f = mean + np.sqrt(variance) * draws[:, None, :]
    expected = (f - logsumexp(f, axis=2, keepdims=True)).mean(axis=0)
    found = terms(model, model.result_.votes, expected, gaussian_kl(model.network_[1]))
    np.testing.assert_allclose(list(model.bound_.values()), found, rtol=1e-4, atol=0.3)
    assert list(model.bound_) == [
        "labels under the functions",
        "votes under the labels",
        "entropy of labels",
        "minus KL of inducing values",
        "minus KL of matrices",
    ]


@pytest.mark.slow
def test_the_bound_of_robust_max_by_draws_of_the_functions() -> None:
    model = fitted("svgpcr", epochs=8, likelihood="robust-max", class_shares="free", annotator_prior="dir:2,1")
    mean, variance = model.latent(FEATURES)
    noise = np.random.default_rng(0).normal(size=(20_000, 60, 3))
    share = np.eye(3)[(mean + np.sqrt(variance) * noise).argmax(axis=2)].mean(axis=0)
    eps = float(model.network_[1].likelihood.eps)
    expected = share * np.log(1 - eps) + (1 - share) * np.log(eps / 2)
    found = terms(model, VOTES, expected, gaussian_kl(model.network_[1]))
    np.testing.assert_allclose(sum(model.bound_.values()), found.sum(), atol=1.0)
    np.testing.assert_allclose(model.bound_["minus KL of inducing values"], found[3], rtol=1e-9)


@pytest.mark.slow
def test_the_bound_of_flows_by_new_draws() -> None:
    """KL of a bent posterior: E [log q(v) - log p(v)] with the density of v by the inverse map of the flows."""
    model = shared("svgpcr-nf")
    process = model.network_[1]
    assert bool(process.flowing)
    noise = torch.tensor(np.random.default_rng(0).normal(size=(4000, *process.mean_km.shape)))
    with torch.no_grad():
        _, values, log_det = process.bent(noise)
        log_base = -(noise**2).sum(2) / 2 - process.log_scale_km.sum(1)
        log_base = log_base - torch.linalg.slogdet(process.root_kmm)[1]
        each = log_base - log_det + (values**2).sum(2) / 2
    kl, error = float(each.sum(1).mean()), float(each.sum(1).std())
    assert abs(-model.bound_["minus KL of inducing values"] - kl) < 4 * error / 64**0.5


@sparse_method
def test_the_bound_comes_back_from_a_file(name: str, tmp_path: Path) -> None:
    model = shared(name)
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip")
    assert again.bound_ == model.bound_
    assert again.kernel_ == model.kernel_
    np.testing.assert_array_equal(again.inducing_points_, model.inducing_points_)
    np.testing.assert_array_equal(
        again.latent_draws(FEATURES, 2, random_state=0), model.latent_draws(FEATURES, 2, random_state=0)
    )


def test_a_file_without_the_bound_says_so() -> None:
    model = fitted("svgpcr", epochs=1)
    del model.history_["bound"]
    with pytest.raises(InputError, match="did not keep the bound; fit it again"):
        _ = model.bound_


@pytest.mark.parametrize("what", ["bound_", "inducing_points_"])
def test_gpnetcr_says_why_it_has_no_such_thing(what: str) -> None:
    model = shared("gpnetcr")
    assert not hasattr(model, what)
    with pytest.raises(AttributeError, match=f"gpnetcr has no {what.removesuffix('_').replace('_', ' ')}"):
        getattr(model, what)


@every_method
def test_before_a_fit_there_is_nothing_to_see(name: str) -> None:
    model = crowdwise.make(name)
    for look in (lambda: model.kernel_, lambda: model.latent_draws(FEATURES), lambda: model.latent(FEATURES, True)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            look()
    if name in SPARSE:
        for look in (lambda: model.bound_, lambda: model.inducing_points_):
            with pytest.raises(NotFittedError, match="not fitted yet"):
                look()


# -- kernel and inducing points ---------------------------------------------------------------


@every_method
def test_the_kernel_is_that_of_the_process(name: str) -> None:
    model = shared(name)
    rows = np.random.default_rng(0).normal(size=(6, 4))
    with torch.no_grad():
        found = model.network_[1].covariance(torch.tensor(rows), torch.tensor(rows)).numpy()
    assert model.kernel_.kind == "rbf"
    np.testing.assert_allclose(found, rbf(rows, rows, model.kernel_), atol=1e-9)
    assert str(model.kernel_) == f"{model.kernel_.variance:.4g} * rbf(lengthscale={model.kernel_.lengthscale:.4g})"


def test_sums_and_products_are_read_part_by_part_with_the_names_of_features() -> None:
    import pandas as pd

    frame = pd.DataFrame(FEATURES, columns=["a", "b", "c", "d"])
    model = fitted("svgpcr", frame, kernel="rbf*linear+matern", ard=True, epochs=4, frozen=0)
    whole = model.kernel_
    assert (whole.kind, whole.variance, whole.lengthscale) == ("sum", None, None)
    product, matern = whole.parts
    assert (product.kind, [part.kind for part in product.parts], matern.kind) == ("product", ["rbf", "linear"], "matern")
    assert list(matern.lengthscale) == ["a", "b", "c", "d"]
    rows = np.random.default_rng(0).normal(size=(6, 4))

    def distance(part: Any) -> np.ndarray:
        scaled = rows / np.array(list(part.lengthscale.values()))
        return np.sqrt(((scaled[:, None] - scaled[None]) ** 2).sum(2))

    first, second = product.parts
    scaled = rows / np.array(list(second.lengthscale.values()))
    r = np.sqrt(5) * distance(matern)
    expected = first.variance * np.exp(-(distance(first) ** 2) / 2) * second.variance * (1 + scaled @ scaled.T)
    expected += matern.variance * (1 + r + r**2 / 3) * np.exp(-r)
    with torch.no_grad():
        found = model.network_[1].covariance(torch.tensor(rows), torch.tensor(rows)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert "4 features" in str(whole)


def test_without_names_length_scales_go_by_position() -> None:
    assert list(fitted("svgpcr", ard=True, epochs=1).kernel_.lengthscale) == [0, 1, 2, 3]


def test_a_gpytorch_kernel_is_read_as_well() -> None:
    kernels = pytest.importorskip("gpytorch.kernels")
    own = kernels.ScaleKernel(kernels.RBFKernel(active_dims=[1, 3], ard_num_dims=2)) + kernels.LinearKernel()
    own.kernels[0].outputscale = 2.5
    own.kernels[0].base_kernel.lengthscale = torch.tensor([0.5, 4.0])
    own.kernels[1].variance = 0.7
    kernel = fitted("svgpcr", kernel=own, epochs=1, learning_rate=1e-9).kernel_
    scaled, linear = kernel.parts
    assert (kernel.kind, scaled.kind, linear.kind, linear.lengthscale) == ("sum", "RBFKernel", "LinearKernel", None)
    assert (scaled.variance, linear.variance) == (pytest.approx(2.5, rel=1e-4), pytest.approx(0.7, rel=1e-4))
    assert scaled.lengthscale == {1: pytest.approx(0.5, rel=1e-4), 3: pytest.approx(4.0, rel=1e-4)}


@pytest.mark.parametrize("scaling", ["columns", "together"])
def test_inducing_points_lie_among_the_rows_in_their_units(scaling: str) -> None:
    """With as many points as rows and none that moves, they are the rows."""
    model = fitted("svgpcr", inducing=60, frozen=99, epochs=1, scaling=scaling)
    found = model.inducing_points_
    assert found.shape == (60, 4)
    nearest = np.abs(found[:, None] - FEATURES[None]).max(axis=2).argmin(axis=1)
    assert sorted(nearest.tolist()) == list(range(60))
    np.testing.assert_allclose(found, FEATURES[nearest], atol=1e-8)


# -- warnings, and when a fit has converged ---------------------------------------------------


@pytest.mark.slow
def test_long_natural_steps_are_warned_of() -> None:
    with pytest.warns(ConvergenceWarning, match=r"rate=1: natural steps above 0\.6"):
        crowdwise.make("svgpcr", rate=1.0, epochs=1, inducing=5, **GIVEN).fit(FEATURES, VOTES)
    crowdwise.make("svgpcr", rate=0.6, epochs=1, inducing=5, **GIVEN).fit(FEATURES, VOTES)  # warnings are errors here
    crowdwise.make("svgpcr", rate=1.0, epochs=1, inducing=5, posterior_steps="optimizer", **GIVEN).fit(FEATURES, VOTES)


@every_method
def test_constant_columns_are_named_at_most_five(name: str) -> None:
    few = np.column_stack([FEATURES, np.full(60, 3.0)])
    with pytest.warns(DataWarning, match="1 column is the same in all rows and cannot tell classes apart: 4, counted from 0"):
        crowdwise.make(name, **(GIVEN | FAST[name] | {"epochs": 1})).fit(few, VOTES)
    many = np.column_stack([np.zeros((60, 7)), FEATURES])
    with pytest.warns(DataWarning, match=r"7 columns are .*: 0, 1, 2, 3, 4, \.\.\. \(2 more\), counted"):
        crowdwise.make(name, **(GIVEN | FAST[name] | {"epochs": 1})).fit(many, VOTES)


def test_constant_columns_have_their_names() -> None:
    import pandas as pd

    frame = pd.DataFrame({"width": FEATURES[:, 0], "unit": 1.0})
    with pytest.warns(DataWarning, match="apart: 'unit'; leave them out"):
        crowdwise.make("svgpcr", epochs=1, inducing=5, **GIVEN).fit(frame, VOTES)


@pytest.mark.slow
def test_a_fit_of_few_epochs_has_not_converged_and_a_long_one_has() -> None:
    assert not fitted("svgpcr", epochs=6, batch_size=100).converged_
    features, truth = blobs(0, 600, 3, gap=3.0)
    votes = votes_on(truth, even(4, 3, 0.75), share=0.8)
    model = fitted("svgpcr", features, votes, batch_size=100, epochs=60, learning_rate=3e-3)
    last = np.array(model.history_["loss"][-10:])
    assert model.converged_, last
    assert abs(last[5:].mean() - last[:5].mean()) <= 0.01


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ([0.5] * 10, True),
        ([0.5] * 9, False),
        ([0.5] * 5 + [0.489] * 5, False),
        ([0.5] * 5 + [0.491] * 5, True),
        ([9.0] * 20 + [0.3] * 10, True),
        ([0.3] * 5 + [0.4] * 5, False),
        ([0.5, 0.52, 0.48, 0.51, 0.49] * 2, True),
    ],
)
def test_the_rule_for_a_loss_that_has_levelled_off(loss: list[float], expected: bool) -> None:
    assert opened.levelled_off(loss) is expected
