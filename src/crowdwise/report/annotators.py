"""Annotators for the report: every detector's flags, the table's data, and confusion matrices as small multiples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.estimator.judgement import GRADES, Crowd
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Array
from crowdwise.report.markup import caption, clean, counted, percent, plain, rect, short, svg
from crowdwise.trust.crowd import against, capacity, copiers, drift, groups, spammers
from crowdwise.trust.crowd.pairs import of_pairs
from crowdwise.trust.crowd.report import Report
from crowdwise.trust.crowd.table import annotator_table, run_detectors

__all__ = ["Detections", "annotators_data", "detect", "matrices"]

# Matrices: the first are seen at once, the others when asked for.
MOST_ANNOTATORS, MOST_MATRICES, FIRST_MATRICES = 2000, 32, 8
_MOST_NUMBERS, _MOST_NAMES, _MOST_CELLS = 4, 8, 13_000


@dataclass(frozen=True, eq=False)
class Detections:
    """Reports of the detectors by flag, their table (most accurate first), and what was left out, in words."""

    reports: dict[str, Report]
    table: pl.DataFrame
    notes: tuple[str, ...]


def detect(
    result: Result,
    *,
    fdr: float = 0.05,
    time: Any = None,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Detections:
    """Run the detectors that suit the method, on as many items as their cost allows."""
    if result.votes.anonymous:
        return Detections({}, result.annotators_frame().head(0), ())
    met = of_pairs(result.votes)
    detectors: dict[str, Callable[[], Report]] = {
        "spammer": lambda: spammers.score(result, fdr=fdr),
        "copier": lambda: copiers.score(result, fdr=fdr, met=met),
        "colluder": lambda: against.score(result),
        "group": lambda: groups.score(result),
    }
    if time is not None:
        detectors["drift"] = lambda: drift.score(result, time, fdr=fdr)
    reports = run_detectors(detectors, progress)
    notes = [note for found in reports.values() for note in found.notes]
    # The page shows two digits.
    bits = capacity.channel_capacity(result.confusion, tol=1e-4)
    verdict = capacity.verdicts(result, fdr=fdr)
    return Detections(reports, annotator_table(result, reports, bits, verdict), tuple(dict.fromkeys(notes)))


def annotators_data(result: Result, crowd: Crowd, detections: Detections) -> dict[str, Any]:
    """Rows of the annotators' table for the page's script, worst first."""
    frame = detections.table
    if result.votes.anonymous:
        return {"rows": [], "total": 0}
    code = {name: a for a, name in enumerate(result.votes.annotators.tolist())}
    place = {code[name]: i for i, name in enumerate(frame["annotator"].to_list())}
    rows = []
    for a in crowd.order[:MOST_ANNOTATORS].tolist():
        row = frame.row(place[a], named=True)
        rows.append(
            [
                clean(row["annotator"], 60),
                row["n_votes"],
                [_number(row[name], 4) for name in ("accuracy", "accuracy_low", "accuracy_high")],
                _number(row["agreement"], 4),
                _number(row["bits"], 2),
                clean(row["worst_confusion"] or "", 60).replace("->", "→"),
                clean(row["flags"], 80),
                clean(row["reasons"], 300),
                GRADES[crowd.grade[a]].paint,
            ]
        )
    return {"rows": rows, "total": len(crowd.order)}


def _number(value: float | None, digits: int) -> float | None:
    """A number as JSON can hold it: where there is one class, some are undefined."""
    return None if value is None or not np.isfinite(value) else round(value, digits)


def matrices(result: Result, crowd: Crowd, detections: Detections) -> str:
    """Confusion matrices of the flagged and of those with most votes, a small picture each."""
    votes = result.votes
    flagged = set(detections.table.filter(~pl.col("flags").is_in(["", "unknown"]))["annotator"].to_list())
    # A hundred classes make ten thousand cells, half a megabyte, each.
    most = min(MOST_MATRICES, max(2, _MOST_CELLS // max(votes.n_classes, 1) ** 2))
    odd = [a for a in crowd.order.tolist() if votes.annotators[a] in flagged][: most // 2]
    busy = [a for a in np.argsort(-votes.votes_per_annotator, kind="stable").tolist() if votes.votes_per_annotator[a]]
    chosen = odd + [a for a in busy if a not in set(odd)][: most - len(odd)]
    low, high = result.confusion_interval()
    figures = [f'<figure class="card">{_matrix(result, a, low[a], high[a], odd=a in set(odd))}</figure>' for a in chosen]
    some = "" if len(chosen) == len(crowd.order) else f" {counted(len(chosen), 'annotator')} of {len(crowd.order)} are shown."
    note = (
        "Rows are true classes, columns the labels given, in percent; numbers below are the 95 % interval. Blue is right, "
        f"orange wrong, darker is more often. First the flagged, then those with most votes.{some}"
    )
    first, rest = figures[:FIRST_MATRICES], figures[FIRST_MATRICES:]
    more = f'<details><summary>{len(rest)} more</summary><div class="many">{"".join(rest)}</div></details>' if rest else ""
    return f'<p class="note">{note}</p><div class="many">{"".join(first)}</div>{more}'


def _matrix(result: Result, a: int, low: Array, high: Array, *, odd: bool) -> str:
    votes, matrix, n_classes = result.votes, result.confusion[a], result.votes.n_classes
    named = n_classes <= _MOST_NAMES
    left, top, size = (58.0 if named else 12.0), (74.0 if named else 48.0), 168.0
    cell = size / max(n_classes, 1)
    name = plain(votes.annotators[a], 60)
    right = ", ".join(f"{plain(votes.classes[k], 20)} {percent(float(matrix[k, k]))}" for k in range(min(n_classes, 5)))
    parts = [
        short(votes.annotators[a], 12, 22, 26, anchor="start", paint="bad" if odd else "ink", extra=' font-weight="600"'),
        caption(counted(int(votes.answers_per_annotator[a]), "vote"), 12, 40, paint="muted", extra=' font-size="12"'),
    ]
    for k in range(n_classes if named else 0):
        x, y = left + cell * (k + 0.5) + 3, top - 5
        turned = f' font-size="10" transform="rotate(-40 {x:.1f} {y:.1f})"'
        parts.append(short(votes.classes[k], x, y, 8, paint="muted", anchor="start", extra=turned))
        parts.append(short(votes.classes[k], left - 5, top + cell * (k + 0.5) + 4, 8, paint="muted", extra=' font-size="10"'))
    for k, l in np.ndindex(matrix.shape):
        x, y, share = left + cell * l, top + cell * k, float(matrix[k, l])
        span = f"{100 * low[k, l]:.0f}&ndash;{100 * high[k, l]:.0f}"
        paint, ink = ("right" if k == l else "wrong"), ("bright" if share > 0.6 else "ink")
        tint = rect(x + 0.5, y + 0.5, cell - 1, cell - 1, paint, f' fill-opacity="{0.06 + 0.94 * share:.2f}"')
        if n_classes > _MOST_NUMBERS:
            parts.append(tint)
            continue
        number = caption(f"{100 * share:.0f}", x + cell / 2, y + cell / 2 + 1, paint=ink, anchor="middle")
        parts += [
            tint,
            number,
            caption(span, x + cell / 2, y + cell / 2 + 14, paint=ink, anchor="middle", extra=' font-size="9"'),
        ]
    label = f"Confusion matrix of {name}; right on {right}{' and others' if n_classes > 5 else ''}"
    return svg(left + size + 14, top + size + 12, label, parts)
