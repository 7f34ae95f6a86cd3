"""Who belongs together, and votes as one each."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.trust.crowd.fusion import fused
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
    assert by_name(names, "/") == {names[0]: ("mistral",), names[1]: ("mistral",), names[3]: ("模型",)}
    # The last part of a name is the judge's own.
    assert by_name(names, "/", levels=2) == {names[0]: ("mistral", "strict"), names[1]: ("mistral",), names[3]: ("模型",)}


def test_groups_within_families() -> None:
    votes = votes_of(["a1", "a2", "b1", "c1", "c2", "x", "ann", "d1", "d2"])
    given = {"a1": ("f", "a"), "a2": ("f", "a"), "b1": ("f", "b"), "c1": ("", "c"), "c2": ("", "c"), "x": ("f",)}
    given |= {"ann": ("people", "a"), "d1": ("g", "a"), "d2": ("g", "a")}
    found = Families.of(votes, given)
    assert found.name == ["f", "f", "f", "c", "c", "f", "people", "g", "g"]
    assert found.code.tolist() == [0, 0, 0, 1, 1, 0, 2, 3, 3]
    # Those without a model stand alone in their family, and a model of one name in two families is two.
    assert [code.tolist() for code in found.inner] == [[0, 0, 1, 2, 3, 4, 5, 6, 6]]
    assert found.inner_name == (["a", "a", "b", "", "", "", "a", "a", "a"],)
    assert found.person.tolist() == [False] * 6 + [True] + [False] * 2
    assert found.fused_names == ["f", "c", "g"]


def test_models_are_made_one_before_families() -> None:
    """By two steps by hand: the votes of a model as one, then those of the family."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=60)
    names = ["a1", "a2", "a3", "b1", "z"]
    columns = [np.where(rng.random(60) < 0.8, truth, 1 - truth) for _ in names]
    votes = Annotations.from_matrix(np.column_stack(columns), annotators=names)
    model = fused(votes, np.array([0, 0, 0, -1, -1]), ["a"])
    assert model.annotators.tolist() == ["b1", "z", "a"]
    wanted = fused(model, np.array([0, -1, 0]), ["f"])
    given = dict.fromkeys(names[:3], ("f", "a")) | {"b1": ("f", "b")}
    found = Families.of(votes, given).fused(votes)
    assert found.annotators.tolist() == wanted.annotators.tolist() == ["z", "f"]
    np.testing.assert_array_equal(found.label, wanted.label)
    np.testing.assert_array_equal(found.weights, wanted.weights)
    # A model that is the whole family is made one once.
    once, twice = (Families.of(votes, dict.fromkeys(names[:3], path)).fused(votes) for path in ("f", ("f", "a")))
    np.testing.assert_array_equal(once.weights, twice.weights)


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
    together = who.fused(votes)
    assert together.annotators.tolist() == ["c", "family 1"]
    assert together.gold_labels() == votes.gold_labels()
    assert Families.of(votes, {}).fused(votes) is votes
