"""An audit of groups as data for JSON, as rows for a terminal, and the price of parity in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from crowdwise.report.text import Table, count, framed

if TYPE_CHECKING:
    from crowdwise.trust.fairness import Audit, ParityLabels

__all__ = ["document", "price", "tables"]


def document(method: str, seen: Audit, alike: ParityLabels | None) -> dict[str, Any]:
    """Everything, for JSON."""
    document: dict[str, Any] = {
        "method": method,
        "groups": seen.group_frame.to_dicts(),
        "rates": seen.rates.to_dicts(),
        "gaps": seen.gaps.to_dicts(),
        "annotators": seen.annotators.to_dicts(),
        "notes": list(seen.notes),
    }
    if alike is not None:
        names = ("constraint", "within", "gap_before", "gap", "accuracy_before", "accuracy", "cost", "expected_cost")
        facts = {name: getattr(alike, name) for name in (*names, "n_changed", "n_known", "against")}
        document["parity"] = facts | {"groups": alike.groups_frame().to_dicts()}
    return document


def tables(seen: Audit, alike: ParityLabels | None, most: int = 10) -> Iterator[Table]:
    """What a terminal shows, table by table."""
    columns, names = ["of", "against", "measure", "class"], [str(name) for name in seen.groups.names]
    if seen.groups.n_groups <= 6:
        yield "Rates, and how many items or votes they are shares of", [*columns, *names], _rate_rows(seen), names
    right = ["gap", "95 % interval"]
    yield "Largest gaps between two groups", [*columns, "groups", *right], _gap_rows(seen), right
    people = seen.annotators.drop_nulls("score").sort("probability", "score", descending=True).head(most)
    if people.height:
        # Of two groups, the farthest pair is known.
        people = people.drop("n_least", "q_value", *(["group", "other"] if seen.groups.n_groups == 2 else []))
        yield framed(people, "Annotators whose answers differ most between groups")
    if alike is not None:
        yield framed(alike.groups_frame(), f"Labels within {alike.within} of parity ({alike.constraint})")


def _rate_rows(seen: Audit) -> list[list[str]]:
    """Rates, and how many items or votes they are shares of: a row per measure, a column per group after the first four."""
    parts = seen.rates.group_by("of", "against", "measure", "class", maintain_order=True)
    return [
        [of, _short(against), measure, name, *(f"{_digits(r)} ({n:,.0f})" for r, n in part.select("rate", "n").rows())]
        for (of, against, measure, name), part in parts
    ]


def _gap_rows(seen: Audit) -> list[list[str]]:
    """Largest gaps between two groups: of, against, measure, class, groups, gap and its interval."""
    return [
        [of, _short(against), measure, name, f"{high} over {low}" if high is not None else "", _digits(gap), _span(start, stop)]
        for of, against, measure, name, high, low, gap, start, stop, _ in seen.gaps.rows()
    ]


def _short(against: Any) -> str:
    return "circular" if "circular" in against else str(against)


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _span(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def price(alike: ParityLabels) -> str:
    """The price of parity in a sentence."""
    met = f"{alike.constraint} gap {alike.gap_before:.3f} -> {alike.gap:.3f}"
    met += f" (against {alike.against})" if alike.against else ""
    changed = f"{count(alike.n_changed, 'label')} changed"
    if alike.n_known:
        cost, low, high = alike.cost
        rest = f"accuracy {alike.accuracy_before:.3f} -> {alike.accuracy:.3f} on {count(alike.n_known, 'known label')}"
        change = f"lost {cost:.3f} ({low:.3f} to {high:.3f})"
        if cost < 0:
            change = f"gained {-cost:.3f} ({-high:.3f} to {-low:.3f})"
        return f"{met}; {changed}; {rest}: {change}"
    return (
        f"{met}; {changed} against the labels without the constraint; no truth was given, so the cost is not known "
        f"(the model expects to lose {alike.expected_cost:.3f} in accuracy)"
    )
