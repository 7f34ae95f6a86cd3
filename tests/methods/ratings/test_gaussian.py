from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, norm

from crowdwise import make
from crowdwise.data.ratings import Ratings
from crowdwise.data.simulate.ratings import simulate_values
from crowdwise.errors import ConvergenceWarning, DataWarning
from crowdwise.methods.ratings import variational
from crowdwise.methods.ratings.gaussian import Items, infer_items
from crowdwise.methods.ratings.gaussian_crowd import GaussianCrowd
from crowdwise.methods.ratings.intervals import uncertainty
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.student_crowd import StudentCrowd
from crowdwise.methods.ratings.variational_fit import fit_variational

GaussianCrowdBayes = partial(GaussianCrowd, bayes=True)
MODELS = [GaussianCrowd, GaussianCrowdBayes, StudentCrowd]


def problem_of(values: Ratings, gold: dict[int, float] | None = None) -> Problem:
    return Problem.of(values, values.known(gold))


def tiny(seed: int = 1, n_dimensions: int = 1) -> Ratings:
    return simulate_values(6, 4, 3, n_dimensions=n_dimensions, random_state=seed).values


@pytest.mark.parametrize("gold", [None, {0: 0.5, 3: -1.0}])
def test_the_score_of_em_is_the_dense_marginal_likelihood(gold: dict[int, float] | None) -> None:
    values = tiny()
    problem, model = problem_of(values, gold), GaussianCrowd()
    state = model._start(problem)
    for _ in range(4):
        state = model._step(problem, state)
    tau, b = state.tau[:, 0] / state.noise[0], state.bias[:, 0]
    m, s = float(state.items.prior_mean[0]), float(state.items.prior_variance[0])
    expected = 0.0
    for n in range(values.n_items):
        rows = np.flatnonzero(problem.item == n)
        who, y = problem.annotator[rows], problem.value[rows, 0]
        if problem.is_known[n]:
            z = problem.known[n, 0]
            expected += norm(m, np.sqrt(s)).logpdf(z) + norm(z + b[who], 1 / np.sqrt(tau[who])).logpdf(y).sum()
        else:
            expected += multivariate_normal(m + b[who], s + np.diag(1 / tau[who])).logpdf(y)
    expected += (np.log(tau) - tau).sum() + norm(0, 1 / np.sqrt(tau)).logpdf(b).sum()
    # With known values the level step changes the items after their posterior was found; it must be found anew.
    fresh = infer_items(problem, state.items, state.precision(problem), state.bias)
    from dataclasses import replace

    assert model._score(problem, replace(state, items=fresh)) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_dimensions", [1, 3])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("gold", [None, {0: 0.5, 3: -1.0}])
def test_the_bound_never_falls(model: type, shared: bool, n_dimensions: int, gold: dict[int, float] | None) -> None:
    simulated = simulate_values(30, 8, 4, n_dimensions=n_dimensions, tail=3, random_state=2)
    known = None if gold is None else {item: [value] * n_dimensions for item, value in gold.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model(shared=shared, max_iter=60).fit(simulated.values, gold=known)
    assert np.diff(fitted.trace_).min() > -1e-8 * abs(fitted.trace_[-1])


@pytest.mark.slow
def test_em_ends_where_no_small_change_of_annotators_helps() -> None:
    values = tiny(3)
    problem, model = problem_of(values), GaussianCrowd(tol=1e-14, max_iter=5000)
    state = model._start(problem)
    for _ in range(3000):
        state = model._step(problem, state)

    def score(b: np.ndarray, tau: np.ndarray) -> float:
        from dataclasses import replace

        moved = replace(state, bias=b, tau=tau)
        return model._score(problem, replace(moved, items=infer_items(problem, state.items, moved.precision(problem), b)))

    for a in range(values.n_annotators):
        step = np.zeros_like(state.bias)
        step[a] = 1e-5
        assert (score(state.bias + step, state.tau) - score(state.bias - step, state.tau)) / 2e-5 == pytest.approx(0, abs=1e-4)
        up, down = state.tau * (1 + step), state.tau * (1 - step)
        assert (score(state.bias, up) - score(state.bias, down)) / 2e-5 == pytest.approx(0, abs=1e-4)


def test_the_variational_bound_is_below_the_evidence_by_importance_sampling() -> None:
    values = tiny(5)
    problem = problem_of(values)
    crowd = variational.start(problem, shared=True, resolution=0.0)
    for _ in range(200):
        crowd = variational.step(problem, crowd, learn_tail=False)
    rng, n = np.random.default_rng(0), 20_000
    # Biases and precisions from the posterior's factors, a little wider; items are summed out exactly.
    b = crowd.bias[:, 0] + 1.3 * np.sqrt(crowd.bias_variance[:, 0]) * rng.normal(size=(n, values.n_annotators))
    tau = rng.gamma(0.8 * crowd.shape, 1 / (0.8 * crowd.rate), size=(n, values.n_annotators))
    log_q = norm(crowd.bias[:, 0], 1.3 * np.sqrt(crowd.bias_variance[:, 0])).logpdf(b).sum(axis=1)
    log_q += gamma(0.8 * crowd.shape, scale=1 / (0.8 * crowd.rate)).logpdf(tau).sum(axis=1)
    log_p = norm(0, np.sqrt(crowd.bias_prior[0])).logpdf(b).sum(axis=1)
    log_p += gamma(crowd.prior_shape, scale=1 / crowd.prior_rate).logpdf(tau).sum(axis=1)
    m, s = float(crowd.items.prior_mean[0]), float(crowd.items.prior_variance[0])
    for item in range(values.n_items):
        rows = np.flatnonzero(problem.item == item)
        who = problem.annotator[rows]
        r, t = problem.value[rows, 0] - b[:, who] - m, tau[:, who]
        total = 1 / s + t.sum(axis=1)
        log_p += 0.5 * (np.log(t / (2 * np.pi)).sum(axis=1) - np.log(s * total))
        log_p -= 0.5 * ((t * r**2).sum(axis=1) - (t * r).sum(axis=1) ** 2 / total)
    weight = log_p - log_q
    evidence = weight.max() + np.log(np.exp(weight - weight.max()).mean())
    hyper = crowd.bias_prior + 0.0
    bound = variational.bound(problem, crowd) + float((np.log(hyper) + crowd.usual_bias / hyper).sum())
    assert bound < evidence < bound + 3


@pytest.mark.parametrize("gold", [None, {0: 0.5, 3: -1.0}])
def test_posterior_variances_are_those_of_dense_linear_algebra(gold: dict[int, float] | None) -> None:
    values = tiny(7)
    problem = problem_of(values, gold)
    rng = np.random.default_rng(0)
    n, a = values.n_items, values.n_annotators
    tau, prior, s = rng.gamma(3, size=(a, 1)), rng.gamma(2, size=(a, 1)), 0.7
    p = tau[problem.annotator]
    items = Items(np.zeros((n, 1)), np.zeros((n, 1)), np.zeros(1), np.full(1, s))
    # Unknowns: items, biases, prior mean.
    hessian = np.zeros((n + a + 1, n + a + 1))
    for e, (i, who) in enumerate(zip(problem.item, problem.annotator, strict=True)):
        row = np.zeros(n + a + 1)
        row[i], row[n + who] = 1, 1
        hessian += p[e, 0] * np.outer(row, row)
    for i in range(n):
        row = np.zeros(n + a + 1)
        row[i], row[-1] = 1, -1
        hessian += np.outer(row, row) / s
    hessian[np.arange(n, n + a), np.arange(n, n + a)] += prior[:, 0]
    free = np.r_[~problem.is_known, np.ones(a + 1, bool)]
    covariance = np.zeros_like(hessian)
    covariance[np.ix_(free, free)] = np.linalg.inv(hessian[np.ix_(free, free)])
    found = uncertainty(problem, items, p, np.zeros_like(p), np.zeros((a, 1)), prior)
    assert found.variance[:, 0] == pytest.approx(np.diag(covariance)[:n], rel=1e-8)
    assert found.bias_variance[:, 0] == pytest.approx(np.diag(covariance)[n : n + a], rel=1e-8)


def test_with_many_annotators_the_approximate_variance_is_near_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated = simulate_values(400, 60, 6, random_state=1)
    exact = GaussianCrowdBayes().fit(simulated.values).result_.scale
    monkeypatch.setattr("crowdwise.methods.ratings.intervals._DENSE", 10)
    near = GaussianCrowdBayes().fit(simulated.values).result_.scale
    assert np.abs(near / exact - 1).max() < 0.05


def test_posterior_means_agree_with_gibbs_sampling() -> None:
    """The variational answer against a sampler of the same model, written without it."""
    simulated = simulate_values(40, 8, 5, random_state=4)
    problem = problem_of(simulated.values)
    start = variational.start(problem, shared=True, resolution=0.0)
    until = {"tol": 1e-7, "max_iter": 1000, "progress": None}
    crowd = fit_variational(problem, start, learn_tail=False, shared=True, level="annotators", **until)[1].state
    fitted = GaussianCrowdBayes(resolution=0.0, level="annotators").fit(simulated.values)
    rng, y = np.random.default_rng(0), problem.value[:, 0]
    item, who = problem.item, problem.annotator
    m, s, v = float(crowd.items.prior_mean[0]), float(crowd.items.prior_variance[0]), float(crowd.bias_prior[0])
    z, b, tau = crowd.items.mean[:, 0].copy(), np.zeros(8), np.ones(8)
    draws = []
    for sweep in range(3000):
        p = tau[who]
        total = 1 / s + np.bincount(item, p, 40)
        z = (m / s + np.bincount(item, p * (y - b[who]), 40)) / total + rng.normal(size=40) / np.sqrt(total)
        total = 1 / v + np.bincount(who, p, 8)
        b = np.bincount(who, p * (y - z[item]), 8) / total + rng.normal(size=8) / np.sqrt(total)
        squares = np.bincount(who, (y - z[item] - b[who]) ** 2, 8)
        tau = rng.gamma(crowd.prior_shape + np.bincount(who, minlength=8) / 2) / (crowd.prior_rate + squares / 2)
        if sweep >= 300:
            draws.append(z)
    sampled = np.array(draws)
    off = np.abs(sampled.mean(axis=0) - crowd.items.mean[:, 0])
    assert off.max() < 0.35 * sampled.std(axis=0).mean()
    assert np.median(fitted.result_.sd[:, 0] / problem.spread[0] / sampled.std(axis=0)) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("model", MODELS)
def test_bias_noise_and_weights_are_recovered(model: type) -> None:
    simulated = simulate_values(600, 20, 6, bias=0.6, random_state=3)
    fitted = model().fit(simulated.values)
    result = fitted.result_
    truth = simulated.bias - simulated.bias.mean(axis=0)
    assert np.corrcoef(result.bias[:, 0], truth[:, 0])[0, 1] > 0.97
    assert np.corrcoef(np.log(result.noise[:, 0]), np.log(simulated.noise))[0, 1] > 0.93
    assert fitted.converged_
    count = simulated.values.votes_per_annotator
    assert (count * result.bias[:, 0]).sum() == pytest.approx(0, abs=1e-6 * count.sum())
    assert result.weight.sum() == pytest.approx(1)


@pytest.mark.parametrize("model", MODELS)
def test_known_values_fix_the_level_that_answers_cannot_tell(model: type) -> None:
    simulated = simulate_values(200, 12, 5, random_state=6)
    shifted = Ratings.from_arrays(
        simulated.values.item, simulated.values.annotators[simulated.values.annotator], simulated.values.value + 3
    )
    gold = {n: float(simulated.truth[n, 0]) for n in range(40)}
    result = model().fit(shifted, gold=gold).result_
    assert result.estimate[:40, 0] == pytest.approx(simulated.truth[:40, 0])
    assert (result.scale[:40] == 0).all()
    assert abs((result.estimate - simulated.truth).mean()) < 0.15
    assert result.bias.mean() == pytest.approx(3, abs=0.3)
    free = model().fit(shifted).result_
    assert (free.estimate - simulated.truth).mean() == pytest.approx(3, abs=0.3)


def test_without_the_variance_of_items_one_annotator_would_take_all() -> None:
    simulated = simulate_values(40, 6, 3, noise_spread=0.0, random_state=0)
    assert GaussianCrowd().fit(simulated.values).result_.weight.max() < 0.5
    assert GaussianCrowdBayes().fit(simulated.values).result_.weight.max() < 0.5


def test_two_annotators_who_always_agree_do_not_become_infinitely_precise() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=50)
    columns = [np.zeros(50), np.zeros(50), *(truth + 0.5 * rng.normal(size=50) for _ in range(5))]
    values = Ratings.from_arrays(np.tile(np.arange(50), 7), np.repeat(np.arange(7), 50), np.concatenate(columns))
    for model in (GaussianCrowd(), GaussianCrowdBayes()):
        result = model.fit(values).result_
        assert np.isfinite(result.scale).all()
        assert (result.scale > 0.01).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings", "low", "high"),
    [
        (GaussianCrowd, {}, 0.93, 0.99),
        (GaussianCrowdBayes, {}, 0.93, 0.99),
        (GaussianCrowdBayes, {"bias": 1.0}, 0.91, 0.99),
        (GaussianCrowdBayes, {"n_annotators": 6}, 0.91, 0.99),
        (StudentCrowd, {"tail": 3.0}, 0.93, 0.99),
    ],
)
def test_intervals_cover(model: type, settings: dict[str, float], low: float, high: float) -> None:
    hits = []
    for seed in range(8):
        simulated = simulate_values(150, random_state=seed, **({"n_annotators": 25} | settings))  # type: ignore[arg-type]
        below, above = model().fit(simulated.values).result_.interval(0.95)
        hits.append(((below < simulated.truth) & (simulated.truth < above)).mean())
    assert low < np.mean(hits) < high


@pytest.mark.slow
@pytest.mark.usefixtures("model_alone")
def test_heavy_tails_cost_the_student_crowd_little() -> None:
    errors = dict.fromkeys(MODELS, 0.0)
    for seed in range(4):
        simulated = simulate_values(150, 20, 5, tail=1.5, random_state=seed)
        for model in MODELS:
            estimate = model().fit(simulated.values).estimate_
            errors[model] += float(((estimate - simulated.truth) ** 2).mean())
    assert errors[StudentCrowd] < 0.8 * min(errors[GaussianCrowd], errors[GaussianCrowdBayes])


def test_a_weight_of_two_is_two_equal_answers() -> None:
    values = Ratings.from_arrays([1, 1, 2, 2, 3, 3], ["x", "y"] * 3, [1, 2, 4, 3, 6, 8], weight=[2, 1] * 3)
    doubled = Ratings.from_arrays([1, 1, 1, 2, 2, 2, 3, 3, 3], ["x", "x", "y"] * 3, [1, 1, 2, 4, 4, 3, 6, 6, 8])
    for model in MODELS[:2]:
        assert model().fit(values).estimate_ == pytest.approx(model().fit(doubled).estimate_, rel=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_units_do_not_matter(model: type) -> None:
    values = simulate_values(30, 8, 4, random_state=1).values
    scaled = Ratings.from_arrays(values.item, values.annotator, 1000 * values.value + 7)
    one, other = model().fit(values).result_, model().fit(scaled).result_
    assert other.estimate == pytest.approx(1000 * one.estimate + 7, rel=1e-6, abs=1e-3)
    assert other.scale == pytest.approx(1000 * one.scale, rel=1e-5)


def test_single_answers_are_warned_of_and_a_cap_on_rounds_too() -> None:
    with pytest.warns(DataWarning, match="no item has two values"):
        GaussianCrowd().fit(Ratings.from_arrays(["a", "b"], ["x", "x"], [1, 2]))
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
        GaussianCrowd(max_iter=2).fit(simulate_values(30, 8, 4).values)


@pytest.mark.parametrize("name", ["gaussian-crowd", "gaussian-crowd-bayes", "student-crowd", "covariance-crowd"])
def test_one_answer_per_item_is_returned_as_it_is_with_a_wide_interval(name: str) -> None:
    boxes = np.array([[4.9, 3.0], [92.9, 60.0], [0.1, 70.0]])
    alone = Ratings.from_arrays(["a", "b", "c"], ["x"] * 3, boxes)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = make(name).fit(alone).result_
    assert [str(one.message).split(",")[0] for one in told] == ["no item has two values"]
    np.testing.assert_allclose(result.estimate, boxes)
    low, high = result.interval(0.95)
    # As far as anybody can tell, an answer is off by as much as values differ.
    assert (high - low >= 2 * 1.96 * boxes.std(axis=0)).all()
    assert result.n_iter <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        taught = make(name).fit(alone, gold={"a": [5, 3]}).result_
    assert (taught.reliability > 0).all(), "known values tell how far answers are off"
