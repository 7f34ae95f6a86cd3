"""Edges in files, with and without a row of names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crowdwise import Edges
from crowdwise.errors import InputError
from crowdwise.io.edge_tables import read_edges


@pytest.mark.parametrize(
    ("text", "items", "expected"),
    [
        ("source,target\na,b\nb,c\n", "abc", [("a", "b"), ("b", "c")]),
        # Usual names are names, though items are called so; unusual ones are names unless both are items.
        ("a,b\nb,c\n", "abc", [("b", "c")]),
        ("x,y\nb,c\n", "abc", [("b", "c")]),
        ("x,c\nb,c\n", "xbc", [("x", "c"), ("b", "c")]),
        ("x,c\nb,c\n", "xb", [("b", "c")]),
        ("x,x\nx,b\n", "xb", None),
        ("x;c;2\nb;c;3\n", "xbc", [("x", "c", 2.0), ("b", "c", 3.0)]),
        ("7,8\n8,9\n", [7, 8, 9], [(7, 8), (8, 9)]),
    ],
)
def test_the_first_row_is_an_edge_where_it_joins_two_items(
    tmp_path: Path, text: str, items: list[str], expected: list[tuple[str, str]] | None
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text)
    notes: list[str] = []
    if expected is None:
        # Two columns of one name: no table, whatever the names.
        with pytest.raises(InputError, match="'x'"):
            read_edges(path, list(items), notes)
        return
    assert read_edges(path, list(items), notes) == Edges.of(expected)
    assert len(notes) == (len(expected) == len(text.splitlines()))


def test_lines_of_numbers_are_edges(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("7 8\n8 9\n\n")
    assert read_edges(path, [7, 8, 9]).between(np.array([7, 8, 9]))[0].tolist() == [0, 1]
    path.write_text("7 8 2\n8 9 3\n")
    assert read_edges(path, [7, 8, 9]).weight.tolist() == [2, 3]
    path.write_text("7 8\n8\n")
    with pytest.raises(InputError, match="pairs of item ids"):
        read_edges(path, [7, 8, 9])


def test_rows_in_messages_count_from_the_first(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("x,c\nb,\n")
    with pytest.raises(InputError, match=r"edges\.csv row 2: an edge without an item"):
        read_edges(path, ["x", "b", "c"])
