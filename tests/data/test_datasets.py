from __future__ import annotations

import csv

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.datasets import DATASETS, crowd_digits, dawid_skene_1979, demo, load
from crowdwise.errors import InputError


def test_dawid_skene_equals_the_shared_table(shared_data):
    votes = dawid_skene_1979()
    with open(shared_data / "dawid_skene_1979" / "annotations.csv", newline="") as lines:
        expected = sorted(tuple(int(row[name]) for name in ("item", "annotator", "label")) for row in csv.DictReader(lines))
    assert sorted(votes.to_frame().rows()) == expected


def test_dawid_skene_by_the_papers_description():
    votes = dawid_skene_1979()
    assert (votes.n_votes, votes.n_items, votes.n_annotators, votes.classes.tolist()) == (315, 45, 5, [1, 2, 3, 4])
    assert votes.votes_per_annotator.tolist() == [135, 45, 45, 45, 45]
    # Patient 1: everyone says 1. Patient 2: 3, 3, 3 by the first; then 4, 3, 3, 4.
    assert votes.label[votes.item == 1].tolist() == [2, 2, 2, 3, 2, 2, 3]


def test_digits_have_the_papers_five_annotators():
    X, votes, truth = crowd_digits()
    assert X.shape == (1797, 64)
    assert (X.min(), X.max()) == (0, 1)
    assert votes.classes.tolist() == list(range(10))
    right = [(votes.label[votes.annotator == a] == truth[votes.item[votes.annotator == a]]).mean() for a in range(5)]
    np.testing.assert_allclose(right[:4], [0.95, 0.9, 0.8, 0.1], atol=0.03)
    last = votes.annotator == 4
    assert (votes.label[last] == (truth[votes.item[last]] + 1) % 10).mean() == pytest.approx(0.9, abs=0.03)


def test_digits_take_other_annotators():
    _, votes, _ = crowd_digits("one-coin", n_annotators=20, votes_per_item=(1, 3), random_state=1)
    assert votes.n_annotators == 20
    assert votes.votes_per_item.max() == 3


def test_demo_is_fixed_and_recoverable():
    campaign = demo()
    votes = campaign.votes
    assert votes.items[0] == "photo-001"
    assert campaign.gold["photo-001"] == votes.classes[campaign.truth[0]]
    np.testing.assert_array_equal(votes.label, demo().votes.label)
    counts = np.zeros((120, 4))
    np.add.at(counts, (votes.item, votes.label), 1)
    # Majority vote is good but leaves work to do, and the ill-meaning annotators stand out.
    assert 0.75 < (counts.argmax(axis=1) == campaign.truth).mean() < 0.95
    right = [(votes.label == campaign.truth[votes.item])[votes.annotator == a].mean() for a in range(12)]
    assert min(right[:9]) > 0.5 > max(right[9:])


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_loads(name):
    assert isinstance(load(name), Annotations)
    assert "\n" not in DATASETS[name].description


def test_unknown_name():
    with pytest.raises(InputError, match="did you mean 'demo'"):
        load("demos")
