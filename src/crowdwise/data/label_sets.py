"""Several labels per item: which of the labels annotators chose, and which they ruled out (`LabelSets`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers, frozen
from crowdwise.data.columns import column_source, columns_by_role, plural_label
from crowdwise.data.encode import Where, id_codes, series_of, to_polars, translate, union
from crowdwise.data.set_columns import ABSTAIN, NEGATIONS, NONE, Spelling, coded_sets, one_text_each
from crowdwise.data.storable import storable, within
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ABSTAIN", "NEGATIONS", "NONE", "LabelSets"]


@storable
@dataclass(frozen=True, eq=False, repr=False)
class LabelSets(Answers):
    """Sets of labels, chosen by many annotators.

    An answer is what one annotator said of one item. A complete answer rules out every label that it does not choose. One
    with a label ruled out by name (``!cat``), or given beside the labels that were shown, says nothing of the rest.

    Attributes
    ----------
    item, annotator : [E]
        Codes of every answer.
    complete : [E]
        Whether labels that were not chosen are ruled out.
    answer, label, chosen : [M]
        What answers say of single labels: which answer, which label, chosen or ruled out.
    items, annotators, labels
        Vocabularies, sorted unless the caller gave an order.
    n_missing
        Rows dropped on entry because they said nothing.
    known_sets : [N, K] or None
        What is known of items: 1 where a label applies, 0 where it does not, -1 in the rows of all other items.

    Examples
    --------
    >>> LabelSets.from_arrays(["x", "x", "y"], ["ann", "bob", "ann"], ["cat|dog", "cat", "none"])
    LabelSets(3 answers: 2 items, 2 annotators, 2 labels)
    """

    item: NDArray[np.int32]
    annotator: NDArray[np.int32]
    complete: NDArray[np.bool_]
    answer: NDArray[np.int64]
    label: NDArray[np.int32]
    chosen: NDArray[np.bool_]
    items: NDArray[Any]
    annotators: NDArray[Any]
    labels: NDArray[Any]
    n_missing: int = 0
    known_sets: NDArray[np.int8] | None = None

    noun: ClassVar[str] = "answers"

    def sound(self) -> bool:
        """Whether the arrays of saved answers agree with each other."""
        return (
            self.item.shape == self.annotator.shape == self.complete.shape
            and self.answer.shape == self.label.shape == self.chosen.shape
            and within(self.item, 0, self.n_items)
            and within(self.annotator, 0, self.n_annotators)
            and within(self.answer, 0, self.n_votes)
            and within(self.label, 0, self.n_labels)
            and (self.known_sets is None or self.known_sets.shape == (self.n_items, self.n_labels))
        )

    @property
    def n_labels(self) -> int:
        """Number of labels, K."""
        return len(self.labels)

    @cached_property
    def votes_per_item(self) -> NDArray[np.int64]:
        """Answers on each item, [N]."""
        return frozen(np.bincount(self.item, minlength=self.n_items))

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Items whose set is known, [N]."""
        return np.zeros(self.n_items, bool) if self.known_sets is None else np.asarray((self.known_sets >= 0).any(axis=1))

    def _described(self) -> str:
        return f"{super()._described()}, {self.n_labels} labels"

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        item: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        shown: str | None = None,
        **how: Any,
    ) -> Self:
        """Build from a pandas, polars or Arrow frame: a row per answer, or per chosen label.

        Columns not named are found among the usual names (item, annotator, label, labels, tags, ...). `shown` names a column of
        the labels that were shown, in the same form. For `how` see `from_arrays`. Cells may be lists of labels.
        """
        source = column_source(frame)
        roles = {"item": item, "annotator": annotator, "label": label or plural_label(source.names)}
        return cls.from_columns(*columns_by_role(source, roles, {"shown": shown}, lists=("label", "shown")), **how)

    @classmethod
    def from_arrays(
        cls,
        item: Any,
        annotator: Any,
        label: Any,
        *,
        shown: Any = None,
        separator: str = "|",
        none: str = NONE,
        abstain: Sequence[str] = ABSTAIN,
        negations: Sequence[str] = NEGATIONS,
        labels: Sequence[Any] | None = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
    ) -> Self:
        """Build from columns of equal length, a row per answer or per chosen label.

        Parameters
        ----------
        label : sequence
            Texts with labels between separators (``cat|dog``), lists of labels, or one label each. Rows of the same
            item and annotator are one answer.
        shown : sequence, optional
            The labels shown, in the same form; without it, all of them were.
        separator, none : str
            Between labels, and the word for the empty set.
        abstain : sequence of str
            Answers that say nothing, as empty cells do. They are dropped.
        negations : sequence of str
            Marks before a label that does not apply, where nothing is said of the others.
        labels, items, annotators : sequence, optional
            All of them, in order.
        """
        columns = {"item": item, "annotator": annotator, "label": one_text_each(label)}
        if shown is not None:
            columns["shown"] = one_text_each(shown)
        how: dict[str, Any] = {"separator": separator, "none": none, "abstain": abstain, "negations": negations}
        vocabularies = {"labels": labels, "items": items, "annotators": annotators}
        return cls.from_columns(to_polars(columns), Where("the answers"), **vocabularies, **how)

    @classmethod
    def from_columns(
        cls,
        table: pl.DataFrame,
        where: Where,
        *,
        labels: Sequence[Any] | None = None,
        items: Sequence[Any] | None = None,
        annotators: Sequence[Any] | None = None,
        **how: Any,
    ) -> Self:
        """Build from columns that are called by their roles; errors name the rows of `where`."""
        spelling = Spelling(**how)
        item_of_row, item_ids = id_codes(table["item"], items, "item", where)
        annotator_of_row, annotator_ids = id_codes(table["annotator"], annotators, "annotator", where)
        n_annotators = max(len(annotator_ids), 1)
        found = coded_sets(table, item_of_row.astype(np.int64) * n_annotators + annotator_of_row, spelling, labels, where)
        item, annotator = np.divmod(found.key, n_annotators)
        entries = (found.complete, found.answer, found.label, found.chosen)
        ids = (item_ids, annotator_ids, found.labels)
        return cls(item.astype(np.int32), annotator.astype(np.int32), *entries, *ids, found.n_missing)

    # -- parts and together --------------------------------------------------------------------

    def take_votes(self, keep: NDArray[Any]) -> Self:
        """Return the answers at these positions (a mask or an index array, which is sorted); vocabularies stay."""
        index = np.sort(np.arange(self.n_votes)[keep])
        new = np.full(self.n_votes, -1, np.int64)
        new[index] = np.arange(len(index))
        said = new[self.answer] >= 0
        of_answers = {"item": self.item[index], "annotator": self.annotator[index], "complete": self.complete[index]}
        return replace(self, **of_answers, answer=new[self.answer[said]], label=self.label[said], chosen=self.chosen[said])

    def take_items(self, keep: NDArray[Any]) -> Self:
        """Return the items at these positions, each once, with their answers; annotators stay."""
        kept = np.sort(np.arange(self.n_items)[keep])
        new = np.full(self.n_items, -1, np.int32)
        new[kept] = np.arange(len(kept), dtype=np.int32)
        answers = self.take_votes(new[self.item] >= 0)
        gold = None if self.known_sets is None else self.known_sets[kept]
        return replace(answers, item=new[answers.item], items=self.items[kept], known_sets=gold)

    def with_gold(self, known: LabelSets) -> Self:
        """Return these answers with those of `known` as what is true; its items and labels join the others.

        >>> answers = LabelSets.from_arrays(["x", "y"], ["ann", "ann"], ["cat", "dog"])
        >>> answers.with_gold(LabelSets.from_arrays(["x"], ["expert"], ["cat|dog"])).known_sets.tolist()
        [[1, 1], [-1, -1]]
        """
        if not known.complete.all() or known.votes_per_item.max(initial=0) > 1:
            raise InputError("known sets must be whole, and one for an item")
        items, (mine, theirs) = self._union((self, known), "items")
        labels = union([self.labels, known.labels], sort=False)
        gold = np.full((len(items), len(labels)), -1, np.int8)
        if self.known_sets is not None:
            gold[mine[:, None], translate(self.labels, labels)] = self.known_sets
        where = theirs[known.item]
        gold[where] = 0
        gold[where[known.answer], translate(known.labels, labels)[known.label]] = 1
        order = np.lexsort((self.annotator, mine[self.item]))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        said, label = rank[self.answer], translate(self.labels, labels)[self.label].astype(np.int32)
        within_answers = np.lexsort((label, said))
        return replace(
            self,
            item=mine[self.item][order].astype(np.int32),
            annotator=self.annotator[order],
            complete=self.complete[order],
            answer=said[within_answers],
            label=label[within_answers],
            chosen=self.chosen[within_answers],
            items=items,
            labels=labels,
            known_sets=gold,
        )

    def concat(self, *others: Self) -> Self:
        """Append the answers of others; vocabularies become unions. Two answers of one annotator on an item are refused."""
        parts = (self, *others)
        items, item_codes = self._union(parts, "items")
        annotators, annotator_codes = self._union(parts, "annotators")
        labels = union([part.labels for part in parts], sort=False)
        item = np.concatenate([codes[part.item] for codes, part in zip(item_codes, parts, strict=True)])
        annotator = np.concatenate([codes[part.annotator] for codes, part in zip(annotator_codes, parts, strict=True)])
        order = np.lexsort((annotator, item))
        again = np.flatnonzero((np.diff(item[order]) == 0) & (np.diff(annotator[order]) == 0))
        if len(again):
            e = int(order[again[0]])
            who, what = annotators.tolist()[annotator[e]], items.tolist()[item[e]]
            raise InputError(f"annotator {who!r} answered item {what!r} twice; keep one answer")
        start = np.cumsum([0, *(part.n_votes for part in parts)])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        answer = rank[np.concatenate([part.answer + first for part, first in zip(parts, start, strict=False)])]
        label = np.concatenate([translate(part.labels, labels)[part.label] for part in parts])
        complete = np.concatenate([part.complete for part in parts])[order]
        within = np.lexsort((label, answer))
        said = (answer[within], label[within], np.concatenate([part.chosen for part in parts])[within])
        n_missing = sum(part.n_missing for part in parts)
        gold = None
        if any(part.known_sets is not None for part in parts):
            gold = np.full((len(items), len(labels)), -1, np.int8)
            for part, codes in zip(parts, item_codes, strict=True):
                here = part.is_known
                # A label that a part does not know of does not apply to what it knows.
                gold[codes[: part.n_items][here]] = 0
                if part.known_sets is not None:
                    gold[codes[: part.n_items][here][:, None], translate(part.labels, labels)] = part.known_sets[here]
        return type(self)(item[order], annotator[order], complete, *said, items, annotators, labels, n_missing, gold)

    # -- as tables -----------------------------------------------------------------------------

    def to_frame(self, separator: str = "|") -> pl.DataFrame:
        """One row per answer: item, annotator and label, in the form that `from_frame` takes."""
        names = np.array([str(name) for name in self.labels], dtype=object)
        texts: list[list[str]] = [[] for _ in range(self.n_votes)]
        for answer, label, chosen in zip(self.answer, self.label, self.chosen, strict=True):
            texts[answer].append(f"{'' if chosen else NEGATIONS[0]}{names[label]}")
        columns = {"item": series_of(self.items)[self.item], "annotator": series_of(self.annotators)[self.annotator]}
        # Names that would be taken for something else are kept apart by JSON.
        plain = not any(separator in name or name.startswith("[") for name in names)
        join = separator.join if plain else partial(json.dumps, ensure_ascii=False)
        return pl.DataFrame({**columns, "label": [join(text) if text else NONE for text in texts]})

    def binary(self, label: int) -> Annotations:
        """What is said of one label, as `Annotations` of the classes 0 and 1 with all items and annotators."""
        value = np.where(self.complete, 0, -1)
        here = self.label == label
        value[self.answer[here]] = self.chosen[here]
        known = np.flatnonzero(value >= 0)
        vocabularies = {"items": range(self.n_items), "annotators": range(self.n_annotators), "classes": [0, 1]}
        votes = Annotations.from_arrays(self.item[known], self.annotator[known], value[known], **vocabularies)
        return votes if self.known_sets is None else replace(votes, gold=self.known_sets[:, label].astype(np.int16))
