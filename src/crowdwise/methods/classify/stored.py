"""A fitted classifier as members of a saved fit, and back. Nothing is pickled.

``classifier.json`` holds what is plain, with the arrays of a storable model beside it as ``.npy``; the weights of a network are
in ``classifier.safetensors``. A network of the user's own is made again by the user, who passes it to `crowdwise.load`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.engines.gradient.weights import weights_bytes
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.codec import pack, unpack
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.storage import npy_bytes
from crowdwise.io.limits import npy_of

__all__ = ["members_of", "restored"]

_VERSION = 2
_DOCUMENT, _WEIGHTS, _ARRAYS = "classifier.json", "classifier.safetensors", "classifier/"


def members_of(method: str, model: Any, fitted: Mapping[str, Any]) -> dict[str, bytes]:
    """The members of a classifier.

    Parameters
    ----------
    model
        A network with `state()`, or a storable value (see `crowdwise.data.storable`).
    fitted : mapping
        What else a fit leaves, by name.
    """
    arrays: dict[str, Any] = {}
    document = {"crowdwise": _VERSION, "fitted": pack(dict(fitted), "fitted", arrays)}
    members: dict[str, bytes] = {}
    if hasattr(model, "state"):
        weights, document["network"] = model.state()
        members[_WEIGHTS] = weights_bytes(weights)
    else:
        try:
            document["model"] = pack(model, "model", arrays)
        except TypeError as problem:
            raise InputError(f"{method} cannot be saved without pickle: its model is not @storable ({problem})") from problem
    members |= {f"{_ARRAYS}{name}.npy": npy_bytes(array) for name, array in arrays.items()}
    return members | {_DOCUMENT: json.dumps(document, indent=1).encode()}


def restored(
    members: Mapping[str, bytes], result: Result, *, row_shape: str, device: str, network: Any
) -> tuple[Any, dict[str, Any]]:
    """The model, and what else the fit left, by name.

    Parameters
    ----------
    row_shape : str
        Name under which the shape of a row is kept; a model without a network is tried on one row.
    device : str
        Where a network shall predict.
    network
        The user's own network or kernel, where the model was trained with one.
    """
    if _DOCUMENT not in members:
        raise InputError(
            f"the labels and annotators of {result.method} without its classifier; "
            "open it with Result.load(...), or save the estimator itself: model.save(...)"
        )
    document = json.loads(members[_DOCUMENT])
    if document["crowdwise"] != _VERSION:
        raise ValueError(f"format {document['crowdwise']}, expected {_VERSION}")
    own = {name: content for name, content in members.items() if name.startswith(_ARRAYS)}
    arrays = {name.removeprefix(_ARRAYS).removesuffix(".npy"): npy_of(content) for name, content in own.items()}
    fitted: dict[str, Any] = unpack(document["fitted"], arrays)
    n_classes = result.votes.n_classes
    if "network" in document:
        from crowdwise.methods.classify.rebuilt import rebuilt_model

        return rebuilt_model(members[_WEIGHTS], document["network"], n_classes, device, network), fitted
    if network is not None:
        raise SettingError(f"{result.method} has no network; leave network= out")
    model = unpack(document["model"], arrays)
    shape = model.log_prob(np.zeros((1, *fitted[row_shape]))).shape
    if shape != (1, n_classes):
        raise ValueError(f"probabilities of shape {shape} for {n_classes} classes")
    return model, fitted
