"""How many items of each class, with the uncertainty that uncertain labels leave.

The number of items of class k is a sum of independent trials with probabilities q_nk: its distribution is exact for a few
hundred items and normal for more. It believes the posterior, as everything here does that has no gold labels to ask.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers
from crowdwise.report.charts import MOST_CLASSES, WIDTH
from crowdwise.report.markup import caption, percent, plain, rect, short, stroke, svg, table, text, whole

__all__ = ["Counts", "counts_of", "counts_picture", "counts_table"]


# Items up to which the distribution is exact.
_EXACT = 500


class Counts(NamedTuple):
    """Items by class, [K] each: by label, expected, the ends of the central 95 % interval, and votes."""

    labels: Integers
    expected: Floats
    low: Floats
    high: Floats
    votes: Integers


def counts_of(result: Result) -> Counts:
    """Count the labels of a result, and what their uncertainty allows."""
    q_nk, n_classes = result.posterior, result.votes.n_classes
    expected = q_nk.sum(axis=0)
    ends = np.array([_interval(q_nk[:, k]) for k in range(n_classes)]).reshape(n_classes, 2)
    labels = np.bincount(result.codes, minlength=n_classes)
    votes = np.bincount(result.votes.label, minlength=n_classes)
    return Counts(labels, expected, ends[:, 0], ends[:, 1], votes)


def counts_picture(result: Result, counts: Counts) -> str:
    """Bars of the labels by class, and the interval of the expected number as a whisker."""
    shown = _shown(counts)
    left, top, row = 132.0, 48.0, 30.0
    width = WIDTH - left - 74.0
    longest = max(float(counts.labels[shown].max(initial=0)), float(counts.high[shown].max(initial=0)), 1.0)
    parts = [caption("Labels by class", 16, 26, extra=' font-size="16" font-weight="600"')]
    for i, k in enumerate(shown.tolist()):
        y = top + row * i
        low, high = (left + width * float(ends[k]) / longest for ends in (counts.low, counts.high))
        name = plain(result.votes.classes[k], 40)
        tip = f"<title>{name}: {whole(counts.labels[k])}; {whole(counts.low[k])} to {whole(counts.high[k])}</title>"
        bar = rect(left, y + 4, max(width * counts.labels[k] / longest, 1), 18, "good", ' fill-opacity="0.75"')
        whisker = f'<path d="M{low:.1f} {y + 13}H{high:.1f}m0 -5v10M{low:.1f} {y + 8}v10" stroke-width="2" {stroke("ink")}/>'
        end = max(high, left + width * counts.labels[k] / longest)
        parts.append(short(result.votes.classes[k], left - 10, y + 18, 14))
        parts.append(f"<g>{tip}{bar}{whisker}</g>")
        parts.append(caption(whole(counts.labels[k]), end + 8, y + 18, paint="muted"))
    bottom = top + row * len(shown) + 22
    parts.append(caption("bar: items with this label; line: where the true number lies (95 %)", 16, bottom, paint="muted"))
    return svg(WIDTH, bottom + 16, f"Number of items by class, with intervals, {len(shown)} classes", parts)


def counts_table(result: Result, counts: Counts) -> str:
    """Return the same as numbers."""
    n_items, n_votes = max(result.votes.n_items, 1), max(result.votes.n_votes, 1)
    shown = _shown(counts)
    rows = [
        (
            text(result.votes.classes[k]),
            whole(counts.labels[k]),
            percent(counts.labels[k] / n_items),
            f"{counts.expected[k]:,.1f}".replace(",", "\u202f"),
            f"{whole(counts.low[k])} to {whole(counts.high[k])}",
            percent(counts.votes[k] / n_votes),
        )
        for k in shown.tolist()
    ]
    hidden = len(counts.labels) - len(shown)
    title = "Labels by class" + (f"; {whole(hidden)} rarer classes are not shown" if hidden else "")
    columns = ("Class", "Labels", "Share", "Expected", "95 % interval", "Share of votes")
    return table(title, columns, rows, numeric=range(1, 6))


def _shown(counts: Counts) -> Integers:
    if len(counts.labels) <= MOST_CLASSES:
        return np.arange(len(counts.labels))
    return np.asarray(np.argsort(-counts.labels, kind="stable")[:MOST_CLASSES])


def _interval(chance_n: Floats) -> tuple[float, float]:
    """Central 95 % of the number of successes among independent trials."""
    if len(chance_n) <= _EXACT:
        share = np.ones(1)
        for chance in chance_n:
            share = np.convolve(share, [1 - chance, chance])
        total = share.cumsum()
        low, high = np.searchsorted(total, [0.025, 0.975]).tolist()
        return float(low), float(min(high, len(chance_n)))
    mean, sd = chance_n.sum(), np.sqrt((chance_n * (1 - chance_n)).sum())
    return float(max(np.floor(mean - 1.96 * sd), 0)), float(min(np.ceil(mean + 1.96 * sd), len(chance_n)))
