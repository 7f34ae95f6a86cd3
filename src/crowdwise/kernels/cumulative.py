"""The cumulative logit of many annotators at once: probabilities of ordered labels, and Newton steps on their parameters.

P(label <= j | position x) = sigmoid(eta_j),  eta_j = offset_j + slope (threshold_j - x)

so that with F = sigmoid and D_l = eta_l - eta_(l-1), which does not depend on x,

    P(label = l | x) = F(eta_l) - F(eta_(l-1)) = F(eta_l) F(-eta_(l-1)) (1 - exp(-D_l))

(the first label lacks the second factor, the last label the first one; both lack the third). The logarithm is a sum of
concave terms of the parameters, without any cancellation in the tails.

Symbols
-------
offset : [A, J]       of each of the J = L - 1 thresholds, in units of the annotator's noise
slope : [A]           one over the scale of the annotator's noise
threshold : [J]       where the classes meet
position : [S]        of the latent states
counts : [A, L, S]    how often an annotator gave a label to an item in a state
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.kernels.numerics import log_sigmoid
from crowdwise.kernels.types import Floats

__all__ = ["Ridge", "climb", "log_table"]


_SMALLEST_GAP = 1e-8
_HALVINGS = 8


@dataclass(frozen=True)
class Ridge:
    """Gaussian priors: offsets around zero, slopes around `slope`."""

    offset_sd: float
    slope: float
    slope_sd: float

    def log_density(self, offset: Floats, slope: Floats) -> Floats:
        """Up to constants, [A]."""
        u, g = offset / self.offset_sd, (slope - self.slope) / self.slope_sd
        return np.asarray(-0.5 * (u * u).sum(axis=1) - 0.5 * g * g)


def log_table(offset: Floats, slope: Floats, threshold: Floats, position: Floats) -> Floats:
    """log P(label l | position s) of every annotator, [A, L, S]."""
    n_annotators, n_labels = offset.shape[0], offset.shape[1] + 1
    eta = offset[:, :, None] + slope[:, None, None] * (threshold[:, None] - position)
    table = np.zeros((n_annotators, n_labels, len(position)))
    table[:, :-1] += log_sigmoid(eta)
    table[:, 1:] += log_sigmoid(-eta)
    if n_labels > 2:
        table[:, 1:-1] += np.log(-np.expm1(-_gaps(offset, slope, threshold)))[:, :, None]
    return table


def climb(
    counts: Floats, offset: Floats, slope: Floats, threshold: Floats, position: Floats, ridge: Ridge, steps: int
) -> tuple[Floats, Floats]:
    """Newton steps up sum(counts * log P) + log prior, shortened where they would not climb; offsets and slopes."""
    if offset.shape[1] == 0:
        return offset, slope
    value = _objective(counts, offset, slope, threshold, position, ridge)
    for _ in range(steps):
        step = _newton(counts, offset, slope, threshold, position, ridge)
        size, worse = np.ones(len(slope)), np.zeros(len(slope), bool)
        # Near the top, rounding decides whether a step climbs; such a step is harmless.
        enough = value - 1e-12 * (1 + np.abs(value))
        for _ in range(_HALVINGS):
            moved = (offset + size[:, None] * step[:, :-1], slope + size * step[:, -1])
            reached = _objective(counts, *moved, threshold, position, ridge)
            worse = np.less(reached, enough) | np.isnan(reached)
            if not worse.any():
                break
            size[worse] *= 0.25
        size[worse] = 0.0
        offset, slope = offset + size[:, None] * step[:, :-1], slope + size * step[:, -1]
        value = np.where(worse, value, reached)
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    return offset, slope


def _gaps(offset: Floats, slope: Floats, threshold: Floats) -> Floats:
    """D of the inner labels, [A, L - 2]."""
    return np.asarray(np.diff(offset, axis=1) + slope[:, None] * np.diff(threshold))


def _objective(counts: Floats, offset: Floats, slope: Floats, threshold: Floats, position: Floats, ridge: Ridge) -> Floats:
    """[A]; minus infinity where thresholds would cross."""
    crossed = np.asarray((_gaps(offset, slope, threshold) < _SMALLEST_GAP).any(axis=1))
    if crossed.any():
        # Any value that can be computed will do.
        offset, slope = np.where(crossed[:, None], 0.0, offset), np.where(crossed, 1.0, slope)
    value = np.einsum("als,als->a", counts, log_table(offset, slope, threshold, position))
    return np.where(crossed, -np.inf, value + ridge.log_density(offset, slope))


def _newton(counts: Floats, offset: Floats, slope: Floats, threshold: Floats, position: Floats, ridge: Ridge) -> Floats:
    """The full step of every annotator: offsets, then the slope, [A, J + 1]."""
    n_annotators, n_thresholds = offset.shape
    away = threshold[:, None] - position
    # Each threshold is a logistic regression between the labels on its two sides.
    below = 1 / (1 + np.exp(-(offset[:, :, None] + slope[:, None, None] * away).clip(-500, 500)))
    rest = counts[:, :-1] * (1 - below) - counts[:, 1:] * below
    curve = (counts[:, :-1] + counts[:, 1:]) * below * (1 - below)
    gradient = np.zeros((n_annotators, n_thresholds + 1))
    hessian = np.zeros((n_annotators, n_thresholds + 1, n_thresholds + 1))
    each = np.arange(n_thresholds)
    gradient[:, :-1] = rest.sum(axis=2) - offset / ridge.offset_sd**2
    gradient[:, -1] = np.einsum("ajs,js->a", rest, away) - (slope - ridge.slope) / ridge.slope_sd**2
    hessian[:, each, each] = curve.sum(axis=2) + 1 / ridge.offset_sd**2
    hessian[:, each, -1] = hessian[:, -1, each] = np.einsum("ajs,js->aj", curve, away)
    hessian[:, -1, -1] = np.einsum("ajs,js->a", curve, away * away) + 1 / ridge.slope_sd**2
    if n_thresholds > 1:
        width, mass = np.diff(threshold), counts[:, 1:-1].sum(axis=2)
        pull = 1 / np.expm1(np.minimum(_gaps(offset, slope, threshold), 500.0))
        push, bend = mass * pull, mass * pull * (1 + pull)
        gradient[:, 1:-1] += push
        gradient[:, :-2] -= push
        gradient[:, -1] += push @ width
        low, high = each[:-1], each[1:]
        hessian[:, high, high] += bend
        hessian[:, low, low] += bend
        hessian[:, low, high] -= bend
        hessian[:, high, low] -= bend
        for side, sign in ((high, 1.0), (low, -1.0)):
            hessian[:, side, -1] += sign * bend * width
            hessian[:, -1, side] += sign * bend * width
        hessian[:, -1, -1] += bend @ (width * width)
    return np.asarray(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0])
