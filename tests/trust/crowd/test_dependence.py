"""Groups of annotators who share errors, beside the prototype that the equations come from and on crowds with known groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd import dependence, fusion

# Few and many annotators, classes and votes per item.
SETS = ["adult", "bluebird", "cf", "cifar10n", "dog", "labelme", "possent", "temp", "web", "wsd"]


def columns(votes: Annotations) -> tuple[Any, ...]:
    codes = (np.asarray(x, np.int64) for x in (votes.item, votes.annotator, votes.label))
    return (*codes, votes.n_items, votes.n_annotators, votes.n_classes)


def single_answers(votes: Annotations) -> Annotations:
    """The first vote of every annotator on every item; the prototype knows no others."""
    same = (votes.item[1:] == votes.item[:-1]) & (votes.annotator[1:] == votes.annotator[:-1])
    return votes.take_votes(np.concatenate([[True], ~same]))


def assert_as_prototype(prototype: Any, votes: Annotations) -> None:
    expected, found = prototype.detect(*columns(votes)), dependence.find(votes)
    wanted = sorted((tuple(int(a) for a in members), *figures) for members, *figures in expected["groups"])
    given = sorted((tuple(g.members.tolist()), g.ratio, g.excess, g.confirmed) for g in found.groups)
    assert [group[0] for group in given] == [group[0] for group in wanted]
    for (_, *ours), (_, *theirs) in zip(given, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
    roots = [frozenset(tuple(int(a) for a in group[0]) for group in root["groups"]) for root in expected["roots"]]
    # The prototype also keeps the preferred reading where two starts ended in it.
    preferred = frozenset(group[0] for group in wanted)
    assert [reading.members for reading in found.readings[1:]] == [root for root in roots if root != preferred]
    for group in found.groups:
        share = np.isin(votes.annotator, group.members).mean()
        assert group.share == pytest.approx(share)
        assert 0 <= group.p_value < 0.01


# -- beside the prototype ----------------------------------------------------------------------


@pytest.mark.slow
def test_dependent_crowds_are_read_as_by_the_prototype(prototype: Any, crowds: Any) -> None:
    for drawn in crowds.DEPENDENT.values():
        assert_as_prototype(prototype, drawn(11).votes)


def test_independent_crowds_are_read_as_by_the_prototype(prototype: Any, crowds: Any) -> None:
    for drawn in crowds.INDEPENDENT.values():
        assert_as_prototype(prototype, drawn(12))
    assert_as_prototype(prototype, crowds.topics(13))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_real_sets_are_read_as_by_the_prototype(prototype: Any, shared_data: Path, name: str) -> None:
    votes = single_answers(crowdwise.read(next((shared_data / name).glob("annotations.csv*"))))
    size = votes.votes_per_item
    assert (size * (size - 1)).sum() / 2 <= dependence.MOST_MEETINGS
    assert_as_prototype(prototype, votes)


def test_fused_votes_are_those_of_the_prototype(prototype: Any, crowds: Any) -> None:
    for drawn in (crowds.judges(3, 3, 4), crowds.teams(3, 8, 400), crowds.copying_pairs(3)):
        votes = drawn.votes
        found = prototype.detect(*columns(votes))
        assert found["groups"]
        code = found["code"]
        item, who, label, weight, _ = prototype.fuse_votes(*columns(votes), found)
        ours = fusion.fused(votes, code)
        kept = np.append(code < 0, np.ones(len(found["groups"]), bool))
        shape = (votes.n_items, int(kept.sum()), votes.n_classes)
        expected, given = np.zeros(shape), np.zeros(shape)
        np.add.at(expected, (item, (np.cumsum(kept) - 1)[who], label), weight)
        np.add.at(given, (ours.item, ours.annotator, ours.label), ours.weight)
        np.testing.assert_allclose(given, expected, atol=1e-8)
        lam = fusion.fidelity(votes, code)
        np.testing.assert_allclose(lam[code >= 0], found["lam"][code >= 0], atol=1e-8)
        # The message: the likelihood of the group's hidden answer, before any prior.
        _, _, _, (at, group, message), _ = prototype.fuse_votes(*columns(votes), found, mode="message")
        said = fusion.messages(votes, code, lam)
        np.testing.assert_array_equal(said.item, at)
        np.testing.assert_array_equal(said.group + votes.n_annotators, group)
        shifted = said.log_p - said.log_p.max(axis=1, keepdims=True)
        np.testing.assert_allclose(np.exp(shifted), message, atol=1e-8)


# -- on known groups ---------------------------------------------------------------------------


def test_a_family_of_judges_is_found_by_name(crowds: Any) -> None:
    drawn = crowds.judges(0, 3, 4)
    found = dependence.find(drawn.votes)
    assert found
    (group,) = found.groups
    assert [str(name) for name in group.names(drawn.votes)] == ["0", "1", "2"]
    np.testing.assert_array_equal(found.readings[0].code, drawn.code)
    # Three who repeat one hidden answer with probability .95 agree on about .95^2 of what chance would leave open.
    assert 0.7 < group.excess < 1
    assert group.share == pytest.approx(3 / 7)


def test_where_a_faction_dominates_both_readings_are_kept(crowds: Any) -> None:
    found = dependence.find(crowds.judges(0, 5, 2).votes)
    assert {frozenset({(0, 1, 2, 3, 4)}), frozenset({(5, 6)})} == {reading.members for reading in found.readings}


def test_independent_annotators_are_no_group(crowds: Any) -> None:
    fired = [name for name, drawn in crowds.INDEPENDENT.items() for seed in range(3) if dependence.find(drawn(seed))]
    assert len(fired) <= 1, fired


def test_names_and_order_of_rows_do_not_matter(crowds: Any) -> None:
    drawn = crowds.judges(1, 3, 4)
    votes = drawn.votes
    rng = np.random.default_rng(0)
    order, names = rng.permutation(votes.n_votes), np.array(list("gfedcba"))
    shuffled = Annotations.from_arrays(
        votes.item[order], names[votes.annotator[order]], np.array(["x", "z", "y"])[votes.label[order]]
    )
    ours, theirs = dependence.find(votes).groups[0], dependence.find(shuffled).groups[0]
    assert sorted(theirs.names(shuffled)) == sorted(names[ours.members])
    assert theirs.ratio == pytest.approx(ours.ratio, rel=1e-9)


def test_repeated_and_weighted_votes_are_one_answer(crowds: Any) -> None:
    votes = crowds.judges(2, 3, 4, 200).votes
    plain = dependence.find(votes).groups[0]
    doubled = dependence.find(votes.concat(votes)).groups[0]
    np.testing.assert_array_equal(doubled.members, plain.members)
    assert doubled.ratio == pytest.approx(plain.ratio)


@pytest.mark.parametrize(
    "matrix",
    [[[0, 0, 0]], [[0, 1, 0]], [[0, None, None], [None, 1, None], [None, None, 0]], [[0], [1]], [[0, 0], [1, 1], [0, 0]]],
)
def test_tiny_crowds_show_nothing(matrix: list[list[Any]]) -> None:
    assert not dependence.find(Annotations.from_matrix(matrix))


def test_no_votes_show_nothing() -> None:
    assert not dependence.find(Annotations.from_arrays([], [], [], items=["a"], annotators=["x"], classes=["p", "q"]))


def test_unanimous_crowds_are_no_group() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(3, size=200)[:, None], 8, axis=1)
    assert not dependence.find(Annotations.from_matrix(labels))


# -- bounded work ------------------------------------------------------------------------------


def test_a_sample_of_items_finds_the_same_group(crowds: Any) -> None:
    votes = crowds.judges(4, 3, 4, 3000).votes
    part = dependence.find(votes, most_meetings=21 * 600)
    np.testing.assert_array_equal(part.groups[0].members, dependence.find(votes).groups[0].members)
    again = dependence.find(votes, most_meetings=21 * 600)
    assert part.groups[0].ratio == again.groups[0].ratio


def test_few_pairs_are_those_of_the_busiest(crowds: Any) -> None:
    drawn = crowds.judges(5, 3, 4)
    votes = drawn.votes
    # Three more who answer little; with 21 pairs allowed they are left out, and the family is still found.
    rng = np.random.default_rng(0)
    more = Annotations.from_arrays(rng.integers(600, size=30), np.repeat([7, 8, 9], 10), rng.integers(3, size=30))
    found = dependence.find(votes.concat(more), most_pairs=21)
    assert [str(name) for name in found.groups[0].names(votes)] == ["0", "1", "2"]


@pytest.mark.parametrize("x", [-9.0, -1.0, 0.0, 3.0, 29.9, 30.0, 100.0, 1e4])
def test_log_tail_beside_scipy(x: float) -> None:
    from scipy.special import log_ndtr

    assert dependence._log_above(x) == pytest.approx(float(log_ndtr(-x)), rel=1e-9, abs=1e-12)


def test_votes_that_are_still_in_use_are_searched_once() -> None:
    votes = simulate(100, 8, 3, 5, random_state=0).votes
    assert dependence.find(votes) is dependence.find(votes)
    assert dependence.find(votes) is not dependence.find(votes, most_pairs=10)
