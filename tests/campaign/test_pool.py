"""Who may be asked about what, and votes that know of new items and annotators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.campaign.conftest import no_votes

from crowdwise.campaign.pool import Pool, extended
from crowdwise.campaign.tables import beside_asked, read_pool
from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError


def votes() -> Annotations:
    return Annotations.from_arrays(["p", "p", "q"], ["x", "y", "x"], ["cat", "dog", "cat"]).with_gold({"q": "cat"})


def test_by_default_everybody_may_be_asked_about_everything() -> None:
    pool = Pool.of(votes())
    assert pool.items.tolist() == [0, 1]
    assert (pool.capacity > 10**9).all()
    assert pool.cost.tolist() == [1, 1]


def test_who_has_no_capacity_is_left_out() -> None:
    pool = Pool.of(votes(), capacity={"y": 3}, cost={"y": 2.5})
    assert pool.capacity.tolist() == [0, 3]
    assert pool.cost.tolist() == [1, 2.5]
    assert pool.after(np.array([1, 1])).capacity.tolist() == [0, 1]
    assert pool.after(np.array([0, 1, 1, 1, 1])).capacity.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": -1}, "0 or more"),
        ({"capacity": 1.5}, "whole numbers"),
        ({"capacity": "many"}, "annotator -> number"),
        ({"cost": 0}, "above 0"),
        ({"cost": float("nan")}, "above 0"),
        ({"cost": {"x": float("inf")}}, "above 0"),
        ({"per_item": 0}, "per_item must be a whole number, at least 1"),
        ({"least": 1.5}, "least must be a whole number"),
        ({"most": True}, "most must be a whole number"),
        ({"least": 3, "most": 2}, r"most \(2\) is below least \(3\)"),
    ],
)
def test_wrong_limits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Pool.of(votes(), **options)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="no item 'r'"):
        Pool.of(votes(), items=["r"])
    with pytest.raises(InputError, match="unknown annotators, such as 'z'"):
        Pool.of(votes(), capacity={"z": 1})


def test_endless_capacity_is_as_good_as_none_given() -> None:
    assert Pool.of(votes(), capacity={"x": float("inf")}).capacity.tolist() == [2**40, 0]


def test_allowed_pairs_are_kept_by_item_and_strangers_are_left_out() -> None:
    allowed = Annotations.from_arrays(["q", "p", "q", "r", "q"], ["y", "y", "x", "x", "z"], ["cat"] * 5)
    pool = Pool.of(votes(), allowed=allowed)
    assert pool.allowed is not None
    pointer, who = pool.allowed
    assert pointer.tolist() == [0, 1, 3]
    assert who.tolist() == [1, 0, 1]


def test_new_items_and_annotators_come_last_and_votes_and_gold_stay() -> None:
    before = votes()
    after = extended(before, ["r", "p", "r", "o"], ["z", "x"])
    assert after.items.tolist() == ["p", "q", "r", "o"]
    assert after.annotators.tolist() == ["x", "y", "z"]
    assert after.votes_per_item.tolist() == [2, 1, 0, 0]
    assert after.votes_per_annotator.tolist() == [2, 1, 0]
    assert after.gold is not None
    assert after.gold.tolist() == [-1, 0, -1, -1]
    assert after.to_frame().equals(before.to_frame())


def test_nothing_new_leaves_the_votes_as_they_are() -> None:
    before = votes()
    assert extended(before, ["q"], ["x"]) is before


def test_ids_of_another_kind_are_found_by_their_text_or_refused() -> None:
    numbered = Annotations.from_arrays([1, 2], ["x", "y"], ["cat", "dog"])
    assert extended(numbered, ["2", 1]) is numbered
    assert extended(numbered, [7]).items.tolist() == [1, 2, 7]
    with pytest.raises(InputError, match="item 'a' is str, but those of the votes are int"):
        extended(numbered, ["a"])


def test_a_campaign_without_votes_can_be_extended() -> None:
    empty = Annotations.from_arrays([], [], [], items=[], annotators=[], classes=["cat", "dog"])
    assert extended(empty, [3, 1], ["x"]).items.tolist() == [3, 1]
    assert no_votes(2, 3).n_annotators == 3


def test_tables_name_further_items_and_annotators_and_set_limits(tmp_path: Path) -> None:
    votes, pool, capacity = no_votes(2, 1), tmp_path / "pool.csv", tmp_path / "capacity.csv"
    pool.write_text("item\ni1\nnew\n")
    capacity.write_text("annotator,capacity,cost\na0,3,0.5\neve,2,1\n")
    known, limits = read_pool(votes, pool, capacity, None)
    assert known.items.tolist() == [*votes.items.tolist(), "new"]
    named = limits.pop("items")
    assert named is not None
    assert list(named) == ["i1", "new"]
    assert limits == {"capacity": {"a0": 3, "eve": 2}, "cost": {"a0": 0.5, "eve": 1}}
    assert read_pool(votes, None, None, None) == (votes, {"items": None, "capacity": None, "cost": 1.0})
    everybody = Pool.of(known)
    assert beside_asked(everybody, known, None) is everybody
