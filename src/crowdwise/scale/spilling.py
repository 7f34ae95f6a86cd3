"""One pass over a few files: rows are checked, coded by local vocabularies and divided by item.

What can be decided only over all files (are the ids integers? which labels mean "missing"?) is left
open: labels and annotators are codes into the distinct values as found, and `crowdwise.scale.merging`
decides on those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import checked_weights, codes_of, integers, label_codes, missing_mask, tidy
from crowdwise.data.text_form import one_form
from crowdwise.errors import InputError
from crowdwise.io.source import Places, Table
from crowdwise.io.spelling import spelt_labels
from crowdwise.scale import batches
from crowdwise.scale.batches import raw_type, read_batches
from crowdwise.scale.inputs import Column, Input, Plan

__all__ = ["TOGETHER", "Spilled", "partition_folder", "settled", "spill"]

#: File of the partition of every item with an edge (see `crowdwise.scale.components`), in the folder of what is spilled.
TOGETHER = "together.arrow"

# Twice the number of classes that codes of 16 bits can tell apart: the rest may still be markers of missing answers.
_MOST_LABELS = 2**16


@dataclass(frozen=True)
class Spilled:
    """What a pass found: local vocabularies in the order of their codes, and what only all files together decide.

    `label_places` says where each label occurs first, `gold_items` which item has each gold label
    first; `whole` whether all item ids so far are integers; `hashes` those of fixed values; `unified` how many names of each
    role lost white space or changed their Unicode form, and one of them.
    """

    index: int
    n_rows: int
    n_unlabelled: int
    annotators: pl.Series
    labels: pl.Series
    label_counts: NDArray[np.int64]
    label_places: tuple[str, ...]
    golds: pl.Series
    gold_items: tuple[str, ...]
    whole: bool
    hashes: tuple[int, ...]
    unified: dict[str, tuple[int, tuple[str, str]]] = field(default_factory=dict)


def partition_folder(folder: str | Path, partition: int) -> Path:
    """Return where the votes on the items of one shard are collected."""
    return Path(folder) / "spill" / f"part-{partition:05d}"


def spill(inputs: Input | Sequence[Input], plan: Plan, folder: str, n_partitions: int, index: int = 0) -> Spilled:
    """Divide the votes of these files by a hash of the item; `index` tells the passes apart.

    Parameters
    ----------
    inputs : Input or sequence of Input
    plan : Plan
    folder : str
        The work folder; partition p gets Arrow files in ``spill/part-p`` with columns item,
        annotator and label (local codes, -1 for none) and, where planned, weight and gold.
    n_partitions, index : int

    Raises
    ------
    InputError
        Names the file and the row of a missing id, a bad weight or a label that is no class.
    """
    return _Pass(plan, folder, n_partitions, index).run([inputs] if isinstance(inputs, Input) else inputs)


def settled(series: pl.Series, column: Column) -> pl.Series:
    """Bring values to their final type, as `crowdwise.io.read` would if these were all values of the column."""
    if column.kind == "text":
        return integers(series)
    if column.kind == "wide":
        narrow = series.cast(pl.Int64, strict=False)
        return narrow if narrow.null_count() == series.null_count() else series
    return tidy(series)


class _Vocabulary:
    """Distinct values in the order in which they came."""

    def __init__(self, column: Column) -> None:
        self.values = pl.Series([], dtype=raw_type(column))

    def codes(self, series: pl.Series) -> tuple[NDArray[np.int32], int]:
        """Return the code of every value, -1 where null, and how many codes there were before."""
        before = len(self.values)
        distinct = series.unique(maintain_order=True).drop_nulls()
        fresh = distinct.filter(pl.Series(codes_of(distinct, self.values) < 0))
        if len(fresh):
            self.values = pl.concat([self.values, fresh])
        return codes_of(series, self.values), before


class _Pass:
    def __init__(self, plan: Plan, folder: str, n_partitions: int, index: int) -> None:
        self.plan, self.folder, self.n_partitions, self.index = plan, folder, n_partitions, index
        self.annotators = _Vocabulary(plan.columns["annotator"])
        self.labels = _Vocabulary(plan.columns["label"])
        self.golds = _Vocabulary(plan.columns.get("gold", plan.columns["label"]))
        self.label_counts = np.zeros(0, np.int64)
        self.label_places: list[str] = []
        self.gold_items: list[str] = []
        self.n_rows = self.n_unlabelled = self.n_written = 0
        self.whole = True
        self.unified: dict[str, tuple[int, tuple[str, str]]] = {}
        together = Path(folder) / "spill" / TOGETHER
        self.together = pl.read_ipc(together) if together.exists() else None

    def run(self, inputs: Sequence[Input]) -> Spilled:
        waiting: list[pl.DataFrame] = []
        for each in inputs:
            for table in read_batches(each, self.plan):
                waiting.append(self.coded(table))
                # Many small files share the files they are written to.
                if sum(frame.height for frame in waiting) >= batches.ROWS:
                    self.write(pl.concat(waiting))
                    waiting = []
        if waiting:
            self.write(pl.concat(waiting))
        probe = [*pl.Series(["crowdwise", "é", ""]).hash().to_list(), *pl.Series([0, -1, 2**40]).hash().to_list()]
        return Spilled(
            self.index, self.n_rows, self.n_unlabelled, self.annotators.values, self.labels.values, self.label_counts,
            tuple(self.label_places), self.golds.values, tuple(self.gold_items), self.whole, tuple(probe), self.unified,
        )  # fmt: skip

    def coded(self, table: Table) -> pl.DataFrame:
        """Check the rows of a batch and replace annotators, labels and gold by codes."""
        where, columns = table.where, self.plan.columns
        raw = {role: _raw(table.frame[role], column, role, where) for role, column in columns.items() if role != "weight"}
        raw = {role: self.one_spelling(series, role) for role, series in raw.items()}
        for role in ("item", "annotator"):
            absent = missing_mask(raw[role], ())
            if absent.any():
                raise InputError(
                    f"{where.row(int(absent.arg_true()[0]))}: the {role} id is missing; remove the row or fill it in"
                )
        self.whole = self.whole and settled(raw["item"], columns["item"]).dtype == pl.Int64
        coded = {"item": raw["item"], "annotator": pl.Series(self.annotators.codes(raw["annotator"])[0])}
        coded["label"] = pl.Series(self.coded_labels(raw["label"], where))
        if "weight" in columns:
            coded["weight"] = pl.Series(checked_weights(table.frame["weight"], where))
        if "gold" in columns:
            codes, before = self.golds.codes(raw["gold"])
            self.gold_items += [str(raw["item"][int(row)]) for row in _first_rows(codes, before, len(self.golds.values))]
            coded["gold"] = pl.Series(codes)
        self.n_rows += table.frame.height
        return pl.DataFrame(coded)

    def one_spelling(self, series: pl.Series, role: str) -> pl.Series:
        """The names of a batch in one form, as in memory; those that change are counted."""
        formed = spelt_labels(series) if role in ("label", "gold") else one_form(series)
        if formed is not series:
            moved = (formed != series) & (formed != "")
            n, kind = int(moved.sum()), "label" if role == "gold" else role
            if n:
                at = int(moved.arg_true()[0])
                before, example = self.unified.get(kind, (0, (series[at], formed[at])))
                self.unified[kind] = (before + n, example)
        return formed

    def coded_labels(self, label: pl.Series, where: Places) -> NDArray[np.int32]:
        codes, before = self.labels.codes(label)
        size = len(self.labels.values)
        if size > _MOST_LABELS:
            raise InputError(f"{where.source}: more than {size} different labels: these look like values, not classes")
        counts = np.bincount(codes[codes >= 0], minlength=size)
        counts[:before] += self.label_counts
        self.label_counts = counts
        self.n_unlabelled += int((codes < 0).sum())
        rows = _first_rows(codes, before, size)
        self.label_places += [where.row(int(row)) for row in rows]
        if self.plan.classes is not None and not label.dtype.is_float():
            # Floats wait until it is known whether all are whole, "1.0" or 1.
            fresh = self.labels.values[before:]
            known = (~missing_mask(fresh, self.plan.missing)).to_numpy()
            order = np.argsort(rows[known])
            label_codes(fresh.filter(pl.Series(known))[order], self.plan.classes, where, rows[known][order])
        return codes

    def write(self, frame: pl.DataFrame) -> None:
        """Append a batch to the partitions of its items."""
        partition = partitions(frame["item"], self.n_partitions)
        if self.together is not None:
            place = codes_of(frame["item"].cast(pl.String), self.together["item"])
            joined = place >= 0
            partition = np.where(joined, self.together["partition"].to_numpy()[place * joined], partition)
        order = np.argsort(partition, kind="stable")
        frame = frame[order]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(partition, minlength=self.n_partitions))])
        for p in np.flatnonzero(np.diff(bounds)):
            folder = partition_folder(self.folder, int(p))
            folder.mkdir(parents=True, exist_ok=True)
            part = frame[int(bounds[p]) : int(bounds[p + 1])]
            part.write_ipc(folder / f"{self.index:05d}-{self.n_written:05d}.arrow", compression="lz4")
        self.n_written += 1


def partitions(item: pl.Series, n_partitions: int) -> NDArray[np.uint16]:
    """Return the partition of every item id, [E]."""
    # Zero has two signs, which are one number but two patterns of bits.
    hashed = (item + 0.0 if item.dtype.is_float() else item).hash()
    return (hashed % n_partitions).cast(pl.UInt16).to_numpy()


def _raw(series: pl.Series, column: Column, role: str, where: Places) -> pl.Series:
    """Bring a batch to the type in which all files keep the column, see `raw_type`."""
    if series.dtype == pl.Null:
        return series.cast(raw_type(column))
    if not series.dtype.is_float():
        return series if series.dtype == raw_type(column) else _plain(series, column)
    series = series.fill_nan(None)
    if column.kind != "integer":
        return series
    whole = tidy(series)
    if whole.dtype != pl.Int64:
        row = int(((series != series.round(0)) | (series.abs() >= 2**53)).fill_null(False).arg_true()[0])
        raise InputError(
            f"{where.row(row)}: the {role} {series[row]!r} is not a whole number, and other files hold integers there; "
            f"give column {column.name!r} one type in all files"
        )
    return whole


def _plain(series: pl.Series, column: Column) -> pl.Series:
    # Not `tidy` for integers that may exceed 64 bits: it would decide on this batch alone.
    return series.cast(raw_type(column)) if series.dtype.is_integer() else tidy(series)


def _first_rows(codes: NDArray[np.int32], before: int, size: int) -> NDArray[np.int64]:
    """Row of the first occurrence of every code from `before` on, [size - before]."""
    first = np.zeros(size - before, np.int64)
    if size > before:
        rows = np.flatnonzero(codes >= before)[::-1]
        # Backwards, so that what is written last, and stays, is the first.
        first[codes[rows] - before] = rows
    return first
