from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote
from tests.methods.labels.helpers import quiet

from crowdwise.engines.loop import Round
from crowdwise.errors import SettingError
from crowdwise.methods.classify.crowd_em import CrowdEM, dealt, left_out, settled_or_jumping
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.methods.classify.two_stage import TwoStage

ROWS, CLASSES = clouds(0, 320, 3, gap=3.0)
FEATURES, TRUTH, NEW, NEW_TRUTH = ROWS[:120], CLASSES[:120], ROWS[120:], CLASSES[120:]
VOTES = vote(0, TRUTH, diagonal_crowd(6, 3, 0.7), per_item=3)


def expected_log(beta_akl: np.ndarray) -> np.ndarray:
    return digamma(beta_akl) - digamma(beta_akl.sum(axis=2, keepdims=True))


def test_labels_are_those_of_all_labelings_enumerated() -> None:
    features, truth = clouds(1, 5, 2)
    votes = vote(1, truth, diagonal_crowd(3, 2, 0.7))
    with quiet():
        model = CrowdEM(estimator=GaussianNB(), folds=2, max_iter=3).fit(features, votes)
    prior, log_pi = np.exp(model.result_.prior.log_prob()), expected_log(model.concentration_)
    total, by_label = 0.0, np.zeros((5, 2))
    for labels in itertools.product(range(2), repeat=5):
        weight = np.prod([prior[n, z] for n, z in enumerate(labels)])
        for item, annotator, said in zip(votes.item, votes.annotator, votes.label, strict=True):
            weight *= np.exp(log_pi[annotator, labels[item], said])
        total += weight
        by_label[np.arange(5), labels] += weight
    np.testing.assert_allclose(model.result_.model_posterior, by_label / total, atol=1e-6)


def test_with_a_classifier_that_knows_nothing_it_is_dawid_skene_with_dirichlet_rows() -> None:
    """EM by loops, with the same rows before any vote, and class shares half way between those of votes and labels."""
    truth = np.repeat([0, 1], [70, 30])
    votes = vote(3, truth, diagonal_crowd(5, 2, 0.75), per_item=3)
    model = CrowdEM(estimator=DummyClassifier(strategy="uniform"), annotator_prior="dir:3,2").fit(np.zeros((100, 1)), votes)
    before_kl = np.array([[3.0, 2.0], [2.0, 3.0]])
    q_nk = np.zeros((100, 2))
    np.add.at(q_nk, (votes.item, votes.label), 1)
    q_nk /= q_nk.sum(axis=1, keepdims=True)
    voted = 1 + q_nk.sum(axis=0)
    for _ in range(60):
        beta_akl = np.tile(before_kl, (5, 1, 1))
        for item, annotator, said in zip(votes.item, votes.annotator, votes.label, strict=True):
            beta_akl[annotator, :, said] += q_nk[item]
        shares = np.sqrt(voted * (1 + q_nk.sum(axis=0)))
        log_q, log_pi = np.tile(np.log(shares / shares.sum()), (100, 1)), expected_log(beta_akl)
        for item, annotator, said in zip(votes.item, votes.annotator, votes.label, strict=True):
            log_q[item] += log_pi[annotator, :, said]
        q_nk = np.exp(log_q) / np.exp(log_q).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.result_.model_posterior, q_nk, atol=1e-3)
    np.testing.assert_allclose(model.concentration_, beta_akl, rtol=1e-3)


class Memory(ClassifierMixin, BaseEstimator):
    """Says 1 of the first class to rows that it was trained on, and asks that nobody ask."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Memory:
        self.seen_, self.classes_ = set(X[:, 0].tolist()), np.unique(y)
        return self

    def predict_proba(self, X: Any) -> Any:
        assert self.seen_.isdisjoint(X[:, 0].tolist())
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


def test_no_classifier_judges_an_item_that_it_was_trained_on() -> None:
    target = np.eye(3)[TRUTH]
    fold = dealt(target, 4, np.random.default_rng(0))
    left_out(Memory(), np.arange(120.0)[:, None], target, fold)
    # Every class is in every fold, as evenly as it goes.
    counts = np.array([[(TRUTH[fold == f] == k).sum() for k in range(3)] for f in range(4)])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1


def test_features_that_say_nothing_change_no_label() -> None:
    """A tree knows its own labels by heart; without folds it would confirm every one of them."""
    noise = np.random.default_rng(0).normal(size=FEATURES.shape)
    votes = vote(0, TRUTH, diagonal_crowd(6, 3, 0.8), per_item=3)
    tree = CrowdEM(estimator=DecisionTreeClassifier()).fit(noise, votes)
    nothing = CrowdEM(estimator=DummyClassifier(strategy="uniform")).fit(noise, votes)
    assert np.abs(tree.posterior_ - nothing.posterior_).mean() < 0.03


CLASSIFIERS = {
    "logistic": "logistic",
    "forest": RandomForestClassifier(10),
    "neighbours": KNeighborsClassifier(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    # They say that they have probabilities once they are fitted.
    "stack": StackingClassifier([("bayes", GaussianNB()), ("tree", DecisionTreeClassifier(max_depth=3))]),
    "pipeline to a stack": make_pipeline(StandardScaler(), StackingClassifier([("bayes", GaussianNB())])),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_features_repair_labels_that_two_stages_leave_wrong(name: str) -> None:
    two_stage = TwoStage(aggregator="dawid-skene").fit(FEATURES, VOTES)
    model = CrowdEM(estimator=CLASSIFIERS[name]).fit(FEATURES, VOTES)
    assert (model.labels_ == TRUTH).mean() > (two_stage.labels_ == TRUTH).mean() + 0.1
    assert (model.predict(NEW) == NEW_TRUTH).mean() > 0.85
    # As sure as it is right, on the whole.
    assert model.predict_proba(NEW).max(axis=1).mean() == pytest.approx((model.predict(NEW) == NEW_TRUTH).mean(), abs=0.1)


def test_new_rows_are_answered_by_the_corrected_classifier() -> None:
    """A tree is too sure of new rows; the correction, learned on items that it had not seen, costs it less."""
    with quiet():
        model = CrowdEM(estimator=DecisionTreeClassifier(), max_iter=3).fit(FEATURES, VOTES)
    f_nk, correction = np.maximum(model.model_.model.classifier.predict_proba(NEW), 1e-6), model.model_.correction
    f_nk /= f_nk.sum(axis=1, keepdims=True)
    rho, unsure = np.exp(correction.log_shares), 1 / (1 + np.exp(-correction.log_odds))
    believed = rho * (f_nk / np.exp(correction.log_mean)) ** np.exp(correction.log_slope)
    expected = (1 - unsure) * believed / believed.sum(axis=1, keepdims=True) + unsure * rho
    np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=1e-9)
    each = np.arange(len(NEW)), NEW_TRUTH
    assert -np.log(expected[each]).mean() < 0.85 * -np.log(f_nk[each]).mean()


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_boosting_of_other_packages(package: str) -> None:
    module = pytest.importorskip(package)
    quietly = {"lightgbm": {"verbosity": -1, "min_child_samples": 5}, "xgboost": {}}[package]
    made = getattr(module, {"lightgbm": "LGBMClassifier", "xgboost": "XGBClassifier"}[package])
    model = CrowdEM(estimator=made(n_estimators=20, n_jobs=1, **quietly), max_iter=3)
    with quiet():
        model.fit(FEATURES, VOTES.with_classes([0, 1, 2, 3]))
    assert (model.labels_ == TRUTH).mean() > 0.85
    assert model.predict_proba(FEATURES).shape == (120, 4)


@pytest.mark.parametrize("estimator", ["boosting", RandomForestClassifier(5)])
def test_a_seed_repeats_a_fit_also_of_an_estimator_without_one(estimator: Any) -> None:
    def proba(seed: int) -> bytes:
        with quiet():
            model = CrowdEM(estimator=estimator, max_iter=1, folds=2, random_state=seed).fit(FEATURES, VOTES)
        return model.predict_proba(FEATURES).tobytes() + model.posterior_.tobytes()

    assert proba(0) == proba(0)
    assert proba(0) != proba(1)


def test_known_labels_stay_and_rows_without_votes_are_judged_by_the_classifier() -> None:
    bare = VOTES.take_votes(VOTES.item < 90)
    model = CrowdEM().fit(FEATURES, bare, gold={n: int(TRUTH[n]) for n in (0, 1, 100)})
    np.testing.assert_allclose(model.posterior_[[0, 1, 100], TRUTH[[0, 1, 100]]], 1)
    rest = np.array([n for n in range(90, 120) if n != 100])
    np.testing.assert_allclose(model.posterior_[rest], model.predict_proba(FEATURES[rest]), atol=1e-9)


def rounds_of(*changes: float) -> list[Round]:
    return [Round(change, {"votes": -100.0}) for change in changes]


def test_rounds_end_where_items_rest_or_only_jump() -> None:
    assert settled_or_jumping(rounds_of(0.1, 0.001), 0.01)
    assert not settled_or_jumping(rounds_of(0.1, 0.05), 0.01)
    # Falling still; jumping, after it has calmed down; and gathering speed.
    assert not settled_or_jumping(rounds_of(0.2, 0.1, 0.08, 0.07), 0.01)
    assert settled_or_jumping(rounds_of(0.2, 0.05, 0.06, 0.055), 0.01)
    assert not settled_or_jumping(rounds_of(0.01, 0.02, 0.03, 0.04), 0.01)


def test_what_cannot_work_is_refused_with_the_way_out(tmp_path: Any) -> None:
    for wrong, match in (
        ({"estimator": "tree"}, "estimator must be one of logistic, boosting, forest"),
        ({"estimator": GaussianNB}, "an instance"),
        ({"estimator": LinearSVC()}, "CalibratedClassifierCV"),
        ({"estimator": VotingClassifier([("bayes", GaussianNB())])}, 'voting="soft"'),
        (
            {"estimator": make_pipeline(StandardScaler(), RandomForestRegressor())},
            "predicts numbers; estimator must be",
        ),
        ({"estimator": Raykar()}, "learns from the votes itself"),
        ({"folds": 1}, "folds must be at least 2"),
    ):
        with pytest.raises(SettingError, match=match):
            CrowdEM(**wrong).fit(FEATURES, VOTES)
    with pytest.raises(SettingError, match="forest cannot be saved without pickle"):
        CrowdEM(estimator="forest").check_save(tmp_path / "model")
    with quiet():
        fitted = CrowdEM(estimator=GaussianNB(), max_iter=1).fit(FEATURES, VOTES)
    with pytest.raises(SettingError, match="GaussianNB cannot be saved without pickle"):
        fitted.save(tmp_path / "model")
