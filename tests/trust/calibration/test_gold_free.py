from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.trust.calibration.crowds import teams

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make
from crowdwise.trust.calibration import EffectiveVotes, Temperature, calibrate
from crowdwise.trust.metrics import ece

make_any = make


def fit(votes: Annotations) -> Result:
    """As sure as the model, so that there is something to calibrate."""
    return make("dawid-skene", confidence="model").fit(votes).result_


@pytest.mark.slow
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


@pytest.mark.slow
def test_groups_make_too_sure_a_fit_less_sure():
    votes, truth = teams(1500, [3] * 5, 0.7, 0.95, seed=0, k=3)
    result = fit(votes)
    discounted = EffectiveVotes.fit(result).result(result)
    assert ece(discounted.posterior, truth) < 0.6 * ece(result.posterior, truth)
    done = calibrate(result, "groups", truth=truth, n_resamples=50)
    assert "5 groups of 15 annotators" in done.account
    assert (done.result.posterior.max(axis=1) <= discounted.posterior.max(axis=1) + 1e-12).all()


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
    with pytest.raises(SettingError, match="no way to calibrate 'votes'"):
        calibrate(result, "votes")


def test_none_takes_the_model_at_its_word():
    votes = simulate(50, 10, 2, 5, random_state=2).votes
    sure, cautious = fit(votes), make("dawid-skene").fit(votes).result_
    assert not np.allclose(sure.posterior, cautious.posterior)
    for result in (sure, cautious):
        found = calibrate(result, "none").result
        assert found.posterior.tolist() == sure.posterior.tolist()
        assert found.confidence_source == "model"


def test_experience_is_what_a_fit_does_by_default():
    votes = simulate(50, 10, 2, 5, random_state=2).votes.with_gold({"item-000003": "class-1"})
    sure, cautious = fit(votes), make("dawid-skene").fit(votes).result_
    found = calibrate(sure)
    assert found.how == "experience"
    assert found.result.posterior == pytest.approx(cautious.posterior, abs=1e-15)
    assert found.result.model_posterior.tolist() == sure.posterior.tolist()
    assert found.result.confidence_source == "experience"
    # Once is enough.
    assert calibrate(cautious).result.posterior.tolist() == cautious.posterior.tolist()


def test_what_known_labels_have_calibrated_experience_leaves_alone():
    drawn = simulate(100, 10, 2, 5, random_state=1)
    found = calibrate(fit(drawn.votes), "temperature", truth=drawn.gold, n_resamples=20).result
    assert found.confidence_source == "gold"
    again = calibrate(found)
    assert again.result.posterior.tolist() == found.posterior.tolist()
    assert "gold" in again.account


def test_methods_that_know_groups_are_not_discounted_twice():
    votes, _ = teams(300, [3, 1, 1, 1], 0.8, 0.95, seed=0)
    result = make("group-dawid-skene").fit(votes).result_
    assert calibrate(result, "groups").result is result
    model = make("group-dawid-skene", confidence="model").fit(votes).result_
    assert calibrate(model, "groups").result.posterior == pytest.approx(result.posterior, abs=1e-15)


def test_an_automatic_choice_is_calibrated_as_what_it_chose():
    votes, _ = teams(100, [1] * 5, 0.8, 0.95, seed=0)
    result = make("one-coin").fit(votes).result_
    renamed = replace(result, method="auto: one-coin", settings={"methods": None, "class_prior": "learn", "random_state": 0})
    assert calibrate(renamed).facts == calibrate(result).facts
    sure = make("one-coin", confidence="model").fit(votes).result_
    renamed = replace(sure, method="auto: one-coin")
    assert calibrate(renamed).result.posterior.tolist() == calibrate(sure).result.posterior.tolist()


@pytest.mark.parametrize("method", ["majority", "glad", "mace", "belief-propagation", "mean-field", "kos", "cbcc"])
def test_any_method_can_be_calibrated_without_truth(method):
    votes, _ = teams(80, [3, 1, 1, 1], 0.8, 0.95, seed=0)
    result = make(method, confidence="model").fit(votes).result_
    discounted = EffectiveVotes(np.array([0, 0, 0, -1, -1, -1]), np.array([1.0])).result(result).posterior
    assert discounted.sum(axis=1) == pytest.approx(1)
    assert np.abs(discounted - result.posterior).max() > 0.05
    cautious = calibrate(result).result
    assert cautious.posterior.sum(axis=1) == pytest.approx(1)
    # Counted votes are mixed with the class shares; elsewhere no label gets surer.
    most = np.maximum(result.confidence, result.class_prior[result.codes] if method == "majority" else 0)
    assert (cautious.confidence <= most + 1e-12).all()
    assert cautious.labels.tolist() == result.labels.tolist()
    # Votes that are discounted are so whether or not the fit was made cautious before.
    already = EffectiveVotes(np.array([0, 0, 0, -1, -1, -1]), np.array([1.0])).result(make(method).fit(votes).result_)
    assert already.posterior == pytest.approx(discounted, abs=1e-12)
    assert already.expected_counts() == pytest.approx(result.expected_counts(), abs=1e-12)


def test_one_class_and_single_votes_are_no_crash():
    alone = Annotations.from_arrays(["a", "b", "c"], ["x", "x", "y"], [0, 1, 0])
    assert np.isfinite(calibrate(fit(alone)).result.posterior).all()
    same = Annotations.from_arrays(["a", "a", "b", "b"], ["x", "y", "x", "y"], [0, 0, 1, 1], classes=[0, 1, 2])
    assert np.isfinite(calibrate(fit(same), "groups").result.posterior).all()


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
