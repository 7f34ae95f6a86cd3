"""Rows that go to an estimator of scikit-learn as they are: frames, texts, missing values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.methods.classify.crowds import diagonal_crowd, vote
from tests.methods.labels.helpers import quiet

from crowdwise.errors import InputError
from crowdwise.methods.classify.crowd_em import CrowdEM
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.methods.classify.two_stage import TwoStage

N = 60
RNG = np.random.default_rng(0)
TRUTH = RNG.integers(0, 2, N)
# The first item has no votes: its label comes from the classifier alone.
VOTES = vote(0, TRUTH, diagonal_crowd(5, 2, 0.8), per_item=3)
VOTES = VOTES.take_votes(VOTES.item > 0)
SIZE = 2.0 * TRUTH + RNG.normal(size=N)
COLOUR = np.where(RNG.random(N) < 0.8, np.array(["red", "blue"])[TRUTH], "green")
NUMBERS = np.column_stack([SIZE, *(name == COLOUR for name in ("blue", "green", "red"))]).astype(float)
WORDS = np.array([["good", "fine", "nice"], ["bad", "poor", "dull"]])
TEXTS = [" ".join(RNG.choice(WORDS[k] if RNG.random() < 0.8 else WORDS.ravel(), 3)) for k in TRUTH]


def frame_pipeline() -> Any:
    categories = OneHotEncoder(categories=[["blue", "green", "red"]])
    return make_pipeline(
        make_column_transformer(("passthrough", ["size"]), (categories, ["colour"])), LogisticRegression(random_state=0)
    )


def fitted(model: Any, X: Any) -> Any:
    with quiet():
        return model.fit(X, VOTES)


@pytest.mark.parametrize("of", [pd.DataFrame, pl.DataFrame])
def test_a_pipeline_on_a_frame_is_its_last_step_on_the_numbers_that_the_pipeline_makes(of: Any) -> None:
    frame = of({"size": SIZE, "colour": COLOUR})
    if isinstance(frame, pd.DataFrame):
        # Rows are selected by their place, whatever their names are.
        frame.index = pd.Index(range(N, 0, -1))
    model = fitted(CrowdEM(estimator=frame_pipeline(), folds=2, max_iter=2, random_state=0), frame)
    by_hand = fitted(CrowdEM(estimator=LogisticRegression(random_state=0), folds=2, max_iter=2, random_state=0), NUMBERS)
    np.testing.assert_allclose(model.result_.model_posterior, by_hand.result_.model_posterior, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(frame[:7]), by_hand.predict_proba(NUMBERS[:7]), atol=1e-9)
    assert model.feature_names_in_.tolist() == ["size", "colour"]
    two_stage = fitted(TwoStage(classifier=frame_pipeline()), frame)
    other = fitted(TwoStage(classifier=LogisticRegression(random_state=0)), NUMBERS)
    np.testing.assert_allclose(two_stage.predict_proba(frame), other.predict_proba(NUMBERS), atol=1e-9)


@pytest.mark.parametrize("of", [list, tuple, np.array, pd.Series, pl.Series])
def test_texts_are_rows(of: Any) -> None:
    hashed = HashingVectorizer(n_features=32)
    settings: dict[str, Any] = {"folds": 2, "max_iter": 1, "random_state": 0}
    model = fitted(CrowdEM(estimator=make_pipeline(hashed, LogisticRegression()), **settings), of(TEXTS))
    by_hand = fitted(CrowdEM(estimator=LogisticRegression(), **settings), sp.coo_matrix(hashed.transform(TEXTS)))
    np.testing.assert_allclose(model.predict_proba(of(TEXTS)), by_hand.predict_proba(hashed.transform(TEXTS)), atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(of(TEXTS), VOTES), by_hand.predict_proba(hashed.transform(TEXTS), VOTES))


def test_each_fold_learns_its_own_words_and_searches_reach_into_the_pipeline() -> None:
    model = CrowdEM(estimator=make_pipeline(TfidfVectorizer(), LogisticRegression()), folds=2, max_iter=1)
    voted = np.arange(1, N)
    search = GridSearchCV(model, {"estimator__tfidfvectorizer__lowercase": [True, False]}, cv=2)
    with quiet():
        search.fit([TEXTS[n] for n in voted], VOTES[1:])
    assert search.best_estimator_.score(TEXTS, TRUTH) > 0.8
    as_dicts = [{"first": text.split()[0]} for text in TEXTS]
    by_word = CrowdEM(estimator=make_pipeline(DictVectorizer(), LogisticRegression()), folds=2, max_iter=1)
    assert fitted(by_word, as_dicts).score(as_dicts, TRUTH) > 0.7


def test_missing_values_reach_estimators_that_know_what_to_do_with_them() -> None:
    gaps = np.column_stack([SIZE, RNG.normal(size=N)])
    gaps[RNG.random(N) < 0.2, 0] = np.nan
    boosting = HistGradientBoostingClassifier(max_iter=3, early_stopping=False, min_samples_leaf=5)
    assert fitted(CrowdEM(estimator=boosting, folds=2, max_iter=1), gaps).score(gaps, TRUTH) > 0.6
    filled = make_pipeline(SimpleImputer(), LogisticRegression())
    assert fitted(CrowdEM(estimator=filled, folds=2, max_iter=1), gaps).score(gaps, TRUTH) > 0.6
    with pytest.raises(ValueError, match="LogisticRegression does not accept missing values"):
        CrowdEM(estimator=LogisticRegression()).fit(gaps, VOTES)
    with pytest.raises(InputError, match="NaN or infinity in row"):
        CrowdEM().fit(gaps, VOTES)


def test_what_cannot_be_is_refused() -> None:
    texts = CrowdEM(estimator=make_pipeline(HashingVectorizer(n_features=8), LogisticRegression()), folds=2, max_iter=1)
    with pytest.raises(InputError, match="X has no rows"):
        texts.fit([], VOTES)
    with pytest.raises(InputError, match="X has 3 rows but there are 60 items"):
        texts.fit(TEXTS[:3], VOTES)
    with pytest.raises(InputError, match="X is a dict of arrays"):
        texts.fit({"text": TEXTS}, VOTES)
    for method in (CrowdEM(), Raykar()):
        with pytest.raises(InputError, match=r"could not convert string.*takes numbers; for texts.*CrowdEM\(estimator="):
            method.fit(TEXTS, VOTES)


def test_columns_of_another_fit_are_forgotten_and_others_refused() -> None:
    model = fitted(CrowdEM(estimator=LogisticRegression(), folds=2, max_iter=1), NUMBERS)
    with pytest.raises(ValueError, match="X has 2 features, but CrowdEM is expecting 4"):
        model.predict(NUMBERS[:, :2])
    again = fitted(model.set_params(estimator=make_pipeline(HashingVectorizer(n_features=8), LogisticRegression())), TEXTS)
    assert not hasattr(again, "n_features_in_")
    assert len(again.predict(TEXTS[:4])) == 4
