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
# Votes of a batch from which a compiled loop pays for loading it.
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
    """Compiled loops over the votes, and torch for exponentials, which it takes many at a time.

    In one thread: those of torch still wait for work on the other cores, and would be in the way of more.
    """

    @staticmethod
    def forward(ctx: Any, f: Tensor, matrices: Tensor, position: Tensor, entry: Tensor) -> Tensor:
        """Return log softmax(f M)[label] of every vote."""
        from crowdwise.kernels.loops import add_rows, voted_scores

        scores, voted, total = f.new_empty(len(entry), matrices.shape[2]), f.new_empty(len(entry)), f.new_empty(len(entry))
        arrays = (array.detach().contiguous().numpy() for array in (f, matrices, position, entry, scores, voted))
        voted_scores(*arrays)
        add_rows(scores.exp_().numpy(), total.numpy())
        ctx.save_for_backward(f, matrices, position, entry, scores, total)
        return voted - total.log()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """The gradient by the scores is what was voted less what was expected."""
        from crowdwise.kernels.loops import voted_slopes

        by_row, by_matrix = voted_slopes(*(array.detach().contiguous().numpy() for array in (*ctx.saved_tensors, grad)))
        return torch.from_numpy(by_row), torch.from_numpy(by_matrix), None, None


def own_log_softmax(f: Tensor, matrices: Tensor, position: Tensor, entry: Tensor) -> Tensor:
    """``log_softmax(f[position] @ matrices[annotator])[label]`` of every vote, [E].

    Parameters
    ----------
    f : [B, K]
        Class probabilities of the items.
    matrices : [A, K, L]
    position, entry : [E]
        The item of every vote, and ``annotator * L + label``.
    """
    if f.device.type == "cpu" and len(entry) >= _COMPILED_FROM:
        result: Tensor = _OwnLogSoftmax.apply(f, matrices, position, entry)  # type: ignore[no-untyped-call]
        return result
    n_labels = matrices.shape[2]
    own = matrices.index_select(0, torch.div(entry, n_labels, rounding_mode="floor"))
    scores = torch.bmm(f.index_select(0, position)[:, None, :], own)[:, 0]
    return -torch.nn.functional.cross_entropy(scores, entry % n_labels, reduction="none")
