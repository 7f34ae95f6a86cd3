"""Rows that come one batch after the other and cannot be chosen: a torch `DataLoader` or `IterableDataset`.

A pass over a stream is read in the stream's own order, batches and workers. For training every batch brings the ids of its
rows: as ``(features, ids)``, or in a field called item, item_id or id. The first pass finds out which ids there are; later
ones may come in another order. For prediction rows are answered in the order in which they come, and ids are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, SequentialSampler, default_collate

from crowdwise.engines.gradient.fields import Fields, FieldTable
from crowdwise.errors import InputError

__all__ = ["Stream", "StreamRows", "is_stream", "refuse_streams"]

_IDS = ("item", "items", "itemid", "itemids", "id", "ids")
_HOW = "a batch is (features, ids), or a dict with the ids in a field called item, item_id or id"


def is_stream(features: Any) -> bool:
    """Whether rows can only be read one after the other."""
    return isinstance(features, DataLoader | IterableDataset | Stream)


def refuse_streams(features: Any, what: str) -> None:
    """Raise where rows must be there more than once, or in an order of their own."""
    if is_stream(features):
        raise InputError(f"{what} takes arrays, dicts and datasets, and X is a stream ({type(features).__name__})")


class Stream:
    """What yields batches, and the ids of its rows as far as they are known.

    Parameters
    ----------
    source : DataLoader or IterableDataset
        An `IterableDataset` may yield single rows, which are put into batches of `batch_size`, or batches.

    Attributes
    ----------
    item_ids : list or None
        Ids of the rows: sorted after `read_ids`, as they came after any other pass, None where batches bring none.
    n_rows, n_batches : int
        Rows that were counted, and batches of a pass.
    """

    def __init__(self, source: Any, batch_size: int) -> None:
        self.source, self.batch_size = source, batch_size
        self.item_ids: list[Any] | None = None
        self.n_rows, self.n_batches = 0, 0
        self._place: dict[Any, int] | None = None
        self._first: tuple[Any, list[Any] | None] | None = None
        self._single: bool | None = None

    def __len__(self) -> int:
        return self.n_rows

    @property
    def shuffles(self) -> bool:
        """Whether its order is known to be random."""
        loader = self.source
        if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
            return False
        sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
        return not isinstance(sampler, SequentialSampler)

    def first(self) -> tuple[Any, Tensor]:
        """The features of the first batch that was read, and the positions of its rows."""
        if self._first is None:
            self._first = next(self._batches(False), None)
            if self._first is None:
                raise InputError("the stream of features is empty")
        rows, ids = self._first
        known = self._place
        return rows, torch.arange(_size(rows)) if known is None else torch.tensor([known[name] for name in ids or ()])

    def read_ids(self) -> None:
        """Go through the stream once and learn which rows there are; refuse one that cannot be trained on."""
        self._place, self._first, self.n_batches = None, None, 0
        names: dict[Any, None] = {}
        for rows, ids in self._batches(False):
            if ids is None:
                raise InputError(f"a stream to train on must name its items: {_HOW}")
            self._first = self._first or (rows, ids)
            self.n_batches += 1
            for name in ids:
                if name in names:
                    raise InputError(
                        f"the id {name!r} comes twice in one pass over the stream: every item is one row, and a pass has an "
                        f"end ({_HOW}; where the second part is a label, give the dataset itself and items=...)"
                    )
                names[name] = None
        if not names:
            raise InputError("the stream of features is empty")
        # Sorted, so that a fit does not depend on the order of the first pass.
        self.item_ids = sorted(names, key=lambda name: (isinstance(name, str), name))
        self._place, self.n_rows = {name: n for n, name in enumerate(self.item_ids)}, len(names)

    def walk(self, training: bool) -> Iterator[tuple[Any, Tensor]]:
        """One pass: the features of every batch, and the positions of its rows among all items."""
        if self._place is None:
            yield from self._in_order()
            return
        count = 0
        for rows, ids in self._batches(training):
            if ids is None:
                raise InputError(f"a batch of the stream has no ids, which earlier ones had; {_HOW}")
            unknown = next((name for name in ids if name not in self._place), None)
            if unknown is not None:
                raise InputError(
                    f"the id {unknown!r} was not in the first pass over the stream; all passes must have the same rows"
                )
            count += len(ids)
            yield rows, torch.tensor([self._place[name] for name in ids])
        if count != self.n_rows and not training:
            raise InputError(
                f"a pass over the stream had {count:,} of {self.n_rows:,} rows, and to answer for all items it must have them "
                "all; a DataLoader does with drop_last=False"
            )

    def _in_order(self) -> Iterator[tuple[Any, Tensor]]:
        """A pass whose rows are numbered as they come."""
        count, names = 0, []
        for rows, ids in self._batches(False):
            size = _size(rows)
            names += ids or []
            yield rows, torch.arange(count, count + size)
            count += size
        self.n_rows, self.item_ids = count, names if len(names) == count else None

    def _batches(self, training: bool) -> Iterator[tuple[Any, list[Any] | None]]:
        """One pass. A training pass shuffles by the seed of its epoch; others leave the user's random state alone."""
        source = self.source
        if isinstance(source, IterableDataset):
            if self._single is None:
                first = next(iter(source), None)
                self._single = first is None or _is_single(first)
            source = DataLoader(source, batch_size=self.batch_size if self._single else None)
        # The default of a loader makes columns of lists: a list per row becomes a tensor per place in the list.
        columns = isinstance(source, DataLoader) and source.collate_fn is default_collate
        if training:
            yield from (_parted(batch, columns) for batch in source)
            return
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            batches = iter(source)
            first_batch = next(batches, None)
        if first_batch is not None:
            yield _parted(first_batch, columns)
            yield from (_parted(batch, columns) for batch in batches)


class StreamRows:
    """A stream as a source of rows, of which those of the present batch can be taken.

    `walk` goes through the stream; between passes, the rows of the first batch can be taken.
    """

    run = 1

    def __init__(self, stream: Stream, dtype: torch.dtype, shaped: Callable[[Tensor, torch.dtype], Tensor]) -> None:
        self.stream, self.dtype, self._shaped = stream, dtype, shaped
        self._window: tuple[Any, Tensor] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row; of fields, how many numbers it has."""
        first = self._made(self.stream.first()[0])
        if isinstance(first, Fields):
            return (sum(int(np.prod(shape)) for shape in first.shapes.values()),)
        return tuple(first.shape[1:])

    @property
    def n_batches(self) -> int:
        """Batches of a pass, where one was counted."""
        return self.stream.n_batches

    @property
    def first_rows(self) -> Tensor:
        """Positions of the rows that can be taken between passes."""
        return self.stream.first()[1]

    def __len__(self) -> int:
        return len(self.stream)

    def walk(self, index: Tensor | None = None, *, training: bool = False) -> Iterator[Tensor]:
        """Go through the stream: the positions of the rows of every batch, of those in `index`, which can then be taken."""
        wanted = None
        if index is not None:
            wanted = torch.zeros(len(self), dtype=torch.bool)
            wanted[index.cpu()] = True
        try:
            for rows, position in self.stream.walk(training):
                self._window = (self._made(rows), position)
                part = position if wanted is None else position[wanted[position]]
                if len(part):
                    yield part if index is None else part.to(index.device)
        finally:
            self._window = None

    def take(self, index: Tensor) -> Any:
        """Rows of the present batch at these positions among all items."""
        rows, position = self._window or self._first()
        ranked = position.argsort()
        place = torch.searchsorted(position[ranked], index.cpu()).clamp(max=len(position) - 1)
        if not torch.equal(position[ranked][place], index.cpu()):
            raise InputError(
                "a stream cannot be read at random, and this needs other rows than those of the present batch; give a dataset "
                "with a length and __getitem__, or an array"
            )
        where = ranked[place]
        if isinstance(rows, Fields):
            return Fields({name: field.index_select(0, where) for name, field in rows.items()})
        return rows.index_select(0, where)

    def _first(self) -> tuple[Any, Tensor]:
        rows, position = self.stream.first()
        return self._made(rows), position

    def _made(self, rows: Any) -> Any:
        return rows.to(self.dtype) if isinstance(rows, Fields) else self._shaped(rows, self.dtype)


def _is_single(sample: Any) -> bool:
    """Whether an element of an iterable dataset is one row, by its id or, without one, as far as that can be seen."""
    if isinstance(sample, Mapping):
        ids = next((value for name, value in sample.items() if _is_id(name)), None)
    else:
        ids = sample[1] if isinstance(sample, tuple | list) and len(sample) > 1 else None
    if ids is None:
        return True
    return isinstance(ids, str | bytes) or np.ndim(ids) == 0


def _parted(batch: Any, columns: bool) -> tuple[Any, list[Any] | None]:
    """The features of a batch, a tensor or `Fields`, and its ids, where it brings any."""
    ids = None
    if isinstance(batch, tuple | list) and len(batch) and not isinstance(batch[0], int | float):
        ids = batch[1] if len(batch) > 1 else None
        batch = batch[0]
    if isinstance(batch, Mapping):
        named = next((name for name in batch if _is_id(name)), None)
        ids = batch[named] if ids is None and named is not None else ids
        table = FieldTable.of({name: _by_row(field, columns) for name, field in batch.items() if name != named})
        rows: Any = Fields({name: torch.as_tensor(field) for name, field in table.fields.items()})
    else:
        batch = _by_row(batch, columns)
        rows = batch if isinstance(batch, Tensor) else torch.as_tensor(np.asarray(batch))
    size = _size(rows)
    if ids is None:
        return rows, None
    names = ids.tolist() if hasattr(ids, "tolist") else [name.item() if hasattr(name, "item") else name for name in ids]
    if len(names) != size:
        raise InputError(f"a batch of the stream has {size:,} rows and {len(names):,} ids; {_HOW}")
    odd = next((name for name in names if isinstance(name, bool) or not isinstance(name, str | int)), None)
    if odd is not None:
        raise InputError(f"{odd!r:.60} is no id of an item: ids are texts or whole numbers; {_HOW}")
    return rows, names


def _by_row(field: Any, columns: bool) -> Any:
    return torch.stack(field, 1) if columns and isinstance(field, list) and field and isinstance(field[0], Tensor) else field


def _is_id(name: Any) -> bool:
    return str(name).lower().replace("_", "") in _IDS


def _size(rows: Any) -> int:
    return len(next(iter(rows.values()))) if isinstance(rows, Fields) else len(rows)
