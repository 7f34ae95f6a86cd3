"""Encode the votes of many files once, into a work folder that fits read shard by shard.

Two passes in parallel parts: every group of files is divided by item (`spill`), the vocabularies
are united (`merge`), and every shard is sorted (`build_shard`). Memory is bounded by a batch and a shard.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.edges import Edges
from crowdwise.data.encode import missing_mask, series_of, tidy
from crowdwise.data.gold import gold_columns
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io.gold import read_gold
from crowdwise.io.names import look_at_annotators
from crowdwise.io.source import AnyPath
from crowdwise.io.spelling import Moved, unified_line
from crowdwise.io.votes import Request, is_odd, repeats_line
from crowdwise.kernels.numerics import n_threads
from crowdwise.scale.batches import rows_of
from crowdwise.scale.components import digest, keep_together, write_edges
from crowdwise.scale.inputs import Input, check_inputs, find_inputs
from crowdwise.scale.merging import Vocabularies, merge
from crowdwise.scale.shard import Making, build_shard, map_file
from crowdwise.scale.spilling import Spilled, spill
from crowdwise.scale.store import ShardSizes, Store, begin, check_folder, finish, reusable

__all__ = ["build_shard", "encode", "merge"]

# Sorting a shard takes some 60 bytes a vote, and two or more are sorted at a time.
VOTES_PER_SHARD = 4_000_000
# More shards than this, of fewer votes than that, are worth a warning.
_MANY, _FEW = 100, 1000

Map = Callable[[Callable[..., Any], list[tuple[Any, ...]]], Iterable[Any]]
Progress = Callable[[str, int, int], None]


def _loop(function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> Iterator[Any]:
    return (function(*each) for each in arguments)


def encode(
    paths: AnyPath | Sequence[AnyPath],
    work_dir: str | PathLike[str],
    *,
    request: Request = Request(),  # noqa: B008 (frozen)
    classes: Sequence[Any] | None = None,
    missing: Iterable[Any] = (),
    deduplicate: bool = False,
    gold: Any = None,
    edges: Edges | None = None,
    n_shards: int | None = None,
    map: Map = _loop,
    hold: Callable[[Path], None] | None = None,
    progress: Progress | None = None,
) -> Store:
    """Encode the votes of many files into a work folder, or open it if it already holds them.

    Parameters
    ----------
    paths : path or sequence of paths
        Files, folders or patterns; see `crowdwise.scale.inputs.find_inputs`.
    work_dir : path
        A new or empty folder, one that an unfinished run has left, or a finished one of the same votes.
    request : Request
        Names of the columns; those not named are found by their aliases.
    classes, missing
        As in `crowdwise.io.read`.
    deduplicate : bool
        Keep one of each repeated (item, annotator, label) vote.
    gold : mapping, frame, Series or path, optional
        Known classes of some items (few enough for memory), in place of a gold column.
    edges : Edges, optional
        Items that are connected by them come into one shard.
    n_shards : int, optional
        Default: one per four million votes, at least one per thread.
    map : callable
        ``map(function, argument_tuples)`` gives the results in order; it may run them in parallel.
    hold : callable, optional
        Called with the work folder, once that is known to be one, to keep other runs out of it.
    progress : callable, optional
        Called as ``progress(step, done, total)``; step is "reading" or "sorting".
    """
    inputs, folder, markers = find_inputs(paths), Path(work_dir), (missing,) if isinstance(missing, str) else tuple(missing)
    if n_shards is not None and not 1 <= n_shards < 2**16:
        raise SettingError(f"n_shards must lie between 1 and 65535, got {n_shards}")
    _check_apart(folder, paths)
    check_folder(folder)
    if hold is not None:
        hold(folder)
    known = None if gold is None else _known(gold)
    signature = _signature(inputs, request, classes, markers, deduplicate, known, edges)
    if (ready := reusable(folder, signature, n_shards)) is not None:
        return ready
    plan = check_inputs(inputs, request, classes=classes, missing=markers)
    rows = [rows_of(each) for each in inputs]
    n_shards = _number_of_shards(n_shards, sum(rows))
    begin(folder)
    keep_together(folder, edges, n_shards)
    groups = _groups(inputs, rows)
    passes = map(spill, [(group, plan, str(folder), n_shards, index) for index, group in enumerate(groups)])
    spilled = list(_counted(passes, "reading", len(groups), progress))
    vocabularies = merge(spilled, plan)
    _say_unified(spilled, plan.source)
    _write_vocabularies(folder, vocabularies, known)
    gold_is = "given" if known is not None else "column" if vocabularies.has_gold else "none"
    sizes_of_all, weighted = (len(vocabularies.annotators), len(vocabularies.classes)), "weight" in plan.columns
    making = Making(plan.source, vocabularies.item_type, sizes_of_all, weighted, gold_is, deduplicate)
    shards = map(build_shard, [(shard, str(folder), making) for shard in range(n_shards)])
    facts = list(_counted(shards, "sorting", n_shards, progress))
    sizes = [ShardSizes(each["n_items"], each["n_votes"], each["n_gold"]) for each in facts]
    counts = np.sum([each["votes_per_annotator"] for each in facts], axis=0)
    n_known, n_repeats, n_changed = (sum(each[name] for each in facts) for name in ("n_known", "n_repeats", "n_changed"))
    np.save(folder / "votes_per_annotator.npy", counts)
    if is_odd(vocabularies.annotators, "annotator"):
        look_at_annotators(vocabularies.annotators, pl.Series(counts), plan.source)
    shutil.rmtree(folder / "spill", ignore_errors=True)
    _say_unused(known, n_known)
    n_gold = None if making.gold == "none" else sum(each.n_gold for each in sizes)
    n_items, n_votes = sum(each.n_items for each in sizes), sum(each.n_votes for each in sizes)
    notes = (repeats_line(plan.source, n_repeats, n_changed, n_votes),) if n_repeats else ()
    store = Store(
        folder, np.zeros(0), np.zeros(0), vocabularies.item_type, n_items, n_votes, vocabularies.n_missing, n_gold,
        weighted, tuple(sizes), notes,
    )  # fmt: skip
    write_edges(store, edges)
    finish(store, signature)
    return Store.open(folder)


def _say_unified(spilled: Sequence[Spilled], source: str) -> None:
    """Warn, in one line, of the names that were unified, as reading in memory does."""
    moved: Moved = {}
    for each in spilled:
        for role, (n, example) in each.unified.items():
            before, first = moved.get(role, (0, example))
            moved[role] = (before + n, first)
    if moved:
        ordered: Moved = {role: moved[role] for role in ("label", "item", "annotator") if role in moved}
        warnings.warn(unified_line(ordered, source), DataWarning, stacklevel=3)


def _say_unused(known: pl.DataFrame | None, n_known: int) -> None:
    if known is not None and n_known < len(known):
        unused = f"{len(known) - n_known} gold labels are of items without votes and were ignored"
        warnings.warn(unused, DataWarning, stacklevel=3)


def _check_apart(folder: Path, paths: AnyPath | Sequence[AnyPath]) -> None:
    for each in [paths] if isinstance(paths, str | PathLike) else paths:
        if Path(each).is_dir() and folder.resolve().is_relative_to(Path(each).resolve()):
            raise SettingError(f"{folder}: lies within {each}, so its files would count as votes; name a folder elsewhere")


def _number_of_shards(wanted: int | None, n_rows: int) -> int:
    if wanted is None:
        return max(math.ceil(n_rows / VOTES_PER_SHARD), n_threads())
    if wanted > max(_MANY, n_rows // _FEW):
        warnings.warn(
            f"{wanted:,} shards for about {n_rows:,} votes: so small ones cost more time than they save memory",
            DataWarning,
            stacklevel=3,
        )
    return wanted


def _known(gold: Any) -> pl.DataFrame:
    columns = gold_columns(read_gold(gold) if isinstance(gold, str | PathLike) else gold)
    if columns is None:
        raise InputError(f"gold must name its items: a mapping item -> label, a frame or a file; got {type(gold).__name__}")
    item, label = tidy(columns[0]), tidy(columns[1])
    return pl.DataFrame({"item": item, "label": label}).filter(~missing_mask(label, ()))


def _signature(
    inputs: list[Input],
    request: Request,
    classes: Sequence[Any] | None,
    missing: tuple[Any, ...],
    deduplicate: bool,
    gold: pl.DataFrame | None,
    edges: Edges | None,
) -> dict[str, Any]:
    """What must be the same for a finished folder to be used again."""
    return {
        "files": {str(Path(each.path).resolve()): [each.size, each.modified] for each in inputs},
        "request": asdict(request),
        "classes": None if classes is None else [repr(each) for each in classes],
        "missing": [repr(each) for each in missing],
        "deduplicate": deduplicate,
        "edges": None if edges is None else digest(edges),
        "gold": None if gold is None else hashlib.sha256(f"{gold.schema}{gold.write_csv()}".encode()).hexdigest(),
    }


def _groups(inputs: list[Input], rows: list[int]) -> list[tuple[Input, ...]]:
    """Divide the files, in order, into passes: a large file alone, small ones together."""
    most = min(VOTES_PER_SHARD, math.ceil(sum(rows) / n_threads()))
    groups: list[list[Input]] = [[]]
    filled = 0
    for each, size in zip(inputs, rows, strict=True):
        if groups[-1] and filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(each)
        filled += size
    return [tuple(group) for group in groups]


def _write_vocabularies(folder: Path, vocabularies: Vocabularies, gold: pl.DataFrame | None) -> None:
    (folder / "spill").mkdir(exist_ok=True)
    pl.DataFrame({"id": vocabularies.annotators}).write_ipc(folder / "annotators.arrow")
    pl.DataFrame({"id": series_of(vocabularies.classes)}).write_ipc(folder / "classes.arrow")
    if gold is not None:
        gold.write_ipc(folder / "spill" / "gold.arrow")
    for role in ("annotator", "label", "gold"):
        for index, codes in enumerate(getattr(vocabularies, f"{role}_maps")):
            np.save(map_file(folder, role, index), codes)


def _counted(results: Iterable[Any], step: str, total: int, progress: Progress | None) -> Iterator[Any]:
    for done, result in enumerate(results, start=1):
        yield result
        if progress is not None:
            progress(step, done, total)
