"""Parquet and Arrow files: read by polars, whose panics at damaged ones are turned into errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from crowdwise.errors import InputError

__all__ = ["read_binary", "readable"]


@contextmanager
def readable(name: str, kind: str) -> Iterator[None]:
    """Turn whatever polars says of a damaged file into an error of ours; its panic is no `Exception`, so nobody else would."""
    try:
        yield
    except InputError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError, TypeError, OverflowError) as error:
        line = (str(error).splitlines() or [""])[0]
        raise InputError(f"{name}: not a readable {kind} file ({line:.200}); export it again") from None


def read_binary(path: Path, kind: str, columns: Sequence[str], name: str) -> tuple[pl.DataFrame, list[str]]:
    """Read the named columns of Parquet or Arrow, and list all names."""
    from crowdwise.io.declared import declared_size
    from crowdwise.io.limits import check_rows

    with readable(name, kind):
        # Not scan_...(path): brackets and stars in a name would be a pattern.
        lazy = pl.scan_parquet(path, glob=False) if kind == "parquet" else pl.scan_ipc(path, glob=False)
        names = lazy.collect_schema().names()
        if not columns:
            return pl.DataFrame(), names
        n_rows = lazy.select(pl.len()).collect().item()
        with path.open("rb") as file:
            check_rows(n_rows, len(columns), declared_size(file, kind), path.stat().st_size, name)
        # Categories are a way to store text: whoever looks at cells gets text.
        categories = pl.selectors.categorical() | pl.selectors.enum()
        return lazy.select(columns).collect().with_columns(categories.cast(pl.String)), names
