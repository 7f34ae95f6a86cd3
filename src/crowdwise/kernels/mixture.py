"""Torch kernels over the votes of a batch: gather a row per vote, reduce, and scatter the gradient back.

Plain autograd would do; these hold fewer arrays of one row per vote and take exponentials per item
and per table row instead of per vote, which is where the time of a crowd epoch goes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["log_mixture", "own_matrix_product"]

# The smallest probability of a vote: below it float32 products of two probabilities become denormal.
_FLOOR = 1e-30
# Padded rows per vote up to which laying votes out by annotator is the faster way.
_PADDING = 8


class _LogMixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_f: Tensor, log_table: Tensor, position: Tensor, entry: Tensor) -> Tensor:
        """Return log sum_k f_k table_k of every vote."""
        joint = log_f.exp().index_select(0, position).mul_(log_table.exp().index_select(0, entry))
        total = joint.sum(1).clamp_(min=_FLOOR)
        ctx.save_for_backward(joint, total, position, entry)
        ctx.shapes = (log_f.shape, log_table.shape)
        return total.log()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
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


def own_matrix_product(values: Tensor, matrices: Tensor, owner: Tensor) -> Tensor:
    """``matrices[owner[e]] @ values[e]`` of every vote, [E, L].

    Votes are laid out by annotator and padded to the busiest one, so that each matrix is read once per batch
    instead of once per vote; where a few annotators cast most votes, padding would cost more and rows are gathered.

    Parameters
    ----------
    values : [E, K]
    matrices : [A, L, K]
    owner : [E]
        Annotator of every vote.
    """
    count = torch.bincount(owner, minlength=len(matrices))
    width = int(count.max()) if len(owner) else 0
    if len(matrices) * width >= _PADDING * len(owner):
        return torch.bmm(matrices.index_select(0, owner), values[:, :, None])[:, :, 0]
    order = owner.argsort(stable=True)
    sorted_owner = owner[order]
    slot = torch.arange(len(owner), device=owner.device) - (count.cumsum(0) - count)[sorted_owner]
    place = torch.empty_like(order)
    place[order] = sorted_owner * width + slot
    padded = values.new_zeros(len(matrices) * width, values.shape[1]).index_copy(0, place, values)
    answers = torch.bmm(padded.view(len(matrices), width, -1), matrices.transpose(1, 2))
    return answers.reshape(len(matrices) * width, -1).index_select(0, place)
