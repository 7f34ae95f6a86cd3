"""Votes that several confusion matrices per annotator explain, mixed by a gate; torch, with compiled loops on processors."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crowdwise.kernels.mixture import log_mixture

__all__ = ["gated_surprise"]

# Votes of a batch from which a compiled loop pays for loading it.
_COMPILED_FROM = 1_000


class _GatedSurprise(torch.autograd.Function):
    """Compiled loops over the votes, and torch for exponentials, which it takes many at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        log_f: Tensor,
        logits: Tensor,
        item_gate: Tensor,
        own_gate: Tensor,
        position: Tensor,
        entry: Tensor,
        strength: float,
    ) -> Tensor:
        """Return strength x trace - log p of every vote."""
        from crowdwise.kernels.gated_loops import gated_votes, normalise_labels

        f, table, trace = log_f.exp(), logits.exp().contiguous(), torch.empty_like(own_gate)
        if not normalise_labels(table.numpy(), trace.numpy()):
            table = (logits - logits.amax(1, keepdim=True)).exp_().contiguous()
            normalise_labels(table.numpy(), trace.numpy())
        gate, explained, voted, traced = gated_votes(*_arrays(f, table, trace, item_gate, own_gate, position, entry))
        ctx.save_for_backward(f, table, trace, position, entry)
        ctx.per_vote, ctx.strength = (gate, explained, voted), strength
        return torch.from_numpy(traced).mul_(strength).sub_(torch.from_numpy(voted).log())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gate is a softmax, and so is every column of the matrices: a slope counts by its distance from the mean."""
        from crowdwise.kernels.gated_loops import gated_slopes

        f, table, trace, position, entry, weight = _arrays(*ctx.saved_tensors, grad)
        gate, explained, voted = ctx.per_vote
        slopes = gated_slopes(f, table, trace, position, entry, gate, explained, voted, ctx.strength, weight)
        return (*(torch.from_numpy(slope) for slope in slopes), None, None, None)


def gated_surprise(
    log_f: Tensor, logits: Tensor, item_gate: Tensor, own_gate: Tensor, position: Tensor, entry: Tensor, strength: float = 0.0
) -> Tensor:
    """Minus the log-probability of every vote plus `strength` times the trace of the vote's matrix, [E].

    The matrix is ``sum_m gate_m softmax(logits)[annotator, :, m]`` with ``gate = softmax(item_gate + own_gate)``.

    Parameters
    ----------
    log_f : [B, K]
        Log class probabilities of the items.
    logits : [A, L, M, K]
        Confusion matrices as logits over the labels L; as many labels as classes.
    item_gate, own_gate : [B, M] and [A, M]
        The two parts of the gate's logits.
    position, entry : [E]
        The item of every vote, and ``annotator * L + label``.
    """
    if log_f.device.type == "cpu" and len(entry) >= _COMPILED_FROM:
        result: Tensor = _GatedSurprise.apply(log_f, logits, item_gate, own_gate, position, entry, strength)  # type: ignore[no-untyped-call]
        return result
    annotator = torch.div(entry, logits.shape[1], rounding_mode="floor")
    # With u and v the softmaxes of both parts, the gate is u_m v_am / sum_m u_m v_am: mixtures over rows gathered per vote.
    log_u, log_v, log_r = item_gate.log_softmax(1), own_gate.log_softmax(1), logits.log_softmax(1)
    log_mass = log_mixture(log_u, log_v, position, annotator)
    log_uf = (log_u[:, :, None] + log_f[:, None, :]).flatten(1)
    table = (log_r + log_v[:, None, :, None]).flatten(2).flatten(0, 1)
    surprise = log_mass - log_mixture(log_uf, table, position, entry)
    if not strength:
        return surprise
    log_trace = log_r.diagonal(dim1=1, dim2=3).logsumexp(2)
    return surprise + strength * (log_mixture(log_u, log_v + log_trace, position, annotator) - log_mass).exp()


def _arrays(*tensors: Tensor) -> list[Any]:
    return [tensor.detach().contiguous().numpy() for tensor in tensors]
