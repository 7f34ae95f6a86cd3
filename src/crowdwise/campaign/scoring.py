"""The policies' scores by name: of items, of annotators for an item, and of pairs.

Prices. Pairs of "information", "error-reduction" and "targeted" score their gain per unit of cost. Annotator policies give
the probability p of a right answer; where prices differ, it counts by its squared lead over guessing per unit of cost,
((K p - 1) / (K - 1))^2 / cost, because the votes that a given certainty takes fall with the square of the lead (Karger, Oh and
Shah 2011): whoever has most of it settles an item for the least money. A lead below zero counts as it is, whatever the price.
"random" knows nothing of prices.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crowdwise.campaign import expected_gain
from crowdwise.campaign.state import State
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers

__all__ = ["ANNOTATOR_POLICIES", "ITEM_POLICIES", "PAIR_POLICIES", "PAPER_POLICIES"]


# Chance of a random annotator under epsilon-greedy: the tutorial's, which falls after the first votes.
_EPSILONS = ((100, 0.5), (2**62, 0.05))
# Standard deviations that "ucb" adds to the mean.
_OPTIMISM = 2.0

# -- items -------------------------------------------------------------------------------------


def _disagreement(state: State) -> Floats:
    """Between the classifier and the votes where there is a classifier; else among the votes."""
    items = state.pool.items
    if state.model is None:
        votes = state.votes
        return expected_gain.vote_entropy(votes.label, votes.item, votes.n_items, votes.n_classes)[items]
    return np.asarray(np.abs(state.predicted(items) - state.labels(items)).sum(axis=1) / 2)


def _bald(state: State) -> Floats:
    """Mutual information of the label and the network, from several networks or passes with dropout."""
    rows = state.rows(state.pool.items)
    if not hasattr(state.model, "uncertainty"):
        raise SettingError("bald needs a network with members=5 or dropout_passes=20; choose another policy for this method")
    return np.asarray(state.model.uncertainty(rows).disagreement)


ITEM_POLICIES: dict[str, Callable[[State], Floats]] = {
    "random": lambda state: state.rng.random(len(state.pool.items)),
    "entropy": lambda state: expected_gain.entropy(state.labels(state.pool.items)),
    "margin": lambda state: expected_gain.ambiguity(state.labels(state.pool.items)),
    "error": lambda state: expected_gain.error(state.labels(state.pool.items)),
    "predictive-entropy": lambda state: expected_gain.entropy(state.predicted(state.pool.items)),
    "predictive-margin": lambda state: expected_gain.ambiguity(state.predicted(state.pool.items)),
    "disagreement": _disagreement,
    "bald": _bald,
}

# -- annotators --------------------------------------------------------------------------------


def _per_cost(state: State, right: Floats) -> Floats:
    """Probabilities of a right answer, [n, A], as they count beside prices: see the module."""
    cost, n_classes = state.pool.cost, state.votes.n_classes
    if n_classes < 2 or not len(cost) or (cost == cost[0]).all():
        return right
    lead = (n_classes * right - 1) / (n_classes - 1)
    return np.asarray(np.where(lead > 0, lead**2 / cost, lead))


def _right(state: State, items: Integers) -> Floats:
    return state.answers.rows.rightness(state.labels(items))


def _accuracy(state: State, items: Integers) -> Floats:
    return _per_cost(state, _right(state, items))


def _ucb(state: State, items: Integers) -> Floats:
    """Mean and some standard deviations of the probability of a right answer; rows of a matrix are independent."""
    q, mean = state.labels(items), np.einsum("akk->ka", state.answers.rows.mean)
    variance = mean * (1 - mean) / (state.answers.rows.concentration.sum(axis=2).T + 1)
    return _per_cost(state, np.asarray(_right(state, items) + _OPTIMISM * np.sqrt(q**2 @ variance)))


def _thompson(state: State, items: Integers) -> Floats:
    """One draw of every annotator's diagonal, Beta(right, rest of the row)."""
    own = state.answers.rows.concentration
    right = np.einsum("akk->ka", own)
    drawn = state.rng.beta(right, np.maximum(own.sum(axis=2).T - right, 1e-12))
    return _per_cost(state, np.asarray(state.labels(items) @ drawn))


def _epsilon_greedy(state: State, items: Integers) -> Floats:
    epsilon = next(share for until, share in _EPSILONS if state.votes.n_votes < until)
    scores = _accuracy(state, items)
    explore = state.rng.random(len(items)) < epsilon
    scores[explore] = state.rng.random((int(explore.sum()), scores.shape[1]))
    return scores


def _known_expertise(state: State, items: Integers) -> Floats:
    """What the model says of an annotator on an item, where it can; else the annotator's accuracy on its likely classes."""
    return state.answers.of(items).rightness(state.labels(items))


ANNOTATOR_POLICIES: dict[str, Callable[[State, Integers], Floats]] = {
    "random": lambda state, items: state.rng.random((len(items), state.votes.n_annotators)),
    "accuracy": _accuracy,
    "ucb": _ucb,
    "thompson": _thompson,
    "epsilon-greedy": _epsilon_greedy,
    "expertise": lambda state, items: _per_cost(state, _known_expertise(state, items)),
}

# -- pairs -------------------------------------------------------------------------------------


def _information(state: State, items: Integers) -> Floats:
    return state.answers.of(items).information(state.labels(items)) / state.pool.cost


def _error_reduction(state: State, items: Integers) -> Floats:
    return state.answers.of(items).error_reduction(state.labels(items)) / state.pool.cost


def _targeted(state: State, items: Integers) -> Floats:
    """How open the classifier finds an item, times how well the annotator knows it."""
    open_question = expected_gain.entropy(state.predicted(items)) * state.openness(items)
    return np.asarray(open_question[:, None] * _known_expertise(state, items)) / state.pool.cost


# The item policy that draws up the short list, which no pair of the item exceeds, and the pairs' own, per unit of cost.
PAIR_POLICIES: dict[str, tuple[str, Callable[[State, Integers], Floats]]] = {
    "information": ("entropy", _information),
    "error-reduction": ("error", _error_reduction),
    "targeted": ("predictive-entropy", _targeted),
}

# Rules of papers by the item and the annotator policy that they are made of: DALC takes the items of the highest predictive
# entropy, and for each of them whoever knows it best (Yang et al. 2018, section 3).
PAPER_POLICIES = {"dalc": "predictive-entropy+expertise"}
