"""Features that are no array: dicts of arrays, datasets of dicts, and streams, as networks take them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.errors import DataWarning, InputError, listed

__all__ = ["checked_named", "forget_unused", "is_named", "steady_dataset"]


def is_named(features: Any) -> bool:
    """Whether features are a dict, a dataset of dicts, or a stream."""
    # Sparse matrices by keys are mappings, too.
    if isinstance(features, np.ndarray) or hasattr(features, "columns") or hasattr(features, "tocsr"):
        return False
    if isinstance(features, Mapping):
        return True
    if "torch" in sys.modules:
        from crowdwise.engines.gradient.fields import FieldTable
        from crowdwise.engines.gradient.stream import is_stream

        if isinstance(features, FieldTable) or is_stream(features):
            return True
    if not (hasattr(features, "__getitem__") and hasattr(features, "__len__")) or type(features).__module__ == "torch":
        return False
    try:
        first = features[0] if len(features) else None
    except (TypeError, KeyError, IndexError):
        return False
    return isinstance(first[0] if isinstance(first, tuple | list) and len(first) else first, Mapping)


def checked_named(estimator: Any, features: Any, *, fitting: bool, images: bool) -> Any:
    """Return a `FieldTable`, a `Stream` or the dataset, or raise an error that names the fault."""
    if not (images and estimator.has_network):
        what = "a dict of arrays" if isinstance(features, Mapping) else f"a {type(features).__name__}"
        raise InputError(f"{estimator.name} takes a table of features (two axes), and X is {what}; use a network's method")
    from crowdwise.engines.gradient.fields import FieldTable, collated
    from crowdwise.engines.gradient.stream import Stream, is_stream

    found = features
    if is_stream(features):
        found = features if isinstance(features, Stream) else Stream(features, getattr(estimator, "batch_size", 128))
        _open(estimator, found, fitting)
        first = found.first()[0]
        shapes: Any = first.shapes if hasattr(first, "shapes") else tuple(first.shape[1:])
    elif isinstance(features, Mapping | FieldTable):
        found = features if isinstance(features, FieldTable) else FieldTable.of(features)
        _check_finite(found.fields)
        shapes = found.shapes
    else:
        shapes = collated([features[0]]).shapes
        if fitting:
            steady_dataset(features)
    _check_shapes(estimator, shapes, fitting)
    return found


def forget_unused(estimator: Any) -> None:
    """Ask new rows for no field that the trained network does not take."""
    if isinstance(getattr(estimator, "row_shape_", None), dict):
        from crowdwise.engines.gradient.fields import left_out

        unused = left_out(estimator.model_.network, estimator.row_shape_)
        estimator.row_shape_ = {name: shape for name, shape in estimator.row_shape_.items() if name not in unused}


def steady_dataset(dataset: Any) -> None:
    """Warn where reading a row twice gives two different ones: judging and predicting would be random too."""
    from torch.utils.data import default_collate

    try:
        first, again = (default_collate([dataset[0]]) for _ in range(2))
    except (TypeError, RuntimeError):
        return
    if not _equal(first, again):
        warnings.warn(
            "the first row of the dataset is another one each time it is read, so that predictions will differ from call to "
            "call; take random changes out of the dataset and set augment=..., which is applied in training alone",
            DataWarning,
            stacklevel=5,
        )


def _open(estimator: Any, stream: Any, fitting: bool) -> None:
    if not fitting:
        if stream.item_ids is None and stream.shuffles:
            raise InputError(
                "this DataLoader shuffles, so that nobody would know which prediction is whose; make one with shuffle=False"
            )
        return
    if not estimator.takes_streams:
        raise InputError(
            f"{estimator.name} reads rows in an order of its own, and a stream has another; give a dataset or array"
        )
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise InputError(
            "processes that train together share every batch, and a stream is read by one; give a dataset or array"
        )
    stream.read_ids()


def _check_shapes(estimator: Any, shapes: Any, fitting: bool) -> None:
    """Keep or compare the shape of a row; of fields their names and axes, for texts may be padded to any length."""
    if fitting:
        estimator.row_shape_ = {name: list(shape) for name, shape in shapes.items()} if isinstance(shapes, dict) else shapes
        for name in ("feature_names_in_", "n_features_in_"):
            vars(estimator).pop(name, None)
        return
    known = estimator.row_shape_
    if isinstance(known, dict) != isinstance(shapes, dict):
        got, fitted = ("fields" if isinstance(one, dict) else "one array" for one in (shapes, known))
        raise InputError(f"rows of {got}, but the model was fitted to rows of {fitted}")
    if not isinstance(shapes, dict):
        if tuple(shapes) != tuple(known):
            raise InputError(f"rows of shape {tuple(shapes)}, but the model was fitted to rows of shape {tuple(known)}")
        return
    absent = [name for name in known if name not in shapes]
    if absent:
        raise InputError(
            f"no field {listed(map(repr, absent))}, which the model was fitted to; X has {listed(map(repr, shapes))}"
        )
    other = next((name for name in known if len(shapes[name]) != len(known[name])), None)
    if other is not None:
        raise InputError(f"rows of the field {other!r} have {len(shapes[other])} axes, but {len(known[other])} in the fit")


def _check_finite(fields: dict[str, Any]) -> None:
    import torch

    for name, field in fields.items():
        values = torch.as_tensor(field) if not isinstance(field, np.memmap) else torch.zeros(0)
        if values.is_floating_point() and not bool((ok := torch.isfinite(values)).all()):
            row = int((~ok).nonzero()[0][0])
            raise InputError(f"field {name!r} of X contains NaN or infinity in row {row} (counted from 0)")


def _equal(first: Any, again: Any) -> bool:
    if isinstance(first, Mapping):
        return all(_equal(first[name], again[name]) for name in first)
    if isinstance(first, list | tuple):
        return all(map(_equal, first, again))
    return bool((first == again).all()) if hasattr(first, "shape") else bool(first == again)
