"""Commands in messages: what was typed, with what is to change, as a shell takes it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crowdwise.io.advice import TYPED, adapted, instead
from crowdwise.io.exports import Request


@pytest.fixture(autouse=True)
def _untyped() -> Iterator[None]:
    yield
    TYPED.set(())


def typed(*words: str) -> None:
    TYPED.set(words)


def test_in_python_the_command_is_the_shortest() -> None:
    assert Request(item="my id").command("a b.csv", "--one-label") == "crowdwise aggregate 'a b.csv' --item 'my id' --one-label"
    assert instead("rank", "a b.csv") == "crowdwise rank 'a b.csv'"


def test_what_was_typed_stays_and_what_changes_is_replaced() -> None:
    typed("aggregate", "v.csv", "-o", "my labels.csv", "--item", "row", "--label=x", "--seed", "3", "--fold-case")
    right = Request(item="id", label="x", fold_case=True)
    assert right.command("v.csv") == "crowdwise aggregate v.csv -o 'my labels.csv' --label=x --seed 3 --fold-case --item id"
    none = Request(item="row", label=None)
    assert none.command("v.csv") == "crowdwise aggregate v.csv -o 'my labels.csv' --item row --seed 3"


def test_options_that_are_added_replace_those_of_their_name_unless_they_may_be_repeated() -> None:
    typed("aggregate", "v.csv", "--format", "wide", "--missing", "?", "--sheet=one", "--one-label")
    words = "crowdwise aggregate v.csv --missing '?' --sheet=one --one-label --format counts"
    assert adapted("v.csv", {}, "--format", "counts") == words
    assert adapted("v.csv", {}, "--one-label").endswith("--missing '?' --sheet=one --one-label")
    assert adapted("v.csv", {}, "--missing=-1").endswith("--one-label --missing=-1")
    assert adapted("v.csv", {}, "--sheet", "two").endswith("--missing '?' --one-label --sheet two")


def test_every_value_of_an_option_that_may_be_repeated_counts() -> None:
    typed("aggregate", "v.csv", "--not", "a", "--not", "b")
    assert Request(exclude=["a", "b"]).command("v.csv") == "crowdwise aggregate v.csv --not a --not b"
    assert Request(exclude=["a"]).command("v.csv") == "crowdwise aggregate v.csv --not a"


def test_the_command_stays_the_same_unless_it_lacks_the_option() -> None:
    typed("explain", "photo 1", "v.csv", "--seed", "1")
    assert adapted("v.csv", {}, "--one-label") == "crowdwise explain 'photo 1' v.csv --seed 1 --one-label"
    assert adapted("v.csv", {}, "--type", "multilabel") == "crowdwise aggregate v.csv --type multilabel"
    typed("report", "v.csv", "-o", "page.html")
    assert adapted("v.csv", {}, "--type", "multilabel") == "crowdwise aggregate v.csv --type multilabel --page page.html"
    typed("rank", "v.csv", "-o", "ranks.csv")
    assert adapted("v.csv", {}, "--question", "q") == "crowdwise aggregate v.csv --question q"


def test_another_command_writes_the_same_table() -> None:
    typed("aggregate", "v.csv", "-o", "my labels.csv", "--seed", "3")
    assert instead("rank", "v.csv") == "crowdwise rank v.csv -o 'my labels.csv'"
    typed("report", "v.csv", "-o", "page.html")
    assert instead("rank", "v.csv") == "crowdwise rank v.csv"


def test_options_stand_before_a_double_dash() -> None:
    typed("aggregate", "-o", "x.csv", "--", "-votes.csv")
    assert adapted("-votes.csv", {}, "--one-label") == "crowdwise aggregate -o x.csv --one-label -- -votes.csv"
