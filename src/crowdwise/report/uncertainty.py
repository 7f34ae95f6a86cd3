"""Which labels are uncertain, how many, and why: the numbers behind the page's advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.report.markup import counted, percent, plain, table, text, whole

__all__ = ["Uncertainty", "least_certain_table", "reason", "runner_up", "uncertainty_of", "votes_in_short"]

# Under LOW a label is a guess to check; from SURE on it is as good as most gold labels.
LOW, SURE = 0.8, 0.95
N_BINS = 20
# Shares such as 4/5 may come out a rounding error below 0.8.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Uncertainty of the items that were labelled: those with votes (or features) whose class was not given as gold.

    Attributes
    ----------
    counts : [20]
        Items by confidence, in bins of 0.05.
    n_low, n_unsure
        Items under 0.8 and under 0.95.
    n_empty, n_single, n_overruled, n_tied
        Items without votes, with one vote, whose label is not among their most voted ones, and whose label is one of several.
    least_certain : [<= most]
        Item codes, least certain first.
    confidence : [N]
        Of all items; a result computes it again each time it is asked.
    tally_nk : [N, K]
        Weight of the votes for each class on each item.
    """

    counts: Integers
    n_low: int
    n_unsure: int
    n_empty: int
    n_single: int
    n_overruled: int
    n_tied: int
    least_certain: Integers
    confidence: Floats
    tally_nk: Floats


def uncertainty_of(result: Result, most: int = 25) -> Uncertainty:
    """Count the uncertain items of a result and list the `most` uncertain ones."""
    votes = result.votes
    open_items = np.flatnonzero(~(result.unasked | votes.is_known))
    sure = result.confidence
    confidence = sure[open_items]
    edges = np.arange(N_BINS) / N_BINS - ROUNDING
    tally_nk = votes.by_class(votes.weight)
    ties = (tally_nk >= tally_nk.max(axis=1, initial=0, keepdims=True) - ROUNDING)[open_items].sum(axis=1) > 1
    behind = tally_nk[open_items, result.codes[open_items]] < tally_nk.max(axis=1, initial=0)[open_items] - ROUNDING
    per_item = votes.votes_per_item[open_items]
    return Uncertainty(
        counts=np.bincount(np.searchsorted(edges, confidence, side="right") - 1, minlength=N_BINS),
        n_low=int((confidence < LOW - ROUNDING).sum()),
        n_unsure=int((confidence < SURE - ROUNDING).sum()),
        n_empty=int(result.unasked.sum() + (per_item == 0).sum()),
        n_single=int((per_item == 1).sum()),
        n_overruled=int(behind.sum()),
        n_tied=int((ties & ~behind & (per_item > 0)).sum()),
        # Rounded, or equal votes summed in another order would change places.
        least_certain=open_items[np.argsort(np.round(confidence, 9), kind="stable")[:most]],
        confidence=sure,
        tally_nk=tally_nk,
    )


def runner_up(result: Result, n: int) -> tuple[int, float]:
    """Return the class code and the probability of item `n`'s second best class."""
    posterior = result.posterior[n].copy()
    posterior[result.codes[n]] = -1
    second = int(posterior.argmax())
    return second, float(posterior[second])


def least_certain_table(result: Result, uncertainty: Uncertainty, most: int = 25, about: pl.DataFrame | None = None) -> str:
    """Return the least certain items with their votes and what makes them uncertain, and what is known of them."""
    if not len(uncertainty.least_certain):
        return "<p>No label is uncertain: all of them are known, or nobody voted.</p>"
    kept = [] if about is None else about.columns
    votes, rows = result.votes, []
    for n in uncertainty.least_certain[:most].tolist():
        second, share = runner_up(result, n)
        other = f"{text(votes.classes[second], 30)} ({percent(share)})" if votes.n_classes > 1 else "&ndash;"
        label = text(votes.classes[result.codes[n]], 30)
        rows.append(
            (
                text(votes.items[n]),
                *(text(about[name][n] or "", 200) for name in kept if about is not None),
                label,
                percent(float(uncertainty.confidence[n])),
                other,
                votes_in_short(result, n),
                reason(result, uncertainty, n),
            )
        )
    caption = f"The {whole(len(rows))} least certain of {counted(votes.n_items, 'item')}"
    names = ("Item", *(plain(name, 40) for name in kept), "Label", "Confidence", "Runner-up", "Votes", "Why")
    return table(caption, names, rows, numeric=(2 + len(kept),))


def votes_in_short(result: Result, n: int, most: int = 5) -> str:
    """Return the votes on item `n` as markup: "cat × 3, dog × 1", most frequent first."""
    votes = result.votes
    here = slice(votes.item_ptr[n], votes.item_ptr[n + 1])
    # Distributions count by what they give each class.
    weight = votes.weights[here].round(1) if votes.soft else None
    counts = np.bincount(votes.label[here], weight, minlength=votes.n_classes)
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    words = [f"{text(votes.classes[k], 24)}&nbsp;&times;&nbsp;{counts[k]:g}" for k in order[:most].tolist()]
    if len(order) > most:
        words.append(f"{len(order) - most} other label{'s' * (len(order) - most > 1)}")
    return ", ".join(words) or "none"


def reason(result: Result, uncertainty: Uncertainty, n: int, show: Callable[[Any, int], str] = text) -> str:
    """Say in a few words why item `n` is uncertain; `show` makes classes safe, by default as markup."""
    votes, tally_k = result.votes, uncertainty.tally_nk[n]
    leaders = np.flatnonzero(tally_k >= tally_k.max(initial=0) - ROUNDING)
    label, n_votes = int(result.codes[n]), int(np.diff(np.searchsorted(votes.answer_ptr, votes.item_ptr[n : n + 2]))[0])
    if votes.n_classes < 2:
        return "one class only"
    if n_votes == 0:
        return "no votes: the label is the most common class"
    if label not in leaders:
        why = "a label that is often wrong" if votes.anonymous else "from less reliable annotators"
        return f"most votes say {_names(votes.classes[leaders], show)}, {why}"
    if uncertainty.confidence[n] >= SURE - ROUNDING:
        return "certain enough"
    if n_votes == 1:
        return "one vote only"
    if len(leaders) > 1:
        return "votes are tied"
    if (tally_k > 0).sum() == 1:
        return f"votes agree, but {'such votes' if votes.anonymous else 'their annotators'} are often wrong"
    return "votes are split"


def _names(classes: Array, show: Callable[[Any, int], str]) -> str:
    return " or ".join(show(name, 24) for name in classes[:2]) + (" or others" if len(classes) > 2 else "")
