"""AggNet: a network and confusion matrices by EM (Albarqouni et al. 2016).

    E: q_n proportional to f(x_n) prod_e R_{a_e}[., y_e]       before every epoch
    M: R_a from expected counts plus pseudo-votes; one epoch of the network on q

The published code leaves q unnormalised (so items weigh by their evidence), counts R from the network's
predictions and omits the prior from its normaliser; here each is as the derivation says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.alternating import AlternatingHead
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import attended_rows
from crowdwise.parts.annotators.model import Confusion

__all__ = ["AggNet"]


@dataclass(eq=False, repr=False, kw_only=True)
class AggNet(NeuralClassifier):
    """Network x confusion matrices by EM."""

    smoothing: float = setting(
        1.0, "Pseudo-votes per class in every confusion row, spread as the crowd votes when it attends as often.", low=0
    )

    name: ClassVar[str] = "aggnet"

    def _head(self, votes: Annotations, start: Start) -> AlternatingHead:
        rows_alk = attended_rows(votes, start.posterior.double().numpy())
        model = Confusion.start(self.smoothing * votes.n_classes * rows_alk, votes.n_annotators)
        return AlternatingHead(votes, model, start.posterior)
