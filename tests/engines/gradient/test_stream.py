"""Streams: their ids, passes in any order, and what cannot be read from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from crowdwise.engines.gradient.fields import Fields
from crowdwise.engines.gradient.rows import in_order, parts_of, rows_of
from crowdwise.engines.gradient.stream import Stream, is_stream
from crowdwise.errors import InputError

TABLE = np.arange(20.0).reshape(10, 2)
NAMES = [f"Ünit-{n}" for n in (3, 1, 4, 0, 5, 9, 2, 6, 8, 7)]


class Yields(IterableDataset):  # type: ignore[type-arg]
    def __init__(self, *elements: Any) -> None:
        self.elements = elements

    def __iter__(self) -> Iterator[Any]:
        return iter(self.elements)


def rows_with_ids() -> list[tuple[Any, str]]:
    return list(zip(torch.tensor(TABLE), NAMES, strict=True))


SOURCES: dict[str, Any] = {
    "loader": lambda: DataLoader(rows_with_ids(), batch_size=3),
    "shuffled loader": lambda: DataLoader(rows_with_ids(), batch_size=3, shuffle=True),
    "rows": lambda: Yields(*rows_with_ids()),
    "batches": lambda: Yields((TABLE[:6], NAMES[:6]), (TABLE[6:], NAMES[6:])),
    "dicts": lambda: Yields(*({"x": row, "item_id": name} for row, name in rows_with_ids())),
    "lists in dicts": lambda: DataLoader([({"x": row.tolist()}, name) for row, name in rows_with_ids()], batch_size=2),
    "lists": lambda: DataLoader([(row.tolist(), name) for row, name in rows_with_ids()], batch_size=2),
    "dicts beside ids": lambda: Yields(*(({"x": row}, name) for row, name in rows_with_ids())),
}


def opened(source: Any) -> Any:
    stream = Stream(source, batch_size=4)
    stream.read_ids()
    return rows_of(stream, torch.float64)


@pytest.mark.parametrize("kind", SOURCES)
def test_every_pass_brings_each_item_to_its_place(kind: str) -> None:
    rows = opened(SOURCES[kind]())
    assert rows.stream.item_ids == sorted(NAMES)
    assert len(rows) == 10
    expected = torch.tensor(TABLE[np.argsort(NAMES)])
    for training in (False, True):
        found, parts = [], []
        for part in rows.walk(training=training):
            taken = rows.take(part)
            found.append(taken["x"] if isinstance(taken, Fields) else taken)
            parts.append(part)
        assert torch.equal(in_order(found, parts), expected)
    assert rows.n_batches == len(parts)


def test_a_pass_over_some_items_leaves_the_others_out() -> None:
    rows = opened(SOURCES["shuffled loader"]())
    wanted = torch.tensor([7, 2, 5])
    parts = list(parts_of(rows, wanted, 1))
    assert sorted(torch.cat(parts).tolist()) == [2, 5, 7]


def test_training_passes_are_shuffled_by_the_seed_and_others_leave_it_alone() -> None:
    rows = opened(SOURCES["shuffled loader"]())

    def order(seed: int, training: bool) -> list[int]:
        torch.manual_seed(seed)
        return torch.cat(list(rows.walk(training=training))).tolist()

    assert order(1, True) == order(1, True) != order(2, True)
    assert order(1, False) == order(2, False)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    list(rows.walk())
    assert torch.equal(torch.random.get_rng_state(), before)


def test_without_ids_rows_are_numbered_as_they_come() -> None:
    stream = Stream(DataLoader(TensorDataset(torch.tensor(TABLE)), batch_size=4), 1)
    rows = rows_of(stream, torch.float64)
    found = [(part, rows.take(part)) for part in rows.walk()]
    assert torch.equal(torch.cat([part for part, _ in found]), torch.arange(10))
    assert torch.equal(torch.cat([taken for _, taken in found]), torch.tensor(TABLE))
    assert len(stream) == 10
    assert stream.item_ids is None
    # With ids, a pass says whose rows came.
    named = Stream(SOURCES["loader"](), 1)
    list(named.walk(training=False))
    assert named.item_ids == NAMES


def test_other_rows_than_the_present_ones_cannot_be_taken() -> None:
    rows = opened(SOURCES["loader"]())
    assert torch.equal(rows.take(rows.first_rows), torch.tensor(TABLE[:3]))
    with pytest.raises(InputError, match="cannot be read at random"):
        rows.take(torch.tensor([8]))
    for part in rows.walk():
        other = next(n for n in range(10) if n not in part.tolist())
        with pytest.raises(InputError, match="cannot be read at random"):
            rows.take(torch.tensor([other]))


REFUSED: dict[str, tuple[Any, str]] = {
    "no ids": (lambda: DataLoader(TensorDataset(torch.tensor(TABLE))), "must name its items: a batch is"),
    "labels instead of ids": (
        lambda: Yields((TABLE[0], 0), (TABLE[1], 0)),
        "the id 0 comes twice.*where the second part is a label",
    ),
    "too few ids": (lambda: Yields((TABLE[:3], NAMES[:2])), "3 rows and 2 ids"),
    "ids that are fractions": (lambda: Yields((TABLE[:2], torch.tensor([0.5, 1.5]))), "0.5 is no id"),
    "nothing": (lambda: Yields(), "is empty"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_streams_that_cannot_be_trained_on_are_refused(case: str) -> None:
    make, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        Stream(make(), 4).read_ids()


def test_passes_that_differ_are_refused() -> None:
    source = Yields((TABLE[:3], [5, 6, 7]), (TABLE[3:4], [8]))
    stream = Stream(source, 4)
    stream.read_ids()
    rows = rows_of(stream, torch.float64)
    source.elements = (*source.elements[:1], (TABLE[:1], [99]))
    with pytest.raises(InputError, match="the id 99 was not in the first pass"):
        list(rows.walk())
    source.elements = source.elements[:1]
    with pytest.raises(InputError, match=r"3 of 4 rows.*drop_last=False"):
        list(rows.walk())
    # To train on, some are enough.
    assert torch.cat(list(rows.walk(training=True))).tolist() == [0, 1, 2]


@pytest.mark.parametrize("ids", [torch.tensor([4, 2]), np.array([4, 2]), [np.int64(4), torch.tensor(2)], (4, 2)])
def test_ids_are_plain_whatever_holds_them(ids: Any) -> None:
    assert opened(Yields((TABLE[:2], ids))).stream.item_ids == [2, 4]


def test_only_streams_are_streams() -> None:
    assert is_stream(Yields())
    assert is_stream(DataLoader(rows_with_ids()))
    assert not is_stream(TABLE)
    assert not is_stream(TensorDataset(torch.tensor(TABLE)))
    assert Stream(SOURCES["shuffled loader"](), 1).shuffles
    assert not Stream(SOURCES["loader"](), 1).shuffles
