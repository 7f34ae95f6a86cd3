"""vgpcr, rff, vff and rodr14: Gaussian processes for two classes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss
from scipy.sparse import csr_array
from scipy.special import expit, ndtr
from tests.methods.classify.crowds import vote
from tests.methods.labels.helpers import quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import alternate
from crowdwise.errors import CostWarning, InputError, SettingError
from crowdwise.estimator import estimator as cost
from crowdwise.estimator.codec import pack, unpack
from crowdwise.estimator.loading import load
from crowdwise.estimator.registry import make
from crowdwise.methods.classify.fourier_gp import FourierGP, FourierModel
from crowdwise.methods.classify.process_model import ProcessModel, kept_rows
from crowdwise.methods.classify.rodr14 import ProbitGP, Rodr14, tilted_moments
from crowdwise.methods.classify.vgpcr import VGPCR
from crowdwise.parts.annotators.model import DirichletConfusion
from crowdwise.parts.priors.logistic_gp import LogisticGP, SquaredExponential, squared_distances

METHODS = ("vgpcr", "rff", "vff", "rodr14")
method = pytest.mark.parametrize("method", METHODS)
GOOD, GUESSING, LYING = [[0.85, 0.15], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]], [[0.1, 0.9], [0.85, 0.15]]


def quadrants(seed: int, n_items: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes that no line separates: opposite quadrants."""
    features = np.random.default_rng(seed).normal(size=(n_items, 2))
    return features, (features[:, 0] * features[:, 1] > 0).astype(int)


def crowd(seed: int, truth: np.ndarray, per_item: int = 3) -> Annotations:
    return vote(seed, truth, [GOOD, GOOD, GOOD, GUESSING, LYING], per_item)


def is_sound(model: Any, features: Any) -> None:
    proba = model.predict_proba(features)
    assert proba.shape == (features.shape[0], 2)
    for rows in (model.posterior_, model.confusion_, proba, model.prior_):
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(rows.sum(axis=-1), 1, atol=1e-8)
    assert np.isfinite(model.trace_).all()


@method
def test_a_border_that_is_no_line_is_learned_beside_a_spammer_and_an_adversary(method: str) -> None:
    features, truth = quadrants(0, 200)
    fresh, its_truth = quadrants(1, 400)
    votes = crowd(0, truth)
    model = make(method).fit(features, votes)
    assert (model.labels_ == truth).mean() > 0.92
    assert model.score(fresh, its_truth) > 0.88
    confusion = model.confusion_
    np.testing.assert_allclose(confusion[0], GOOD, atol=0.12)
    assert abs(confusion[3, 0, 0] - confusion[3, 1, 0]) < 0.2
    np.testing.assert_allclose(confusion[4], LYING, atol=0.15)
    # Far from every item, a process knows nothing; Fourier features are waves and never end.
    if method in ("vgpcr", "rodr14"):
        np.testing.assert_allclose(model.predict_proba(np.array([[60.0, -40.0]])), 0.5, atol=1e-6)


@method
def test_other_numbers_of_classes_are_refused(method: str) -> None:
    features = np.zeros((3, 2))
    three = Annotations.from_arrays([0, 1, 2], [0, 0, 0], [0, 1, 2])
    with pytest.raises(InputError, match=f"{method} is for two classes; these votes have 3; use svgpcr"):
        make(method).fit(features, three)
    with pytest.raises(InputError, match="at least two classes"):
        make(method).fit(features, Annotations.from_arrays([0, 1, 2], [0, 0, 0], [5, 5, 5]))


@method
def test_odd_crowds_give_sound_fits(method: str) -> None:
    features, truth = quadrants(2, 30)
    votes = crowd(2, truth)
    items = np.arange(30)
    one_class = Annotations.from_arrays(items, items % 3, np.ones(30, int), items=items, classes=[0, 1])
    cases: dict[str, tuple[Any, Any]] = {
        "one item": (features[:1], Annotations.from_arrays([0, 0], [0, 1], [0, 1])),
        "two items": (features[:2], Annotations.from_arrays([0, 1], [0, 1], [0, 1])),
        "one annotator": (features, truth),
        "one class only": (features, one_class),
        "items without votes": (features, votes.take_votes(votes.item % 3 == 0)),
        "votes that weigh nothing": (features, Annotations.from_arrays(items, items % 2, truth, np.zeros(30), items=items)),
        "one feature": (features[:, :1], votes),
        "constant features": (np.ones((30, 3)), votes),
        "rows that are the same": (np.repeat(features[:3], 10, axis=0), votes),
        "huge numbers": (1e8 + 1e6 * features, votes),
        "float32": (features.astype(np.float32), votes),
        "sparse": (csr_array(features), votes),
    }
    few = {"frequencies": 20} if method in ("rff", "vff") else {}
    for case, (rows, crowd_votes) in cases.items():
        try:
            with quiet():
                model = make(method, max_iter=15, **few).fit(rows, crowd_votes)
            is_sound(model, rows)
        except Exception as problem:
            raise AssertionError(f"{case}: {problem!r}") from problem
    with quiet():
        model = make(method).fit(features, one_class)
    assert (model.labels_ == 1).all()


@method
def test_gold_labels_stay_and_teach(method: str) -> None:
    features, truth = quadrants(3, 120)
    # Guesses only: the border comes from gold, on every second item.
    votes = vote(3, truth, [GUESSING, GUESSING], 2)
    model = make(method).fit(features, votes, gold={n: int(truth[n]) for n in range(0, 120, 2)})
    np.testing.assert_allclose(model.posterior_[::2], np.eye(2)[truth[::2]])
    assert (model.labels_ == truth)[1::2].mean() > 0.8


@method
def test_the_scale_of_columns_and_sparse_storage_change_nothing(method: str) -> None:
    features, truth = quadrants(4, 60)
    votes = crowd(4, truth)
    with quiet():
        plain = make(method, max_iter=20).fit(features, votes)
        scaled = make(method, max_iter=20).fit(features * [1000.0, 0.01] + [5.0, 0.0], votes)
        sparse = make(method, max_iter=20).fit(csr_array(features), votes)
    np.testing.assert_allclose(scaled.posterior_, plain.posterior_, atol=1e-3)
    # A model of dense rows takes sparse ones and the other way round.
    np.testing.assert_allclose(plain.predict_proba(csr_array(features)), plain.predict_proba(features), atol=1e-9)
    np.testing.assert_allclose(sparse.predict_proba(features), sparse.predict_proba(csr_array(features)), atol=1e-9)


@method
def test_a_model_is_rebuilt_from_its_state(method: str) -> None:
    features, truth = quadrants(5, 40)
    for rows in (features, csr_array(features)):
        with quiet():
            model = make(method, max_iter=10).fit(rows, crowd(5, truth))
        arrays: dict[str, Any] = {}
        plain = json.loads(json.dumps(pack(model.model_, "model", arrays)))
        assert plain["class"] == ("ProcessModel" if method in ("vgpcr", "rodr14") else "FourierModel")
        again = unpack(plain, arrays)
        assert again.log_prob(rows).tobytes() == model.model_.log_prob(rows).tobytes()


def test_a_link_that_does_not_exist_is_refused() -> None:
    with quiet():
        model = VGPCR(max_iter=2).fit(*quadrants(0, 10))
    arrays: dict[str, Any] = {}
    plain = pack(replace(model.model_, link="cloglog"), "model", arrays)
    with pytest.raises(ValueError, match="contradict each other"):
        unpack(plain, arrays)


@pytest.mark.parametrize("change", [{"indices": np.full(4, 9)}, {"indptr": np.array([0, 9])}, {"data": np.zeros(3)}])
def test_sparse_rows_that_point_outside_are_refused(change: dict[str, Any]) -> None:
    rows = kept_rows(csr_array(np.ones((2, 2))))
    assert rows.sound()
    np.testing.assert_array_equal(rows.table.toarray(), np.ones((2, 2)))
    arrays: dict[str, Any] = {}
    plain = pack(replace(rows, **change), "rows", arrays)
    with pytest.raises(ValueError, match="contradict each other"):
        unpack(plain, arrays)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vgpcr", "rff", "vff"])
@given(st.integers(0, 10**6), st.integers(0, 4))
@settings(max_examples=15)
def test_the_bound_never_falls(method: str, seed: int, rounds: int) -> None:
    rng = np.random.default_rng(seed)
    votes = random_votes(rng, 12, 3, 2, 40)
    few = {} if method == "vgpcr" else {"frequencies": 6}
    with quiet():
        model = make(method, kernel_rounds=rounds, max_iter=15, tol=1e-10, **few).fit(rng.normal(size=(12, 3)), votes)
    bound = model.trace_
    assert (np.diff(bound) >= -1e-9 * np.abs(bound[1:])).all()


def test_labels_follow_the_formula_of_the_paper() -> None:
    """log-odds of q(z_n) = E f_n + sum_e (E log R[a_e, 1, y_e] - E log R[a_e, 0, y_e])."""
    from scipy.special import digamma

    features, truth = quadrants(6, 15)
    votes = crowd(6, truth)
    fit = alternate(
        votes,
        LogisticGP.start(features, rounds=3),
        DirichletConfusion.start(np.ones((1, 2, 2)), 5),
        start=np.column_stack([1 - truth, truth]).astype(float),
        known=np.empty(0, np.int16),
        max_iter=5,
        tol=1e-9,
    )
    beta = fit.annotators.concentration()
    expected = digamma(beta) - digamma(beta.sum(axis=2, keepdims=True))
    odds = fit.prior.state.mean.copy()
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        odds[item] += expected[annotator, 1, label] - expected[annotator, 0, label]
    np.testing.assert_allclose(fit.posterior[:, 1], expit(odds), atol=1e-9)


def test_the_model_predicts_as_the_process_at_its_own_items() -> None:
    features, truth = quadrants(7, 25)
    with quiet():
        model = VGPCR(max_iter=8).fit(features, crowd(7, truth)).model_
    assert isinstance(model, ProcessModel)
    rows = model.scaling.apply(features)
    covariance = model.kernel(squared_distances(rows))
    spread = np.linalg.inv(covariance + np.diag(1 / model.precision))
    mean, variance = model.moments(features)
    # GP regression on targets natural / precision with noise 1 / precision.
    np.testing.assert_allclose(mean, covariance @ spread @ (model.natural / model.precision), atol=1e-8)
    np.testing.assert_allclose(variance, np.diagonal(covariance - covariance @ spread @ covariance), atol=1e-8)


def test_fourier_models_predict_as_the_weights_say() -> None:
    features, truth = quadrants(8, 25)
    with quiet():
        model = FourierGP(max_iter=8, frequencies=5).fit(features, crowd(8, truth)).model_
    assert isinstance(model, FourierModel)
    phase = features @ model.angular[:-1] + model.angular[-1]
    phi = np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(5)
    draws = np.random.default_rng(0).multivariate_normal(model.weights, np.linalg.inv(model.factor @ model.factor.T), 40_000)
    sampled = expit(phi[:5] @ draws.T)
    error = sampled.std(axis=1) / 200
    assert (np.abs(np.exp(model.log_prob(features[:5]))[:, 1] - sampled.mean(axis=1)) < 5 * error).all()


def test_seeds_choose_the_frequencies() -> None:
    features, truth = quadrants(9, 40)
    votes = crowd(9, truth)
    with quiet():
        first, same, other = (FourierGP(max_iter=5, random_state=seed).fit(features, votes).posterior_ for seed in (0, 0, 1))
    assert first.tobytes() == same.tobytes()
    assert first.tobytes() != other.tobytes()


# -- expectation propagation -------------------------------------------------------------------


@pytest.mark.parametrize(("one", "zero"), [(1.0, 0.0), (0.9, 0.2), (0.1, 0.7), (0.3, 0.3), (0.001, 1.0)])
def test_tilted_moments_are_those_of_quadrature(one: float, zero: float) -> None:
    nodes, shares = hermegauss(120)
    for mean, variance in [(0.0, 1.0), (-2.0, 0.5), (1.5, 4.0), (0.3, 0.01)]:
        f = mean + np.sqrt(variance) * nodes
        mass = shares * (one * ndtr(f) + zero * ndtr(-f))
        centre = (mass @ f) / mass.sum()
        spread = (mass @ (f - centre) ** 2) / mass.sum()
        with np.errstate(divide="ignore"):
            logs = np.log([one, zero])
        found = tilted_moments(logs[:1], logs[1:], np.array([mean]), np.array([variance]))
        np.testing.assert_allclose(np.concatenate(found), [centre, spread], rtol=1e-6, atol=1e-12)


def test_tilted_moments_stay_finite_far_out() -> None:
    mean, variance = tilted_moments(np.array([0.0, -1e4]), np.array([-1e4, 0.0]), np.array([-50.0, 80.0]), np.ones(2))
    assert np.isfinite(mean).all()
    assert (variance > 0).all()
    # A label that is certain pulls f towards its side.
    assert mean[0] > -50
    assert mean[1] < 80


def propagated(features: np.ndarray, evidence: np.ndarray, kernel: SquaredExponential, rounds: int = 60) -> ProbitGP:
    prior = replace(ProbitGP.start(features, rounds=0), kernel=kernel)
    posterior = evidence / evidence.sum(axis=1, keepdims=True)
    for _ in range(rounds):
        prior = prior.update(posterior)
        posterior = evidence * np.exp(prior.log_prob())
        posterior /= posterior.sum(axis=1, keepdims=True)
    return prior


def test_propagation_is_near_the_exact_posterior_of_two_items() -> None:
    """By a grid over both functions; likelihoods of votes as they come from good and bad annotators."""
    features, kernel = np.array([[0.0], [0.8]]), SquaredExponential(2.0, 1.0)
    covariance = kernel(squared_distances(features))
    grid = np.linspace(-9, 9, 361)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    density = np.exp(-0.5 * np.einsum("...i,ij,...j", f, np.linalg.inv(covariance), f))
    density /= density.sum()
    for evidence in ([[0.1, 0.9], [0.2, 0.7]], [[0.1, 0.9], [0.8, 0.3]], [[0.01, 0.99], [0.5, 0.5]]):
        zero, one = np.array(evidence).T
        terms = one * ndtr(f) + zero * ndtr(-f)
        joint = density * terms.prod(axis=-1)
        exact = np.array([(joint * (one * ndtr(f) / terms)[..., n]).sum() for n in range(2)]) / joint.sum()
        prior = propagated(features, np.array(evidence), kernel)
        scores = np.log(evidence) + prior.log_prob()
        normalisers = np.logaddexp(scores[:, 0], scores[:, 1])
        np.testing.assert_allclose(np.exp(scores[:, 1] - normalisers), exact, atol=0.01)
        # And the evidence that the bound of the engine is made of.
        assert normalisers.sum() - prior.penalty() == pytest.approx(np.log(joint.sum()), abs=0.01)


def test_one_item_is_exact_and_its_cavity_is_the_prior() -> None:
    prior = propagated(np.zeros((1, 1)), np.array([[0.2, 0.8]]), SquaredExponential(3.0, 1.0))
    np.testing.assert_allclose(np.concatenate(prior.cavity()), [0.0, 3.0], atol=1e-9)
    np.testing.assert_allclose(prior.log_prob(), np.log(0.5))
    # Z = (a + b) / 2 by symmetry of the prior.
    normaliser = np.log(0.5 * (0.2 + 0.8))
    assert normaliser - prior.penalty() == pytest.approx(np.log(0.5), abs=1e-9)


def test_the_posterior_of_an_item_hears_its_votes_once() -> None:
    """A lone item far from all others: the features say nothing, so the votes alone decide."""
    features, truth = quadrants(10, 60)
    votes = crowd(10, truth)
    features[0] = 500.0
    model = Rodr14().fit(features, votes)
    odds = 0.0
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        if item == 0:
            from scipy.special import digamma

            odds += float(np.subtract(*digamma(model.result_.annotators.concentration()[annotator][::-1, label])))
            odds -= float(np.subtract(*digamma(model.result_.annotators.concentration()[annotator][::-1].sum(axis=1))))
    assert model.result_.model_posterior[0, 1] == pytest.approx(expit(odds), abs=1e-6)


# -- settings and costs ------------------------------------------------------------------------


@method
def test_a_prior_that_has_no_rows_is_refused(method: str) -> None:
    with pytest.raises(SettingError, match="Dirichlet rows"):
        make(method, annotator_prior="beta:2,1").fit(*quadrants(0, 10))


@method
def test_the_start_of_the_paper_runs(method: str) -> None:
    features, truth = quadrants(11, 100)
    with quiet():
        model = make(method, init="identity", annotator_prior="dir:1,1", max_iter=40).fit(
            features, vote(11, truth, [GOOD, GOOD, GOOD, GUESSING], 3)
        )
    assert (model.labels_ == truth).mean() > 0.85


@method
def test_many_items_are_announced_or_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    features, truth = quadrants(12, 40)
    votes = crowd(12, truth)
    monkeypatch.setattr(cost, "_SLOW_SECONDS", 0.0)
    with pytest.warns(CostWarning, match=f"{method} may take up to .* use svgpcr"):
        make(method, max_iter=200).fit(features, votes)
    monkeypatch.setattr(cost, "_SLOW_SECONDS", 60.0)
    monkeypatch.setattr(cost, "_memory", lambda: 1e4)
    with pytest.raises(InputError, match="memory"):
        make(method)._process(features)


@method
def test_a_process_is_not_given_up_while_labels_are_rough(method: str) -> None:
    """Vote shares are right on four items of five; a kernel that learns from them at once ends flat, and stays so."""
    features, truth = quadrants(11, 100)
    votes = vote(11, truth, [GOOD, GOOD, GOOD, GUESSING], 3)
    with quiet():
        model = make(method, init="identity").fit(features, votes)
    assert (model.labels_ == truth).mean() > 0.87


def test_progress_and_trace_count_all_rounds() -> None:
    features, truth = quadrants(15, 30)
    seen: list[tuple[int, float]] = []
    with quiet():
        model = VGPCR(max_iter=9, tol=1e-12).fit(
            features, crowd(15, truth), progress=lambda number, bound, _: seen.append((number, bound))
        )
    assert [number for number, _ in seen] == list(range(1, 10))
    np.testing.assert_allclose([bound for _, bound in seen], model.trace_)
    assert model.n_iter_ == 9


def test_a_kernel_that_is_not_learned_keeps_its_start() -> None:
    features, truth = quadrants(13, 40)
    with quiet():
        model = VGPCR(kernel_rounds=0, max_iter=5).fit(features, crowd(13, truth)).model_
    assert isinstance(model, ProcessModel)
    rows = model.scaling.apply(features)
    distance = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(axis=2))[np.triu_indices(40, 1)]
    assert model.kernel.length == pytest.approx(np.median(distance))


@method
def test_a_fit_is_saved_and_loaded(method: str, tmp_path: Path) -> None:
    features, truth = quadrants(14, 40)
    with quiet():
        model = make(method, max_iter=10).fit(features, crowd(14, truth))
    model.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    assert again.predict_proba(features).tobytes() == model.predict_proba(features).tobytes()
