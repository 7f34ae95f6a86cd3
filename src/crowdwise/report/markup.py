"""Text that is safe inside HTML and SVG, and the few elements that pages and pictures are made of.

Ids and labels come from strangers. They reach a page only through `plain`, `text` or `short`, which
escape them; every other argument here is markup or a number of our own.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any
from unicodedata import combining, east_asian_width

__all__ = [
    "PAINT",
    "caption",
    "counted",
    "fill",
    "percent",
    "plain",
    "rect",
    "short",
    "stroke",
    "svg",
    "table",
    "text",
    "whole",
]

# The Okabe-Ito palette, which colour-blind readers can tell apart, and greys. Pictures carry these as
# attributes, so that they stand alone; the page's style sheet overrides them by class in the dark.
PAINT = {
    "paper": "#ffffff",
    "ink": "#1f2933",
    "muted": "#5b6673",
    "rule": "#d8dde3",
    "good": "#0072b2",
    "bad": "#d55e00",
    "weak": "#e69f00",
    "unsure": "#8791a0",
    "right": "#0072b2",
    "wrong": "#d55e00",
    "bright": "#ffffff",
}

# Control characters, lone surrogates and non-characters cannot be written to a valid file; direction
# overrides would let an id rearrange the text around it.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def plain(value: Any, limit: int = 60) -> str:
    """Return any value as one escaped line of at most `limit` columns; a wide character takes two."""
    # Nothing beyond this can fit, and ids may be megabytes long.
    line = _UNSAFE.sub("\ufffd", str(value)[: 4 * limit + 1].replace("\n", " ").replace("\t", " "))
    width = 0
    for position, character in enumerate(line):
        width += 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1
        if width > limit or position >= 4 * limit:
            return html.escape(line[: max(position - 1, 1)]) + "…"
    return html.escape(line)


def text(value: Any, limit: int = 60) -> str:
    """Return a value for running HTML; isolated, so that its writing direction stays its own."""
    return f"<bdi>{plain(value, limit)}</bdi>"


def short(value: Any, x: float, y: float, limit: int, *, paint: str = "ink", anchor: str = "end", extra: str = "") -> str:
    """Return a value as SVG text of at most `limit` columns; pointing at it shows more."""
    shown, full = plain(value, limit), plain(value, 200)
    title = f"<title>{full}</title>" if full != shown else ""
    return caption(shown + title, x, y, paint=paint, anchor=anchor, extra=extra)


def caption(markup: str, x: float, y: float, *, paint: str = "ink", anchor: str = "start", extra: str = "") -> str:
    """Return SVG text from text that is safe already."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {fill(paint)}{extra}>{markup}</text>'


def fill(paint: str) -> str:
    """Return the attributes of a filled shape."""
    return f'class="{paint}" fill="{PAINT[paint]}"'


def stroke(paint: str) -> str:
    """Return the attributes of a line."""
    return f'class="{paint}-line" fill="none" stroke="{PAINT[paint]}"'


def rect(x: float, y: float, width: float, height: float, paint: str, extra: str = "") -> str:
    """Return a filled rectangle."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {fill(paint)}{extra}/>'


def svg(width: float, height: float, label: str, parts: Iterable[str]) -> str:
    """Return a picture on a background of its own; `label` is what a screen reader says, escaped."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{label}" font-size="13" '
        'font-family="system-ui, -apple-system, Segoe UI, Roboto, Helvetica, Arial, sans-serif">'
        f"<title>{label}</title>" + rect(0, 0, width, height, "paper") + "".join(parts) + "</svg>"
    )


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
