"""Annotators who answer alike: the map of annotators, with a line between those who agree more than their skill explains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from crowdwise.estimator.judgement import ABOVE, CHANCE, GRADES, UNJUDGED, WEAK, Crowd
from crowdwise.kernels.types import Floats
from crowdwise.report.blocks import NOBODY
from crowdwise.report.markup import caption, counted, fill, percent, plain, stroke, svg, table, text, whole
from crowdwise.report.picture import marker
from crowdwise.report.plot.annotators import annotator_positions

if TYPE_CHECKING:
    from crowdwise.estimator.outcome import Result
    from crowdwise.report.annotators import Detections

__all__ = ["network"]

_WIDTH, _HEIGHT, _MARGIN = 720.0, 460.0, 56.0
# More names, points or lines would be a blot.
_MOST_NAMES, _MOST_POINTS, _MOST_LINES, _MOST_ROWS = 24, 400, 300, 15


def network(result: Result, crowd: Crowd, detections: Detections) -> str:
    """Return the map with its lines, and tables of the groups and of the closest pairs."""
    if result.votes.anonymous:
        return NOBODY
    pairs = detections.reports["copier"].pairs if "copier" in detections.reports else None
    parts = [f'<figure class="card broad">{_picture(result, crowd, detections, pairs)}</figure>']
    frame = detections.reports["group"].frame if "group" in detections.reports else None
    found = 0 if frame is None else int(frame["group"].max() or 0)  # type: ignore[arg-type]
    if frame is not None and found:
        rows = []
        for number in range(1, min(found, _MOST_ROWS) + 1):
            names = frame.filter(pl.col("group") == number)["annotator"].to_list()
            more = f" and {whole(len(names) - 12)} more" if len(names) > 12 else ""
            rows.append((f"Group {number}", whole(len(names)), ", ".join(text(name, 30) for name in names[:12]) + more))
        parts.append(table("Groups that share errors", ("Group", "Annotators", "Who"), rows, numeric=(1,)))
        parts.append(
            '<p class="note">Members of a group count almost as one annotator, so labels that rest on a group alone are less '
            "certain than they look. The method <code>group-dawid-skene</code> gives them this weight.</p>"
        )
    if pairs is not None and pairs.height:
        close = [
            (
                f"{text(row['first'], 30)} and {text(row['second'], 30)}",
                whole(row["n_items"]),
                percent(row["agreement"]),
                percent(row["expected"]),
            )
            for row in pairs.head(_MOST_ROWS).iter_rows(named=True)
        ]
        hidden = pairs.height - len(close)
        title = "Pairs that agree more than their skill explains" + (f"; {whole(hidden)} more are not shown" if hidden else "")
        parts.append(table(title, ("Pair", "Items in common", "They agree on", "Expected"), close, numeric=(1, 2, 3)))
    elif pairs is not None:
        parts.append(
            f"<p>No two annotators agree more than their skill explains{'' if found else ', and no group shares errors'}.</p>"
        )
    notes = "".join(f"<li>{plain(note, 400)}</li>" for note in detections.notes)
    return "".join(parts) + (f'<ul class="note">{notes}</ul>' if notes else "")


def _picture(result: Result, crowd: Crowd, detections: Detections, pairs: pl.DataFrame | None) -> str:
    votes, found = result.votes, annotator_positions(result)
    lines: list[tuple[int, int]] = []
    if pairs is not None:
        code = {name: a for a, name in enumerate(votes.annotators.tolist())}
        ends = pairs.head(_MOST_LINES).select("first", "second").rows()
        lines = [(code[first], code[second]) for first, second in ends]
    busy = np.argsort(-votes.answers_per_annotator[crowd.order], kind="stable")
    tied = list(dict.fromkeys(a for line in lines for a in line))
    odd = crowd.unreliable.tolist()
    shown = list(dict.fromkeys([*tied, *odd[:_MOST_POINTS], *crowd.order[busy[:_MOST_POINTS]].tolist()]))[:_MOST_POINTS]
    everywhere = np.concatenate([found.place[shown].reshape(-1, 2), [found.perfect, found.blind]])
    x_y, height = _scaled(everywhere)
    place = {a: x_y[i] for i, a in enumerate(shown)}
    _spread_out(place, tied)
    parts = [caption("Map of annotators", 16, 26, extra=' font-size="16" font-weight="600"')]
    for first, second in lines:
        if first in place and second in place:
            (x, y), (u, v) = place[first], place[second]
            parts.append(f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke-opacity="0.6" {stroke("bad")}/>')
    taken: list[tuple[float, float, float, float]] = []
    for (x, y), word in zip(x_y[len(shown) :].tolist(), ("always right", "answers blindly"), strict=True):
        parts.append(f'<path d="M{x - 6:.1f} {y:.1f}h12M{x:.1f} {y - 6:.1f}v12" stroke-width="2" {stroke("ink")}/>')
        parts.append(caption(word, x, y - 11, anchor="middle", extra=' font-size="12" font-style="italic"'))
        taken.append((x - 45, y - 24, x + 45, y + 6))
    largest = float(max(votes.answers_per_annotator.max(initial=0), 1))
    for a in shown[::-1]:
        x, y = place[a]
        share = percent(float(crowd.accuracy[a]))
        words = f"{plain(votes.annotators[a], 60)}: {share}, {counted(int(votes.answers_per_annotator[a]), 'vote')}"
        size = 0.7 + 0.6 * np.sqrt(votes.answers_per_annotator[a] / largest)
        shape = marker(int(crowd.grade[a]), 0, 0)
        parts.append(f'<g transform="translate({x:.1f} {y:.1f}) scale({size:.2f})"><title>{words}</title>{shape}</g>')
    marks = [(place[a][0] - 6, place[a][1] - 6, place[a][0] + 6, place[a][1] + 6) for a in shown]
    for a in list(dict.fromkeys([*tied[:8], *odd[:8], *shown]))[: 4 * _MOST_NAMES]:
        x, y = place.get(a, (np.nan, np.nan))
        label = plain(votes.annotators[a], 16)
        box = (x + 7, y - 9, x + 10 + 6.4 * min(len(str(votes.annotators[a])), 16), y + 5)
        # A name over another helps nobody: pointing at the mark still shows it.
        obstacles = taken if a in tied else (*taken, *marks)
        if not np.isfinite(x) or any(_overlap(box, other) for other in obstacles) or len(taken) > _MOST_NAMES:
            continue
        taken.append(box)
        x, anchor = (x - 9, "end") if box[2] > _WIDTH - 8 else (x + 9, "start")
        parts.append(caption(label, x, y + 4, paint="muted", anchor=anchor, extra=' font-size="11"'))
    parts += _legend(crowd, shown, bool(lines), height + 12)
    note = (
        f"Map of {counted(len(shown), 'annotator')} by how they answer; {counted(len(lines), 'pair')} agree more than expected"
    )
    return svg(_WIDTH, height + 52, note, parts)


def _scaled(places: Floats) -> tuple[Floats, float]:
    """Fit points into the picture, with one scale for both axes, and say how high it must be."""
    low, high = places.min(axis=0), places.max(axis=0)
    span = np.maximum(high - low, 1e-9)
    room = np.array([_WIDTH - 2 * _MARGIN - 60, _HEIGHT - 2 * _MARGIN])
    scale = float((room / span).min())
    middle = (low + high) / 2
    height = max(float(span[1]) * scale + 2 * _MARGIN, 200.0)
    return np.asarray((places - middle) * [scale, -scale] + [_WIDTH / 2 - 20, height / 2 + 14]), height


def _spread_out(place: dict[int, Floats], tied: list[int]) -> None:
    """Move tied annotators off each other: copies answer so much alike that they, and their lines, would be one point."""
    for i, a in enumerate(tied):
        start, step = place.get(a), 0
        while start is not None and any(np.hypot(*(place[a] - place[b])) < 16 for b in tied[:i] if b in place) and step < 60:
            step += 1
            place[a] = start + 9 * np.sqrt(step) * np.array([np.cos(2.4 * step), np.sin(2.4 * step)])


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _legend(crowd: Crowd, shown: list[int], lines: bool, y: float) -> list[str]:
    words = {CHANCE: "chance or worse", WEAK: "weak", UNJUDGED: "too few votes", ABOVE: "above chance"}
    present = {GRADES[crowd.grade[a]].paint for a in shown}
    parts, x = [], 24.0
    for grade, name in words.items():
        if GRADES[grade].paint in present:
            parts += [marker(grade, x, y - 4), caption(name, x + 12, y, paint="muted", extra=' font-size="12"')]
            x += 36 + 6.6 * len(name)
    if lines:
        parts.append(f'<path d="M{x - 6:.1f} {y - 4}h20" stroke-width="2" {stroke("bad")}/>')
        parts.append(caption("agree more than their skill explains", x + 20, y, paint="muted", extra=' font-size="12"'))
    size = f'<circle cx="24" cy="{y + 20}" r="3" {fill("muted")}/><circle cx="36" cy="{y + 20}" r="6" {fill("muted")}/>'
    far = "the larger, the more votes; the nearer, the more alike their answers"
    return [*parts, size, caption(far, 50, y + 24, paint="muted", extra=' font-size="12"')]
