"""Why an item got its label, in rows and a few lines for people, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import number, one_line

if TYPE_CHECKING:
    from crowdwise.estimator.explain import Explanation

__all__ = ["bar", "explanation_document", "explanation_heading", "explanation_notes", "explanation_rows"]

# Rows that are no votes.
_FURTHER = {
    "models": "votes show means over several models, but the label rests on the mean of their probabilities: the difference",
    "caution": "what experience with other crowds takes back, because votes share errors",
}


def bar(value: float, largest: float, width: int = 12) -> str:
    """Return a bar from the middle: to the right for positive values, to the left for negative ones."""
    size = 0 if largest <= 0 else round(abs(value) / largest * width)
    left, right = ("▇" * size, "") if value < 0 else ("", "▇" * size)
    return f"{left:>{width}}│{right:<{width}}"


def explanation_document(why: Explanation) -> dict[str, Any]:
    """Everything, for JSON."""
    parts = {name: getattr(why, name) for name in ("item", "label", "against", "confidence", "unit", "total", "known")}
    return parts | {"rows": why.rows.to_dicts()}


def explanation_heading(why: Explanation) -> str:
    """The item, its label and how sure that is."""
    known = " (known: the votes did not decide it)" if why.known else ""
    return f"{one_line(why.item)}: {one_line(why.label)}, probability {number(why.confidence)}{known}"


def explanation_rows(why: Explanation) -> tuple[list[str], list[list[Any]]]:
    """Names of columns and rows: what moved the label by how much, with a bar."""
    largest = max((abs(value) for value in why.rows["contribution"]), default=0.0)
    rows = [[*row, bar(row[-1], largest)] for row in why.rows.rows()]
    names = ["source", "vote", why.unit, f"for {one_line(why.label)}, against {one_line(why.against)}"]
    return names, [*rows, ["total", None, why.total, ""]]


def explanation_notes(why: Explanation, shared: bool = False) -> Iterator[str]:
    """What rows that are no votes mean; `shared` says that annotators of these votes seem to share errors."""
    for name, meaning in _FURTHER.items():
        if name in why.rows["source"]:
            here = ", and what those leave open who seem to share errors here" if shared and name == "caution" else ""
            yield f"{name}: {meaning}{here}"
