"""The crowd layer: a small layer per annotator on top of the network's output (Rodrigues and Pereira 2018).

    p(vote of a | x) = softmax(layer_a(f(x))),    f(x) = softmax(network(x))

Prediction drops the layer. Only the votes that exist are evaluated; the published code evaluates every
annotator on every item. See `crowdwise.parts.heads.crowd_layer` for the three kinds of layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.data.annotations import Annotations
from crowdwise.methods.classify.neural import NeuralClassifier, Start
from crowdwise.parts.heads.crowd_layer import CrowdLayerHead

__all__ = ["CrowdLayerMW", "CrowdLayerVW", "CrowdLayerVWB"]


@dataclass(eq=False, repr=False, kw_only=True)
class _CrowdLayer(NeuralClassifier):
    kind: ClassVar[str]

    def _head(self, votes: Annotations, start: Start) -> CrowdLayerHead:
        given = None if start.identity else start.confusion
        return CrowdLayerHead(self.kind, votes.n_annotators, votes.n_classes, start.dtype, given)


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdLayerMW(_CrowdLayer):
    """Network x a matrix per annotator."""

    name: ClassVar[str] = "crowd-layer-mw"
    kind: ClassVar[str] = "mw"


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdLayerVW(_CrowdLayer):
    """Network x a weight per annotator and class."""

    name: ClassVar[str] = "crowd-layer-vw"
    kind: ClassVar[str] = "vw"


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdLayerVWB(_CrowdLayer):
    """Network x a weight and a bias per annotator and class."""

    name: ClassVar[str] = "crowd-layer-vwb"
    kind: ClassVar[str] = "vwb"
