"""The crowd layer: a small layer per annotator on top of the network's output (Rodrigues and Pereira 2018).

    p(vote of a | x) = softmax(layer_a(f(x))),    f(x) = softmax(network(x))

    registry name      kind
    crowd-layer-mw     "matrix"       layer_a(f) = W_a f
    crowd-layer-vw     "vector"       layer_a(f) = w_a * f
    crowd-layer-vwb    "vector-bias"  layer_a(f) = w_a * f + b_a

Prediction drops the layer. Only the votes that exist are evaluated; the published code evaluates every
annotator on every item. See `crowdwise.parts.heads.crowd_layer` for the three kinds of layer.

References
----------
Rodrigues and Pereira (2018), Deep learning from crowds, AAAI.
"""

from __future__ import annotations

from dataclasses import dataclass

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.crowd_layer import CrowdLayerHead

__all__ = ["CrowdLayer"]

_NAMES = {"matrix": "crowd-layer-mw", "vector": "crowd-layer-vw", "vector-bias": "crowd-layer-vwb"}


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdLayer(NeuralClassifier):
    """Network x a matrix, or a weight (and a bias) per class, of every annotator."""

    kind: str = setting(
        "matrix",
        "Layer of an annotator: matrix; vector, a weight per class; vector-bias, a weight and a bias per class.",
        choices=tuple(_NAMES),
    )

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in the registry, which the kind of layer decides."""
        return _NAMES[self.kind]

    def _head(self, votes: Annotations, start: Start) -> CrowdLayerHead:
        given = None if start.identity else start.confusion
        return CrowdLayerHead(self.kind, votes.n_annotators, votes.n_classes, start.dtype, given)
