"""What a notebook shows of votes and of a fit: a few counts and a short table, escaped, without script or style sheet.

Takes anything with the attributes of `Annotations` and `Result`, so that both may call it from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdwise.data.markup import counted, percent, plain, text, whole

__all__ = ["outcome_html", "result_html", "votes_html"]

# Attributes instead of a style sheet: a notebook may hold hundreds of outputs, and strips <style> when it does not trust.
_TABLE = 'style="border-collapse:collapse;margin:4px 0"'
_MOST_CLASSES, _MOST_ROWS = 8, 5


def votes_html(votes: Any) -> str:
    """Sizes, shares of the classes and the first votes."""
    per_item = votes.votes_per_item
    range_text = f", {per_item.min()} to {per_item.max()} per item" if votes.n_items else ""
    facts = [
        f"{counted(votes.n_items, 'item')}, {counted(votes.n_annotators, 'annotator')}{range_text}",
        f"{counted(votes.n_missing, 'missing label')} dropped" if votes.n_missing else "",
        f"{counted(votes.n_gold, 'known label')} (gold)" if votes.n_gold else "",
    ]
    first = range(min(votes.n_votes, _MOST_ROWS))
    rows = [
        (text(votes.items[votes.item[e]]), text(votes.annotators[votes.annotator[e]]), text(votes.classes[votes.label[e]]))
        for e in first
    ]
    head = f"<strong>Annotations</strong>: {counted(votes.n_votes, 'vote')} on {'; '.join(filter(None, facts))}"
    count_k = np.bincount(votes.label, minlength=votes.n_classes)
    more = f"<p>and {counted(votes.n_votes - len(rows), 'more vote')}</p>" if votes.n_votes > len(rows) else ""
    return (
        f"<div><p>{head}</p>{_shares(votes.classes, count_k, 'Votes')}"
        + _table(("Item", "Annotator", "Label"), rows)
        + f"{more}</div>"
    )


def result_html(result: Any, settings: bool = False) -> str:
    """How the fit went, labels by class, the least certain items and the ends of the crowd."""
    votes, confidence = result.votes, result.confidence
    state = "converged" if result.converged else "<strong>not converged</strong>"
    run = f"{state} after {counted(int(result.n_iter), 'iteration')}" if result.n_iter > 1 else "computed directly"
    low = int((confidence < 0.8 - 1e-9).sum())
    head = (
        f"<strong>{plain(result.method)}</strong>: {counted(votes.n_items, 'item')}, "
        f"{counted(votes.n_annotators, 'annotator')}, {counted(votes.n_votes, 'vote')}; {run}; "
        f"{counted(low, 'label')} under 80 % confidence"
    )
    unsure = np.argsort(np.round(confidence, 9), kind="stable")[:_MOST_ROWS].tolist()
    items = [
        (
            text(votes.items[n]),
            text(votes.classes[result.codes[n]]),
            percent(float(confidence[n])),
            str(votes.votes_per_item[n]),
        )
        for n in unsure
    ]
    accuracy = result.accuracy
    voted = np.flatnonzero(votes.votes_per_annotator > 0)
    order = voted[np.argsort(-accuracy[voted], kind="stable")].tolist()
    shown = order if len(order) <= 2 * _MOST_ROWS else [*order[:_MOST_ROWS], None, *order[-_MOST_ROWS:]]
    annotators = [
        ("…", "", f"{whole(len(order) - 2 * _MOST_ROWS)} others")
        if a is None
        else (text(votes.annotators[a]), percent(float(accuracy[a])), whole(votes.votes_per_annotator[a]))
        for a in shown
    ]
    count_k = np.bincount(result.codes, minlength=votes.n_classes)
    own = ", ".join(f"{plain(name)}={plain(repr(value))}" for name, value in result.settings.items()) if settings else ""
    return (
        f"<div><p>{head}</p>"
        + (f"<p><code>{own}</code></p>" if own else "")
        + _shares(votes.classes, count_k, "Labels")
        + _table(("Least certain items", "Label", "Confidence", "Votes"), items)
        + _table(("Annotators", "Accuracy", "Votes"), annotators)
        + "</div>"
    )


def outcome_html(outcome: Any) -> str:
    """How any fit went, and the first rows about items and annotators."""
    state = "converged" if outcome.converged else "<strong>not converged</strong>"
    head = (
        f"<strong>{plain(outcome.method)}</strong>: {counted(outcome.votes.n_items, 'item')}, "
        f"{counted(outcome.votes.n_annotators, 'annotator')}; {state} after {counted(int(outcome.n_iter), 'iteration')}"
    )
    tables = [_first_rows(frame) for frame in (outcome.items_frame(), outcome.annotators_frame())]
    return f"<div><p>{head}</p>{''.join(tables)}</div>"


def _first_rows(frame: Any) -> str:
    rows = [[text("" if cell is None else _short(cell)) for cell in row] for row in frame.head(_MOST_ROWS).iter_rows()]
    more = f"<p>and {whole(len(frame) - len(rows))} more</p>" if len(frame) > len(rows) else ""
    return _table([text(name) for name in frame.columns], rows) + more


def _short(cell: Any) -> Any:
    return f"{cell:.3g}" if isinstance(cell, float) else cell


def _shares(classes: Any, count_k: Any, what: str) -> str:
    order = np.argsort(-count_k, kind="stable")[:_MOST_CLASSES].tolist()
    total = max(int(count_k.sum()), 1)
    words = [f"{text(classes[k], 30)} {percent(count_k[k] / total)}" for k in order]
    hidden = len(count_k) - len(order)
    return f"<p>{what}: {', '.join(words)}{f' and {whole(hidden)} other classes' if hidden else ''}</p>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f'<th scope="col" style="text-align:left">{name}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f"<table {_TABLE}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
