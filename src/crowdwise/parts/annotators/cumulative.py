"""Annotators who see a position on a scale through noise, and cut the scale into ordered labels where they see fit.

P(vote <= j | position x) = sigmoid(offset_aj + slope_a (threshold_j - x)): thresholds of annotator a lie at
threshold_j + offset_aj / slope_a, and its noise is logistic with scale 1 / slope_a. With probability lapse_a the annotator
does not look and gives a label out of habit. Class k is the stretch between k - 1/2 and k + 1/2 of the scale; an item lies
anywhere in it, at one of G nodes.

Symbols
-------
prior_alk : [1 or A, L, K]   pseudo-votes for label l on class k, spread over the nodes of the class
offset_aj : [A, K - 1]       shifts of the thresholds, in units of the annotator's noise
slope_a : [A]                precision; near 0, votes say nothing; below 0, the annotator turns the scale round
lapse_a : [A]                share of careless votes
habit_al : [A, L]            labels of careless votes: the annotator's own shares, fixed
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.cumulative import Ridge, climb, log_table
from crowdwise.kernels.numerics import log_floored, overwrite, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import (
    WithoutPosterior,
    counts_of,
    infer_by_table,
    taken,
    taken_unless_shared,
)
from crowdwise.parts.annotators.states import states_log_lik
from crowdwise.parts.priors.subtypes import states_log_prior

__all__ = ["CumulativeLink"]


_STEPS = 2


def label_habits(votes: Annotations) -> Floats:
    """Labels as an annotator gives them, with a pseudo-vote for each, [A, L]."""
    used = segment_sum(votes.row, votes.weight, votes.n_annotators * votes.n_classes) + 1.0
    used = used.reshape(votes.n_annotators, votes.n_classes)
    return np.asarray(used / used.sum(axis=1, keepdims=True))


@storable
@dataclass(frozen=True, eq=False)
class CumulativeLink(WithoutPosterior):
    """Thresholds and a precision per annotator on a common scale of `n_nodes` nodes per class."""

    prior_alk: Floats
    offset_aj: Floats
    slope_a: Floats
    lapse_a: Floats
    habit_al: Floats
    offset_j: Floats
    n_nodes: int
    offset_sd: float
    slope: float
    slope_sd: float
    careless: float
    careful: float
    typical_slope: float
    typical_lapse: float

    @classmethod
    def start(
        cls, prior_alk: Floats, habit_al: Floats, n_nodes: int, ridge: Ridge, careless: float, careful: float
    ) -> CumulativeLink:
        """Before any data: thresholds where the classes meet, typical precision, and lapses at their prior's mean."""
        n_thresholds, lapse = prior_alk.shape[1] - 1, careless / (careless + careful)
        n_annotators = len(habit_al)
        return cls(
            prior_alk,
            np.zeros((n_annotators, n_thresholds)),
            np.full(n_annotators, ridge.slope),
            np.full(n_annotators, lapse),
            habit_al,
            np.zeros(n_thresholds),
            n_nodes,
            ridge.offset_sd,
            ridge.slope,
            ridge.slope_sd,
            careless,
            careful,
            ridge.slope,
            lapse,
        )

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return int(self.offset_aj.shape[1]) + 1

    @property
    def threshold(self) -> Floats:
        """Where the classes meet, [K - 1]."""
        return np.asarray(np.arange(self.n_classes - 1, dtype=np.float64) + 0.5)

    @property
    def position(self) -> Floats:
        """Positions of the nodes, [K G]."""
        inside = (np.arange(self.n_nodes) + 0.5) / self.n_nodes - 0.5
        return np.asarray((np.arange(self.n_classes)[:, None] + inside).ravel())

    def update(self, votes: Annotations, posterior: Floats) -> CumulativeLink:
        """M-step: a few Newton steps on every annotator, up the expected log-likelihood plus log prior."""
        counts = counts_of(votes, self._within(votes, posterior))
        counts += self._pseudo_votes()
        # A careless vote follows the habit; the others are the link's.
        guess = (self.lapse_a[:, None] * self.habit_al)[:, :, None]
        guessed = counts * (guess / (guess + (1 - self.lapse_a)[:, None, None] * self._link_table()))
        total, lapses = counts.sum(axis=(1, 2)), guessed.sum(axis=(1, 2))
        counts -= guessed
        lapse = (lapses + self.careless) / (total + self.careless + self.careful)
        ridge = Ridge(self.offset_sd, self.slope, self.slope_sd)
        offset, slope = climb(counts, self.offset_aj, self.slope_a, self.threshold, self.position, ridge, _STEPS)
        fitted = replace(self, offset_aj=offset, slope_a=slope, lapse_a=lapse)
        mass = votes.weight_per_annotator
        if mass.sum() == 0:
            return fitted
        share = mass / mass.sum()
        return replace(fitted, offset_j=share @ offset, typical_slope=float(share @ slope), typical_lapse=float(share @ lapse))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step over the nodes, which are then added up within each class."""
        silent = votes.weight_per_item == 0
        states, evidence = self._states(votes, states_log_prior(log_prior, self._log_share(), silent, known))
        q_nk = states.sum(axis=2)
        return evidence, overwrite(posterior, q_nk, known)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote for every class, given the other votes on its item, [len(index), K]."""
        return states_log_lik(votes, index, log_floored(self._table()), self._log_share())

    def penalty(self) -> float:
        """Minus the log prior of thresholds and precisions, and minus the log-likelihood of the pseudo-votes."""
        ridge = Ridge(self.offset_sd, self.slope, self.slope_sd)
        pseudo = (self._pseudo_votes() * log_floored(self._table())).sum()
        lapses = (self.careless * np.log(self.lapse_a) + self.careful * np.log1p(-self.lapse_a)).sum()
        return float(-pseudo - lapses - ridge.log_density(self.offset_aj, self.slope_a).sum())

    def aligned(self, index: Integers, item_index: Integers) -> CumulativeLink:
        """Reorder; an annotator never seen has the mean thresholds and precision, by votes."""
        return replace(
            self,
            prior_alk=taken_unless_shared(self.prior_alk, index),
            offset_aj=taken(self.offset_aj, index, self.offset_j),
            slope_a=taken(self.slope_a, index, self.typical_slope),
            lapse_a=taken(self.lapse_a, index, self.typical_lapse),
            habit_al=taken(self.habit_al, index, 1 / self.n_classes),
        )

    def confusion(self) -> Floats:
        """Mean over the stretch of each class, [A, K, L]."""
        table = self._table().reshape(len(self.slope_a), self.n_classes, self.n_classes, self.n_nodes)
        return np.asarray(table.mean(axis=3).transpose(0, 2, 1))

    def _link_table(self) -> Floats:
        """P(label | node) of annotators who look, [A, L, K G]."""
        return np.exp(log_table(self.offset_aj, self.slope_a, self.threshold, self.position))

    def _table(self) -> Floats:
        """P(label | node), [A, L, K G]."""
        guess = self.lapse_a[:, None] * self.habit_al
        return np.asarray((1 - self.lapse_a)[:, None, None] * self._link_table() + guess[:, :, None])

    def _log_share(self) -> Floats:
        """Log share of every node within its class, [K, G]."""
        return np.full((self.n_classes, self.n_nodes), -np.log(self.n_nodes))

    def _pseudo_votes(self) -> Floats:
        """[1 or A, L, K G]."""
        return np.repeat(self.prior_alk / self.n_nodes, self.n_nodes, axis=2)

    def _states(self, votes: Annotations, log_states: Floats) -> tuple[Floats, float]:
        """Posterior of the nodes, [N, K, G], and the log-evidence."""
        xi = np.zeros((votes.n_items, self.n_classes * self.n_nodes))
        evidence, _ = infer_by_table(votes, self._table(), log_states, np.empty(0, np.int16), xi)
        return xi.reshape(len(xi), self.n_classes, self.n_nodes), evidence

    def _within(self, votes: Annotations, posterior: Floats) -> Floats:
        """Posterior of the nodes that goes with a posterior of the classes: times p(node | class, votes), [N, K G]."""
        # A class that is certain (gold) is the only one whose nodes matter, however little the votes speak for it.
        certain = np.where(posterior.max(axis=1, initial=0.0) == 1.0, posterior.argmax(axis=1), -1)
        silent = np.zeros(votes.n_items, bool)
        flat = np.zeros((1, self.n_classes))
        states, _ = self._states(votes, states_log_prior(flat, self._log_share(), silent, certain))
        total = states.sum(axis=2, keepdims=True)
        inside = np.where(total > 0, states / np.where(total > 0, total, 1.0), 1 / self.n_nodes)
        return np.asarray((posterior[:, :, None] * inside).reshape(len(posterior), -1))
