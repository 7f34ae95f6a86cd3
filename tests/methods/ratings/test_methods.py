from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import crowdwise
from crowdwise.data.ratings import Ratings
from crowdwise.data.simulate.ratings import simulate_values
from crowdwise.errors import CrowdwiseWarning, DataWarning, InputError, NotFittedError, SettingError
from crowdwise.estimator.registry import METHODS as EVERY
from crowdwise.methods.ratings.covariance_crowd import CovarianceCrowd
from crowdwise.methods.ratings.gp_crowd_regression import GPCrowdRegression
from crowdwise.methods.ratings.sparse_process import Kernel, Process

TASKS = {name: method for name, method in EVERY.items() if method.answers != "labels" or method.groups}

NAMES = [name for name, method in TASKS.items() if method.family == "numbers"]
PLAIN = [name for name in NAMES if "features" not in TASKS[name].needs]
FEATURED = [name for name in NAMES if name not in PLAIN]


def fit(name: str, values: Ratings, gold: Any = None, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        if name in PLAIN:
            return crowdwise.make(name, **settings).fit(values, gold=gold)
        X = np.arange(2.0 * values.n_items).reshape(-1, 2) ** 0.5
        settings |= {"epochs": 3} if "layer" in name else {}
        return crowdwise.make(name, **settings).fit(X, values, gold=gold)


ODD = {
    "one answer": (["a"], ["x"], [2.0]),
    "one item": (["a"] * 3, ["x", "y", "z"], [1, 2, 4]),
    "one annotator": (["a", "b", "c"], ["x"] * 3, [1, 2, 4]),
    "repeated answers": (["a", "a", "a", "b"], ["x", "x", "y", "x"], [1, 2, 2, 4]),
    "no spread": (["a", "a", "b", "b"], ["x", "y"] * 2, [5, 5, 5, 5]),
    "two dimensions": (["a", "a", "b"], ["x", "y", "x"], [[1, 2], [2, 3], [4, 5]]),
    "unicode": (["å", "å", "雪"], ["ü", "ß", "ü"], [1, 2, 3]),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("odd", ODD)
def test_odd_shapes_give_finite_estimates_and_intervals(name: str, odd: str) -> None:
    values = Ratings.from_arrays(*ODD[odd])
    # A few answers never settle the tails of student-crowd, which then takes all the rounds that it may.
    settings = {"max_iter": 100} if name == "student-crowd" else {}
    result = fit(name, values, **settings).result_
    low, high = result.interval(0.9)
    for array in (result.estimate, result.sd, low, high, result.bias, result.noise, result.weight, result.reliability):
        assert np.isfinite(array).all()
    assert (low <= high).all()
    assert (result.reliability >= -1e-12).all()
    assert (result.reliability <= 1 + 1e-12).all()
    assert result.items_frame().height == values.n_items
    assert result.annotators_frame()["n_votes"].sum() == values.n_votes


@pytest.mark.parametrize("name", NAMES)
def test_no_values_and_wrong_data_are_clear_errors(name: str) -> None:
    with pytest.raises(InputError, match="no values to learn from"):
        fit(name, Ratings.from_arrays([], [], []))
    estimator = crowdwise.make(name)
    with pytest.raises(InputError, match="expected Ratings or a frame, got list"):
        estimator.fit([1]) if name in PLAIN else estimator.fit([[1.0]], [1])


@pytest.mark.parametrize("name", NAMES)
def test_the_same_bits_again_and_known_values_are_kept(name: str) -> None:
    values = simulate_values(25, 6, 3, random_state=2).values
    settings = {"max_iter": 100} if name == "student-crowd" else {}
    one, two = (fit(name, values, {3: 1.25}, **settings).result_ for _ in range(2))
    assert np.array_equal(one.estimate, two.estimate)
    assert np.array_equal(one.scale, two.scale)
    assert one.estimate[3, 0] == pytest.approx(1.25)
    assert one.scale[3, 0] == 0
    assert (np.delete(one.scale, 3) > 0).all()


@pytest.mark.parametrize("name", PLAIN)
def test_items_without_answers_get_nothing_or_a_wide_interval(name: str) -> None:
    values = Ratings.from_arrays(["a", "a", "b", "b"], ["x", "y"] * 2, [1, 2, 5, 6], items=["a", "b", "c"])
    result = fit(name, values).result_
    if name in ("mean", "median", "weighted-mean"):
        assert np.isnan(result.estimate[2, 0])
        assert result.items_frame()["estimate"].to_list()[2] is None
    else:
        assert result.scale[2, 0] > result.scale[0, 0]


def test_the_mean_and_the_median_are_numpys() -> None:
    values = simulate_values(40, 9, 4, n_dimensions=2, random_state=1).values[2:-1]
    rows = [values.value[values.item == n] for n in range(values.n_items)]
    assert fit("mean", values).estimate_ == pytest.approx(np.array([row.mean(axis=0) for row in rows]))
    assert fit("median", values).estimate_ == pytest.approx(np.array([np.median(row, axis=0) for row in rows]))


def test_a_weighted_median_repeats_values() -> None:
    values = Ratings.from_arrays(["a"] * 3, ["x", "y", "z"], [1, 2, 9], weight=[1, 1, 2])
    assert fit("median", values).estimate_.item() == np.median([1, 2, 9, 9])


def test_intervals_of_the_mean_cover_when_annotators_are_alike() -> None:
    hits = []
    for seed in range(20):
        simulated = simulate_values(100, 20, 4, bias=0.0, noise_spread=0.0, random_state=seed)
        low, high = fit("mean", simulated.values).result_.interval(0.9)
        hits.append(((low < simulated.truth) & (simulated.truth < high)).mean())
    assert np.mean(hits) == pytest.approx(0.9, abs=0.02)


def test_nothing_is_said_before_a_fit() -> None:
    with pytest.raises(NotFittedError, match="call fit"):
        crowdwise.make("mean").estimate_  # noqa: B018


def test_a_level_outside_its_range_is_refused() -> None:
    with pytest.raises(SettingError, match="level must lie between 0 and 1"):
        fit("mean", Ratings.from_arrays(["a"], ["x"], [1.0])).result_.interval(1.0)


# -- covariances -------------------------------------------------------------------------------


def test_gains_are_recovered_and_adversaries_are_turned_round() -> None:
    simulated = simulate_values(400, 15, 8, adversaries=0.2, random_state=1)
    result = CovarianceCrowd().fit(simulated.values).result_
    assert ((result.more["gain"][:, 0] > 0) == (simulated.gain > 0)).all()
    error = np.sqrt(((result.estimate - simulated.truth) ** 2).mean())
    assert error < 0.8 * np.sqrt(((fit("mean", simulated.values).estimate_ - simulated.truth) ** 2).mean())
    low, high = result.interval()
    assert ((low < simulated.truth) & (simulated.truth < high)).mean() > 0.88


def test_a_copier_is_found_and_counted_as_one() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=200)
    answers = truth[:, None] + 0.8 * rng.normal(size=(200, 6))
    answers[:, 5] = answers[:, 4] + 0.1 * rng.normal(size=200)
    values = Ratings.from_arrays(np.repeat(np.arange(200), 6), np.tile(list("abcdef"), 200), answers.ravel())
    model = CovarianceCrowd().fit(values)
    pair = model.pairs_.row(0, named=True)
    assert {pair["annotator_a"], pair["annotator_b"]} == {"e", "f"}
    assert pair["noise_correlation"] > 0.6
    alone = model.result_.weight[:4].mean()
    assert model.result_.weight[4:].sum() < 1.8 * alone
    assert ((model.estimate_[:, 0] - truth) ** 2).mean() < ((answers.mean(axis=1) - truth) ** 2).mean()


def test_loadings_are_exact_when_covariances_are_rank_one() -> None:
    from crowdwise.methods.ratings.pair_moments import Moments, decompose

    loading = np.array([1.0, 0.5, -0.8, 1.5])
    first, second = (index.ravel() for index in np.meshgrid(range(4), range(4), indexing="ij"))
    keep = first != second
    first, second = first[keep], second[keep]
    found = Moments(first, second, np.full(12, 1e9), loading[first] * loading[second], loading**2 + 0.3)
    parts = decompose(found, np.full(4, 1e9), np.zeros(12, bool), gain_spread=0.5, rounds=2000)
    assert parts.loading == pytest.approx(loading, abs=1e-4)
    assert parts.noise == pytest.approx(np.full(4, 0.3), abs=1e-3)


# -- features ----------------------------------------------------------------------------------


def smooth(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Ratings, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 80, 2))
    truth = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n + 80)
    bias, noise = 0.5 * rng.normal(size=10), np.exp(0.5 * rng.normal(size=10) - 0.3)
    item = np.repeat(np.arange(n), 3)
    who = np.argsort(rng.random((n, 10)), axis=1)[:, :3].ravel()
    values = Ratings.from_arrays(item, who, truth[item] + (bias - bias.mean())[who] + noise[who] * rng.normal(size=3 * n))
    return X, truth[:, None], values, bias - bias.mean()


def test_the_process_with_all_rows_is_dense_gaussian_regression() -> None:
    rng = np.random.default_rng(0)
    rows, new = rng.normal(size=(12, 2)), rng.normal(size=(5, 2))
    y, noise, kernel = rng.normal(size=12), rng.gamma(2, size=12), Kernel("rbf", 1.3, 0.9)
    process = Process.of(kernel, rows, rows, y, noise, 0.4)
    base = kernel.between(rows, rows) + np.diag(noise)
    cross = kernel.between(new, rows)
    mean, variance = process.at(new)
    assert mean == pytest.approx(0.4 + cross @ np.linalg.solve(base, y - 0.4), abs=1e-4)
    assert variance == pytest.approx(1.3 - np.einsum("ij,ji->i", cross, np.linalg.solve(base, cross.T)), abs=1e-4)
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * base)[1] + (y - 0.4) @ np.linalg.solve(base, y - 0.4))
    assert process.bound == pytest.approx(expected, abs=1e-3)
    fewer = Process.of(kernel, rows[:4], rows, y, noise, 0.4)
    assert fewer.bound < process.bound


@pytest.mark.slow
def test_features_help_the_gaussian_process_and_its_bound_never_falls() -> None:
    X, truth, values, bias = smooth()
    model = GPCrowdRegression(inducing=40).fit(X[:150], values)
    assert np.diff(model.trace_).min() > -1e-6 * abs(model.trace_[-1])
    alone = fit("gaussian-crowd", values).estimate_
    assert ((model.estimate_ - truth[:150]) ** 2).mean() < 0.6 * ((alone - truth[:150]) ** 2).mean()
    low, high = model.result_.interval()
    assert ((low < truth[:150]) & (truth[:150] < high)).mean() > 0.9
    mean, spread = model.predict(X[150:], return_std=True)
    assert 1 - ((mean - truth[150:]) ** 2).sum() / ((truth[150:] - truth[150:].mean()) ** 2).sum() > 0.8
    assert (np.abs(mean - truth[150:]) < 1.96 * spread).mean() > 0.85
    assert np.corrcoef(model.result_.bias[:, 0], bias)[0, 1] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["b", "s", "s+b", "b+s"])
def test_crowd_layers_learn_the_function_and_are_identified(layer: str) -> None:
    pytest.importorskip("torch")
    X, truth, values, bias = smooth()
    model = crowdwise.make("crowd-layer-regression", layer=layer, dropout=0.1, rate=0.01, epochs=40).fit(X[:150], values)
    r2 = 1 - ((model.predict(X[150:]) - truth[150:]) ** 2).sum() / ((truth[150:] - truth[150:].mean()) ** 2).sum()
    assert r2 > 0.6
    count = values.votes_per_annotator
    assert np.average(model.scale_[:, 0], weights=count) == pytest.approx(1, abs=1e-5)
    assert np.average(model.result_.bias[:, 0], weights=count) == pytest.approx(0, abs=1e-5)
    if "b" in layer:
        assert np.corrcoef(model.result_.bias[:, 0], bias)[0, 1] > 0.8


@pytest.mark.parametrize("name", FEATURED)
def test_rows_meet_items_by_id_and_sparse_rows_are_taken(name: str) -> None:
    values = Ratings.from_arrays(["b", "a", "b"], ["x", "x", "y"], [2.0, 1.0, 3.0])
    settings = {"epochs": 3} if "layer" in name else {}
    X = np.array([[2.0, 0.0], [1.0, 0.0], [5.0, 1.0]])
    model = crowdwise.make(name, **settings).fit(scipy.sparse.csr_matrix(X), values, items=["b", "a", "c"])
    assert model.result_.votes.items.tolist() == ["b", "a", "c"]
    assert model.estimate_.shape == (3, 1)
    assert model.predict(X[:2]).shape == (2, 1)
    with pytest.raises(InputError, match="rows of 1 features, and the model was fitted to 2"):
        model.predict(X[:, :1])
    with pytest.raises(NotFittedError):
        crowdwise.make(name).predict(X)
    with pytest.raises(InputError, match="3 rows of features for 2 items"):
        model.fit(X, values)
    with pytest.raises(InputError, match="have no row of features, such as 'b'"):
        model.fit(X, values, items=["q", "a", "c"])
    with pytest.raises(InputError, match="row 0, column 1: not a finite number"):
        model.fit(np.array([[1.0, np.nan], [0.0, 1.0]]), values)


# -- real data ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_models_beat_the_mean_on_movie_reviews(shared_data: Any) -> None:
    import polars as pl

    values = crowdwise.read(shared_data / "movie_reviews" / "annotations.csv", Ratings)
    truth = values.known(pl.read_csv(shared_data / "movie_reviews" / "truth.csv"))
    errors = {name: np.sqrt(((fit(name, values).estimate_ - truth) ** 2).mean()) for name in PLAIN}
    # The README of the set has 0.0755 for the mean.
    assert errors["mean"] == pytest.approx(0.0755, abs=5e-4)
    for name in ("gaussian-crowd", "gaussian-crowd-bayes", "student-crowd", "covariance-crowd"):
        assert errors[name] < 0.068


def test_a_weighted_mean_that_one_annotator_decides_says_so() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=200)
    items, people = np.repeat(np.arange(200), 5), np.tile(list("abcde"), 200)
    values = truth[items] + rng.normal(size=1000)
    few = rng.random(1000) < 0.6
    with pytest.warns(DataWarning, match="one annotator weighs more than all others together"):
        result = crowdwise.Average(kind="weighted").fit(Ratings.from_arrays(items[few], people[few], values[few])).result_
    # What it warns of: a 95 % interval that holds the truth far less often.
    low, high = result.interval(0.95)
    assert ((low.ravel() <= truth[result.votes.items]) & (truth[result.votes.items] <= high.ravel())).mean() < 0.7
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        crowdwise.Average(kind="weighted", rounds=1).fit(Ratings.from_arrays(items, people, values))
