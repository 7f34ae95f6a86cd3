"""Tables whose cells stand between blanks, as R, TREC and many old tools write them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice

__all__ = ["between_blanks", "with_tabs"]

_OTHERS = (b",", b"\t", b";", b"|")
_LOOKED_AT = 50
_CELL = re.compile(r'"(?:[^"]|"")*"(?= |$)|[^ ]+')


def between_blanks(data: bytes) -> bool:
    """Whether the cells of a table stand between blanks.

    No other separator stands in its first row, and all of the first rows have as many cells, three or more. Below a header of
    one cell less rows are numbered, as R writes them.
    """
    first = data.split(b"\n", 1)[0].strip()
    if b" " not in first or any(mark in first for mark in _OTHERS):
        return False
    widths = [len(row) for row in islice(_rows(data), _LOOKED_AT)]
    return len(widths) > 1 and len(set(widths[1:])) == 1 and widths[1] > 2 and widths[0] in (widths[1], widths[1] - 1)


def with_tabs(data: bytes) -> bytes:
    """The text of such a table with a tab between its cells."""
    written = io.StringIO()
    csv.writer(written, delimiter="\t", lineterminator="\n").writerows(_rows(data))
    return written.getvalue().encode()


def _rows(data: bytes) -> Iterator[list[str]]:
    for line in io.StringIO(data.rstrip().decode("utf-8", "replace"), newline="\n"):
        yield [cell[1:-1].replace('""', '"') if cell[0] == '"' == cell[-1] else cell for cell in _CELL.findall(line.strip())]
