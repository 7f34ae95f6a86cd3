"""The limits of the plan, on the package itself: `make house` prints the figures, these keep them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tools import house, house_runs

SRC = Path(house.__file__).resolve().parents[1] / "src"
# Thirteen rooms, and `errors` below them all.
DOORS = 14
# Modules that one vote may pass between the file and its label.
MOST_TOUCHED = 25


@cache
def found() -> dict[str, Any]:
    return house.read_house(SRC)


@pytest.mark.slow
def test_no_cycle_among_rooms_or_modules() -> None:
    assert found()["room_cycles"] == []
    assert found()["module_cycles"] == []


@pytest.mark.slow
@pytest.mark.parametrize("what", ["imports", "attributes"])
def test_nothing_private_is_used_across_rooms(what: str) -> None:
    assert found()["private"][what]["across rooms"] == []


@pytest.mark.slow
def test_no_function_is_above_sixty_lines() -> None:
    assert house.LONG_FUNCTION == 60
    assert [f for f in found()["longest_functions"] if f["lines"] > house.LONG_FUNCTION] == []
    assert found()["long_functions"] == 0


@pytest.mark.slow
def test_there_are_fourteen_doors() -> None:
    assert found()["doors"] <= DOORS


@pytest.mark.slow
def test_no_room_but_the_command_line_knows_more_than_ten_others() -> None:
    known = {room: len(of["loading"]) + len(of["lazy"]) for room, of in found()["rooms"].items()}
    assert {room for room, n in known.items() if n > 10} <= {"cli"}


@cache
def runs() -> dict[str, Any]:
    """The commands of this checkout, traced, each in an interpreter of its own."""
    found = house_runs.collect(SRC)
    assert not [name for name, run in found.items() if "error" in run], found
    return found


@pytest.mark.slow
def test_fit_has_two_signatures() -> None:
    package = runs()["package"]
    assert package["unavailable"] == {}
    assert len(package["signatures"]) == 2, package["signatures"]
    assert {"dawid-skene", "raykar", "bradley-terry"} <= {name for names in package["signatures"].values() for name in names}


@pytest.mark.slow
def test_the_commands_touch_the_methods_that_they_name() -> None:
    assert any(file.endswith("/dawid_skene.py") for file in touched_by_a_vote())
    assert any(file.endswith("/raykar.py") for file in runs()["train"]["touched"])


def touched_by_a_vote() -> list[str]:
    return list(runs()["aggregate"]["touched"])


@pytest.mark.slow
def test_a_vote_passes_few_modules() -> None:
    way = set(touched_by_a_vote())
    assert len(way) <= MOST_TOUCHED, sorted(way)


@pytest.mark.slow
def test_the_map_names_every_module_that_a_vote_passes() -> None:
    touched = touched_by_a_vote()
    page = (SRC.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The way of one vote")[2].partition("## The contract")[0]
    named = set(re.findall(r"`([a-z_.]+)`", table))
    names = {path.removeprefix("crowdwise/").removesuffix(".py").replace("/", ".") for path in touched}
    lost = [name for name in sorted(names) if not any(name == each or name.endswith(f".{each}") for each in named)]
    assert lost == []
    ends = {part for name in names for part in (name, name.partition(".")[2], name.rpartition(".")[2])}
    rooms = {name.partition(".")[0] for name in names} | {"methods.labels"}
    assert sorted(named - ends - rooms - {"Result"}) == []
