"""What is known of judges beside their votes: families, people and prices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.report.judging import families_by_name, families_by_table, prices_of, with_people

VOTES = Annotations.from_arrays(["i"] * 4, ["ann", "bob", "m/0", "m/1"], ["x", "y", "x", "x"])
TABLE = Path("table.csv")


def test_a_table_of_families_names_somebody_and_absent_names_are_noted() -> None:
    notes: list[str] = []
    assert families_by_table(VOTES, {"ann": ("f",), "eve": ("f",)}, TABLE, notes) == {"ann": ("f",), "eve": ("f",)}
    assert notes == ["1 name of table.csv gave no votes: eve"]
    with pytest.raises(InputError, match=r"--families: table\.csv names no annotator of these votes, such as ann, bob, m/0"):
        families_by_table(VOTES, {"eve": ("f",)}, TABLE, notes)


def test_families_by_name_are_what_stands_before_the_mark() -> None:
    notes: list[str] = []
    assert families_by_name(VOTES, "/", 1, notes) == {"m/0": ("m",), "m/1": ("m",)}
    assert notes == []
    assert families_by_name(VOTES, "#", 1, notes) == {}
    assert notes == ["no name of a judge has a '#', so everybody stands alone"]


def test_models_within_families_by_name_take_two_levels() -> None:
    names = ["m/0/a", "m/0/b", "m/1/a"]
    votes, notes = Annotations.from_arrays(["i"] * 3, names, ["x", "y", "x"]), list[str]()
    assert families_by_name(votes, "/", 2, notes) == {"m/0/a": ("m", "0"), "m/0/b": ("m", "0"), "m/1/a": ("m", "1")}
    assert notes == []
    assert families_by_name(votes, "/", 1, notes) == dict.fromkeys(names, ("m",))
    assert notes == ["names have further parts: --levels 2 counts judges that share one part more as one first"]


def test_people_are_annotators_or_families_that_exist() -> None:
    assert with_people(VOTES, {"bob": ("staff",)}, ["ann", "staff"]).person.tolist() == [True, True, False, False]
    assert with_people(VOTES, {"bob": ("human",)}, None).person.tolist() == [False, True, False, False]
    with pytest.raises(SettingError, match="--people: nobody, and no family, is called 'eve'"):
        with_people(VOTES, {}, ["eve"])


def test_prices_are_by_name_or_by_family() -> None:
    who, notes = with_people(VOTES, {"m/0": ("m",), "m/1": ("m",)}, ["ann"]), []
    np.testing.assert_array_equal(prices_of(VOTES, who, {"m": 2.0, "m/1": 3.0}, TABLE, notes), [np.nan, np.nan, 2, 3])
    assert notes == ["no price is known of bob: panels are compared without prices"]
    assert prices_of(VOTES, who, {}, None, []) is None
    with pytest.raises(InputError, match=r"--prices: table\.csv names no annotator of these votes"):
        prices_of(VOTES, with_people(VOTES, {}, None), {"eve": 1.0}, TABLE, [])
