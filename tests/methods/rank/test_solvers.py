"""Bradley-Terry by Newton and MM, against enumeration, finite differences and each other."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.optimize import approx_fprime, minimize

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.simulate.comparisons import simulate_comparisons
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, NotFittedError, SettingError
from crowdwise.kernels.ties import TIES, outcome_probabilities, start_of, terms
from crowdwise.methods.rank import laplacian
from crowdwise.methods.rank.bradley_terry import BradleyTerry
from crowdwise.methods.rank.games import Games
from crowdwise.methods.rank.laplacian import Laplacian, ranks_within, spread_of


def by_hand(votes: Comparisons, score: np.ndarray, ties: str, tie: float, prior: float) -> float:
    """The objective, vote by vote, from the models as their papers write them (strengths, not scores)."""
    strength, total = np.exp(score), 0.0
    for i, j, y, w in zip(votes.first, votes.second, votes.outcome, votes.weights, strict=True):
        a, b = strength[i], strength[j]
        if ties == "half":
            p = {1: a / (a + b), -1: b / (a + b), 0: np.sqrt(a * b) / (a + b)}
        elif ties == "davidson":
            nu = np.exp(tie)
            whole = a + b + nu * np.sqrt(a * b)
            p = {1: a / whole, -1: b / whole, 0: nu * np.sqrt(a * b) / whole}
        else:
            t = np.exp(tie)
            p = {1: a / (a + t * b), -1: b / (t * a + b), 0: (t**2 - 1) * a * b / ((a + t * b) * (t * a + b))}
        total += w * np.log(p[int(y)])
    for a in strength:
        total += prior / 2 * (np.log(a / (1 + a)) + np.log(1 / (1 + a)))
    if ties != "half":  # the virtual game of equals: half a win each way and a tie
        win, loss, draw = (float(x) for x in outcome_probabilities(ties, tie, np.zeros(())))
        total += prior * (np.log(win) / 2 + np.log(loss) / 2 + np.log(draw))
    return total


@pytest.fixture(scope="module")
def tied() -> Comparisons:
    return simulate_comparisons(6, 120, 3, tie=0.0, random_state=2).comparisons


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("solver", ["newton", "mm"])
def test_the_fit_is_the_optimum_of_the_objective_written_out_by_hand(tied: Comparisons, ties: str, solver: str) -> None:
    model = BradleyTerry(ties=ties, solver=solver, prior=0.3).fit(tied)

    def loss(z: np.ndarray) -> float:
        return -by_hand(tied, z[:-1], ties, z[-1], 0.3)

    start = np.append(np.zeros(6), 0.5)
    bounds = [(None, None)] * 6 + [(1e-3 if ties == "rao-kupper" else None, None)]
    best = minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    assert model.trace_[-1] == pytest.approx(-best.fun, abs=1e-5)
    assert model.scores_ == pytest.approx(best.x[:-1] - best.x[:-1].mean(), abs=2e-3)
    if ties != "half":
        assert model.result_.tie == pytest.approx(best.x[-1], abs=2e-3)


@pytest.mark.parametrize("prior", [0.0, 0.1])
@pytest.mark.parametrize("ties", TIES)
def test_mm_and_newton_agree_and_never_fall(ties: str, prior: float) -> None:
    votes = simulate_comparisons(20, 600, 3, tie=-0.5, random_state=1).comparisons
    newton = BradleyTerry(ties=ties, prior=prior).fit(votes)
    mm = BradleyTerry(ties=ties, prior=prior, solver="mm").fit(votes)
    assert newton.scores_ == pytest.approx(mm.scores_, abs=1e-5)
    for model in (newton, mm):
        assert model.converged_
        assert np.diff(model.trace_).min() > -1e-9


@pytest.mark.parametrize("ties", TIES)
def test_derivatives_are_those_of_finite_differences(ties: str) -> None:
    won, lost, tied = np.array([2.0]), np.array([1.5]), np.array([3.0])

    def value(z: np.ndarray) -> float:
        return float(terms(ties, z[1], np.array([z[0]]), won, lost, tied).log_lik[0])

    def slopes(z: np.ndarray) -> np.ndarray:
        found = terms(ties, z[1], np.array([z[0]]), won, lost, tied)
        return np.array([found.slope[0], found.tie_slope[0]])

    at = np.array([0.7, 0.4])
    found = terms(ties, at[1], at[:1], won, lost, tied)
    assert slopes(at) == pytest.approx(approx_fprime(at, value), abs=1e-5)
    second = np.array([approx_fprime(at, lambda z, k=k: slopes(z)[k]) for k in (0, 1)])
    assert -second == pytest.approx(
        np.array([[found.curvature[0], found.cross[0]], [found.cross[0], found.tie_curvature[0]]]), abs=1e-5
    )


@pytest.mark.parametrize("ties", TIES)
def test_large_leads_stay_finite(ties: str) -> None:
    found = terms(ties, 0.5, np.array([800.0, -800.0]), np.ones(2), np.ones(2), np.ones(2))
    assert np.isfinite(found.log_lik).all()
    assert np.isfinite(found.slope).all()


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
def test_outcomes_sum_to_one_and_equals_tie_as_often_as_asked(ties: str) -> None:
    win, loss, tie = outcome_probabilities(ties, 0.3, np.array([-2.0, 0.0, 1.0]))
    assert win + loss + tie == pytest.approx(np.ones(3))
    assert outcome_probabilities(ties, start_of(ties, 0.3), np.zeros(1))[2] == pytest.approx([0.3])


def test_without_ties_the_three_models_are_one() -> None:
    votes = simulate_comparisons(10, 200, 3).comparisons
    fits = [BradleyTerry(ties=ties).fit(votes) for ties in TIES]
    assert fits[0].scores_ == pytest.approx(fits[1].scores_)
    assert fits[0].scores_ == pytest.approx(fits[2].scores_)
    assert fits[2].result_.tie is None


def test_two_items_have_the_log_odds_of_their_wins() -> None:
    votes = Comparisons.from_arrays(["x"] * 4, ["y"] * 4, ["ann"] * 4, ["x", "x", "x", "y"])
    model = BradleyTerry(prior=0).fit(votes)
    assert np.diff(model.scores_)[0] == pytest.approx(-np.log(3), abs=1e-6)
    # The information of four games at 3/4 is 4 * 3/16; a score is half of the difference.
    assert model.result_.standard_error == pytest.approx([np.sqrt(4 / 3) / 2] * 2)
    assert model.result_.probability("x", "y") == pytest.approx([0.75])


def test_a_weight_of_two_is_a_vote_twice() -> None:
    once = Comparisons.from_arrays(["x", "x"], ["y", "y"], ["ann"] * 2, ["x", "y"], weight=[2, 1])
    twice = Comparisons.from_arrays(["x"] * 3, ["y"] * 3, ["ann"] * 3, ["x", "x", "y"])
    assert BradleyTerry().fit(once).scores_ == pytest.approx(BradleyTerry().fit(twice).scores_)


def test_the_order_of_a_pair_and_of_rows_does_not_matter() -> None:
    sim = simulate_comparisons(8, 100, 3, tie=0.0).comparisons
    turned = Comparisons(sim.second[::-1], sim.first[::-1], sim.annotator, -sim.outcome[::-1], sim.items, sim.annotators)
    assert BradleyTerry().fit(sim).scores_ == pytest.approx(BradleyTerry().fit(turned).scores_)


def test_a_gaussian_prior_is_ridge_on_scores() -> None:
    votes = Comparisons.from_arrays(["x"], ["y"], ["ann"], ["x"])
    model = BradleyTerry(prior=2.0, prior_shape="gaussian").fit(votes)
    lead = model.scores_[0] - model.scores_[1]
    assert 1 / (1 + np.exp(lead)) == pytest.approx(2.0 * lead / 2)
    with pytest.raises(SettingError, match="solver='newton'"):
        BradleyTerry(solver="mm", prior_shape="gaussian").fit(votes)


# -- what cannot be known ------------------------------------------------------------------------


def test_infinite_scores_are_refused_with_the_fix() -> None:
    votes = Comparisons.from_arrays(["x", "y"], ["y", "z"], ["ann"] * 2, ["x", "tie"])
    with pytest.raises(InputError, match=r"'x' and 'y' \(2 groups .*set prior above 0"):
        BradleyTerry(prior=0).fit(votes)
    assert np.isfinite(BradleyTerry().fit(votes).scores_).all()


def test_parts_that_never_met_are_reported() -> None:
    votes = Comparisons.from_arrays(["a", "a", "p"], ["b", "c", "q"], ["ann"] * 3, ["a", "c", "q"], items=list("abcpqz"))
    with pytest.warns(DataWarning, match=r"2 parts that never met \(of 3, 2 items\)"):
        model = BradleyTerry().fit(votes)
    assert model.result_.component.tolist() == [0, 0, 0, 1, 1, 2]
    assert np.bincount(model.result_.component, model.scores_) == pytest.approx(np.zeros(3), abs=1e-12)
    row = model.items_frame().filter(model.items_frame()["item"] == "z").row(0, named=True)
    assert (row["score"], row["standard_error"], row["rank_lower"], row["rank_upper"]) == (0.0, None, 1, 6)


@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
def test_parts_that_are_strongly_connected_need_no_prior() -> None:
    sides = ["a", "b", "p", "q"]
    votes = Comparisons.from_arrays(["a", "a", "p", "p"], ["b", "b", "q", "q"], ["ann"] * 4, sides)
    assert BradleyTerry(prior=0).fit(votes).scores_ == pytest.approx(np.zeros(4), abs=1e-9)


def test_no_comparisons_are_an_error() -> None:
    with pytest.raises(InputError, match="no comparisons"):
        BradleyTerry().fit(Comparisons.from_arrays([], [], [], []))
    with pytest.raises(InputError, match="no comparisons"):
        BradleyTerry().fit(Comparisons.from_arrays(["x"], ["y"], ["ann"], ["x"], weight=[0]))


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
def test_nothing_but_ties_makes_equals(ties: str) -> None:
    votes = Comparisons.from_arrays(["x", "y"], ["y", "z"], ["ann"] * 2, ["tie", "tie"])
    model = BradleyTerry(ties=ties).fit(votes)
    assert model.scores_ == pytest.approx(np.zeros(3), abs=1e-6)
    assert model.result_.by_rank()["rank"].to_list()[0] == 1


def test_settings_are_checked_and_unfitted_models_say_so() -> None:
    with pytest.raises(SettingError, match="solver"):
        BradleyTerry(solver="sgd").fit(simulate_comparisons(3, 10, 1).comparisons)
    with pytest.raises(SettingError, match="level must be below 1"):
        BradleyTerry(level=95).fit(simulate_comparisons(3, 10, 1).comparisons)
    with pytest.raises(NotFittedError):
        _ = BradleyTerry().scores_


def test_a_cap_on_iterations_is_a_warning() -> None:
    votes = simulate_comparisons(10, 100, 2).comparisons
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iteration"):
        assert not BradleyTerry(max_iter=1).fit(votes).converged_


# -- uncertainty ---------------------------------------------------------------------------------


def test_standard_errors_are_those_of_the_pseudo_inverse() -> None:
    votes = simulate_comparisons(12, 400, 2, score_sd=0.7, random_state=3).comparisons
    model, games = BradleyTerry(prior=0).fit(votes), Games.of(votes)
    chance = model.result_.probability(votes.items[games.low], votes.items[games.high])
    information = np.zeros((12, 12))
    total = games.wins_low + games.wins_high
    for i, j, w in zip(games.low, games.high, total * chance * (1 - chance), strict=True):
        step = np.zeros(12)
        step[i], step[j] = 1, -1
        information += w * np.outer(step, step)
    assert model.result_.standard_error == pytest.approx(np.sqrt(np.diag(np.linalg.pinv(information))), rel=1e-4)


def test_the_sparse_path_gives_what_the_dense_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate_comparisons(60, 1500, 5, tie=-1.0, random_state=4).comparisons
    exact = BradleyTerry(ties="davidson").fit(votes)
    monkeypatch.setattr(laplacian, "EXACT_ITEMS", 0)
    sparse = BradleyTerry(ties="davidson").fit(votes)
    assert sparse.scores_ == pytest.approx(exact.scores_, abs=1e-4)
    assert sparse.result_.standard_error == pytest.approx(exact.result_.standard_error, rel=0.05)
    assert (sparse.result_.rank_lower <= sparse.result_.rank).all()
    assert (sparse.result_.rank_upper >= sparse.result_.rank).all()
    again = BradleyTerry(ties="davidson").fit(votes)
    assert np.array_equal(again.result_.standard_error, sparse.result_.standard_error)


def test_draws_have_the_covariance_of_the_inverse() -> None:
    games = Games.of(simulate_comparisons(5, 40, 1, random_state=5).comparisons)
    random = np.random.default_rng(0)
    weight, diagonal = random.uniform(0.5, 2, games.n_pairs), np.full(5, 1e-9)
    spread = spread_of(games, weight, diagonal, 20_000, random)
    matrix = Laplacian(games, weight, diagonal, pinned=False)
    dense = np.linalg.pinv(matrix.times(np.eye(5)), rcond=1e-6, hermitian=True)
    assert np.cov(spread.draws) == pytest.approx(dense, abs=0.02 * dense.max())
    assert spread.standard_error == pytest.approx(np.sqrt(np.diag(dense)), rel=1e-5)


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    inside, ranks = [], []
    for seed in range(10):
        sim = simulate_comparisons(40, 2000, 4, reliable=(1, 1), score_sd=1.0, random_state=seed)
        model = BradleyTerry().fit(sim.comparisons).result_
        lower, upper = model.interval()
        truth = sim.score - sim.score.mean()
        inside.append(np.mean((lower <= truth) & (truth <= upper)))
        place = np.argsort(np.argsort(-truth)) + 1
        ranks.append(np.mean((model.rank_lower <= place) & (place <= model.rank_upper)))
    # 400 items: two standard errors of a share of 95% are 2 points, and items of one set depend on each other.
    assert 0.91 < np.mean(inside) < 0.98
    assert np.mean(ranks) > 0.9


def test_ranks_are_counted_within_parts_and_equal_scores_share_the_better() -> None:
    score, part = np.array([3.0, 1.0, 2.0, 2.0, -1.0, 5.0]), np.array([0, 0, 0, 0, 1, 1])
    assert ranks_within(score, part).tolist() == [1, 4, 2, 2, 2, 1]


@pytest.mark.filterwarnings("ignore::crowdwise.errors.CrowdwiseWarning")
@pytest.mark.parametrize("exact", [True, False])
def test_of_two_parts_each_has_its_own_ranks_with_ranges_inside(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr("crowdwise.methods.rank.laplacian.EXACT_ITEMS", 2)
    wins = [("a", "b"), ("a", "c"), ("b", "c"), ("x", "y"), ("x", "y"), ("y", "x")]
    best, worst = zip(*wins, strict=True)
    votes = Comparisons.from_arrays(best, worst, ["ann"] * 6, best, items=["a", "b", "c", "x", "y", "z"])
    frame = BradleyTerry().fit(votes).result_.by_rank()
    assert frame["item"].to_list() == ["a", "b", "c", "x", "y", "z"]
    assert frame["rank"].to_list() == [1, 2, 3, 1, 2, None]
    met = frame.head(5)
    assert (met["rank_lower"] >= 1).all()
    assert (met["rank_upper"] <= pl.Series([3, 3, 3, 2, 2])).all()
