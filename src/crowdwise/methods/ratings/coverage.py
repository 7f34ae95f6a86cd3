"""Intervals that cover: the spread of each item's own answers, and how far off estimates prove to be where that can be seen.

Held-out annotators   Annotators are dealt into two halves. Each half is fitted by itself, and the answers of the other half are
                      compared with its estimates. Two annotators a and b who were not part of a fit have independent noise,
                      so the mean of (y_a - z)(y_b - z) over their common items is the squared error of the estimates z,
                      whatever that noise is. Its ratio to what the intervals promise widens them.
Known values          They also show what the crowd as a whole gets wrong: how far estimates miss them, beyond what intervals
                      promise, is a variance that all items have.

A ratio below one, or within its standard error of one, changes nothing; above, it is shrunk by as much as it is uncertain
(James and Stein's positive part), so crowds that keep to the model keep the model's intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from crowdwise.data.ratings import Ratings
from crowdwise.errors import CrowdwiseWarning
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.methods.ratings.item_spread import item_spread
from crowdwise.methods.ratings.problem import Problem
from crowdwise.methods.ratings.result import sd_of

__all__ = ["NoiseOf", "covering", "held_out_products", "widening"]

#: Fields of an `Estimates`, by name, and `from_noise`: the share of an item's variance that its answers' noise makes, [N, D].
Found = dict[str, Any]
NoiseOf = Literal["alike", "of annotators", "of answers"]
#: Estimates from answers and known values.
Refit = Callable[[Ratings, Floats], Found]


def covering(found: Found, ratings: Ratings, known: Floats, refit: Refit, *, noise_is: NoiseOf) -> Found:
    """The fields of an `Estimates` with intervals widened by what answers, held-out annotators and known values show.

    Parameters
    ----------
    refit
        The method that `found` comes from.
    noise_is : {"alike", "of annotators", "of answers"}
        What has a noise of its own in the method. Where every answer has one, the spread on items is part of the model.
    """

    def fitted(part: Ratings, known: Floats) -> Found:
        return _by_item(refit(part, known), part, known, noise_is)

    unknown = np.full(known.shape, np.nan)
    has_gold = bool(np.isfinite(known).any())
    found = _by_item(found, ratings, known, noise_is)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        plain = fitted(ratings, unknown) if has_gold else found
        ratio, error = _by_crowd(ratings, lambda part: fitted(part, unknown))
    found, plain = _widened(found, ratio, error), _widened(plain, ratio, error)
    return _with_crowd_error(found, plain, known) if has_gold else found


def widening(ratio: Floats, error: Floats) -> Floats:
    """The factor by which variances grow, [D], for these ratios of squared errors to variances and their standard errors."""
    excess = ratio - 1
    beyond = excess > error
    return 1 + np.where(beyond, excess - error**2 / np.where(beyond, excess, 1.0), 0.0)


def _by_item(found: Found, ratings: Ratings, known: Floats, noise_is: NoiseOf) -> Found:
    """With the spread of each item's own answers."""
    if noise_is == "of answers":
        return found
    share = found.get("from_noise", 1.0)
    problem = Problem.of(ratings, known)
    estimate = (found["estimate"] - problem.centre) / problem.spread
    bias, noise = found["bias"] / problem.spread, found["noise"] / problem.spread
    gain = found.get("more", {}).get("gain", np.ones_like(bias))
    if noise_is == "alike":
        bias, noise = np.zeros_like(bias), np.ones_like(noise)
    # What annotators would answer without noise; gains turn around the middle of the items.
    middle = np.nanmean(estimate, axis=0) if np.isfinite(estimate).any() else 0.0
    who = problem.annotator
    expected = middle + gain[who] * (estimate[problem.item] - middle) + bias[who]
    # Nobody is more precise than a thousandth of what answers differ by; as `variational` has it.
    spread = item_spread(problem, problem.value - expected, np.maximum(noise**2, 1e-6)[who])
    # What an estimate is drawn to the others by, and the level, do not depend on the noise of its answers.
    factor = 1 + share * (spread.factor - 1)
    doubt = (share * spread.factor / factor) ** 2 / spread.freedom
    return found | {"scale": found["scale"] * np.sqrt(factor), "freedom": 1 / (1 / found["freedom"] + doubt)}


# -- held-out annotators -----------------------------------------------------------------------


def _by_crowd(ratings: Ratings, fitted: Callable[[Ratings], Found]) -> tuple[Floats, Floats]:
    """Ratio of squared errors that held-out annotators show to promised variances, and its standard error, [D] each."""
    shape = ratings.n_items, ratings.n_dimensions
    shown, promised = np.zeros(shape), np.zeros(shape)
    side = _halves(ratings)[ratings.annotator]
    for half in (False, True):
        inside = ratings[side == half]
        if not inside.weights.sum() > 0:
            return np.ones(shape[1]), np.zeros(shape[1])
        found = fitted(inside)
        variance = sd_of(found["scale"], found["freedom"]) ** 2
        seen = (np.bincount(inside.item, inside.weights, minlength=shape[0]) > 0) & np.isfinite(variance).all(axis=1)
        products, pairs = held_out_products(ratings[(side != half) & seen[ratings.item]], found["estimate"])
        shown += products
        promised += np.where(pairs > 0, pairs * np.nan_to_num(variance), 0.0)
    total = promised.sum(axis=0)
    told = total > 0
    safe = np.where(told, total, 1.0)
    ratio = np.where(told, shown.sum(axis=0) / safe, 1.0)
    # Items are the independent units of both sums.
    error = np.where(told, np.sqrt(((shown - ratio * promised) ** 2).sum(axis=0)) / safe, 0.0)
    return ratio, error


def _widened(found: Found, ratio: Floats, error: Floats) -> Found:
    factor = widening(ratio, error)
    # An estimated variance with relative standard error r is known with 2 / r^2 degrees of freedom.
    doubt = np.where(factor > 1, error / np.where(factor > 1, ratio, 1.0), 0.0) ** 2 / 2
    return found | {
        "scale": found["scale"] * np.sqrt(factor),
        "freedom": 1 / (1 / found["freedom"] + doubt),
        "widened": np.sqrt(factor),
    }


def held_out_products(ratings: Ratings, estimate: Floats) -> tuple[Floats, Floats]:
    """Products of the errors of two annotators, summed over all pairs on every item, and the weight of the pairs, [N, D] each.

    An annotator's bias is taken off, by the other items that he or she answered; whoever answered no other is left out.
    Annotators weigh as much as they follow the items, by their squared correlation with the estimates: the answers of those who
    always say the same show nothing, not even that others are wrong.
    """
    n, a, d = ratings.n_items, ratings.n_annotators, ratings.n_dimensions
    # A cell is all that one annotator said of one item.
    cells, cell = np.unique(ratings.item.astype(np.int64) * a + ratings.annotator, return_inverse=True)
    item, annotator = cells // a, cells % a
    mass = np.bincount(cell, ratings.weights, minlength=len(cells))
    elsewhere = np.bincount(annotator, mass, minlength=a)[annotator] - mass
    kept = (elsewhere > 0) & (mass > 0)
    products, pairs = np.zeros((n, d)), np.zeros((n, d))
    for k in range(d):
        z = estimate[ratings.item, k]
        sums = np.bincount(cell, ratings.weights * (ratings.value[:, k] - z), minlength=len(cells))
        others = np.bincount(annotator, sums, minlength=a)[annotator] - sums
        follows = _follows(ratings.annotator, ratings.weights, ratings.value[:, k], z, a)[annotator[kept]]
        weight = follows * mass[kept]
        error = follows * (sums - mass * others / np.where(kept, elsewhere, 1.0))[kept]
        products[:, k], pairs[:, k] = _pair_sums(item[kept], error, n), _pair_sums(item[kept], weight, n)
    return products, pairs


def _pair_sums(item: Integers, rows: Floats, n_items: int) -> Floats:
    """Sum over all pairs of rows of every item of their products, [N]."""
    square = np.bincount(item, rows, minlength=n_items) ** 2
    several = np.bincount(item, minlength=n_items) > 1
    return np.where(several, (square - np.bincount(item, rows**2, minlength=n_items)) / 2, 0.0)


def _follows(annotator: Integers, weight: Floats, value: Floats, estimate: Floats, n: int) -> Floats:
    """Squared correlation of every annotator's answers with the estimates, [A], less what chance gives; 0 where negative."""

    def centred(rows: Floats) -> Floats:
        return rows - (np.bincount(annotator, weight * rows, minlength=n) / safe)[annotator]

    total = np.bincount(annotator, weight, minlength=n)
    safe = np.where(total > 0, total, 1.0)
    y, z = centred(value), centred(estimate)
    both, own, theirs = (np.bincount(annotator, weight * rows, minlength=n) for rows in (y * z, y * y, z * z))
    size = own * theirs
    squared = np.where((both > 0) & (size > 0), both**2 / np.where(size > 0, size, 1.0), 0.0)
    # Adjusted for the one slope that was fitted.
    adjusted = 1 - (1 - squared) * (total - 1) / np.maximum(total - 2, 1e-300)
    return np.where(total > 2, np.maximum(adjusted, 0.0), 0.0)


def _halves(ratings: Ratings) -> Flags:
    """Who belongs to the second half, [A]: those with most answers are dealt out first, there and back."""
    order = np.argsort(-ratings.votes_per_annotator, kind="stable")
    second = np.zeros(ratings.n_annotators, bool)
    second[order] = np.isin(np.arange(len(order)) % 4, (1, 2))
    return second


# -- known values ------------------------------------------------------------------------------


def _with_crowd_error(found: Found, plain: Found, known: Floats) -> Found:
    """With the variance of what the crowd as a whole gets wrong, by how far estimates that did not know them miss known values.

    It is added, for it is the same however many answers an item has.
    """
    # What known values did to the level of the other items, they would have done to these.
    others = ~np.isfinite(known).all(axis=1)
    moved = found["estimate"][others] - plain["estimate"][others]
    moved = moved[np.isfinite(moved).all(axis=1)]
    shift = moved.mean(axis=0) if len(moved) else 0.0
    missed = (known - plain["estimate"] - shift) ** 2
    variance = sd_of(plain["scale"], plain["freedom"]) ** 2
    told = np.isfinite(missed + variance).all(axis=1)
    freedom = int(told.sum()) - 1
    promised = variance[told].mean(axis=0) if freedom > 0 else np.zeros(known.shape[1])
    if not (promised > 0).all():
        return found | {"crowd_error": np.zeros(known.shape[1])}
    ratio = missed[told].sum(axis=0) / freedom / promised
    beyond = (widening(ratio, ratio * np.sqrt(2 / freedom)) - 1) * promised
    own = found["scale"] ** 2
    total = np.where(own > 0, own + beyond, 1.0)
    doubt = (own**2 / found["freedom"] + beyond**2 / freedom) / total**2
    return found | {
        "scale": np.where(own > 0, np.sqrt(total), 0.0),
        "freedom": np.where(own > 0, 1 / np.maximum(doubt, 1e-300), found["freedom"]),
        "crowd_error": np.sqrt(beyond),
    }
