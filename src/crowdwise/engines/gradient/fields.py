"""Rows of several named arrays, as tokenisers and image processors give them, and networks that take and return such things.

A batch of them is `Fields`, a dict of tensors. A network gets those that its `forward` names, by keyword, or the dict itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.errors import InputError, SettingError, listed

__all__ = [
    "FieldRows",
    "FieldTable",
    "Fields",
    "answer_of",
    "augmented",
    "collated",
    "is_record",
    "left_out",
    "logits_in",
    "numbers_of",
]

# What datasets call the answer itself: networks would compute a loss of their own from it.
_TARGETS = ("label", "labels", "label_ids")


class Fields(dict[str, Tensor]):
    """Tensors of a batch by name, [B, ...] each."""

    def to(self, where: torch.device | torch.dtype) -> Fields:
        """On a device; or, of a floating-point type, those fields that hold fractions."""
        if isinstance(where, torch.dtype):
            return Fields({name: field.to(where) if field.is_floating_point() else field for name, field in self.items()})
        return Fields({name: field.to(where) for name, field in self.items()})

    def is_floating_point(self) -> bool:
        """Whether all are, so that rows can be mixed."""
        return all(field.is_floating_point() for field in self.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one row, by field."""
        return {name: tuple(field.shape[1:]) for name, field in self.items()}


@dataclass(frozen=True, eq=False)
class FieldTable:
    """Arrays or tensors with a row per item, by name, checked."""

    fields: dict[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> FieldTable:
        """Check a mapping of arrays, tensors or nested lists; names of answers and fields without numbers are left out."""
        if not given:
            raise InputError("X is an empty dict; it needs an array or tensor per field, such as input_ids and attention_mask")
        fields = {name: numbers_of(value, name) for name, value in given.items() if name not in _TARGETS}
        fields = {name: value for name, value in fields.items() if value is not None}
        if not fields:
            raise InputError(f"X is a dict without any field of numbers; it has {listed(map(repr, given))}")
        flat = next((name for name, field in fields.items() if field.ndim == 0), None)
        if flat is not None:
            raise InputError(f"field {flat!r} of X is a single number; every field has a row per item")
        lengths = {name: len(field) for name, field in fields.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"fields of X have different lengths: {', '.join(f'{n} {size:,}' for n, size in lengths.items())}")
        if not next(iter(lengths.values())):
            raise InputError("X has no rows")
        return cls(fields)

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one row, by field."""
        return {name: tuple(field.shape[1:]) for name, field in self.fields.items()}


@dataclass(frozen=True, eq=False)
class FieldRows:
    """A `FieldTable` as a source of rows; whole numbers stay what they are."""

    table: FieldTable
    dtype: torch.dtype
    run: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of one row."""
        return (sum(int(np.prod(shape)) for shape in self.table.shapes.values()),)

    def __len__(self) -> int:
        return len(self.table)

    def take(self, index: Tensor) -> Fields:
        """Rows at these positions."""
        return Fields({name: _taken(field, index) for name, field in self.table.fields.items()}).to(self.dtype)


def is_record(sample: Any) -> bool:
    """Whether a sample of a dataset is a mapping of fields, or begins with one."""
    return isinstance(sample[0] if isinstance(sample, tuple | list) and len(sample) else sample, Mapping)


def collated(samples: list[Any]) -> Fields:
    """The fields of samples as one batch; those without numbers are left out."""
    records = [sample[0] if isinstance(sample, tuple | list) else sample for sample in samples]
    fields = {}
    for name in records[0]:
        if name in _TARGETS:
            continue
        if any(name not in record for record in records):
            raise InputError(f"a sample of the dataset has no field {name!r}, which the first one of the batch has")
        values = [numbers_of(record[name], name) for record in records]
        if any(value is None for value in values):
            continue
        if len({tuple(value.shape) for value in values}) > 1:
            raise _ragged(name)
        fields[name] = torch.stack([torch.as_tensor(value) for value in values])
    if not fields:
        raise InputError(f"a sample of the dataset has no field of numbers; it has {listed(map(repr, records[0]))}")
    return Fields(fields)


def numbers_of(value: Any, name: str) -> Any:
    """A field as a tensor or array; None where it holds no numbers, such as the text itself."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor):
        if len({tensor.shape for tensor in value}) > 1:
            raise _ragged(name)
        return torch.stack(list(value)).detach()
    try:
        array = np.asarray(value)
    except ValueError:
        raise _ragged(name) from None
    if array.dtype.kind == "O" and array.size and isinstance(array.flat[0], list | tuple | np.ndarray):
        raise _ragged(name)
    return array if array.dtype.kind in "fiub" else None


def augmented(rows: Tensor | Fields, augment: Callable[[Any], Any]) -> Tensor | Fields:
    """Rows changed one by one, each by draws of its own."""
    if isinstance(rows, Fields):
        size = len(next(iter(rows.values())))
        single = [augment({name: field[n] for name, field in rows.items()}) for n in range(size)]
        made: Tensor | Fields = collated(single) if all(map(is_record, single)) else Fields()
        same = isinstance(made, Fields) and made.shapes == rows.shapes
    else:
        changed = [torch.as_tensor(augment(row)) for row in rows]
        same = all(row.shape == rows.shape[1:] for row in changed)
        made = torch.stack(changed).to(rows.dtype) if same else rows
    if not same:
        raise SettingError("augment must return a row like the one that it gets: the same shape, the same fields")
    return made


def answer_of(network: nn.Module, rows: Any) -> Any:
    """The logits of a network for a batch of rows, a tensor or `Fields`; whatever it returned, where they are not in it."""
    return logits_in(_called(network, rows) if isinstance(rows, Fields) else network(rows))


def logits_in(output: Any) -> Any:
    """A tensor as it is; of an object with `logits`, a mapping with them, or a tuple that begins with them, these."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping) and "logits" in output:
        return output["logits"]
    found = getattr(output, "logits", None)
    if found is not None:
        return found
    return output[0] if isinstance(output, tuple | list) and output else output


def left_out(network: nn.Module, fields: Iterable[str]) -> list[str]:
    """Those of these fields that the network does not get, because its `forward` has no such parameter."""
    named, given = _named(network), set(fields)
    return sorted(given - named) if named & given else []


def _called(network: nn.Module, fields: Fields) -> Any:
    known = {name: field for name, field in fields.items() if name in _named(network)}
    if known:
        return network(**known)
    kinds = {parameter.kind for parameter in inspect.signature(network.forward).parameters.values()}
    return network(**fields) if inspect.Parameter.VAR_KEYWORD in kinds else network(fields)


def _named(network: nn.Module) -> set[str]:
    return set(inspect.signature(network.forward).parameters)


def _taken(field: Any, index: Tensor) -> Tensor:
    if isinstance(field, Tensor):
        return field.index_select(0, index.to(field.device))
    return torch.from_numpy(np.asarray(field[index.cpu().numpy()]))


def _ragged(name: str) -> InputError:
    return InputError(
        f"rows of the field {name!r} have different lengths; pad them, with tokenizer(texts, padding=True) or in the "
        "collate_fn of a DataLoader"
    )
