"""What a method is given to fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.crowd import Crowd
from crowdwise.engines.loop import Progress
from crowdwise.engines.shards import Shards, Whole
from crowdwise.kernels.numerics import vote_shares
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.annotators.model import weight_of
from crowdwise.parts.priors.marginals import Marginals

__all__ = ["Problem"]


@dataclass(frozen=True, eq=False)
class Problem:
    """Votes and everything known beside them, validated and encoded.

    Attributes
    ----------
    shards : Shards
        Where the votes and posteriors lie: several shards, or the one of a fit in memory.
    crowd : Crowd
        Sizes, vocabularies and who gave which label how often.
    history : [A, L, K] or None
        Earlier answers of annotators, as counts.
    class_prior : [K] or None
        Given class shares; None means learn them.
    warm : [N, K] or None
        Posterior to start from instead of `init`.
    """

    shards: Shards
    crowd: Crowd
    history: Floats | None
    class_prior: Floats | None
    warm: Floats | None
    rng: np.random.Generator
    progress: Progress | None

    @property
    def in_memory(self) -> bool:
        """Whether there is one shard, in memory, so that `votes` may be asked for."""
        return isinstance(self.shards, Whole)

    @property
    def votes(self) -> Annotations:
        """The votes of a fit in memory."""
        assert isinstance(self.shards, Whole)
        return self.shards.votes

    @property
    def known(self) -> Array:
        """Class codes of gold items, -1 elsewhere, of a fit in memory: [N], or [0] without any."""
        assert isinstance(self.shards, Whole)
        return self.shards.shard.known

    @property
    def shares(self) -> Floats:
        """Vote shares of a fit in memory, [N, K]."""
        votes = self.votes
        return vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)

    def with_votes(self, votes: Annotations, **changes: Any) -> Problem:
        """The same about other votes in memory."""
        return replace(self, shards=Whole.of(votes), crowd=votes, **changes)

    def marginals(self, pseudo_count: float | Floats = 0.0) -> Marginals:
        """Point class shares: the given ones, or to be learned."""
        if self.class_prior is not None:
            return Marginals(self.class_prior, learn=False)
        return Marginals(np.full(self.crowd.n_classes, 1 / self.crowd.n_classes), pseudo_count=pseudo_count)
