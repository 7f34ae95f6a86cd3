"""Annotators who attend or guess, around one confusion matrix that all share.

An annotator attends with probability theta_a and then answers by the shared matrix B; otherwise the answer comes from a
habit xi_a. The own matrix scatters around that with a strength learned from all annotators:

    pi_ak ~ Dirichlet(s_k mu_ak),   mu_akl = theta_a B_kl + (1 - theta_a) xi_al

so that annotators with few votes shrink to theta B + (1 - theta) xi, and those with many have a matrix of their own. Every
update is one step of Minka's fixed point for s and of EM for the rest, with t the expected number of draws from mu:

    t_akl = m (psi(C_akl + m) - psi(m)),   m = s_k mu_akl
    s_k   = (sum_al t_akl + 1) / (sum_a [psi(C_ak. + s_k) - psi(s_k)] + 1 / K)
    h_akl = theta_a B_kl / mu_akl                                          share of draws that were attended
    theta_a = (sum_kl t h + 2 tbar) / (sum_kl t + 2),   tbar the mean over all
    B_kl  proportional to sum_a t h + [k = l] + 0.1 / K
    xi_al proportional to sum_k t (1 - h) + K g_l,      g_l the habit of all

Without own matrices (`own` False) pi = mu and t = C; with the identity for B as well (`shared` False) this is MACE with
learned hyperparameters.

Symbols
-------
theta_a : [A]          attention, `attention`
xi_al : [A, L]         habit, `habit`
B_lk : [L, K]          `shared_lk`; columns sum to one
s_k : [K]              `strength`
counts_alk : [A, L, K] expected counts C, with earlier answers
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.storable import storable
from crowdwise.kernels.gamma import digamma
from crowdwise.kernels.numerics import dirichlet_kl, expected_log, log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import FittedToConfusion, taken, taken_unless_shared

__all__ = ["Habits"]

# Where all begin; the result hardly depends on it.
_ATTENTION, _RIGHT = 0.7, 0.9
# Digammas keep their digits here, and a matrix that ignores its own votes or everybody else's helps nobody.
_WEAKEST, _STRONGEST = 0.1, 1e3
_LEAST = 1e-6
# Without a shared matrix: nobody who attends is wrong, but for this much.
_SLIP = 1e-6


@storable
@dataclass(frozen=True, eq=False)
class Habits(FittedToConfusion):
    """Attention and habit of every annotator, the shared matrix, and how far own matrices may be from it."""

    shapes: ClassVar[dict[str, str]] = {"attention": "a", "mean_habit": "l", "strength": "k"}
    earlier_alk: Floats
    counts_alk: Floats
    attention: Floats
    habit_al: Floats
    shared_lk: Floats
    strength: Floats
    #: Attention and habit of an annotator never seen.
    mean_attention: float
    mean_habit: Floats
    shared: bool
    own: bool
    #: Annotators with few votes are judged by all.
    pools: ClassVar[bool] = True

    @classmethod
    def start(cls, answers: Floats, earlier_alk: Floats, *, shared: bool = True, own: bool = True) -> Habits:
        """Before any posterior: habits are the annotators' own label shares; `answers` are their votes by label, [A, L]."""
        n_annotators, n_classes = answers.shape
        overall = answers.sum(axis=0) + 1
        overall = overall / overall.sum()
        return cls(
            earlier_alk,
            np.broadcast_to(earlier_alk, (n_annotators, n_classes, n_classes)),
            np.full(n_annotators, _ATTENTION),
            _rows(answers + n_classes * overall),
            _RIGHT * np.eye(n_classes) + (1 - _RIGHT) / n_classes,
            np.full(n_classes, float(n_classes)),
            _ATTENTION,
            overall,
            shared,
            own,
        )

    @property
    def expects_logs(self) -> bool:
        """Whether inference takes E log pi; see `crowdwise.parts.annotators.model.predictive`."""
        return self.own

    def conditioned(self, statistics: tuple[Floats, ...]) -> Habits:
        """One step from the counts of all votes."""
        counts = statistics[0] + self.earlier_alk
        n_classes = counts.shape[1]
        mean = self.mean_alk()
        draws, strength = (counts, self.strength) if not self.own else self._draws(counts, mean)
        attended = draws * self.attention[:, None, None] * self.shared_lk / np.maximum(mean, 1e-300)
        guessed = (draws - attended).sum(axis=2)
        seen, total = attended.sum(axis=(1, 2)), draws.sum(axis=(1, 2))
        mean_attention = (seen.sum() + 1) / (total.sum() + 2)
        if self.shared:
            shared_lk = attended.sum(axis=0) + np.eye(n_classes) + 0.1 / n_classes
            shared_lk = shared_lk / shared_lk.sum(axis=0)
        else:
            shared_lk = (1 - _SLIP) * np.eye(n_classes) + _SLIP / n_classes
        habit = guessed.sum(axis=0) + 1 / n_classes
        habit = habit / habit.sum()
        return replace(
            self,
            counts_alk=counts,
            attention=(seen + 2 * mean_attention) / (total + 2),
            habit_al=_rows(guessed + n_classes * habit),
            shared_lk=shared_lk,
            strength=strength,
            mean_attention=float(mean_attention),
            mean_habit=habit,
        )

    def penalty(self) -> float:
        """KL of every own row from the row it scatters around; earlier answers count as part of the prior."""
        if not self.own:
            return 0.0
        prior = self.strength * self.mean_alk()
        return dirichlet_kl(self.counts_alk + prior, self.earlier_alk + prior, 1)

    def aligned(self, index: Integers, item_index: Integers) -> Habits:
        """Reorder; an annotator never seen has the attention and the habit of all."""
        return replace(
            self,
            earlier_alk=taken_unless_shared(self.earlier_alk, index),
            counts_alk=taken(self.counts_alk, index, 0.0),
            attention=taken(self.attention, index, self.mean_attention),
            habit_al=taken(self.habit_al, index, self.mean_habit),
        )

    def confusion(self) -> Floats:
        """Mean matrices, [A, K, L]."""
        table = self.counts_alk + self.strength * self.mean_alk() if self.own else self.mean_alk()
        return np.asarray(table / table.sum(axis=1, keepdims=True)).transpose(0, 2, 1)

    def concentration(self) -> Floats | None:
        """Dirichlet parameters of own matrices, [A, K, L]."""
        return (self.counts_alk + self.strength * self.mean_alk()).transpose(0, 2, 1) if self.own else None

    def mean_alk(self) -> Floats:
        """mu: what an annotator would do without an own matrix, [A, L, K]."""
        theta = self.attention[:, None, None]
        return np.asarray(theta * self.shared_lk + (1 - theta) * self.habit_al[:, :, None])

    def log_table(self) -> Floats:
        """Evidence of every vote, [A, L, K]: log mu, or E[log pi] of own matrices."""
        if not self.own:
            return log_floored(self.mean_alk())
        return expected_log(self.counts_alk + self.strength * self.mean_alk(), 1)

    def _draws(self, counts: Floats, mean: Floats) -> tuple[Floats, Floats]:
        """Expected draws from mu, [A, L, K], and the strength of the next round, [K]."""
        prior = np.maximum(self.strength * mean, _LEAST)
        draws = prior * (digamma(counts + prior) - digamma(prior))
        spread = (digamma(counts.sum(axis=1) + self.strength) - digamma(self.strength)).sum(axis=0)
        strength = (draws.sum(axis=(0, 1)) + 1) / (spread + 1 / counts.shape[1])
        return draws, np.clip(strength, _WEAKEST, _STRONGEST)


def _rows(values: Floats) -> Floats:
    return np.asarray(values / values.sum(axis=1, keepdims=True))
