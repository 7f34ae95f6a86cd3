from __future__ import annotations

import warnings
from itertools import permutations, product

import numpy as np
import polars as pl
import pytest

from crowdwise.data.similarities import Similarities
from crowdwise.data.simulate.similarities import simulate_pairs
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, NotFittedError, SettingError
from crowdwise.methods.clusters.agreement import hungarian_accuracy, normalised_mutual_information
from crowdwise.methods.clusters.block import fit_blocks, log_likelihood, one_cluster_each
from crowdwise.methods.clusters.pairs import Pairs, Rates
from crowdwise.methods.clusters.similarity_nmf import SimilarityNMF
from crowdwise.methods.clusters.start import k_means

ANSWERS = [(0, 1, 0, 1), (1, 0, 1, 1), (0, 2, 0, 0), (2, 1, 1, 1), (2, 3, 0, 1), (3, 0, 1, 0), (0, 1, 1, 0)]
TINY = Similarities.from_arrays(*zip(*ANSWERS, strict=True))


def by_pair():
    """Answers on each unordered pair, from the rows themselves."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for a, b, who, said in ANSWERS:
        found.setdefault((min(a, b), max(a, b)), []).append((who, said))
    return found


def chance(answers, rate):
    return np.prod([rate[who] if said else 1 - rate[who] for who, said in answers])


def one_step_by_enumeration(f, hit, alarm, spread, right, wrong):
    """Objective and next parameters: a sum over the clusters of both items of every pair."""
    n_clusters = f.shape[1]
    mass, log_lik = np.full(f.shape, spread / n_clusters), 0.0
    yes, total = np.zeros((2, len(hit))), np.zeros((2, len(hit)))
    for (i, j), answers in by_pair().items():
        joint = {
            (k, m): f[i, k] * f[j, m] * chance(answers, hit if k == m else alarm)
            for k, m in product(range(n_clusters), repeat=2)
        }
        z = sum(joint.values())
        log_lik += np.log(z)
        for (k, m), weight in joint.items():
            mass[i, k] += weight / z
            mass[j, m] += weight / z
            for who, said in answers:
                yes[int(k != m), who] += said * weight / z
                total[int(k != m), who] += weight / z
    rates = [
        (yes[0] + right) / (total[0] + right + wrong),
        (yes[1] + wrong) / (total[1] + right + wrong),
    ]
    prior = right * (np.log(hit) + np.log(1 - alarm)).sum() + wrong * (np.log(1 - hit) + np.log(alarm)).sum()
    return log_lik + spread / n_clusters * np.log(f).sum() + prior, mass / mass.sum(axis=1, keepdims=True), rates


def test_iterations_equal_enumeration_over_clusters_of_both_items():
    rng = np.random.default_rng(0)
    start = rng.dirichlet(np.ones(3), 4)
    pairs, rates = Pairs.of(TINY), Rates(np.array([0.8, 0.7]), np.array([0.1, 0.3]), 2.0, 1.0)
    f = start
    link = np.array([f[i] @ f[j] for i, j in sorted(by_pair())])
    first = rates.update(pairs, link)
    hit, alarm = first.hit, first.false_alarm
    expected = []
    for _ in range(4):
        value, f, (hit, alarm) = one_step_by_enumeration(f, hit, alarm, 0.5, 2.0, 1.0)
        expected.append(value)
    got = fit_blocks(pairs, start, rates, spread=0.5, max_iter=4, tol=0)
    np.testing.assert_allclose(got.trace, expected, rtol=1e-10)
    np.testing.assert_allclose(got.membership, f, rtol=1e-9)
    np.testing.assert_allclose(got.rates.hit, hit, rtol=1e-9)
    np.testing.assert_allclose(got.rates.false_alarm, alarm, rtol=1e-9)


def test_the_likelihood_of_answers_is_that_of_both_links():
    rng = np.random.default_rng(1)
    f, rates = rng.dirichlet(np.ones(2), 4), Rates(np.array([0.9, 0.6]), np.array([0.2, 0.1]), 1.0, 1.0)
    expected = [
        np.log((f[i] @ f[j]) * chance(said, rates.hit) + (1 - f[i] @ f[j]) * chance(said, rates.false_alarm))
        for (i, j), said in sorted(by_pair().items())
    ]
    np.testing.assert_allclose(log_likelihood(f, rates, Pairs.of(TINY)), expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_never_falls(seed):
    rng = np.random.default_rng(seed)
    votes, _, _ = simulate_pairs(rng.integers(0, 3, 30), 200, 5, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        trace = SimilarityNMF(clusters=3, tol=0, max_iter=100).fit(votes).trace_
    assert (np.diff(trace) > -1e-9 * abs(trace[-1])).all()


def test_the_finish_is_a_fixed_point_of_mean_field():
    votes, _, _ = simulate_pairs(np.arange(12) % 2, 60, 3, random_state=5)
    pairs = Pairs.of(votes)
    start = fit_blocks(
        pairs, np.random.default_rng(0).dirichlet(np.ones(2), 12), Rates.start(3, 2, 1), spread=0.5, max_iter=50, tol=0
    )
    done = one_cluster_each(pairs, start, max_iter=5000, tol=1e-13)
    q, rates = done.membership, done.rates
    log_h, log_g = rates.evidence(pairs)
    for n in range(12):
        score = np.log((q.sum(axis=0) + 1) / 14)
        for p in range(len(pairs)):
            other = pairs.j[p] if pairs.i[p] == n else pairs.i[p] if pairs.j[p] == n else None
            if other is not None:
                score = score + q[other] * log_h[p] + (1 - q[other]) * log_g[p]
        expected = np.exp(score - score.max())
        np.testing.assert_allclose(q[n], expected / expected.sum(), atol=1e-6)


@pytest.mark.slow
def test_clusters_and_rates_are_recovered():
    truth = np.random.default_rng(0).integers(0, 4, 200)
    votes, hit, alarm = simulate_pairs(truth, 8000, 10, balanced=True, random_state=1)
    model = SimilarityNMF(clusters=4).fit(votes)
    assert hungarian_accuracy(model.clusters_, truth) > 0.99
    assert np.abs(model.result_.hit - hit).max() < 0.08
    assert np.abs(model.result_.false_alarm - alarm).max() < 0.08
    best = model.annotators_frame().sort("skill", descending=True)["annotator"][0]
    assert (hit - alarm)[best] > np.median(hit - alarm)
    mixed = SimilarityNMF(clusters=4, members="mixed").fit(votes)
    assert hungarian_accuracy(mixed.clusters_, truth) > 0.95


def test_held_out_answers_choose_the_number_of_clusters():
    votes, _, _ = simulate_pairs(np.arange(120) % 3, 3000, 8, balanced=True, random_state=2)
    model = SimilarityNMF(max_clusters=5).fit(votes)
    assert model.membership_.shape == (120, 3)
    assert list(model.result_.held_out) == [2, 3, 4, 5]


def test_an_annotator_who_answers_at_random_has_no_skill():
    truth = np.arange(60) % 2
    votes, _, _ = simulate_pairs(truth, 2000, 4, random_state=3)
    rng = np.random.default_rng(0)
    noise = Similarities.from_arrays(
        rng.integers(0, 30, 400), rng.integers(30, 60, 400), ["spam"] * 400, rng.integers(0, 2, 400)
    )
    frames = [part.to_frame().with_columns(pl.col("annotator").cast(pl.String)) for part in (votes, noise)]
    both = pl.concat([frame.with_columns(same=pl.col("outcome") > 0) for frame in frames])
    table = SimilarityNMF(clusters=2).fit(both.select("first", "second", "annotator", "same")).annotators_frame()
    assert table["annotator"][-1] == "spam"
    assert abs(table["skill"][-1]) < 0.15


def test_clusters_are_ordered_by_size_and_bits_repeat():
    votes, _, _ = simulate_pairs(np.repeat([0, 1, 2], [10, 40, 20]), 2000, 5, random_state=4)
    model = SimilarityNMF(clusters=3).fit(votes)
    assert np.bincount(model.clusters_)[1:].tolist() == [40, 20, 10]
    assert (SimilarityNMF(clusters=3).fit(votes).membership_ == model.membership_).all()
    frame = model.items_frame()
    assert frame.columns == ["item", "cluster", "confidence", "n_votes", "p_1", "p_2", "p_3"]
    np.testing.assert_allclose(frame.select("p_1", "p_2", "p_3").to_numpy().sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "votes",
    [
        Similarities.from_arrays(["x"], ["y"], ["a"], [1]),
        Similarities.from_arrays(["x"], ["y"], ["a"], [0]),
        Similarities.from_arrays(["é", "é", "é"], ["ü", "ü", "ü"], ["a", "a", "a"], [1, 0, 1]),
        Similarities.from_arrays(["x", "x"], ["y", "z"], ["a", "b"], [1, None], items=["x", "y", "z", "never asked"]),
        Similarities.from_arrays([1, 2, 3], [2, 3, 1], ["a"] * 3, [1, 1, 1], weight=[1.0, 0.0, 2.0]),
    ],
    ids=["same", "different", "repeated", "missing", "weights"],
)
def test_odd_shapes_give_a_result(votes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        model = SimilarityNMF(clusters=2).fit(votes)
    assert np.isfinite(model.membership_).all()
    assert np.isfinite(model.annotators_frame().drop("annotator").to_numpy()).all()


def test_empty_clusters_warn():
    votes, _, _ = simulate_pairs(np.zeros(20, int), 600, 3, random_state=0)
    with pytest.warns(DataWarning, match="of 4 clusters have items"):
        SimilarityNMF(clusters=4).fit(votes)


def test_what_cannot_be_clustered_is_said():
    none = Similarities.from_arrays(["x"], ["y"], ["a"], [None])
    with pytest.raises(InputError, match="no answers"):
        SimilarityNMF(clusters=2).fit(none)
    one = Similarities.from_arrays(["x"], ["y"], ["a"], [1])
    with pytest.raises(SettingError, match="5 clusters of 2 items"):
        SimilarityNMF(clusters=5).fit(one)
    with pytest.raises(SettingError, match="too few to choose"):
        SimilarityNMF().fit(one)
    with pytest.raises(NotFittedError):
        _ = SimilarityNMF().clusters_
    with pytest.raises(SettingError):
        SimilarityNMF(clusters=1).fit(one)


def test_agreement_is_that_of_the_best_renaming():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = rng.integers(0, 3, 15), rng.integers(0, 3, 15)
        best = max(np.mean(np.array(names)[a] == b) for names in permutations(range(3)))
        assert hungarian_accuracy(a, b) == pytest.approx(best)
    assert normalised_mutual_information([1, 1, 2, 2], [1, 2, 1, 2]) == pytest.approx(0.0, abs=1e-12)
    assert normalised_mutual_information([1, 1], [2, 2]) == 1.0
    # By hand: entropies log 2, that of (1/4, 3/4), and of the joint shares (1/2, 1/4, 1/4).
    quarter = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
    joint = -(0.5 * np.log(0.5) + 2 * 0.25 * np.log(0.25))
    expected = (np.log(2) + quarter - joint) / ((np.log(2) + quarter) / 2)
    assert normalised_mutual_information([1, 1, 2, 2], [1, 1, 1, 2]) == pytest.approx(expected)
    with pytest.raises(InputError):
        hungarian_accuracy([1], [1, 2])


def test_k_means_finds_separate_heaps():
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 20)
    points = np.array([[0, 0], [5, 0], [0, 5]])[truth] + 0.3 * rng.normal(size=(60, 2))
    assert hungarian_accuracy(k_means(points, 3, rng), truth) == 1.0
    assert len(k_means(np.zeros((5, 2)), 3, rng)) == 5


def test_simulated_answers_have_the_rates_they_were_given():
    truth = np.arange(50) % 5
    votes, hit, alarm = simulate_pairs(truth, 40_000, 2, balanced=True, random_state=0)
    linked = truth[votes.first] == truth[votes.second]
    assert 0.5 < linked.mean() < 0.65
    for who in range(2):
        mine = votes.annotator == who
        assert np.mean(votes.outcome[mine & linked] > 0) == pytest.approx(hit[who], abs=0.02)
        assert np.mean(votes.outcome[mine & ~linked] > 0) == pytest.approx(alarm[who], abs=0.02)
