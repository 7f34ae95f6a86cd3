"""The sections of the report that are more text than picture; the others have modules of their own."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise import __version__
from crowdwise.data.agreement import summary
from crowdwise.data.gold import encode_gold
from crowdwise.estimator.judgement import Crowd, crowd_of
from crowdwise.estimator.outcome import Result
from crowdwise.report.annotators import MOST_ANNOTATORS, Detections, detect, matrices
from crowdwise.report.blocks import NOBODY, annotators_figures, annotators_table, item_figures, lead, settings_table, tiles
from crowdwise.report.counts import counts_of, counts_picture, counts_table
from crowdwise.report.findings import findings, headline
from crowdwise.report.markup import counted, percent, plain, table, text, whole
from crowdwise.report.review import MOST_ITEMS, Why, why_picture
from crowdwise.report.uncertainty import Uncertainty, least_certain_table, uncertainty_of
from crowdwise.trust.crowd.draws import told_from_chance
from crowdwise.trust.metrics import accuracy

__all__ = [
    "Facts",
    "annotators_section",
    "choice_section",
    "computed_section",
    "data_section",
    "facts_of",
    "gap_of",
    "in_short",
    "labels_section",
    "review_section",
]

# Confusions rarer than this are slips.
_WORTH_A_ROW = 0.02
# Items explained by a picture each.
_CARDS = 4


@dataclass(frozen=True, eq=False)
class Facts:
    """What several sections need, computed once."""

    result: Result
    data: dict[str, Any]
    crowd: Crowd
    uncertainty: Uncertainty
    detections: Detections
    truth: NDArray[np.int16] | None
    n_given: int


def facts_of(
    result: Result, truth: Any, time: Any, fdr: float, progress: Callable[[str, int, int | None], None] | None = None
) -> Facts:
    """Compute once what several sections need; classes given to the fit are no known ones."""
    codes, n_given = None, 0
    if truth is not None:
        codes = encode_gold(result.votes, truth)
        given = result.votes.is_known
        n_given = int((given & (codes >= 0)).sum())
        codes = np.where(given, -1, codes).astype(np.int16)
    uncertainty = uncertainty_of(result, MOST_ITEMS)
    detections = detect(result, fdr=fdr, time=time, progress=progress)
    crowd = told_from_chance(crowd_of(result), result, fdr)
    return Facts(result, summary(result.votes), crowd, uncertainty, detections, codes, n_given)


def in_short(facts: Facts) -> str:
    """Return what is certain, and what deserves a second look."""
    notes = findings(facts.result, facts.data, facts.crowd, facts.uncertainty)
    first = headline(facts.result, facts.uncertainty)
    if facts.truth is not None and (known := int((facts.truth >= 0).sum())):
        right = accuracy(facts.result.posterior, facts.truth)
        first += (
            f"<p>On {counted(known, 'item')} of known class, <strong>{percent(right)}</strong> of the labels are right.</p>"
        )
    look = "".join(f"<li>{note}</li>" for note in notes) or "<li>Nothing stands out.</li>"
    return first + f'<h3>What to check</h3><ul class="look{"" if notes else " calm"}">{look}</ul>'


def data_section(facts: Facts) -> str:
    """Return sizes, votes per item and annotator, and agreement."""
    per_item, per_annotator = facts.data["votes_per_item"], facts.data["votes_per_annotator"]
    words = ""
    if per_item and per_annotator:
        words = (
            f"<p>Votes per item: {_span(per_item)}. Votes per annotator: {_span(per_annotator)}; half of them gave "
            f"{whole(per_annotator['median'])} or fewer.</p>"
        )
        if facts.result.votes.anonymous:
            words = f"<p>Votes per item: {_span(per_item)}.</p>"
    return tiles(facts.result, facts.data, facts.uncertainty) + words


def _span(counts: dict[str, Any]) -> str:
    low, high = whole(counts["min"]), whole(counts["max"])
    return low if low == high else f"{low} to {high}"


def gap_of(facts: Facts) -> float:
    """By how much confidences exceed the accuracy on known classes; 0 without any."""
    if facts.truth is None or not (facts.truth >= 0).any():
        return 0.0
    return float(facts.uncertainty.confidence[facts.truth >= 0].mean()) - accuracy(facts.result.posterior, facts.truth)


def choice_section(fitted: Any, facts: Facts) -> str:
    """Return the method and, where it was chosen, why."""
    result = facts.result
    choice = getattr(fitted, "choice_", None)
    parts = [lead(result)]
    if choice is None:
        parts.append(
            "<p>One method for all votes, not chosen by comparing several. <code>crowdwise compare</code> measures others on "
            "the same votes.</p>"
        )
    else:
        parts.append(_choice_table(choice, getattr(fitted, "reason_", "")))
    if result.votes.n_items and result.votes.n_classes > 1:
        differ, tied = facts.uncertainty.n_overruled, facts.uncertainty.n_tied
        ties = f" On {counted(tied, 'more item')} votes are tied, and a majority vote would have to guess." if tied else ""
        parts.append(
            f"<p>Compared with a plain majority vote, <strong>{counted(differ, 'label')}</strong> "
            f"({percent(differ / result.votes.n_items)}) came out differently.{ties}</p>"
        )
    return "".join(parts)


def _choice_table(choice: pl.DataFrame, reason: str) -> str:
    """The choice in its own words, and the candidates."""
    numeric = [i for i, dtype in enumerate(choice.dtypes) if dtype.is_numeric()]
    rows = [tuple(_cell(value) for value in row) for row in choice.head(50).rows()]
    considered = table("Methods that were considered", [plain(name) for name in choice.columns], rows, numeric=numeric)
    note = "The score is the mean log-probability of held-out votes, without any true label: higher is better."
    return (f"<p>{plain(reason, 600)}.</p>" if reason else "") + considered + f'<p class="note">{note}</p>'


def _cell(value: Any) -> str:
    if value is None or value != value:
        return "&ndash;"
    return f"{value:.4g}" if isinstance(value, float) else text(value, 120)


def labels_section(facts: Facts) -> str:
    """Return labels by class with their uncertainty, confidences and confusions."""
    counts = counts_of(facts.result)
    note = "The interval says how many items of a class there really are, if the confidences are right."
    figure = f'<figure class="card narrow">{counts_picture(facts.result, counts)}</figure>'
    return (
        f'<div class="pair">{figure}<div>{counts_table(facts.result, counts)}<p class="note">{note}</p></div></div>'
        + item_figures(facts.result, facts.uncertainty, shares=False)
        + _task(facts.result)
    )


def _task(result: Result, most: int = 5) -> str:
    """What this task confuses, and how many items nobody could tell, where the model knows."""
    shared_lk = getattr(getattr(result.annotators, "described", result.annotators), "shared_lk", None)
    if shared_lk is None or result.votes.n_classes < 2:
        return ""
    wrong = shared_lk * (1 - np.eye(len(shared_lk)))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    rows = [
        (text(result.votes.classes[k], 40), text(result.votes.classes[said], 40), percent(float(wrong[said, k])))
        for said, k in (divmod(int(cell), len(wrong)) for cell in order)
        if wrong[said, k] >= _WORTH_A_ROW
    ]
    untold = int(result.untold.sum())
    words = f"<p>{counted(untold, 'item')} that nobody could tell, by how the votes fall.</p>" if untold else ""
    caption = "What this task confuses, also for those who attend"
    return (table(caption, ("True", "Answered", "How often"), rows, numeric=(2,)) if rows else "") + words


def review_section(facts: Facts, why: list[Why], about: Any = None) -> str:
    """Return the least certain items with their explanations."""
    result, uncertainty = facts.result, facts.uncertainty
    shown = len(uncertainty.least_certain)
    rest = result.votes.n_items - shown
    words = "<p>The least certain labels, with what each vote contributed to them."
    if rest > 0:
        words += (
            f" The table holds the first {whole(shown)} of {whole(result.votes.n_items)} items; all of them are in the file "
            "that <code>--labels labels.csv</code> or <code>crowdwise aggregate</code> writes."
        )
    cards = "".join(
        f'<figure class="card">{why_picture(result, one, float(uncertainty.confidence[one.item]))}</figure>'
        for one in why[:_CARDS]
    )
    rows = least_certain_table(result, uncertainty, 15, about)
    return f'{words}</p><div class="pair">{cards}</div><div id="items-table">{rows}</div>'


def annotators_section(facts: Facts) -> str:
    """Return the ranking and the confusion matrices."""
    if facts.result.votes.anonymous:
        return NOBODY
    hidden = max(len(facts.crowd.order) - MOST_ANNOTATORS, 0)
    note = f"<p>{whole(hidden)} more are in the file that <code>crowdwise annotators</code> writes.</p>" if hidden else ""
    matrix = matrices(facts.result, facts.crowd, facts.detections) if facts.result.votes.n_classes > 1 else ""
    return (
        annotators_figures(facts.result, facts.crowd)
        + f'<div id="annotators-table">{annotators_table(facts.result, facts.crowd, 50)}</div>{note}'
        + (f"<h3>Confusion matrices</h3>{matrix}" if matrix else "")
    )


def computed_section(result: Result, made: Mapping[str, str]) -> str:
    """Return what it takes to repeat the run."""
    rows = [(plain(name), f"<code>{plain(value, 400)}</code>") for name, value in made.items()]
    rows += [
        ("Method", text(result.method)),
        ("Seed", "none" if result.seed is None else str(int(result.seed))),
        ("Iterations", f"{whole(result.n_iter)}, {'converged' if result.converged else 'not converged'}"),
        ("Versions", ", ".join(_versions())),
    ]
    return table("The run", ("What", "Value"), rows) + settings_table(result)


def _versions() -> list[str]:
    found = [f"crowdwise {__version__}", f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "polars"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found
