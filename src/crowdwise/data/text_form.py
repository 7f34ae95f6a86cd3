"""One form for text that looks the same: composed Unicode, and no white space around it."""

from __future__ import annotations

import polars as pl

__all__ = ["EDGES", "one_form"]

# White space of Unicode, and marks of no width that copying leaves behind.
EDGES = " \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000\u200b\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def one_form(series: pl.Series) -> pl.Series:
    """Text in composed Unicode form and without white space around it; other types as they are."""
    if series.dtype != pl.String:
        return series
    name = pl.col("name")
    odd = (name.str.len_bytes() != name.str.len_chars()) | name.str.contains(r"^[\s\x1c-\x1f]|[\s\x1c-\x1f]$")
    if not series.to_frame("name").select(odd.any()).item():
        return series
    return series.str.normalize("NFC").str.strip_chars(EDGES)
