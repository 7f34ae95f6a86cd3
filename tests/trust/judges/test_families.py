"""Who belongs together, and votes as one each."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.trust.judges.families import Families, by_code, by_name, decided, one_vote_each


def votes_of(names: list[str]) -> Annotations:
    return Annotations.from_matrix(np.zeros((2, len(names)), int), annotators=names, classes=[0, 1])


def test_families_people_and_those_alone() -> None:
    votes = votes_of(["m1", "m2", "ann", "bob", "x", "y"])
    given = {"m1": "m", "m2": "m", "ann": "people", "bob": "people", "x": "alone in it", "ghost": "m"}
    found = Families.of(votes, given)
    assert found.person.tolist() == [False, False, True, True, False, False]
    assert found.n_voices == 5
    assert found.fused_code.tolist() == [0, 0, -1, -1, -1, -1]
    assert found.fused_names == ["m"]
    named = Families.of(votes, given, ["m1", "people"])
    assert named.person.tolist() == [True, False, True, True, False, False]
    assert named.fused_names == []


def test_families_by_name() -> None:
    names = ["mistral/strict/0.7", "mistral/plain", "ann", "模型 / 一"]
    assert by_name(names, "/") == {names[0]: "mistral", names[1]: "mistral", names[3]: "模型"}


def test_repeats_become_one_soft_vote() -> None:
    votes = Annotations.from_arrays(["q"] * 4 + ["r"], ["a", "a", "a", "b", "b"], ["x", "x", "y", "y", "x"])
    one = one_vote_each(votes)
    assert one.soft
    assert one.n_answers == 3
    np.testing.assert_allclose(sorted(one.weights), [1 / 3, 2 / 3, 1, 1])
    assert one_vote_each(one) is one
    plain = Annotations.from_arrays(["q", "r"], ["a", "a"], ["x", "y"])
    assert one_vote_each(plain) is plain
    twice = Annotations.from_arrays(["q", "q"], ["a", "a"], ["x", "x"])
    assert (one_vote_each(twice).n_votes, one_vote_each(twice).soft) == (1, False)


def test_votes_that_are_evenly_split_decide_nothing() -> None:
    votes = Annotations.from_probabilities(
        ["q", "q", "r"], ["a", "b", "a"], [[0.5, 0.5], [0.4, 0.6], [1, 0]], classes=["x", "y"]
    )
    hard = decided(votes)
    assert list(zip(hard.items[hard.item], hard.annotators[hard.annotator], hard.classes[hard.label], strict=True)) == [
        ("q", "b", "y"),
        ("r", "a", "x"),
    ]
    plain = votes_of(["a"])
    assert decided(plain) is plain


def test_families_of_a_code_are_numbered_and_fused_with_their_gold() -> None:
    votes = Annotations.from_arrays(["i", "i", "i"], ["a", "b", "c"], ["x", "x", "y"]).with_gold({"i": "y"})
    known = by_code(votes.annotators, np.array([0, 0, -1]))
    assert known == {"a": "family 1", "b": "family 1"}
    who = Families.of(votes, known, ["c"])
    assert who.people(votes) == ["c"]
    fused = who.fused(votes)
    assert fused.annotators.tolist() == ["c", "family 1"]
    assert fused.gold_labels() == votes.gold_labels()
    assert Families.of(votes, {}).fused(votes) is votes
