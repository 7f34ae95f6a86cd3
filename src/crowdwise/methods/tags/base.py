"""The shell of every sequence method: check, fit a chain, find the best path and its spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from crowdwise.data.token_votes import TokenVotes
from crowdwise.estimator.estimator import Estimator, setting
from crowdwise.kernels.chains import Steps, best_path
from crowdwise.kernels.numerics import vote_shares
from crowdwise.kernels.types import Array, Flags, Floats
from crowdwise.methods.tags.confidence import span_probability
from crowdwise.methods.tags.engine import ChainFit
from crowdwise.methods.tags.result import SequenceResult
from crowdwise.methods.tags.scheme import Tags
from crowdwise.methods.tags.scoring import first_tokens

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["SequenceMethod", "shares_of"]


def shares_of(tags: TokenVotes) -> Floats:
    """Share of every tag among the votes on a token, [N, K]."""
    votes = tags.votes
    return vote_shares(votes.item_ptr, votes.label, np.empty(0), votes.n_classes)


@dataclass(eq=False, repr=False, kw_only=True)
class SequenceMethod(Estimator):
    """Base of methods for tagged tokens; a method supplies `name`, `_fit` and `_confusion`.

    Fitted attributes beside those of every estimator: `spans_` (a frame), `posterior_` [N, K], `labels_` [N], `classes_` [K].
    Items are tokens.
    """

    bio: bool = setting(True, "Forbid what BIO forbids: I-X at the start, or after anything but B-X and I-X.")

    name: ClassVar[str]

    def _fit(self, tags: TokenVotes, steps: Steps, scheme: Tags, progress: Progress | None) -> ChainFit:
        raise NotImplementedError

    def _confusion(self, tags: TokenVotes, fit: ChainFit) -> Floats:
        """Confusion matrices, [A, K, L]."""
        raise NotImplementedError

    def _posterior(self, tags: TokenVotes, fit: ChainFit) -> Floats:
        return fit.messages.posterior

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to the tags of several annotators.

        Parameters
        ----------
        data : TokenVotes or frame
            A frame has the columns sequence, position, annotator, label and perhaps token.
        gold, history, engine
            No method of tags takes these yet.
        progress : callable, optional
            Called after every iteration with (iteration, bound, mean change).
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        tags = data if isinstance(data, TokenVotes) else TokenVotes.from_frame(data)
        scheme = Tags.of(tags.votes.classes, bio=self.bio)
        steps, first = Steps.of(tags.sequence_ptr), first_tokens(tags.sequence_ptr)
        fit = self._fit(tags, steps, scheme, progress)
        initial, transition = fit.transitions.weights()
        path = best_path(initial, transition, fit.messages.emission, steps)
        spans = scheme.spans(path, first)
        self.result_ = SequenceResult(
            method=self.name,
            settings=self.get_params(),
            votes=tags,
            scheme=scheme,
            posterior=self._posterior(tags, fit),
            path=path,
            spans=spans,
            confidence=span_probability(fit.messages, transition, path, first, spans, scheme),
            transition=fit.transitions.probability(),
            confusion=self._confusion(tags, fit),
            trace=fit.trace,
            n_iter=fit.n_iter,
            converged=fit.converged,
        )
        return self

    def _allowed(self, scheme: Tags) -> Flags:
        """What may follow what, [K + 1, K]."""
        return scheme.allowed if self.bio else np.ones_like(scheme.allowed)

    # -- what was fitted -----------------------------------------------------------------------

    def _fitted(self) -> SequenceResult:
        result: SequenceResult = self._kept("result_")
        return result

    @property
    def spans_(self) -> pl.DataFrame:
        """One row per span, with its confidence."""
        return self._fitted().spans_frame()

    @property
    def classes_(self) -> Array:
        """The tags, [K]."""
        return self._fitted().votes.votes.classes

    @property
    def posterior_(self) -> Floats:
        """Probability of every tag of every token, [N, K]."""
        return self._fitted().posterior

    @property
    def labels_(self) -> Array:
        """Tags by name, [N]."""
        return self._fitted().labels
