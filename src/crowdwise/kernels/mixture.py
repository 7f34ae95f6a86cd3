"""Torch kernels over the votes of a batch: gather a row per vote, reduce, and scatter the gradient back.

Plain autograd would do; these hold fewer arrays of one row per vote and take exponentials per item
and per table row instead of per vote, which is where the time of a crowd epoch goes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["log_mixture"]

# The smallest probability of a vote: below it float32 products of two probabilities become denormal.
_FLOOR = 1e-30


class _LogMixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_f: Tensor, log_table: Tensor, position: Tensor, entry: Tensor) -> Tensor:  # type: ignore[override]
        """Return log sum_k f_k table_k of every vote."""
        joint = log_f.exp().index_select(0, position).mul_(log_table.exp().index_select(0, entry))
        total = joint.sum(1).clamp_(min=_FLOOR)
        ctx.save_for_backward(joint, total, position, entry)
        ctx.shapes = (log_f.shape, log_table.shape)
        return total.log()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:  # type: ignore[override]
        """The gradient by both logs is the responsibility of each class."""
        joint, total, position, entry = ctx.saved_tensors
        share = joint * (grad / total)[:, None]
        items, rows = ctx.shapes
        return (
            share.new_zeros(items).index_add_(0, position, share),
            share.new_zeros(rows).index_add_(0, entry, share),
            None,
            None,
        )


def log_mixture(log_f: Tensor, log_table: Tensor, position: Tensor, entry: Tensor) -> Tensor:
    """log sum_k exp(log_f[position, k] + log_table[entry, k]) of every vote, [E].

    Parameters
    ----------
    log_f : [B, K]
        Log class probabilities of the items.
    log_table : [R, K]
        Log probability of an observation (annotator and label) for each true class.
    position, entry : [E]
        The item and the table row of every vote.
    """
    result: Tensor = _LogMixture.apply(log_f, log_table, position, entry)  # type: ignore[no-untyped-call]
    return result
