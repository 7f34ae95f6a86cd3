from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.trust.calibration.crowds import teams

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.gold import encode_gold
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make
from crowdwise.io import read_gold
from crowdwise.trust.calibration import EffectiveVotes, Temperature, calibrate, temperature_by_votes
from crowdwise.trust.calibration.effective_votes import groups_in
from crowdwise.trust.calibration.predicted_votes import deal_by_group
from crowdwise.trust.metrics import ece, log_loss

make_any = make


def fit(votes: Annotations) -> Result:
    return make("dawid-skene").fit(votes).result_


def test_votes_of_a_group_on_an_item_are_held_out_together():
    votes, _ = teams(60, [3, 1, 1], 0.8, 0.9, seed=0)
    group = np.array([0, 0, 0, -1, -1])
    fold = deal_by_group(votes, group, folds=3)
    for n in range(votes.n_items):
        own = fold[votes.item_ptr[n] : votes.item_ptr[n + 1]]
        assert len(set(own[:3])) == 1
        # Three cells, three folds: one each, so that a fit never loses all votes of an item.
        assert len({own[0], own[3], own[4]}) == 3


def test_items_of_one_group_alone_are_never_held_out():
    votes = Annotations.from_arrays(["a", "a", "b", "b"], ["x", "y", "x", "z"], [0, 0, 1, 1])
    fold = deal_by_group(votes, np.array([0, 0, -1]), folds=2)
    assert fold[:2].tolist() == [-1, -1]
    assert sorted(fold[2:].tolist()) == [0, 1]
    with pytest.raises(InputError, match="no vote can be held out"):
        temperature_by_votes(fit, votes.take_items(np.array([0])), group=np.array([0, 0, -1]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("k", [2, 3])
def test_independent_crowds_keep_their_temperature(seed, k):
    drawn = simulate(1500, 20, k, 7, "one-coin", options={"one-coin": {"a": 7, "b": 3}}, random_state=seed)
    found = temperature_by_votes(fit, drawn.votes)
    assert found.value == pytest.approx(1.0, abs=0.25)
    assert found.gain < 0.003


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "sees", "repeats", "k"), [([4, 4, 4], 0.75, 0.9, 2), ([3] * 5, 0.7, 0.95, 3)])
def test_dependent_crowds_ask_for_about_the_temperature_that_gold_asks_for(sizes, sees, repeats, k):
    votes, truth = teams(1500, sizes, sees, repeats, seed=0, k=k)
    result = fit(votes)
    group = groups_in(result)
    assert len(set(group.tolist())) == len(sizes)
    found = temperature_by_votes(fit, votes, group=group)
    best = Temperature.fit(result.posterior, truth).value
    assert best > 2.5
    assert found.value == pytest.approx(best, rel=0.25)
    after = found.result(result).posterior
    assert ece(after, truth) < 0.6 * ece(result.posterior, truth)
    assert log_loss(after, truth) < 0.7 * log_loss(result.posterior, truth)
    # Single votes held out would leave their copies behind, which foretell them whatever the true class is.
    assert temperature_by_votes(fit, votes).value < found.value


def test_correlation_and_effective_votes_by_hand():
    # p = 0.75 * 0.9 + 0.25 * 0.1 = 0.7; both right: 0.75 * 0.81 + 0.25 * 0.01 = 0.61; (0.61 - 0.49) / 0.21 = 0.571.
    votes, _ = teams(4000, [4, 4, 4], 0.75, 0.9, seed=0)
    found = EffectiveVotes.fit(fit(votes))
    assert found.correlation == pytest.approx([0.571] * 3, abs=0.06)
    exact = replace(found, correlation=np.full(3, 0.5))
    # Four votes of a group on an item: 4 / (1 + 3 * 0.5) = 1.6 votes.
    assert exact.weight(votes)[:12].sum() == pytest.approx(3 * 1.6)
    some = votes.take_votes(votes.annotator != 0)
    assert exact.weight(some)[:3] == pytest.approx(np.full(3, 1 / 2))


def test_discounted_votes_are_the_model_with_weighted_evidence():
    votes, _ = teams(50, [2, 1, 1], 0.8, 0.95, seed=1)
    result = fit(votes)
    found = EffectiveVotes(np.array([0, 0, -1, -1]), np.array([1.0]))
    confusion = result.confusion
    expected = np.zeros((50, 2))
    for n in range(50):
        own = votes.label[4 * n : 4 * n + 4]
        evidence = [np.log(confusion[a, :, own[a]]) * (0.5 if a < 2 else 1.0) for a in range(4)]
        score = np.exp(np.log(result.class_prior) + sum(evidence))
        expected[n] = score / score.sum()
    out = found.result(result)
    assert out.posterior == pytest.approx(expected)
    assert out.annotators is result.annotators
    assert out.method == result.method


def test_groups_make_too_sure_a_fit_less_sure():
    votes, truth = teams(1500, [3] * 5, 0.7, 0.95, seed=0, k=3)
    result = fit(votes)
    done = calibrate(result, "groups", truth=truth, n_resamples=50)
    assert done.before is not None
    assert done.after is not None
    assert done.after.ece < 0.6 * done.before.ece
    assert "5 groups of 15 annotators" in done.account


def test_nothing_changes_without_groups():
    drawn = simulate(200, 10, 2, 5, random_state=0)
    result = fit(drawn.votes)
    found = EffectiveVotes.fit(result)
    assert found.n_groups == 0
    assert found.result(result) is result
    assert "counts in full" in calibrate(result, "groups").account


def test_known_labels_and_items_without_votes_stay_as_they_are():
    drawn = simulate(100, 10, 2, 5, random_state=1)
    votes = drawn.votes.take_votes(drawn.votes.item != 7).with_gold({"item-000001": "class-0"})
    result = fit(votes)
    out = calibrate(result, "temperature", truth=drawn.gold, n_resamples=20).result
    assert out.posterior[0].tolist() == result.posterior[0].tolist() == [1.0, 0.0]
    assert out.posterior[7].tolist() == result.posterior[7].tolist()
    assert not np.allclose(out.posterior, result.posterior)
    assert out.votes is result.votes


def test_labels_that_the_fit_was_given_judge_nothing():
    drawn = simulate(50, 10, 2, 5, random_state=2)
    result = fit(drawn.votes.with_gold(drawn.gold))
    with pytest.raises(InputError, match="fit without these labels"):
        calibrate(result, truth=drawn.gold)


def test_ways_are_checked():
    result = fit(simulate(50, 10, 2, 5, random_state=2).votes)
    with pytest.raises(SettingError, match="did you mean 'dirichlet'"):
        calibrate(result, "dirichlett")
    with pytest.raises(SettingError, match="needs true labels"):
        calibrate(result, "isotonic")
    assert calibrate(result, "none").result is result
    with pytest.raises(InputError, match="give fit="):
        calibrate(replace(result, method="crowd-layer-mw"), "votes")


def test_methods_that_know_groups_are_not_discounted_twice():
    votes, _ = teams(300, [3, 1, 1, 1], 0.8, 0.95, seed=0)
    result = make("group-dawid-skene").fit(votes).result_
    assert calibrate(result, "groups").result is result


def test_an_automatic_choice_is_calibrated_as_what_it_chose():
    votes, _ = teams(100, [1] * 5, 0.8, 0.95, seed=0)
    result = make("one-coin").fit(votes).result_
    renamed = replace(result, method="auto: one-coin", settings={"methods": None, "class_prior": "learn", "random_state": 0})
    assert calibrate(renamed, "votes").facts == calibrate(result, "votes").facts


@pytest.mark.parametrize("method", ["majority", "glad", "mace", "belief-propagation", "mean-field", "kos", "cbcc"])
def test_any_method_can_be_calibrated_without_truth(method):
    votes, _ = teams(80, [3, 1, 1, 1], 0.8, 0.95, seed=0)
    result = make(method).fit(votes).result_
    discounted = EffectiveVotes(np.array([0, 0, 0, -1, -1, -1]), np.array([1.0])).result(result).posterior
    assert discounted.sum(axis=1) == pytest.approx(1)
    assert np.abs(discounted - result.posterior).max() > 0.05
    assert calibrate(result, "votes").facts["temperature"] > 0.3


def test_one_class_and_single_votes_are_no_crash():
    alone = Annotations.from_arrays(["a", "b", "c"], ["x", "x", "y"], [0, 1, 0])
    with pytest.raises(InputError, match="no vote can be held out"):
        calibrate(fit(alone), "votes")
    same = Annotations.from_arrays(["a", "a", "b", "b"], ["x", "y", "x", "y"], [0, 0, 1, 1], classes=[0, 1, 2])
    assert np.isfinite(calibrate(fit(same), "votes").result.posterior).all()


def test_classifiers_are_calibrated_as_results_and_as_plain_probabilities():
    votes, truth = teams(200, [1] * 4, 0.8, 0.95, seed=0)
    X = np.stack([truth + np.random.default_rng(0).normal(size=200), np.ones(200)], axis=1)
    model = make_any("raykar").fit(X, votes)
    known = dict(zip(votes.items.tolist(), truth.tolist(), strict=True))
    done = calibrate(model.result_, truth=known, n_resamples=20)
    assert done.before is not None
    assert done.after is not None
    assert done.after.log_loss < done.before.log_loss + 0.02
    discount = EffectiveVotes(np.array([0, 0, -1, -1]), np.array([0.5]))
    assert discount.result(model.result_).posterior.sum(axis=1) == pytest.approx(1)
    assert Temperature.fit(model.predict_proba(X), truth).apply(model.predict_proba(X)).shape == (200, 2)
    with pytest.raises(InputError, match="give fit="):
        calibrate(model.result_, "votes")
    again = calibrate(model.result_, "votes", fit=lambda kept: make_any("raykar").fit(X, kept).result_)
    assert 0.4 < again.facts["temperature"] < 3


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ratio"), [("bluebird", 0.5), ("rte", 0.75), ("dog", 0.6)])
def test_held_out_votes_make_dawid_skene_more_honest_on_real_data(shared_data: Path, name: str, ratio: float):
    votes = crowdwise.read(next((shared_data / name).glob("annotations.csv*"))).deduplicate()
    truth = encode_gold(votes, read_gold(shared_data / name / "truth.csv"))
    result = fit(votes)
    after = calibrate(result, "votes").result
    assert log_loss(after.posterior, truth) < ratio * log_loss(result.posterior, truth)
    assert ece(after.posterior, truth) < ece(result.posterior, truth)
    assert after.labels.tolist() == result.labels.tolist()
