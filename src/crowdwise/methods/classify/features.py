"""Check features before anything is trained: numbers only, none missing, the width that was fitted.

What goes to an estimator of scikit-learn is not checked for more than names and number of columns: texts, missing values and
columns of any type are its own affair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError
from crowdwise.methods.classify.align import n_rows_of
from crowdwise.methods.classify.named_features import checked_named, is_named, steady_dataset

__all__ = ["checked_features"]

# Entries of a large array that are looked at together.
_CHUNK = 2**22


def checked_features(estimator: Any, features: Any, *, fitting: bool, images: bool) -> Any:
    """Return features as an array, sparse matrix, tensor, dataset, fields or stream, or raise an error that names the fault.

    Tables go through scikit-learn's own validation (names and number of columns). Images, memory-mapped arrays,
    tensors and datasets are for networks: `images` says whether the method takes them. Networks also get whole
    numbers as they are, for those that embed tokens. An estimator that `takes_any_rows` gets them as they are.
    """
    if isinstance(features, Annotations):
        raise InputError("X holds votes: features come first, fit(X, votes)")
    if estimator.takes_any_rows and _has_rows(features):
        return _as_they_are(estimator, features, fitting)
    if is_named(features):
        return checked_named(estimator, features, fitting=fitting, images=images)
    # A torch TensorDataset: its first tensor holds the rows.
    features = getattr(features, "tensors", (features,))[0]
    table = _is_table(features, images)
    if table:
        from sklearn.utils.validation import validate_data

        kinds = [np.float64, np.float32, *([np.int64, np.int32] if images else [])]
        try:
            features = validate_data(
                estimator, features, reset=fitting, accept_sparse="csr", dtype=kinds, ensure_all_finite=False
            )
        except ValueError as problem:
            if "could not convert string" not in str(problem):
                raise
            raise InputError(
                f"{problem}: {estimator.name} takes numbers; for texts and categories put a pipeline into "
                "CrowdEM(estimator=make_pipeline(...)), which takes rows as they are"
            ) from problem
    elif not images:
        raise InputError(f"{estimator.name} takes a table of features (two axes); flatten images, or use a network's method")
    shape = _row_shape(features)
    if fitting:
        estimator.row_shape_ = shape
        if not table:
            # What an earlier fit to a table left behind.
            for name in ("feature_names_in_", "n_features_in_"):
                vars(estimator).pop(name, None)
            if not hasattr(features, "shape"):
                steady_dataset(features)
    elif shape != tuple(estimator.row_shape_):
        raise InputError(f"rows of shape {shape}, but the model was fitted to rows of shape {tuple(estimator.row_shape_)}")
    _check_finite(features)
    return features


def _has_rows(features: Any) -> bool:
    """Whether scikit-learn can select rows of it: an array, frame, series, sparse matrix or list."""
    if isinstance(features, list | tuple):
        return True
    torch = type(features).__module__.startswith("torch")
    return not torch and bool(getattr(features, "shape", ())) and (hasattr(features, "__array__") or hasattr(features, "tocsr"))


def _as_they_are(estimator: Any, features: Any, fitting: bool) -> Any:
    """Check names and number of columns, where there are any; only a sparse matrix changes its form, to select rows."""
    from sklearn.utils.validation import validate_data

    if fitting:
        # What an earlier fit to a table left behind.
        for name in ("n_features_in_", "row_shape_"):
            vars(estimator).pop(name, None)
    if n_rows_of(features) < 1:
        raise InputError("X has no rows")
    return validate_data(
        estimator, features.tocsr() if hasattr(features, "tocsr") else features, reset=fitting, skip_check_array=True
    )


def _is_table(features: Any, images: bool) -> bool:
    """Whether scikit-learn can check it: a matrix or frame, not mapped from a file where the method takes it as it is."""
    if isinstance(features, np.ndarray):
        return features.ndim <= 2 and not (images and features.ndim == 2 and isinstance(features, np.memmap))
    if (
        features is None
        or isinstance(features, list | tuple | str)
        or hasattr(features, "tocsr")
        or hasattr(features, "columns")
    ):
        return True
    # Tensors, and datasets, which have a length and items but no array interface.
    return not type(features).__module__.startswith("torch") and hasattr(features, "__array__")


def _row_shape(features: Any) -> tuple[int, ...]:
    shape = getattr(features, "shape", None)
    if shape is not None:
        return tuple(int(size) for size in shape[1:])
    if not hasattr(features, "__len__") or not hasattr(features, "__getitem__"):
        raise InputError(
            f"features must be an array, frame, sparse matrix, tensor or dataset with a length; got {type(features).__name__}"
        )
    sample = features[0]
    return tuple(np.shape(sample[0] if isinstance(sample, tuple | list) else sample))


def _check_finite(features: Any) -> None:
    """Name the first row with NaN or infinity; datasets are read when trained on, and not before."""
    if hasattr(features, "indptr"):
        odd = np.flatnonzero(~np.isfinite(features.data))
        bad = int(np.searchsorted(features.indptr, odd[0], side="right")) - 1 if len(odd) else None
    elif isinstance(features, np.ndarray):
        if features.dtype.kind not in "fiub":
            raise InputError(f"features must be numbers; got an array of {features.dtype}")
        if features.dtype.kind != "f":
            return
        bad = next((start + int(np.flatnonzero(~ok)[0]) for start, ok in _finite_rows(features, np) if not ok.all()), None)
    elif hasattr(features, "is_floating_point") and features.is_floating_point():
        import torch

        bad = next((start + int((~ok).nonzero()[0]) for start, ok in _finite_rows(features, torch) if not bool(ok.all())), None)
    else:
        return
    if bad is not None:
        raise InputError(f"X contains NaN or infinity in row {bad} (counted from 0); fill it in or drop the item")


def _finite_rows(features: Any, library: Any) -> Iterator[tuple[int, Any]]:
    step = max(1, _CHUNK // max(math.prod(features.shape[1:]), 1))
    for start in range(0, len(features), step):
        chunk = library.isfinite(features[start : start + step])
        yield start, chunk.reshape(len(chunk), -1).all(1)
