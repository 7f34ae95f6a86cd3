"""Which item to ask about next, and whom: policies by name.

    "entropy+ucb"       an item policy and an annotator policy: the items first, then for each the best annotator
    "information"       a policy of pairs: item and annotator in one currency, per unit of cost
    "warm-information"  the default: random pairs until votes overlap, then "information"
    "dalc"              a paper's rule: the name of an item policy and an annotator policy

A policy is anything with ``items(state)`` -> [P], scores of the pool's items, and ``pairs(state, items)`` -> [n, A],
scores of asking every annotator about each of these items (positions in the votes); the higher, the better. `joint` says
whether scores of pairs can be compared across items. Policies read what is known of items by ``state.labels(items)``: a second
question about an item is scored with the answer to the first supposed there. The scores by name, and what prices do to them,
are in `crowdwise.campaign.scoring`.

Why random first: while nearly every item has one vote, no model that learns annotators from votes alone can tell who is right.
Its posteriors are then often sure and wrong, and a policy that believes them makes it worse. Votes that overlap cure this, and
random pairs overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol

from crowdwise.campaign.scoring import ANNOTATOR_POLICIES, ITEM_POLICIES, PAIR_POLICIES, PAPER_POLICIES
from crowdwise.campaign.state import State
from crowdwise.errors import SettingError, did_you_mean
from crowdwise.kernels.types import Floats, Integers

__all__ = ["ANNOTATOR_POLICIES", "DEFAULT_POLICY", "ITEM_POLICIES", "PAIR_POLICIES", "Policy", "State", "policy_of", "stage_of"]

DEFAULT_POLICY = "warm-information"
# Mean votes of the items that have any, from which on annotators differ visibly; random pairs have so many at about 1.5 votes
# per item of the pool.
_OVERLAP = 1.9


class Policy(Protocol):
    """See the module."""

    @property
    def joint(self) -> bool:
        """Whether scores of pairs can be compared across items."""
        ...

    def items(self, state: State) -> Floats:
        """Scores of the pool's items, [P]."""
        ...

    def pairs(self, state: State, items: Integers) -> Floats:
        """Scores of asking every annotator about each of these items, [n, A]."""
        ...


@dataclass(frozen=True)
class NamedPolicy:
    """A policy of the tables."""

    name: str
    item: str
    pair: Callable[[State, Integers], Floats]
    joint: bool

    @property
    def bounded(self) -> bool:
        """Whether no pair gains more than its item's own score per unit of cost."""
        return self.joint

    def items(self, state: State) -> Floats:
        """Scores of the pool's items, [P]."""
        return ITEM_POLICIES[self.item](state)

    def pairs(self, state: State, items: Integers) -> Floats:
        """Scores of pairs, [n, A]."""
        return self.pair(state, items)


@dataclass(frozen=True)
class WarmPolicy:
    """Random pairs until votes overlap, then another policy.

    A classifier ties items together by their features, and a history says who is reliable: both need no overlap.
    """

    name: str
    then: NamedPolicy
    joint: bool = True

    def stage(self, state: State) -> Policy:
        """The policy of now."""
        votes = state.votes
        known = state.model is not None or state.result.history is not None
        overlap = votes.n_votes / max(int((votes.votes_per_item > 0).sum()), 1)
        return self.then if known or overlap >= _OVERLAP else policy_of("random+random")

    def items(self, state: State) -> Floats:
        """Scores of the pool's items, [P], by the policy of now."""
        return self.stage(state).items(state)

    def pairs(self, state: State, items: Integers) -> Floats:
        """Scores of pairs, [n, A], by the policy of now."""
        return self.stage(state).pairs(state, items)


def stage_of(policy: Policy, state: State) -> Policy:
    """The current policy, of one that changes during a campaign; any other as it is."""
    stage = getattr(policy, "stage", None)
    found: Policy = policy if stage is None else stage(state)
    return found


def policy_of(choice: Any) -> Policy:
    """A policy by its name, or one of your own as it is."""
    if not isinstance(choice, str):
        if callable(getattr(choice, "items", None)) and callable(getattr(choice, "pairs", None)):
            return choice  # type: ignore[no-any-return]
        raise SettingError(f"policy is a name, or an object with items(state) and pairs(state, items); got {choice!r}")
    if choice == DEFAULT_POLICY:
        item, pair = PAIR_POLICIES["information"]
        return WarmPolicy(choice, NamedPolicy("information", item, pair, joint=True))
    if choice in PAIR_POLICIES:
        item, pair = PAIR_POLICIES[choice]
        return NamedPolicy(choice, item, pair, joint=True)
    item, plus, annotator = PAPER_POLICIES.get(choice, choice).partition("+")
    annotator = annotator if plus else "accuracy"
    if item not in ITEM_POLICIES or annotator not in ANNOTATOR_POLICIES:
        whole = [DEFAULT_POLICY, *PAIR_POLICIES, *PAPER_POLICIES]
        raise SettingError(
            f"there is no policy {choice!r}{_meant(item, plus, annotator, whole)} (policies are {', '.join(whole)}, or "
            f"ITEM+ANNOTATOR with ITEM of {', '.join(ITEM_POLICIES)} and ANNOTATOR of {', '.join(ANNOTATOR_POLICIES)})"
        )
    return NamedPolicy(choice, item, ANNOTATOR_POLICIES[annotator], joint=False)


def _meant(item: str, plus: str, annotator: str, whole: list[str]) -> str:
    """What the writer of an unknown name may have meant: another name, or the same with the nearest part of each kind."""
    if not plus:
        return did_you_mean(item, [*whole, *ITEM_POLICIES])
    near = []
    for part, known in ((item, list(ITEM_POLICIES)), (annotator, list(ANNOTATOR_POLICIES))):
        near += [part] if part in known else get_close_matches(part[:100], known, n=1)
    return f"; did you mean {'+'.join(near)!r}?" if len(near) == 2 else ""
