"""The generator of Gravity-Spy-like data, at a tiny size."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope="module")
def gravity_spy():
    from benchmarks.gp import gravity_spy

    return gravity_spy


@pytest.fixture(scope="module")
def data(gravity_spy):
    return gravity_spy.made(seed=0, scale=0.02, n_test=500)


def test_sizes_are_those_asked_for(gravity_spy, data):
    votes = data.votes
    assert (votes.n_items, votes.n_annotators, votes.n_votes, votes.n_classes) == (3471, 69, 36_580, 15)
    assert data.X.shape == (3471, gravity_spy.N_FEATURES)
    assert data.X.dtype == data.X_test.dtype == np.float32
    assert data.truth.shape == (3471,)
    assert data.X_test.shape == (500, gravity_spy.N_FEATURES)
    assert np.isfinite(data.X).all()


def again(votes):
    """Whether each vote follows another by the same volunteer on the same item."""
    pairs = votes.item.astype(np.int64) * votes.n_annotators + votes.annotator
    assert (np.diff(pairs) >= 0).all()  # sorted, as the constructor of Annotations wants them
    return np.diff(pairs, prepend=-1) == 0


def test_everybody_votes_and_some_twice_on_an_item(gravity_spy, data):
    votes = data.votes
    assert votes.votes_per_item.min() >= 1
    assert votes.votes_per_annotator.min() >= 1
    assert again(votes).sum() == round(0.02 * votes.n_votes)
    assert not again(gravity_spy.made(0, 0.02, 10, gravity_spy.Shape(repeats=0)).votes).any()


def test_a_set_too_small_for_its_items_is_refused(gravity_spy):
    with pytest.raises(ValueError, match=r"at least 0\.02"):
        gravity_spy.made(0, 0.01)


@pytest.mark.parametrize("share", [0.08, 0.1012, 0.3])
def test_other_is_as_large_a_part_of_the_votes_as_asked(gravity_spy, share):
    made = gravity_spy.made(0, 0.02, 10, gravity_spy.Shape(other_votes=share))
    said = (made.votes.label == gravity_spy.OTHER).mean()
    assert abs(said - share) < 4 * np.sqrt(share * (1 - share) / made.votes.n_votes)
    np.testing.assert_allclose(made.confusion.sum(2), 1)


def test_fewer_votes_for_other_than_there_are_anyway_are_refused(gravity_spy):
    with pytest.raises(ValueError, match="of the votes already"):
        gravity_spy.made(0, 0.02, 10, gravity_spy.Shape(other_votes=0.01))


@pytest.mark.slow
def test_shares_of_training_and_test_differ_as_asked(gravity_spy):
    listed = np.array([look[0] for look in gravity_spy.LOOKS.values()])
    made = gravity_spy.made(0, 0.1, 9_997, gravity_spy.Shape(training_power=0.5))
    root = np.sqrt(listed)
    for truth, share in ((made.truth, root / root.sum()), (made.truth_test, listed / listed.sum())):
        found = np.bincount(truth, minlength=15) / len(truth)
        assert (np.abs(found - share) < 4 * np.sqrt(share * (1 - share) / len(truth))).all()
    # Far apart, so that the line above could not hold for one vector of shares: 26 % beside 14 %.
    assert np.bincount(made.truth_test)[0] / 9_997 > 1.5 * np.bincount(made.truth)[0] / len(made.truth)


@pytest.mark.slow
def test_more_overlap_makes_the_classes_harder_to_tell_apart(gravity_spy):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    right = []
    for overlap in (0.0, 1.0, 2.0):
        made = gravity_spy.made(0, 0.02, 2000, gravity_spy.Shape(overlap=overlap))
        right.append(LinearDiscriminantAnalysis().fit(made.X, made.truth).score(made.X_test, made.truth_test))
    assert right[0] > right[1] + 0.02 > right[2] + 0.04


def test_activity_is_heavy_tailed_at_full_size(gravity_spy):
    activity = gravity_spy._activity(
        gravity_spy.N_ANNOTATORS, gravity_spy.N_VOTES, gravity_spy.N_ITEMS // 4, np.random.default_rng(0)
    )
    assert activity.sum() == gravity_spy.N_VOTES
    assert activity.min() == 1
    assert np.median(activity) < 100
    assert activity.max() > 20_000


def test_rows_of_confusion_matrices_are_distributions(data):
    assert (data.confusion >= 0).all()
    np.testing.assert_allclose(data.confusion.sum(2), 1)


def test_votes_follow_the_matrices_and_experience_helps(data):
    votes = data.votes
    right = votes.label == data.truth[votes.item]
    assert 0.7 < right.mean() < 0.95
    busy = votes.votes_per_annotator[votes.annotator] > 500
    assert right[busy].mean() > right[~busy].mean()


def test_a_seed_gives_the_same_data_and_another_seed_others(gravity_spy, data):
    again, other = (gravity_spy.made(seed=seed, scale=0.02, n_test=500) for seed in (0, 1))
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.votes.label, data.votes.label)
    np.testing.assert_array_equal(again.truth_test, data.truth_test)
    assert not np.array_equal(other.truth_test, data.truth_test)
    # The clusters are the same: what one seed teaches holds for the other.
    centres = [np.stack([one.X[one.truth == k].mean(0) for k in (0, 2, 13)]) for one in (data, other)]
    assert np.abs(centres[0] - centres[1]).mean() < 0.1
