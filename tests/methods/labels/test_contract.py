"""What every registered method promises, whichever it is."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from tests.methods.labels.helpers import (
    ALL,
    COUNTING,
    ITERATIVE,
    ORDERED,
    crowd,
    diagonal_crowd,
    quiet,
    random_votes,
    slow_unless_classic,
)
from tests.strategies import small_votes

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, NotFittedError, SettingError
from crowdwise.estimator.registry import label_methods, make
from crowdwise.estimator.settings import describe_settings
from crowdwise.trust.metrics import accuracy

METHODS = label_methods()

method = pytest.mark.parametrize("name", slow_unless_classic(ALL))
iterative = pytest.mark.parametrize("name", slow_unless_classic(ITERATIVE))
# A tenth of the profile's examples for each of the methods is about the profile's number for the contract.
examples = settings(max_examples=max(settings.default.max_examples // 10, 10), suppress_health_check=[HealthCheck.too_slow])


def fit(name: str, votes: Any, gold: Any = None, history: Any = None, **options: Any) -> Any:
    with quiet():
        return make(name, **options).fit(votes, gold=gold, history=history)


def tight(name: str) -> dict[str, Any]:
    """Settings under which a fit ends at its fixed point."""
    return {"tol": 1e-13, "max_iter": 20_000} if name in ITERATIVE else {}


def same(first: Any, second: Any) -> None:
    """Equal to the bit, wherever a user could look."""
    assert first.posterior_.tobytes() == second.posterior_.tobytes()
    assert first.confusion_.tobytes() == second.confusion_.tobytes()
    assert first.prior_.tobytes() == second.prior_.tobytes()
    assert first.trace_.tobytes() == second.trace_.tobytes()
    assert first.labels_.tolist() == second.labels_.tolist()
    assert (first.n_iter_, first.converged_) == (second.n_iter_, second.converged_)


def is_sound(model: Any) -> None:
    votes = model.result_.votes
    shape = (votes.n_items, votes.n_classes)
    assert model.posterior_.shape == shape
    assert np.isfinite(model.posterior_).all()
    assert (model.posterior_ >= 0).all()
    assert (model.posterior_ <= 1 + 1e-12).all()
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1, atol=1e-9)
    assert model.confusion_.shape == (votes.n_annotators, votes.n_classes, votes.n_classes)
    assert (model.confusion_ >= 0).all()
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
    np.testing.assert_allclose(model.prior_.sum(), 1, atol=1e-9)
    assert len(model.labels_) == votes.n_items
    # The frames of a report are built for every fit, so they must be buildable.
    assert len(model.result_.items_frame()) == votes.n_items
    assert len(model.result_.annotators_frame()) == votes.n_annotators
    assert len(model.result_.confusion_frame()) == votes.n_annotators * votes.n_classes**2
    assert np.isfinite(model.result_.confusion_sd).all()


@pytest.fixture(scope="module")
def easy() -> Annotations:
    """Thirty items, five annotators right in 85 % of cases, three classes: nothing is in doubt."""
    return crowd(7, 30, diagonal_crowd(5, 3, 0.85))[0]


@pytest.fixture(scope="module")
def easy_truth() -> np.ndarray:
    return crowd(7, 30, diagonal_crowd(5, 3, 0.85))[1]


# -- any votes ------------------------------------------------------------------------------------


@method
@examples
@given(votes=small_votes(), weight=st.sampled_from([None, 0.0, 0.5, 2.0]))
def test_any_votes_give_a_sound_result_that_predicts_and_explains_itself(
    name: str, votes: Annotations, weight: float | None
) -> None:
    if weight is not None:
        votes = reweighted(votes, np.where(np.arange(votes.n_votes) % 2, 1.0, weight))
    model = fit(name, votes)
    is_sound(model)
    np.testing.assert_allclose(model.predict_proba(votes), model.posterior_, atol=1e-9)
    assert model.predict(votes).tolist() == model.labels_.tolist()
    if votes.n_classes > 1:
        for n in range(min(votes.n_items, 3)):
            explains(model, n)


def reweighted(votes: Annotations, weight: np.ndarray) -> Annotations:
    vocabularies = {"items": votes.items, "annotators": votes.annotators, "classes": votes.classes}
    item, annotator, label = votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label]
    return Annotations.from_arrays(item, annotator, label, weight, **vocabularies)


def explains(model: Any, n: int) -> None:
    """The contributions add up to exactly what the posterior says."""
    votes = model.result_.votes
    why = model.explain(votes.items[n])
    assert why.rows["contribution"].sum() == pytest.approx(why.total, abs=1e-9)
    assert len(why.rows) == 1 + votes.votes_per_item[n]
    assert why.rows["source"].to_list()[0] == "class prior"
    assert why.label == model.labels_[n]
    assert why.against != why.label
    assert not why.known
    label, against = (int(np.flatnonzero(votes.classes == c)[0]) for c in (why.label, why.against))
    p, r = model.posterior_[n, label], model.posterior_[n, against]
    assert why.confidence == p
    # No other class is likelier than the runner-up.
    assert r >= np.delete(model.posterior_[n], label).max() - 1e-9
    if why.unit == "share":
        assert model.name in COUNTING
        assert why.total == pytest.approx(p - r, abs=1e-9)
    elif r > 1e-280:
        assert why.total == pytest.approx(np.log(p) - np.log(r), rel=1e-9, abs=1e-9)
    else:
        assert why.total > 600


@method
@examples
@given(votes=small_votes(), data=st.data())
def test_gold_is_respected(name: str, votes: Annotations, data: st.DataObject) -> None:
    gold = data.draw(st.lists(st.sampled_from([None, *votes.classes]), min_size=votes.n_items, max_size=votes.n_items))
    model = fit(name, votes, gold=dict(zip(votes.items, gold, strict=True)))
    is_sound(model)
    notes = model.result_.items_frame()["note"].to_list()
    for n, label in enumerate(gold):
        if label is not None:
            assert model.labels_[n] == label
            assert model.posterior_[n].max() == 1.0
            assert notes[n] == "known"


@method
@examples
@given(votes=small_votes(min_classes=2), data=st.data())
def test_row_order_does_not_matter_to_the_bit(name: str, votes: Annotations, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(votes.n_votes)))
    shuffled = Annotations.from_arrays(
        votes.items[votes.item][order],
        votes.annotators[votes.annotator][order],
        votes.classes[votes.label][order],
        items=votes.items,
        annotators=votes.annotators,
        classes=votes.classes,
    )
    same(fit(name, votes), fit(name, shuffled))


@method
@examples
@given(votes=small_votes(min_classes=2, max_items=4), data=st.data())
def test_a_whole_weight_equals_repeated_votes(name: str, votes: Annotations, data: st.DataObject) -> None:
    # A weight of zero equals no vote at all.
    weight = np.array(data.draw(st.lists(st.integers(0, 3), min_size=votes.n_votes, max_size=votes.n_votes)), int)
    item, annotator, label = votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label]
    vocabularies = {"items": votes.items, "annotators": votes.annotators, "classes": votes.classes}
    weighted = reweighted(votes, weight.astype(float))
    repeated = Annotations.from_arrays(*(np.repeat(column, weight) for column in (item, annotator, label)), **vocabularies)
    # A few iterations show that every step agrees; at a fixed point, ties could amplify rounding.
    options = {"max_iter": 5} if name in ITERATIVE else {}
    first, second = fit(name, weighted, **options), fit(name, repeated, **options)
    np.testing.assert_allclose(first.posterior_, second.posterior_, atol=1e-9)
    np.testing.assert_allclose(first.prior_, second.prior_, atol=1e-9)
    np.testing.assert_allclose(first.confusion_, second.confusion_, atol=1e-9)
    np.testing.assert_allclose(first.trace_, second.trace_, rtol=1e-9, atol=1e-9)
    if first.trace_.size:
        assert first.score(weighted) == pytest.approx(second.score(repeated), rel=1e-9, abs=1e-12)


# -- single facts on fixed votes ------------------------------------------------------------------


@method
def test_same_seed_same_result_to_the_bit(name: str, easy: Annotations) -> None:
    options = {"restarts": 3, "random_state": 5, "init": "random"} if name in ITERATIVE else {}
    same(fit(name, easy, **options), fit(name, easy, **options))


@iterative
def test_another_seed_starts_elsewhere(name: str, easy: Annotations) -> None:
    first, second = (fit(name, easy, init="random", random_state=seed, max_iter=1) for seed in (0, 1))
    assert not np.allclose(first.posterior_, second.posterior_, atol=1e-12)


@method
def test_inputs_stay_as_they_were(name: str) -> None:
    rng = np.random.default_rng(3)
    votes = random_votes(rng, 6, 3, 2, 20, weight=rng.random(20))
    before = {f.name: copy.deepcopy(getattr(votes, f.name)) for f in fields(votes)}
    gold, history, shares = {0: 1}, {0: np.ones((2, 2)), 1: (3, 1)}, [0.3, 0.7]
    given_before = copy.deepcopy((gold, history, shares))
    model = fit(name, votes, gold=gold, history=history, class_prior=shares)
    model.predict_proba(votes)
    for key, value in before.items():
        now = getattr(votes, key)
        assert np.array_equal(now, value) if isinstance(value, np.ndarray) else now == value
    assert gold == given_before[0]
    np.testing.assert_equal(history, given_before[1])
    assert shares == given_before[2]


@iterative
def test_a_given_start_is_not_overwritten(name: str, easy: Annotations) -> None:
    start = np.random.default_rng(0).dirichlet(np.ones(3), size=30)
    kept = start.copy()
    fit(name, easy, init=start)
    np.testing.assert_array_equal(start, kept)


@method
@pytest.mark.parametrize("class_prior", ["learn", "uniform", [0.5, 0.3, 0.2]])
def test_items_without_votes_get_the_class_prior_and_a_note(name: str, class_prior: Any) -> None:
    votes, _ = crowd(1, 20, diagonal_crowd(4, 3, 0.8))
    votes = Annotations.from_arrays(
        votes.item, votes.annotator, votes.label, items=range(22), annotators=range(5), classes=range(3)
    )
    model = fit(name, votes, class_prior=class_prior, **tight(name))
    expected = model.prior_
    if name == "bayes-gc" and class_prior == "learn":
        # Mean field: exp E[log d], which is a little flatter in no class than the mean of d; both are reported.
        from scipy.special import digamma, softmax

        expected = softmax(digamma(model.result_.prior.alpha))
        np.testing.assert_allclose(expected, model.prior_, atol=0.05)
    np.testing.assert_allclose(model.posterior_[20:], [expected, expected], atol=1e-9)
    if class_prior != "learn":
        np.testing.assert_allclose(model.prior_, np.full(3, 1 / 3) if class_prior == "uniform" else class_prior)
    frame = model.result_.items_frame()
    assert frame["note"].to_list()[19:] == ["", "no votes", "no votes"]
    assert frame["n_votes"].to_list()[19:] == [4, 0, 0]
    # The annotator without votes is reported, without an agreement.
    assert model.result_.annotators_frame()["agreement"].to_list()[4] is None


@method
def test_a_learned_prior_ignores_items_without_votes(name: str) -> None:
    # Four fifths of the items are empty; they must not pull the shares anywhere.
    votes, _ = crowd(2, 40, diagonal_crowd(5, 2, 0.9), prior=[0.8, 0.2])
    padded = Annotations.from_arrays(votes.item, votes.annotator, votes.label, items=range(200))
    plain, with_empty = (fit(name, v, class_prior="learn", **tight(name)) for v in (votes, padded))
    # A Dirichlet posterior counts empty items as observed in proportion, so it only comes close.
    np.testing.assert_allclose(with_empty.prior_, plain.prior_, atol=0.05 if name == "bayes-gc" else 1e-5)


TINY = {
    "one vote": ([0], [0], [1]),
    "one item": ([0, 0, 0], [0, 1, 2], [0, 1, 1]),
    "one annotator": ([0, 1, 2], [0, 0, 0], [0, 1, 1]),
    "one vote each": ([0, 1, 2], [0, 1, 2], [0, 1, 1]),
    "repeats": ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]),
    "full disagreement": ([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]),
}


@method
@pytest.mark.parametrize("kind", TINY)
def test_tiny_votes_survive(name: str, kind: str) -> None:
    model = fit(name, Annotations.from_arrays(*TINY[kind], classes=[0, 1]))
    is_sound(model)
    if kind == "one vote":
        assert model.labels_.tolist() == [1]


@method
def test_no_votes_at_all_give_uniform_labels(name: str) -> None:
    votes = Annotations.from_arrays([], [], [], items=["a", "b"], annotators=["x"], classes=["p", "q"])
    model = fit(name, votes)
    is_sound(model)
    np.testing.assert_allclose(model.posterior_, 0.5)


@method
def test_one_class_is_allowed_with_a_warning(name: str) -> None:
    votes = Annotations.from_arrays([0, 0, 1], ["x", "y", "x"], ["yes"] * 3)
    with pytest.warns(DataWarning, match="only one class"):
        model = make(name).fit(votes)
    is_sound(model)
    assert model.labels_.tolist() == ["yes", "yes"]
    with pytest.raises(InputError, match="one class"):
        model.explain(0)


@method
def test_a_hundred_classes(name: str) -> None:
    votes, truth = crowd(4, 150, diagonal_crowd(7, 100, 0.8))
    model = fit(name, votes)
    is_sound(model)
    assert (model.labels_ == truth).mean() > 0.95


@method
def test_unicode_and_integer_names(name: str) -> None:
    votes = Annotations.from_arrays(
        ["日本", "日本", "Ω", "Ω", "👩‍🔬"], ["žluť", "عين", "žluť", "عين", "žluť"], ["да", "да", "нет", "нет", "да"]
    )
    model = fit(name, votes)
    assert dict(zip(votes.items, model.labels_, strict=True)) == {"日本": "да", "Ω": "нет", "👩‍🔬": "да"}
    assert model.explain("Ω").label == "нет"


# -- what may be given ----------------------------------------------------------------------------


@method
def test_class_prior_in_every_shape(name: str, easy: Annotations) -> None:
    as_list = fit(name, easy, class_prior=[0.6, 0.3, 0.1])
    np.testing.assert_allclose(as_list.prior_, [0.6, 0.3, 0.1])
    same(as_list, fit(name, easy, class_prior=np.array([0.6, 0.3, 0.1])))
    same(as_list, fit(name, easy, class_prior={2: 0.1, 0: 0.6, 1: 0.3}))
    # Shares need not sum to one.
    np.testing.assert_allclose(fit(name, easy, class_prior=[6, 3, 1]).posterior_, as_list.posterior_, atol=1e-12)
    np.testing.assert_allclose(fit(name, easy, class_prior="uniform").prior_, 1 / 3)
    learned = fit(name, easy, class_prior="learn").prior_
    assert learned.sum() == pytest.approx(1)
    assert not np.allclose(learned, 1 / 3)


@method
@pytest.mark.parametrize(
    "wrong",
    ["guess", [0.5, 0.5], [1, -1, 1], [0, 0, 0], [np.nan, 1, 1], ["a", "b", "c"], {0: 1.0}, {0: 0.5, 1: 0.5, 7: 1}, 3, None],
)
def test_a_wrong_class_prior_is_named(name: str, easy: Annotations, wrong: Any) -> None:
    with pytest.raises(SettingError, match="class_prior"):
        make(name, class_prior=wrong).fit(easy)


@method
def test_annotator_prior_in_every_shape(name: str, easy: Annotations) -> None:
    right, wrong = 18.0, 6.0
    spread = np.full((3, 3), wrong / 6)
    np.fill_diagonal(spread, right / 3)
    as_pair = fit(name, easy, history={0: (right, wrong), 3: (0, 30)})
    none = np.full((3, 3), 5.0)
    np.fill_diagonal(none, 0)
    same(as_pair, fit(name, easy, history={0: spread, 3: none}))
    for frame in (pd.DataFrame, pl.DataFrame):
        same(as_pair, fit(name, easy, history=frame({"annotator": [0, 3], "right": [right, 0], "wrong": [wrong, 30]})))
        rated = frame({"annotator": [0, 3], "accuracy": [right / 24, 0.0], "n_votes": [24, 30]})
        np.testing.assert_allclose(fit(name, easy, history=rated).posterior_, as_pair.posterior_, atol=1e-9)
    # Names are compared as text, and people who are not in these votes are left out.
    same(as_pair, fit(name, easy, history={"0": (right, wrong), "3": (0, 30), "nobody": (9, 9)}))


@method
def test_annotator_prior_from_an_earlier_campaign(name: str, easy: Annotations) -> None:
    earlier = fit("dawid-skene", crowd(8, 60, diagonal_crowd(5, 3, 0.7))[0])
    votes, q = earlier.result_.votes, earlier.posterior_
    counts = np.zeros((5, 3, 3))
    for e in range(votes.n_votes):
        counts[votes.annotator[e], :, votes.label[e]] += q[votes.item[e]]
    by_hand = fit(name, easy, history=dict(enumerate(counts)))
    for given_as in (earlier, earlier.result_):
        np.testing.assert_allclose(fit(name, easy, history=given_as).posterior_, by_hand.posterior_, atol=1e-9)


@pytest.mark.parametrize("name", slow_unless_classic([n for n in ALL if n != "majority"]))
def test_history_moves_the_label_of_a_tied_item(name: str) -> None:
    # Two annotators disagree on everything; one of them has a record.
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y"] * 2, ["p", "q", "q", "p"])
    trusted = {"x": (1, 40), "y": (40, 1)}
    assert fit(name, votes, history=trusted, class_prior="uniform").labels_.tolist() == ["q", "p"]


@method
@pytest.mark.parametrize(
    "wrong",
    [{0: (1, 2, 3)}, {0: (-1, 2)}, {0: np.full((3, 3), np.nan)}, {0: np.ones((2, 2))}, 7, pl.DataFrame({"annotator": [0]})],
)
def test_a_wrong_history_is_an_input_error(name: str, easy: Annotations, wrong: Any) -> None:
    with pytest.raises(InputError, match="annotator"):
        make(name).fit(easy, history=wrong)


@method
def test_votes_in_every_usual_form(name: str) -> None:
    table = {"item": [0, 0, 1, 1, 2], "annotator": [0, 1, 0, 1, 1], "label": [0, 0, 1, 0, 1]}
    reference = fit(name, Annotations.from_frame(table))
    for votes in (
        table,
        pd.DataFrame(table),
        pl.DataFrame(table),
        [[0, 0], [1, 0], [None, 1]],
        np.array([[0, 0], [1, 0], [np.nan, 1]]),
    ):
        same(reference, fit(name, votes))
    with pytest.raises(InputError, match="Annotations"):
        make(name).fit(7)


# -- settings and scikit-learn --------------------------------------------------------------------


@method
def test_make_repr_and_registry(name: str) -> None:
    assert type(make(name)) is METHODS[name].cls
    assert make(name).name == name
    assert METHODS[name].name == name
    assert METHODS[name].summary
    assert METHODS[name].reference
    assert repr(make(name)) == f"{METHODS[name].cls.__name__}()"
    assert getattr(crowdwise, METHODS[name].cls.__name__) is METHODS[name].cls
    with pytest.raises(SettingError, match=f"did you mean '{name}'"):
        make(name + "x")


@method
def test_every_setting_is_documented(name: str) -> None:
    described = describe_settings(METHODS[name].cls)
    assert {d["name"] for d in described} == set(make(name).get_params())
    for d in described:
        assert d["about"].endswith("."), d
        assert len(d["about"]) > 10, d


@method
def test_params_and_clone(name: str, easy: Annotations) -> None:
    model = fit(name, easy, class_prior=[0.2, 0.3, 0.5])
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="not fitted"):
        _ = copied.posterior_
    assert not hasattr(copied, "labels_")
    same(model, copied.fit(easy))
    assert make(name).set_params(class_prior="uniform").class_prior == "uniform"
    with pytest.raises(SettingError, match="class_prior"):
        model.set_params(class_priors=1)


def out_of_range(name: str) -> list[tuple[str, Any]]:
    """Every declared range, crossed."""
    cases: list[tuple[str, Any]] = []
    for f in fields(METHODS[name].cls):
        rule = f.metadata
        if rule["low"] is not None:
            cases += [(f.name, rule["low"] - 1)]
        if rule["above"] is not None:
            cases += [(f.name, rule["above"]), (f.name, rule["above"] - 0.5)]
        if rule["whole"]:
            cases += [(f.name, 2.5)]
        if isinstance(f.default, bool):
            cases += [(f.name, "yes"), (f.name, 2)]
        elif isinstance(f.default, int | float) and not rule["free"]:
            cases += [(f.name, v) for v in ("many", None, float("nan"), float("inf"), True)]
        if rule["choices"]:
            cases += [(f.name, "nonsense")]
    names = {f.name for f in fields(METHODS[name].cls)}
    cases += [("random_state", v) for v in (-1, "seed") if "random_state" in names]
    cases += [("init", v) for v in (3, ["a"], [[1.0, 0.0]], None) if "init" in names]
    cases += [("off_diagonal", v) for v in (0, -1, "high", float("nan"), float("inf")) if "off_diagonal" in names]
    return cases


@pytest.mark.parametrize(("name", "setting", "value"), [(name, *case) for name in ALL for case in out_of_range(name)])
def test_settings_out_of_range_are_named(name: str, setting: str, value: Any, easy: Annotations) -> None:
    with pytest.raises(SettingError, match=setting):
        make(name, **{setting: value}).fit(easy)


@iterative
def test_grid_search_without_labels(name: str, easy: Annotations) -> None:
    search = GridSearchCV(make(name), {"tol": [1e-3, 1e-6], "class_prior": ["learn", "uniform"]}, cv=3)
    with quiet():
        search.fit(easy)
    # The mean log-probability of a vote: below zero, above guessing among three classes by far.
    assert -np.log(3) < search.best_score_ < 0
    assert search.best_estimator_.posterior_.shape == (30, 3)


@method
def test_grid_search_with_labels(name: str, easy: Annotations, easy_truth: np.ndarray) -> None:
    search = GridSearchCV(make(name), {"class_prior": ["learn", "uniform"]}, cv=3)
    with quiet():
        search.fit(easy, easy_truth)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("name", COUNTING)
def test_methods_that_count_have_no_likelihood(name: str, easy: Annotations) -> None:
    with pytest.raises(SettingError, match="no likelihood"):
        fit(name, easy).score(easy)


@method
def test_score_with_labels_is_accuracy(name: str, easy: Annotations, easy_truth: np.ndarray) -> None:
    model = fit(name, easy)
    assert model.score(easy, easy_truth) == pytest.approx(accuracy(model.posterior_, easy_truth))
    assert model.score(easy, dict(enumerate(easy_truth.tolist()))) == model.score(easy, easy_truth)


@iterative
def test_score_without_labels_is_the_mean_log_evidence(name: str, easy: Annotations) -> None:
    model = fit(name, easy)
    learned = model.result_.trace["votes"][-1] / easy.n_votes
    if hasattr(model.result_.annotators, "expects_logs"):
        # Expected logarithms are below the logarithm of the mean, with which votes are foretold.
        assert learned < model.score(easy) < learned + 0.1
    else:
        assert model.score(easy) == pytest.approx(learned)


# -- prediction -----------------------------------------------------------------------------------


@method
def test_strangers_do_not_crash(name: str, easy: Annotations) -> None:
    model = fit(name, easy)
    new = Annotations.from_arrays(["p", "p", "q", "q", 3], [0, "new", "new", "other", "new"], [0, 0, 1, 1, 2])
    q = model.predict_proba(new)
    assert q.shape == (3, 3)
    np.testing.assert_allclose(q.sum(axis=1), 1)
    assert dict(zip(new.items, model.predict(new), strict=True)) == {"p": 0, "q": 1, "3": 2}
    if name in ITERATIVE:
        assert np.isfinite(model.score(new))


@method
def test_prediction_does_not_depend_on_the_other_items(name: str, easy: Annotations) -> None:
    model = fit(name, easy)
    together = model.predict_proba(easy)
    alone = np.concatenate([model.predict_proba(easy[[n]]) for n in range(5)])
    np.testing.assert_allclose(alone, together[:5], atol=1e-12)


@method
def test_prediction_takes_a_subset_of_the_classes_in_any_order(name: str, easy: Annotations) -> None:
    model = fit(name, easy)
    some = Annotations.from_arrays([0, 0, 1], [0, 1, 0], [2, 2, 1], classes=[2, 1])
    assert model.predict(some).tolist() == [2, 1]
    with pytest.raises(InputError, match="classes"):
        model.predict(Annotations.from_arrays([0], [0], [9]))


@method
def test_a_bootstrap_sample_of_items_can_be_fitted_and_used(name: str, easy: Annotations) -> None:
    # Repeated ids: an item's row must be found by id without shifting the rows of others.
    for votes in (easy, Annotations.from_arrays([f"i{n}" for n in easy.item], easy.annotator, easy.label)):
        sample = votes[np.array([0, 0, 0, 4, 2, 2, 7, 9, 11, 12])]
        model = fit(name, sample, **tight(name))
        np.testing.assert_allclose(model.predict_proba(sample), model.posterior_, atol=1e-6)
        with quiet():
            assert model.update(votes).posterior_.shape == (30, 3)


# -- keeping on -----------------------------------------------------------------------------------


def halves(kind: str) -> tuple[Annotations, Annotations]:
    """First and later votes of a crowd large enough to have one fixed point to come back to."""
    votes, _ = crowd(11, 200, diagonal_crowd(6, 3, 0.8))
    later = {
        "new items": votes.item >= 150,
        "new annotators": votes.annotator >= 4,
        "new votes on old items": (votes.item + votes.annotator) % 3 == 0,
        "all": (votes.item >= 160) | (votes.annotator >= 5) | ((votes.item + votes.annotator) % 5 == 0),
    }[kind]
    names = [np.array([f"i{n:03d}" for n in votes.item]), np.array([f"a{a}" for a in votes.annotator]), votes.label]
    first, second = (Annotations.from_arrays(*(column[keep] for column in names)) for keep in (~later, later))
    return first, second


KINDS = ["new items", "new annotators", "new votes on old items", "all"]


@method
@pytest.mark.parametrize("kind", KINDS)
def test_update_ends_where_a_full_fit_ends(name: str, kind: str, tmp_path: Path) -> None:
    first, second = halves(kind)
    full = fit(name, first.concat(second), **tight(name))
    model = fit(name, first, **tight(name))
    model.result_.save(tmp_path)
    reopened = crowdwise.load(tmp_path)
    with quiet():
        model.update(second)
        reopened.update(second)
    np.testing.assert_allclose(model.posterior_, full.posterior_, atol=1e-6)
    np.testing.assert_allclose(model.prior_, full.prior_, atol=1e-6)
    np.testing.assert_allclose(model.confusion_, full.confusion_, atol=1e-5)
    assert model.result_.votes.n_votes == full.result_.votes.n_votes
    same(model, reopened)


@method
def test_update_one_item_at_a_time_equals_one_fit(name: str) -> None:
    votes, _ = crowd(12, 24, diagonal_crowd(5, 2, 0.85))
    full = fit(name, votes, **tight(name))
    model = fit(name, votes[:20], **tight(name))
    for n in range(20, 24):
        with quiet():
            model.update(votes[[n]])
    np.testing.assert_allclose(model.posterior_, full.posterior_, atol=1e-6)


@method
def test_update_with_gold_keeps_the_gold_of_before(name: str, easy: Annotations) -> None:
    wrong = {n: int((label + 1) % 3) for n, label in enumerate(fit(name, easy).labels_[:4])}
    first, later = {n: wrong[n] for n in (0, 1)}, {n: wrong[n] for n in (2, 3)}
    model = fit(name, easy[:20], gold=first, **tight(name))
    with quiet():
        model.update(easy[20:], gold=later)
    full = fit(name, easy, gold=wrong, **tight(name))
    np.testing.assert_array_equal(model.result_.votes.gold, full.result_.votes.gold)
    np.testing.assert_allclose(model.posterior_, full.posterior_, atol=1e-6)


@method
def test_update_keeps_the_history_of_annotators(name: str, easy: Annotations) -> None:
    history = {0: (0, 50), 4: (50, 0)}
    full = fit(name, easy, history=history, **tight(name))
    # Annotator 4 comes with the later votes; a class does, too.
    keep = easy.select(annotators=[0, 1, 2, 3])
    model = fit(name, easy, history=history, **tight(name))
    with quiet():
        model.update(Annotations.from_arrays([99], ["newcomer"], ["a fourth class"]))
    assert model.posterior_.shape == (31, 4)
    np.testing.assert_allclose(model.result_.history[:5, :3, :3], full.result_.history)
    # Annotators absent from the votes of a fit have no place in its result, so their history goes.
    model = fit(name, keep, history=history, **tight(name))
    with quiet():
        model.update(easy.select(annotators=[4]))
    assert model.posterior_.shape == full.posterior_.shape


@pytest.mark.parametrize("name", slow_unless_classic([n for n in ALL if n not in ORDERED]))
def test_update_with_new_classes_ends_where_a_full_fit_ends(name: str) -> None:
    votes, _ = crowd(13, 45, diagonal_crowd(6, 3, 0.9))
    labels = np.array(["b", "c", "a"], dtype=object)[votes.label]  # the new class sorts first
    old = np.isin(votes.item, np.flatnonzero(np.bincount(votes.item, weights=votes.label == 2, minlength=45) == 0))
    first = Annotations.from_arrays(votes.item[old], votes.annotator[old], labels[old])
    second = Annotations.from_arrays(votes.item[~old], votes.annotator[~old], labels[~old])
    assert first.classes.tolist() == ["b", "c"]
    model = fit(name, first, **tight(name))
    with quiet():
        model.update(second)
    full = fit(name, Annotations.from_arrays(votes.item, votes.annotator, labels), **tight(name))
    assert model.classes_.tolist() == ["b", "c", "a"]
    np.testing.assert_allclose(model.posterior_[:, [2, 0, 1]], full.posterior_, atol=1e-6)


@iterative
def test_warm_start_goes_on_from_the_last_fit(name: str, easy: Annotations) -> None:
    cold = fit(name, easy)
    model = make(name, warm_start=True)
    with quiet():
        first = model.fit(easy).n_iter_
        again = model.fit(easy).n_iter_
    assert first == cold.n_iter_
    assert again <= first
    np.testing.assert_allclose(model.posterior_, cold.posterior_, atol=1e-3)


@iterative
def test_warm_start_survives_other_items_and_classes(name: str, easy: Annotations) -> None:
    with quiet():
        model = make(name, warm_start=True).fit(easy)
        is_sound(model.fit(Annotations.from_arrays([100, 101, 3], [0, "new", 1], ["x", "y", "0"])))
        is_sound(model.fit(easy.with_classes([2, 1, 0])))


@pytest.mark.parametrize("name", slow_unless_classic([n for n in ITERATIVE if n not in ORDERED]))
def test_warm_start_finds_the_classes_in_their_new_order(name: str, easy: Annotations) -> None:
    # Items never seen, classes in a cycle (which differs from its own inverse): one round shows where it began.
    new, _ = crowd(21, 10, diagonal_crowd(5, 3, 0.6))
    new = Annotations.from_arrays(new.item + 100, new.annotator, new.label, classes=range(3))
    order = [1, 2, 0]
    rounds = []
    for votes in (new, new.with_classes(order)):
        with quiet():
            model = make(name, warm_start=True).fit(easy)
            rounds.append(model.set_params(max_iter=1).fit(votes).posterior_)
    np.testing.assert_allclose(rounds[1], rounds[0][:, order], atol=1e-9)


@iterative
def test_trace_iterations_and_convergence(name: str, easy: Annotations) -> None:
    seen: list[tuple[int, float, float]] = []
    with quiet():
        model = make(name).fit(easy, progress=lambda *step: seen.append(step))
    assert model.converged_
    assert len(model.trace_) == model.n_iter_ == len(seen)
    assert [step[0] for step in seen] == list(range(1, model.n_iter_ + 1))
    np.testing.assert_allclose([step[1] for step in seen], model.trace_)
    assert model.trace_[-1] == pytest.approx(sum(model.result_.bound.values()))
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        short = make(name, max_iter=2, tol=1e-15).fit(easy)
    assert not short.converged_
    assert short.n_iter_ == len(short.trace_) == 2


@pytest.mark.parametrize("name", COUNTING)
def test_counting_has_no_trace(name: str, easy: Annotations) -> None:
    model = fit(name, easy)
    assert model.trace_.shape == (0,)
    assert model.result_.bound == {}
    assert model.converged_


@method
def test_save_and_load_give_back_everything(name: str, easy: Annotations, tmp_path: Path) -> None:
    model = fit(name, easy, gold={0: 1}, history={0: (4, 1)}, class_prior={0: 0.5, 1: 0.25, 2: 0.25})
    model.result_.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    same(model, loaded)
    assert loaded.result_.items_frame().equals(model.result_.items_frame())
    assert loaded.result_.annotators_frame().equals(model.result_.annotators_frame())
    assert loaded.predict_proba(easy).tobytes() == model.predict_proba(easy).tobytes()
    assert loaded.explain(3).rows.equals(model.explain(3).rows)
    # And it can be fitted again from its settings.
    same(model, loaded.fit(easy, gold={0: 1}, history={0: (4, 1)}))
