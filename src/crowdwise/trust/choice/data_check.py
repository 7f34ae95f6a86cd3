"""What these votes can carry: checks that come before any comparison of methods.

A comparison needs held-out votes that others on the same item predict; a model of annotators needs annotators who meet
each other often enough. Where they do not, richer models fit noise, and a comparison of their fits is noise too.

Levels
------
0  votes are counted
1  a number or two per annotator
2  a number per annotator and class
3  a confusion matrix per annotator
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.types import Array, Flags, Floats

__all__ = ["DataCheck", "check_data", "components"]

# Held-out votes below which differences between methods are noise.
_FEWEST_VOTES = 200
# Votes in one connected part of the crowd: classes may be named differently in every other part.
_CONNECTED_SHARE = 0.9
# Votes that an annotator must give, per class, for a row of a confusion matrix to say something; per level.
_VOTES_PER_CLASS = {2: 1.0, 3: 2.0}
_FEWEST_PER_ANNOTATOR = 3


@dataclass(frozen=True)
class DataCheck:
    """What may be tried.

    Attributes
    ----------
    level : int
        The richest model of annotators that the votes can carry.
    comparable : bool
        Whether there are enough votes to compare methods at all.
    reasons : tuple of str
        Why the level is not the highest.
    """

    level: int
    comparable: bool
    reasons: tuple[str, ...]


def check_data(votes: Annotations, has_history: bool = False) -> DataCheck:
    """Judge votes before methods are compared on them.

    Parameters
    ----------
    has_history : bool
        Annotators have a record from before, so how often they voted here does not limit what is known of them.
    """
    counted = np.ones(votes.n_votes, bool) if votes.weight is None else votes.weight > 0
    item, annotator = votes.item[counted], votes.annotator[counted]
    if votes.n_classes < 2:
        return DataCheck(0, False, ("there is one class only",))
    per_item = np.bincount(item, minlength=votes.n_items)
    in_company = int(per_item[per_item > 1].sum())
    if in_company < _FEWEST_VOTES:
        return DataCheck(
            0, False, (f"only {in_company:,} votes are on items with another vote, and {_FEWEST_VOTES} are needed",)
        )
    level, reasons = 3, []
    voted = per_item[per_item > 0]
    if np.median(voted) < 2:
        level = 1
        reasons.append("most items have one vote")
    share = float(components(votes, counted).max())
    if share < _CONNECTED_SHARE:
        level = 1
        reasons.append(f"the annotators fall into parts that share no item (the largest gave {share:.0%} of the votes)")
    if not has_history:
        carried, reason = _carried_by_annotators(annotator, votes)
        if carried < level:
            level = carried
            reasons.append(reason)
    return DataCheck(level, True, tuple(reasons))


def components(votes: Annotations, counted: Flags | None = None) -> Floats:
    """Share of the votes in each connected part of the graph of annotators and items."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    item, annotator = (column if counted is None else column[counted] for column in (votes.item, votes.annotator))
    size = votes.n_annotators + votes.n_items
    edges = coo_array((np.ones(len(item), np.int8), (annotator, item + votes.n_annotators)), shape=(size, size))
    part: Array = connected_components(edges, directed=False)[1]
    found = np.bincount(part[annotator])
    return np.asarray(found / max(found.sum(), 1))


def _carried_by_annotators(annotator: Array, votes: Annotations) -> tuple[int, str]:
    """The level that the typical vote's annotator gave enough votes for."""
    given = np.bincount(annotator, minlength=votes.n_annotators)[annotator]
    # Half of the votes come from annotators with at least so many.
    typical = float(np.median(given))
    noun = "vote" if round(typical) == 1 else "votes"
    said = f"half of the votes come from annotators with at most {typical:.0f} {noun}, on {votes.n_classes} classes"
    if typical < _FEWEST_PER_ANNOTATOR:
        return 0, said
    for level in (3, 2):
        if typical >= _VOTES_PER_CLASS[level] * votes.n_classes:
            return level, said
    return 1, said
