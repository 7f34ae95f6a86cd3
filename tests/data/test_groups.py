from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError
from crowdwise.trust.fairness import Groups, groups_of, read_groups

VOTES = Annotations.from_arrays(["a", "b", "b", "ç"], ["x", "x", "y", "x"], [1, 0, 1, 1])


@pytest.mark.parametrize(
    "given",
    [
        {"a": "old", "b": "young", "ç": "old"},
        {"ç": "old", "a": "old", "b": "young", "elsewhere": "other"},
        pl.DataFrame({"item": ["b", "a", "ç", "b"], "group": ["young", "old", "old", "young"]}),
        {"item": ["a", "b", "ç"], "protected": ["old", "young", "old"]},
        pd.Series(["old", "young", "old"], index=["a", "b", "ç"]),
        ["old", "young", "old"],
        np.array(["old", "young", "old"]),
    ],
)
def test_groups_of_every_usual_shape_are_the_same(given: Any) -> None:
    found = groups_of(VOTES, given)
    assert found.names.tolist() == ["old", "young"]
    assert found.codes.tolist() == [0, 1, 0]
    assert found.sizes.tolist() == [2, 1]
    assert groups_of(VOTES, found) is found


def test_an_item_without_a_group_is_named() -> None:
    with pytest.raises(InputError, match="no group for 1 of 3 items, such as 'ç'"):
        groups_of(VOTES, {"a": 1, "b": 2})
    with pytest.raises(InputError, match="item 'b' has no group"):
        groups_of(VOTES, {"a": "x", "b": None, "ç": "x"})
    with pytest.raises(InputError, match="2 groups for 3 items"):
        groups_of(VOTES, ["x", "y"])
    with pytest.raises(InputError, match="must be a mapping"):
        groups_of(VOTES, 3)
    with pytest.raises(InputError, match="from the same"):
        groups_of(VOTES, Groups(np.array([0]), np.array(["x"])))


def test_two_groups_of_one_item_are_an_error_that_names_both_rows(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("item,annotator,label,sex\na,x,1,m\nb,x,0,f\nb,y,1,m\nç,x,1,f\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"votes.csv row 4: item 'b' is in group 'm', and in 'f' at .*votes.csv row 3"):
        read_groups(path, VOTES, group="sex")


def test_the_column_of_a_votes_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("task,annotator,label,sex\n7,x,1,0\n8,x,0,1\n8,y,1,1\n", encoding="utf-8")
    found = read_groups(path, crowdwise.read(path), group="sex")
    assert (found.names.tolist(), found.codes.tolist()) == ([0, 1], [0, 1])
    with pytest.raises(InputError, match="no column 'sexe'"):
        read_groups(path, crowdwise.read(path), group="sexe")


def test_a_bootstrap_sample_that_repeats_items_keeps_their_groups() -> None:
    sample = VOTES[np.array([1, 1, 0])]
    assert groups_of(sample, {"a": "old", "b": "young"}).codes.tolist() == [1, 1, 0]


def test_groups_travel_with_the_votes() -> None:
    votes = VOTES.with_groups({"a": "old", "b": "young", "ç": "old"}).with_gold({"a": 1})
    assert votes.groups is not None
    assert votes.select(items=["b", "ç"]).groups.codes.tolist() == [1, 0]
    assert votes.drop(annotators=["x"]).groups.codes.tolist() == [0, 1, 0]
    assert votes.with_classes([1, 0]).groups is votes.groups
    assert votes.deduplicate().groups is votes.groups
    assert votes[np.array([1, 1, 0])].groups.codes.tolist() == [1, 1, 0]
    assert [part.groups.sizes.sum() for part in votes.split(0.4, by="item")] == [2, 1]
    assert votes.with_groups(None).groups is None
    assert votes.with_gold({"b": 0}).groups is votes.groups


def test_groups_are_joined_with_the_votes() -> None:
    votes = VOTES.with_groups({"a": "old", "b": "young", "ç": "old"})
    more = Annotations.from_arrays(["b", "d"], ["z", "z"], [0, 1])
    joined = votes.concat(more.with_groups({"b": "young", "d": "child"}))
    assert joined.groups.names.tolist() == ["child", "old", "young"]
    assert joined.items.tolist() == ["a", "b", "d", "ç"]
    assert joined.groups.names[joined.groups.codes].tolist() == ["old", "young", "child", "old"]
    assert votes.concat(more.select(items=["b"])).groups.codes.tolist() == [0, 1, 0]
    with pytest.raises(InputError, match="no group for 1 of 4 items, such as 'd'; attach groups to all votes"):
        votes.concat(more)
    with pytest.raises(InputError, match="item 'b' is in two groups"):
        votes.concat(more.with_groups({"b": "old", "d": "old"}))
    assert VOTES.concat(more).groups is None
