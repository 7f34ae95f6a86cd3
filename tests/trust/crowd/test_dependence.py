"""Which reading of the votes is right: known labels and trusted annotators choose."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import make
from crowdwise.trust.crowd.cautious import refitted
from crowdwise.trust.crowd.dependence import Dependence, Reading, colluding, disputed, find, rooted, settled
from crowdwise.trust.crowd.pruning import refit_fused


def test_known_labels_choose_between_the_readings() -> None:
    votes, truth = judges()
    result = make("dawid-skene").fit(votes).result_
    found = find(votes)
    assert len(found.readings) > 1
    gold = np.where(np.arange(votes.n_items) < 60, truth, -1)
    known = replace(votes, gold=gold.astype(np.int16))
    chosen = settled(make("dawid-skene").fit(known).result_, found)
    assert [group.names(votes) for group in chosen.groups] == [["judge-0", "judge-1", "judge-2"]]
    assert len(chosen.readings) == 1
    # Where nothing is known, nothing is decided.
    assert settled(result, found).readings == found.readings


def test_known_labels_on_which_the_readings_agree_choose_nothing() -> None:
    votes, truth = judges()
    first, second = (refit_fused(make("dawid-skene").fit(votes).result_, reading).codes for reading in find(votes).readings)
    agreed = np.flatnonzero((first == second) & (first == truth))[:20]
    gold = np.full(votes.n_items, -1, np.int16)
    gold[agreed] = truth[agreed]
    result = make("dawid-skene").fit(replace(votes, gold=gold)).result_
    standing = [reading.members for reading in find(votes).readings]
    for chosen in (settled(result, find(result.votes)), rooted(result)):
        assert [reading.members for reading in chosen.readings] == standing


def test_a_reading_without_groups_that_is_left_alone_is_no_finding() -> None:
    votes, _ = judges()
    result, reading = make("dawid-skene").fit(votes).result_, find(votes).readings[0]
    found = Dependence((reading, Reading((), np.full(votes.n_annotators, -1))))
    assert not settled(result, found, [reading.groups[0].names(votes)[0]])


def judges() -> tuple[Annotations, np.ndarray]:
    """Three judges who share errors, four who do not; two classes."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=600)

    def seen(right: float, what: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(what)) < right, what, 1 - what)

    shared = seen(0.75, truth)
    columns = [seen(0.97, shared) for _ in range(3)] + [seen(0.85, truth) for _ in range(4)]
    names = [f"judge-{j}" for j in range(7)]
    return Annotations.from_matrix(np.column_stack(columns), annotators=names), truth


def test_a_trusted_annotator_chooses_between_the_readings() -> None:
    votes, truth = judges()
    found, result = find(votes), make("dawid-skene").fit(votes).result_
    assert len(found.readings) == 2
    (family,), (others,) = (reading.groups for reading in found.readings)
    for group, left in ((others, family), (family, others)):
        chosen = settled(result, found, [group.names(votes)[0]])
        assert [one.names(votes) for one in chosen.groups] == [left.names(votes)]
    # Somebody of each side cannot both be right: then both readings stay.
    both = [family.names(votes)[0], others.names(votes)[0]]
    assert settled(result, found, both).readings == found.readings
    # To change labels by them would be worse still: somebody who chooses nothing does not choose by votes either.
    assert rooted(result, both).readings == found.readings
    gold = np.where(np.arange(votes.n_items) < 60, truth, -1).astype(np.int16)
    checked = make("dawid-skene").fit(replace(votes, gold=gold)).result_
    for chosen in (settled(checked, find(checked.votes), both), rooted(checked, both)):
        assert [reading.members for reading in chosen.readings] == [found.readings[0].members]
    with pytest.raises(SettingError, match="no annotator is called 'nobody'"):
        settled(result, found, ["nobody"])


def factions(seed: int = 0) -> tuple[Annotations, np.ndarray]:
    """Six of eleven share one hidden answer that is right half of the time; five people are right in 0.7; two classes."""
    rng = np.random.default_rng(seed)
    truth, seen = rng.integers(2, size=(2, 400))
    columns = [np.where(rng.random(400) < 0.95, seen, 1 - seen) for _ in range(6)]
    columns += [np.where(rng.random(400) < 0.7, truth, 1 - truth) for _ in range(5)]
    return Annotations.from_matrix(np.column_stack(columns), annotators=list("abcdefvwxyz")), truth


def test_a_faction_with_most_votes_is_found_by_what_is_known() -> None:
    votes, truth = factions()
    gold = np.where(np.arange(400) < 20, truth, -1).astype(np.int16)
    checked = make("dawid-skene").fit(replace(votes, gold=gold)).result_
    assert (checked.codes == truth).mean() < 0.65
    plain = make("dawid-skene").fit(votes).result_
    for result, trusted in ((checked, []), (plain, ["w"])):
        found = rooted(result, trusted)
        assert [group.names(votes) for group in found.groups] == [list("abcdef")]
        assert (refit_fused(result, found.readings[0]).codes == truth).mean() > (plain.codes == truth).mean() + 0.1
    # Nothing known: what the votes show by themselves.
    assert rooted(plain) is find(votes)


def test_the_items_to_check_are_those_in_which_the_readings_differ() -> None:
    votes, truth = judges()
    result = make("dawid-skene").fit(votes).result_
    found = find(votes, thorough=True)
    labels = np.array([refitted(result, votes, reading).result_.codes for reading in found.readings])
    assert len(labels) > 1
    items = disputed(result)
    assert sorted(items) == np.flatnonzero((labels != labels[0]).any(axis=0)).tolist()
    # In random order, and the same one again; with another seed another one.
    assert items.tolist() == disputed(result).tolist() != sorted(items)
    assert items.tolist() != disputed(result, seed=1).tolist()
    # What somebody who is trusted has decided needs no labels.
    assert len(disputed(result, ["judge-3"])) == 0
    # One label that is known decides nothing: the others are to be checked next, in the same order.
    gold = np.full(votes.n_items, -1, np.int16)
    gold[items[0]] = truth[items[0]]
    assert disputed(make("dawid-skene").fit(replace(votes, gold=gold)).result_).tolist() == items[1:].tolist()


@pytest.mark.parametrize("seed", range(3))
def test_twelve_labels_that_are_asked_for_choose_where_twelve_others_do_not(seed: int) -> None:
    votes, truth = judges()
    asked = disputed(make("dawid-skene").fit(votes).result_, seed=seed)
    evenly = np.random.default_rng(seed).permutation(votes.n_items)
    for items, left in ((asked, 1), (evenly, 2)):
        gold = np.full(votes.n_items, -1, np.int16)
        gold[items[:12]] = truth[items[:12]]
        found = rooted(make("dawid-skene").fit(replace(votes, gold=gold)).result_)
        assert found.groups[0].names(votes) == ["judge-0", "judge-1", "judge-2"]
        assert len(found.readings) == left


def test_nothing_is_asked_where_independent_annotators_explain_the_votes(crowds: Any) -> None:
    votes = next(iter(crowds.INDEPENDENT.values()))(3)
    assert len(disputed(make("dawid-skene").fit(votes).result_)) == 0


def test_of_two_factions_that_look_equally_skilled_either_may_be_the_group() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=600)
    seen = np.where(rng.random(600) < 0.5, truth, rng.integers(3, size=600))
    item, who = np.repeat(np.arange(600), 5), np.concatenate([rng.choice(20, 5, replace=False) for _ in range(600)])
    family = np.where(rng.random(3000) < 0.95, seen[item], rng.integers(3, size=3000))
    people = np.where(rng.random(3000) < 0.9, truth[item], rng.integers(3, size=3000))
    label = np.where(who < 9, family, people)
    votes = Annotations.from_codes(item, who, label, np.arange(600), np.arange(20), np.arange(3), None, None)
    # The nine have as much skill by their agreement as the others, so that votes alone show nothing.
    assert not find(votes)
    assert frozenset({tuple(range(9))}) in [reading.members for reading in find(votes, thorough=True).readings]
    plain = make("dawid-skene").fit(votes).result_
    items = disputed(plain)[:20]
    gold = np.full(600, -1, np.int16)
    gold[items] = truth[items]
    known = make("dawid-skene").fit(replace(votes, gold=gold)).result_
    labels = refit_fused(known, rooted(known).readings[0]).codes
    assert (labels == truth).mean() > (plain.codes == truth).mean() + 0.05


def test_known_labels_invent_no_groups_among_independent_annotators(crowds: Any) -> None:
    for name, drawn in list(crowds.INDEPENDENT.items())[:5]:
        votes = drawn(3)
        labels = make("majority").fit(votes).result_.codes
        gold = np.where(np.arange(votes.n_items) < 20, labels, -1).astype(np.int16)
        assert not rooted(make("dawid-skene").fit(replace(votes, gold=gold)).result_), name


def test_a_thorough_search_keeps_the_readings_that_stand(crowds: Any) -> None:
    for votes in (crowds.judges(0, 5, 2).votes, crowds.colluders(0, 18, n_items=200).votes):
        standing, more = find(votes).readings, find(votes, thorough=True).readings
        assert [reading.members for reading in more[: len(standing)]] == [reading.members for reading in standing]


def with_a_key(seed: int, right: float, n_items: int = 150) -> Annotations:
    """Five of sixteen answer from one key, `right` in so many of three classes; the others are right in half to four fifths."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)

    def answer(right: float) -> np.ndarray:
        return np.where(rng.random(n_items) < right, truth, (truth + rng.integers(1, 3, size=n_items)) % 3)

    key = answer(right)
    return Annotations.from_matrix(np.column_stack([key] * 5 + [answer(right) for right in np.linspace(0.5, 0.8, 11)]))


def test_a_key_drawn_at_random_is_a_colluders_and_a_familys_is_not() -> None:
    """Half of all random keys agree with the others a little more than chance, in these very votes."""
    groups = [next(g for g in find(with_a_key(seed, 1 / 3)).groups if 0 in g.members) for seed in range(20)]
    outside = np.array([group.outside for group in groups])
    assert 5 <= (outside > 0).sum() <= 15
    assert sum(group.against for group in groups) >= 17
    # The standard deviation is what the draws scatter by.
    assert np.mean([group.outside_sd for group in groups]) == pytest.approx(outside.std(), rel=0.4)
    families = [next(g for g in find(with_a_key(seed, 0.6)).groups if 0 in g.members) for seed in range(10)]
    assert not any(group.against for group in families)
    # With few items chance leaves room for much, and a tenth of what is possible is none of it.
    few = next(group for group in find(with_a_key(0, 0.6, 40)).groups if 0 in group.members)
    assert not few.against


def test_only_a_minority_against_the_others_colludes(crowds: Any) -> None:
    votes = crowds.colluders(0, 18, n_items=300).votes
    found = find(votes)
    assert len(found.readings) == 2
    # Either faction may be the colluders; one honest annotator settles it.
    assert colluding(votes, found) == []
    assert colluding(votes, settled(make("majority").fit(votes).result_, found, [30])) == list(range(18))
    # Most of the crowd is never named: here the colluders are.
    many = crowds.colluders(0, 36, n_items=300).votes
    assert colluding(many, settled(make("majority").fit(many).result_, find(many), [50])) == []
    family = crowds.judges(0, 3, 4).votes
    assert not any(group.against for group in find(family).groups)
