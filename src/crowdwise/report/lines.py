"""Numbers, counts and users' own texts as people read them in a line."""

from __future__ import annotations

from typing import Any

__all__ = ["count", "number", "one_line", "some"]


def one_line(text: Any) -> str:
    """Return text with line breaks and other control characters escaped; an id could move the cursor otherwise."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def number(value: Any) -> str:
    """Return a number as people read it: four digits after the point at most, nothing for a missing one."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        if abs(value) < 1e-15:
            # What is left of a difference of equal numbers.
            return "0"
        small = abs(value) < 1e-3
        if 0.99995 <= value < 1:
            return ">0.9999"
        return f"{value:.2g}" if small else f"{value:.4f}".rstrip("0").rstrip(".")
    return one_line(value)


def count(n: int, noun: str) -> str:
    """Return "1 item", "1,234 items", "2 classes"."""
    plural = noun if n == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{n:,} {plural}"


def some(names: Any, most: int) -> str:
    """Return the first `most` names, comma-separated."""
    return ", ".join(one_line(name) for name in names[:most])
