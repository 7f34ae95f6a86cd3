"""`Annotations`: votes for classes, the structure that most methods consume.

An immutable edge list of votes sorted by item, with the vocabularies of items, annotators and classes. Memory grows with the
number of votes, never with items x annotators; an annotator may label an item several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.answers import ByItem, frozen
from crowdwise.data.columns import column_source, columns_by_role
from crowdwise.data.encode import (
    Where,
    checked_weights,
    id_codes,
    integers,
    label_codes,
    missing_mask,
    series_of,
    sorted_votes,
    tidy,
    to_polars,
    warn_of_missing_words,
)
from crowdwise.data.gold import encode_gold
from crowdwise.data.groups import Groups, groups_of
from crowdwise.data.matrices import dense_matrix, matrix_votes
from crowdwise.data.storable import storable, within
from crowdwise.errors import InputError

__all__ = ["Annotations"]


@storable
@dataclass(frozen=True, eq=False, repr=False)
class Annotations(ByItem):
    """Votes of many annotators on many items, as integer codes with their vocabularies.

    Build one with `crowdwise.read`, `from_frame`, `from_matrix` or `from_arrays`; the constructor takes sorted codes.

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
    groups : Groups or None
        Whom each item is about, for methods and measures that look at groups of items.
    n_missing
        Votes dropped on entry because their label was missing.
    soft
        Whether votes are distributions over the classes: an annotator's rows on an item are then one answer, whose weights are
        its probabilities. See `from_probabilities`.

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
    groups: Groups | None = None
    soft: bool = False

    per_vote: ClassVar[tuple[str, ...]] = ("annotator", "label", "weight")
    per_item: ClassVar[tuple[str, ...]] = ("items", "gold", "groups")
    _missing_noun: ClassVar[str] = "labels"
    #: Whether nobody knows who voted, so that every vote has an annotator of its own.
    anonymous: ClassVar[bool] = False

    @property
    def times(self) -> NDArray[np.float64] | None:
        """How many items each item stands for, [N]; None where it is one each. See `crowdwise.data.patterns`."""
        return None

    def sound(self) -> bool:
        """Whether the arrays of saved votes agree with each other."""
        known = self.gold is None or within(self.gold, -1, self.n_classes)
        return super().sound() and within(self.label, 0, self.n_classes) and known

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def known_codes(self) -> NDArray[np.int16]:
        """Known classes as loops over items take them: `gold`, [N], or nothing, [0], where none is known."""
        return np.empty(0, np.int16) if self.gold is None else self.gold

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether the class of each item is known, [N]."""
        return np.zeros(self.n_items, bool) if self.gold is None else self.gold >= 0

    @property
    def n_gold(self) -> int:
        """Number of items whose class is known."""
        return int(self.is_known.sum())

    @property
    def shape(self) -> tuple[int]:
        """``(n_items,)``: scikit-learn's splitters cut votes by item."""
        return (self.n_items,)

    def __len__(self) -> int:
        return self.n_items

    def __getitem__(self, positions: Any) -> Annotations:
        """Return the items at these positions (an index array, mask or slice) with their votes."""
        return self.take_items(np.atleast_1d(np.arange(self.n_items)[positions]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """One label per item, [N]: the known one, or that of most votes; for folds and scores, see `data.one_label`."""
        from crowdwise.data.one_label import one_label_each, refuse_to_trainers

        if copy is False:
            raise ValueError("votes become labels only as a new array")
        refuse_to_trainers()
        return np.asarray(one_label_each(self), dtype)

    def _described(self) -> str:
        return f"{super()._described()}, {self.n_classes} classes"

    def __repr__(self) -> str:
        plain = super().__repr__()
        return plain.replace(f"({self.n_votes} votes", f"({self.n_answers} soft votes", 1) if self.soft else plain

    def _repr_html_(self) -> str:
        from crowdwise.data.notebook import votes_html

        return votes_html(self)

    @cached_property
    def row(self) -> NDArray[np.int32]:
        """``annotator * K + label`` of every vote, [E]: its row in a [A K, K] table."""
        return frozen(self.annotator * np.int32(self.n_classes) + self.label)

    @property
    def pair(self) -> NDArray[np.int64]:
        """``item * A + annotator`` of every vote, [E]: its cell in an [N, A] table, rising."""
        return self.item.astype(np.int64) * self.n_annotators + self.annotator

    def by_class(self, values: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Sum of a value per vote, [E], or number of the votes, for each class on each item, [N, K]."""
        cell = self.item.astype(np.int64) * self.n_classes + self.label
        sums = np.bincount(cell, values, self.n_items * self.n_classes).astype(np.float64, copy=False)
        return sums.reshape(self.n_items, self.n_classes)

    @property
    def label_shares(self) -> NDArray[np.float64]:
        """Share of each class among the votes, [K]."""
        return np.asarray(np.bincount(self.label, minlength=self.n_classes) / max(self.n_votes, 1))

    @cached_property
    def answers(self) -> NDArray[np.float64]:
        """Weight of the votes of each annotator for each class, [A, K]."""
        size = self.n_annotators * self.n_classes
        counts = np.bincount(self.row, self.weight, minlength=size).astype(np.float64, copy=False)
        return frozen(counts.reshape(self.n_annotators, self.n_classes))

    @cached_property
    def answer_ptr(self) -> NDArray[np.int64]:
        """Where the rows of each answer begin, [S + 1]: a row each, or the rows of one distribution."""
        if not self.soft:
            return frozen(np.arange(self.n_votes + 1))
        new = (np.diff(self.item) != 0) | (np.diff(self.annotator) != 0)
        starts = np.flatnonzero(np.concatenate([np.ones(min(self.n_votes, 1), bool), new]))
        return frozen(np.append(starts, self.n_votes))

    def _rows_of_answers(self) -> NDArray[np.int64]:
        return np.diff(self.answer_ptr)

    @property
    def n_answers(self) -> int:
        """Number of answers: votes, or distributions."""
        return len(self.answer_ptr) - 1

    @property
    def answers_per_item(self) -> NDArray[np.int64]:
        """Answers on each item, [N]."""
        return np.bincount(self.item[self.answer_ptr[:-1]], minlength=self.n_items) if self.soft else self.votes_per_item

    @property
    def answers_per_annotator(self) -> NDArray[np.int64]:
        """Answers of each annotator, [A]."""
        return np.bincount(self.annotator[self.answer_ptr[:-1]], minlength=self.n_annotators)

    def hardened(self) -> Annotations:
        """Votes for the most probable class of every distribution, the first where two are; hard votes as they are."""
        if not self.soft:
            return self
        answer = np.repeat(np.arange(self.n_answers), np.diff(self.answer_ptr))
        best = np.lexsort((self.label, -self.weights, answer))[self.answer_ptr[:-1]]
        return replace(self.take_votes(best), weight=None, soft=False)

    def weighed(self, factor: NDArray[np.float64]) -> Annotations:
        """The same votes, each of which counts for so many times its weight, [E]."""
        return replace(self, weight=factor if self.weight is None else factor * self.weight)

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def from_probabilities(
        cls,
        item: Any,
        annotator: Any,
        probability: Any,
        *,
        classes: Sequence[Any],
        where: Where | None = None,
    ) -> Annotations:
        """Build from votes that are distributions: a probability, or its logarithm, per class and vote, [E, K].

        Rows that sum to one, or to 100, are probabilities; rows of numbers up to 0 are logarithms of them, as language models
        give. A row without any number is a missing vote. An annotator has one distribution per item: several are averaged.

        Examples
        --------
        >>> Annotations.from_probabilities(["a", "a"], ["x", "y"], [[0.8, 0.2], [0.4, 0.6]], classes=["cat", "dog"])
        Annotations(2 soft votes: 1 items, 2 annotators, 2 classes)
        """
        from crowdwise.data.probabilities import soft_votes

        ids = to_polars({"item": item, "annotator": annotator})
        *codes, n_missing = soft_votes(ids, probability, list(classes), where or Where())
        return cls.from_codes(*codes, n_missing=n_missing, soft=True)

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

        Columns not named are found among the usual aliases (task, worker, answer, ...). `missing` lists answers that mean
        "don't know"; they are dropped and counted.
        """
        roles = {"item": item, "annotator": annotator, "label": label}
        table, place = columns_by_role(column_source(frame, where.source if where else "the frame"), roles, {"weight": weight})
        return cls.from_columns(table, where or place, classes=classes, missing=missing)

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

        `items`, `annotators` and `classes` fix the vocabularies and their order; they may contain entries without votes.
        """
        columns = {"item": item, "annotator": annotator, "label": label} | ({} if weight is None else {"weight": weight})
        known = {"classes": classes, "items": items, "annotators": annotators}
        return cls.from_columns(to_polars(columns), Where(), missing=missing, **known)

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

        Where no cell is absent, -1 beside two or more whole numbers from 0 up is taken for no vote, with a warning; beside 0
        and 1 it may be either and is refused, unless `missing` or `classes` says which.
        A frame gives its columns as annotator ids and, in pandas, its index as item ids; otherwise ids are positions.
        """
        return cls.from_codes(*matrix_votes(matrix, missing, items, annotators, classes))

    @classmethod
    def from_columns(
        cls,
        table: pl.DataFrame,
        where: Where,
        *,
        classes: Sequence[Any] | None = None,
        items: Sequence[Any] | pl.Series | None = None,
        annotators: Sequence[Any] | pl.Series | None = None,
        missing: Iterable[Any] = (),
    ) -> Annotations:
        """Build from columns called item, annotator, label and perhaps weight; errors name the rows of `where`.

        Rows whose label is missing are dropped and counted; whoever and whatever they name stays known.
        """
        if table.height == 0 and items is None:
            raise InputError(f"{where.source}: no rows; expected one row per vote with an item, an annotator and a label")
        item, item_ids = id_codes(table["item"], items, "item", where)
        annotator, annotator_ids = id_codes(table["annotator"], annotators, "annotator", where)
        label = tidy(table["label"])
        absent = missing_mask(label, missing)
        present = (~absent).to_numpy()
        given = label.filter(~absent)
        # Integers that shared a column with text markers ("?") are still integers.
        given = integers(given) if int(absent.sum()) > label.null_count() else given
        rows = np.flatnonzero(present)
        codes, class_ids = label_codes(given, classes, where, rows)
        if classes is None:
            warn_of_missing_words(class_ids, codes, rows, where)
        weight = checked_weights(table["weight"], where)[present] if "weight" in table.columns else None
        votes = (item[present], annotator[present], codes, item_ids, annotator_ids, class_ids, weight)
        return cls.from_codes(*votes, n_missing=int(absent.sum()))

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
        *,
        n_missing: int = 0,
        groups: Groups | None = None,
        soft: bool = False,
    ) -> Annotations:
        """Build from codes in any order, one per vote, and their vocabularies.

        Votes are sorted by item, annotator and label, so that row order never matters; `gold` and `groups` are by item.
        """
        sizes = (len(items), len(annotators), len(classes))
        item_ptr, annotator, label, weight = sorted_votes(item, annotator, label, weight, sizes)
        return cls(item_ptr, annotator, label, items, annotators, classes, weight, gold, n_missing, groups, soft)

    def concat(self, *others: Annotations) -> Annotations:
        """Append the votes of others; vocabularies become unions, keeping this one's classes first."""
        from crowdwise.data.joining import joined

        return joined(self, *others)

    def with_classes(self, classes: Sequence[Any]) -> Annotations:
        """Use these classes, in this order; every label in use must be among them."""
        from crowdwise.data.joining import reclassed

        return reclassed(self, classes)

    def gold_labels(self) -> list[Any] | None:
        """The known labels by name, one per item and None where it is not known; None without any."""
        if self.gold is None or not self.n_gold:
            return None
        return [self.classes[code] if code >= 0 else None for code in self.gold]

    def with_gold(self, gold: Any) -> Annotations:
        """Attach known classes of some items: a mapping, a frame with item and label, or [N] labels; None removes them."""
        return replace(self, gold=None if gold is None else encode_gold(self, gold))

    def with_groups(self, groups: Any) -> Annotations:
        """Attach the group of every item: a mapping, a frame with item and group, or [N] groups; None removes them.

        Examples
        --------
        >>> votes = Annotations.from_arrays(["a", "b"], ["x", "x"], [0, 1]).with_groups({"a": "old", "b": "young"})
        >>> votes.groups
        Groups(old: 1, young: 1)
        >>> votes.select(items=["b"]).groups.sizes.tolist()
        [0, 1]
        """
        return replace(self, groups=None if groups is None else groups_of(self, groups))

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
        return dense_matrix(self, missing)

    def summary(self) -> dict[str, Any]:
        """Return counts and agreement: pairwise, Fleiss' kappa and Krippendorff's alpha."""
        from crowdwise.data.agreement import summary

        return summary(self)
