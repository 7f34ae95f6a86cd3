"""What every label-only method promises beyond the contract of all: priors, prediction, scores, explanations."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV
from tests.contract.labels import (
    ONLINE,
    easy_fit,
    examples,
    few,
    fit,
    is_sound,
    iterative,
    many,
    method,
    online_too,
    same,
    tight,
)
from tests.methods.labels.helpers import (
    ALL,
    CLASSIC,
    COUNTING,
    ITERATIVE,
    crowd,
    diagonal_crowd,
    quiet,
    random_votes,
    slow_unless_classic,
)
from tests.strategies import small_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning, DataWarning, InputError, SettingError
from crowdwise.estimator.registry import make
from crowdwise.trust.metrics import accuracy

# -- any votes ------------------------------------------------------------------------------------


@online_too
@examples
@given(votes=small_votes(), weight=st.sampled_from([None, 0.0, 0.5, 2.0]))
def test_any_votes_give_a_sound_result_that_predicts_and_explains_itself(
    name: str, votes: Annotations, weight: float | None
) -> None:
    if weight is not None:
        votes = reweighted(votes, np.where(np.arange(votes.n_votes) % 2, 1.0, weight))
    model = fit(name, votes, **many(name))
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
    more = why.rows["source"].to_list()[1 + votes.votes_per_item[n] :]
    assert more == ["caution"] or (model.name in ("consensus", "auto") and more == ["models", "caution"])
    assert why.rows["source"].to_list()[0] == "class prior"
    assert why.label == model.labels_[n]
    assert why.against != why.label
    assert not why.known
    label, against = (int(np.flatnonzero(votes.classes == c)[0]) for c in (why.label, why.against))
    p, r = model.posterior_[n, label], model.posterior_[n, against]
    assert why.confidence == p
    # No other class is likelier than the runner-up.
    assert r >= np.delete(model.posterior_[n], label).max() - 1e-9
    # Without caution they add up to what the model says.
    for part, posterior in (
        (why.rows["contribution"][:-1].sum(), model.result_.model_posterior),
        (why.total, model.posterior_),
    ):
        p, r = posterior[n, [label, against]]
        if why.unit == "share":
            assert model.name in (*COUNTING, "auto")
            assert part == pytest.approx(p - r, abs=1e-9)
        elif r > 1e-280:
            assert part == pytest.approx(np.log(p) - np.log(r), rel=1e-9, abs=1e-9)
        else:
            assert part > 600


@online_too
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


@iterative
def test_same_seed_same_result_to_the_bit(name: str, easy: Annotations) -> None:
    """Of random starts; test_repeating.py has the default of every method."""
    options = {"restarts": 2, "random_state": 5, "init": "random"}
    same(fit(name, easy, **options), fit(name, easy, **options))


@iterative
def test_another_seed_starts_elsewhere(name: str, easy: Annotations) -> None:
    first, second = (fit(name, easy, init="random", random_state=seed, max_iter=1) for seed in (0, 1))
    assert not np.allclose(first.posterior_, second.posterior_, atol=1e-12)


@online_too
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
    # A prior that is learned has to have come to rest.
    model = fit(name, votes, class_prior=class_prior, **(tight(name) if class_prior == "learn" else {}))
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
    votes, _ = crowd(2, 25, diagonal_crowd(5, 2, 0.9), prior=[0.8, 0.2])
    padded = Annotations.from_arrays(votes.item, votes.annotator, votes.label, items=range(125))
    plain, with_empty = (fit(name, v, class_prior="learn", **tight(name)) for v in (votes, padded))
    # A Dirichlet posterior counts empty items as observed in proportion, so it only comes close; the members of consensus
    # stop before they are there.
    np.testing.assert_allclose(with_empty.prior_, plain.prior_, atol=0.05 if name in ("bayes-gc", "consensus") else 1e-5)


@online_too
def test_one_class_is_allowed_with_a_warning(name: str) -> None:
    votes = Annotations.from_arrays([0, 0, 1], ["x", "y", "x"], ["yes"] * 3)
    with pytest.warns(DataWarning, match="only one class"):
        model = make(name).fit(votes)
    is_sound(model)
    assert model.labels_.tolist() == ["yes", "yes"]
    with pytest.raises(InputError, match="one class"):
        model.explain(0)


@online_too
def test_many_classes(name: str) -> None:
    # Tables grow with the square of their number.
    n_classes = 100 if name in ("majority", "dawid-skene", "consensus", "online-em") else 40
    votes, truth = crowd(4, 3 * n_classes // 2, diagonal_crowd(7, n_classes, 0.8))
    model = fit(name, votes)
    is_sound(model)
    assert (model.labels_ == truth).mean() > 0.95


# -- what may be given ----------------------------------------------------------------------------


@online_too
def test_class_prior_in_every_shape(name: str, easy: Annotations) -> None:
    as_list = fit(name, easy, class_prior=[0.6, 0.3, 0.1])
    np.testing.assert_allclose(as_list.prior_, [0.6, 0.3, 0.1])
    if name in CLASSIC:  # what reads them is one function
        same(as_list, fit(name, easy, class_prior=np.array([0.6, 0.3, 0.1])))
        same(as_list, fit(name, easy, class_prior={2: 0.1, 0: 0.6, 1: 0.3}))
        # Shares need not sum to one.
        np.testing.assert_allclose(fit(name, easy, class_prior=[6, 3, 1]).posterior_, as_list.posterior_, atol=1e-12)
    np.testing.assert_allclose(fit(name, easy, class_prior="uniform").prior_, 1 / 3)
    learned = fit(name, easy, class_prior="learn").prior_
    assert learned.sum() == pytest.approx(1)
    assert not np.allclose(learned, 1 / 3)


@online_too
def test_history_in_every_shape(name: str, easy: Annotations) -> None:
    right, wrong = 18.0, 6.0
    spread = np.full((3, 3), wrong / 6)
    np.fill_diagonal(spread, right / 3)
    as_pair = fit(name, easy, history={0: (right, wrong), 3: (0, 30)})
    none = np.full((3, 3), 5.0)
    np.fill_diagonal(none, 0)
    same(as_pair, fit(name, easy, history={0: spread, 3: none}))
    if name not in CLASSIC:
        return  # what reads a record is one function
    for frame in (pd.DataFrame, pl.DataFrame):
        same(as_pair, fit(name, easy, history=frame({"annotator": [0, 3], "right": [right, 0], "wrong": [wrong, 30]})))
        rated = frame({"annotator": [0, 3], "accuracy": [right / 24, 0.0], "n_votes": [24, 30]})
        np.testing.assert_allclose(fit(name, easy, history=rated).posterior_, as_pair.posterior_, atol=1e-9)
    # Names are compared as text, and people who are not in these votes are left out.
    same(as_pair, fit(name, easy, history={"0": (right, wrong), "3": (0, 30), "nobody": (9, 9)}))


@online_too
def test_history_from_an_earlier_campaign(name: str, easy: Annotations) -> None:
    earlier = fit("dawid-skene", crowd(8, 60, diagonal_crowd(5, 3, 0.7))[0])
    votes, q = earlier.result_.votes, earlier.result_.model_posterior
    counts = np.zeros((5, 3, 3))
    for e in range(votes.n_votes):
        counts[votes.annotator[e], :, votes.label[e]] += q[votes.item[e]]
    by_hand = fit(name, easy, history=dict(enumerate(counts)))
    for given_as in (earlier, earlier.result_) if name in CLASSIC else (earlier,):
        np.testing.assert_allclose(fit(name, easy, history=given_as).posterior_, by_hand.posterior_, atol=1e-9)


@pytest.mark.parametrize("name", slow_unless_classic([n for n in (*ALL, *ONLINE) if n != "majority"]))
def test_history_moves_the_label_of_a_tied_item(name: str) -> None:
    # Two annotators disagree on everything; one of them has a record.
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y"] * 2, ["p", "q", "q", "p"])
    trusted = {"x": (1, 40), "y": (40, 1)}
    with quiet():
        assert make(name, class_prior="uniform").fit(votes, history=trusted).labels_.tolist() == ["q", "p"]


@online_too
@pytest.mark.parametrize(
    "wrong",
    [{0: (1, 2, 3)}, {0: (-1, 2)}, {0: np.full((3, 3), np.nan)}, {0: np.ones((2, 2))}, 7, pl.DataFrame({"annotator": [0]})],
)
def test_a_wrong_history_is_an_input_error(name: str, easy: Annotations, wrong: Any) -> None:
    with pytest.raises(InputError, match="annotator"):
        make(name).fit(easy, history=wrong)


@pytest.mark.parametrize("name", ["majority", "dawid-skene", "online-em"])
def test_votes_in_every_usual_form(name: str) -> None:
    """Tables are those of test_repeating.py, for every method; lists and matrices take the same way."""
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


@iterative
def test_grid_search_without_labels(name: str, easy: Annotations) -> None:
    search = GridSearchCV(make(name, **few(name)), {"tol": [1e-3, 1e-6]}, cv=2)
    with quiet():
        search.fit(easy)
    # The mean log-probability of a vote: below zero, above guessing among three classes by far.
    assert -np.log(3) < search.best_score_ < 0
    assert search.best_estimator_.posterior_.shape == (30, 3)


@online_too
def test_grid_search_with_labels(name: str, easy: Annotations, easy_truth: np.ndarray) -> None:
    search = GridSearchCV(make(name, **few(name)), {"class_prior": ["learn", "uniform"]}, cv=2)
    with quiet():
        search.fit(easy, easy_truth)
    assert search.best_score_ > 0.89


@pytest.mark.parametrize("name", COUNTING)
def test_methods_that_count_have_no_likelihood(name: str, easy: Annotations) -> None:
    with pytest.raises(SettingError, match="no likelihood"):
        easy_fit(name).score(easy)


@online_too
def test_score_with_labels_is_accuracy(name: str, easy: Annotations, easy_truth: np.ndarray) -> None:
    model = easy_fit(name)
    assert model.score(easy, easy_truth) == pytest.approx(accuracy(model.posterior_, easy_truth))
    assert model.score(easy, dict(enumerate(easy_truth.tolist()))) == model.score(easy, easy_truth)


@iterative
def test_score_without_labels_is_the_mean_log_evidence(name: str, easy: Annotations) -> None:
    model = easy_fit(name)
    learned = model.result_.trace["votes"][-1] / easy.n_votes
    if hasattr(model.result_.annotators, "expects_logs"):
        # Expected logarithms are below the logarithm of the mean, with which votes are foretold.
        assert learned < model.score(easy) < learned + 0.1
    else:
        assert model.score(easy) == pytest.approx(learned)


# -- prediction -----------------------------------------------------------------------------------


@online_too
def test_strangers_do_not_crash(name: str, easy: Annotations) -> None:
    model = easy_fit(name)
    new = Annotations.from_arrays(["p", "p", "q", "q", 3], [0, "new", "new", "other", "new"], [0, 0, 1, 1, 2])
    q = model.predict_proba(new)
    assert q.shape == (3, 3)
    np.testing.assert_allclose(q.sum(axis=1), 1)
    assert dict(zip(new.items, model.predict(new), strict=True)) == {"p": 0, "q": 1, "3": 2}
    if name in ITERATIVE:
        assert np.isfinite(model.score(new))


@online_too
def test_prediction_does_not_depend_on_the_other_items(name: str, easy: Annotations) -> None:
    model = easy_fit(name)
    together = model.predict_proba(easy)
    alone = np.concatenate([model.predict_proba(easy[[n]]) for n in range(5)])
    np.testing.assert_allclose(alone, together[:5], atol=1e-12)


@online_too
def test_prediction_takes_a_subset_of_the_classes_in_any_order(name: str, easy: Annotations) -> None:
    model = easy_fit(name)
    some = Annotations.from_arrays([0, 0, 1], [0, 1, 0], [2, 2, 1], classes=[2, 1])
    assert model.predict(some).tolist() == [2, 1]
    with pytest.raises(InputError, match="classes"):
        model.predict(Annotations.from_arrays([0], [0], [9]))


@method
def test_a_bootstrap_sample_of_items_can_be_fitted_and_used(name: str, easy: Annotations) -> None:
    # Repeated ids: an item's row must be found by id without shifting the rows of others.
    named = Annotations.from_arrays([f"i{n}" for n in easy.item], easy.annotator, easy.label)
    for votes in (easy, named) if name in CLASSIC else (named,):
        sample = votes[np.array([0, 0, 0, 4, 2, 2, 7, 9, 11, 12])]
        model = fit(name, sample, **tight(name))
        np.testing.assert_allclose(model.predict_proba(sample), model.posterior_, atol=1e-6)
        with quiet():
            assert model.update(votes).posterior_.shape == (30, 3)


# -- how a fit went -------------------------------------------------------------------------------


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
    model = easy_fit(name)
    assert model.trace_.shape == (0,)
    assert model.result_.bound == {}
    assert model.converged_
