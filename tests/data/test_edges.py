"""Edges between items: what is taken for edges, and which of them join items of the votes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from crowdwise import Edges, nearest_edges
from crowdwise.errors import DataWarning, InputError

ITEMS = np.array(["a", "b", "c", "d"], dtype=object)


def joined(edges: Any, items: Any = ITEMS) -> list[tuple[int, int, float]]:
    return [(int(n), int(m), float(w)) for n, m, w in zip(*Edges.of(edges).between(items), strict=True)]


@pytest.mark.parametrize(
    "edges",
    [
        [("a", "b"), ("d", "c")],
        [["a", "b", 1], ["d", "c", 1.0]],
        np.array([["a", "b"], ["d", "c"]]),
        {"source": ["a", "d"], "target": ["b", "c"]},
        pd.DataFrame({"item1": ["a", "d"], "item2": ["b", "c"], "weight": [1, 1]}),
        pl.DataFrame({"note": ["", ""], "from": ["a", "d"], "to": ["b", "c"]}),
        # Two or three columns whatever they are called.
        pl.DataFrame({"x": ["a", "d"], "y": ["b", "c"], "weight": [1.0, 1.0]}),
    ],
)
def test_edges_in_every_usual_form(edges: Any) -> None:
    assert joined(edges) == [(0, 1, 1.0), (2, 3, 1.0)]
    assert Edges.of(Edges.of(edges)) == Edges.of([("a", "b"), ("d", "c")])


def test_ids_of_another_type_are_found_as_text() -> None:
    assert joined([("10", "7")], np.array([7, 8, 10])) == [(0, 2, 1.0)]


def test_a_pair_counts_once_with_its_largest_weight_and_weight_zero_is_no_edge() -> None:
    assert joined([("a", "b", 0.5), ("b", "a", 2), ("a", "b", 1), ("c", "d", 0)]) == [(0, 1, 2.0)]


def test_edges_that_join_nothing_here_are_counted_and_left_out() -> None:
    with pytest.warns(DataWarning, match="2 of 4 edges join an item that is not among those of the votes"):
        assert joined([("a", "b"), ("a", "x"), ("y", "x"), ("b", "c")]) == [(0, 1, 1.0), (1, 2, 1.0)]
    with pytest.warns(DataWarning, match="1 of 2 edges join an item to itself"):
        assert joined([("a", "a"), ("b", "c")]) == [(1, 2, 1.0)]


def test_no_edges_join_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert joined([]) == []


def test_ids_that_the_votes_do_not_have_are_refused_with_both() -> None:
    with pytest.raises(InputError, match=r"'img-1'.*'a', 'b', 'c'"):
        joined([("img-1", "img-2")])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ("edges.csv", "pairs of item ids"),
        (7, "pairs of item ids"),
        ([("a",)], "edge 0 is"),
        ([("a", "b"), ("a", "b", 2)], "pairs of item ids"),
        ([("a", None)], "row 0: an edge without an item"),
        ([("a", "b", -1)], "row 0: weight -1"),
        ([("a", "b", float("nan"))], "row 0: weight"),
        ([("a", "b", float("inf"))], "row 0: weight"),
        ({"p": [1], "q": [1], "r": [1], "s": [1]}, "source and target; found 'p', 'q', 'r', 's'"),
    ],
)
def test_what_is_no_edge_is_refused_with_what_is(edges: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Edges.of(edges)


def test_nearest_edges_are_those_of_all_distances() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(40, 3))
    edges = nearest_edges(features, [f"i{n}" for n in range(40)], n_neighbours=4)
    distance = np.linalg.norm(features[:, None] - features[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    expected = {(f"i{n}", f"i{m}") for n in range(40) for m in np.argsort(distance[n])[:4]}
    assert set(zip(edges.source, edges.target, strict=True)) == expected
    assert len(edges) == 160


def test_items_with_the_same_features_are_no_neighbours_of_themselves() -> None:
    edges = nearest_edges(np.zeros((6, 2)), range(6), n_neighbours=2)
    assert len(edges) == 12
    assert (edges.source != edges.target).all()


@pytest.mark.parametrize(
    ("features", "neighbours", "message"),
    [
        (np.zeros((3, 2)), 1, "4 in all"),
        (np.full((4, 2), np.nan), 1, "finite"),
        (np.zeros((4, 2)), 4, "from 1 to 3"),
        (np.zeros((4, 2)), 1.5, "from 1 to 3"),
    ],
)
def test_wrong_features_and_numbers_of_neighbours_are_refused(features: Any, neighbours: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        nearest_edges(features, ITEMS, neighbours)


def test_three_columns_of_other_names_are_refused_because_any_two_may_be_the_items():
    with pytest.raises(InputError, match="two columns of item ids"):
        Edges.of({"id": [0, 1], "pixel_a": ["a", "b"], "pixel_b": ["b", "c"]})
    assert Edges.of({"weight": [2.0, 1.0], "p": ["a", "b"], "q": ["b", "c"]}) == Edges.of([("a", "b", 2.0), ("b", "c", 1.0)])


def test_edges_that_all_lead_elsewhere_are_refused_though_one_end_is_known():
    with pytest.raises(InputError, match="no edge joins two items"):
        Edges.of([("a", "cat"), ("b", "dog")]).between(np.array(["a", "b"], object))
