"""Torch kernels over the votes of a batch: gather a row per vote, reduce, and scatter the gradient back.

Plain autograd would do; these hold fewer arrays of one row per vote and take exponentials per item
and per table row instead of per vote, which is where the time of a crowd epoch goes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

__all__ = ["log_mixture", "own_log_softmax"]

# The smallest probability of a vote: below it float32 products of two probabilities become denormal.
_FLOOR = 1e-30
# Votes of one annotator that share a copy of their matrix: more would be padding for most, fewer would copy more matrices.
_BLOCK = 12
# Votes of a batch from which counting them in a compiled loop pays for loading it.
_COMPILED_FROM = 1_000


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


class _OwnLogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, f: Tensor, matrices: Tensor, position: Tensor, entry: Tensor) -> Tensor:
        """Return log softmax(f M)[label] of every vote."""
        n_labels = matrices.shape[2]
        label = (entry % n_labels)[:, None]
        place, owner = _blocks(torch.div(entry, n_labels, rounding_mode="floor"), len(matrices))
        laid = f.new_zeros(len(owner) * _BLOCK, f.shape[1]).index_copy_(0, place, f.index_select(0, position))
        laid = laid.view(len(owner), _BLOCK, f.shape[1])
        own = matrices.index_select(0, owner)
        scores = torch.bmm(laid, own).view(len(owner) * _BLOCK, n_labels).index_select(0, place)
        scores -= scores.amax(1, keepdim=True)
        voted = scores.gather(1, label)
        total = scores.exp_().sum(1, keepdim=True)
        ctx.save_for_backward(laid, own, scores.div_(total), position, label, place, owner)
        ctx.shapes = (f.shape, matrices.shape)
        return (voted - total.log_())[:, 0]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The gradient by the scores is what was voted less what was expected."""
        laid, own, expected, position, label, place, owner = ctx.saved_tensors
        each = (expected * -grad[:, None]).scatter_add_(1, label, grad[:, None])
        n_blocks, n_classes, n_labels = own.shape
        each = each.new_zeros(n_blocks * _BLOCK, n_labels).index_copy_(0, place, each).view(n_blocks, _BLOCK, n_labels)
        by_row = torch.bmm(each, own.transpose(1, 2)).view(n_blocks * _BLOCK, n_classes).index_select(0, place)
        by_block = torch.bmm(laid.transpose(1, 2), each)
        items, matrices = ctx.shapes
        return (
            by_row.new_zeros(items).index_add_(0, position, by_row),
            by_block.new_zeros(matrices).index_add_(0, owner, by_block),
            None,
            None,
        )


def own_log_softmax(f: Tensor, matrices: Tensor, position: Tensor, entry: Tensor) -> Tensor:
    """``log_softmax(f[position] @ matrices[annotator])[label]`` of every vote, [E].

    Votes are laid out in blocks of one annotator each, so that a matrix is read once per block instead of once per
    vote, however unevenly the votes are spread over the annotators.

    Parameters
    ----------
    f : [B, K]
        Class probabilities of the items.
    matrices : [A, K, L]
    position, entry : [E]
        The item of every vote, and ``annotator * L + label``.
    """
    result: Tensor = _OwnLogSoftmax.apply(f, matrices, position, entry)  # type: ignore[no-untyped-call]
    return result


def _blocks(owner: Tensor, n_owners: int) -> tuple[Tensor, Tensor]:
    """Place of every vote among the rows of all blocks [E], and the owner of every block."""
    count = torch.bincount(owner, minlength=n_owners)
    blocks = torch.div(count + (_BLOCK - 1), _BLOCK, rounding_mode="floor")
    first = (blocks.cumsum(0) - blocks) * _BLOCK
    if owner.device.type == "cpu" and len(owner) >= _COMPILED_FROM:
        from crowdwise.kernels.loops import ranks

        place = torch.from_numpy(ranks(owner.numpy(), first.numpy()))
    else:
        order = owner.argsort(stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(owner), device=owner.device)
        place = rank + (first - (count.cumsum(0) - count))[owner]
    return place, torch.arange(n_owners, device=owner.device).repeat_interleave(blocks)
