from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from tests.methods.classify.crowds import clouds, diagonal_crowd, vote
from tests.methods.labels.helpers import quiet, random_votes

from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning, SettingError
from crowdwise.estimator.codec import pack, unpack
from crowdwise.methods.classify.raykar import Raykar, _evidence, _surely_above
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.parts.annotators.model import Confusion

CLASSIFIERS = ("logistic", "gaussian")


def rises(model: Any) -> bool:
    bound = model.trace_
    return bool((np.diff(bound) >= -1e-9 * np.abs(bound[1:])).all())


@pytest.mark.slow
@pytest.mark.parametrize("classifier", CLASSIFIERS)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["attended", "crowd", "own"]), st.floats(0, 2))
@settings(max_examples=25)
def test_the_bound_never_falls(classifier: str, seed: int, n_classes: int, pool: str, smoothing: float) -> None:
    rng = np.random.default_rng(seed)
    votes = random_votes(rng, 12, 3, n_classes, 40)
    features = rng.normal(size=(12, 5))
    with quiet():
        model = Raykar(classifier=classifier, pool=pool, smoothing=smoothing, tol=1e-10, max_iter=40).fit(features, votes)
    assert rises(model)


def test_the_posterior_is_bayes_rule_with_the_classifier_as_prior() -> None:
    features, truth = clouds(0, 12, 3, gap=1.0)
    votes = vote(0, truth, diagonal_crowd(3, 3, 0.7), per_item=2)
    model = Raykar().fit(features, votes)
    joint = model.predict_proba(features)
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        joint[item] *= model.confusion_[annotator, :, label]
    np.testing.assert_allclose(model.result_.model_posterior, joint / joint.sum(axis=1, keepdims=True), atol=1e-9)
    # And so on new rows.
    np.testing.assert_allclose(model.predict_proba(features, votes), model.posterior_, atol=1e-9)


def test_for_two_classes_confusion_holds_the_paper_s_sensitivity_and_specificity() -> None:
    rng = np.random.default_rng(1)
    features, votes = rng.normal(size=(20, 2)), random_votes(rng, 20, 3, 2, 80)
    mu = rng.uniform(0.1, 0.9, 20)
    with quiet():
        model = Raykar(pool="own", smoothing=0, init=np.column_stack([1 - mu, mu]), max_iter=1).fit(features, votes)
    for a in range(3):
        mine = votes.annotator == a
        y, q = votes.label[mine], mu[votes.item[mine]]
        assert model.confusion_[a, 1, 1] == pytest.approx((q * y).sum() / q.sum())
        assert model.confusion_[a, 0, 0] == pytest.approx(((1 - q) * (1 - y)).sum() / (1 - q).sum())


def test_pseudo_votes_follow_the_crowd_s_rows() -> None:
    """Counted by hand under the start: K pseudo-votes per row, in the proportions of the row of all annotators."""
    rng = np.random.default_rng(2)
    features, votes = rng.normal(size=(15, 2)), random_votes(rng, 15, 3, 3, 60)
    start = rng.dirichlet(np.ones(3), 15)
    counts = np.zeros((3, 3, 3))
    for item, annotator, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        counts[annotator, :, label] += start[item]
    pooled = counts.sum(axis=0)
    right = (np.trace(pooled) + 1) / (pooled.sum() + 2)
    pooled += 3 * np.where(np.eye(3, dtype=bool), right, (1 - right) / 2)
    expected = counts + 3 * 0.5 * pooled / pooled.sum(axis=1, keepdims=True)
    with quiet():
        model = Raykar(pool="crowd", smoothing=0.5, init=start, max_iter=1).fit(features, votes)
    np.testing.assert_allclose(model.confusion_, expected / expected.sum(axis=2, keepdims=True))


def test_good_annotators_are_not_drawn_to_the_crowd() -> None:
    """Ten classes and thirty votes in every row: as many pseudo-votes as a third of them, which say what is known."""
    features, truth = clouds(5, 700, 10)
    accuracy = np.linspace(0.2, 0.95, 8)
    confusion = np.stack([diagonal_crowd(1, 10, right)[0] for right in accuracy])
    votes = vote(5, truth, confusion, per_item=4)
    hit = np.bincount(votes.annotator, votes.label == truth[votes.item]) / votes.votes_per_annotator
    off = {pool: np.abs(Raykar(pool=pool).fit(features, votes).result_.accuracy - hit) for pool in ("attended", "crowd")}
    assert off["attended"].max() < 0.05
    assert off["crowd"].max() > 0.08


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_features_repair_what_thin_votes_leave_open(classifier: str) -> None:
    features, truth = clouds(3, 800, 4)
    votes = vote(3, truth, diagonal_crowd(20, 4, 0.6), per_item=2)
    model = Raykar(classifier=classifier).fit(features[:400], votes[:400])
    with quiet():
        votes_alone = DawidSkene().fit(votes[:400])
    assert (model.labels_ == truth[:400]).mean() > (votes_alone.labels_ == truth[:400]).mean() + 0.1
    assert model.score(features[400:], truth[400:]) > 0.95
    assert np.abs(model.confusion_[:, np.arange(4), np.arange(4)].mean() - 0.6) < 0.05
    assert rises(model)


def test_an_asymmetric_annotator_is_recovered_untransposed() -> None:
    features, truth = clouds(4, 600, 2)
    one = np.array([[0.95, 0.05], [0.4, 0.6]])
    votes = vote(4, truth, [one, [[0.8, 0.2], [0.1, 0.9]], [[0.7, 0.3], [0.3, 0.7]]])
    model = Raykar(smoothing=0.1).fit(features, votes)
    np.testing.assert_allclose(model.confusion_[0], one, atol=0.06)


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_adversaries_are_told_apart_by_the_start(classifier: str) -> None:
    features, truth = clouds(5, 300, 2, gap=2.0)
    confusion = np.concatenate([diagonal_crowd(4, 2, 0.8), diagonal_crowd(2, 2, 0.15)])
    votes = vote(5, truth, confusion)
    model = Raykar(classifier=classifier).fit(features, votes)
    assert (model.labels_ == truth).mean() > 0.9
    assert (model.result_.accuracy[4:] < 0.35).all()
    assert (model.result_.accuracy[:4] > 0.65).all()


@pytest.mark.parametrize("n_classes", [2, 5])
def test_one_label_per_row_is_about_plain_logistic_regression(n_classes: int) -> None:
    features, truth = clouds(6, 300, n_classes, gap=2.5)
    model = Raykar(l2=1.0).fit(features, truth)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    plain = LogisticRegression(C=2.0 if n_classes == 2 else 1.0, max_iter=1000).fit(scaled, truth)
    assert (model.predict(features) == plain.predict(scaled)).mean() > 0.95
    assert model.score(features, truth) > plain.score(scaled, truth) - 0.02


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_known_labels_stay_and_teach(classifier: str) -> None:
    features, truth = clouds(7, 200, 3)
    # Everybody takes class 0 for class 1 and the other way round; votes alone cannot know.
    swapped = diagonal_crowd(4, 3, 0.9)[:, [1, 0, 2]]
    votes = vote(7, truth, swapped)
    gold = {n: int(truth[n]) for n in range(60)}
    model = Raykar(classifier=classifier).fit(features, votes, gold=gold)
    np.testing.assert_allclose(model.posterior_[np.arange(60), truth[:60]], 1)
    assert (model.labels_ == truth).mean() > 0.95


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_items_without_votes_get_labels_and_change_nothing_else(classifier: str) -> None:
    features, truth = clouds(8, 150, 3)
    votes = vote(8, truth, diagonal_crowd(3, 3, 0.8))
    # Vote shares, because the class shares of dawid-skene do count items without votes.
    some = Raykar(classifier=classifier, init="identity").fit(features[:100], votes[:100])
    bare = votes.take_votes(votes.item < 100)
    every = Raykar(classifier=classifier, init="identity").fit(features, bare)
    np.testing.assert_allclose(every.model_.weights, some.model_.weights, rtol=1e-9, atol=1e-12)
    assert (every.labels_[100:] == truth[100:]).mean() > 0.9
    np.testing.assert_allclose(every.posterior_[100:], every.predict_proba(features[100:]))


@pytest.mark.parametrize("classifier", CLASSIFIERS)
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_odd_shapes_are_fitted(classifier: str, n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    one_per_class = np.arange(n_classes)
    cases = [
        (rng.normal(size=(n_classes, 1)), one_per_class),  # one item per class, one column
        (np.zeros((n_classes, 3)), one_per_class),  # features that say nothing
        (rng.normal(size=(20, 60)), random_votes(rng, 20, 2, n_classes, 200)),  # more columns than items, repeated votes
        (csr_array(rng.poisson(1.0, (20, 7)).astype(float)), random_votes(rng, 20, 30, n_classes, 25)),
        (rng.normal(size=(20, 3)).astype(np.float32), random_votes(rng, 20, 2, n_classes, 30, weight=rng.uniform(0, 3, 30))),
    ]
    for features, votes in cases:
        with quiet():
            model = Raykar(classifier=classifier).fit(features, votes)
        for rows in (model.posterior_, model.predict_proba(features), model.confusion_):
            np.testing.assert_allclose(rows.sum(axis=-1), 1)
        assert rises(model)


def test_ids_may_be_any_text() -> None:
    features, truth = clouds(9, 40, 2)
    votes = vote(9, truth, diagonal_crowd(2, 2, 0.9))
    names = np.array([f"Bild №{n} 🦉" for n in range(40)])
    named = Annotations.from_arrays(
        names[votes.item], np.array(["Zoë", "李"])[votes.annotator], np.array(["ja", "nein"])[votes.label]
    )
    model = Raykar().fit(features, named, items=names)
    np.testing.assert_allclose(model.posterior_, Raykar().fit(features, votes).posterior_, atol=1e-9)
    assert set(model.predict(features)) == {"ja", "nein"}


@pytest.mark.parametrize("classifier", CLASSIFIERS)
def test_the_same_fit_twice_is_the_same_to_the_bit(classifier: str) -> None:
    features, truth = clouds(10, 80, 3)
    votes = vote(10, truth, diagonal_crowd(5, 3, 0.7), per_item=2)
    first, second = (Raykar(classifier=classifier).fit(features, votes) for _ in range(2))
    assert first.posterior_.tobytes() == second.posterior_.tobytes()
    assert first.model_.weights.tobytes() == second.model_.weights.tobytes()


def test_a_model_is_rebuilt_from_its_arrays() -> None:
    features, truth = clouds(11, 30, 3)
    model = Raykar().fit(features, truth)
    arrays: dict[str, Any] = {}
    plain = pack(model.model_, "model", arrays)
    assert plain == {"class": "LogisticModel", "fields": {"weights": {"array": "model/weights"}}}
    np.testing.assert_array_equal(unpack(plain, arrays).log_prob(features), model.model_.log_prob(features))


def test_too_few_iterations_are_a_warning() -> None:
    features, truth = clouds(12, 30, 2)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        Raykar(max_iter=1).fit(features, truth)


def test_settings_out_of_range_are_refused() -> None:
    for wrong in ({"l2": -1.0}, {"classifier": "forest"}, {"pool": "all"}, {"pseudo_rows": 0.0}, {"init": "dawid"}):
        with pytest.raises(SettingError, match=next(iter(wrong))):
            Raykar(**wrong).fit(np.eye(4), [0, 1, 0, 1])


def test_tempered_gaussians_are_not_too_sure_of_rows_they_have_not_seen() -> None:
    """Few items in many columns: the untempered classifier is almost always sure, and often wrong."""
    features, truth = clouds(13, 460, 3, n_columns=40, gap=1.5)
    votes = vote(13, truth, diagonal_crowd(6, 3, 0.75), per_item=3)
    model = Raykar(classifier="gaussian").fit(features[:60], votes[:60])
    proba = model.predict_proba(features[60:])
    hit = proba.argmax(axis=1) == truth[60:]
    assert abs(proba.max(axis=1).mean() - hit.mean()) < 0.12
    # The labels of the training items do not rest on what the Gaussians say of items that they were fitted to.
    said = np.exp(model.result_.prior.log_prob())
    assert said.max(axis=1).mean() < model.predict_proba(features[:60]).max(axis=1).mean()


def test_the_classifier_may_be_chosen_by_the_votes_on_items_left_out() -> None:
    """Clouds are what Gaussians expect; a line across columns with heavy tails is not, and few clouds are as good as a line."""
    rng = np.random.default_rng(0)
    wide = rng.standard_t(2, size=(400, 6)).clip(-30, 30)
    line = (wide[:, 0] + 0.3 * wide[:, 1] > 1.2).astype(int)
    many, few = clouds(1, 200, 6, n_columns=20, gap=2.0), clouds(1, 200, 3, n_columns=20, gap=1.5)
    for kind, (features, truth) in (("gaussian", many), ("logistic", (wide, line)), ("logistic", few)):
        votes = vote(0, truth, diagonal_crowd(6, int(truth.max()) + 1, 0.7), per_item=2)
        chosen, same = (Raykar(classifier=name, init="majority").fit(features, votes) for name in ("auto", kind))
        np.testing.assert_array_equal(chosen.posterior_, same.posterior_)
        np.testing.assert_array_equal(chosen.predict_proba(features), same.predict_proba(features))
        other = Raykar(classifier="gaussian" if kind == "logistic" else "logistic", init="majority").fit(features, votes)
        assert (chosen.posterior_ != other.posterior_).any()


def labelme(folder: Path) -> tuple[np.ndarray, Annotations, np.ndarray, np.ndarray]:
    data, test = np.load(folder / "labelme" / "features.npz"), np.load(folder / "labelme" / "test_features.npz")
    votes = Annotations.from_frame(pl.read_csv(folder / "labelme" / "annotations.csv"))
    assert (votes.items.astype(int) == data["item"]).all()
    truth = pl.read_csv(folder / "labelme" / "test_truth.csv")
    assert (truth["item"].to_numpy() == test["item"]).all()
    return data["X"], votes, test["X"], truth["label"].to_numpy()


@pytest.mark.slow
def test_on_labelme_held_out_votes_choose_a_classifier_that_is_right_in_88_of_100(shared_data: Path) -> None:
    """No true label takes part in the choice. Published with these annotators: crowd layer 83.2, best 86 to 87."""
    features, votes, test, truth = labelme(shared_data)
    grid = GridSearchCV(Raykar(), {"classifier": list(CLASSIFIERS)}, cv=KFold(3, shuffle=True, random_state=0))
    grid.fit(features, votes)
    assert (grid.best_estimator_.predict(test).astype(int) == truth).mean() >= 0.88
    logistic = Raykar().fit(features, votes)
    assert (logistic.predict(test).astype(int) == truth).mean() >= 0.83


def test_few_rounds_of_the_gaussians_end_without_a_warning() -> None:
    features, truth = clouds(14, 120, 3, n_columns=10, gap=1.0)
    votes = vote(14, truth, diagonal_crowd(6, 3, 0.6), per_item=2)
    few = Raykar(classifier="gaussian", init="majority", gaussian_iter=4).fit(features, votes)
    with quiet():
        same = Raykar(classifier="gaussian", init="majority", max_iter=4).fit(features, votes)
    assert few.n_iter_ == 4
    assert few.result_.converged
    assert not same.result_.converged
    np.testing.assert_array_equal(few.posterior_, same.posterior_)
    # The logistic regression runs as far as it would.
    assert Raykar(init="majority", gaussian_iter=4).fit(features, votes).n_iter_ > 4


def test_evidence_by_block_adds_up_to_that_of_all_votes() -> None:
    rng = np.random.default_rng(0)
    votes = random_votes(rng, 60, 4, 3, 200, weight=rng.uniform(0.5, 2, 200))
    model = Confusion.start(np.ones((1, 3, 3)), 4).update(votes, rng.dirichlet(np.ones(3), 60))
    log_prior = np.log(rng.dirichlet(np.ones(3), 60))
    found = _evidence(log_prior, votes, model)
    joint = log_prior.copy()
    for item, annotator, label, weight in zip(votes.item, votes.annotator, votes.label, votes.weight, strict=True):
        joint[item] += weight * np.log(model.confusion()[annotator, :, label])
    by_item = np.log(np.exp(joint).sum(axis=1))
    assert len(found) == 25
    np.testing.assert_allclose(found[0], by_item[[0, 25, 50]].sum())
    np.testing.assert_allclose(found.sum(), by_item.sum())


def test_the_gaussians_must_be_ahead_by_a_standard_error() -> None:
    # Differences 1, 3, 2: their sum is 6, their standard deviation 1, and that of the sum sqrt(3).
    other = np.array([5.0, 1.0, 4.0])
    assert _surely_above(other + np.array([1, 3, 2]), other)
    assert not _surely_above(other, other)
    # Differences 4, -4, 1: the sum is 1, and its standard error 7.
    assert not _surely_above(other + np.array([4, -4, 1]), other)
    assert not _surely_above(other[:1] + 9, other[:1])


@pytest.mark.slow
def test_labels_fall_less_between_batches_where_the_gaussians_stop_early() -> None:
    """Four classes of three clouds each, annotators who know some clouds: what EM converges to is not what votes say."""
    falls: dict[int | None, list[float]] = {None: [], 8: []}
    right: dict[int | None, list[float]] = {None: [], 8: []}
    for seed in range(8):
        rng = np.random.default_rng([7, seed])
        centre, cloud = rng.normal(size=(12, 15)), rng.integers(12, size=240)
        features, truth = centre[cloud] + 0.8 * rng.normal(size=(240, 15)), cloud % 4
        accuracy = np.where(rng.random((25, 12)) < 0.3, 0.95, 0.4)[:, cloud]
        said = np.where(rng.random((25, 240)) < accuracy, truth, (truth + rng.integers(1, 4, size=(25, 240))) % 4)
        order = rng.permutation(said.size)
        for rounds in falls:
            curve = []
            for n_votes in (240, 360, 480, 600, 720):
                annotator, item = np.divmod(order[:n_votes], 240)
                votes = Annotations.from_arrays(item, annotator, said[annotator, item], items=range(240), classes=range(4))
                model = Raykar(classifier="gaussian", init="majority", gaussian_iter=rounds).fit(features, votes)
                curve.append((model.labels_ == truth).mean())
            falls[rounds].append(max(0.0, -np.diff(curve).min()))
            right[rounds].append(float(np.mean(curve)))
    assert np.mean(falls[8]) < 0.75 * np.mean(falls[None])
    assert np.mean(right[8]) > np.mean(right[None])
