"""Options of the Gaussian processes: what moves the posterior, its covariance, and priors of single annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.engines.gradient.helpers import batch_of, blobs, even, quiet, votes_on  # noqa: E402

import crowdwise  # noqa: E402
from crowdwise.errors import DataWarning, SettingError  # noqa: E402
from crowdwise.methods.classify.svgpcr import _centres  # noqa: E402
from crowdwise.parts.heads.process import ProcessHead  # noqa: E402
from crowdwise.parts.priors.abilities import dirichlet_rows  # noqa: E402
from crowdwise.parts.priors.covariance import covariance  # noqa: E402
from crowdwise.parts.priors.robust_max import RobustMax  # noqa: E402
from crowdwise.parts.priors.sparse_gp import SparseGP  # noqa: E402

FEATURES, TRUTH = blobs(0, 90, 3, gap=5.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.8), share=0.8)
OPTIONS = {
    "diagonal": {"covariance": "diagonal"},
    "optimiser": {"posterior_steps": "optimizer", "learning_rate": 0.03},
    "optimiser, diagonal": {"posterior_steps": "optimizer", "covariance": "diagonal", "learning_rate": 0.03},
    "natural steps of the matrices": {"steps": "natural"},
}


def fitted(name: str = "svgpcr", **more: Any) -> Any:
    fast = {"epochs": 12, "batch_size": 15, "inducing": 9}
    if name == "gpnetcr":
        fast = {"epochs": 6, "batch_size": 30, "hidden": 15, "measured": 8, "learning_rate": 0.03}
    with quiet():
        # A choice of the likelihood would take two more fits: tests/methods/classify/test_chosen_settings.py.
        return crowdwise.make(name, **({"likelihood": "robust-max", "scaling": "columns"} | fast | more)).fit(FEATURES, VOTES)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_option_learns_and_comes_back_from_its_file(options: dict[str, Any], tmp_path: Path) -> None:
    model = fitted(**options)
    assert (model.predict(FEATURES) == TRUTH).mean() > 0.95
    assert (model.labels_ == TRUTH).mean() > 0.95
    model.save(tmp_path / "model.zip")
    again = crowdwise.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict_proba(FEATURES), model.predict_proba(FEATURES))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgpcr-nf", "gpnetcr"])
def test_natural_steps_of_the_matrices_are_there_for_all(name: str) -> None:
    exact, natural = fitted(name), fitted(name, steps="natural")
    assert (natural.predict(FEATURES) == TRUTH).mean() > 0.95
    assert not np.array_equal(exact.predict_proba(FEATURES), natural.predict_proba(FEATURES))


def test_a_diagonal_posterior_has_a_diagonal_root() -> None:
    root = fitted(covariance="diagonal").network_[1].root_kmm
    assert torch.equal(root, root.diagonal(dim1=1, dim2=2).diag_embed())


def test_flows_bend_a_posterior_of_natural_steps_alone() -> None:
    with pytest.raises(SettingError, match="posterior_steps must be one of natural"):
        fitted("svgpcr-nf", posterior_steps="optimizer")


@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf", "gpnetcr"])
def test_columns_scaled_together_keep_their_proportions(name: str) -> None:
    wide = FEATURES * np.array([1.0, 100.0, *[1.0] * (FEATURES.shape[1] - 2)])
    with quiet():
        once = {"epochs": 1, "likelihood": "robust-max", "scaling": "columns"}
        scale = crowdwise.make(name, **once | {"scaling": "together"}).fit(wide, VOTES).network_[0].scale
        own = crowdwise.make(name, **once).fit(wide, VOTES).network_[0].scale
    np.testing.assert_allclose(scale, np.sqrt(wide.var(axis=0).mean()), rtol=1e-9)
    np.testing.assert_allclose(own, wide.std(axis=0), rtol=1e-9)


def test_every_class_of_the_start_gets_an_inducing_point_the_rare_ones_included() -> None:
    """Two wide clouds and five rows on one spot amid the first: k-means over all rows would give the spot nothing."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0, 5, (500, 2)), rng.normal(40, 5, (500, 2)), np.full((5, 2), 1.0)])
    label = np.repeat([0, 1, 2], [500, 500, 5])
    found = _centres(rows, label, 4, 8, 0)
    assert found.shape == (8, 2)
    assert np.abs(found - 1.0).sum(axis=1).min() < 1e-9
    assert (found > 20).all(axis=1).sum() == 3  # by the roots of the sizes: 3.7, 3.7 and 0.4, and no class without
    assert len(_centres(rows, label, 4, 2, 0)) == 2


@pytest.mark.parametrize("warm", [True, False])
def test_in_the_warm_up_a_function_that_is_nowhere_the_largest_is_still_drawn_up(warm: bool) -> None:
    """Means of minus fifty for a class that all rows are of: robust-max has no slope there, a softmax has."""
    votes = votes_on(np.zeros(4, int), even(2, 3, 0.9), share=1.0)
    process = SparseGP(covariance("rbf", 2, lengthscale=1.0).double(), RobustMax(), torch.eye(2, dtype=torch.float64), 3)
    start = torch.tensor([[1.0, 0.0, 0.0]] * 4, dtype=torch.float64)
    head = ProcessHead(votes, np.ones((1, 3, 3)), start, process, rate=0.1, warmup=2, frozen=0)
    head.n_soft = 2 if warm else 0
    rows = torch.zeros(4, 2, dtype=torch.float64)
    process.train()(rows)
    moments = torch.tensor([[-50.0, 0, 0, 1, 1, 1]] * 4, dtype=torch.float64)
    head.loss(moments, batch_of(votes))
    assert head._pending is not None
    drawn_up = head._pending[2][:, 0]
    assert (drawn_up > 0.5).all() if warm else (drawn_up.abs() < 1e-9).all()


# -- priors of single annotators --------------------------------------------------------------


def test_priors_go_to_the_annotators_that_they_name() -> None:
    rows = dirichlet_rows({"b": "dir:8,3", "*": "dir:2,1"}, 4, np.array(["a", "b", "c"]))
    for who, right, wrong in ((0, 2, 1 / 3), (1, 8, 1), (2, 2, 1 / 3)):
        np.testing.assert_allclose(rows[who], np.where(np.eye(4, dtype=bool), right, wrong))


def test_numbers_as_names_may_be_written_as_text() -> None:
    assert dirichlet_rows({"7": "dir:9,1", "*": "dir:2,1"}, 2, np.array([3, 7]))[1, 0, 0] == 9


def test_annotators_without_a_prior_are_named() -> None:
    with pytest.raises(SettingError, match=r"no prior for annotator 'c'.*under '\*'"):
        dirichlet_rows({"a": "dir:8,3"}, 4, np.array(["a", "c"]))


def test_priors_of_nobody_are_warned_of() -> None:
    with pytest.warns(DataWarning, match="1 annotators who gave no votes, such as 'z'"):
        dirichlet_rows({"z": "dir:8,3", "*": "dir:2,1"}, 4, np.array(["a", "c"]))


@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf", "gpnetcr", "bayes-dgc"])
def test_the_posterior_of_an_annotator_is_its_own_prior_and_its_counts(name: str, tmp_path: Path) -> None:
    """Each row's parameters sum to the prior's sum and the votes that its true class got."""
    settings = {"annotator_prior": {"*": "dir:2,1", "1": "dir:20,4"}, "epochs": 3}
    settings |= {} if name == "bayes-dgc" else {"likelihood": "robust-max", "scaling": "columns"}
    with quiet():
        model = crowdwise.make(name, **settings).fit(FEATURES, VOTES)
    given = np.bincount(VOTES.annotator, minlength=4)
    total = model.concentration_.sum(axis=(1, 2)) - given
    np.testing.assert_allclose(total, [9, 72, 9, 9], atol=1e-6)
    model.save(tmp_path / "model.zip")
    assert crowdwise.load(tmp_path / "model.zip").annotator_prior == settings["annotator_prior"]


def test_a_strong_prior_decides_where_votes_are_few() -> None:
    features, truth = blobs(0, 12, 2, gap=0.5)
    votes = votes_on(truth, even(2, 2, 0.5), share=1.0)
    with quiet():
        model = crowdwise.make("svgpcr", annotator_prior={"0": "dir:200,1", "*": "dir:1.1,1"}, epochs=3).fit(features, votes)
    first = votes.label[votes.annotator == 0]
    assert (model.labels_[votes.item[votes.annotator == 0]] == first).all()


# -- latent functions -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["svgpcr", "svgpcr-nf", "gpnetcr"])
def test_draws_of_the_latent_functions_vote_for_the_classes_that_are_predicted(name: str) -> None:
    model = fitted(name, epsilon="fixed")
    mean, variance = model.latent(FEATURES)
    assert mean.shape == variance.shape == (90, 3)
    assert (variance > 0).all()
    draws = np.random.default_rng(0).normal(mean, np.sqrt(variance), (20_000, 90, 3)).argmax(axis=2)
    share = np.stack([(draws == k).mean(axis=0) for k in range(3)], axis=1)
    # Flows make the functions of a row depend on each other, a little.
    np.testing.assert_allclose(model.predict_proba(FEATURES), share, atol=0.05 if name == "svgpcr-nf" else 0.015)


@pytest.mark.parametrize("name", ["vgpcr", "rodr14", "rff", "vff"])
def test_the_latent_function_of_two_classes_is_above_zero_for_the_second(name: str) -> None:
    features, truth = blobs(0, 60, 2, gap=5.0)
    with quiet():
        model = crowdwise.make(name).fit(features, votes_on(truth, even(4, 2, 0.8), share=0.8))
    mean, variance = model.latent(features)
    assert mean.shape == variance.shape == (60,)
    np.testing.assert_array_equal(mean > 0, model.predict(features) == 1)
    assert (variance > 0).all()


@pytest.mark.parametrize(("likelihood", "error"), [("robust-max", 1e-6), ("softmax", 0.01)])
def test_far_from_all_rows_the_process_is_its_prior(likelihood: str, error: float) -> None:
    model = fitted(likelihood=likelihood)
    mean, variance = model.latent(np.full((1, FEATURES.shape[1]), 1e4))
    np.testing.assert_allclose(mean, 0, atol=1e-9)
    np.testing.assert_allclose(variance, model.network_[1].covariance.log_variance.exp().item(), rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(np.full((1, FEATURES.shape[1]), 1e4)), 1 / 3, atol=error)
