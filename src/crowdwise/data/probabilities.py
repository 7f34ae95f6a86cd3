"""Votes that are distributions over the classes, as rows with weights that sum to one per vote."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import Where, id_codes, label_codes
from crowdwise.errors import InputError

__all__ = ["TOLERANCE", "SoftVotes", "soft_votes"]

# How far a sum may be from one: rounded numbers.
TOLERANCE = 0.02


class SoftVotes(NamedTuple):
    """A row per vote and class with a probability above 0, as codes with their vocabularies; and how many votes are missing."""

    item: NDArray[Any]
    annotator: NDArray[Any]
    label: NDArray[Any]
    items: NDArray[Any]
    annotators: NDArray[Any]
    classes: NDArray[Any]
    weight: NDArray[np.float64]
    n_missing: int


def soft_votes(ids: pl.DataFrame, probability: Any, classes: list[Any], where: Where) -> SoftVotes:
    """Encode the columns item and annotator, and a probability per row and class, [E, K]."""
    values = np.asarray(probability, np.float64)
    if values.ndim != 2 or values.shape != (ids.height, len(classes)):
        raise InputError(
            f"{where.source}: probabilities of shape {values.shape} for {ids.height} votes and {len(classes)} classes; "
            "expected a number per vote and class"
        )
    item, items = id_codes(ids["item"], None, "item", where)
    annotator, annotators = id_codes(ids["annotator"], None, "annotator", where)
    _, class_ids = label_codes(pl.Series([], dtype=pl.String), classes, where)
    absent = np.asarray(np.isnan(values).all(axis=1))
    share = _shares(values, absent, where)[~absent]
    # Distributions of one annotator on one item are one: their mean.
    key = item[~absent].astype(np.int64) * max(len(annotators), 1) + annotator[~absent]
    pairs, pair = np.unique(key, return_inverse=True)
    mean = np.zeros((len(pairs), len(classes)))
    np.add.at(mean, pair, share)
    mean /= np.maximum(mean.sum(axis=1, keepdims=True), 1e-300)
    vote, label = np.nonzero(mean)
    of_item, of_annotator = np.divmod(pairs[vote], max(len(annotators), 1))
    weight = np.asarray(mean[vote, label])
    return SoftVotes(of_item, of_annotator, label, items, annotators, class_ids, weight, int(absent.sum()))


def _shares(values: NDArray[np.float64], absent: NDArray[np.bool_], where: Where) -> NDArray[np.float64]:
    """Probabilities that sum to one; a row that is no distribution is an error that names it."""
    found = values[~np.isnan(values)]
    logs = bool(len(found)) and bool((found <= 0).all()) and bool((found < 0).any())
    share = np.where(np.isnan(values), 0.0, np.exp(values) if logs else values)
    total = share.sum(axis=1)
    percent = not logs and bool(len(found)) and bool((np.abs(total[~absent] / 100 - 1) < TOLERANCE).all())
    total = total / 100 if percent else total
    # Logarithms of the few most probable answers need not be all there are.
    wrong = (total > 1 + TOLERANCE) | (total <= 0) | ((total < 1 - TOLERANCE) & (not logs))
    bad = np.flatnonzero((wrong | (share < 0).any(axis=1) | ~np.isfinite(total)) & ~absent)
    if len(bad):
        row = int(bad[0])
        numbers = ", ".join(f"{value:g}" for value in values[row][:6])
        raise InputError(
            f"{where.row(row)}: {numbers} are no probabilities of the classes: they must be 0 or more and sum to 1 or to 100, "
            "or be logarithms of such"
        )
    return np.asarray(share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300))
