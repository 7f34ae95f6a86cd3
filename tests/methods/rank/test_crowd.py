"""CrowdBT and noisy Bradley-Terry: gradients, bounds, recovery; preferences; networks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit

import crowdwise
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.simulate.comparisons import Simulated, simulate_comparisons
from crowdwise.errors import DataWarning, InputError, NotFittedError, SettingError
from crowdwise.methods.rank.annotators import Looking, People, Reliability
from crowdwise.methods.rank.bradley_terry import BradleyTerry
from crowdwise.methods.rank.crowd_bt import CrowdBT, actions
from crowdwise.methods.rank.engine import ballots_of, fit_crowd
from crowdwise.methods.rank.games import Games
from crowdwise.methods.rank.preferences import pair_spread, preferences

PEOPLE: dict[str, People] = {
    "reliability": Reliability(np.array([[0.9, 0.3, 0.6]]), np.array([[10.0, 2.0]])),
    "looking": Looking(np.array([[0.9, 0.2, 0.6], [0.5, 0.8, 0.3]]), np.array([[10.0, 2.0], [2.0, 2.0]])),
}

NOISY = partial(CrowdBT, errors="sides")


def small(seed: int = 0) -> tuple[Comparisons, Games]:
    votes = simulate_comparisons(4, 30, 3, tie=-1.0, random_state=seed).comparisons
    return votes, Games.of(votes)


def likelihood(votes: Comparisons, people: People, score: np.ndarray) -> float:
    """Vote by vote from the formulas; a tie is half a vote for each side."""
    total = 0.0
    for i, j, a, y in zip(votes.first, votes.second, votes.annotator, votes.outcome, strict=True):
        p = expit(score[i] - score[j])
        if isinstance(people, Reliability):
            w = people.probability[0, a]
            first = w * p + (1 - w) * (1 - p)
        else:
            look, side = people.probability[:, a]
            first = look * p + (1 - look) * side
        total += (1 + y) / 2 * np.log(first) + (1 - y) / 2 * np.log(1 - first)
    return total


@pytest.mark.parametrize("kind", PEOPLE)
def test_the_likelihood_is_that_of_the_formulas(kind: str) -> None:
    votes, games = small()
    ballots, people, score = ballots_of(votes, games), PEOPLE[kind], np.array([0.3, -1.0, 0.5, 0.2])
    expected = people.expect(ballots, score[ballots.first] - score[ballots.second])
    assert ballots.weight @ expected.log_lik == pytest.approx(likelihood(votes, people, score))
    chance, _ = people.response(ballots, score[ballots.first] - score[ballots.second])
    assert np.log(np.where(ballots.chose_first, chance, 1 - chance)) == pytest.approx(expected.log_lik)


@pytest.mark.parametrize("kind", PEOPLE)
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    votes, games = small()
    ballots, people, score = ballots_of(votes, games), PEOPLE[kind], np.array([0.3, -1.0, 0.5, 0.2])

    def value(z: np.ndarray) -> float:
        moved = people.with_logits(z)
        return likelihood(votes, moved, score) + moved.log_prior()

    expected = people.expect(ballots, score[ballots.first] - score[ballots.second])
    assert people.gradient(expected).ravel() == pytest.approx(approx_fprime(people.logits().ravel(), value), abs=1e-4)
    lead = score[ballots.first] - score[ballots.second]
    slope = ballots.weight * (expected.for_first * expit(-lead) - expected.for_second * expit(lead))
    of_score = np.bincount(ballots.first, slope, 4) - np.bincount(ballots.second, slope, 4)
    assert of_score == pytest.approx(approx_fprime(score, lambda s: likelihood(votes, people, s)), abs=1e-4)


@pytest.mark.parametrize("kind", PEOPLE)
def test_the_bound_never_falls_and_em_and_lbfgs_meet(kind: str) -> None:
    votes = simulate_comparisons(15, 800, 3, random_state=1).comparisons
    games = Games.of(votes)
    ballots, start = ballots_of(votes, games), PEOPLE[kind]
    em = fit_crowd(games, ballots, start, 1.0, 300, 1e-6, 1)
    joint = fit_crowd(games, ballots, start, 1.0, 0, 1e-6, 500)
    for fit in (em, joint):
        assert np.diff(fit.trace).min() > -1e-8
    assert em.trace[-1] == pytest.approx(joint.trace[-1], abs=1e-3)
    assert em.score == pytest.approx(joint.score, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", [CrowdBT, NOISY])
def test_the_fit_is_a_stationary_point_of_the_objective(method: type[CrowdBT]) -> None:
    votes, _ = small(3)
    model = method(tol=1e-7).fit(votes)
    people = model.annotators_frame()
    columns = ["reliability"] if method is CrowdBT else ["attention", "first_share"]
    priors = [[10.0, 2.0]] if method is CrowdBT else [[10.0, 2.0], [2.0, 2.0]]
    base = (Reliability if method is CrowdBT else Looking)(people.select(columns).to_numpy().T, np.array(priors))

    def value(z: np.ndarray) -> float:
        score, moved = z[:4] + z[-1], base.with_logits(z[4:-1])
        prior = 0.5 * np.sum(np.log(expit(score)) + np.log(expit(-score)))
        return likelihood(votes, moved, score) + moved.log_prior() + prior

    # Published scores have mean 0; the shift that the prior prefers is found first.
    at = np.concatenate([model.scores_, base.logits().ravel(), [0.0]])
    shifts = np.linspace(-1, 1, 4001)
    at[-1] = shifts[np.argmax([value(np.append(at[:-1], shift)) for shift in shifts])]
    assert np.abs(approx_fprime(at, value)).max() < 2e-3


@pytest.fixture(scope="module")
def crowd() -> Simulated:
    return simulate_comparisons(40, 3000, 20, spammers=0.2, adversaries=0.2, random_state=6)


def test_adversaries_and_spammers_are_told_apart_and_scores_recovered(crowd: Simulated) -> None:
    model = CrowdBT().fit(crowd.comparisons)
    action = model.annotators_frame()["action"].to_list()
    assert action[4:8] == ["flip"] * 4
    assert action[8:] == ["keep"] * 12
    reliability = model.annotators_frame()["reliability"].to_numpy()
    assert np.abs(reliability[:4] - 0.5).max() < 0.25
    assert np.abs(reliability[8:] - crowd.reliability[8:]).max() < 0.15
    plain = BradleyTerry().fit(crowd.comparisons)
    assert np.corrcoef(model.scores_, crowd.score)[0, 1] > 0.96 > np.corrcoef(plain.scores_, crowd.score)[0, 1]


def test_annotators_with_a_favourite_side_are_found() -> None:
    sim = simulate_comparisons(20, 3000, 6, reliable=(1, 1), random_state=2).comparisons
    outcome = np.where(sim.annotator < 2, 1, sim.outcome).astype(np.int8)  # two who always say "first"
    model = CrowdBT(errors="sides").fit(Comparisons(sim.first, sim.second, sim.annotator, outcome, sim.items, sim.annotators))
    people = model.annotators_frame()
    assert people["attention"].to_numpy()[:2].max() < 0.15
    assert people["first_share"].to_numpy()[:2].min() > 0.9
    assert people["attention"].to_numpy()[2:].min() > 0.8


def test_one_vote_and_one_annotator_are_enough() -> None:
    votes = Comparisons.from_arrays(["ä"], ["b"], ["ann"], ["ä"])
    for method in (BradleyTerry, CrowdBT, NOISY):
        model = method().fit(votes)
        assert model.result_.by_rank()["item"].to_list() == ["ä", "b"]
        assert model.items_.tolist() == ["b", "ä"]
        assert model.annotators_frame().height == 1
    tie = Comparisons.from_arrays(["x"], ["y"], ["ann"], ["tie"])
    assert CrowdBT().fit(tie).scores_ == pytest.approx([0, 0], abs=1e-9)


def test_the_same_seed_gives_the_same_bits(crowd: Simulated) -> None:
    one, other = (CrowdBT(random_state=3).fit(crowd.comparisons).items_frame() for _ in range(2))
    assert one.equals(other)


def test_a_frame_is_taken_for_comparisons(crowd: Simulated) -> None:
    frame = crowd.comparisons.to_frame().with_columns(crowd.comparisons.to_frame()["outcome"].replace_strict({1: "a", -1: "b"}))
    assert CrowdBT().fit(frame.rename({"outcome": "winner"})).scores_ == pytest.approx(CrowdBT().fit(crowd.comparisons).scores_)


def test_what_to_do_with_annotators() -> None:
    found = actions(np.array([0.9, 0.45, 0.1, 0.6, 0.6]), np.array([0.1, 0.2, 0.1, 0.2, 0.02]))
    # Above 1/2 by half a standard error is as good as unknown.
    assert found.tolist() == ["keep", "drop", "flip", "drop", "keep"]


def test_public_names_are_found() -> None:
    assert crowdwise.make("crowd-bt", right=5.0).right == 5.0
    assert crowdwise.CrowdBT is CrowdBT
    assert crowdwise.Comparisons is Comparisons


# -- preferences ---------------------------------------------------------------------------------


def test_votes_weigh_by_log_odds() -> None:
    votes = Comparisons.from_arrays(["x", "x", "y"], ["y", "y", "x"], ["ann", "bob", "ann"], ["x", "y", "x"])
    model = CrowdBT().fit(votes)
    ann, bob = model.annotators_frame()["reliability"].to_list()
    frame = preferences(model.result_, "votes")
    odds = 2 * np.log(ann / (1 - ann)) - np.log(bob / (1 - bob))
    assert frame.row(0)[:4] == ("x", "y", "x", "y")
    assert frame["confidence"][0] == pytest.approx(expit(odds))
    assert frame.select("n_votes", "votes_a", "votes_b", "ties").row(0) == (3, 2, 1, 0)
    assert frame["weight_winner"][0] + frame["weight_loser"][0] == pytest.approx(1)


def test_the_posterior_is_the_integral_over_the_deviation_of_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate_comparisons(4, 60, 3, random_state=8).comparisons
    model = CrowdBT().fit(votes)
    monkeypatch.setattr("crowdwise.methods.rank.preferences.pair_spread", lambda ranking: 1.3)
    frame, games = preferences(model.result_), Games.of(votes)
    reliability = model.annotators_frame()["reliability"].to_numpy()
    grid = np.linspace(-10, 10, 4001)
    for k in range(games.n_pairs):
        lead = model.scores_[games.low[k]] - model.scores_[games.high[k]] + grid
        density = np.exp(-0.5 * (grid / 1.3) ** 2)
        for e in np.flatnonzero(games.pair == k):
            toward = lead if (votes.first[e] == games.low[k]) == (votes.outcome[e] == 1) else -lead
            w = reliability[votes.annotator[e]]
            density = density * (w * expit(toward) + (1 - w) * expit(-toward))
        chance = np.sum(density * expit(lead)) / np.sum(density)
        assert frame["confidence"][k] == pytest.approx(max(chance, 1 - chance), abs=2e-3)


def test_pairs_with_a_will_of_their_own_are_noticed() -> None:
    random = np.random.default_rng(0)
    plain = simulate_comparisons(30, 6000, 10, reliable=(0.95, 1), random_state=3).comparisons
    games = Games.of(plain)
    wilful = random.normal(0, 2.0, games.n_pairs)
    lead = np.where(plain.first < plain.second, 1, -1) * wilful[games.pair]
    outcome = np.where(random.random(plain.n_votes) < expit(lead), 1, -1).astype(np.int8)
    votes = Comparisons(plain.first, plain.second, plain.annotator, outcome, plain.items, plain.annotators)
    assert pair_spread(BradleyTerry().fit(plain).result_) < 0.5
    model = BradleyTerry().fit(votes).result_
    assert pair_spread(model) == pytest.approx(2.0, abs=0.3)
    posterior, scores = (preferences(model, kind) for kind in ("posterior", "scores"))
    right, by_scores = (((f["winner"] == f["item_a"]).to_numpy() == (wilful > 0)).mean() for f in (posterior, scores))
    assert right > by_scores + 0.15


def test_a_pair_that_nothing_decides_has_no_winner() -> None:
    votes = Comparisons.from_arrays(["x"], ["y"], ["ann"], ["tie"])
    row = preferences(BradleyTerry().fit(votes).result_, "scores").row(0, named=True)
    assert (row["winner"], row["confidence"], row["ties"]) == (None, 0.5, 1)


def test_without_annotators_votes_have_no_weights() -> None:
    ranking = BradleyTerry().fit(Comparisons.from_arrays(["x"], ["y"], ["ann"], ["x"])).result_
    with pytest.raises(SettingError, match="use crowd-bt"):
        preferences(ranking, "votes")
    with pytest.raises(SettingError, match="evidence must be one of"):
        preferences(ranking, "all")
    with pytest.raises(InputError, match="no item 'q'"):
        ranking.probability("q", "x")


# -- networks ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_network_ranks_new_items_and_finds_adversaries() -> None:
    pytest.importorskip("torch")
    random = np.random.default_rng(0)
    X, direction = random.normal(size=(60, 3)), np.array([2.0, -1.0, 0.0])
    sim = simulate_comparisons(60, 1500, 10, adversaries=0.2, score=X @ direction, random_state=1)
    model = crowdwise.make("rank-network", network="linear", epochs=60, batch_size=2000, learning_rate=0.1)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X[::-1], sim.comparisons, items=sim.comparisons.items[::-1])
    new = random.normal(size=(50, 3))
    assert np.corrcoef(model.predict(new), new @ direction)[0, 1] > 0.95
    assert model.annotators_frame()["action"].to_list() == ["flip"] * 2 + ["keep"] * 8
    assert model.predict(X) == pytest.approx(model.scores_, abs=1e-4)
    again = crowdwise.make("rank-network", **model.get_params())
    again.fit(X[::-1], sim.comparisons, items=sim.comparisons.items[::-1])
    assert np.array_equal(again.scores_, model.scores_)
    assert model.items_frame()["standard_error"].null_count() == 60
    with pytest.raises(InputError, match="trained on"):
        model.predict(new[:, :2])


def test_features_must_be_there_for_every_item() -> None:
    pytest.importorskip("torch")
    votes = Comparisons.from_arrays(["x"], ["y"], ["ann"], ["x"])
    model = crowdwise.make("rank-network", epochs=1)
    with pytest.raises(InputError, match="needs features"):
        model.fit(None, votes)
    with pytest.raises(InputError, match="3 rows of features and 2 items"):
        model.fit(np.ones((3, 1)), votes)
    with pytest.raises(InputError, match="no features of 1 items with answers, such as 'y'"):
        model.fit(np.ones((2, 1)), votes, items=["x", "z"])


@pytest.mark.slow
def test_real_arguments_are_ranked_beyond_chance(shared_data) -> None:  # type: ignore[no-untyped-def]
    import polars as pl

    folder = shared_data / "convarg_pairs"
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}")
    votes = pl.read_csv(folder / "annotations.csv").join(pl.read_csv(folder / "pairs.csv"), on="item")
    sides = pl.Series(["left", "right", "tie"])[votes["label"].to_numpy()]
    made = Comparisons.from_arrays(votes["left"], votes["right"], votes["annotator"], sides)
    with pytest.warns(DataWarning, match="22 parts"):
        ranking = BradleyTerry().fit(made).result_
    gold = pl.read_csv(folder / "truth.csv").join(pl.read_csv(folder / "pairs.csv"), on="item").filter(pl.col("label") != 2)
    chance = ranking.probability(gold["left"], gold["right"])
    assert np.mean((chance > 0.5) == (gold["label"] == 0).to_numpy()) > 0.87
