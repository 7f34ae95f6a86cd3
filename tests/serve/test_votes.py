"""What a request says of a vote: taken as it is meant, or refused in words."""

from __future__ import annotations

from typing import Any

import pytest

from crowdwise.errors import InputError
from crowdwise.serve.votes import Delivery, delivery_of, microseconds, name_of, pair_ref

NOW = 1_800_000_000 * 10**6


def made(*, caller: str | None = None, **given: Any) -> Delivery:
    return delivery_of(given, classes=frozenset({"cat", "dog"}), now=NOW, new_key=lambda: "new", annotator=caller)


def test_a_vote_is_one_of_its_item_and_annotator() -> None:
    assert made(item=7, annotator="a", label="cat", key="k", at=5) == Delivery(
        "k", '["7", "a"]', "7", "a", "cat", "label", 5_000_000
    )
    assert made(item="i", annotator="a", label="cat") == Delivery("new", pair_ref("i", "a"), "i", "a", "cat", "label", NOW)


def test_an_annotator_speaks_for_nobody_else() -> None:
    own = made(caller="anna", item="i", label="cat", key="k")
    assert (own.annotator, own.key) == ("anna", "anna/k")
    for more in ({"annotator": "bert"}, {"ref": "17"}):
        with pytest.raises(PermissionError):
            delivery_of(
                {"item": "i", "label": "cat", **more}, classes=frozenset({"cat"}), now=NOW, new_key=str, annotator="anna"
            )


@pytest.mark.parametrize(
    "value", ["", " x", "x ", "a\x00b", "a\nb", "\ud800", "\ufffe", "x" * 201, None, 1.5, True, [], {}, "\u2028"]
)
def test_what_no_database_holds_is_no_name(value: Any) -> None:
    with pytest.raises(InputError, match="item must be text"):
        name_of(value, "item")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"label": "bird"}, "not among the classes"),
        ({"label": None}, "label must be text"),
        ({"label": "cat", "action": "skip"}, "has no label"),
        ({"action": "vanish"}, "action must be one of"),
        ({"label": "cat", "at": "yesterday"}, "at must be seconds"),
        ({"label": "cat", "at": float("nan")}, "at must be seconds"),
        ({"label": "cat", "at": 1e300}, "at must lie between"),
        ({"label": "cat", "at": -1}, "between 1970"),
        ({"label": "cat", "at": NOW / 1e6 + 90_000}, "a day from now"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        made(item="i", annotator="a", **given)


@pytest.mark.parametrize(
    "value", ["2026-05-01T12:00:00Z", "2026-05-01T14:00:00+02:00", "2026-05-01T12:00:00", 1777636800, 1777636800.0]
)
def test_times_are_read_as_they_are_meant(value: Any) -> None:
    # date -u -d 2026-05-01T12:00:00Z +%s
    assert microseconds(value, NOW) == 1777636800 * 10**6
