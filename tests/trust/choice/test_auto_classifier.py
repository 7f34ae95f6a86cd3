"""The automatic choice among classifiers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.engines.gradient.helpers import blobs, even, quiet, votes_on

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import NotFittedError, SettingError
from crowdwise.estimator.registry import make_classifier
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.trust.choice.auto_classifier import AutoClassifier
from crowdwise.trust.choice.classifiers import CANDIDATES, check_methods

FEATURES, TRUTH = blobs(0, 300, 3, gap=4.0)
VOTES = votes_on(TRUTH, even(4, 3, 0.75), share=0.8)
TABLES = ["two-stage", "raykar"]


@pytest.fixture(scope="module")
def fitted() -> Any:
    with quiet():
        return AutoClassifier(methods=TABLES).fit(FEATURES, VOTES)


def test_it_answers_as_the_chosen_classifier_does(fitted: Any) -> None:
    with quiet():
        alone = make_classifier(fitted.chosen_).fit(FEATURES, VOTES)
    assert fitted.result_.method == f"auto-classifier: {fitted.chosen_}"
    assert fitted.predict_proba(FEATURES).tobytes() == alone.predict_proba(FEATURES).tobytes()
    assert fitted.posterior_.tobytes() == alone.posterior_.tobytes()
    assert fitted.score(FEATURES, TRUTH) == alone.score(FEATURES, TRUTH) > 0.9
    assert fitted.choice_["method"].to_list() == TABLES
    assert (fitted.choice_["score"] < 0).all()


def test_labels_that_say_nothing_of_hidden_votes_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Raykar.fit

    def guess(self: Any, X: Any, y: Any, **more: Any) -> Any:
        plain(self, X, y, **more)
        self.result_ = replace(self.result_, posterior=np.full_like(self.result_.posterior, 1 / 3))
        return self

    monkeypatch.setattr(Raykar, "fit", guess)
    with quiet():
        assert AutoClassifier(methods=["raykar", "two-stage"]).fit(FEATURES, VOTES).chosen_ == "two-stage"


def seen(monkeypatch: pytest.MonkeyPatch, votes: Annotations) -> list[tuple[int, int]]:
    """Rows and votes that every fit of raykar saw, three folds first."""
    sizes, plain = [], Raykar.fit

    def counting(self: Any, X: Any, y: Any, **more: Any) -> Any:
        sizes.append((len(X), y.n_votes))
        return plain(self, X, y, **more)

    monkeypatch.setattr(Raykar, "fit", counting)
    with quiet():
        AutoClassifier(methods=TABLES, folds=3).fit(FEATURES, votes)
    return sizes[:3]


def test_a_hidden_vote_is_not_trained_on(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = seen(monkeypatch, VOTES)
    alone = int((VOTES.votes_per_item == 1).sum())
    assert [rows for rows, _ in sizes] == [300] * 3
    assert sum(VOTES.n_votes - n_votes for _, n_votes in sizes) == VOTES.n_votes - alone


def test_small_data_take_the_simplest_without_a_comparison() -> None:
    model = AutoClassifier().fit(FEATURES[:90], VOTES[:90])
    assert model.chosen_ == "two-stage (aggregator=majority)"
    assert "are needed" in model.reason_


def test_without_operations_the_simplest_is_taken() -> None:
    with quiet():
        model = AutoClassifier(methods=TABLES, operations=0).fit(FEATURES, VOTES)
    assert model.chosen_ == "two-stage"
    assert "enough for 0 of 2" in model.reason_
    assert model.choice_["note"].to_list()[1].startswith("skipped: it takes about")


@pytest.mark.slow
def test_a_candidate_that_takes_too_many_operations_is_skipped() -> None:
    # Of 300 rows with four numbers on three classes, the two stages take 3 x 2000 x 300 x 4 x 3 operations.
    with quiet():
        model = AutoClassifier(methods=[*TABLES, "yan"], operations=2.0e7).fit(FEATURES, VOTES)
    notes = dict(zip(model.choice_["method"], model.choice_["note"], strict=True))
    assert notes["two-stage"] == "skipped: it takes about 2.2e+07 operations, and 2.0e+07 of 2.0e+07 are left"
    assert notes["raykar"] == notes["yan"] == ""
    assert "two-stage" in model.reason_.partition("skipped")[2]


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
