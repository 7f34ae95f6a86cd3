"""Steps that the Gaussian models share: items given annotators, the level that both could carry, the spread of items.

A value of annotator a on item n is z_n + b_a plus noise of precision p; z_n has the prior N(m, s). All arrays are in the units
of `Problem`; D dimensions are independent given the annotators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from crowdwise.kernels.types import Floats
from crowdwise.methods.ratings.problem import Problem

__all__ = [
    "Items",
    "annotator_prior",
    "free_level",
    "infer_items",
    "item_evidence",
    "relative_noise",
    "update_annotators",
    "update_prior",
]


# Items whose values seem all equal keep this share of the overall variance.
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Items:
    """What is believed of the items: z_n ~ N(mean, variance), and the prior N(prior_mean, prior_variance) they come from.

    Attributes
    ----------
    mean, variance : [N, D]
        The variance is 0 where the value is known.
    prior_mean, prior_variance : [D], or [N, D] where features tell items apart
    """

    mean: Floats
    variance: Floats
    prior_mean: Floats
    prior_variance: Floats


def infer_items(problem: Problem, items: Items, precision: Floats, bias: Floats) -> Items:
    """Posterior of the items, given the precision of every answer, [E, D], and the annotators' biases, [A, D]."""
    prior = 1 / items.prior_variance
    total = prior + problem.by_item(precision)
    shifted = problem.by_item(precision * (problem.value - bias[problem.annotator]))
    known = problem.is_known[:, None]
    mean = np.where(known, problem.known, (prior * items.prior_mean + shifted) / total)
    return replace(items, mean=mean, variance=np.where(known, 0.0, 1 / total))


def item_evidence(problem: Problem, items: Items) -> float:
    """E log N(z; prior) plus the entropy of z."""
    off = (items.mean - items.prior_mean) ** 2 + items.variance
    expected = -0.5 * (np.log(2 * np.pi * items.prior_variance) + off / items.prior_variance).sum()
    entropy = 0.5 * np.log(2 * np.pi * np.e * items.variance[~problem.is_known]).sum()
    return float(expected + entropy)


def update_prior(items: Items) -> Items:
    """The prior under which the believed items are most likely."""
    mean = items.mean.mean(axis=0)
    variance = (items.variance + (items.mean - mean) ** 2).mean(axis=0)
    return replace(items, prior_mean=mean, prior_variance=np.maximum(variance, _LEAST_SPREAD))


def update_annotators(
    problem: Problem, items: Items, noise: Floats, *, shrinkage: float, strength: float, shared: bool
) -> tuple[Floats, Floats, Floats]:
    """Most likely biases and precisions, [A, D], and noise of dimensions, [D], given the items (see `GaussianCrowd`)."""
    weight, count = problem.weight[:, None], problem.count[:, None]
    bias = problem.by_annotator(weight * (problem.value - items.mean[problem.item])) / (count + shrinkage)
    off = problem.value - items.mean[problem.item] - bias[problem.annotator]
    squares = problem.by_annotator(weight * (off**2 + items.variance[problem.item])) + shrinkage * bias**2
    scaled, n_answers = squares / noise, np.broadcast_to(count + 1, squares.shape)
    if shared:
        n_answers, scaled = n_answers.sum(axis=1, keepdims=True), scaled.sum(axis=1, keepdims=True)
    tau = np.broadcast_to((n_answers + 2 * strength) / (scaled + 2 * strength), squares.shape)
    return bias, tau, relative_noise((tau * squares).sum(axis=0)) if shared else noise


def annotator_prior(tau: Floats, noise: Floats, bias: Floats, *, shrinkage: float, strength: float, shared: bool) -> float:
    """Log prior of biases and precisions, without its constant."""
    own = tau[:, :1] if shared else tau
    precision = shrinkage * tau / noise
    biases = 0.5 * (np.log(precision / (2 * np.pi)) - precision * bias**2).sum()
    return float(strength * (np.log(own) - own).sum() + biases)


def free_level(problem: Problem, items: Items, precision: Floats, bias: Floats, bias_precision: Floats) -> tuple[Items, Floats]:
    """Move items up and biases down by what suits the biases' prior best: answers cannot tell these two apart.

    Without this step, alternating between items and biases takes thousands of rounds to find the same level. Known values hold
    the level in place as far as they say something about it.

    Parameters
    ----------
    precision : [E, D]
        Of the answers.
    bias_precision : [A, D]
        Of the prior N(0, 1 / bias_precision) of the biases.
    """
    held = problem.is_known[problem.item]
    off = problem.value[held] - problem.known[problem.item[held]] - bias[problem.annotator[held]]
    known = problem.known[problem.is_known]
    pull = (bias_precision * bias).sum(axis=0) - (precision[held] * off).sum(axis=0)
    pull += ((known - items.prior_mean) / items.prior_variance).sum(axis=0)
    weight = bias_precision.sum(axis=0) + precision[held].sum(axis=0) + len(known) / items.prior_variance
    shift = pull / np.maximum(weight, 1e-300)
    mean = np.where(problem.is_known[:, None], items.mean, items.mean + shift)
    return replace(items, mean=mean, prior_mean=items.prior_mean + shift), bias - shift


def relative_noise(squares: Floats) -> Floats:
    """Noise of dimensions, [D], in proportion to these sums of squares, with a geometric mean of one.

    The most likely one of that mean, where annotators have one precision each: without the condition, precisions and noise
    could drift against each other.
    """
    safe = np.maximum(squares, 1e-12 * max(float(squares.max(initial=0.0)), 1e-300))
    relative: Floats = np.exp(np.log(safe) - np.log(safe).mean())
    return relative
