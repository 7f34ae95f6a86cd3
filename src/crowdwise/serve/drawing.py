"""The pictures of the dashboard: how labels came to be what they are, votes by the hour, intervals of annotators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from crowdwise.report.markup import caption, percent, rect, stroke, svg, whole

__all__ = ["history_picture", "hours_picture", "interval_picture", "moment"]

_WIDTH, _LEFT, _TOP, _HEIGHT = 500.0, 48.0, 44.0, 180.0
_TITLE = ' font-size="16" font-weight="600"'


def moment(seconds: float) -> str:
    """A time as people read it."""
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%d %b %H:%M} UTC"


def history_picture(snapshots: Sequence[dict[str, Any]], target: float) -> str:
    """Expected accuracy with its range, mean confidence and the share of labelled items over time."""
    right, bottom = _WIDTH - 16, _TOP + _HEIGHT
    first, last = snapshots[0]["at"], snapshots[-1]["at"]
    span = max(last - first, 1.0)

    def x(at: float) -> float:
        return _LEFT + (right - _LEFT) * ((at - first) / span if last > first else 1.0)

    def y(share: float) -> float:
        return bottom - _HEIGHT * share

    def line(name: str) -> list[tuple[float, float]]:
        # Before the first fit nothing is expected.
        there = [one for one in snapshots if one.get(name) is not None and one[name] == one[name]]
        return [(x(one["at"]), y(one[name])) for one in there]

    parts = [caption("Labels over time", 16, 26, extra=_TITLE)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path d="M{_LEFT} {y(share):.1f}H{right}" {stroke("rule")}/>')
        parts.append(
            caption(f"{100 * share:.0f} %", _LEFT - 6, y(share) + 4, paint="muted", anchor="end", extra=' font-size="12"')
        )
    low, high = line("low"), line("high")
    if low and len(low) == len(high):
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in [*low, *reversed(high)])
        parts.append(f'<polygon points="{points}" class="good" fill="#0072b2" opacity="0.18"/>')
    parts.append(f'<path d="M{_LEFT} {y(target):.1f}H{right}" {stroke("bad")} stroke-dasharray="5 4"/>')
    series = [(_share_line(snapshots, x, y), "unsure"), (line("mean_confidence"), "weak"), (line("expected"), "good")]
    for points_of, paint in series:
        if not points_of:
            continue
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points_of)
        parts.append(f'<path d="M{path}" {stroke(paint)} stroke-width="2.5" stroke-linejoin="round"/>')
        parts.append(f'<circle cx="{points_of[-1][0]:.1f}" cy="{points_of[-1][1]:.1f}" r="3.5" class="{paint}"/>')
    parts.append(caption(moment(first), _LEFT, bottom + 18, paint="muted", extra=' font-size="12"'))
    if last > first:
        parts.append(caption(moment(last), right, bottom + 18, paint="muted", anchor="end", extra=' font-size="12"'))
    names = [("good", "expected right, with range"), ("weak", "mean confidence"), ("unsure", "labelled"), ("bad", "target")]
    parts += _key(names, bottom + 42)
    return svg(_WIDTH, bottom + 76, "Expected accuracy, confidence and labelled items over time", parts)


def _share_line(snapshots: Sequence[dict[str, Any]], x: Any, y: Any) -> list[tuple[float, float]]:
    return [(x(one["at"]), y(one["labelled"] / max(one["items"], 1))) for one in snapshots]


def hours_picture(hours: dict[int, int], now_hour: int, shown: int = 48) -> str:
    """Bars of deliveries in the last hours."""
    right, bottom = _WIDTH - 16, _TOP + _HEIGHT
    counts = [hours.get(now_hour - shown + 1 + n, 0) for n in range(shown)]
    highest, step = max(*counts, 1), (right - _LEFT) / shown
    parts = [caption("Votes per hour", 16, 26, extra=_TITLE)]
    for share in (0.0, 0.5, 1.0):
        y = bottom - _HEIGHT * share
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{right}" {stroke("rule")}/>')
        text = whole(round(highest * share)) if share != 0.5 or highest > 1 else ""
        parts.append(caption(text, _LEFT - 6, y + 4, paint="muted", anchor="end", extra=' font-size="12"'))
    for n, count in enumerate(counts):
        if count:
            bar = max(_HEIGHT * count / highest, 1.5)
            tip = f"<title>{moment((now_hour - shown + 1 + n) * 3600)}: {whole(count)}</title>"
            parts.append(f"<g>{tip}{rect(_LEFT + step * n + 0.5, bottom - bar, max(step - 1, 1), bar, 'good')}</g>")
    parts.append(caption(f"{shown} hours ago", _LEFT, bottom + 18, paint="muted", extra=' font-size="12"'))
    parts.append(caption("now", right, bottom + 18, paint="muted", anchor="end", extra=' font-size="12"'))
    return svg(_WIDTH, bottom + 34, f"Votes per hour in the last {shown} hours", parts)


def interval_picture(mean: float, low: float, high: float, paint: str) -> str:
    """A share with its interval on a line from 0 to 1."""
    label = f"{percent(mean)}, {percent(low)} to {percent(high)}"
    width = 120.0
    return (
        f'<svg class="interval" viewBox="0 0 {width:.0f} 12" width="{width:.0f}" height="12" role="img" aria-label="{label}">'
        f"<title>{label}</title>"
        f'<path d="M0 6H{width}" {stroke("rule")} stroke-width="2"/>'
        f'<path d="M{width * low:.1f} 6H{width * high:.1f}" {stroke(paint)} stroke-width="4"/>'
        f'<circle cx="{min(max(width * mean, 4), width - 4):.1f}" cy="6" r="4" class="{paint}"/></svg>'
    )


def _key(entries: Sequence[tuple[str, str]], y: float) -> list[str]:
    parts = []
    for n, (paint, name) in enumerate(entries):
        left, top = 16 + 235 * (n % 2), y + 20 * (n // 2)
        parts += [rect(left, top - 9, 10, 10, paint), caption(name, left + 16, top, paint="muted", extra=' font-size="12"')]
    return parts
