"""The M-step of annotators with low-rank expertise: logistic regressions over votes, with factors of annotators and items.

    maximise  sum_e w_e [rho_e log sigmoid(s_e) + (1 - rho_e) log sigmoid(-s_e)] - penalties,     s_e = u_a . F (x_n, 1)

Given F, each embedding u_a is a small ridge-logistic problem; all are solved at once by Newton steps. Given the embeddings,
F is one concave problem, climbed by L-BFGS. The gradient in s_e is w_e (rho_e - sigmoid(s_e)); nothing is divided by
eta (1 - eta). Sums over votes are products with one sparse matrix: memory in votes, never items x annotators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.logistic import logistic_terms
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["SoftVotes", "fit_embedding", "fit_projection", "item_traits", "projection_terms", "vote_logits"]


# Entries of the factors of votes that are gathered together.
_ENTRIES = 2**21
# Factors up to which the Newton equations are solved directly; above it, [A, d, d] would not fit.
_DIRECT = 32
_CONJUGATE_STEPS = 25


@dataclass(frozen=True, eq=False)
class SoftVotes:
    """Votes with the probability that each is right; sums over them need memory in votes, never items x annotators."""

    item: Integers
    annotator: Integers
    item_ptr: Integers
    rho: Floats
    weight: Floats
    n_annotators: int

    @classmethod
    def of(cls, votes: Annotations, posterior: Floats) -> SoftVotes:
        """Under a posterior of the labels, [N, K]."""
        kind = np.int32 if votes.n_votes < 2**31 else np.int64
        return cls(
            item=votes.item,
            annotator=votes.annotator.astype(kind),
            item_ptr=votes.item_ptr.astype(kind),
            rho=np.asarray(posterior[votes.item, votes.label], float),
            weight=votes.weights,
            n_annotators=votes.n_annotators,
        )

    def terms(self, traits: Floats, embedding: Floats) -> tuple[Floats, Floats, Floats]:
        """Expected log-likelihood, slope and negative curvature in the log-odds of every vote, three of [E]."""
        return logistic_terms(vote_logits(traits, embedding, self.item, self.annotator), self.rho, self.weight)

    def by_item(self, values_e: Floats, rows: Floats) -> Floats:
        """Sum over the votes of each item of value x the annotator's row, [N, d]."""
        return np.asarray(self._matrix(values_e) @ rows)

    def by_annotator(self, values_e: Floats, rows: Floats) -> Floats:
        """Sum over the votes of each annotator of value x the item's row, [A, d]."""
        return np.asarray(self._matrix(values_e).T @ rows)

    def _matrix(self, values_e: Floats) -> Any:
        from scipy.sparse import csr_array

        shape = (len(self.item_ptr) - 1, self.n_annotators)
        return csr_array((values_e, self.annotator, self.item_ptr), shape=shape)


def vote_logits(traits: Floats, embedding: Floats, item: Integers, annotator: Integers) -> Floats:
    """u_a . t_n of every vote, [E]."""
    s_e = np.zeros(len(item))
    size = max(1, _ENTRIES // traits.shape[1])
    for start in range(0, len(item), size):
        part = slice(start, start + size)
        s_e[part] = np.einsum("ed,ed->e", traits[item[part]], embedding[annotator[part]])
    return s_e


def item_traits(table: Any, projection: Floats) -> Floats:
    """F (x, 1) of rows of a dense or sparse table [N, D], [N, d], with F [d, D + 1]."""
    return np.asarray(table @ np.ascontiguousarray(projection[:, :-1].T)) + projection[:, -1]


def fit_embedding(
    soft: SoftVotes, traits: Floats, embedding: Floats, population: Floats, origin: Floats, *, l2: float, steps: int = 2
) -> tuple[Floats, Floats]:
    """Newton steps for the embeddings of all annotators at once, [A, d], and the mean of the crowd after them, [d].

    A step that would lower an annotator's part of the objective is shortened.
    """
    n_annotators = soft.n_annotators
    voted = segment_sum(soft.annotator, soft.weight, n_annotators) > 0

    def value_of(terms_e: Floats, u: Floats) -> Floats:
        return np.asarray(segment_sum(soft.annotator, terms_e, n_annotators) - l2 * ((u - population) ** 2).sum(axis=1) / 2)

    for _ in range(steps):
        terms_e, slope, curve = soft.terms(traits, embedding)
        uphill = soft.by_annotator(slope, traits) - l2 * (embedding - population)
        step = _solved(soft, traits, curve, uphill, l2)
        # Near the top, rounding decides whether a step climbs; such a step is harmless.
        value = value_of(terms_e, embedding)
        enough = value - 1e-12 * (1 + np.abs(value))
        for shrink in (0.25, 0.25, 0.0):
            worse = value_of(soft.terms(traits, embedding + step)[0], embedding + step) < enough
            if not worse.any():
                break
            step = np.where(worse[:, None], shrink * step, step)
        embedding = embedding + step
        if np.abs(step).max(initial=0.0) < 1e-8:
            break
    population = (embedding[voted].sum(axis=0) + origin) / (voted.sum() + 1)
    # Who has not voted is like the crowd, and must not hold it back.
    return np.asarray(np.where(voted[:, None], embedding, population)), np.asarray(population)


def _solved(soft: SoftVotes, traits: Floats, curve: Floats, uphill: Floats, l2: float) -> Floats:
    """Newton directions, [A, d]: directly for few factors, else by conjugate gradients, which need no matrices."""
    n_annotators, rank = uphill.shape
    if rank > _DIRECT:
        return _conjugate(soft, traits, curve, uphill, l2)
    bend = np.zeros((n_annotators, rank, rank))
    for d in range(rank):
        bend[:, d, d:] = soft.by_annotator(curve, np.ascontiguousarray(traits[:, d:] * traits[:, [d]]))
        bend[:, d:, d] = bend[:, d, d:]
    bend[:, np.arange(rank), np.arange(rank)] += l2
    return np.asarray(np.linalg.solve(bend, uphill[:, :, None])[:, :, 0])


def _conjugate(soft: SoftVotes, traits: Floats, curve: Floats, uphill: Floats, l2: float) -> Floats:
    """The equations of all annotators side by side, each with step sizes of its own."""
    solution, residual, direction = np.zeros_like(uphill), uphill.copy(), uphill.copy()
    left = (residual**2).sum(axis=1)
    first = left.copy()
    for _ in range(_CONJUGATE_STEPS):
        if (left <= 1e-12 * first).all():
            break
        bent_e = curve * vote_logits(traits, direction, soft.item, soft.annotator)
        bent = soft.by_annotator(bent_e, traits) + l2 * direction
        size = (left / np.maximum((direction * bent).sum(axis=1), 1e-300))[:, None]
        solution += size * direction
        residual -= size * bent
        before, left = left, (residual**2).sum(axis=1)
        direction = residual + (left / np.maximum(before, 1e-300))[:, None] * direction
    return np.asarray(solution)


def projection_terms(soft: SoftVotes, table: Any, embedding: Floats, projection: Floats, l2: float) -> tuple[float, Floats]:
    """Penalised expected log-likelihood by F [d, D + 1], and its gradient of the same shape."""
    terms_e, slope, _ = soft.terms(item_traits(table, projection), embedding)
    pull_nd = soft.by_item(slope, embedding)
    uphill = np.concatenate([np.asarray(table.T @ pull_nd), pull_nd.sum(axis=0, keepdims=True)]).T - l2 * projection
    return float(terms_e.sum() - l2 * (projection**2).sum() / 2), uphill


def fit_projection(soft: SoftVotes, table: Any, embedding: Floats, projection: Floats, *, l2: float, steps: int = 10) -> Floats:
    """F after some L-BFGS steps from `projection`, [d, D + 1]; the problem is concave."""
    from scipy.optimize import minimize

    def downhill(flat: Floats) -> tuple[float, Floats]:
        value, uphill = projection_terms(soft, table, embedding, flat.reshape(projection.shape), l2)
        return -value, -uphill.ravel()

    done = minimize(downhill, projection.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return np.asarray(done.x, float).reshape(projection.shape)
