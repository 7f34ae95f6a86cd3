"""Rows of several named arrays, and networks that take them by keyword and return more than logits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from crowdwise.engines.gradient.fields import Fields, FieldTable, answer_of, augmented, collated, left_out
from crowdwise.engines.gradient.rows import rows_of
from crowdwise.errors import InputError, SettingError

IDS = np.arange(12).reshape(4, 3)
SHARE = np.linspace(0, 1, 4)[:, None]


class ByName(nn.Module):
    def __init__(self, answer: Any = lambda logits: logits) -> None:
        super().__init__()
        self.answer = answer

    def forward(self, ids: Tensor, share: Tensor | None = None, labels: Tensor | None = None) -> Any:
        assert labels is None
        return self.answer(ids.float() * (1 if share is None else share))


class Whole(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["ids"].float() * batch["share"]


class Anything(nn.Module):
    def forward(self, **fields: Tensor) -> Tensor:
        return fields["ids"].float() * fields["share"]


def batch() -> Fields:
    return Fields({"ids": torch.tensor(IDS), "share": torch.tensor(SHARE)})


@pytest.mark.parametrize(
    "answer",
    [
        lambda logits: logits,
        lambda logits: SimpleNamespace(logits=logits, hidden_states=None),
        lambda logits: {"loss": None, "logits": logits},
        lambda logits: (logits, "hidden states"),
        lambda logits: [logits],
    ],
)
def test_logits_are_found_in_whatever_a_network_returns(answer: Any) -> None:
    expected = IDS * SHARE
    np.testing.assert_allclose(answer_of(ByName(answer), batch()), expected)


@pytest.mark.parametrize("make", [ByName, Whole, Anything])
def test_fields_go_in_by_name_or_as_a_dict(make: Any) -> None:
    np.testing.assert_allclose(answer_of(make(), batch()), IDS * SHARE)


def test_fields_that_forward_does_not_name_are_left_out() -> None:
    more = Fields(batch() | {"other": torch.zeros(4, 2)})
    np.testing.assert_allclose(answer_of(ByName(), more), IDS * SHARE)
    assert left_out(ByName(), more) == ["other"]
    assert left_out(Whole(), more) == left_out(Anything(), more) == []


@pytest.mark.parametrize("kind", ["arrays", "tensors", "lists", "datasets of dicts", "samples with more"])
def test_every_form_gives_the_same_batch(kind: str) -> None:
    given = {"ids": IDS, "share": SHARE, "labels": [0] * 4, "text": ["a"] * 4}
    records = [{"ids": i.tolist(), "share": s, "labels": 0, "text": "a"} for i, s in zip(IDS, SHARE, strict=True)]
    source: Any = {
        "arrays": lambda: FieldTable.of(given),
        "tensors": lambda: FieldTable.of({name: torch.as_tensor(given[name]) for name in ("ids", "share", "labels")}),
        "lists": lambda: FieldTable.of({"ids": IDS.tolist(), "share": list(torch.tensor(SHARE))}),
        "datasets of dicts": lambda: records,
        "samples with more": lambda: [(record, "beside") for record in records],
    }[kind]()
    rows = rows_of(source, torch.float32)
    assert len(rows) == 4
    assert rows.shape == (4,)
    taken = rows.take(torch.tensor([2, 0]))
    assert isinstance(taken, Fields)
    assert list(taken) == ["ids", "share"]
    assert taken["ids"].dtype == torch.int64
    assert taken["share"].dtype == torch.float32
    np.testing.assert_array_equal(taken["ids"], IDS[[2, 0]])
    np.testing.assert_allclose(taken["share"], SHARE[[2, 0]])


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": ({}, "an empty dict"),
    "text alone": ({"text": ["a", "b"]}, "without any field of numbers; it has 'text'"),
    "answers alone": ({"labels": [0, 1]}, "without any field of numbers"),
    "different lengths": ({"ids": IDS, "share": SHARE[:3]}, "different lengths: ids 4, share 3"),
    "a single number": ({"ids": IDS, "scale": 2.0}, "'scale' of X is a single number"),
    "no rows": ({"ids": IDS[:0]}, "no rows"),
    "ragged lists": ({"ids": [[1, 2], [3]]}, "'ids' have different lengths; pad them"),
    "ragged tensors": ({"ids": [torch.zeros(2), torch.zeros(3)]}, "'ids' have different lengths; pad them"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_table_of_fields_is_refused(case: str) -> None:
    given, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        FieldTable.of(given)


def test_samples_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InputError, match="'ids' have different lengths"):
        collated([{"ids": [1, 2]}, {"ids": [1]}])
    with pytest.raises(InputError, match="no field 'share'"):
        collated([{"ids": [1], "share": 1.0}, {"ids": [1]}])
    with pytest.raises(InputError, match="no field of numbers"):
        collated([{"text": "a"}])


def test_rows_are_augmented_one_by_one() -> None:
    count = iter(range(10))
    changed = augmented(torch.zeros(3, 2), lambda row: row + next(count))
    np.testing.assert_array_equal(changed, [[0, 0], [1, 1], [2, 2]])
    fields = augmented(batch(), lambda row: row | {"share": row["share"] + 1})
    assert isinstance(fields, Fields)
    np.testing.assert_allclose(fields["share"], SHARE + 1)
    np.testing.assert_array_equal(fields["ids"], IDS)
    for wrong in (lambda row: row[:1], lambda row: row.sum()):
        with pytest.raises(SettingError, match="augment must return a row like the one"):
            augmented(torch.zeros(3, 2), wrong)
    with pytest.raises(SettingError, match="the same fields"):
        augmented(batch(), lambda row: {"ids": row["ids"]})
