"""MBEM: a network judges the annotators, and is trained again on what their votes then say (Khetan et al. 2018).

    1   train f on the labels of the start, sum_k q_nk log f(x_n)_k
    2   t_n = argmax f(x_n);   R_a by counting votes under t;   q_nk proportional to prod_e R_{a_e}[k, y_e]
    3   train f from scratch on q;   `rounds` trainings in all

Notes
-----
Made for one vote per item, where nothing but the network can tell good annotators from bad ones. Unlike `aggnet`, counts are
under hard predictions and q does not see f(x_n): a network that has learned wrong labels is not taught them again.
The paper's q also has the class shares of t, the authors' code has not, and neither has this: see
`crowdwise.parts.heads.bootstrap`. `smoothing` takes the place of their 1e-10 for a count of zero. Their start is the share of
votes (``init="identity"``). What their code trains twice in each round, the second time on the first's predictions, which the
paper does not mention, is trained once here, with early stopping.

References
----------
Khetan, Lipton and Anandkumar (2018), Learning from noisy singly-labeled data, ICLR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Progress
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.numerics import harden
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import crowd_confusion
from crowdwise.parts.annotators.model import AnnotatorModel, Confusion
from crowdwise.parts.heads.bootstrap import BootstrapHead, judged_by
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.targets import SoftTargets

__all__ = ["MBEM"]


@dataclass(eq=False, repr=False, kw_only=True)
class MBEM(NeuralClassifier):
    """Network x confusion matrices counted under its predictions, in a few rounds."""

    rounds: int = setting(
        2, "Trainings from scratch, each on labels by the predictions of the last; 2 as published.", low=1, whole=True
    )
    smoothing: float = setting(1.0, "Pseudo-votes per class in every confusion row, spread as the crowd votes.", low=0)

    name: ClassVar[str] = "mbem"
    # The training that is under way: each has checkpoints of its own.
    _round = 0

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        predicted = None
        try:
            for number in range(self.rounds):
                self._round = number
                done = self._train(features, votes, progress, table=predicted)
                predicted = harden(done.model.log_prob(features))
        finally:
            self._round = 0
        return done

    def _head(self, votes: Annotations, start: Start) -> SoftTargets:
        if start.table is None:
            return SoftTargets(start.posterior, start.confusion)
        return BootstrapHead(votes, self._annotators(votes, start.table), start.table, start.dtype)

    def _annotators(self, votes: Annotations, predicted: Floats) -> Confusion:
        """The annotators before any data: pseudo-votes as the crowd as one errs under the predictions."""
        crowd_lk = crowd_confusion(votes, predicted).T
        return Confusion.start(self.smoothing * votes.n_classes * crowd_lk[None], votes.n_annotators)

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        predicted = harden(log_prob)
        return judged_by(predicted, votes, self._annotators(votes, predicted)), log_prob

    def _warmup(self, start: Start, n_items: int) -> int:
        """None: the first training is on the labels of the start as it is."""
        return 0

    def _stage(self, number: int) -> str:
        return super()._stage(number) + (f".round{self._round}" if self._round else "")
