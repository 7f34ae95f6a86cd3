from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdwise.data.simulate import FAMILIES, simulate
from crowdwise.data.simulate.design import _distinct, _regular
from crowdwise.errors import SettingError


def observed_confusion(simulation, annotator: int) -> np.ndarray:
    """Count an annotator's votes by true and observed class, [K, K]."""
    votes = simulation.votes
    counts = np.zeros((votes.n_classes, votes.n_classes))
    mine = votes.annotator == annotator
    np.add.at(counts, (simulation.truth[votes.item[mine]], votes.label[mine]), 1)
    return counts


def test_sizes_names_and_gold():
    simulation = simulate(n_items=12, n_annotators=4, n_classes=3, votes_per_item=2)
    votes = simulation.votes
    assert (votes.n_votes, votes.n_items, votes.n_annotators, votes.n_classes) == (24, 12, 4, 3)
    assert (votes.items[0], votes.items[-1], votes.annotators[0]) == ("item-000001", "item-000012", "annotator-01")
    assert votes.classes.tolist() == ["class-0", "class-1", "class-2"]
    assert votes.gold is None
    attached = votes.with_gold(simulation.gold)
    np.testing.assert_array_equal(attached.gold, simulation.truth)


@pytest.mark.parametrize(("n_annotators", "n_classes"), [(120, 12), (1, 1)])
def test_ids_sort_as_numbers(n_annotators, n_classes):
    votes = simulate(n_items=5, n_annotators=n_annotators, n_classes=n_classes, votes_per_item=1).votes
    assert sorted(votes.annotators) == votes.annotators.tolist()
    assert sorted(votes.classes) == votes.classes.tolist()


def test_same_seed_same_votes():
    first, again, other = (simulate(n_items=50, random_state=seed, activity="power-law", difficulty=1.0) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.votes.label, again.votes.label)
    np.testing.assert_array_equal(first.votes.annotator, again.votes.annotator)
    np.testing.assert_array_equal(first.confusion, again.confusion)
    assert not np.array_equal(first.votes.label, other.votes.label)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("n_classes", [1, 2, 5, 100])
def test_every_family_gives_distributions(name, n_classes):
    confusion = FAMILIES[name](np.random.default_rng(0), 7, n_classes)
    assert confusion.shape == (7, n_classes, n_classes)
    assert (confusion >= 0).all()
    np.testing.assert_allclose(confusion.sum(axis=2), 1)


def test_families_by_hand():
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(
        FAMILIES["cyclic-adversary"](rng, 1, 3, p=0.8)[0], [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.8, 0.1, 0.1]]
    )
    np.testing.assert_allclose(FAMILIES["colluder"](rng, 1, 3)[0], [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    constant = FAMILIES["constant-spammer"](rng, 50, 3)
    assert set(constant.ravel()) == {0.0, 1.0}
    assert (constant == constant[:, :1]).all()
    assert len({tuple(row) for row in constant[:, 0]}) == 3
    hammers = FAMILIES["hammer-spammer"](rng, 4000, 2, gamma=0.3)
    assert (hammers[:, 0, 0] == 1).mean() == pytest.approx(0.3, abs=0.03)
    coin = FAMILIES["one-coin"](rng, 4000, 4)
    assert coin[:, 0, 0].mean() == pytest.approx(0.8, abs=0.01)
    np.testing.assert_allclose(coin[:, 1, 1], coin[:, 0, 0])
    np.testing.assert_allclose(coin[:, 0, 1], (1 - coin[:, 0, 0]) / 3)
    # Dirichlet(8, 1, 1): mean 0.8 and variance 0.8 * 0.2 / 11.
    rows = FAMILIES["dirichlet"](rng, 4000, 3)[:, 0]
    np.testing.assert_allclose(rows.mean(axis=0), [0.8, 0.1, 0.1], atol=0.01)
    assert rows[:, 0].var() == pytest.approx(0.16 / 11, rel=0.1)


def test_votes_follow_an_asymmetric_confusion_untransposed():
    confusion = np.array(
        [[[0.7, 0.3, 0.0], [0.0, 0.5, 0.5], [0.1, 0.0, 0.9]], [[0.2, 0.2, 0.6], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    )
    simulation = simulate(n_items=30_000, votes_per_item=2, annotators=confusion)
    for a in range(2):
        counts = observed_confusion(simulation, a)
        np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), confusion[a], atol=0.02)
        assert (counts[confusion[a] == 0] == 0).all()
    assert simulation.kind.tolist() == ["given", "given"]


def test_class_prior_and_given_truth():
    simulation = simulate(n_items=20_000, class_prior=[0.7, 0.3, 0.0], votes_per_item=1)
    np.testing.assert_allclose(np.bincount(simulation.truth, minlength=3) / 20_000, [0.7, 0.3, 0.0], atol=0.01)
    given_truth = simulate(truth=[2, 0, 1, 1], n_annotators=3, votes_per_item=2, classes=["x", "y", "z"])
    assert given_truth.gold == {"item-000001": "z", "item-000002": "x", "item-000003": "y", "item-000004": "y"}


def test_mix_counts_and_order():
    kinds = simulate(n_annotators=10, annotators={"one-coin": 0.75, "uniform-spammer": 0.25}).kind.tolist()
    assert kinds in (["one-coin"] * 8 + ["uniform-spammer"] * 2, ["one-coin"] * 7 + ["uniform-spammer"] * 3)
    thirds = simulate(n_annotators=10, annotators={"one-coin": 1 / 3, "two-coin": 1 / 3, "dirichlet": 1 / 3}).kind
    assert len(thirds) == 10


@given(st.integers(1, 8), st.data(), st.sampled_from(["uniform", "power-law", "regular"]), st.integers(0, 100))
def test_annotators_of_an_item_are_distinct(n_annotators, data, activity, seed):
    votes_per_item = data.draw(st.integers(0, n_annotators))
    votes = simulate(
        n_items=13, n_annotators=n_annotators, votes_per_item=votes_per_item, activity=activity, exponent=3.0, random_state=seed
    ).votes
    assert (votes.votes_per_item == votes_per_item).all()
    assert len(set(zip(votes.item.tolist(), votes.annotator.tolist(), strict=True))) == 13 * votes_per_item
    if activity == "regular":
        assert np.ptp(votes.votes_per_annotator) <= 1


def test_distinct_draws_have_the_distribution_of_successive_sampling():
    weight = np.array([4.0, 2.0, 1.0, 1.0])
    pick = _distinct(np.random.default_rng(0), 200_000, weight, 2)
    counts = np.zeros((4, 4))
    np.add.at(counts, (pick[:, 0], pick[:, 1]), 1)
    p = weight / weight.sum()
    expected = np.array([[0 if i == j else p[i] * p[j] / (1 - p[i]) for j in range(4)] for i in range(4)])
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.004)


def test_exhaustive_draws_use_the_exact_path():
    # The last index has weight 1e-9: rejection alone would not find it.
    pick = _distinct(np.random.default_rng(0), 100, np.array([1.0, 1.0, 1e-9]), 3)
    assert (np.sort(pick, axis=1) == [0, 1, 2]).all()
    assert (pick[:, 2] == 2).all()


def test_regular_design_mixes_annotators():
    pick = _regular(np.random.default_rng(0), 300, 30, 5)
    assert (np.bincount(pick.ravel(), minlength=30) == 50).all()
    # Every annotator meets nearly every other: blocks that never mix would leave methods nothing to compare.
    met = np.zeros((30, 30), bool)
    for row in pick:
        met[np.ix_(row, row)] = True
    assert met.mean() > 0.95


def test_power_law_activity():
    votes = simulate(n_items=20_000, n_annotators=100, votes_per_item=2, activity="power-law").votes
    activity = np.sort(votes.votes_per_annotator)[::-1]
    # Zipf: the first annotator is about ten times as active as the tenth; without replacement a little less.
    assert 6 < activity[0] / activity[9] < 11


def test_extreme_spammers_label_everything():
    simulation = simulate(n_items=40, n_annotators=10, votes_per_item=3, annotators={"one-coin": 0.9, "extreme-spammer": 0.1})
    votes = simulation.votes
    assert votes.votes_per_annotator[-1] == 40
    assert (votes.votes_per_item == 4).all()


def test_colluders_share_a_wrong_label():
    simulation = simulate(
        n_items=500, n_annotators=8, n_classes=4, votes_per_item=8, annotators={"one-coin": 0.5, "colluder": 0.5}
    )
    matrix = np.full((500, 8), -1)
    matrix[simulation.votes.item, simulation.votes.annotator] = simulation.votes.label
    assert (matrix[:, 4:] == matrix[:, 4:5]).all()
    assert (matrix[:, 4] != simulation.truth).all()
    assert len({(int(z), int(y)) for z, y in zip(simulation.truth, matrix[:, 4], strict=True)}) == 12


def test_range_of_votes_per_item():
    per_item = simulate(n_items=3000, votes_per_item=(0, 3)).votes.votes_per_item
    np.testing.assert_allclose(np.bincount(per_item) / 3000, 0.25, atol=0.04)


def test_difficulty_is_glad_for_two_classes():
    accuracy = 0.9
    one_coin = np.array([[[accuracy, 1 - accuracy], [1 - accuracy, accuracy]]])
    simulation = simulate(n_items=100_000, votes_per_item=1, annotators=one_coin, difficulty=1.0)
    ability = np.log(accuracy / (1 - accuracy))
    right = simulation.votes.label == simulation.truth
    for low, high in ((0.1, 0.3), (0.9, 1.1), (2.0, 3.0)):
        inside = (simulation.ease > low) & (simulation.ease < high)
        expected = (1 / (1 + np.exp(-simulation.ease[inside] * ability))).mean()
        assert right[inside].mean() == pytest.approx(expected, abs=0.015)


def test_single_item_annotator_class():
    simulation = simulate(n_items=1, n_annotators=1, n_classes=1, votes_per_item=1, difficulty=1.0)
    assert simulation.votes.to_matrix().tolist() == [["class-0"]]


def test_settings_are_recorded_as_json():
    settings = json.loads(json.dumps(simulate(annotators={"one-coin": 1.0}, options={"one-coin": {"a": 2}}).settings))
    assert settings["annotators"] == {"one-coin": 1.0}
    assert settings["options"] == {"one-coin": {"a": 2}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_items": 0}, "n_items"),
        ({"n_items": 2.5}, "n_items must be a whole number"),
        ({"n_annotators": 0}, "n_annotators"),
        ({"n_classes": 0}, "n_classes"),
        ({"votes_per_item": 51}, "51 votes per item need as many annotators, there are 50"),
        ({"votes_per_item": -1}, "votes_per_item"),
        ({"votes_per_item": (3, 2)}, "votes_per_item"),
        ({"votes_per_item": (2, 3), "activity": "regular"}, "range"),
        ({"activity": "zipf"}, "uniform, power-law, regular"),
        ({"exponent": -1.0}, "exponent"),
        ({"difficulty": float("nan")}, "difficulty"),
        ({"annotators": "one coin"}, "did you mean 'one-coin'"),
        ({"annotators": {"one-coin": 0.5}}, "sum to one"),
        ({"annotators": {"one-coin": 1.5, "two-coin": -0.5}}, ">= 0"),
        ({"options": {"hammer": {}}}, "hammer-spammer"),
        ({"options": {"hammer-spammer": {"alpha": 1}}}, "no option 'alpha'; it has gamma"),
        ({"options": {"uniform-spammer": {"alpha": 1}}}, "it has none"),
        ({"options": {"hammer-spammer": {"gamma": 1.5}}}, "out of range"),
        ({"options": {"one-coin": {"a": 0}}}, "out of range"),
        ({"class_prior": [0.5, 0.5]}, "class_prior must be 3"),
        ({"class_prior": [0.5, 0.5, 0.5]}, "sum to one"),
        ({"annotators": np.ones((2, 3))}, r"\[A, K, K\]"),
        ({"annotators": np.ones((2, 3, 3))}, "sum to one"),
        ({"annotators": np.ones((2, 1, 1)), "classes": ["x", "y"]}, "2 classes"),
        ({"truth": [0, 3]}, "from 0 to 2"),
        ({"truth": [0.5]}, "class codes"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(SettingError, match=message):
        simulate(**settings)


@pytest.mark.slow
def test_more_pairs_of_items_and_annotators_than_32_bits_count():
    simulation = simulate(n_items=700_000, n_annotators=3500, n_classes=5, votes_per_item=2)
    assert simulation.votes.n_votes == 1_400_000
