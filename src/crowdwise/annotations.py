"""`Annotations`: the one structure that every method consumes.

An immutable edge list of votes sorted by item, with the vocabularies of items, annotators and
classes. Memory grows with the number of votes, never with items x annotators; an annotator may
label an item several times; items and annotators without votes stay in their vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.encode import (
    Where,
    as_text,
    codes_of,
    encode,
    find_column,
    missing_mask,
    series_of,
    tidy,
    to_polars,
    vocabulary_array,
    vocabulary_series,
)
from crowdwise.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

__all__ = ["Annotations"]


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """Votes of many annotators on many items, as integer codes with their vocabularies.

    Build one with `read`, `from_frame`, `from_matrix` or `from_arrays`; the constructor itself
    takes codes that are already sorted.

    Attributes
    ----------
    item_ptr : [N + 1]
        Votes of item n are ``item_ptr[n]:item_ptr[n + 1]``.
    annotator, label : [E]
        Codes into `annotators` and `classes`.
    items, annotators, classes
        Vocabularies, sorted unless the caller gave an order.
    weight : [E] or None
        Weight of each vote; None means one each.
    gold : [N] or None
        Code of the known class of each item, -1 where unknown.
    n_missing
        Votes dropped on entry because their label was missing.

    Examples
    --------
    >>> votes = Annotations.from_arrays(
    ...     item=["a", "a", "b", "b"], annotator=["x", "y", "x", "y"], label=["cat", "cat", "dog", "cat"])
    >>> votes
    Annotations(4 votes: 2 items, 2 annotators, 2 classes)
    >>> votes.classes.tolist()
    ['cat', 'dog']
    """

    item_ptr: NDArray[np.int64]
    annotator: NDArray[np.int32]
    label: NDArray[np.int16]
    items: NDArray[Any]
    annotators: NDArray[Any]
    classes: NDArray[Any]
    weight: NDArray[np.float64] | None = None
    gold: NDArray[np.int16] | None = None
    n_missing: int = 0

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Pickling forgets that arrays are read-only.
        vars(self).update(state)
        self.__post_init__()

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def n_votes(self) -> int:
        """Number of votes, E."""
        return len(self.label)

    @property
    def n_items(self) -> int:
        """Number of items, N, with or without votes."""
        return len(self.items)

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A, with or without votes."""
        return len(self.annotators)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def shape(self) -> tuple[int]:
        """``(n_items,)``: scikit-learn's splitters cut votes by item."""
        return (self.n_items,)

    def __len__(self) -> int:
        return self.n_items

    def __getitem__(self, positions: Any) -> Annotations:
        """Return the items at these positions (an index array, mask or slice) with their votes."""
        keep = np.atleast_1d(np.arange(self.n_items)[positions])
        return self._take_items(keep)

    def __repr__(self) -> str:
        sizes = f"{self.n_votes} votes: {self.n_items} items, {self.n_annotators} annotators, {self.n_classes} classes"
        return f"Annotations({sizes}{f'; {self.n_missing} missing labels dropped' if self.n_missing else ''})"

    @cached_property
    def item(self) -> NDArray[np.int32]:
        """Item code of every vote, [E]."""
        return _frozen(np.repeat(np.arange(self.n_items, dtype=np.int32), self.votes_per_item))

    @cached_property
    def row(self) -> NDArray[np.int32]:
        """``annotator * K + label`` of every vote, [E]: its row in a [A K, K] table."""
        return _frozen(self.annotator * np.int32(self.n_classes) + self.label)

    @cached_property
    def votes_per_item(self) -> NDArray[np.int64]:
        """Votes on each item, [N]."""
        return _frozen(np.diff(self.item_ptr))

    @cached_property
    def votes_per_annotator(self) -> NDArray[np.int64]:
        """Votes by each annotator, [A]."""
        return _frozen(np.bincount(self.annotator, minlength=self.n_annotators))

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | PathLike[str], **options: Any) -> Annotations:
        """Read a table (CSV, TSV, JSONL, Parquet, Arrow; gzip'd too) or a platform's export.

        See `crowdwise.io.read` for the options: column names, classes, missing-answer markers
        and, for exports that hold several questions, which one.
        """
        from crowdwise.io import read

        return read(path, **options)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        weight: str | None = None,
        classes: Sequence[Any] | None = None,
        missing: Iterable[Any] = (),
        where: Where | None = None,
    ) -> Annotations:
        """Build from a long pandas, polars or Arrow frame with one row per vote.

        Columns not named are found among the usual aliases (task, worker, answer, ...).
        `missing` lists answers that mean "don't know"; they are dropped and counted.
        """
        where = where or Where("the frame")
        table = to_polars(frame)
        names = [find_column(table, role, given, where) for role, given in
                 (("item", item), ("annotator", annotator), ("label", label))]  # fmt: skip
        if len(set(names)) < 3:
            raise InputError(f"{where.source}: item, annotator and label must be three different columns, got {names}")
        weights = None if weight is None else table[find_column(table, "weight", weight, where)]
        items, annotators, labels = (table[name] for name in names)
        return cls._from_columns(items, annotators, labels, weights, classes=classes, missing=missing, where=where)

    @classmethod
    def from_arrays(
        cls,
        item: Any,
        annotator: Any,
        label: Any,
        weight: Any = None,
        *,
        classes: Sequence[Any] | None = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        missing: Iterable[Any] = (),
    ) -> Annotations:
        """Build from three sequences of equal length: one entry per vote.

        `items`, `annotators` and `classes` fix the vocabularies and their order; they may
        contain entries without votes.
        """
        columns = [series_of(values) for values in (item, annotator, label)]
        if len({len(column) for column in columns}) > 1:
            sizes = ", ".join(str(len(column)) for column in columns)
            raise InputError(f"item, annotator and label must have one length, got {sizes}")
        weights = None if weight is None else series_of(weight)
        if weights is not None and len(weights) != len(columns[0]):
            raise InputError(f"{len(weights)} weights for {len(columns[0])} votes; give one weight per vote")
        return cls._from_columns(
            columns[0],
            columns[1],
            columns[2],
            weights,
            classes=classes,
            items=items,
            annotators=annotators,
            missing=missing,
            where=Where(),
        )

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        *,
        missing: Any = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Annotations:
        """Build from an items x annotators table in which absent votes are NaN, None, masked or `missing`.

        A frame gives its columns as annotator ids and, in pandas, its index as item ids; otherwise
        ids are positions.
        """
        if hasattr(matrix, "column_names"):
            matrix = to_polars(matrix)
        if items is None and hasattr(matrix, "index") and hasattr(matrix, "columns"):
            items = list(matrix.index)
        if annotators is None and hasattr(matrix, "columns"):
            annotators = list(matrix.columns)
        if isinstance(matrix, np.ma.MaskedArray):
            mask, matrix = np.ma.getmaskarray(matrix), matrix.data.astype(object)
            matrix[mask] = None
        # Lists become objects: numpy would turn a NaN beside text into the text "nan".
        cells = np.array(matrix, dtype=object) if isinstance(matrix, list | tuple) else np.asarray(matrix)
        if cells.ndim != 2:
            raise InputError(f"a vote matrix has two axes, items x annotators; this one has shape {cells.shape}")
        n_items, n_annotators = cells.shape
        items = range(n_items) if items is None else items
        annotators = range(n_annotators) if annotators is None else annotators
        if (len(items), len(annotators)) != cells.shape:
            raise InputError(f"matrix of shape {cells.shape} with {len(items)} item ids and {len(annotators)} annotator ids")
        flat = tidy(series_of(cells.ravel()))
        present = (~missing_mask(flat, () if missing is None else missing)).to_numpy()
        if not present.any():
            raise InputError(
                "the matrix holds no votes; name the marker of absent votes with missing=... "
                "(Snorkel and CrowdLayer files use -1)"
            )
        n, a = np.nonzero(present.reshape(cells.shape))
        item_ids, annotator_ids = vocabulary_series(items, "item ids"), vocabulary_series(annotators, "annotator ids")
        labels = tidy(flat.filter(pl.Series(present)))
        codes, class_ids = _label_codes(labels, classes, Where("the matrix"))
        return cls._from_codes(n, a, codes, vocabulary_array(item_ids), vocabulary_array(annotator_ids), class_ids)

    @classmethod
    def _from_columns(
        cls,
        item: pl.Series,
        annotator: pl.Series,
        label: pl.Series,
        weight: pl.Series | None,
        *,
        where: Where,
        classes: Sequence[Any] | None = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        missing: Iterable[Any] = (),
    ) -> Annotations:
        if len(item) == 0 and items is None:
            raise InputError(f"{where.source}: no rows; expected one row per vote with an item, an annotator and a label")
        item_codes, item_ids = _id_codes(item, items, "item", where)
        annotator_codes, annotator_ids = _id_codes(annotator, annotators, "annotator", where)
        label = tidy(label)
        absent = missing_mask(label, missing)
        present = (~absent).to_numpy()
        # Integers that shared a column with text markers ("?") are still integers.
        marked = int(absent.sum()) > label.null_count()
        kept = _as_integers(label.filter(~absent)) if marked else label.filter(~absent)
        label_codes, class_ids = _label_codes(kept, classes, where, np.flatnonzero(present))
        weights = None if weight is None else _checked_weights(weight, where)[present]
        votes = cls._from_codes(
            item_codes[present], annotator_codes[present], label_codes, item_ids, annotator_ids, class_ids, weights
        )
        return replace(votes, n_missing=int(len(present) - present.sum()))

    @classmethod
    def _from_codes(
        cls,
        item: NDArray[Any],
        annotator: NDArray[Any],
        label: NDArray[Any],
        items: NDArray[Any],
        annotators: NDArray[Any],
        classes: NDArray[Any],
        weight: NDArray[np.float64] | None = None,
        gold: NDArray[np.int16] | None = None,
    ) -> Annotations:
        """Sort votes by item, annotator and label, so that row order never matters."""
        n_annotators, n_classes = max(len(annotators), 1), max(len(classes), 1)
        if n_classes > np.iinfo(np.int16).max:
            raise InputError(f"{n_classes} different labels: these look like values, not classes (the limit is 32767)")
        if len(items) * n_annotators * n_classes >= 2**63 or n_annotators * n_classes >= 2**31:
            raise InputError(f"{len(items)} items x {n_annotators} annotators x {n_classes} classes exceed 64-bit codes")
        # One sortable key per vote; sorting keys themselves is several times faster than an argsort.
        key = (item.astype(np.int64) * n_annotators + annotator) * n_classes + label
        if weight is None:
            key.sort()
        else:
            order = np.lexsort((weight, key))
            key, weight = key[order], np.ascontiguousarray(weight[order])
        pair = key // n_classes
        item_ptr = np.searchsorted(pair, np.arange(len(items) + 1, dtype=np.int64) * n_annotators)
        return cls(
            item_ptr=item_ptr.astype(np.int64),
            annotator=(pair % n_annotators).astype(np.int32),
            label=(key - pair * n_classes).astype(np.int16),
            items=items,
            annotators=annotators,
            classes=classes,
            weight=weight,
            gold=gold,
        )

    # -- operations ----------------------------------------------------------------------------

    def select(self, *, items: Iterable[Any] | None = None, annotators: Iterable[Any] | None = None) -> Annotations:
        """Keep these items and these annotators (by id) and the votes between them.

        Selecting items keeps every annotator in the vocabulary, and the other way round, so
        that codes of the untouched side stay the same.
        """
        votes = self
        if items is not None:
            votes = votes._take_items(np.sort(votes._positions(items, "item")))
        if annotators is not None:
            votes = votes._take_annotators(np.sort(votes._positions(annotators, "annotator")))
        return votes

    def drop(self, *, items: Iterable[Any] | None = None, annotators: Iterable[Any] | None = None) -> Annotations:
        """Remove these items and these annotators (by id) with their votes."""
        votes = self
        if items is not None:
            votes = votes._take_items(np.delete(np.arange(votes.n_items), votes._positions(items, "item")))
        if annotators is not None:
            gone = votes._positions(annotators, "annotator")
            votes = votes._take_annotators(np.delete(np.arange(votes.n_annotators), gone))
        return votes

    def concat(self, *others: Annotations) -> Annotations:
        """Append the votes of others; vocabularies become unions, keeping this one's classes first."""
        parts = (self, *others)
        items = _union([part.items for part in parts], sort=True)
        annotators = _union([part.annotators for part in parts], sort=True)
        classes = _union([part.classes for part in parts], sort=False)
        item = np.concatenate([_translate(part.items, items)[part.item] for part in parts])
        annotator = np.concatenate([_translate(part.annotators, annotators)[part.annotator] for part in parts])
        label = np.concatenate([_translate(part.classes, classes)[part.label] for part in parts])
        weight = None
        if any(part.weight is not None for part in parts):
            weight = np.concatenate([np.ones(part.n_votes) if part.weight is None else part.weight for part in parts])
        gold = None
        if any(part.gold is not None for part in parts):
            gold = np.full(len(items), -1, np.int16)
            for part in parts:
                if part.gold is not None:
                    known = np.flatnonzero(part.gold >= 0)
                    gold[_translate(part.items, items)[known]] = _translate(part.classes, classes)[part.gold[known]]
        votes = self._from_codes(item, annotator, label, items, annotators, classes, weight, gold)
        return replace(votes, n_missing=sum(part.n_missing for part in parts))

    def split(
        self, fraction: float = 0.2, *, by: str = "annotation", random_state: int | None = 0
    ) -> tuple[Annotations, Annotations]:
        """Cut into (rest, held out) at random, by single annotations or by whole items.

        Cut by annotation, both parts keep all vocabularies; cut by item, each keeps its items.
        """
        if not 0 < fraction < 1:
            raise InputError(f"fraction must lie strictly between 0 and 1, got {fraction}")
        if by not in ("annotation", "item"):
            raise InputError(f"by must be 'annotation' or 'item', got {by!r}")
        rng = np.random.default_rng(random_state)
        size = self.n_votes if by == "annotation" else self.n_items
        held = np.zeros(size, bool)
        held[rng.permutation(size)[: round(fraction * size)]] = True
        if by == "annotation":
            return self._take_votes(~held), self._take_votes(held)
        return self._take_items(np.flatnonzero(~held)), self._take_items(np.flatnonzero(held))

    def with_classes(self, classes: Sequence[Any]) -> Annotations:
        """Use these classes, in this order; every label in use must be among them."""
        wanted = vocabulary_series(classes, "classes")
        new = codes_of(tidy(series_of(self.classes)), wanted)
        gold = self.gold
        known = self.label[:0] if gold is None else gold[gold >= 0]
        used = np.bincount(np.concatenate([self.label, known]), minlength=self.n_classes) > 0
        lost = [str(c) for c in self.classes[(new < 0) & used]]
        if lost:
            raise InputError(f"labels {lost} occur in the votes or in gold but are not among the classes {wanted.to_list()}")
        if gold is not None:
            gold = np.where(gold >= 0, new[gold], -1).astype(np.int16)
        votes = self._from_codes(
            self.item, self.annotator, new[self.label], self.items, self.annotators, vocabulary_array(wanted), self.weight, gold
        )
        return replace(votes, n_missing=self.n_missing)

    def with_gold(self, gold: Any) -> Annotations:
        """Attach known classes of some items: a mapping, a frame with item and label, or [N] labels."""
        from crowdwise.gold import encode_gold

        return replace(self, gold=encode_gold(self, gold))

    def deduplicate(self) -> Annotations:
        """Keep one of each repeated (item, annotator, label) vote; the lightest, where weights differ."""
        same = (self.item[1:] == self.item[:-1]) & (self.row[1:] == self.row[:-1])
        return self._take_votes(np.concatenate([np.ones(min(self.n_votes, 1), bool), ~same]))

    def to_frame(self) -> pl.DataFrame:
        """Return a tidy polars frame: item, annotator, label and, where given, weight."""
        columns = {
            "item": series_of(self.items)[self.item],
            "annotator": series_of(self.annotators)[self.annotator],
            "label": series_of(self.classes)[self.label.astype(np.int32)],
        }
        return pl.DataFrame(columns if self.weight is None else columns | {"weight": self.weight})

    def to_matrix(self, missing: Any = None) -> NDArray[Any]:
        """Return an items x annotators object array; refuses repeated votes, which do not fit a cell."""
        repeated = (self.item[1:] == self.item[:-1]) & (self.annotator[1:] == self.annotator[:-1])
        if repeated.any():
            e = int(np.flatnonzero(repeated)[0])
            raise InputError(
                f"annotator {self.annotators[self.annotator[e]]!r} labelled item {self.items[self.item[e]]!r} "
                "more than once; a matrix holds one vote per cell (use to_frame)"
            )
        cells = np.full((self.n_items, self.n_annotators), missing, dtype=object)
        cells[self.item, self.annotator] = self.classes[self.label]
        return cells

    def summary(self) -> dict[str, Any]:
        """Return counts and agreement: pairwise, Fleiss' kappa and Krippendorff's alpha."""
        from crowdwise.agreement import summary

        return summary(self)

    # -- parts of operations -------------------------------------------------------------------

    def _positions(self, ids: Iterable[Any], what: str) -> NDArray[np.int64]:
        vocabulary = self.items if what == "item" else self.annotators
        wanted = tidy(series_of([ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else ids)).unique(
            maintain_order=True
        )
        # A bootstrap sample of items repeats ids, hence the second lookup in the other direction.
        known = tidy(series_of(vocabulary))
        codes = codes_of(wanted, known.unique())
        if (codes < 0).any():
            unknown = str(wanted[int(np.flatnonzero(codes < 0)[0])])
            raise InputError(
                f"no {what} {unknown!r} in these votes{did_you_mean(unknown, [str(v) for v in vocabulary[:10000]])}"
            )
        return np.flatnonzero(codes_of(known, wanted) >= 0)

    def _take_items(self, keep: NDArray[np.int64]) -> Annotations:
        counts = self.votes_per_item[keep]
        item_ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # Index of every kept vote: each item's start repeated, plus a running offset inside the item.
        index = np.repeat(self.item_ptr[:-1][keep] - item_ptr[:-1], counts) + np.arange(item_ptr[-1])
        return replace(
            self,
            item_ptr=item_ptr,
            annotator=self.annotator[index],
            label=self.label[index],
            items=self.items[keep],
            weight=None if self.weight is None else self.weight[index],
            gold=None if self.gold is None else self.gold[keep],
        )

    def _take_annotators(self, keep: NDArray[np.int64]) -> Annotations:
        new = np.full(self.n_annotators, -1, np.int32)
        new[keep] = np.arange(len(keep), dtype=np.int32)
        votes = self._take_votes(new[self.annotator] >= 0)
        return replace(votes, annotator=new[votes.annotator], annotators=self.annotators[keep])

    def _take_votes(self, mask: NDArray[np.bool_]) -> Annotations:
        kept = np.concatenate([[0], np.cumsum(mask)])
        return replace(
            self,
            item_ptr=kept[self.item_ptr].astype(np.int64),
            annotator=self.annotator[mask],
            label=self.label[mask],
            weight=None if self.weight is None else self.weight[mask],
        )


def _id_codes(
    column: pl.Series, given: Sequence[Any] | None, what: str, where: Where
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode item or annotator ids; a missing id is an error that names its row."""
    column = tidy(column)
    absent = missing_mask(column, ())
    if absent.any():
        row = int(absent.arg_true()[0])
        raise InputError(f"{where.row(row)}: the {what} id is missing; remove the row or fill it in")
    if given is None:
        return encode(column)
    vocabulary = vocabulary_series(given, f"{what} ids")
    codes = codes_of(column, vocabulary)
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where.row(row)}: {what} {column[row]!r} is not among the given {what}s")
    return codes, vocabulary_array(vocabulary)


def _label_codes(
    labels: pl.Series, classes: Sequence[Any] | None, where: Where, rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode labels against the given classes, or against those that occur."""
    if classes is None:
        if len(labels) == 0:
            raise InputError(
                f"{where.source}: every label is missing, so no class is known; name them with classes=... or --classes"
            )
        return encode(labels)
    vocabulary = vocabulary_series(classes, "classes")
    codes = codes_of(labels, vocabulary)
    if (codes < 0).any():
        index = int(np.flatnonzero(codes < 0)[0])
        row = index if rows is None else int(rows[index])
        known = [str(c) for c in vocabulary.to_list()]
        raise InputError(
            f"{where.row(row)}: label {str(labels[index])!r} is not among the classes {', '.join(known[:20])}"
            + did_you_mean(str(labels[index]), known)
        )
    return codes, vocabulary_array(vocabulary)


def _as_integers(labels: pl.Series) -> pl.Series:
    """Turn text that consists of plain integers into integers; leave anything else alone."""
    if labels.dtype != pl.String or not labels.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all():
        return labels
    return labels.cast(pl.Int64)


def _checked_weights(weight: pl.Series, where: Where) -> NDArray[np.float64]:
    values = np.array(weight.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"{where.row(row)}: weight {weight[row]!r} is not a finite number >= 0")
    return values


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _union(vocabularies: list[NDArray[Any]], sort: bool) -> NDArray[Any]:
    """Union of vocabularies: the first one's order, or sorted as `encode` does."""
    series = [tidy(series_of(vocabulary)) for vocabulary in vocabularies if len(vocabulary)]
    if len({part.dtype for part in series}) > 1:
        series = [as_text(part) for part in series]
    union = pl.concat(series).unique(maintain_order=True) if series else pl.Series([], dtype=pl.String)
    return vocabulary_array(union.sort() if sort else union)


def _translate(old: NDArray[Any], new: NDArray[Any]) -> NDArray[np.int32]:
    return codes_of(tidy(series_of(old)), tidy(series_of(new)))
