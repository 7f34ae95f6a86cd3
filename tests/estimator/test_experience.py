"""Confidence by experience: tempering by hand, the table of exponents, and what a result says of its source."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.anonymous import AnonymousVotes
from crowdwise.errors import SettingError
from crowdwise.estimator.experience import ANONYMOUS, CONFIDENCES, EXPONENTS, OTHER_EXPONENT
from crowdwise.estimator.judgement import calibrated, exponent_of
from crowdwise.estimator.registry import label_methods, make

METHODS = label_methods()
EVERY = [name for name, line in METHODS.items() if not line.binary_only]
# An annotator model that judges those with few votes by all.
POOLS = SimpleNamespace(pools=True)
COUNTED = ("majority", "wawa", "zbs", "group-vote")


def fit(name: str, votes: Any, gold: Any = None, **settings: Any) -> Any:
    with quiet():
        return make(name, **settings).fit(votes, gold=gold)


def votes_of(seed: int = 0, n_items: int = 40, weighted: bool = False) -> Annotations:
    """Two to five votes an item, by seven annotators, in three classes."""
    rng = np.random.default_rng(seed)
    votes, _ = crowd(seed, n_items, diagonal_crowd(7, 3, 0.75))
    kept = np.concatenate([rng.permutation(np.flatnonzero(votes.item == n))[: rng.integers(2, 6)] for n in range(n_items)])
    weight = rng.choice([0.25, 1.0, 3.0], len(kept)) if weighted else None
    return Annotations.from_arrays(
        votes.item[kept],
        votes.annotator[kept],
        votes.label[kept],
        weight,
        items=range(n_items),
        annotators=range(7),
        classes=range(3),
    )


# -- the table --------------------------------------------------------------------------------------


def test_every_label_only_method_has_an_exponent() -> None:
    assert [name for name in METHODS if name != "auto" and name not in EXPONENTS] == []
    assert [name for name in EXPONENTS if name not in METHODS] == ["two-stage"]  # whose labels are those of its aggregation


def test_exponents_lie_between_counting_every_vote_in_full_and_not_at_all() -> None:
    assert EXPONENTS["consensus"] == 0.55
    for name, exponent in EXPONENTS.items():
        assert 0 <= exponent <= 1, name
    models = sorted(exponent for name, exponent in EXPONENTS.items() if name not in COUNTED)
    assert pytest.approx(models[len(models) // 2], abs=0.011) == OTHER_EXPONENT


def test_anonymous_votes_have_an_exponent_of_their_own() -> None:
    rng = np.random.default_rng(0)
    item, label = np.repeat(np.arange(40), 12), rng.choice(3, 480, p=[0.6, 0.3, 0.1])
    label = (label + np.repeat(rng.integers(0, 3, 40), 12)) % 3
    votes = AnonymousVotes.from_arrays(item, np.arange(480), label)
    assert exponent_of("consensus", anonymous=True) == ANONYMOUS["consensus"] > exponent_of("consensus")
    assert exponent_of("majority", anonymous=True) == exponent_of("majority")
    model = crowdwise.make("consensus").fit(votes)
    power = model.result_.model_posterior ** (1 / 12 ** ANONYMOUS["consensus"])
    expected = power / power.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.posterior_, expected, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(votes), expected, atol=1e-9)
    np.testing.assert_allclose(model.result_.confidence_in(0.5), expected.max(axis=1), atol=1e-12)


def test_a_choice_has_the_exponent_of_what_it_chose() -> None:
    assert exponent_of("auto: glad") == exponent_of("glad") == EXPONENTS["glad"]
    assert exponent_of("a method of my own") == OTHER_EXPONENT


# -- by hand ----------------------------------------------------------------------------------------


def test_tempering_by_hand() -> None:
    # Four votes on the first item and one on the second; with an exponent of one half T is 2 and 1.
    votes = Annotations.from_arrays([0, 0, 0, 0, 1], list("abcda"), [0, 0, 0, 1, 1])
    posterior = np.array([[0.9, 0.1], [0.2, 0.8]])
    found = calibrated(posterior, votes, POOLS, np.array([0.5, 0.5]), 0.5)
    # Square roots: .9487 and .3162, that is 3 : 1.
    assert found == pytest.approx(np.array([[0.75, 0.25], [0.2, 0.8]]))


def test_items_without_votes_keep_the_class_shares() -> None:
    votes = Annotations.from_arrays([0, 1], ["a", "a"], [0, 0], items=range(3), classes=range(2))
    met = Annotations.from_arrays([0, 1, 1], ["a", "a", "b"], [0, 0, 0], items=range(3), classes=range(2))
    posterior, shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]]), np.array([0.6, 0.4])
    for given in (votes, met):
        for annotators in (POOLS, SimpleNamespace(additive_in="share")):
            assert calibrated(posterior, given, annotators, shares, 0.8)[2] == pytest.approx(shares)
    assert calibrated(posterior, met, POOLS, shares, 0.8)[0] == pytest.approx([0.9, 0.1])


def test_light_votes_never_make_a_label_surer() -> None:
    # A tenth of a vote: its T would be below one.
    votes = Annotations.from_arrays([0, 0], ["a", "b"], [0, 1], [0.05, 0.05])
    posterior = np.array([[0.7, 0.3]])
    assert votes.weight_per_item.tolist() == pytest.approx([0.1])
    assert calibrated(posterior, votes, None, np.array([0.5, 0.5]), 0.8) == pytest.approx(posterior)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["consensus", "dawid-skene", "one-coin", "glad", "online-em"])
def test_a_fit_is_tempered_by_its_votes(name: str, weighted: bool) -> None:
    votes = votes_of(1, weighted=weighted)
    result = fit(name, votes, gold={3: 2}).result_
    for n in range(40):
        own = votes.item == n
        mass = own.sum() if votes.weight is None else votes.weight[own].sum()
        power = result.model_posterior[n] ** (1 / max(mass, 1) ** EXPONENTS[name])
        expected = power / power.sum() if n != 3 else [0, 0, 1]
        np.testing.assert_allclose(result.posterior[n], expected, atol=1e-12)


def test_counted_votes_have_one_vote_more_by_hand() -> None:
    votes = Annotations.from_arrays([0, 0, 0, 1], list("abca"), list("xxxy"), classes=list("xy"))
    result = fit("majority", votes, class_prior=[0.75, 0.25]).result_
    # (3 + .75) / 4 and .25 / 4; .75 / 2 and (1 + .25) / 2.
    assert result.posterior == pytest.approx(np.array([[0.9375, 0.0625], [0.375, 0.625]]))
    assert result.model_posterior.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("name", [name for name in COUNTED if name != "group-vote"])
def test_vote_shares_have_no_hard_zeros(name: str) -> None:
    votes = votes_of(2)
    result = fit(name, votes).result_
    assert (result.model_posterior == 0).any()
    assert result.posterior.min() > 0.001
    assert result.confidence.max() < 1


# -- every method -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("consensus", "majority", "dawid-skene", "mace") else pytest.mark.slow) for n in EVERY],
)
def test_the_setting_chooses(name: str) -> None:
    votes = votes_of(3)
    few = {"max_iter": 15} if "max_iter" in make(name).get_params() else {}
    believed, plain = fit(name, votes, gold={5: 1}, **few), fit(name, votes, gold={5: 1}, confidence="model", **few)
    assert believed.result_.confidence_source == "experience"
    assert plain.result_.confidence_source == "model"
    assert plain.result_.inferred is None
    np.testing.assert_array_equal(believed.result_.model_posterior, plain.posterior_)
    np.testing.assert_array_equal(plain.result_.model_posterior, plain.posterior_)
    np.testing.assert_array_equal(believed.confusion_, plain.confusion_)
    assert believed.labels_.tolist() == plain.labels_.tolist()
    np.testing.assert_allclose(plain.predict_proba(votes)[6:], plain.posterior_[6:], atol=1e-9)
    np.testing.assert_allclose(believed.predict_proba(votes)[6:], believed.posterior_[6:], atol=1e-9)
    assert believed.posterior_[5].tolist() == [0, 1, 0]
    # No label is surer than the model has it, but for counted ones that the class shares lift.
    if name not in COUNTED:
        assert (believed.posterior_.max(axis=1) <= plain.posterior_.max(axis=1) + 1e-12).all()


def test_there_are_two_ways_and_no_third() -> None:
    assert CONFIDENCES == ("experience", "model")
    with pytest.raises(SettingError, match="confidence must be one of experience, model"):
        make("dawid-skene", confidence="gut feeling").fit(votes_of())


def test_a_saved_result_is_as_sure(tmp_path: Path) -> None:
    for i, confidence in enumerate(CONFIDENCES):
        model = fit("dawid-skene", votes_of(4), confidence=confidence)
        model.save(tmp_path / str(i))
        loaded: Any = crowdwise.load(tmp_path / str(i))
        assert loaded.posterior_.tobytes() == model.posterior_.tobytes()
        assert loaded.result_.model_posterior.tobytes() == model.result_.model_posterior.tobytes()
        assert loaded.result_.confidence_source == confidence
        assert loaded.get_params()["confidence"] == confidence
        assert loaded.predict_proba(votes_of(5)).tobytes() == model.predict_proba(votes_of(5)).tobytes()


# -- items without votes ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["consensus", "majority", "dawid-skene"])
def test_items_without_votes_are_empty_and_marked(name: str) -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1], list("abab"), list("xxyx"), items=range(4))
    result = fit(name, votes, gold={3: "y"}).result_
    assert result.unasked.tolist() == [False, False, True, False]
    frame = result.items_frame()
    assert frame["label"].to_list()[2:] == [None, "y"]
    assert frame["confidence"].to_list()[2:] == [None, 1.0]
    assert frame["note"].to_list() == ["", "", "no votes", "known"]
    assert frame["confidence_source"].to_list() == ["experience", "experience", "", "gold"]
    shares = frame.select("p(x)", "p(y)").row(2)
    np.testing.assert_allclose(shares, result.class_prior, atol=1e-9)
    filled = result.items_frame(fill_unvoted=True)
    assert filled["label"].to_list()[2] == "xy"[int(result.class_prior.argmax())]
    assert filled["confidence"].to_list()[2] == pytest.approx(result.class_prior.max())
    assert filled["note"].to_list() == frame["note"].to_list()


# -- the range over crowds --------------------------------------------------------------------------


def test_a_more_dependent_crowd_is_less_sure() -> None:
    votes = votes_of(6)
    result = fit("consensus", votes).result_
    ranges = [result.confidence_in(share) for share in (0.1, 0.5, 0.9, 0.99)]
    np.testing.assert_allclose(ranges[1], result.confidence, atol=1e-12)
    several = votes.votes_per_item > 1
    for less, more in pairwise(ranges):
        assert (more[several] < less[several] + 1e-12).all()
        # One vote is one vote in every crowd.
        np.testing.assert_allclose(more[~several], less[~several])


def test_the_range_is_that_of_the_exponents() -> None:
    votes = votes_of(7)
    result = fit("dawid-skene", votes).result_
    # A normal distribution around the exponent, of which nine tenths lie below 1.2816 sd; above it the sd is .105.
    exponent = 0.77 + 1.2815515655446004 * 0.105
    for n in range(40):
        power = result.model_posterior[n] ** (1 / (votes.item == n).sum() ** exponent)
        assert result.confidence_in(0.9)[n] == pytest.approx((power / power.sum())[result.codes[n]])


def test_the_range_of_a_classifier_is_one_of_temperatures() -> None:
    votes = votes_of(7)
    X = np.random.default_rng(0).normal(size=(votes.n_items, 2))
    result = crowdwise.make("raykar").fit(X, votes).result_
    for n in range(40):
        warmer = (votes.item == n).sum() ** 0.66 * np.exp(1.2815515655446004 * 0.46)
        power = result.model_posterior[n] ** (1 / warmer)
        assert result.confidence_in(0.9)[n] == pytest.approx((power / power.sum())[result.codes[n]])
    # Its labels are those of Dawid-Skene, with whose exponents they vary.
    two = crowdwise.make("two-stage", classifier="logistic").fit(X, votes).result_
    power = two.model_posterior ** (1 / votes.votes_per_item[:, None] ** (0.77 + 1.2815515655446004 * 0.105))
    expected = (power / power.sum(axis=1, keepdims=True))[np.arange(votes.n_items), two.codes]
    np.testing.assert_allclose(two.confidence_in(0.9), expected, atol=1e-9)


def test_no_range_where_confidence_rests_on_the_model_and_none_outside_zero_and_one() -> None:
    result = fit("dawid-skene", votes_of(8), confidence="model").result_
    assert result.confidence_in(0.9).tolist() == result.confidence.tolist()
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(SettingError, match="share of crowds"):
            result.confidence_in(share)


def test_a_crowd_may_be_independent_but_never_more_than_that() -> None:
    result = fit("minimax-entropy", votes_of(9)).result_
    # .63 less many sd would be below zero: T stays at one, the model's own.
    sure = result.model_posterior[np.arange(40), result.codes]
    np.testing.assert_allclose(result.confidence_in(1e-6), sure, atol=1e-12)


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "mace", "bayes-gc", "consensus", "majority"])
def test_one_vote_is_never_certain(name: str) -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(np.arange(200), rng.integers(7, size=200), rng.integers(2, size=200))
    found = fit(name, votes).result_.confidence
    assert found.max() < 0.95
    # Nothing is known of annotators who always voted alone: 0.7 where each is judged alone.
    if name == "dawid-skene":
        assert found.max() == pytest.approx(0.7)


def test_a_single_vote_is_as_sure_as_its_annotator_is_right_elsewhere() -> None:
    # Annotator 0 is right on all 50 items that four others voted on too, annotator 1 on half of them; both vote alone once.
    truth = np.arange(50) % 2
    half = np.where(np.arange(50) % 4 < 2, truth, 1 - truth)
    columns = [truth, half, truth, truth, truth]
    item = np.concatenate([np.tile(np.arange(50), 5), [50, 51]])
    annotator = np.concatenate([np.repeat(np.arange(5), 50), [0, 1]])
    label = np.concatenate([*columns, [0, 0]])
    result = fit("dawid-skene", Annotations.from_arrays(item, annotator, label)).result_
    assert (result.codes[:50] == truth).all()
    # 5 pseudo-votes of the crowd's reliability r beside 50 own: r = (225 + 3.5) / 255 over the 250 votes in company.
    r = (225 + 5 * 0.7) / 255
    for n, right in ((50, 50), (51, 25)):
        most = (right + 5 * r) / 55
        assert result.confidence[n] == pytest.approx(min(most, result.model_posterior[n].max()), abs=5e-3)


def test_attention_and_items_that_nobody_could_tell_are_in_the_tables() -> None:
    result = fit("consensus", votes_of()).result_
    assert result.annotators_frame().columns[-1] == "attention"
    assert "attention" not in fit("one-coin", votes_of()).result_.annotators_frame().columns
    assert result.untold.shape == (result.votes.n_items,)
    said = result.items_frame()["note"].to_numpy() == "nobody could tell"
    assert (said == result.untold).all()
    assert not fit("one-coin", votes_of()).result_.untold.any()


# -- where nobody meets anybody ---------------------------------------------------------------------


def lone(gold: bool = False) -> tuple[Annotations, dict[int, str] | None]:
    """A hundred items with a vote each, nearly all for one class, by one annotator."""
    labels = ["yes"] * 95 + ["no"] * 5
    votes = Annotations.from_arrays(range(100), ["ann"] * 100, labels)
    return votes, ({n: labels[n] for n in range(60)} if gold else None)


@pytest.mark.parametrize("name", ["consensus", "hierarchical-dawid-skene", "dawid-skene", "bayes-gc", "majority", "mace"])
def test_votes_that_never_meet_are_no_surer_than_anybody_is_thought_to_be(name: str) -> None:
    votes, _ = lone()
    result = fit(name, votes).result_
    assert result.untested
    # 0.7 is what is thought of annotators beforehand; of counted votes, one of each class is added to the one there is.
    assert result.confidence.max() <= (0.75 if name in COUNTED else 0.7) + 1e-9
    assert (result.labels == ["yes"] * 95 + ["no"] * 5).mean() >= 0.95


def test_known_labels_and_earlier_answers_are_company() -> None:
    votes, gold = lone(gold=True)
    assert not fit("consensus", votes, gold).result_.untested
    assert fit("consensus", votes, gold).result_.confidence[60:95].min() > 0.8
    with quiet():
        told = make("consensus").fit(votes, history={"ann": (200, 2)}).result_
    assert not told.untested
    assert told.confidence[:95].min() > 0.8


def test_one_meeting_is_enough_to_be_tested() -> None:
    votes = Annotations.from_arrays([*range(100), 0], ["ann"] * 100 + ["bob"], ["yes"] * 95 + ["no"] * 5 + ["yes"])
    assert not fit("consensus", votes).result_.untested


def test_nothing_is_unknown_of_confidence_that_is_the_models_own() -> None:
    result = fit("consensus", lone()[0], confidence="model").result_
    assert not result.untested
    assert result.confidence.max() > 0.7
