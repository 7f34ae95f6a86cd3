"""The few elements that pages and pictures are made of; text is made safe by `crowdwise.data.markup`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crowdwise.data.markup import clean, counted, percent, plain, table, text, whole

__all__ = [
    "PAINT",
    "caption",
    "clean",
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
