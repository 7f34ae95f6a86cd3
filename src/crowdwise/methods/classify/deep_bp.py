"""deepBP: a network as the prior of the labels, annotators summed out by belief propagation (Kim et al. 2022).

Model      p(votes, z | x) = prod_n f(x_n)[z_n] prod_a g_a(z of its items),
           g_a = integral of p(R) prod_{votes of a} R[z_n, y] dR
Inference  before every epoch, rounds of messages between items and annotators with f clipped to the ceiling c
           as the items' prior; messages continue those of the epoch before
Learning   an epoch of cross-entropy with the beliefs, on f as it is

Notes
-----
`belief-propagation` is the same without features, and says how the integral is done: exactly for one-coin annotators and
two classes, else by draws shared by all annotators and rounds. The published code restarts up to 100 rounds of 400 fresh
draws at every step of the network and clips f in the loss too. The prior wants R > W ("beta:2,1"): where both are equal
nothing separates a class from its opposite. Bethe's free energy is no bound, so training is judged by held-out votes like
every other. Cost of a round: O(E S), S nodes (4 for four votes per annotator), O(E K S) for full confusion rows.

References
----------
Kim, Cho, Kim and Ok (2022), Robust deep learning from crowds with belief propagation, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.variational import VariationalClassifier
from crowdwise.methods.labels.belief_propagation import BeliefPropagation
from crowdwise.parts.annotators.messages import BeliefMessages
from crowdwise.parts.annotators.model import AnnotatorModel
from crowdwise.parts.heads.head import Head
from crowdwise.parts.priors.abilities import INTEGRALS

__all__ = ["DeepBP"]


@dataclass(eq=False, repr=False, kw_only=True)
class DeepBP(VariationalClassifier):
    """Network x belief propagation over annotators with any prior."""

    integral: str = setting(
        "auto", "How the prior is integrated: exactly where that is cheap, else by draws.", choices=INTEGRALS
    )
    samples: int | None = setting(
        None, "Draws; by default 256 of a Sobol set (or the next power of two), 400 random ones.", free=True
    )
    damping: float = setting(0.0, "Share of the last round's messages kept in the next; below 1.", low=0)

    name: ClassVar[str] = "deep-bp"

    def _annotators(self, votes: Annotations) -> BeliefMessages:
        # Early stopping and the fit to all items that follows it.
        return self._aggregator()._annotators(votes, None, 2 * self.rounds * self._most_epochs(votes.n_items) * self.members)

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        annotators, log_prior = super()._inferred(votes, log_prob, heads)
        assert isinstance(annotators, BeliefMessages)
        self._aggregator()._warn_if_coarse(votes, annotators)
        return annotators, log_prior

    def _aggregator(self) -> BeliefPropagation:
        return BeliefPropagation(
            family=self.family,
            annotator_prior=self.annotator_prior,
            annotator_weights=self.annotator_weights,
            integral=self.integral,
            samples=self.samples,
            damping=self.damping,
            random_state=self.random_state,
        )
