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

from crowdwise.data.coding import (
    as_integers,
    checked_weights,
    id_codes,
    label_codes,
    matrix_votes,
    sorted_votes,
    union,
    warn_of_missing_words,
)
from crowdwise.data.encode import (
    Where,
    codes_of,
    find_column,
    missing_mask,
    series_of,
    tidy,
    to_polars,
    translate,
    vocabulary_array,
    vocabulary_series,
)
from crowdwise.data.frozen import Answers
from crowdwise.data.storable import pointers, storable, within
from crowdwise.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

__all__ = ["Annotations"]


@storable
@dataclass(frozen=True, eq=False, repr=False)
class Annotations(Answers):
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

    def sound(self) -> bool:
        """Whether the arrays of saved votes agree with each other."""
        n_votes = len(self.label)
        return (
            pointers(self.item_ptr, self.n_items, n_votes)
            and self.annotator.shape == self.label.shape == (n_votes,)
            and within(self.annotator, 0, self.n_annotators)
            and within(self.label, 0, self.n_classes)
            and (self.weight is None or self.weight.shape == (n_votes,))
            and (self.gold is None or (self.gold.shape == (self.n_items,) and within(self.gold, -1, self.n_classes)))
        )

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def n_votes(self) -> int:
        """Number of votes, E."""
        return len(self.label)

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def n_gold(self) -> int:
        """Number of items whose class is known."""
        return 0 if self.gold is None else int((self.gold >= 0).sum())

    @property
    def shape(self) -> tuple[int]:
        """``(n_items,)``: scikit-learn's splitters cut votes by item."""
        return (self.n_items,)

    def __len__(self) -> int:
        return self.n_items

    def __getitem__(self, positions: Any) -> Annotations:
        """Return the items at these positions (an index array, mask or slice) with their votes."""
        keep = np.atleast_1d(np.arange(self.n_items)[positions])
        return self.take_items(keep)

    def __repr__(self) -> str:
        sizes = f"{self.n_votes} votes: {self.n_items} items, {self.n_annotators} annotators, {self.n_classes} classes"
        return f"Annotations({sizes}{f'; {self.n_missing} missing labels dropped' if self.n_missing else ''})"

    def _repr_html_(self) -> str:
        from crowdwise.data.notebook import votes_html

        return votes_html(self)

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

    @cached_property
    def answers(self) -> NDArray[np.float64]:
        """Weight of the votes of each annotator for each class, [A, K]."""
        size = self.n_annotators * self.n_classes
        counts = np.bincount(self.row, self.weight, minlength=size).astype(np.float64, copy=False)
        return _frozen(counts.reshape(self.n_annotators, self.n_classes))

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
        return cls.from_columns(items, annotators, labels, weights, classes=classes, missing=missing, where=where)

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
        return cls.from_columns(
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
        n, a, labels, item_ids, annotator_ids = matrix_votes(matrix, missing, items, annotators)
        codes, class_ids = label_codes(labels, classes, Where("the matrix"))
        return cls.from_codes(n, a, codes, vocabulary_array(item_ids), vocabulary_array(annotator_ids), class_ids)

    @classmethod
    def from_columns(
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
        item_codes, item_ids = id_codes(item, items, "item", where)
        annotator_codes, annotator_ids = id_codes(annotator, annotators, "annotator", where)
        label = tidy(label)
        absent = missing_mask(label, missing)
        present = (~absent).to_numpy()
        # Integers that shared a column with text markers ("?") are still integers.
        marked = int(absent.sum()) > label.null_count()
        kept = as_integers(label.filter(~absent)) if marked else label.filter(~absent)
        codes, class_ids = label_codes(kept, classes, where, np.flatnonzero(present))
        if classes is None:
            warn_of_missing_words(class_ids, where)
        weights = None if weight is None else checked_weights(weight, where)[present]
        votes = cls.from_codes(
            item_codes[present], annotator_codes[present], codes, item_ids, annotator_ids, class_ids, weights
        )
        return replace(votes, n_missing=int(len(present) - present.sum()))

    @classmethod
    def from_codes(
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
        item_ptr, annotator, label, weight = sorted_votes(
            item, annotator, label, weight, (len(items), len(annotators), len(classes))
        )
        return cls(item_ptr, annotator, label, items, annotators, classes, weight=weight, gold=gold)

    # -- operations ----------------------------------------------------------------------------

    def select(self, *, items: Iterable[Any] | None = None, annotators: Iterable[Any] | None = None) -> Annotations:
        """Keep these items and these annotators (by id) and the votes between them.

        Selecting items keeps every annotator in the vocabulary, and the other way round, so
        that codes of the untouched side stay the same.
        """
        votes = self
        if items is not None:
            votes = votes.take_items(np.sort(votes.positions(items, "item")))
        if annotators is not None:
            votes = votes.take_annotators(np.sort(votes.positions(annotators, "annotator")))
        return votes

    def drop(self, *, items: Iterable[Any] | None = None, annotators: Iterable[Any] | None = None) -> Annotations:
        """Remove these items and these annotators (by id) with their votes."""
        votes = self
        if items is not None:
            votes = votes.take_items(np.delete(np.arange(votes.n_items), votes.positions(items, "item")))
        if annotators is not None:
            gone = votes.positions(annotators, "annotator")
            votes = votes.take_annotators(np.delete(np.arange(votes.n_annotators), gone))
        return votes

    def concat(self, *others: Annotations) -> Annotations:
        """Append the votes of others; vocabularies become unions, keeping this one's classes first."""
        parts = (self, *others)
        items = union([part.items for part in parts], sort=True)
        annotators = union([part.annotators for part in parts], sort=True)
        classes = union([part.classes for part in parts], sort=False)
        item = np.concatenate([translate(part.items, items)[part.item] for part in parts])
        annotator = np.concatenate([translate(part.annotators, annotators)[part.annotator] for part in parts])
        label = np.concatenate([translate(part.classes, classes)[part.label] for part in parts])
        weight = None
        if any(part.weight is not None for part in parts):
            weight = np.concatenate([np.ones(part.n_votes) if part.weight is None else part.weight for part in parts])
        gold = None
        if any(part.gold is not None for part in parts):
            gold = np.full(len(items), -1, np.int16)
            for part in parts:
                if part.gold is not None:
                    known = np.flatnonzero(part.gold >= 0)
                    gold[translate(part.items, items)[known]] = translate(part.classes, classes)[part.gold[known]]
        votes = self.from_codes(item, annotator, label, items, annotators, classes, weight, gold)
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
            return self.take_votes(~held), self.take_votes(held)
        return self.take_items(np.flatnonzero(~held)), self.take_items(np.flatnonzero(held))

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
        votes = self.from_codes(
            self.item, self.annotator, new[self.label], self.items, self.annotators, vocabulary_array(wanted), self.weight, gold
        )
        return replace(votes, n_missing=self.n_missing)

    def with_gold(self, gold: Any) -> Annotations:
        """Attach known classes of some items: a mapping, a frame with item and label, or [N] labels."""
        from crowdwise.data.gold import encode_gold

        return replace(self, gold=encode_gold(self, gold))

    def deduplicate(self) -> Annotations:
        """Keep one of each repeated (item, annotator, label) vote; the lightest, where weights differ."""
        same = (self.item[1:] == self.item[:-1]) & (self.row[1:] == self.row[:-1])
        return self.take_votes(np.concatenate([np.ones(min(self.n_votes, 1), bool), ~same]))

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
        from crowdwise.data.agreement import summary

        return summary(self)

    # -- parts of operations -------------------------------------------------------------------

    def positions(self, ids: Iterable[Any], what: str) -> NDArray[np.int64]:
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

    def take_items(self, keep: NDArray[np.int64]) -> Annotations:
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

    def take_annotators(self, keep: NDArray[np.int64]) -> Annotations:
        new = np.full(self.n_annotators, -1, np.int32)
        new[keep] = np.arange(len(keep), dtype=np.int32)
        votes = self.take_votes(new[self.annotator] >= 0)
        return replace(votes, annotator=new[votes.annotator], annotators=self.annotators[keep])

    def take_votes(self, mask: NDArray[np.bool_]) -> Annotations:
        kept = np.concatenate([[0], np.cumsum(mask)])
        return replace(
            self,
            item_ptr=kept[self.item_ptr].astype(np.int64),
            annotator=self.annotator[mask],
            label=self.label[mask],
            weight=None if self.weight is None else self.weight[mask],
        )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
