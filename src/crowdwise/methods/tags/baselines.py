"""Token by token: majority vote and Dawid-Skene, which look at no neighbour, with valid tag sequences at the end.

Every token gets its probabilities on its own; the tag sequences are the most probable valid ones under their product, and
so are the spans' probabilities. With ``bio=False`` the tags are simply the most probable ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.token_votes import TokenVotes
from crowdwise.engines.loop import ABOUT_TOL, Progress
from crowdwise.estimator.aggregator import Aggregator
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.chains import Steps, forward_backward
from crowdwise.kernels.types import Floats
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.methods.labels.majority import MajorityVote
from crowdwise.methods.tags.base import SequenceMethod
from crowdwise.methods.tags.engine import ChainFit
from crowdwise.methods.tags.scheme import Tags
from crowdwise.methods.tags.transitions import Transitions

__all__ = ["TokenDawidSkene", "TokenMajority"]


@dataclass(frozen=True, eq=False)
class TokenFit(ChainFit):
    """Valid sequences, and the result of the tokens on their own."""

    tokens: Result


class _TokenByToken(SequenceMethod):
    """Tags of every token by a label-only method."""

    def _tokens(self) -> Aggregator:
        raise NotImplementedError

    def _fit(self, tags: TokenVotes, steps: Steps, scheme: Tags, progress: Progress | None) -> ChainFit:
        found = self._tokens().fit(tags.votes, progress=progress).result_
        # Weights of one, so that only what is forbidden changes the product of the tokens' own probabilities.
        allowed = self._allowed(scheme)
        flat = Transitions(allowed, 0.0, allowed.astype(float))
        messages = forward_backward(*flat.weights(), found.posterior, steps)
        return TokenFit(flat, None, messages, found.trace, found.n_iter, found.converged, found)

    def _posterior(self, tags: TokenVotes, fit: ChainFit) -> Floats:
        assert isinstance(fit, TokenFit)
        return fit.tokens.posterior

    def _confusion(self, tags: TokenVotes, fit: ChainFit) -> Floats:
        assert isinstance(fit, TokenFit)
        return fit.tokens.confusion


@dataclass(eq=False, repr=False, kw_only=True)
class TokenMajority(_TokenByToken):
    """Majority vote of every token, made a valid tag sequence."""

    name: ClassVar[str] = "token-majority"

    def _tokens(self) -> Aggregator:
        return MajorityVote()


@dataclass(eq=False, repr=False, kw_only=True)
class TokenDawidSkene(_TokenByToken):
    """Dawid-Skene of every token, made a valid tag sequence."""

    max_iter: int = setting(1000, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, low=0)

    name: ClassVar[str] = "token-dawid-skene"

    def _tokens(self) -> Aggregator:
        return DawidSkene(max_iter=self.max_iter, tol=self.tol)
