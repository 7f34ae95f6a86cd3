"""TraceReg: coupled cross-entropy plus the trace of the confusion matrices (Tanno et al. 2019).

    min  -(1/E) sum_e log sum_k f(x_n)_k R_a[k, y_e]  +  strength x sum_a trace(R_a)

The trace is *minimised*: if the average matrix is diagonally dominant and the votes are fitted exactly, the
noisiest matrices that explain them are the true ones. Where the fit is not exact the penalty biases the
matrices towards noise, hence the small default, and a start without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.settings import setting
from crowdwise.methods.classify.neural import NeuralClassifier, Start
from crowdwise.parts.heads.confusion import ConfusionHead
from crowdwise.parts.heads.penalties import Trace

__all__ = ["TraceReg"]


@dataclass(eq=False, repr=False, kw_only=True)
class TraceReg(NeuralClassifier):
    """Network x confusion matrices x smallest trace."""

    strength: float = setting(1e-3, "Weight of the trace, summed over annotators.", low=0)
    penalty_from: int = setting(10, "Epochs before the penalty begins.", low=0, whole=True)

    name: ClassVar[str] = "trace-reg"

    def _head(self, votes: Annotations, start: Start) -> ConfusionHead:
        return ConfusionHead(start.confusion, [Trace(self.strength, self.penalty_from)])
