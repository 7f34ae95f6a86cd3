"""The crowd layer of Rodrigues and Pereira (2018): a linear map per annotator on the class probabilities.

    p(vote of a | x) = softmax(layer_a(f(x)))
    "matrix" : W_a f        "vector" : w_a * f        "vector-bias" : w_a * f + b_a

The layer's outputs are logits: W_a is no stochastic matrix and its scale is free. The confusion matrix
that it implies is its answer to a certain label, R_a[k, :] = softmax(layer_a(e_k)). Only the votes that
exist are evaluated, O(E K) for the vectors and O(E K^2) for the matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from crowdwise.kernels.mixture import own_log_softmax
from crowdwise.parts.heads.batch import Batch
from crowdwise.parts.heads.head import Head

__all__ = ["CrowdLayerHead"]

_FLOOR = 1e-4


class CrowdLayerHead(Head):
    """One layer per annotator, by kind.

    Parameters
    ----------
    kind : "matrix", "vector" or "vector-bias"
        Form of the layer.
    start : [A, K, L] or None
        Confusion matrices that the layer shall imply at the start; None starts as the paper does, with identity or ones.
    """

    def __init__(self, kind: str, n_annotators: int, n_classes: int, dtype: torch.dtype, start: Tensor | None = None) -> None:
        super().__init__()
        self.kind = kind
        if kind == "matrix":
            eye = torch.eye(n_classes, dtype=dtype).expand(n_annotators, n_classes, n_classes)
            # [A, K, L], the paper's W transposed: the answer to a certain label k is softmax(weight[a, k]).
            self.weight = nn.Parameter(eye.clone() if start is None else start.clamp(min=_FLOOR).log().clone())
        else:
            self.weight = nn.Parameter(_vector_start(n_annotators, n_classes, dtype, start))
        self.bias = nn.Parameter(torch.zeros(n_annotators, n_classes, dtype=dtype)) if kind == "vector-bias" else None

    def vote_log_prob(self, logits: Tensor, batch: Batch) -> Tensor:
        """Log-softmax of the annotator's layer at the vote, [E_b]."""
        f = logits.softmax(1)
        if self.kind == "matrix":
            return own_log_softmax(f, self.weight, batch.position, batch.entry)
        annotator = batch.annotator
        scores = self.weight.index_select(0, annotator) * f.index_select(0, batch.position)
        if self.bias is not None:
            scores = scores + self.bias.index_select(0, annotator)
        return -torch.nn.functional.cross_entropy(scores, batch.label, reduction="none")

    def confusion(self) -> Tensor:
        """What a certain label is answered with, [A, K, L]."""
        if self.kind == "matrix":
            return self.weight.softmax(2)
        scores = torch.diag_embed(self.weight)
        if self.bias is not None:
            scores = scores + self.bias[:, None, :]
        return scores.softmax(2)


def _vector_start(n_annotators: int, n_classes: int, dtype: torch.dtype, start: Tensor | None) -> Tensor:
    """Ones, or the weights at which a certain label k is answered rightly as often as `start` says."""
    if start is None:
        return torch.ones(n_annotators, n_classes, dtype=dtype)
    right = start.diagonal(dim1=1, dim2=2).clamp(_FLOOR, 1 - _FLOOR)
    # e^w / (e^w + K - 1) = right
    return (right.log() - (-right).log1p() + torch.log(torch.tensor(max(n_classes - 1, 1), dtype=dtype))).clone()
