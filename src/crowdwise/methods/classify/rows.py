"""Rows of features from a file, as classifiers take them in training and prediction, and the table of predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.errors import InputError
from crowdwise.io.features import Features
from crowdwise.kernels.numerics import best_class

__all__ = ["Predictions", "as_trained", "predictions", "taken_by"]

# Rows of a memory-mapped array that are predicted together.
_CHUNK = 65_536


def taken_by(estimator: Any, rows: Features) -> Any:
    """Features in the one form in which training and prediction take them, so that the same rows are the same numbers."""
    X = rows.X
    if rows.names is not None:
        return rows.table
    # Only networks read from disk as they go, and they take whole numbers from there as they are (or as pixels);
    # a table in memory is turned into fractions first.
    if isinstance(X, np.memmap) and X.ndim == 2 and (X.dtype.kind != "f" or not estimator.takes_images):
        return np.array(X)
    return X


def as_trained(estimator: Any, rows: Features) -> tuple[Any, list[str]]:
    """The features in the form that the classifier was trained on, and the columns that it ignores.

    Columns are matched by name where both have names.
    """
    fitted = getattr(estimator, "feature_names_in_", None)
    if fitted is not None and rows.names is not None:
        absent = [name for name in fitted if name not in rows.names]
        if absent:
            raise InputError(
                f"{rows.source}: no column {_listed(absent, 5)}, which the model was trained on; it has {_listed(rows.names)}"
            )
        more = [name for name in rows.names if name not in set(fitted)]
        return pl.DataFrame(rows.X, schema=rows.names, orient="row").select(list(fitted)), more
    shape = getattr(estimator, "row_shape_", None) or getattr(estimator, "n_features_in_", None)
    wanted = (shape,) if isinstance(shape, int) else shape
    if wanted is not None and tuple(rows.X.shape[1:]) != tuple(wanted):
        got, fit = (" x ".join(map(str, size)) for size in (rows.X.shape[1:], wanted))
        raise InputError(f"{rows.source}: rows of {got} features, and the model was trained on {fit}")
    if fitted is not None:
        return pl.DataFrame(_dense(rows.X), schema=list(fitted), orient="row"), []
    return (rows.X if rows.names is not None else taken_by(estimator, rows)), []


def _probabilities(estimator: Any, X: Any, votes: Annotations | None) -> Any:
    """Probability of every class for every row, with the votes on them if there are any, [N, K]."""
    return _in_parts(estimator, X, lambda rows, part: estimator.predict_proba(rows, None if votes is None else votes[part]))


def _disagreement(estimator: Any, X: Any) -> Any:
    """How far the networks of an ensemble, or passes with dropout, disagree on each row, [N]."""
    return _in_parts(estimator, X, lambda rows, part: estimator.uncertainty(rows).disagreement)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a classifier says of rows: a table, the probability of every class, [N, K], and the columns that it ignored."""

    frame: pl.DataFrame
    probabilities: Any
    ignored: list[str]


def predictions(estimator: Any, rows: Features, votes: Annotations | None = None) -> Predictions:
    """Predict rows as they were read, with the votes on them if there are any.

    The table has item, label, confidence, votes if there are any, the probability of every class and, of several networks or
    passes, how far they disagree.
    """
    X, ignored = as_trained(estimator, rows)
    shares = _probabilities(estimator, X, votes)
    frame = _frame(estimator, rows, shares, votes)
    if getattr(estimator.model_, "n_draws", 1) > 1:
        frame = frame.with_columns(disagreement=_disagreement(estimator, X))
    return Predictions(frame, shares, ignored)


def _frame(estimator: Any, rows: Features, probabilities: Any, votes: Annotations | None) -> pl.DataFrame:
    codes = best_class(probabilities, estimator.prior_)
    columns: dict[str, Any] = {
        "item": np.arange(len(rows)) if rows.items is None else series_of(rows.items),
        "label": series_of(estimator.classes_)[codes],
        "confidence": probabilities[np.arange(len(codes)), codes],
    }
    if votes is not None:
        columns["n_votes"] = votes.votes_per_item
    return pl.DataFrame(columns | {f"p({name})": probabilities[:, k] for k, name in enumerate(estimator.classes_)})


def _in_parts(estimator: Any, X: Any, answer: Callable[[Any, slice], Any]) -> Any:
    """What `answer` says of all rows; a memory-mapped array is read a part at a time."""
    if not isinstance(X, np.memmap):
        return answer(X, slice(None))
    parts = [slice(start, start + _CHUNK) for start in range(0, len(X), _CHUNK)]
    # One trained on a table in memory knows the number of its columns and takes such tables.
    table = hasattr(estimator, "n_features_in_")
    return np.concatenate([answer(np.array(X[part]) if table else X[part], part) for part in parts])


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X


def _listed(names: list[str], most: int = 10) -> str:
    return ", ".join(repr(name) for name in names[:most]) + (", ..." if len(names) > most else "")
