"""Groups of annotators who share errors, beside the prototype that the equations come from and on crowds with known groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import MOST_MEETINGS, answers_of
from crowdwise.data.simulate import simulate
from crowdwise.engines import independence, readings
from crowdwise.engines.independence import Agreement, agreement_of
from crowdwise.kernels import numerics
from crowdwise.trust.crowd import fusion

SETS = [
    "adult", "bluebird", "cf", "cf_amt", "cifar10n", "convarg_pairs", "dog", "labelme", "ner_mturk", "possent", "product",
    "rte", "sentence_polarity", "sp_amt", "temp", "web", "wsd",
]  # fmt: skip


def columns(votes: Annotations) -> tuple[Any, ...]:
    codes = (np.asarray(x, np.int64) for x in (votes.item, votes.annotator, votes.label))
    return (*codes, votes.n_items, votes.n_annotators, votes.n_classes)


def single_answers(votes: Annotations) -> Annotations:
    """The first vote of every annotator on every item; the prototype knows no others."""
    same = (votes.item[1:] == votes.item[:-1]) & (votes.annotator[1:] == votes.annotator[:-1])
    return votes.take_votes(np.concatenate([[True], ~same]))


def assert_as_prototype(prototype: Any, votes: Annotations) -> None:
    """The prototype's readings are among ours, with the same figures; ours has one start more where two factions meet."""
    expected, found = prototype.detect(*columns(votes)), independence.find(votes)
    wanted = sorted((tuple(int(a) for a in members), *figures) for members, *figures in expected["groups"])
    assert bool(wanted) == bool(found)
    if not wanted:
        return
    roots = [frozenset(tuple(int(a) for a in group[0]) for group in root["groups"]) for root in expected["roots"]]
    ours = {reading.members: reading for reading in found.readings}
    preferred = frozenset(group[0] for group in wanted)
    assert {preferred, *roots} <= set(ours)
    if not any(group.below for reading in found.readings for group in reading.groups):
        assert found.readings[0].members == preferred
        assert {preferred, *roots} == set(ours)
    given = sorted((tuple(g.members.tolist()), g.ratio, g.excess, g.confirmed) for g in ours[preferred].groups)
    for (_, *figures), (_, *theirs) in zip(given, wanted, strict=True):
        np.testing.assert_allclose(figures, theirs, rtol=1e-8, atol=1e-8)
    for group in found.groups:
        share = np.isin(votes.annotator, group.members).mean()
        assert group.share == pytest.approx(share)
        assert 0 <= group.p_value < 0.01


# -- beside the prototype ----------------------------------------------------------------------


@pytest.fixture
def as_prototype(prototype: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The prototype knows no lowest skill and no confusion matrices."""
    monkeypatch.setattr(Agreement, "lowest", -1.0)
    monkeypatch.setattr(Agreement, "too_few", False)
    # Compiled loops start the second fit of skill where the first ended.
    monkeypatch.setattr(numerics, "COMPILED_FROM", 10**9)
    monkeypatch.setattr(readings, "explained_by_classes", lambda *_: False)
    return prototype


@pytest.mark.slow
def test_dependent_crowds_are_read_as_by_the_prototype(as_prototype: Any, crowds: Any) -> None:
    for drawn in crowds.DEPENDENT.values():
        assert_as_prototype(as_prototype, drawn(11).votes)


def test_independent_crowds_are_read_as_by_the_prototype(as_prototype: Any, crowds: Any) -> None:
    for drawn in crowds.INDEPENDENT.values():
        assert_as_prototype(as_prototype, drawn(12))
    assert_as_prototype(as_prototype, crowds.topics(13))


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_real_sets_are_read_as_by_the_prototype(as_prototype: Any, shared_data: Path, name: str) -> None:
    votes = single_answers(crowdwise.read(next((shared_data / name).glob("annotations.csv*"))))
    size = votes.votes_per_item
    assert (size * (size - 1)).sum() / 2 <= MOST_MEETINGS
    assert_as_prototype(as_prototype, votes)


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


def test_nobody_is_worse_than_never_right(crowds: Any) -> None:
    """Of three even classes, two who are never right agree in half of their answers; who agree more share errors."""
    drawn = crowds.colluders(9001, 18, 8, 1500)
    pairs = agreement_of(answers_of(drawn.votes))
    assert pairs.lowest == pytest.approx(-0.5, abs=0.02)
    found = independence.find(drawn.votes)
    (group,) = found.groups
    np.testing.assert_array_equal(np.sort(group.members), np.flatnonzero(drawn.code >= 0))


def test_two_classes_leave_any_skill() -> None:
    votes = simulate(n_items=100, n_annotators=5, n_classes=2, votes_per_item=3, random_state=0).votes
    assert agreement_of(answers_of(votes)).lowest == pytest.approx(-1, abs=0.05)


def test_a_family_of_judges_is_found_by_name(crowds: Any) -> None:
    drawn = crowds.judges(0, 3, 4)
    found = independence.find(drawn.votes)
    assert found
    (group,) = found.groups
    assert [str(name) for name in group.names(drawn.votes)] == ["0", "1", "2"]
    np.testing.assert_array_equal(found.readings[0].code, drawn.code)
    # Three who repeat one hidden answer with probability .95 agree on about .95^2 of what chance would leave open.
    assert 0.7 < group.excess < 1
    assert group.share == pytest.approx(3 / 7)


def test_where_a_faction_dominates_both_readings_are_kept(crowds: Any) -> None:
    found = independence.find(crowds.judges(0, 5, 2).votes)
    assert {frozenset({(0, 1, 2, 3, 4)}), frozenset({(5, 6)})} == {reading.members for reading in found.readings}


def test_independent_annotators_are_no_group(crowds: Any) -> None:
    fired = [name for name, drawn in crowds.INDEPENDENT.items() for seed in range(3) if independence.find(drawn(seed))]
    assert len(fired) <= 1, fired


def test_names_and_order_of_rows_do_not_matter(crowds: Any) -> None:
    drawn = crowds.judges(1, 3, 4)
    votes = drawn.votes
    rng = np.random.default_rng(0)
    order, names = rng.permutation(votes.n_votes), np.array(list("gfedcba"))
    shuffled = Annotations.from_arrays(
        votes.item[order], names[votes.annotator[order]], np.array(["x", "z", "y"])[votes.label[order]]
    )
    ours, theirs = independence.find(votes).groups[0], independence.find(shuffled).groups[0]
    assert sorted(theirs.names(shuffled)) == sorted(names[ours.members])
    assert theirs.ratio == pytest.approx(ours.ratio, rel=1e-9)


def test_repeated_and_weighted_votes_are_one_answer(crowds: Any) -> None:
    votes = crowds.judges(2, 3, 4, 200).votes
    plain = independence.find(votes).groups[0]
    doubled = independence.find(votes.concat(votes)).groups[0]
    np.testing.assert_array_equal(doubled.members, plain.members)
    assert doubled.ratio == pytest.approx(plain.ratio)


@pytest.mark.parametrize(
    "matrix",
    [[[0, 0, 0]], [[0, 1, 0]], [[0, None, None], [None, 1, None], [None, None, 0]], [[0], [1]], [[0, 0], [1, 1], [0, 0]]],
)
def test_tiny_crowds_show_nothing(matrix: list[list[Any]]) -> None:
    assert not independence.find(Annotations.from_matrix(matrix))


def test_no_votes_show_nothing() -> None:
    assert not independence.find(Annotations.from_arrays([], [], [], items=["a"], annotators=["x"], classes=["p", "q"]))


def test_unanimous_crowds_are_no_group() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(rng.integers(3, size=200)[:, None], 8, axis=1)
    assert not independence.find(Annotations.from_matrix(labels))


# -- bounded work ------------------------------------------------------------------------------


def test_a_sample_of_items_finds_the_same_group(crowds: Any) -> None:
    votes = crowds.judges(4, 3, 4, 3000).votes
    part = independence.find(votes, most_meetings=21 * 600)
    np.testing.assert_array_equal(part.groups[0].members, independence.find(votes).groups[0].members)
    again = independence.find(votes, most_meetings=21 * 600)
    assert part.groups[0].ratio == again.groups[0].ratio


def test_few_pairs_are_those_of_the_busiest(crowds: Any) -> None:
    drawn = crowds.judges(5, 3, 4)
    votes = drawn.votes
    # Three more who answer little; with 21 pairs allowed they are left out, and the family is still found.
    rng = np.random.default_rng(0)
    more = Annotations.from_arrays(rng.integers(600, size=30), np.repeat([7, 8, 9], 10), rng.integers(3, size=30))
    found = independence.find(votes.concat(more), most_pairs=21)
    assert [str(name) for name in found.groups[0].names(votes)] == ["0", "1", "2"]


@pytest.mark.parametrize("most", [1, 5, 40, 300, 10_000])
def test_pairs_of_the_busiest_are_those_that_a_count_of_all_pairs_leaves(most: int) -> None:
    votes = simulate(400, 60, 3, 3, random_state=1).votes
    answers = answers_of(votes)
    everybody, found = agreement_of(answers), agreement_of(answers, most)
    busy = np.argsort(-np.bincount(answers.annotator), kind="stable").tolist()
    kept: list[int] = []
    for n_busy in range(1, 61):
        both = np.isin(everybody.first, busy[:n_busy]) & np.isin(everybody.second, busy[:n_busy])
        if both.sum() > most:
            break
        kept = np.flatnonzero(both).tolist()
    np.testing.assert_array_equal(found.first, everybody.first[kept])
    np.testing.assert_array_equal(found.second, everybody.second[kept])
    np.testing.assert_array_equal(found.beyond, everybody.beyond[kept])


def test_a_large_crowd_is_not_counted_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = simulate(2000, 2000, 3, 3, random_state=1).votes
    counted: list[int] = []
    count = independence.agreements

    def watched(answers: Any) -> Any:
        met = count(answers)
        counted.append(len(met.first))
        return met

    monkeypatch.setattr(independence, "agreements", watched)
    agreement_of(answers_of(votes), 100)
    # There are about 6,000 pairs that met.
    assert 100 < sum(counted) < 1000


def test_meetings_are_enough_for_the_least_excess_of_one_pair() -> None:
    """Of seven, 42 ordered pairs at the level 0.01: z_0 = sqrt(2 log 4200) = 4.085, and 9 (z_0 + 3)^2 / 0.04 meetings each."""
    assert independence.enough_meetings(7, 0.01) == pytest.approx(21 * 9 * 7.085**2 / 0.04, rel=1e-3)


def test_those_who_met_too_rarely_are_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two even classes, four who always agree stand (1 - 1 / 2) sqrt(4) / (1 / 2) = 2 deviations above chance, not more."""
    votes = simulate(150, 400, 2, 8, "one-coin", random_state=0).votes
    pairs = agreement_of(answers_of(votes))
    assert pairs.n.max() <= 3
    monkeypatch.setattr(independence, "_rank_one", None)
    assert not independence.find(votes)


@pytest.mark.parametrize("x", [-9.0, -1.0, 0.0, 3.0, 29.9, 30.0, 100.0, 1e4])
def test_log_tail_beside_scipy(x: float) -> None:
    from scipy.special import log_ndtr

    assert readings._log_above(x) == pytest.approx(float(log_ndtr(-x)), rel=1e-9, abs=1e-12)


def test_votes_that_are_still_in_use_are_searched_once() -> None:
    votes = simulate(100, 8, 3, 5, random_state=0).votes
    assert independence.find(votes) is independence.find(votes)
    assert independence.find(votes) is not independence.find(votes, most_pairs=10)
