from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from crowdwise.methods.classify.soft_fit import fitted_classifier, takes_weights

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(40, 3)) * [1, 5, 0.2] + 3
SOFT = RNG.dirichlet(np.ones(3), 40)


def test_weighted_rows_are_the_cross_entropy_with_soft_labels() -> None:
    """Against a minimisation of  -sum_nk q_nk log softmax(x w + b)_k + |w|^2 / 2  by a routine that knows no weights."""
    scaled = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)

    def loss(flat: np.ndarray) -> float:
        weights = flat.reshape(4, 3)
        scores = scaled @ weights[:3] + weights[3]
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        return float(-(SOFT * log_p).sum() + 0.5 * (weights[:3] ** 2).sum())

    best = minimize(loss, np.zeros(12), tol=1e-12).x.reshape(4, 3)
    scores = scaled @ best[:3] + best[3]
    model = fitted_classifier(LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000), scaled, SOFT)
    expected = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(model.log_prob(scaled)), expected, atol=2e-3)  # classes below 1/1000 have no row


def test_a_tree_that_separates_all_rows_gives_the_soft_labels_back() -> None:
    model = fitted_classifier(DecisionTreeClassifier(random_state=0), FEATURES, SOFT)
    np.testing.assert_allclose(np.exp(model.log_prob(FEATURES)), SOFT, atol=2e-3)


def test_the_steps_of_a_pipeline_see_every_item_once_and_the_last_the_weights() -> None:
    model = fitted_classifier(make_pipeline(StandardScaler(), SelectKBest(k=2), GaussianNB()), FEATURES, SOFT)
    scaler, chosen, _ = (step for _, step in model.classifier.steps)
    np.testing.assert_allclose(scaler.mean_, FEATURES.mean(axis=0))
    scaled = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    kept = chosen.transform(scaled)
    row, code = np.nonzero(SOFT > 1e-3)
    alone = GaussianNB().fit(kept[row], code, sample_weight=SOFT[row, code])
    np.testing.assert_allclose(np.exp(model.log_prob(FEATURES)), alone.predict_proba(kept), atol=1e-5)


@pytest.mark.parametrize(
    "classifier",
    [KNeighborsClassifier(3), make_pipeline(StandardScaler(), KNeighborsClassifier(3)), GridSearchCV(GaussianNB(), {}, cv=2)],
)
def test_what_takes_no_weights_gets_the_likeliest_labels(classifier: Any) -> None:
    assert not takes_weights(classifier)
    model = fitted_classifier(classifier, FEATURES, SOFT)
    other = classifier.fit(FEATURES, SOFT.argmax(axis=1))
    np.testing.assert_allclose(np.exp(model.log_prob(FEATURES)), other.predict_proba(FEATURES), atol=1e-5)


class CountsFromZero(ClassifierMixin, BaseEstimator):
    """As XGBoost: takes classes 0, 1, ... without a gap."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CountsFromZero:
        assert set(y) == set(range(len(set(y))))
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.25, 0.75], (len(X), 1))


def test_classes_are_counted_without_a_gap_and_named_again() -> None:
    model = fitted_classifier(CountsFromZero(), FEATURES, np.tile([0.4, 0.0, 0.6], (40, 1)))
    np.testing.assert_allclose(np.exp(model.log_prob(FEATURES[:1])), [[0.25, 0, 0.75]], atol=1e-5)


def test_one_class_needs_no_classifier() -> None:
    model = fitted_classifier(LogisticRegression(), FEATURES, np.tile([0.0, 1.0, 0.0], (40, 1)))
    np.testing.assert_allclose(np.exp(model.log_prob(FEATURES)), np.tile([0, 1, 0], (40, 1)), atol=1e-5)
