from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from crowdwise.data import meetings
from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import agreements, answers_of, pair_sums, sampled
from crowdwise.data.simulate import simulate


def same(answers):
    return lambda i, j: np.einsum("pl,pl->p", answers.share_cl[i], answers.share_cl[j])[:, None]


@pytest.mark.parametrize("dense", [0, 2**21])
def test_pairs_are_counted_as_by_a_loop(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(meetings, "_DENSE", dense)
    votes = simulate(50, 9, 3, 4, random_state=0).votes
    answers = answers_of(votes)
    pairs = pair_sums(answers, same(answers), 1)
    counted = agreements(answers)
    for ours, theirs in zip(vars(counted).values(), vars(pairs).values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    met: dict[tuple[int, int], list[float]] = {}
    for n in range(50):
        part = slice(votes.item_ptr[n], votes.item_ptr[n + 1])
        for (a, y), (b, z) in combinations(zip(votes.annotator[part].tolist(), votes.label[part].tolist(), strict=True), 2):
            total = met.setdefault((a, b), [0, 0])
            total[0] += 1
            total[1] += y == z
    assert list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == sorted(met)
    np.testing.assert_array_equal(np.column_stack([pairs.n_items, pairs.sums[:, 0]]), [met[pair] for pair in sorted(met)])


@pytest.mark.parametrize("dense", [0, 2**21])
def test_compiled_loops_count_the_same_pairs(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(meetings, "_DENSE", dense)
    answers = answers_of(simulate(80, 12, 3, (1, 6), random_state=3).votes)
    plain, compiled = agreements(answers), agreements(replace(answers, compiled=True))
    for ours, theirs in zip(vars(compiled).values(), vars(plain).values(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dense", [0, 2**21])
def test_nobody_who_met_is_no_pair(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(meetings, "_DENSE", dense)
    assert len(agreements(answers_of(Annotations.from_arrays([0, 1], ["x", "y"], [0, 1]))).first) == 0


def test_repeated_votes_agree_in_shares() -> None:
    votes = Annotations.from_arrays([0, 0, 0], ["x", "x", "y"], [0, 1, 1])
    np.testing.assert_array_equal(agreements(answers_of(votes)).sums, [[0.5]])


def test_a_sample_has_whole_items_and_no_more_pairs_than_allowed() -> None:
    votes = simulate(200, 20, 3, (2, 9), random_state=1).votes
    answers, part = answers_of(votes), sampled(votes, 500)
    size, whole = np.bincount(part.item, minlength=200), np.bincount(answers.item, minlength=200)
    assert 400 < (size * (size - 1)).sum() / 2 <= 500
    np.testing.assert_array_equal(size[size > 0], whole[size > 0])
    np.testing.assert_array_equal(part.item, sampled(votes, 500).item)
    np.testing.assert_array_equal(sampled(votes, 10**6).item, answers.item)


def test_one_large_item_does_not_take_all() -> None:
    item = np.concatenate([np.zeros(100, int), np.repeat(np.arange(1, 41), 3)])
    who = np.concatenate([np.arange(100), np.tile([0, 1, 2], 40)])
    part = sampled(Annotations.from_arrays(item, who, who % 2), 200)
    size = np.bincount(part.item)
    assert size[0] <= 14
    assert (size[1:] == 3).sum() >= 30


def test_answers_of_annotators_keep_their_order() -> None:
    answers = answers_of(simulate(30, 6, 3, 4, random_state=2).votes)
    part = answers.by(np.array([4, 1]))
    kept = np.isin(answers.annotator, [1, 4])
    np.testing.assert_array_equal(part.item, answers.item[kept])
    np.testing.assert_array_equal(part.annotator, answers.annotator[kept])
