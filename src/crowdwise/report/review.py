"""Items to review first: their votes, and how much each moved the label.

The contributions are those of `crowdwise.estimator.explain`, computed for all shown items at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.estimator.explain import further_terms, voters_of
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers
from crowdwise.report.markup import caption, clean, percent, plain, rect, short, stroke, svg
from crowdwise.report.uncertainty import Uncertainty, reason, runner_up

__all__ = ["Why", "items_data", "why_of", "why_picture"]


# What is written into the page: rows, votes of one row, and characters of all of them together.
MOST_ITEMS, MOST_VOTES, MOST_CHARACTERS = 2000, 40, 1_200_000
# Rows of an explanation that are no votes.
_MEANINGS = {"models": "mean of several models, less their sum", "caution": "taken back, for votes share errors"}


@dataclass(frozen=True, eq=False)
class Why:
    """Contributions to the label of an item against the class `against`; votes are positions among the votes.

    `further` holds what the mean of several models and calibration add, by their names.
    """

    item: int
    against: int
    prior: float
    votes: Integers
    contribution: Floats
    further: dict[str, float]

    @property
    def total(self) -> float:
        """What they add up to."""
        return self.prior + float(self.contribution.sum()) + sum(self.further.values())


def why_of(result: Result, items: Integers) -> list[Why]:
    """Decompose the labels of some items; empty with a single class, where nothing is to be explained."""
    votes = result.votes
    if votes.n_classes < 2:
        return []
    index = [np.arange(votes.item_ptr[n], votes.item_ptr[n + 1]) for n in items.tolist()]
    everything = np.concatenate(index) if index else np.empty(0, np.int64)
    evidence = result.annotators.log_lik(votes, everything) if len(everything) else np.zeros((0, votes.n_classes))
    shares = unit_of(result) == "share"
    log_prior = np.zeros((1, votes.n_classes)) if shares else result.prior.log_prob()
    is_known = votes.is_known
    found, start = [], 0
    for n, own in zip(items.tolist(), index, strict=True):
        part = evidence[start : start + len(own)]
        start += len(own)
        # Shares are of votes only; the class prior decides nothing but items without (weighted) votes.
        prior = log_prior[n if len(log_prior) > 1 else 0]
        if shares and not part.any():
            prior = result.class_prior
        label = int(result.codes[n])
        others = (prior + part.sum(axis=0) if is_known[n] else result.posterior[n]).copy()
        others[label] = -np.inf
        against = int(others.argmax())
        first, contribution = float(prior[label] - prior[against]), part[:, label] - part[:, against]
        total = first + float(contribution.sum())
        further = {} if is_known[n] else further_terms(result, n, label, against, unit_of(result), total)
        found.append(Why(n, against, first, own, contribution, further))
    return found


def unit_of(result: Result) -> str:
    """Return "log-odds", or "share" for methods that count votes."""
    return str(getattr(result.annotators, "additive_in", "log-odds"))


def prior_name(result: Result) -> str:
    """Return what speaks before any vote does."""
    return str(getattr(result.prior, "said_by", "class prior"))


def items_data(result: Result, uncertainty: Uncertainty, why: list[Why], about: Any = None) -> dict[str, Any]:
    """Rows of the items' table for the page's script: vocabularies once, everything else as numbers."""
    votes, rows, used = result.votes, [], 0
    by_item = {one.item: one for one in why}
    voters: dict[str, int] = {}
    per_item = votes.answers_per_item
    for n in uncertainty.least_certain.tolist():
        second, share = runner_up(result, n)
        row: list[Any] = [
            clean(votes.items[n], 80),
            int(result.codes[n]),
            round(float(uncertainty.confidence[n]), 4),
            second if votes.n_classes > 1 else -1,
            round(share, 4) if votes.n_classes > 1 else 0,
            int(per_item[n]),
            reason(result, uncertainty, n, clean),
        ]
        one = by_item.get(n)
        if one is not None:
            # The votes that moved most, where there are too many to show.
            names, said, moved = voters_of(votes, one.votes, one.contribution)
            order = np.argsort(-np.abs(moved), kind="stable")[:MOST_VOTES]
            row += [
                one.against,
                round(one.prior, 3),
                [voters.setdefault(names[e], len(voters)) for e in order.tolist()],
                said[order].tolist(),
                np.round(moved[order], 3).tolist(),
                round(one.total, 3),
                [[name, round(value, 3)] for name, value in one.further.items()],
            ]
        rows.append(row)
        used += len(row[0]) + 60 + 14 * (len(row[9]) if len(row) > 9 else 0)
        if len(rows) >= MOST_ITEMS or used > MOST_CHARACTERS:
            break
    shown = uncertainty.least_certain[: len(rows)].tolist()
    known = {} if about is None else {"about": {"names": about.columns, "rows": _cells(about[shown])}}
    return known | {
        "rows": rows,
        "classes": [clean(name, 40) for name in votes.classes],
        "annotators": [clean(name, 40) for name in voters],
        "unit": unit_of(result),
        "prior": prior_name(result),
        "total": votes.n_items,
        "anonymous": votes.anonymous,
        "meanings": _MEANINGS,
    }


def _cells(about: Any) -> list[list[str]]:
    return [[clean(cell or "", 300) for cell in row] for row in about.rows()]


def why_picture(result: Result, one: Why, confidence: float, most: int = 12) -> str:
    """Bars to the right speak for the label, bars to the left for the runner-up; they add up to the total."""
    votes, label = result.votes, result.votes.classes[result.codes[one.item]]
    left, width, top, row = 150.0, 250.0, 78.0, 22.0
    names, said, moved = voters_of(votes, one.votes, one.contribution)
    order = np.argsort(-np.abs(moved), kind="stable")
    lines: list[tuple[Any, Any, float]] = [(prior_name(result), "", one.prior)]
    lines += [(names[e], votes.classes[said[e]], float(moved[e])) for e in order[:most].tolist()]
    if len(order) > most:
        rest = moved[order[most:]]
        lines.append((f"{len(rest)} more votes", "", float(rest.sum())))
    # What is no vote has no bar: next to its own, those of the votes would be short.
    largest = max(max(abs(value) for _, _, value in lines), 1e-9)
    n_bars = len(lines)
    lines += [(name, "", value) for name, value in one.further.items()]
    middle = left + 92 + width / 2
    against = plain(votes.classes[one.against], 20)
    parts = [
        short(votes.items[one.item], 16, 24, 48, anchor="start", extra=' font-size="15" font-weight="600"'),
        caption(f"{plain(label, 20)} ({percent(confidence)}) against {against}, in {unit_of(result)}", 16, 46, paint="muted"),
        f'<path d="M{middle} {top - 14}V{top + row * (len(lines) + 1)}" {stroke("rule")}/>',
        caption(f"&larr; {against}", middle - 8, top - 14, paint="muted", anchor="end", extra=' font-size="11"'),
        caption(f"{plain(label, 20)} &rarr;", middle + 8, top - 14, paint="muted", extra=' font-size="11"'),
    ]
    for i, (source, said, value) in enumerate([*lines, ("total", "", one.total)]):
        y = top + row * i
        bold = ' font-weight="600"' if source == "total" else ""
        parts.append(short(source, left - 8, y + 13, 19, extra=bold))
        parts.append(short(said, left, y + 13, 11, paint="muted", anchor="start"))
        if i < n_bars:
            bar = (width / 2 - 44) * abs(value) / largest
            parts.append(rect(middle - (bar if value < 0 else 0), y + 3, max(bar, 0.5), 13, "good" if value >= 0 else "bad"))
        side = (width / 2 - 44) * abs(value) / largest if i < n_bars else 0
        x, anchor = (middle + side + 5, "start") if value >= 0 else (middle - side - 5, "end")
        parts.append(caption(f"{value:+.2f}", x, y + 14, paint="muted", anchor=anchor, extra=f' font-size="11"{bold}'))
    height = top + row * (len(lines) + 1) + 8
    return svg(
        500, height, f"Why {plain(votes.items[one.item], 40)} is called {plain(label, 40)}: contributions of its votes", parts
    )
