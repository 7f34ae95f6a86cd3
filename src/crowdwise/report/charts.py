"""The page's other pictures: confidence of items, shares of classes, pooled confusion, accuracy against votes."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.judgement import GRADES, Crowd
from crowdwise.kernels.types import Array, Floats
from crowdwise.report.markup import caption, counted, fill, percent, plain, rect, short, stroke, svg, whole

__all__ = ["MOST_CLASSES", "confidence_picture", "confusion_picture", "scatter_picture", "shares_picture"]

WIDTH = 500
MOST_CLASSES = 20
# Points of the scatter: more would be a blot, and half a megabyte.
MOST_POINTS = 1000


def confidence_picture(counts: Array) -> str:
    """Histogram of the confidence of items in `len(counts)` equal bins from 0 to 1."""
    left, top, width, height = 16.0, 56.0, WIDTH - 32.0, 190.0
    step, highest, n_bins = width / len(counts), max(int(counts.max(initial=0)), 1), len(counts)
    parts = [caption("How certain the labels are", 16, 26, extra=' font-size="16" font-weight="600"')]
    for b, count in enumerate(counts.tolist()):
        if not count:
            continue
        bar = max(height * count / highest, 1.5)
        paint = "bad" if (b + 1) / n_bins <= 0.8 + 1e-9 else "weak" if (b + 1) / n_bins <= 0.95 + 1e-9 else "good"
        tip = f"<title>{100 * b / n_bins:.0f} to {100 * (b + 1) / n_bins:.0f} %: {counted(int(count), 'item')}</title>"
        parts.append(f"<g>{tip}{rect(left + step * b + 1, top + height - bar, step - 2, bar, paint)}</g>")
        # Longer numbers would run into their neighbours'.
        if count == highest or len(whole(count)) <= 3:
            parts.append(caption(whole(count), left + step * (b + 0.5), top + height - bar - 5, paint="muted", anchor="middle"))
    parts.append(f'<path d="M{left} {top + height}H{left + width}" {stroke("muted")}/>')
    for tick, anchor in ((0, "start"), (20, "middle"), (40, "middle"), (60, "middle"), (80, "middle"), (100, "end")):
        parts.append(caption(f"{tick} %", left + width * tick / 100, top + height + 18, paint="muted", anchor=anchor))
    parts += _key([("bad", "under 80 %"), ("weak", "80 to 95 %"), ("good", "95 % and more")], top + height + 44)
    return svg(WIDTH, top + height + 58, f"Histogram of the confidence of {whole(counts.sum())} items", parts)


def shares_picture(classes: Array, consensus_k: Array, votes_k: Array, shown: Array) -> str:
    """Two bars per class: its share of the consensus labels and of the votes."""
    left, top, width, row = 132.0, 44.0, WIDTH - 132.0 - 70.0, 40.0
    longest = max(float(consensus_k[shown].max(initial=0)), float(votes_k[shown].max(initial=0)), 1e-9)
    parts = [caption("Shares of classes", 16, 26, extra=' font-size="16" font-weight="600"')]
    for i, k in enumerate(shown.tolist()):
        y = top + row * i
        parts.append(short(classes[k], left - 10, y + 22, 14))
        for offset, share, paint in ((3.0, consensus_k[k], "good"), (19.0, votes_k[k], "unsure")):
            parts.append(rect(left, y + offset, max(width * share / longest, 1), 14, paint))
            parts.append(
                caption(
                    percent(float(share)),
                    left + width * share / longest + 6,
                    y + offset + 11.5,
                    paint="muted",
                    extra=' font-size="12"',
                )
            )
    bottom = top + row * len(shown)
    parts += _key([("good", "consensus"), ("unsure", "votes")], bottom + 18)
    return svg(WIDTH, bottom + 34, f"Shares of {len(shown)} classes among consensus labels and among votes", parts)


def confusion_picture(classes: Array, share_kl: Floats, shown: Array) -> str:
    """Heat map of P(observed | true), rows are true classes; rows without votes stay empty."""
    left, top, size = 110.0, 120.0, WIDTH - 156.0
    cell = min(size / max(len(shown), 1), 74.0)
    names = [classes[k] for k in shown.tolist()]
    parts = [
        caption("Which labels are given for which class", 16, 26, extra=' font-size="16" font-weight="600"'),
        caption("true class ↓   given label →", 16, 48, paint="muted"),
    ]
    letters = 12 if len(shown) <= 10 else 11
    for i, name in enumerate(names):
        middle = cell * (i + 0.5)
        parts.append(short(name, left - 8, top + middle + 4.5, 12, extra=f' font-size="{letters}"'))
        x, y = left + middle + 4, top - 8
        parts.append(
            short(name, x, y, 9, anchor="start", extra=f' font-size="{letters}" transform="rotate(-50 {x:.1f} {y:.1f})"')
        )
        for j, given in enumerate(names):
            share = float(share_kl[shown[i], shown[j]])
            x, y = left + cell * j, top + cell * i
            if np.isnan(share):
                continue
            tip = f"<title>{plain(name, 40)} called {plain(given, 40)}: {percent(share)}</title>"
            tint = rect(
                x + 0.5,
                y + 0.5,
                cell - 1,
                cell - 1,
                "right" if i == j else "wrong",
                f' fill-opacity="{0.06 + 0.94 * share:.2f}"',
            )
            number = ""
            if len(shown) <= 10:
                paint = "bright" if share > 0.85 else "ink"
                number = caption(f"{100 * share:.0f}", x + cell / 2, y + cell / 2 + 4.5, paint=paint, anchor="middle")
            parts.append(f"<g>{tip}{tint}{number}</g>")
    bottom = top + cell * len(shown)
    parts += _key([("right", "right"), ("wrong", "wrong"), ("", "darker: larger share of the votes (in %)")], bottom + 26)
    return svg(WIDTH, bottom + 42, f"Heat map of given labels by true class, {len(shown)} classes", parts)


def scatter_picture(votes: Annotations, crowd: Crowd) -> str:
    """Accuracy against number of votes for a crowd too large to name."""
    left, top, width, height = 56.0, 50.0, WIDTH - 80.0, 230.0
    order = crowd.order
    if len(order) > MOST_POINTS:
        # Evenly through the order of accuracy: every part of the crowd keeps its weight.
        order = order[np.linspace(0, len(order) - 1, MOST_POINTS).astype(int)]
    n_votes = votes.answers_per_annotator[order]
    span = max(np.log10(max(float(n_votes.max(initial=1)), 1)), 0.3)
    parts = [caption("Accuracy against number of votes", 16, 26, extra=' font-size="16" font-weight="600"')]
    for tick in range(0, 101, 25):
        y = top + height * (1 - tick / 100)
        parts.append(f'<path d="M{left} {y:.1f}h{width}" {stroke("rule")}/>')
        parts.append(caption(f"{tick} %", left - 8, y + 4, paint="muted", anchor="end"))
    for power in range(int(span) + 1):
        parts.append(caption(whole(10**power), left + width * power / span, top + height + 20, paint="muted", anchor="middle"))
    parts.append(caption("votes", left + width, top + height + 38, paint="muted", anchor="end"))
    x_a, y_a = left + width * np.log10(n_votes) / span, top + height * (1 - np.clip(crowd.accuracy[order], 0, 1))
    for paint in ("unsure", "good", "weak", "bad"):
        inside = [GRADES[s].paint == paint for s in crowd.grade[order].tolist()]
        points = "".join(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3"/>' for x, y in zip(x_a[inside], y_a[inside], strict=True))
        parts.append(f'<g fill-opacity="0.6" {fill(paint)}>{points}</g>')
    names = [("bad", "chance or worse"), ("weak", "weak"), ("unsure", "too few votes"), ("good", "above chance")]
    parts += _key(names, top + height + 60)
    return svg(WIDTH, top + height + 76, f"Accuracy of {whole(len(order))} annotators against their number of votes", parts)


def _key(entries: list[tuple[str, str]], y: float) -> list[str]:
    """Colours and what they mean, in one line; an entry without colour is a remark."""
    parts, x = [], 16.0
    for paint, words in entries:
        if paint:
            parts.append(rect(x, y - 10, 11, 11, paint))
            x += 17
        parts.append(caption(words, x, y, paint="muted"))
        x += 7.2 * len(words) + 16
    return parts
