"""One file of votes in batches of bounded size, with columns named by their role, and how many rows it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from crowdwise.data.encode import as_text, tidy
from crowdwise.io.binary import readable
from crowdwise.io.source import AnyPath, Places, Table
from crowdwise.io.votes import Request
from crowdwise.scale.inputs import Column, Input, Plan, check_inputs, find_inputs
from crowdwise.scale.text import columns_of_text, tables_of_text, typical_rows

__all__ = ["RAW", "items_named", "n_votes_of", "raw_type", "read_batches", "rows_of"]

# Votes in memory at a time; a batch of names takes some 200 MB on its way.
ROWS = 2_000_000

RAW: dict[str, type[pl.DataType]] = {
    "integer": pl.Int64, "Boolean": pl.Boolean, "Float32": pl.Float32, "Float64": pl.Float64,
}  # fmt: skip


def raw_type(column: Column) -> type[pl.DataType]:
    """Return the type in which the values of a column are kept until all files are known."""
    return RAW.get(column.kind, pl.String)


def rows_of(source: Input) -> int:
    """Number of rows of a file: exact for Parquet and Arrow, estimated from the first lines for text."""
    if source.kind == "delimited":
        return typical_rows(source.path, source.size)
    with readable(source.path, source.kind):
        return int(_scan(source).select(pl.len()).collect().item())


def n_votes_of(inputs: Sequence[Input]) -> int:
    """Number of rows of these files; see `rows_of`."""
    return sum(map(rows_of, inputs))


def items_named(paths: Sequence[AnyPath], request: Request, names: set[str]) -> set[str]:
    """Those of some names that are ids of items in these files, which are read until all are found."""
    found: set[str] = set()
    inputs = find_inputs(paths)
    plan = check_inputs(inputs, request)
    alone = replace(plan, columns={"item": plan.columns["item"]})
    for table in (table for each in inputs for table in read_batches(each, alone)):
        item = as_text(tidy(table.frame["item"]))
        found |= set(item.filter(item.is_in(list(names))).unique().to_list())
        if found == names:
            break
    return found


def read_batches(source: Input, plan: Plan) -> Iterator[Table]:
    """Yield the votes of one file: columns item, annotator, label and, where planned, weight and gold."""
    keys = dict(source.keys)
    if source.kind == "delimited":
        present = columns_of_text(source.path)
    else:
        with readable(source.path, source.kind):
            present = _scan(source).collect_schema().names()
    chosen, columns = [], []
    for role, column in plan.columns.items():
        if column.name in present:
            chosen.append(column.name)
            columns.append(pl.col(column.name).alias(role))
        else:
            # From the name of a folder; or a file without gold among others that have it.
            columns.append(pl.lit(keys.get(column.name), dtype=pl.String).cast(raw_type(column)).alias(role))
    names = list(dict.fromkeys(chosen))
    tables = tables_of_text(source.path, names) if source.kind == "delimited" else _tables(source, names)
    for table in tables:
        if table.frame.height:
            yield Table(table.frame.with_columns(columns).select(list(plan.columns)), table.where)


def _tables(source: Input, names: list[str]) -> Iterator[Table]:
    with readable(source.path, source.kind):
        scan, size = _scan(source), rows_of(source)
        for start in range(0, size, ROWS):
            yield Table(scan.select(names).slice(start, ROWS).collect(), Places(source.path, start + 1))


def _scan(source: Input) -> pl.LazyFrame:
    # Folder names are read by `find_inputs`, alike for all kinds of files.
    if source.kind == "parquet":
        return pl.scan_parquet(source.path, hive_partitioning=False, glob=False)
    return pl.scan_ipc(source.path, hive_partitioning=False, glob=False)
