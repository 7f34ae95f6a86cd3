"""Check features before anything is trained: numbers only, none missing, the width that was fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.errors import InputError

__all__ = ["checked_features"]

# Rows of a large array that are looked at together.
_CHUNK = 65_536


def checked_features(estimator: Any, features: Any, *, fitting: bool, images: bool) -> Any:
    """Return features as an array, sparse matrix, tensor or dataset, or raise an error that names the fault.

    Tables go through scikit-learn's own validation (names and number of columns, finite numbers). Images,
    memory-mapped arrays, tensors and datasets are for networks: `images` says whether the method takes them.
    """
    if not _is_special(features):
        from sklearn.utils.validation import validate_data

        return validate_data(
            estimator, features, reset=fitting, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_min_samples=1
        )
    if not images:
        raise InputError(f"{estimator.name} takes a table of features (two axes); flatten images, or use a network's method")
    shape = _row_shape(features)
    if fitting:
        estimator.row_shape_ = shape
    elif shape is not None and estimator.row_shape_ is not None and tuple(shape) != tuple(estimator.row_shape_):
        raise InputError(f"rows of shape {tuple(shape)}, but the model was fitted to rows of shape {tuple(estimator.row_shape_)}")
    _check_finite(features)
    return features


def _is_special(features: Any) -> bool:
    if isinstance(features, np.ndarray):
        return features.ndim > 2 or isinstance(features, np.memmap)
    if hasattr(features, "tocsr") or hasattr(features, "columns") or isinstance(features, list | tuple):
        return False
    # Tensors, and datasets, which have a length and items but no array interface.
    return type(features).__module__.startswith("torch") or not hasattr(features, "__array__")


def _row_shape(features: Any) -> tuple[int, ...] | None:
    shape = getattr(features, "shape", None)
    return None if shape is None else tuple(int(size) for size in shape[1:])


def _check_finite(features: Any) -> None:
    """Name the first row with NaN or infinity; datasets are read when trained on, and not before."""
    if not hasattr(features, "dtype"):
        return
    if isinstance(features, np.ndarray):
        if features.dtype.kind not in "fiub":
            raise InputError(f"features must be numbers; got an array of {features.dtype}")
        if features.dtype.kind != "f":
            return
        bad = next((start + int(np.flatnonzero(~ok)[0]) for start, ok in _finite_rows(features, np) if not ok.all()), None)
    else:
        import torch

        if not features.is_floating_point():
            return
        bad = next((start + int((~ok).nonzero()[0]) for start, ok in _finite_rows(features, torch) if not bool(ok.all())), None)
    if bad is not None:
        raise InputError(f"X contains NaN or infinity in row {bad} (counted from 0); fill it in or drop the item")


def _finite_rows(features: Any, library: Any) -> Any:
    for start in range(0, len(features), _CHUNK):
        chunk = library.isfinite(features[start : start + _CHUNK])
        yield start, chunk.reshape(len(chunk), -1).all(1)
