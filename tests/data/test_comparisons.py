"""Which of two items is better: columns found, winners understood, faults named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import crowdwise
from crowdwise.data.comparisons import Comparisons
from crowdwise.errors import InputError


def comparisons(winners: list[object], first: object = ("x", "x", "y"), second: object = ("y", "z", "z")) -> Comparisons:
    n = len(winners)
    return Comparisons.from_arrays(list(first)[:n], list(second)[:n], ["ann", "bob", "ann"][:n], winners)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("winners", "outcome"),
    [
        (["x", "z", "y"], [1, -1, 1]),
        (["a", "B", " tie "], [1, -1, 0]),
        (["left", "Right", "equal"], [1, -1, 0]),
        ([1, 2, 1], [1, -1, 1]),
        (["item_a", "model_b", "both"], [1, -1, 0]),
        ([1.0, 2.0, None], [1, -1]),
    ],
)
def test_a_winner_is_an_id_a_side_or_a_tie(winners: list[object], outcome: list[int]) -> None:
    assert comparisons(winners).outcome.tolist() == outcome


def test_an_id_comes_before_a_word() -> None:
    # Items called b and a: the winner "a" is the item, which stands second.
    assert comparisons(["a"], ["b"], ["a"]).outcome.tolist() == [-1]
    assert comparisons([1, 2], [2, 2], [1, 3]).outcome.tolist() == [-1, 1]
    assert comparisons(["tie"], ["tie"], ["x"]).outcome.tolist() == [1]


def test_a_side_is_not_taken_for_the_id_of_a_third_item() -> None:
    # "1" is an item elsewhere; here neither side is called so, and it can only mean the first.
    votes = Comparisons.from_arrays(["1", "p"], ["q", "q"], ["ann", "ann"], ["1", "1"])
    assert votes.outcome.tolist() == [1, 1]


def test_sides_may_be_numbers_of_ids_that_are_numbers() -> None:
    votes = Comparisons.from_arrays([10, 20], [20, 30], ["a", "a"], [10, 30])
    assert votes.outcome.tolist() == [1, -1]
    assert votes.items.tolist() == [10, 20, 30]


def test_an_unknown_winner_names_its_row_and_the_fix(tmp_path: Path) -> None:
    path = tmp_path / "games.csv"
    path.write_text("item_a,item_b,annotator,winner\nx,y,ann,x\nx,z,ann,w\n")
    with pytest.raises(InputError, match=r"games.csv row 3: the winner 'w' is neither 'x' nor 'z'; name the winner by its id"):
        crowdwise.read(path, Comparisons)


@pytest.mark.parametrize("winners", [[0, 1], ["0", "1"], [1, 2, 0]])
def test_a_winner_of_zero_is_refused_as_it_means_different_things(winners: list[object]) -> None:
    with pytest.raises(InputError, match=r"the winner 0 could mean the first item, .* write left, right and tie"):
        comparisons(winners)


def test_a_missing_item_is_named_with_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "games.csv"
    path.write_text("item_a,item_b,annotator,winner\nx,y,ann,x\nx,,ann,x\n")
    with pytest.raises(InputError, match="row 3: the item id is missing"):
        crowdwise.read(path, Comparisons)
    with pytest.raises(InputError, match="annotator id is missing"):
        Comparisons.from_arrays(["x"], ["y"], [None], ["x"])


def test_columns_are_found_by_their_usual_names(tmp_path: Path) -> None:
    path = tmp_path / "arena.tsv"
    path.write_text("model_a\tmodel_b\tjudge\twinner\tweight\ng\th\tj1\tmodel_a\t2\ng\th\tj2\ttie (bothbad)\t1\n")
    votes = crowdwise.read(path, Comparisons)
    assert votes.outcome.tolist() == [1, 0]
    assert votes.weight is None
    assert crowdwise.read(path, Comparisons, weight="weight").weights.tolist() == [2, 1]
    with pytest.raises(InputError, match="no column 'victor'"):
        crowdwise.read(path, Comparisons, answer="victor")


def test_frames_files_and_arrays_give_the_same(tmp_path: Path) -> None:
    columns = {"item_a": ["ü", "雪"], "item_b": ["雪", "x"], "annotator": [7, 8], "winner": ["ü", "x"]}
    frame = pl.DataFrame(columns)
    frame.write_parquet(tmp_path / "v.parquet")
    frame.write_csv(tmp_path / "v.csv")
    made = [
        Comparisons.from_frame(frame),
        Comparisons.from_frame(frame.to_pandas()),
        Comparisons.from_arrays(*columns.values()),
    ]
    made += [crowdwise.read(tmp_path / "v.parquet", Comparisons), crowdwise.read(tmp_path / "v.csv", Comparisons)]
    for votes in made:
        assert votes.to_frame().equals(made[0].to_frame())
    assert made[0].items.tolist() == ["x", "ü", "雪"]


def test_the_vocabulary_of_items_may_be_given() -> None:
    votes = Comparisons.from_arrays(["x"], ["y"], ["ann"], ["y"], items=["y", "x", "never"])
    assert votes.first.tolist() == [1]
    assert votes.n_items == 3
    with pytest.raises(InputError, match="item 'x' is not among the given items"):
        Comparisons.from_arrays(["x"], ["y"], ["ann"], ["y"], items=["y"])


def test_ids_of_two_types_are_compared_as_text() -> None:
    votes = Comparisons.from_arrays([1, 2], ["2", "x"], ["ann", "ann"], ["2", "x"])
    assert votes.items.tolist() == ["1", "2", "x"]
    assert votes.outcome.tolist() == [-1, -1]


def test_votes_are_immutable_and_can_be_selected() -> None:
    votes = comparisons(["x", "tie", "z"])
    with pytest.raises(ValueError, match="read-only"):
        votes.outcome[0] = -1
    assert votes[[2, 0]].outcome.tolist() == [-1, 1]
    assert votes[votes.outcome == 0].n_votes == 1
    assert votes[1:].n_items == 3
    assert votes[0].n_votes == 1


def test_weights_must_be_numbers() -> None:
    with pytest.raises(InputError, match="weight"):
        Comparisons.from_arrays(["x"], ["y"], ["ann"], ["x"], weight=[-1.0])
    weighted = Comparisons.from_arrays(["x"], ["y"], ["ann"], ["x"], weight=[0.5])
    assert weighted.to_frame()["weight"].to_list() == [0.5]
    assert np.array_equal(weighted[[0]].weights, [0.5])


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="one length"):
        Comparisons.from_arrays(["x"], ["y", "z"], ["ann"], ["x"])
