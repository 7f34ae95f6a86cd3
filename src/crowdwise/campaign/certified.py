"""An audit inside a campaign: a few labels checked by somebody who knows, and what they prove of all labels of the pool.

When an audit begins, the labels of the moment are frozen, and items with votes are drawn evenly, without replacement, in a
random order. Whoever checks sees no proposed label. The errors found are bets against "too many of these labels are wrong"
(`crowdwise.trust.audit.bets`), so that the bound on the wrong ones holds at every look, and nothing is assumed of votes, model
or policy. Labels that nobody voted on count as wrong, labels that are known or were corrected as right.

New votes change the labels and end the audit; the next check begins another. Of the risk 1 - probability the j-th audit of a
campaign has the part 2^-j: all audits together, however many there are and whenever they are begun, are wrong with no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.gold import UNCLEAR

if TYPE_CHECKING:
    from crowdwise.estimator.outcome import Result
    from crowdwise.kernels.types import Integers

__all__ = ["CampaignAudit", "begun"]

# Nobody checks more.
_MOST = 5_000


@dataclass
class CampaignAudit:
    """Labels frozen when the audit began, and those checked since.

    Attributes
    ----------
    number : int
        Of the audit in its campaign, from 1.
    items, labels : list
        Items in the order in which they are drawn, and the labels proposed for them.
    size, settled, pool : int
        Items that could be drawn, items of the pool whose label is known, and all items of the pool.
    error : float
        Share of wrong labels that was expected.
    drawn : int
        Items handed out so far.
    truth : dict
        Item -> true label, or "?" where nobody can tell.
    """

    number: int
    items: list[Any]
    labels: list[Any]
    size: int
    settled: int
    pool: int
    error: float
    drawn: int = 0
    truth: dict[Any, Any] = field(default_factory=dict)

    @property
    def waiting(self) -> list[Any]:
        """Items handed out and not answered yet."""
        return [item for item in self.items[: self.drawn] if item not in self.truth]

    @property
    def n_usable(self) -> int:
        """Checked items before the first that nobody looked at: later ones may be looked at because of what they are."""
        answered = [item in self.truth for item in self.items[: self.drawn]]
        return answered.index(False) if False in answered else len(answered)

    def right_from(self, probability: float) -> float:
        """The share of the pool's labels that is right at least, checked ones corrected, with this probability."""
        # It loads compiled loops, which a campaign without checks never needs.
        from crowdwise.trust.audit.estimates import most_wrong

        n = self.n_usable
        pairs = [(self.truth[item], label) for item, label in zip(self.items[:n], self.labels[:n], strict=True)]
        wrong = np.array([true != label for true, label in pairs], bool)
        # Classes may be called "?"; as a label it is right then.
        corrected = sum(true not in (label, UNCLEAR) for true, label in pairs)
        alpha = (1 - probability) * 2.0**-self.number
        sizes, weight = np.array([self.size]), np.array([1 / max(self.size, 1)])
        most = most_wrong(sizes, weight, np.array([self.error]), np.zeros(n, np.int64), wrong, alpha=alpha) if self.size else 0
        return (self.settled + self.size - most + corrected) / self.pool if self.pool else math.nan

    def words(self, probability: float) -> str:
        """The certificate in words."""
        n = self.n_usable
        return (
            f"certified: at least {math.floor(1000 * self.right_from(probability)) / 10:g}% of the labels are right with "
            f"probability {probability:g}, by {n} checked label{'s' * (n != 1)}, whatever the votes are like"
        )


def begun(result: Result, pool: Integers, known: Integers, seed: list[int]) -> dict[str, Any]:
    """An audit of the labels of a result, as the journal has it; `known` are items of the pool whose true label is known."""
    votes = result.votes
    gold = votes.is_known
    gold[known] = True
    everything = np.union1d(pool, known)
    open_items = everything[(votes.votes_per_item[everything] > 0) & ~gold[everything]]
    order = np.random.default_rng(seed).permutation(open_items)[:_MOST]
    return {
        "event": "audit",
        "items": votes.items[order].tolist(),
        "labels": result.labels[order].tolist(),
        "size": len(open_items),
        "settled": int(gold[everything].sum()),
        "pool": len(everything),
        "error": float(1 - result.confidence[open_items].mean()) if len(open_items) else 0.0,
    }
