"""Where the rows of a batch come from: tensors, arrays, memory-mapped or sparse ones, and torch datasets.

A source answers `take(index)` with the rows at these positions as one tensor, so a minibatch is one
slice and no Python runs per row (datasets without `__getitems__` excepted). Rows of several named arrays are taken as
`crowdwise.engines.gradient.fields.Fields`; streams can only be walked through (`crowdwise.engines.gradient.stream`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from crowdwise.engines.gradient.fields import FieldRows, Fields, FieldTable, collated, is_record
from crowdwise.engines.gradient.stream import Stream, StreamRows
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array

__all__ = ["Rows", "as_numbers", "evaluated_at_once", "in_order", "parts_of", "rows_of"]

# Rows of a memory-mapped array that stay neighbours when an epoch is shuffled: whole pages are read, not single rows.
_RUN = 64
# Entries of rows that are evaluated together; activations of a network may be some ten times as many.
_ENTRIES = 2**22
# Rows of several fields that are evaluated together: a transformer's activations are hundreds of numbers per token.
_FEW = 64
# Grey, colour, colour with transparency.
_CHANNELS = (1, 3, 4)


class Rows(Protocol):
    """A source of rows."""

    @property
    def run(self) -> int:
        """Neighbours that an epoch keeps together."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        ...

    def __len__(self) -> int: ...
    def take(self, index: torch.Tensor) -> Any:
        """Rows at these positions, as the network takes them: a tensor, or `Fields`."""
        ...


@dataclass(frozen=True, eq=False)
class _TensorRows:
    tensor: torch.Tensor
    dtype: torch.dtype
    run: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return _shaped(self.tensor[:1], self.dtype).shape[1:]

    def __len__(self) -> int:
        return len(self.tensor)

    def take(self, index: torch.Tensor) -> torch.Tensor:
        return _shaped(self.tensor.index_select(0, index.to(self.tensor.device)), self.dtype)


@dataclass(frozen=True, eq=False)
class _ArrayRows:
    """A memory-mapped or read-only array: only the rows asked for are ever read."""

    array: Array
    dtype: torch.dtype
    run: int = _RUN

    @property
    def shape(self) -> tuple[int, ...]:
        return self.take(torch.zeros(1, dtype=torch.int64)).shape[1:]

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: torch.Tensor) -> torch.Tensor:
        return _shaped(torch.from_numpy(np.asarray(self.array[index.cpu().numpy()])), self.dtype)


@dataclass(frozen=True, eq=False)
class _SparseRows:
    """A scipy matrix in CSR form; a batch of it is dense."""

    matrix: Any
    dtype: torch.dtype
    run: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.matrix.shape[1]),)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    def take(self, index: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.matrix[index.cpu().numpy()].toarray()).to(self.dtype)


@dataclass(frozen=True, eq=False)
class _DatasetRows:
    """A torch dataset; the first element of each sample is the row."""

    dataset: Any
    dtype: torch.dtype
    run: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.take(torch.zeros(1, dtype=torch.int64))
        return (sum(math.prod(shape) for shape in first.shapes.values()),) if isinstance(first, Fields) else first.shape[1:]

    def __len__(self) -> int:
        return len(self.dataset)

    def take(self, index: torch.Tensor) -> torch.Tensor | Fields:
        wanted = index.tolist()
        many = getattr(self.dataset, "__getitems__", None)
        samples = many(wanted) if many is not None else [self.dataset[i] for i in wanted]
        if len(samples) and is_record(samples[0]):
            return collated(samples).to(self.dtype)
        rows = [sample[0] if isinstance(sample, tuple | list) else sample for sample in samples]
        stacked = torch.utils.data.default_collate(rows)
        if not isinstance(stacked, torch.Tensor) or stacked.ndim < 2:
            raise InputError(f"a sample of the dataset must be (or begin with) a tensor or array; got {type(rows[0]).__name__}")
        return _shaped(stacked, self.dtype)


def rows_of(features: Any, dtype: torch.dtype) -> Rows:
    """Wrap features in a source of rows.

    Floats become `dtype`; images with channels last are turned to channels first, uint8 ones scaled to [0, 1]; wider
    integers stay as they are, for networks that embed tokens.
    """
    if isinstance(features, FieldTable):
        return FieldRows(features, dtype)
    if isinstance(features, Stream):
        return StreamRows(features, dtype, _shaped)
    if isinstance(features, torch.utils.data.TensorDataset):
        features = features.tensors[0]
    if isinstance(features, torch.Tensor):
        return _TensorRows(features.detach(), dtype)
    if hasattr(features, "tocsr"):
        return _SparseRows(features.tocsr(), dtype)
    if isinstance(features, np.ndarray):
        if _is_mapped(features):
            return _ArrayRows(features, dtype)
        if not features.flags.writeable:
            # Torch has no read-only tensors, and a copy could be as large as what is left of the memory.
            return _ArrayRows(features, dtype, run=1)
        return _TensorRows(torch.from_numpy(np.ascontiguousarray(features)), dtype)
    if hasattr(features, "__getitem__") and hasattr(features, "__len__"):
        return _DatasetRows(features, dtype)
    raise InputError(f"features must be an array, a sparse matrix, a tensor or a torch Dataset; got {type(features).__name__}")


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Rows of another source with whole numbers turned into floating-point ones."""

    rows: Rows
    dtype: torch.dtype

    def __getattr__(self, name: str) -> Any:
        # What streams have beside.
        return getattr(vars(self)["rows"], name)

    @property
    def run(self) -> int:
        return self.rows.run

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: torch.Tensor) -> Any:
        return self.rows.take(index).to(self.dtype)


def evaluated_at_once(rows: Rows) -> int:
    """Rows per step where no gradient is needed: many, unless they are images of which many would not fit."""
    if getattr(rows, "walk", None) is not None:
        # As the stream has them.
        return 1
    if (
        isinstance(rows, _DatasetRows | FieldRows)
        and len(rows)
        and isinstance(rows.take(torch.zeros(1, dtype=torch.int64)), Fields)
    ):
        return _FEW
    return max(1, min(4096, _ENTRIES // max(math.prod(rows.shape), 1)))


def parts_of(rows: Rows, index: torch.Tensor | None, size: int) -> Iterator[torch.Tensor]:
    """Positions of the rows in `index` (None for all), so many at a time, or as a stream has them: see `in_order`."""
    walk = getattr(rows, "walk", None)
    if walk is not None:
        return iter(walk(index))
    return iter(torch.split(torch.arange(len(rows)) if index is None else index, size))


def in_order(answers: list[torch.Tensor], parts: list[torch.Tensor], index: torch.Tensor | None = None) -> torch.Tensor:
    """What was answered of the rows of `parts`, one after the other, as one tensor in the order of `index` (None for all)."""
    found, order = torch.cat(answers), torch.cat(parts).to(answers[0].device)
    wanted = torch.arange(len(order), device=order.device) if index is None else index.to(order.device)
    if torch.equal(order, wanted):
        return found
    ranked = order.argsort()
    return found[ranked[torch.searchsorted(order[ranked], wanted)]]


def as_numbers(rows: Rows, dtype: torch.dtype) -> Rows:
    """The same rows in floating point, for networks that compute with whole numbers rather than look them up."""
    return _Numbers(rows, dtype)


def _is_mapped(array: Any) -> bool:
    """Whether the numbers lie in a file, also behind views of views."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def _shaped(rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if rows.ndim == 4 and rows.shape[3] in _CHANNELS and rows.shape[1] not in _CHANNELS:
        rows = rows.permute(0, 3, 1, 2)
    if rows.dtype != torch.uint8:
        return rows.to(dtype) if rows.is_floating_point() else rows
    if rows.ndim == 2:  # a table of small numbers
        return rows.to(dtype)
    return (rows[:, None] if rows.ndim == 3 else rows).to(dtype) / 255
