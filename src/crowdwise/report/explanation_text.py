"""Why an item got its label, in rows and a few lines for people, and as data for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import number, one_line

if TYPE_CHECKING:
    from crowdwise.estimator.explain import Explanation

__all__ = ["bar", "explanation_document", "explanation_notes", "explanation_rows", "explanation_summary"]

# Rows that are no votes. They are last and without a bar: next to theirs, those of the votes would be short.
_FURTHER = {
    "models": "votes show means over several models, but the label rests on the mean of their probabilities: the difference",
    "caution": "what experience with other crowds takes back, because votes share errors",
}
_CAUTION_OF_SHARES = "one more vote is counted, divided by the class shares, as experience with other crowds has it"
# Classes and votes that are named above the table; what is too little to be named; and what the table would show as 0.
_NAMED, _HARDLY, _ROUNDED = 5, 0.005, 5e-5


def bar(value: float, largest: float, width: int = 12) -> str:
    """Return a bar from the middle: to the right for positive values, to the left for negative ones."""
    size = 0 if largest <= 0 else round(abs(value) / largest * width)
    left, right = ("▇" * size, "") if value < 0 else ("", "▇" * size)
    return f"{left:>{width}}│{right:<{width}}"


def explanation_document(why: Explanation) -> dict[str, Any]:
    """Everything, for JSON."""
    parts = {name: getattr(why, name) for name in ("item", "label", "against", "confidence", "by_model", "confidence_source")}
    parts |= {name: getattr(why, name) for name in ("unit", "total", "known")}
    said = [{"label": label, "votes": votes} for label, votes in why.said.items()]
    return parts | {"said": said, "rows": why.rows.to_dicts()}


def explanation_summary(why: Explanation) -> Iterator[str]:
    """The label, who said what, which votes moved it furthest, and why it is not surer: a line each."""
    known = " (known: the votes did not decide it)" if why.known else ""
    yield f"{one_line(why.item)}: {one_line(why.label)}, probability {number(why.confidence)}{known}"
    rows = [row for row in why.rows.iter_rows() if row[1] is not None]
    yield _votes_line(why, rows)
    # Anonymous votes have one row per class.
    if len(rows) >= why.n_voters > 1:
        for label, sign in ((why.label, 1), (why.against, -1)):
            yield from _movers(label, [(who, said, sign * moved) for who, said, moved in rows])
    if not why.known:
        yield _why_not_surer(why)


def _votes_line(why: Explanation, rows: list[Any]) -> str:
    """How many votes name each class; of a single one, whose it is."""
    total = float(sum(why.said.values()))
    if len(rows) == 1 and total == 1:
        return f"1 vote: {one_line(rows[0][0])} said {one_line(rows[0][1])}"
    said = [f"{number(float(votes))} for {one_line(label)}" for label, votes in why.said.items()]
    more = f" and for {len(said) - _NAMED} more classes" if len(said) > _NAMED else ""
    return f"{number(total)} votes: {', '.join(said[:_NAMED])}{more}" if said else "no votes"


def _movers(label: Any, rows: list[tuple[str, str, float]]) -> Iterator[str]:
    """The votes that moved the label furthest to this class, with what they said where it is another."""
    rows = sorted((row for row in rows if row[2] >= _HARDLY), key=lambda row: -row[2])
    if rows:
        named = [
            f"{one_line(who)} ({moved:.2f}{'' if said == str(label) else f', said {one_line(said)}'})"
            for who, said, moved in rows
        ]
        more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
        yield f"towards {one_line(label)}: {', '.join(named[:_NAMED])}{more}"


def _why_not_surer(why: Explanation) -> str:
    """Where the distance of the confidence from one comes from."""
    model, believed = number(why.by_model), number(why.confidence)
    if not why.said:
        return "no surer, for nobody voted: this is what was known before"
    if why.confidence_source == "model":
        return "as sure as the model, which takes annotators to err independently: --set confidence=experience for less"
    if why.confidence_source != "experience":
        return f"{model} by the model alone, {believed} by the labels that were checked ({why.confidence_source})"
    if why.n_voters == 1:
        return "no surer, for one annotator alone voted, and nobody is always right"
    if why.by_model - why.confidence < _HARDLY:
        return "no surer, for the votes leave it open"
    if why.unit == "share":
        return f"no surer, though the share of the votes is {model}: one more is counted, divided by the class shares"
    return f"no surer, because annotators share mistakes: {model} if they did not, {believed} by experience with other crowds"


def explanation_rows(why: Explanation) -> tuple[list[str], list[list[Any]]]:
    """Names of columns and rows: votes from the one that speaks most for the label to the one that speaks most against it."""
    first, *rest = why.rows.iter_rows()
    votes = sorted((row for row in rest if row[1] is not None), key=lambda row: -row[2])
    largest = max(abs(row[2]) for row in (first, *votes))
    rows = [[*row, bar(row[2], largest)] for row in (*votes, first)]
    names = ["source", "vote", why.unit, f"for {one_line(why.label)}, against {one_line(why.against)}"]
    return names, [*rows, *([*row, ""] for row in _further(why)), ["total", None, why.total, ""]]


def _further(why: Explanation) -> list[tuple[str, None, float]]:
    """Rows that are no votes, where they add anything."""
    return [row for row in why.rows.iter_rows() if row[1] is None and row[0] in _FURTHER and abs(row[2]) >= _ROUNDED]


def explanation_notes(why: Explanation, shared: bool = False) -> Iterator[str]:
    """What rows that are no votes mean; `shared` says that annotators of these votes seem to share errors."""
    for name, *_ in _further(why):
        meaning = _CAUTION_OF_SHARES if name == "caution" and why.unit == "share" else _FURTHER[name]
        here = ", and what those leave open who seem to share errors here" if shared and name == "caution" else ""
        yield f"{name}: {meaning}{here}"
