from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote
from tests.methods.labels.helpers import quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, SettingError
from crowdwise.estimator.registry import make
from crowdwise.methods.classify.raykar import Raykar
from crowdwise.methods.classify.two_stage import TwoStage
from crowdwise.methods.labels.dawid_skene import DawidSkene

FEATURES, TRUTH = clouds(0, 200, 3, gap=2.5)
VOTES = vote(0, TRUTH, diagonal_crowd(6, 3, 0.7), per_item=3)


def repeated(posterior: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every row once per class, the class, and its probability as weight."""
    rows, codes = np.divmod(np.arange(posterior.size), posterior.shape[1])
    return rows, codes, posterior.ravel()


def test_soft_labels_are_weighted_repeated_rows_of_scikit_learn() -> None:
    model = TwoStage(l2=1.0).fit(FEATURES, VOTES)
    rows, codes, weight = repeated(DawidSkene().fit(VOTES).result_.model_posterior)
    scaled = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    other = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(scaled[rows], codes, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba(FEATURES), other.predict_proba(scaled), atol=1e-4)


def test_hard_labels_are_the_likeliest_ones() -> None:
    model = TwoStage(l2=1.0, soft=False).fit(FEATURES, VOTES)
    scaled = (FEATURES - FEATURES.mean(axis=0)) / FEATURES.std(axis=0)
    other = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(scaled, DawidSkene().fit(VOTES).labels_)
    np.testing.assert_allclose(model.predict_proba(FEATURES), other.predict_proba(scaled), atol=1e-4)


@pytest.mark.parametrize("name", ["dawid-skene", "one-coin", "glad", "bayes-gc", "ebcc", "mace"])
def test_labels_and_matrices_of_the_training_items_are_the_aggregation_s(name: str) -> None:
    with quiet():
        model = TwoStage(aggregator=name).fit(FEATURES, VOTES)
        alone = make(name).fit(VOTES)
    np.testing.assert_allclose(model.result_.model_posterior, alone.result_.model_posterior, atol=1e-9)
    np.testing.assert_allclose(model.confusion_, alone.confusion_, atol=1e-9)
    np.testing.assert_allclose(model.prior_, alone.prior_, atol=0.02)
    assert model.score(FEATURES, TRUTH) > 0.85


def test_methods_that_only_count_votes_get_counted_matrices_and_so_a_likelihood() -> None:
    model = TwoStage(aggregator="majority").fit(FEATURES, VOTES)
    shares = np.zeros((VOTES.n_items, 3))
    np.add.at(shares, (VOTES.item, VOTES.label), 1)
    shares /= shares.sum(axis=1, keepdims=True)
    # One vote per row beforehand, divided evenly.
    counts = np.full((VOTES.n_annotators, 3, 3), 1 / 3)
    for e in range(VOTES.n_votes):
        counts[VOTES.annotator[e], :, VOTES.label[e]] += shares[VOTES.item[e]]
    np.testing.assert_allclose(model.confusion_, counts / counts.sum(axis=2, keepdims=True), atol=1e-9)
    assert -np.log(3) < model.score(FEATURES, VOTES) < 0


def test_an_aggregator_may_come_with_settings_and_stays_as_it_was() -> None:
    mine = DawidSkene(smoothing=2.0)
    model = TwoStage(aggregator=mine).fit(FEATURES, VOTES)
    np.testing.assert_allclose(
        model.result_.model_posterior, DawidSkene(smoothing=2.0).fit(VOTES).result_.model_posterior, atol=1e-9
    )
    assert not hasattr(mine, "result_")
    copy = clone(TwoStage(aggregator=mine, classifier=GaussianNB()))
    assert copy.get_params()["aggregator__smoothing"] == 2.0
    assert copy.set_params(aggregator__smoothing=1.0).aggregator.smoothing == 1.0


def test_any_classifier_of_scikit_learn_gets_soft_labels_as_weights() -> None:
    model = TwoStage(classifier=GaussianNB()).fit(FEATURES, VOTES)
    rows, codes, weight = repeated(DawidSkene().fit(VOTES).result_.model_posterior)
    used = weight > 1e-3
    other = GaussianNB().fit(FEATURES[rows[used]], codes[used], sample_weight=weight[used])
    np.testing.assert_allclose(model.predict_proba(FEATURES), other.predict_proba(FEATURES), atol=1e-4)


@pytest.mark.slow
def test_a_classifier_without_weights_gets_the_likeliest_labels_and_says_so() -> None:
    with pytest.warns(DataWarning, match="KNeighborsClassifier takes no sample_weight"):
        model = TwoStage(classifier=KNeighborsClassifier()).fit(FEATURES, VOTES)
    other = KNeighborsClassifier().fit(FEATURES, DawidSkene().fit(VOTES).labels_)
    np.testing.assert_allclose(model.predict_proba(FEATURES), other.predict_proba(FEATURES), atol=1e-4)
    # Asked for, it is no news.
    TwoStage(classifier=KNeighborsClassifier(), soft=False).fit(FEATURES, VOTES)


def test_votes_on_new_rows_can_object_to_a_classifier_that_is_sure() -> None:
    model = TwoStage(classifier=RandomForestClassifier(20, random_state=0)).fit(FEATURES, VOTES)
    sure = int(model.predict_proba(FEATURES).max(axis=1).argmax())
    other = (int(model.predict(FEATURES)[sure]) + 1) % 3
    crowd = Annotations.from_arrays(np.zeros(40, int), np.arange(40) % 6, np.full(40, other), classes=range(3))
    assert model.predict(FEATURES[[sure]], crowd)[0] == other


def test_classes_that_the_labels_never_name_stay_possible() -> None:
    truth = np.arange(60) % 2
    features, _ = clouds(1, 60, 2)
    votes = Annotations.from_arrays(np.arange(60), np.zeros(60, int), truth, classes=[0, 1, 2])
    model = TwoStage(classifier=GaussianNB(), soft=False).fit(features, votes)
    proba = model.predict_proba(features)
    assert proba.shape == (60, 3)
    assert (proba[:, 2] > 0).all()
    assert (proba[:, 2] < 1e-5).all()


def test_items_without_votes_do_not_train() -> None:
    bare = VOTES.take_votes(VOTES.item < 150)
    every = TwoStage(aggregator="majority").fit(FEATURES, bare)
    some = TwoStage(aggregator="majority").fit(FEATURES[:150], VOTES[:150])
    np.testing.assert_allclose(every.model_.weights, some.model_.weights)


def test_known_labels_take_part_in_both_stages() -> None:
    swapped = vote(2, TRUTH, diagonal_crowd(4, 3, 0.9)[:, [1, 0, 2]])
    with quiet():  # rightly, that classes look renamed
        model = TwoStage().fit(FEATURES, swapped, gold={n: int(TRUTH[n]) for n in range(60)})
    np.testing.assert_allclose(model.posterior_[np.arange(60), TRUTH[:60]], 1)
    assert model.score(FEATURES, TRUTH) > 0.85


def test_gold_alone_is_enough() -> None:
    votes = Annotations.from_arrays([], [], [], items=range(200), annotators=["a"], classes=range(3))
    model = TwoStage().fit(FEATURES, votes, gold=dict(enumerate(TRUTH.tolist())))
    assert model.score(FEATURES, TRUTH) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 10])
def test_odd_shapes_are_fitted(n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    cases: list[tuple[Any, Any]] = [
        (rng.normal(size=(n_classes, 1)), np.arange(n_classes)),
        (rng.normal(size=(20, 60)), random_votes(rng, 20, 2, n_classes, 200)),
        (csr_array(rng.poisson(1.0, (30, 25)).astype(float)), random_votes(rng, 30, 40, n_classes, 25)),
    ]
    for classifier in ("logistic", RandomForestClassifier(5, random_state=0)):
        for features, votes in cases:
            with quiet():
                model = TwoStage(classifier=classifier).fit(features, votes)
            for rows in (model.posterior_, model.predict_proba(features), model.confusion_):
                np.testing.assert_allclose(rows.sum(axis=-1), 1)


def test_what_cannot_work_is_refused_with_the_way_out() -> None:
    for wrong, match in (
        ({"aggregator": "dawid-skeen"}, "did you mean 'dawid-skene'"),
        ({"aggregator": 3}, "label-only method"),
        ({"classifier": "forest"}, "classifier must be one of logistic, network"),
        ({"classifier": GaussianNB}, "an instance"),
        ({"classifier": LinearSVC()}, "CalibratedClassifierCV"),
        ({"classifier": Raykar()}, "learns from the votes itself"),
    ):
        with pytest.raises(SettingError, match=match):
            TwoStage(**wrong).fit(FEATURES, VOTES)


def test_a_classifier_of_scikit_learn_cannot_be_saved(tmp_path: Any) -> None:
    model = TwoStage(classifier=GaussianNB()).fit(FEATURES, VOTES)
    with pytest.raises(SettingError, match="GaussianNB cannot be saved without pickle"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_same_fit_twice_is_the_same_to_the_bit() -> None:
    first, second = (TwoStage().fit(FEATURES, VOTES) for _ in range(2))
    assert first.posterior_.tobytes() == second.posterior_.tobytes()
    assert first.model_.weights.tobytes() == second.model_.weights.tobytes()


@pytest.mark.slow
def test_the_second_stage_may_be_a_network() -> None:
    pytest.importorskip("torch")
    from crowdwise.methods.classify.soft_network import SoftNetwork

    model = TwoStage(classifier="network").fit(FEATURES, VOTES)
    assert model.score(FEATURES, TRUTH) > 0.85
    np.testing.assert_allclose(model.result_.model_posterior, DawidSkene().fit(VOTES).result_.model_posterior, atol=1e-9)
    own = TwoStage(classifier=SoftNetwork(network="linear", epochs=30, learning_rate=0.05)).fit(FEATURES, VOTES)
    assert own.score(FEATURES, TRUTH) > 0.85
    assert own.get_params()["classifier__epochs"] == 30
    # Images go to networks.
    images = FEATURES.reshape(200, 1, 2, 2)
    assert TwoStage(classifier=SoftNetwork(epochs=2)).fit(images, VOTES).predict(images).shape == (200,)


def test_items_without_votes_get_the_classifiers_label() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    X = np.column_stack([truth * 4.0 - 2, rng.normal(size=60)]) + 0.3 * rng.normal(size=(60, 2))
    voted = np.arange(40)
    votes = Annotations.from_arrays(
        item=np.repeat(voted, 3), annotator=np.tile(["a", "b", "c"], 40), label=np.repeat(truth[voted], 3), items=range(60)
    )
    model = TwoStage(aggregator="majority").fit(X, votes)
    assert (model.labels_[40:] == truth[40:]).all()
