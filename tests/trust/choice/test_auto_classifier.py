"""The automatic choice among classifiers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, MissingExtraError, NotFittedError, SettingError
from crowdwise.estimator.registry import make_classifier
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.trust.choice import auto_classifier
from crowdwise.trust.choice.auto_classifier import AutoClassifier
from crowdwise.trust.choice.classifiers import CANDIDATES, check_methods
from crowdwise.trust.choice.new_rows import NewRows, log_prob_by_class
from crowdwise.trust.choice.selection import Row

FEATURES, TRUTH = blobs(0, 300, 3, gap=4.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.75), share=0.8)
TABLES = ["two-stage", "raykar"]


@pytest.fixture(scope="module")
def fitted() -> Any:
    with quiet():
        return AutoClassifier(methods=TABLES).fit(FEATURES, VOTES)


def test_without_torch_nothing_that_is_chosen_needs_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(MissingExtraError, match="safetensors"):
        AutoClassifier().check_save(tmp_path / "model")
    monkeypatch.setattr(auto_classifier, "find_spec", lambda name: None)
    AutoClassifier().check_save(tmp_path / "model")


def test_it_answers_as_the_chosen_classifier_does(fitted: Any) -> None:
    with quiet():
        alone = make_classifier(fitted.chosen_).fit(FEATURES, VOTES)
    assert fitted.result_.method == f"auto-classifier: {fitted.chosen_}"
    assert fitted.predict_proba(FEATURES).tobytes() == alone.predict_proba(FEATURES).tobytes()
    assert fitted.posterior_.tobytes() == alone.posterior_.tobytes()
    assert fitted.score(FEATURES, TRUTH) == alone.score(FEATURES, TRUTH) > 0.9
    assert fitted.choice_["method"].to_list() == TABLES
    assert (fitted.choice_["score"].drop_nulls() < 0).all()
    assert "labels new items" in fitted.reason_


def test_one_who_knows_its_own_items_alone_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Good labels of the items with votes, and guesses for new rows."""

    def guess(self: Any, X: Any, votes: Any = None) -> Any:
        return np.random.default_rng(0).dirichlet(np.ones(3), len(X))

    monkeypatch.setattr(Raykar, "predict_proba", guess)
    with quiet():
        model = AutoClassifier(methods=["raykar", "two-stage"]).fit(FEATURES, VOTES)
    assert model.chosen_ == "two-stage"
    assert model.choice_["note"][0].startswith("behind two-stage by")


def test_items_are_held_out_with_all_of_their_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three folds, each trained on the other two thirds of the items, and then the fit of all."""
    seen, plain = [], Raykar.fit

    def counting(self: Any, X: Any, y: Any, **more: Any) -> Any:
        seen.append(set(y.items[y.votes_per_item > 0].tolist()))
        return plain(self, X, y, **more)

    monkeypatch.setattr(Raykar, "fit", counting)
    with quiet():
        AutoClassifier(methods=TABLES, folds=3).fit(FEATURES, VOTES)
    voted = set(VOTES.items[VOTES.votes_per_item > 0].tolist())
    out = [voted - each for each in seen[:3]]
    assert set.union(*out) == voted
    assert sum(len(each) for each in out) == len(voted)
    assert max(len(each) for each in out) - min(len(each) for each in out) <= 1


def test_classes_are_scored_by_the_votes_with_an_accuracy_per_annotator() -> None:
    votes = Annotations.from_matrix([[0, 0, 1], [1, 1, 2], [2, 0, 2], [0, None, 1]])
    classes, found = np.array([0, 1, 2, 0]), iter(log_prob_by_class(votes, np.array([0, 1, 2, 0]), np.ones(11, bool)))
    overall = (7 + 1) / (11 + 2)
    right = {0: (4, 4), 1: (2, 3), 2: (1, 4)}
    for item, person, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        hits, n = right[int(person)]
        accuracy = (hits + 5 * overall) / (n + 5)
        assert np.isclose(next(found), np.log(accuracy if label == classes[item] else (1 - accuracy) / 2))


def test_a_score_has_a_part_of_new_rows_and_one_of_items_with_votes() -> None:
    held = NewRows(FEATURES, VOTES, np.arange(300), 3, 0)
    named = np.stack([TRUTH, (TRUTH + 1) % 3])
    expected = [
        log_prob_by_class(VOTES, classes, counted).mean()
        for classes, counted in zip(named, (np.ones(VOTES.n_votes, bool), held.judges), strict=True)
    ]
    assert np.isclose(held.terms(named).mean(), np.mean(expected))
    assert (np.bincount(VOTES.item[held.judges], minlength=300) == VOTES.votes_per_item // 2).all()


def test_candidates_answer_for_rows_alone_and_for_rows_with_the_votes_that_do_not_judge() -> None:
    """One who is wrong on every row, and right with votes on it."""
    held, shown = NewRows(np.arange(300), VOTES, np.arange(300), 3, 0), []

    class Candidate:
        def predict_proba(self, X: Any, votes: Any = None) -> Any:
            if votes is not None:
                assert votes.items.tolist() == VOTES.items[X].tolist()
                shown.append(votes.n_votes)
            return np.eye(3)[TRUTH[X] if votes is not None else (TRUTH[X] + 1) % 3]

    row = Row("candidate")
    held.try_all([row], lambda *_: Candidate())
    np.testing.assert_allclose(row.terms, held.terms(np.stack([(TRUTH + 1) % 3, TRUTH])))
    assert sum(shown) == (~held.judges).sum() < VOTES.n_votes


def test_few_items_get_gaussian_classes_without_a_comparison() -> None:
    model = AutoClassifier().fit(FEATURES[:90], VOTES[:90])
    assert model.chosen_ == "raykar (classifier=gaussian)"
    assert "are needed" in model.reason_
    notes = dict(zip(model.choice_["method"], model.choice_["note"], strict=True))
    assert notes.pop("raykar (classifier=gaussian)") == "taken without comparison"
    assert not any(note == "taken without comparison" for note in notes.values())


def test_few_items_get_the_simplest_of_named_candidates() -> None:
    model = AutoClassifier(methods="crowd-em,raykar").fit(FEATURES[:90], VOTES[:90])
    assert model.chosen_ == "crowd-em"
    assert "are needed" in model.reason_


def test_without_operations_the_simplest_is_taken() -> None:
    with quiet():
        model = AutoClassifier(methods=TABLES, operations=0).fit(FEATURES, VOTES)
    assert model.chosen_ == "two-stage"
    assert "enough for 0 of 2" in model.reason_
    assert model.choice_["note"].to_list()[1].startswith("skipped: it takes about")


@pytest.mark.slow
def test_a_candidate_that_takes_too_many_operations_is_skipped() -> None:
    # Of 300 rows with four numbers on three classes, the two stages take 3 x 500 x 300 x 4 x 3 operations.
    with pytest.warns(DataWarning, match="not compared, as they take too many operations: two-stage"):
        model = AutoClassifier(methods=[*TABLES, "yan"], operations=5.0e6).fit(FEATURES, VOTES)
    notes = dict(zip(model.choice_["method"], model.choice_["note"], strict=True))
    assert notes["two-stage"] == "skipped: it takes about 5.4e+06 operations, and 5.0e+06 of 5.0e+06 are left"
    assert not any(notes[name].startswith("skipped") for name in ("raykar", "yan"))
    assert "two-stage" in model.reason_.partition("skipped")[2]


def test_with_more_items_than_operations_a_sample_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_classifier, "_FEWEST_SAMPLED", 90)
    sizes, plain = [], Raykar.fit

    def counting(self: Any, X: Any, y: Any, **more: Any) -> Any:
        sizes.append(len(X))
        return plain(self, X, y, **more)

    monkeypatch.setattr(Raykar, "fit", counting)
    # A row takes 3 x (500 + 100) x 4 x 3 operations in both.
    with quiet():
        AutoClassifier(methods=TABLES, folds=3, operations=120 * 21_600.0).fit(FEATURES, VOTES)
    assert sizes[:3] == [80, 80, 80]


def test_rows_that_are_no_array_get_a_network_without_a_comparison() -> None:
    model = AutoClassifier()
    decision = model._decided(object(), VOTES, check_methods(None), 0)
    assert decision.chosen == "ccem"
    assert "X is no array" in decision.reason


def test_images_are_left_to_networks() -> None:
    from crowdwise.trust.choice.auto_classifier import _row

    images = np.zeros((4, 3, 8, 8))
    assert [row.eligible for row in (_row(candidate, images) for candidate in CANDIDATES)] == [
        candidate.network for candidate in CANDIDATES
    ]


def test_a_saved_choice_comes_back_as_the_classifier(fitted: Any, tmp_path: Path) -> None:
    fitted.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert loaded.name == fitted.chosen_
    np.testing.assert_allclose(loaded.predict_proba(FEATURES), fitted.predict_proba(FEATURES))


@pytest.mark.parametrize("wrong", [[], "", "raykarr", ["auto-classifier"], 3])
def test_wrong_candidates_are_named(wrong: Any) -> None:
    with pytest.raises(SettingError, match="methods"):
        check_methods(wrong)


def test_settings_are_kept_and_nothing_is_known_before_a_fit() -> None:
    model = clone(AutoClassifier(folds=3, operations=5))
    assert model.get_params()["folds"] == 3
    with pytest.raises(NotFittedError):
        _ = model.choice_
    assert type(make_classifier("auto")) is AutoClassifier
