"""The picture of annotators: accuracy with its uncertainty, against chance, and how many votes it rests on."""

from __future__ import annotations

from crowdwise.estimator.judgement import ABOVE, CHANCE, GRADES, UNJUDGED, WEAK, Crowd, crowd_of
from crowdwise.estimator.outcome import Result
from crowdwise.report.markup import caption, fill, rect, short, stroke, svg, whole

__all__ = ["annotators_picture"]

# Rows of the picture; a larger crowd is shown by its two ends.
MOST, WORST, BEST = 40, 30, 9
WIDTH, LEFT, PLOT, ROW, TOP = 680, 168, 330, 22, 66
VOTES = LEFT + PLOT + 44
LEGEND = (
    (CHANCE, "no better than chance, or always the same label"),
    (WEAK, "nearer to chance than to the crowd"),
    (UNJUDGED, "too few votes to tell"),
    (ABOVE, "clearly above chance"),
)


def annotators_picture(result: Result) -> str:
    """Return an SVG of annotators, worst first: accuracy +- 2 sd, the level of chance, number of votes.

    It stands alone: no style sheet, no font, no script, and a background of its own.
    """
    crowd = crowd_of(result)
    rows: list[int | None] = [int(a) for a in crowd.order]
    hidden = len(rows) - WORST - BEST
    if len(rows) > MOST:
        rows = [*rows[:WORST], None, *rows[-BEST:]]
    bottom = TOP + ROW * len(rows)
    most_votes = max(int(result.votes.answers_per_annotator.max(initial=0)), 1)
    parts = [
        caption(
            "Accuracy of annotators ± 2 standard deviations, worst first", 16, 26, extra=' font-size="16" font-weight="600"'
        ),
        *_axis(bottom),
        _chance_line(result, crowd, rows),
    ]
    for i, a in enumerate(rows):
        y = TOP + ROW * i + ROW / 2
        if a is None:
            parts.append(caption(f"… {whole(hidden)} others …", LEFT + PLOT / 2, y + 4, paint="muted", anchor="middle"))
        else:
            parts += _row(result, crowd, a, y, most_votes)
    legend, height = _legend(crowd, bottom + 40)
    bad = len(crowd.unreliable)
    label = f"Accuracy of {whole(len(crowd.order))} annotators with uncertainty, worst first; {whole(bad)} look unreliable"
    return svg(WIDTH, height, label, [*parts, *legend])


def marker(grade: int, x: float, y: float) -> str:
    """Return the mark of a grade; shapes differ, so that nobody depends on colours."""
    paint = GRADES[grade].paint
    if paint == "bad":
        return f'<path d="M{x:.1f} {y - 6:.1f}l6 6l-6 6l-6 -6z" {fill(paint)}/>'
    if paint == "weak":
        return rect(x - 4.5, y - 4.5, 9, 9, paint)
    if paint == "unsure":
        # Hollow: the paper shows through, as little is known.
        circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"'
        return f'{circle} {fill("paper")}/>{circle} stroke-width="2" {stroke(paint)}/>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {fill(paint)}/>'


def _axis(bottom: float) -> list[str]:
    parts = []
    for tick in range(0, 101, 25):
        x = LEFT + PLOT * tick / 100
        parts.append(f'<path d="M{x:.1f} {TOP - 4}V{bottom:.1f}" {stroke("rule")}/>')
        parts.append(caption(f"{tick} %", x, TOP - 10, paint="muted", anchor="middle"))
    return [*parts, caption("votes", VOTES, TOP - 10, paint="muted")]


def _row(result: Result, crowd: Crowd, a: int, y: float, most_votes: int) -> list[str]:
    grade = int(crowd.grade[a])
    name, paint = GRADES[grade]
    x, low, high = (LEFT + PLOT * float(value[a]) for value in (crowd.accuracy, crowd.low, crowd.high))
    n_votes = int(result.votes.answers_per_annotator[a])
    estimate = f"{100 * crowd.accuracy[a]:.1f} % ({100 * crowd.low[a]:.1f} to {100 * crowd.high[a]:.1f})"
    bold = ' font-weight="600"' if paint == "bad" else ""
    return [
        short(result.votes.annotators[a], LEFT - 12, y + 4.5, 19, extra=bold),
        f"<g><title>{estimate}, {whole(n_votes)} vote{'s' * (n_votes != 1)}: {name}</title>",
        f'<path d="M{low:.1f} {y:.1f}H{high:.1f}m0 -4v8M{low:.1f} {y - 4:.1f}v8" stroke-width="2" {stroke(paint)}/>',
        marker(grade, x, y),
        "</g>",
        rect(VOTES, y - 5, max(70 * n_votes / most_votes, 1), 10, "rule"),
        caption(whole(n_votes), VOTES + 78, y + 4.5, paint="muted"),
    ]


def _chance_line(result: Result, crowd: Crowd, rows: list[int | None]) -> str:
    """A step per annotator, because chance is what their own labels would score if given blindly."""
    steps, pen = "", "M"
    for i, a in enumerate(rows):
        # With one class chance is always right, and no level to compare with.
        if a is None or len(result.votes.classes) < 2:
            pen = "M"
            continue
        x = LEFT + PLOT * float(crowd.chance[a])
        steps += f"{pen}{x:.1f} {TOP + ROW * i}V{TOP + ROW * (i + 1)}"
        pen = "L"
    return f'<path d="{steps}" stroke-dasharray="4 3" stroke-width="1.5" {stroke("ink")}/>' if steps else ""


def _legend(crowd: Crowd, y: float) -> tuple[list[str], float]:
    """One line per mark in use; returns the parts and the height of the picture."""
    parts = [f'<path d="M22 {y - 10:.1f}v12" stroke-dasharray="4 3" stroke-width="1.5" {stroke("ink")}/>']
    parts.append(caption("chance: the same labels given blindly", 38, y, paint="muted"))
    shown = {GRADES[s].paint for s in crowd.grade[crowd.order].tolist()}
    present = [(grade, words) for grade, words in LEGEND if GRADES[grade].paint in shown]
    # Two columns, or the legend would outgrow the picture of a small crowd.
    for i, (grade, words) in enumerate(present, 1):
        x, line = 22 + 320 * (i % 2), y + 22 * (i // 2)
        parts += [marker(grade, x, line - 4), caption(words, x + 16, line, paint="muted")]
    return parts, y + 22 * (len(present) // 2) + 16
