"""Annotators and items with a confusion of their own each: minimax conditional entropy.

P(observed l | true k) of annotator a on item n is proportional to exp(sigma_a[k, l] + tau_n[k, l]): the
distribution of greatest conditional entropy that keeps the confusion counts of every annotator
and of every item. Penalties 1/2 lambda_a |sigma - centre|^2 + 1/2 lambda_n |tau|^2 let counts be kept only about.

The M-step climbs Böhning's bound (the Hessian of log-sum-exp is at most I / 2), all annotators at once
and then all items at once:

    sigma_a[k] += (C_a[k] - sum_n q_nk p_na[k] - lambda_a (sigma_a[k] - centre[k])) / (1/2 sum_n q_nk + lambda_a)

Rows are then centred: adding a constant to a row changes no probability and only costs penalty.

Symbols
-------
sigma_alk : [A, L, K]   confusion of annotators
tau_nlk : [N, L, K]     confusion of items
centre_lk : [L, K]      where sigma is without votes; its columns sum to zero
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import segment_sum, softmax_into
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import WithoutPosterior

__all__ = ["MaxEntConfusion"]


# Numbers held at once: votes x labels x classes are walked in pieces of this size.
_PIECE = 4_000_000


@storable
@dataclass(frozen=True, eq=False)
class MaxEntConfusion(WithoutPosterior):
    """Penalised confusions of annotators and of items; `earlier_alk` are earlier answers, on items without confusion."""

    earlier_alk: Floats
    centre_lk: Floats
    sigma_alk: Floats
    tau_nlk: Floats
    population_lk: Floats
    annotator_penalty: float
    item_penalty: float
    steps: int

    @classmethod
    def start(
        cls, earlier_alk: Floats, n_items: int, honesty: float, annotator_penalty: float, item_penalty: float, steps: int
    ) -> MaxEntConfusion:
        """Before any data: the right answer exp(honesty) times as likely as each wrong one."""
        n_annotators, n_classes, _ = earlier_alk.shape
        centre = honesty * (np.eye(n_classes) - 1 / n_classes)
        sigma = np.repeat(centre[None], n_annotators, axis=0)
        tau = np.zeros((n_items, n_classes, n_classes))
        return cls(earlier_alk, centre, sigma, tau, centre, annotator_penalty, item_penalty, steps)

    def update(self, votes: Annotations, posterior: Floats) -> MaxEntConfusion:
        """Steps up the penalised expected log-likelihood: annotators, then items, `steps` times."""
        model = self
        for _ in range(self.steps):
            model = replace(model, sigma_alk=model._climb_annotators(votes, posterior))
            model = replace(model, tau_nlk=model._climb_items(votes, posterior))
        weight = segment_sum(votes.annotator, votes.weight, votes.n_annotators)
        share = weight / max(weight.sum(), 1e-300)
        population = np.einsum("alk,a->lk", model.sigma_alk, share) if weight.any() else self.centre_lk
        return replace(model, population_lk=population)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        rows = self.log_lik(votes, np.arange(votes.n_votes))
        return softmax_into(_add_up(votes.item, rows, votes.n_items) + log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        rows = np.empty((len(index), votes.n_classes))
        for piece in _pieces(len(index), votes.n_classes):
            at = index[piece]
            log_p = self._scores(votes, at)
            voted = log_p[np.arange(len(at)), votes.label[at]]
            rows[piece] = voted - _log_total(log_p)
        return rows if votes.weight is None else rows * votes.weight[index, None]

    def penalty(self) -> float:
        """The quadratic penalties, and minus the log-likelihood of earlier answers."""
        squares = 0.5 * self.annotator_penalty * ((self.sigma_alk - self.centre_lk) ** 2).sum()
        squares += 0.5 * self.item_penalty * (self.tau_nlk**2).sum()
        log_p = self.sigma_alk - _log_total(self.sigma_alk)[:, None, :]
        return float(squares - (self.earlier_alk * log_p).sum())

    def aligned(self, index: Integers, item_index: Integers) -> MaxEntConfusion:
        """Reorder; an annotator never seen has the mean confusion by votes, a new item none."""
        none = np.zeros((1, *self.tau_nlk.shape[1:]))
        return replace(
            self,
            earlier_alk=np.concatenate([self.earlier_alk, none])[index],
            sigma_alk=np.concatenate([self.sigma_alk, self.population_lk[None]])[index],
            tau_nlk=np.concatenate([self.tau_nlk, none])[item_index],
        )

    def confusion(self) -> None:
        """Confusion depends on the item; the result reports a plug-in estimate."""
        return None

    def _scores(self, votes: Annotations, at: Integers) -> Floats:
        """sigma + tau of these votes, [len(at), L, K]."""
        return np.asarray(self.sigma_alk[votes.annotator[at]] + self.tau_nlk[votes.item[at]])

    def _surprise(self, votes: Annotations, posterior: Floats) -> Iterator[tuple[Integers, Floats, Floats]]:
        """For pieces of votes: their positions, q_nk (1[l voted] - p_l), [E, L, K], and q_nk, [E, K], both weighted."""
        for piece in _pieces(votes.n_votes, votes.n_classes):
            at = np.arange(votes.n_votes)[piece]
            mass = posterior[votes.item[at]]
            if votes.weight is not None:
                mass = mass * votes.weight[at, None]
            scores = self._scores(votes, at)
            scores -= _log_total(scores)[:, None, :]
            np.exp(scores, out=scores)
            scores *= -mass[:, None, :]
            scores[np.arange(len(at)), votes.label[at]] += mass
            yield at, scores, mass

    def _climb_annotators(self, votes: Annotations, posterior: Floats) -> Floats:
        earlier = self.earlier_alk.sum(axis=1, keepdims=True)
        p_alk = np.exp(self.sigma_alk - _log_total(self.sigma_alk)[:, None, :])
        slope = self.earlier_alk - earlier * p_alk - self.annotator_penalty * (self.sigma_alk - self.centre_lk)
        total = earlier[:, 0]
        for at, surprise, mass in self._surprise(votes, posterior):
            slope += _add_up(votes.annotator[at], surprise, votes.n_annotators)
            total = total + _add_up(votes.annotator[at], mass, votes.n_annotators)
        return _centred(self.sigma_alk + slope / (0.5 * total[:, None, :] + self.annotator_penalty))

    def _climb_items(self, votes: Annotations, posterior: Floats) -> Floats:
        slope = -self.item_penalty * self.tau_nlk
        total = np.zeros((votes.n_items, votes.n_classes))
        for at, surprise, mass in self._surprise(votes, posterior):
            slope += _add_up(votes.item[at], surprise, votes.n_items)
            total += _add_up(votes.item[at], mass, votes.n_items)
        return _centred(self.tau_nlk + slope / (0.5 * total[:, None, :] + self.item_penalty))


def _pieces(n_votes: int, n_classes: int) -> list[slice]:
    size = max(_PIECE // n_classes**2, 1)
    return [slice(start, start + size) for start in range(0, n_votes, size)]


def _log_total(scores: Floats) -> Floats:
    """log sum over the observed label of exp(scores), [..., K]."""
    top = scores.max(axis=-2, keepdims=True)
    return np.asarray(top[..., 0, :] + np.log(np.exp(scores - top).sum(axis=-2)))


def _centred(table: Floats) -> Floats:
    return np.asarray(table - table.mean(axis=1, keepdims=True))


def _add_up(index: Integers, values: Floats, size: int) -> Floats:
    """Sum of rows of any shape over equal entries of `index`."""
    from scipy.sparse import csr_array

    n, width = len(index), int(np.prod(values.shape[1:]))
    member = csr_array((np.ones(n), index, np.arange(n + 1)), shape=(n, size))
    return np.asarray(member.T @ values.reshape(n, width)).reshape(size, *values.shape[1:])
