"""Which item is worth a question, and who should be asked: policies by name.

    "entropy+ucb"     an item policy and an annotator policy: the items first, then for each the best annotator
    "information"     a policy of pairs: item and annotator in one currency, per unit of cost

A policy is anything with ``items(state)`` -> [P], scores of the pool's items, and ``pairs(state, items)`` -> [n, A],
scores of asking every annotator about each of these items (positions in the votes); the higher, the better. `joint` says
whether scores of pairs can be compared across items.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdwise.active import worth
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.active.pool import Pool
    from crowdwise.annotations import Annotations
    from crowdwise.result import Result

__all__ = ["ANNOTATOR_POLICIES", "ITEM_POLICIES", "PAIR_POLICIES", "Policy", "State", "policy_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Chance of a random annotator under epsilon-greedy: the tutorial's, which falls after the first votes.
_EPSILONS = ((100, 0.5), (2**62, 0.05))
# Standard deviations that "ucb" adds to the mean.
_OPTIMISM = 2.0


@dataclass(frozen=True, eq=False)
class State:
    """What a policy may read.

    Attributes
    ----------
    result : Result
        A model fitted to `votes`.
    model : classifier or None
        A fitted classifier with `predict_proba`, for policies that read features.
    features : [N, D] or None
        In the order of ``votes.items``.
    """

    result: Result
    pool: Pool
    rng: np.random.Generator
    model: Any = None
    features: Any = None

    @property
    def votes(self) -> Annotations:
        """The votes so far."""
        return self.result.votes

    def labels(self, items: Integers) -> Floats:
        """What is known of these items, [n, K]."""
        return self.result.posterior[items]

    def rows(self, items: Integers) -> Any:
        """Their features."""
        if self.model is None or self.features is None:
            raise SettingError("this policy reads features: it needs a fitted classifier (model=) and its features=")
        return self.features[items]

    def predicted(self, items: Integers) -> Floats:
        """What the classifier says of them by their features alone, [n, K]."""
        rows = self.rows(items)
        return np.asarray(self.model.predict_proba(rows))


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


# -- items -------------------------------------------------------------------------------------


def _disagreement(state: State) -> Floats:
    """Between the classifier and the votes where there is a classifier; else among the votes."""
    items = state.pool.items
    if state.model is None:
        votes = state.votes
        return worth.vote_entropy(votes.label, votes.item, votes.n_items, votes.n_classes)[items]
    return np.asarray(np.abs(state.predicted(items) - state.labels(items)).sum(axis=1) / 2)


def _bald(state: State) -> Floats:
    """Mutual information of the label and the network, from several networks or passes with dropout."""
    rows = state.rows(state.pool.items)
    if not hasattr(state.model, "uncertainty"):
        raise SettingError("bald needs a network with members=5 or dropout_passes=20; choose another policy for this method")
    return np.asarray(state.model.uncertainty(rows).disagreement)


ITEM_POLICIES: dict[str, Callable[[State], Floats]] = {
    "random": lambda state: state.rng.random(len(state.pool.items)),
    "entropy": lambda state: worth.entropy(state.labels(state.pool.items)),
    "margin": lambda state: worth.ambiguity(state.labels(state.pool.items)),
    "error": lambda state: worth.error(state.labels(state.pool.items)),
    "predictive-entropy": lambda state: worth.entropy(state.predicted(state.pool.items)),
    "disagreement": _disagreement,
    "bald": _bald,
}

# -- annotators --------------------------------------------------------------------------------


def _accuracy(state: State, items: Integers) -> Floats:
    return worth.rightness(state.labels(items), state.result.confusion)


def _ucb(state: State, items: Integers) -> Floats:
    """Mean and some standard deviations of the probability of a right answer; rows of a matrix are independent."""
    q, sd = state.labels(items), np.einsum("akk->ka", state.result.confusion_sd)
    return np.asarray(_accuracy(state, items) + _OPTIMISM * np.sqrt(q**2 @ sd**2))


def _thompson(state: State, items: Integers) -> Floats:
    """One draw of every annotator's diagonal, Beta(right, rest of the row)."""
    own = state.result.concentration
    right = np.einsum("akk->ka", own)
    drawn = state.rng.beta(right, np.maximum(own.sum(axis=2).T - right, 1e-12))
    return np.asarray(state.labels(items) @ drawn)


def _epsilon_greedy(state: State, items: Integers) -> Floats:
    epsilon = next(share for until, share in _EPSILONS if state.votes.n_votes < until)
    scores = _accuracy(state, items)
    explore = state.rng.random(len(items)) < epsilon
    scores[explore] = state.rng.random((int(explore.sum()), scores.shape[1]))
    return scores


def _expertise(state: State, items: Integers) -> Floats:
    """What the model says of an annotator on an item, where it can; else the annotator's accuracy on its likely classes."""
    if hasattr(state.model, "expertise"):
        return np.asarray(state.model.expertise(state.rows(items)))
    return _accuracy(state, items)


ANNOTATOR_POLICIES: dict[str, Callable[[State, Integers], Floats]] = {
    "random": lambda state, items: state.rng.random((len(items), state.votes.n_annotators)),
    "accuracy": _accuracy,
    "ucb": _ucb,
    "thompson": _thompson,
    "epsilon-greedy": _epsilon_greedy,
    "expertise": _expertise,
}

# -- pairs -------------------------------------------------------------------------------------


def _information(state: State, items: Integers) -> Floats:
    return worth.information(state.labels(items), state.result.confusion)


def _error_reduction(state: State, items: Integers) -> Floats:
    return worth.error_reduction(state.labels(items), state.result.confusion)


def _targeted(state: State, items: Integers) -> Floats:
    """DALC's: how open the classifier finds an item, times how well the annotator knows it."""
    open_question = worth.entropy(state.predicted(items))
    return np.asarray(open_question[:, None] * _expertise(state, items))


# The item policy that draws up the short list, and the pairs' own.
PAIR_POLICIES: dict[str, tuple[str, Callable[[State, Integers], Floats]]] = {
    "information": ("entropy", _information),
    "error-reduction": ("error", _error_reduction),
    "dalc": ("predictive-entropy", _targeted),
}


@dataclass(frozen=True)
class NamedPolicy:
    """A policy of the tables above."""

    name: str
    item: str
    pair: Callable[[State, Integers], Floats]
    joint: bool

    def items(self, state: State) -> Floats:
        """Scores of the pool's items, [P]."""
        return ITEM_POLICIES[self.item](state)

    def pairs(self, state: State, items: Integers) -> Floats:
        """Scores of pairs, [n, A]; those of joint policies per unit of cost."""
        scores = self.pair(state, items)
        return scores / state.pool.cost if self.joint else scores


def policy_of(choice: Any) -> Policy:
    """A policy by its name, or one of your own as it is."""
    if not isinstance(choice, str):
        if callable(getattr(choice, "items", None)) and callable(getattr(choice, "pairs", None)):
            return choice  # type: ignore[no-any-return]
        raise SettingError(f"policy is a name, or an object with items(state) and pairs(state, items); got {choice!r}")
    if choice in PAIR_POLICIES:
        item, pair = PAIR_POLICIES[choice]
        return NamedPolicy(choice, item, pair, joint=True)
    item, plus, annotator = choice.partition("+")
    annotator = annotator if plus else "accuracy"
    if item not in ITEM_POLICIES or annotator not in ANNOTATOR_POLICIES:
        raise SettingError(
            f"policy must be {', '.join(PAIR_POLICIES)}, or ITEM+ANNOTATOR with ITEM of {', '.join(ITEM_POLICIES)} and "
            f"ANNOTATOR of {', '.join(ANNOTATOR_POLICIES)}; got {choice!r}"
        )
    return NamedPolicy(choice, item, ANNOTATOR_POLICIES[annotator], joint=False)
