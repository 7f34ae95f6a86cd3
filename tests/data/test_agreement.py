from __future__ import annotations

import json
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from tests.strategies import small_votes

from crowdwise.data.agreement import fleiss_kappa, krippendorff_alpha, pairwise_agreement, summary
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError, SettingError

NAN = float("nan")

# Krippendorff (2011), Computing Krippendorff's alpha-reliability, section C/D: 12 units, 4 observers.
KRIPPENDORFF = [
    [1, 1, NAN, 1], [2, 2, 3, 2], [3, 3, 3, 3], [3, 3, 3, 3], [2, 2, 2, 2], [1, 2, 3, 4],
    [4, 4, 4, 4], [1, 1, 2, 1], [2, 2, 2, 2], [NAN, 5, 5, 5], [NAN, NAN, 1, 1], [NAN, NAN, 3, NAN],
]  # fmt: skip

# The worked example of "Fleiss' kappa" in Wikipedia: 14 raters, 10 subjects, 5 categories.
FLEISS_COUNTS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def cross_pairs(votes: Annotations) -> dict[int, list[tuple[int, int]]]:
    """All unordered pairs of labels by different annotators, by item, from plain loops."""
    by_item: dict[int, list[tuple[int, int]]] = {}
    for n, a, label in zip(votes.item.tolist(), votes.annotator.tolist(), votes.label.tolist(), strict=True):
        by_item.setdefault(n, []).append((a, label))
    return {n: [(x, y) for (a, x), (b, y) in combinations(cast, 2) if a != b] for n, cast in by_item.items()}


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_published_alpha(level, published):
    assert krippendorff_alpha(Annotations.from_matrix(KRIPPENDORFF), level) == pytest.approx(published, abs=5e-4)


def test_fleiss_published_kappa():
    rows = [[k for k, count in enumerate(counts) for _ in range(count)] for counts in FLEISS_COUNTS]
    assert fleiss_kappa(Annotations.from_matrix(rows)) == pytest.approx(0.210, abs=5e-4)


@given(small_votes())
def test_pairwise_is_the_share_over_enumerated_pairs(votes):
    pairs = [pair for found in cross_pairs(votes).values() for pair in found]
    expected = np.mean([x == y for x, y in pairs]) if pairs else NAN
    assert pairwise_agreement(votes) == pytest.approx(expected, nan_ok=True)


@given(small_votes())
def test_fleiss_by_enumeration(votes):
    pairs = {n: found for n, found in cross_pairs(votes).items() if found}
    expected = NAN
    if pairs:
        observed = np.mean([np.mean([x == y for x, y in found]) for found in pairs.values()])
        shares = np.mean(
            [np.bincount(votes.label[votes.item == n], minlength=votes.n_classes) / (votes.item == n).sum() for n in pairs],
            axis=0,
        )
        chance = (shares**2).sum()
        expected = (observed - chance) / (1 - chance) if chance < 1 - 1e-9 else NAN
    assert fleiss_kappa(votes) == pytest.approx(expected, nan_ok=True)


@given(small_votes(max_classes=4))
def test_alpha_by_enumerated_coincidences(votes):
    size = votes.n_classes
    coincidence = np.zeros((size, size))
    for n, found in cross_pairs(votes).items():
        for x, y in found:
            share = (votes.item == n).sum() / (2 * len(found))
            coincidence[x, y] += share
            coincidence[y, x] += share
    total_l = coincidence.sum(axis=0)
    total = total_l.sum()
    value = np.arange(size)
    between = [
        [(total_l[min(c, k) : max(c, k) + 1].sum() - (total_l[c] + total_l[k]) / 2) ** 2 for k in range(size)]
        for c in range(size)
    ]
    distances = {
        "nominal": 1.0 - np.eye(size),
        "ordinal": np.array(between),
        "interval": np.subtract.outer(value, value) ** 2.0,
    }
    numbered = Annotations.from_codes(votes.item, votes.annotator, votes.label, votes.items, votes.annotators, value)
    for level, distance in distances.items():
        expected = (np.outer(total_l, total_l) * distance).sum()
        alpha = 1 - (total - 1) * (coincidence * distance).sum() / expected if expected > 1e-9 else NAN
        assert krippendorff_alpha(numbered, level) == pytest.approx(alpha, nan_ok=True), level


def test_an_annotator_does_not_agree_with_itself():
    votes = Annotations.from_arrays(["i"] * 4, ["a", "a", "a", "b"], ["x", "x", "x", "y"])
    assert pairwise_agreement(votes) == 0.0
    alone = Annotations.from_arrays(["i"] * 3, ["a"] * 3, ["x", "x", "y"])
    assert np.isnan([pairwise_agreement(alone), fleiss_kappa(alone), krippendorff_alpha(alone)]).all()


def test_single_votes_change_nothing():
    votes = Annotations.from_matrix([["x", "x", "y"], ["y", "y", "y"]])
    more = votes.concat(Annotations.from_arrays(["solo"], [0], ["y"]))
    for statistic in (pairwise_agreement, fleiss_kappa, krippendorff_alpha):
        assert statistic(more) == pytest.approx(statistic(votes))


def test_one_class_leaves_chance_corrected_agreement_undefined():
    votes = Annotations.from_matrix([["x", "x"], ["x", "x"]])
    assert pairwise_agreement(votes) == 1.0
    assert np.isnan(fleiss_kappa(votes))
    assert np.isnan(krippendorff_alpha(votes, "ordinal"))


def test_levels_are_checked():
    votes = Annotations.from_matrix([["low", "high"]])
    with pytest.raises(SettingError, match="'nominal', 'ordinal' or 'interval'"):
        krippendorff_alpha(votes, "ratio")
    with pytest.raises(InputError, match=r"numbers.*ordinal"):
        krippendorff_alpha(votes, "interval")


def test_summary_by_hand():
    votes = Annotations.from_arrays(
        ["p", "p", "p", "q", "r"], ["a", "a", "b", "a", "b"], ["x", "x", "y", "x", None], items=["p", "q", "r", "s"]
    )
    assert summary(votes) == {
        "n_items": 4,
        "n_annotators": 2,
        "n_classes": 2,
        "n_votes": 4,
        "n_missing": 1,
        "items_without_votes": 2,
        "annotators_without_votes": 0,
        "votes_per_item": {"min": 0, "mean": 1.0, "max": 3},
        "votes_per_annotator": {"min": 1, "median": 2.0, "max": 3},
        "repeated_votes": 1,
        "class_shares": {"x": 0.75, "y": 0.25},
        "pairwise_agreement": 0.0,
        # P = 0; shares on the one usable item are 2/3 and 1/3, so P_e = 5/9 and kappa = -5/4.
        "fleiss_kappa": pytest.approx(-1.25),
        # Coincidences: 3 votes over the pairs (x, y), (y, x): n = (1.5, 1.5); 1 - 2 * 3 / 4.5.
        "krippendorff_alpha": pytest.approx(-1 / 3),
    }
    assert votes.summary() == summary(votes)


@given(small_votes())
def test_summary_is_json_and_never_nan(votes):
    assert "NaN" not in json.dumps(summary(votes))


def test_summary_without_any_vote_or_item():
    empty = Annotations.from_arrays([], [], [], items=["p"], annotators=["a"], classes=["x", "y"])
    assert summary(empty)["krippendorff_alpha"] is None
    assert summary(empty[[]])["votes_per_item"] is None


@pytest.mark.slow
def test_a_million_votes_take_about_a_second():
    votes = simulate(n_items=200_000, n_annotators=2000, n_classes=10, votes_per_item=5).votes
    start = time.perf_counter()
    summary(votes)
    assert time.perf_counter() - start < 5
