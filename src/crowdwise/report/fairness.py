"""How groups of items are treated: rates, gaps with intervals, and annotators who differ most between groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Integers
from crowdwise.report.markup import caption, counted, fill, percent, short, stroke, svg, table, text, whole
from crowdwise.trust.fairness import Audit, audit

__all__ = ["fairness", "gaps_picture"]

# Rows of a table or a picture; beyond, the command writes all.
_MOST = 20
_MOST_PEOPLE = 8


def fairness(result: Result, groups: Any, truth: Integers | None, fdr: float) -> str:
    """Return what can be said of the groups; `truth` holds class codes, -1 where unknown."""
    known = None
    if truth is not None and (truth >= 0).any():
        classes = result.votes.classes.tolist()
        known = [classes[code] if code >= 0 else None for code in truth.tolist()]
    found = audit(result, groups, truth=known, fdr=fdr, n_resamples=1000)
    notes = "".join(f"<li>{text(note, 400)}</li>" for note in found.notes)
    if found.groups.n_groups < 2:
        return f"<ul>{notes}</ul>"
    figure = f'<figure class="card">{gaps_picture(found)}</figure>'
    return (
        _words(found) + figure + (f"<h3>To keep in mind</h3><ul>{notes}</ul>" if notes else "") + _rates(found) + _people(found)
    )


def _words(found: Audit) -> str:
    """The sizes of the groups, and which gaps are more than chance."""
    order = np.argsort(-found.groups.sizes, kind="stable")[:_MOST]
    sizes = ", ".join(f"{text(found.groups.names[g])} {whole(found.groups.sizes[g])}" for g in order.tolist())
    more = "" if found.groups.n_groups <= _MOST else f" and {found.groups.n_groups - _MOST} more"
    gaps = found.gaps.filter((found.gaps["of"] == "consensus") & (found.gaps["low"] > 0).fill_null(False))
    clear = [
        f"{row['measure']}{_of(row['class'], text)}: {text(row['higher'])} over "
        f"{text(row['lower'])} by {100 * row['gap']:.1f} points ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
        for row in gaps.head(_MOST).iter_rows(named=True)
    ]
    verdict = (
        "<p>No gap of the consensus labels is larger than chance could make it.</p>"
        if not clear
        else "<p>Gaps of the consensus labels that are more than chance:</p><ul>"
        + "".join(f"<li>{one}</li>" for one in clear)
        + "</ul>"
    )
    return f"<p>Items by group: {sizes}{more}.</p>{verdict}"


def gaps_picture(found: Audit) -> str:
    """Every gap as a point with its interval; left of the line, the other group could be better off."""
    rows = [row for row in found.gaps.iter_rows(named=True) if row["gap"] is not None and row["low"] is not None][:_MOST]
    left, right, top, step = 330.0, 860.0, 52.0, 26.0
    low, high = min([0.0, *(row["low"] for row in rows)]), max([0.05, *(row["high"] for row in rows)])
    scale = (right - left) / (high - low)
    parts = [caption("Largest gap between two groups", 16, 26, extra=' font-size="16" font-weight="600"')]
    bottom = top + step * len(rows)
    tick = next(size for size in (0.02, 0.05, 0.1, 0.25, 0.5, 1.0) if (high - low) / size <= 8 or size == 1.0)
    for value in np.arange(np.ceil(low / tick - 1e-9) * tick, high + 1e-9, tick).tolist():
        x = left + (value - low) * scale
        line = stroke("ink" if abs(value) < 1e-9 else "rule")
        parts.append(f'<path d="M{x:.1f} {top - 6}V{bottom:.1f}" {line}/>')
        parts.append(caption(f"{round(100 * value)}", x, bottom + 18, paint="muted", anchor="middle"))
    for number, row in enumerate(rows):
        y = top + step * (number + 0.5)
        start, x, stop = (left + (row[name] - low) * scale for name in ("low", "gap", "high"))
        paint = "bad" if row["low"] > 0 else "unsure"
        circular = " (circular)" if "circular" in row["against"] else ""
        name = f"{row['of']}: {row['measure']}{_of(row['class'], str)}{circular}"
        parts.append(short(name, left - 14, y + 4, 44))
        parts.append(
            f'<path d="M{start:.1f} {y:.1f}H{stop:.1f}m0 -4v8M{start:.1f} {y - 4:.1f}v8" stroke-width="1.5" {stroke(paint)}/>'
        )
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {fill(paint)}/>')
    parts.append(caption("percentage points, with 95 % intervals &rarr;", right, bottom + 40, paint="muted", anchor="end"))
    return svg(right + 24, bottom + 54, f"Gaps between groups: {len(rows)} measures with 95 % intervals", parts)


def _rates(found: Audit) -> str:
    order = np.argsort(-found.groups.sizes, kind="stable")[: _MOST // 2]
    names = found.groups.names[np.sort(order)].tolist()
    rows = []
    for (of, against, measure, name), part in found.rates.group_by("of", "against", "measure", "class", maintain_order=True):
        cells = {row["group"]: row for row in part.iter_rows(named=True)}
        circular = " (circular)" if "circular" in str(against) else ""
        what = f"{of}: {measure}{_of(name, text)}{circular}"
        rows.append((what, *(_share(cells[group]) for group in names)))
    head = ("Rate", *(text(name) for name in names))
    shown = table(
        "Rates by group, and how many items or votes they are shares of", head, rows[:60], numeric=range(1, len(head))
    )
    hidden = found.groups.n_groups - len(names)
    return shown + (
        f"<p>The largest {len(names)} groups; {hidden} more in <code>crowdwise fairness --json</code>.</p>" if hidden else ""
    )


def _of(name: Any, written: Callable[[Any], str]) -> str:
    return "" if name is None else f" of {written(name)}"


def _share(row: dict[str, Any]) -> str:
    return "&ndash;" if row["rate"] is None else f"{percent(row['rate'])} of {whole(row['n'])}"


def _people(found: Audit) -> str:
    frame = found.annotators.drop_nulls("score").sort("probability", "score", descending=True)
    if not frame.height:
        return ""
    flagged = int(frame["flag"].sum())
    rows = []
    for row in frame.head(_MOST_PEOPLE).iter_rows(named=True):
        pair = f"{text(row['group'], 30)}, {text(row['other'], 30)}"
        span = f"{row['low']:.2f} to {row['high']:.2f}"
        counts = (whole(row["n_votes"]), pair, whole(row["n_least"]))
        flag = "differs" if row["flag"] else ""
        rows.append((text(row["annotator"]), *counts, f"{row['score']:.2f}", span, percent(row["probability"]), flag))
    head = ("Annotator", "Votes", "Groups", "Votes in the smaller", "Distance", "95 % interval", "Chance above 0.2", "Flag")
    who = counted(flagged, "annotator") if flagged else "No annotator"
    words = (
        f"<p>{who} clearly answer{'' if flagged > 1 else 's'} differently on different groups. Distance is that of the "
        "confusion matrices (0: the same; 2: as different as two classes allow), shrunk where votes are few.</p>"
    )
    return words + table("Annotators whose answers differ most between groups", head, rows, numeric=(1, 3, 4, 5, 6))
