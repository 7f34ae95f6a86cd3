"""Annotators who know different things: reliability by low-rank factors of annotators and items.

P(vote of a = label | x_n) = eta_na = sigmoid(u_a . t_n), wrong answers uniform over the other K - 1 classes.
t_n = F (x_n, 1) are the traits of the item, a few numbers; u_a is the annotator's embedding, drawn around the crowd's:

    u_a ~ N(mu, I / l2)  for annotators with votes,     mu ~ N(mu_0, I / l2),     entries of F ~ N(0, 1 / projection_l2)

so that whoever was never seen is like the crowd. The M-step takes turns: given F, Newton steps for every annotator at once
(each is a small logistic regression with soft targets rho_e); given the embeddings, F by L-BFGS. Neither rotations nor
scales of (u, F) matter to the votes; the penalty on F keeps F from growing while u shrinks.

Symbols
-------
rho_e : [E]     posterior of the class that the vote names
s_e : [E]       u_a . t_n, the log-odds that the vote is right; its gradient is rho - sigmoid(s)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import log_sigmoid
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.factors import SoftVotes, fit_embedding, fit_projection, item_traits, vote_logits
from crowdwise.parts.annotators.model import WithoutPosterior, evidence_of_odds, infer_by_votes, taken, voted_log_lik

__all__ = ["Expertise", "Factors", "infer_labels"]


# Log-odds of everybody before any data, sigmoid(0.85) = 0.7: labels and reliabilities that are both turned round explain
# the votes as well, and this start settles which.
_START = 0.85
_NOISE = 0.1
# Penalty of either factor by default, as a multiple of sqrt(E) (1 + sqrt(D / A)). Only the product of the two penalties
# counts: their geometric mean weighs the singular values of [A, D + 1] products u_a F, and those of noise grow like this.
_PENALTY = 0.2
# Pairs of an item and an annotator over which mean reliabilities are taken (at least so many items), and those at once.
_PAIRS, _SAMPLE, _BLOCK = 2**26, 1000, 2**22


@storable
@dataclass(frozen=True, eq=False)
class Expertise(WithoutPosterior):
    """Fitted embeddings of annotators, and the traits of the items.

    Attributes
    ----------
    traits : [N, d]
        Of the items.
    embedding : [A, d]
        Of the annotators.
    population : [d]
        Mean embedding of the crowd, mu.
    origin : [d]
        Prior mean of mu.
    mean_reliability : [A]
        Mean of eta over the items of the fit (a sample of many).
    unseen_reliability : float
        The same for an annotator never seen.
    """

    shapes: ClassVar[dict[str, str]] = {
        "traits": "nd",
        "embedding": "ad",
        "population": "d",
        "origin": "d",
        "mean_reliability": "a",
    }
    traits: Floats
    embedding: Floats
    population: Floats
    origin: Floats
    mean_reliability: Floats
    unseen_reliability: float
    l2: float
    n_classes: int

    @classmethod
    def of(
        cls, traits: Floats, embedding: Floats, population: Floats, origin: Floats, *, l2: float, n_classes: int
    ) -> Expertise:
        """Put the parts together and average their reliability over the items."""
        everyone = _mean_reliability(traits, np.concatenate([embedding, population[None]]))
        return cls(traits, embedding, population, origin, everyone[:-1], float(everyone[-1]), l2, n_classes)

    def update(self, votes: Annotations, posterior: Floats) -> Expertise:
        """Newton steps on the embeddings; the traits stay."""
        soft = SoftVotes.of(votes, posterior)
        embedding, population = fit_embedding(soft, self.traits, self.embedding, self.population, self.origin, l2=self.l2)
        return Expertise.of(self.traits, embedding, population, self.origin, l2=self.l2, n_classes=self.n_classes)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        return infer_labels(votes, self.traits, self.embedding, log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        base, bonus = _evidence(self.traits, self.embedding, votes.item[index], votes.annotator[index], self.n_classes)
        return voted_log_lik(votes, index, base, bonus)

    def penalty(self) -> float:
        """Minus the log prior densities of the embeddings, up to constants."""
        own = ((self.embedding - self.population) ** 2).sum() + ((self.population - self.origin) ** 2).sum()
        return float(self.l2 * own / 2)

    def aligned(self, index: Integers, item_index: Integers) -> Expertise:
        """Reorder; an annotator never seen is like the crowd, a new item has the mean traits."""
        average = self.traits.mean(axis=0) if len(self.traits) else 0.0
        return replace(
            self,
            traits=taken(self.traits, item_index, average),
            embedding=taken(self.embedding, index, self.population),
            mean_reliability=taken(self.mean_reliability, index, self.unseen_reliability),
        )

    def reliability(self, traits: Floats) -> Floats:
        """P(vote = label) of every annotator on items with these traits [N, d], [N, A]."""
        return np.asarray(np.exp(log_sigmoid(traits @ self.embedding.T)))

    def confusion(self) -> Floats:
        """What the mean reliability implies, [A, K, L]."""
        off = (1 - self.mean_reliability) / max(self.n_classes - 1, 1)
        table = np.repeat(off, self.n_classes**2).reshape(-1, self.n_classes, self.n_classes)
        every = np.arange(self.n_classes)
        table[:, every, every] = self.mean_reliability[:, None] if self.n_classes > 1 else 1.0
        return table


def infer_labels(
    votes: Annotations, traits: Floats, embedding: Floats, log_prior: Floats, known: Integers, posterior: Floats
) -> tuple[float, float]:
    """E-step: overwrite `posterior`, [N, K]; return the summed log-normalisers and the largest change."""
    base, bonus = _evidence(traits, embedding, votes.item, votes.annotator, votes.n_classes)
    return infer_by_votes(votes, base, bonus, log_prior, known, posterior)


def _evidence(traits: Floats, embedding: Floats, item: Integers, who: Integers, n_classes: int) -> tuple[Floats, Floats]:
    """What a vote says of every class, and what it adds for the class that it names, two of [E]."""
    return evidence_of_odds(vote_logits(traits, embedding, item, who), n_classes)


@dataclass(frozen=True, eq=False)
class Factors:
    """Annotators' embeddings, what makes traits of scaled features, and their priors.

    Attributes
    ----------
    embedding : [A, d]
    projection : [d, D + 1]
        F; the last column is that of the constant.
    population, origin : [d]
        The crowd's mean and its prior mean.
    full : bool
        Traits are the features themselves; F stays.
    """

    embedding: Floats
    projection: Floats
    population: Floats
    origin: Floats
    l2: float
    projection_l2: float
    full: bool

    @classmethod
    def start(
        cls,
        votes: Annotations,
        n_columns: int,
        rng: np.random.Generator,
        *,
        rank: int,
        full: bool,
        penalty: float | None = None,
        projection_penalty: float | None = None,
    ) -> Factors:
        """Before any data: everybody is right in seven of ten cases, give or take noise that breaks the symmetry."""
        total = max(votes.total_weight, 1.0)
        wide = 1 + math.sqrt((n_columns + 1) / max(votes.n_annotators, 1))
        default = float(n_columns + 1) if full else _PENALTY * math.sqrt(total) * wide
        l2 = default if penalty is None else penalty
        if full:
            # With so large a constant, the penalty of an intercept is 1 where that of the others is the number of columns.
            projection = np.diag(np.append(np.ones(n_columns), math.sqrt(n_columns + 1)))
            origin = np.append(np.zeros(n_columns), _START / math.sqrt(n_columns + 1))
            embedding = np.tile(origin, (votes.n_annotators, 1))
        else:
            rank = min(rank, n_columns + 1)
            origin = np.append(math.sqrt(_START), np.zeros(rank - 1))
            projection = rng.normal(0, _NOISE, (rank, n_columns + 1))
            projection[:, -1] = origin
            embedding = origin + rng.normal(0, _NOISE, (votes.n_annotators, rank))
        return cls(
            embedding, projection, origin, origin, l2, default if projection_penalty is None else projection_penalty, full
        )

    def refined(self, table: Any, votes: Annotations, posterior: Floats, alternations: int, share: float = 1.0) -> Factors:
        """Take turns between embeddings and projection under a posterior, [N, K], and a share of the penalties."""
        soft = SoftVotes.of(votes, posterior)
        now = self
        for _ in range(1 if self.full else alternations):
            embedding, population = fit_embedding(
                soft, now.traits(table), now.embedding, now.population, self.origin, l2=share * self.l2
            )
            now = replace(now, embedding=embedding, population=population)
            if not self.full:
                projection = fit_projection(soft, table, embedding, now.projection, l2=share * self.projection_l2, steps=5)
                now = replace(now, projection=projection)
        return now

    def traits(self, table: Any) -> Floats:
        """Of rows of scaled features, [N, d]."""
        return item_traits(table, self.projection)

    def annotators(self, traits: Floats, n_classes: int) -> Expertise:
        """The annotator model on items with these traits."""
        return Expertise.of(traits, self.embedding, self.population, self.origin, l2=self.l2, n_classes=n_classes)


def _mean_reliability(traits: Floats, embedding: Floats) -> Floats:
    """Mean of eta over the items, or over evenly spaced ones of many, [A]."""
    if not len(traits):
        return np.full(len(embedding), 0.5)
    some = traits[:: -(-len(traits) // max(_SAMPLE, _PAIRS // max(len(embedding), 1)))]
    step = max(1, _BLOCK // len(some))
    blocks = [np.exp(log_sigmoid(embedding[start : start + step] @ some.T)) for start in range(0, len(embedding), step)]
    return np.concatenate([block.mean(axis=1) for block in blocks])
