"""Planar flows with leaky ReLU: invertible maps that bend a Gaussian, with their log-determinants.

    f(a) = a + push h(t),   t = w . a + b,   h(t) = t above zero, 0.01 t below
    log |det f'| = log room above zero, log(1 + 0.01 (room - 1)) below,   room = 1 + w . push

Invertible if and only if room > 0, which holds by construction: the part of `push` along w is replaced so that
room = softplus(w . push + c), with a floor; c makes it one for push = 0, where the flow is the identity. |w| = 1 without
loss, because h is homogeneous: the length of w goes into that of `push`. The inverse is in closed form, since t and
w . f(a) + b have the same sign.

A sample says on which side of a bend it lies, not how close to it: the derivative of its log-determinant by what moves
the bend is zero, that of the mean over samples is not. `smooth` adds what is missing to the gradient (and nothing to the
value), as if t were Gaussian with the mean and the spread that the samples have. It is exact for the first layer of a
Gaussian.

Symbols
-------
weight_lkm, push_lkm : [L, K, M]   w and push of every layer, for K separate flows
bias_lk : [L, K]
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

__all__ = ["PlanarFlows"]

_SLOPE = 0.01
# softplus of this is one.
_AT_REST = math.log(math.e - 1)
# The smallest factor by which a flow may squeeze.
_LEAST_ROOM = 1e-3


class PlanarFlows(nn.Module):
    """K flows of L layers on M dimensions each, the identity until trained."""

    def __init__(self, n_layers: int, n_flows: int, width: int, *, smooth: bool = True) -> None:
        super().__init__()
        self.smooth = smooth
        self.weight_lkm = nn.Parameter(torch.randn(n_layers, n_flows, width) / math.sqrt(width))
        self.push_lkm = nn.Parameter(torch.zeros(n_layers, n_flows, width))
        self.bias_lk = nn.Parameter(torch.zeros(n_layers, n_flows))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Map points [S, K, M]; return them and the log-determinants, [S, K]."""
        log_det = points.new_zeros(points.shape[:2])
        for weight, push, room, bias in self._layers():
            t = (points * weight).sum(2) + bias
            above, below = room.log(), (1 + _SLOPE * (room - 1)).log()
            log_det = log_det + torch.where(t > 0, above, below)
            if self.smooth and len(t) > 1:
                share = torch.special.ndtr(t.mean(0) / t.std(0).clamp(min=1e-12))
                log_det = log_det + (share - share.detach()) * (above - below).detach()
            points = points + push * _bent(t)[:, :, None]
        return points, log_det

    def inverse(self, points: Tensor) -> Tensor:
        """What `forward` maps to these points, [S, K, M]."""
        for weight, push, room, bias in reversed(self._layers()):
            s = (points * weight).sum(2) + bias
            t = torch.where(s > 0, s / room, s / (1 + _SLOPE * (room - 1)))
            points = points - push * _bent(t)[:, :, None]
        return points

    def _layers(self) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Unit w [K, M], push with its part along w replaced [K, M], room [K] and b [K] of every layer."""
        # By the largest entry first: squares of small numbers are zero. What is too small to divide by counts as zero.
        least = torch.finfo(self.weight_lkm.dtype).tiny
        peak = self.weight_lkm.detach().abs().amax(2, keepdim=True)
        weight = nn.functional.normalize(self.weight_lkm / peak.clamp(min=least), dim=2) * (peak >= least)
        along = (weight * self.push_lkm).sum(2)
        room = softplus(along + _AT_REST) * (1 - _LEAST_ROOM) + _LEAST_ROOM
        push = self.push_lkm + (room - 1 - along)[:, :, None] * weight
        return list(zip(weight, push, room, self.bias_lk, strict=True))


def _bent(t: Tensor) -> Tensor:
    return nn.functional.leaky_relu(t, _SLOPE)
