"""What is known of annotators before these votes, as confusion counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.data.crowd import Vocabularies
from crowdwise.data.encode import Where, find_column, to_polars, translate
from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.model import counts_of

__all__ = ["encode_history", "right_and_wrong", "right_and_wrong_in_all"]


def encode_history(crowd: Vocabularies, history: Any) -> Floats:
    """Return earlier answers as counts, [A, L, K]; annotators without history get zeros.

    Parameters
    ----------
    crowd : Annotations or the like
    history : Result, estimator, mapping or frame
        A fitted result or estimator of an earlier campaign with the same classes; a mapping from
        annotator to a [K, K] matrix of counts (true x observed) or to a pair (right, wrong); or a
        frame with columns annotator, right, wrong or annotator, accuracy, n_votes (what
        ``crowdwise aggregate --annotators`` writes).
    """
    history = getattr(history, "result_", history)
    n_classes = crowd.n_classes
    counts = np.zeros((crowd.n_annotators, n_classes, n_classes))
    if isinstance(history, Result):
        return _from_result(crowd, history, counts)
    if hasattr(history, "columns"):
        history = _from_frame(history)
    if not isinstance(history, Mapping):
        raise InputError(f"history of annotators must be a result, a mapping or a frame; got {type(history).__name__}")
    known = {str(name): a for a, name in enumerate(crowd.annotators)}
    for name, value in history.items():
        matrix = _matrix(name, np.asarray(value, float), n_classes)
        if str(name) in known:
            counts[known[str(name)]] = matrix.T
    return counts


def right_and_wrong(history: Floats | None, n_annotators: int, n_classes: int) -> tuple[Floats, Floats]:
    """Earlier right and wrong answers by true class, two arrays [A, K]."""
    if history is None:
        zeros = np.zeros((n_annotators, n_classes))
        return zeros, zeros
    right = np.einsum("akk->ak", history).copy()
    return right, history.sum(axis=1) - right


def right_and_wrong_in_all(history: Floats | None, n_annotators: int, n_classes: int) -> tuple[Floats, Floats]:
    """Earlier right and wrong answers over all classes, two arrays [A]."""
    right, wrong = right_and_wrong(history, n_annotators, n_classes)
    return right.sum(axis=1), wrong.sum(axis=1)


def _matrix(name: Any, value: Floats, n_classes: int) -> Floats:
    if not (np.isfinite(value).all() and (value >= 0).all()):
        raise InputError(f"history of annotator {name!r}: counts must be finite numbers >= 0, got {value.tolist()}")
    if value.shape == (n_classes, n_classes):
        return value
    if value.shape != (2,):
        raise InputError(
            f"history of annotator {name!r}: expected (right, wrong) or a {n_classes} x {n_classes} matrix of counts "
            f"(true x observed), got shape {value.shape}"
        )
    right, wrong = value
    counts = np.full((n_classes, n_classes), wrong / max(n_classes * (n_classes - 1), 1))
    np.fill_diagonal(counts, right / n_classes)
    return counts


def _from_result(crowd: Vocabularies, result: Result, counts: Floats) -> Floats:
    """Expected counts of an earlier fit, class by class and annotator by annotator."""
    old = counts_of(result.votes, result.model_posterior)
    if result.history is not None:
        old += result.history
    classes = translate(crowd.classes, result.votes.classes)
    who = translate(crowd.annotators, result.votes.annotators)
    kept, seen = np.flatnonzero(classes >= 0), np.flatnonzero(who >= 0)
    counts[np.ix_(seen, kept, kept)] = old[np.ix_(who[seen], classes[kept], classes[kept])]
    return counts


def _from_frame(frame: Any) -> dict[Any, tuple[float, float]]:
    table = to_polars(frame)
    names = table[find_column(table, "annotator", None, Where("annotator history"))].to_list()
    if {"right", "wrong"} <= set(table.columns):
        right, wrong = table["right"].to_numpy(), table["wrong"].to_numpy()
    elif {"accuracy", "n_votes"} <= set(table.columns):
        accuracy, n = table["accuracy"].to_numpy(), table["n_votes"].to_numpy()
        right, wrong = accuracy * n, (1 - accuracy) * n
    else:
        raise InputError(
            f"annotator history needs the columns right and wrong, or accuracy and n_votes; found {', '.join(table.columns)}"
        )
    return dict(zip(names, zip(right.tolist(), wrong.tolist(), strict=True), strict=True))
