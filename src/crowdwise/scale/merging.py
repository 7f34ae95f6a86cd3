"""From the local vocabularies of many passes to those of all votes, decided exactly as in memory.

Labels are few, so what they mean (classes, markers of missing answers, integers in text) is decided
by handing the distinct ones to the same function that `crowdwise.io.read` uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import codes_of, integers, missing_mask, series_of
from crowdwise.errors import InputError
from crowdwise.io.source import Places
from crowdwise.io.votes import Export, Request, assemble
from crowdwise.scale.inputs import Plan
from crowdwise.scale.spilling import Spilled, settled

__all__ = ["Vocabularies", "merge"]


@dataclass(frozen=True)
class Vocabularies:
    """Vocabularies of all votes, and for each pass what its local codes become.

    Attributes
    ----------
    annotators, classes
        Sorted, or classes in the order given.
    item_type
        Int64, String or Boolean: one type for the item ids of all shards.
    annotator_maps, label_maps, gold_maps
        For each pass the code of every local code; -1 for labels that count as missing.
    """

    annotators: pl.Series
    classes: NDArray[Any]
    item_type: str
    n_missing: int
    has_gold: bool
    annotator_maps: list[NDArray[np.int32]]
    label_maps: list[NDArray[np.int16]]
    gold_maps: list[NDArray[np.int16]]


@dataclass(frozen=True)
class _FirstPlaces(Places):
    """Where each distinct label occurs first, in whichever file."""

    places: tuple[str, ...] = ()
    times: tuple[int, ...] = ()

    def votes(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Votes for each of some distinct labels."""
        return np.asarray(np.asarray(self.times)[rows])

    def row(self, index: int) -> str:
        """Return, for example, "votes/part-3.csv row 17"."""
        return self.places[index]


def merge(spilled: Sequence[Spilled], plan: Plan) -> Vocabularies:
    """Unite the vocabularies of all passes; a label outside the given classes is an error that names its row."""
    if not sum(each.n_rows for each in spilled):
        raise InputError(f"{plan.source}: no rows; expected one row per vote with an item, an annotator and a label")
    if len({each.hashes for each in spilled}) > 1:
        raise InputError("the machines do not hash ids alike; install the same version of polars on all of them")
    item, annotator = plan.columns["item"], plan.columns["annotator"]
    item_type = "Int64" if all(each.whole for each in spilled) else "Boolean" if item.kind == "Boolean" else "String"
    everyone = settled(pl.concat([each.annotators for each in spilled]).unique(), annotator).sort()
    classes, label_codes, gold_codes = _classes(spilled, plan)
    labels, golds = _distinct([each.labels for each in spilled]), _distinct([each.golds for each in spilled])
    label_maps = [_mapped(label_codes, each.labels, labels) for each in spilled]
    dropped = sum(int(each.label_counts[codes < 0].sum()) for each, codes in zip(spilled, label_maps, strict=True))
    return Vocabularies(
        annotators=everyone,
        classes=classes,
        item_type=item_type,
        n_missing=dropped + sum(each.n_unlabelled for each in spilled),
        has_gold=bool((gold_codes >= 0).any()),
        annotator_maps=[codes_of(each.annotators.cast(everyone.dtype), everyone) for each in spilled],
        label_maps=label_maps,
        gold_maps=[_mapped(gold_codes, each.golds, golds) for each in spilled],
    )


def _classes(spilled: Sequence[Spilled], plan: Plan) -> tuple[NDArray[Any], NDArray[np.int16], NDArray[np.int16]]:
    """Return the classes, and the class of every distinct label and gold label, -1 where it means nothing."""
    labels, golds = _distinct([each.labels for each in spilled]), _distinct([each.golds for each in spilled])
    places = _first([each.labels for each in spilled], [each.label_places for each in spilled], labels)
    gold_items = _first([each.golds for each in spilled], [each.gold_items for each in spilled], golds)
    names = pl.Series([f"label {code}" for code in range(len(labels))], dtype=pl.String)
    label, gold = labels, golds
    column, golden = plan.columns["label"], plan.columns.get("gold")
    if golden is not None and column.kind == golden.kind == "text":
        # Labels and gold become integers together or not at all.
        both = integers(pl.concat([label, gold]))
        label, gold = both[: len(label)], both[len(label) :]
    else:
        label, gold = settled(label, column), gold if golden is None else settled(gold, golden)
    item = names
    if any(each.n_unlabelled for each in spilled):
        item = pl.concat([names, pl.Series(["no label"])])
        label = pl.concat([label, pl.Series([None], dtype=label.dtype)])
    votes = pl.DataFrame({"item": item, "annotator": np.zeros(len(item), np.int64), "label": label})
    known = ~missing_mask(gold, ())
    pairs = pl.DataFrame({"item": pl.Series(gold_items, dtype=pl.String), "label": gold}).filter(known)
    request = Request(several=plan.several)
    counts = sum((_spread_counts(each, labels) for each in spilled), np.zeros(len(labels), np.int64))
    unlabelled = [sum(each.n_unlabelled for each in spilled)][: len(item) - len(labels)]
    times = [*counts.tolist(), *unlabelled]
    where = _FirstPlaces(plan.source, places=tuple(places), times=tuple(times))
    export = Export(votes, where, pairs if len(pairs) else None, standing_for=pl.Series(times, dtype=pl.Int64))
    built = assemble(export, request, classes=plan.classes, missing=plan.missing)

    items = series_of(built.items)
    position = codes_of(names, items)
    voted = np.diff(built.item_ptr)[position] > 0
    label_codes = np.full(len(labels), -1, np.int16)
    label_codes[voted] = built.label[built.item_ptr[position[voted]]]
    gold_codes = np.full(len(golds), -1, np.int16)
    if built.gold is not None:
        gold_codes[known.to_numpy()] = built.gold[codes_of(pairs["item"], items)]
    return built.classes, label_codes, gold_codes


def _spread_counts(spilled: Spilled, labels: pl.Series) -> NDArray[np.int64]:
    """Votes of one pass for each of all labels."""
    counts = np.zeros(len(labels), np.int64)
    counts[codes_of(spilled.labels, labels)] = spilled.label_counts
    return counts


def _distinct(parts: list[pl.Series]) -> pl.Series:
    return pl.concat(parts).unique(maintain_order=True)


def _first(parts: list[pl.Series], notes: list[tuple[str, ...]], everything: pl.Series) -> list[str]:
    """For every distinct value, what the first pass that has it noted about it."""
    first = [""] * len(everything)
    for values, texts in zip(reversed(parts), reversed(notes), strict=True):
        for code, text in zip(codes_of(values, everything).tolist(), texts, strict=True):
            first[code] = text
    return first


def _mapped(codes: NDArray[np.int16], local: pl.Series, everything: pl.Series) -> NDArray[np.int16]:
    return codes[codes_of(local, everything)] if len(local) else np.zeros(0, np.int16)
