"""What deepMF and deepBP share: a network as the prior of the labels, and a posterior (not a point) of every annotator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.alternating import AlternatingHead
from crowdwise.engines.loop import alternate
from crowdwise.errors import CostWarning, SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.numerics import below_ceiling
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.priors.abilities import FAMILIES
from crowdwise.parts.priors.rows import RowPrior

if TYPE_CHECKING:
    from crowdwise.methods.labels.dawid_skene import IterativeAggregator
    from crowdwise.parts.annotators.model import AnnotatorModel
    from crowdwise.parts.heads.head import Head

__all__ = ["VariationalClassifier", "settled"]


# Rounds of the last inference, under the finished network.
_LAST_ROUNDS, _LAST_TOL = 100, 1e-7


@dataclass(eq=False, repr=False, kw_only=True)
class VariationalClassifier(NeuralClassifier):
    """Base of the methods that take turns between inference with the whole crowd and epochs of a network."""

    family: str = setting("one-coin", "Annotators: one accuracy, one per true class, or full confusion rows.", choices=FAMILIES)
    annotator_prior: Any = setting(
        "beta:2,1",
        'Prior of annotators: "beta:R,W", "dir:R,W", "spammer-hammer:SHARE[,ACCURACY]", or draws [S], [S, K], [S, K, K].',
        free=True,
    )
    annotator_weights: Any = setting(None, "Weights of the draws given as `annotator_prior`; equal by default.", free=True)
    ceiling: float = setting(
        0.9,
        "Largest probability that the network may give a class before the votes count (the papers' clipping c); 1 for no "
        "bound. The lower, the less a network that is wrong can do.",
        above=0,
    )
    rounds: int = setting(3, "Rounds of inference before every epoch; they continue those before.", low=1, whole=True)
    init: Any = setting(
        "majority",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares, without a warm-up), or a '
        "posterior [N, K].",
        free=True,
    )

    def _aggregator(self) -> IterativeAggregator:
        """The label-only method with the same annotators."""
        raise NotImplementedError

    def _annotators(self, votes: Annotations) -> AnnotatorModel:
        """The model before any vote."""
        model: AnnotatorModel = self._aggregator()._annotators(votes, None)  # type: ignore[attr-defined]
        return model

    def _head(self, votes: Annotations, start: Start) -> AlternatingHead:
        if not 1 / votes.n_classes <= self.ceiling <= 1:
            raise SettingError(
                f"ceiling must be between 1 / K = {1 / votes.n_classes:.3g}, at which the network counts for nothing, and 1; "
                f"got {self.ceiling!r}"
            )
        return AlternatingHead(votes, self._annotators(votes), start.posterior, ceiling=self.ceiling, rounds=self.rounds)

    def _before_votes(self, log_prob: Floats) -> Floats:
        return below_ceiling(log_prob, self.ceiling)

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """Inference to its end under the finished network."""
        log_prior = self._prior(votes, log_prob)
        head = heads[0]
        assert isinstance(head, AlternatingHead)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CostWarning)
            annotators = self._annotators(votes)
        return settled(votes, annotators, log_prior, head.target.double().cpu().numpy()), log_prior


def settled(votes: Annotations, annotators: AnnotatorModel, log_prior: Floats, start: Floats | None = None) -> AnnotatorModel:
    """The annotators after inference to its end, with what the network says as a fixed prior of the labels.

    Labels start from `start`, [N, K], or from what these annotators say.
    """
    if start is None:
        start = np.zeros_like(log_prior)
        annotators.infer(votes, log_prior, votes.known_codes, start)
    prior = RowPrior(log_prior)
    fit = alternate(votes, prior, annotators, start=start, known=votes.known_codes, max_iter=_LAST_ROUNDS, tol=_LAST_TOL)
    inferred: AnnotatorModel = fit.annotators
    return inferred
