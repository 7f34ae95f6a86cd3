"""Text that is safe inside HTML and SVG, and tables of it.

Ids and labels come from strangers. They reach a page only through `plain` or `text`, which escape them, or, as data of a
script that shows them as text, through `clean`; every other argument here is markup or a number of our own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import combining, east_asian_width

__all__ = ["clean", "counted", "percent", "plain", "table", "text", "whole"]

# Control characters, lone surrogates and non-characters cannot be written to a valid file; direction
# overrides would let an id rearrange the text around it.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def clean(value: Any, limit: int = 60) -> str:
    """Return any value as one line of at most `limit` columns, NOT escaped; a wide character takes two."""
    # Nothing beyond this can fit, and ids may be megabytes long.
    line = _UNSAFE.sub("\ufffd", str(value)[: 4 * limit + 1].replace("\n", " ").replace("\t", " "))
    if len(line) <= limit and line.isascii():
        return line
    width = 0
    for position, character in enumerate(line):
        width += 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        if width > limit or position >= 4 * limit:
            return line[: max(position - 1, 1)] + "…"
    return line


def plain(value: Any, limit: int = 60) -> str:
    """Return any value as one escaped line of at most `limit` columns."""
    return html.escape(clean(value, limit))


def text(value: Any, limit: int = 60) -> str:
    """Return a value for running HTML; isolated, so that its writing direction stays its own."""
    return f"<bdi>{plain(value, limit)}</bdi>"


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[int] = ()) -> str:
    """Return a table of markup; the first cell heads its row, columns in `numeric` are set flush right."""
    kind = [' class="number"' if i in numeric else "" for i in range(len(columns))]
    head = "".join(f'<th scope="col"{kind[i]}>{name}</th>' for i, name in enumerate(columns))
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>'
        + "".join(f"<td{kind[i]}>{cell}</td>" for i, cell in enumerate(row) if i)
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}"><table><caption>{caption}</caption>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def whole(number: float) -> str:
    """Return a count with a thin space between thousands."""
    return f"{int(number):,}".replace(",", "\u202f")


def counted(number: int, noun: str, plural: str = "s") -> str:
    """Return "1 item", "2 items"."""
    return f"{whole(number)} {noun}{'' if number == 1 else plural}"


def percent(share: float) -> str:
    """Return a share as percent; only all is 100 % and only none is 0 %."""
    if 0 < share < 0.001:
        return "&lt;0.1\u00a0%"
    if 0.999 < share < 1:
        return "&gt;99.9\u00a0%"
    return f"{100 * share:.{0 if share in (0, 1) else 1}f}\u00a0%"
