"""Save a fitted classifier beside its result, and bring it back.

A classifier lies in the same ``result.zip`` as its result: plain values in ``classifier.json``, a network's
weights in ``classifier.safetensors``, other arrays as ``.npy``. Nothing is pickled. A network of the user's own
is made again by the user, who passes it to `load`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.engines.gradient.weights import check_safetensors, load_weights, weights_bytes
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.loading import load
from crowdwise.estimator.storage import check_folder, npy_bytes, npy_of
from crowdwise.estimator.storage import save as save_result

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.estimator.result import Result
    from crowdwise.methods.classify.base import CrowdClassifier, Model

__all__ = ["check_save", "load", "members_of", "restore", "save"]

_VERSION = 1
_DOCUMENT, _WEIGHTS = "classifier.json", "classifier.safetensors"
# Models without a network, by the `kind` of their `state()`: each has `from_state(arrays, plain)`, and all others are refused.
_MODELS = {
    "logistic": "crowdwise.methods.classify.logistic_model:LogisticModel",
    "yan": "crowdwise.methods.classify.yan:YanModel",
    "process": "crowdwise.methods.classify.vgpcr:ProcessModel",
    "fourier": "crowdwise.methods.classify.fourier_gp:FourierModel",
}
# Gaussian processes trained like networks, by the `kind` of their spec: each is built from it.
_PROCESSES = {
    "sparse-gp": "crowdwise.methods.classify.svgpcr:build_process",
    "flow-gp": "crowdwise.methods.classify.svgpcr_nf:build_flow_process",
    "gpnet": "crowdwise.methods.classify.gpnetcr:build_inference_network",
}
# Plain values that a fit leaves on the estimator, where it has them.
_FITTED = ("n_features_in_", "feature_names_in_", "row_shape_", "history_")


# -- saving ------------------------------------------------------------------------------------


def check_save(estimator: CrowdClassifier, folder: str | PathLike[str]) -> None:
    """Refuse, before training, what `save` would refuse after it."""
    check_folder(folder)
    if hasattr(estimator, "_network") or getattr(estimator, "_uses_network", False):
        check_safetensors()


def save(estimator: CrowdClassifier, folder: str | PathLike[str]) -> None:
    """Write a fitted classifier and its result into `folder`; an older save there is replaced in one step.

    Settings that are functions, modules or estimators are left out: they have their defaults when the model is
    loaded, which matters to a new `fit` only. A network of your own must be given to `load`.
    """
    save_result(estimator._fitted(), folder, members_of(estimator))


def members_of(estimator: CrowdClassifier) -> dict[str, bytes]:
    """The classifier, as members of a saved result."""
    arrays, plain = estimator.model_.state()
    members: dict[str, bytes] = {}
    if plain["kind"] not in ("network", *_MODELS):
        raise InputError(f"{estimator.name} cannot be saved without pickle in this form ({plain['kind']})")
    if plain["kind"] == "network":
        members[_WEIGHTS] = weights_bytes(arrays)
        names = []
    else:
        members |= {f"classifier/{name}.npy": npy_bytes(array) for name, array in arrays.items()}
        names = list(arrays)
    more = estimator._extra_arrays() if hasattr(estimator, "_extra_arrays") else {}
    members |= {f"fitted/{name}.npy": npy_bytes(array) for name, array in more.items()}
    document = {
        "crowdwise": _VERSION,
        "model": plain,
        "arrays": names,
        "fitted_arrays": list(more),
        "fitted": {name: getattr(estimator, name) for name in _FITTED if hasattr(estimator, name)},
    }
    members[_DOCUMENT] = json.dumps(document, default=_jsonable, indent=1).encode()
    return members


def _jsonable(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a fitted value of type {type(value).__name__} cannot be saved")


# -- loading -----------------------------------------------------------------------------------


def restore(estimator: Any, result: Result, members: Mapping[str, bytes], network: Any) -> None:
    """Give an estimator the classifier that was saved beside its result."""
    if _DOCUMENT not in members:
        raise InputError(
            f"the labels and annotators of {result.method} without its classifier; "
            "open it with Result.load(...), or save the estimator itself: model.save(...)"
        )
    _fill(estimator, result, members, network)


def _fill(estimator: Any, result: Result, members: Mapping[str, bytes], network: Any) -> None:
    document = json.loads(members[_DOCUMENT])
    if document["crowdwise"] != _VERSION:
        raise ValueError(f"format {document['crowdwise']}, expected {_VERSION}")
    plain = document["model"]
    if plain["kind"] == "network":
        estimator.model_ = _network_model(estimator, members[_WEIGHTS], plain, network)
        estimator.network_ = estimator.model_.network
        _name_network(estimator, network)
    elif network is not None:
        raise SettingError(f"{result.method} has no network; leave network= out")
    else:
        arrays = {name: npy_of(members[f"classifier/{name}.npy"]) for name in document["arrays"]}
        estimator.model_ = _array_model(arrays, plain, document["fitted"]["n_features_in_"], result.votes.n_classes)
    estimator.classes_ = result.votes.classes
    fitted = {name: value for name, value in document["fitted"].items() if name in _FITTED}
    if "feature_names_in_" in fitted:
        fitted["feature_names_in_"] = np.array(fitted["feature_names_in_"], dtype=object)
    if fitted.get("row_shape_") is not None:
        fitted["row_shape_"] = tuple(fitted["row_shape_"])
    for name, value in fitted.items():
        setattr(estimator, name, value)
    for name in document["fitted_arrays"]:
        # Fitted names end in an underscore; anything else could replace a setting or a method.
        if not name.endswith("_") or name.startswith("_") or hasattr(type(estimator), name):
            raise ValueError(f"an unknown fitted array {name!r}")
        setattr(estimator, name, npy_of(members[f"fitted/{name}.npy"]))


def _name_network(estimator: Any, network: Any) -> None:
    """Settings that say what the network was, where it could not be saved: checks of rows and a new fit go by them."""
    settings = estimator.get_params(deep=False)
    if "network" in settings:
        if network is not None:
            estimator.network = network
    elif "kernel" in settings:
        if network is not None:
            estimator.kernel = network
    elif network is not None or not estimator._uses_network:
        from crowdwise.methods.classify.soft_network import SoftNetwork

        estimator.classifier = "network" if network is None else SoftNetwork(network=network)


def _array_model(arrays: dict[str, Any], plain: dict[str, Any], n_features: int, n_classes: int) -> Model:
    """A model without a network, tried on one row."""
    module, _, name = _MODELS[plain["kind"]].partition(":")
    model: Model = getattr(import_module(module), name).from_state(arrays, plain)
    shape = model.log_prob(np.zeros((1, n_features))).shape
    if shape != (1, n_classes):
        raise ValueError(f"probabilities of shape {shape} for {n_classes} classes")
    return model


def _network_model(estimator: Any, weights: bytes, plain: dict[str, Any], network: Any) -> Model:
    """The trained backbone with the saved weights."""
    import torch
    from safetensors.torch import load as tensors_of

    from crowdwise.methods.classify.network_model import NetworkModel

    spec, tensors = plain["spec"], tensors_of(weights)
    dtype = {"float32": torch.float32, "float64": torch.float64}[plain["dtype"]]
    make = _maker(spec, len(estimator.result_.votes.classes), network)
    device = _present_device(getattr(estimator, "device", "auto"))
    n_members, made = int(plain.get("members", 1)), []
    if n_members < 1:
        raise ValueError(f"{n_members} networks")
    for number in range(n_members):
        own = tensors if n_members == 1 else _under(tensors, f"{number}.")
        load_weights(module := make().to(dtype), own, own=spec is None)
        made.append(module.eval().to(device))
    return NetworkModel(tuple(made), spec, dtype, device, bool(plain["mixed"]), int(plain.get("passes", 0)))


def _maker(spec: dict[str, Any] | None, n_classes: int, network: Any) -> Callable[[], Any]:
    """What makes the backbone untrained: a built-in one from its plain description, or the user's."""
    from crowdwise.engines.gradient.networks import NETWORKS, build_network

    if spec is None:
        if network is None:
            raise InputError(
                "this model was trained with your own network, which the command line cannot make; "
                "in Python: load(folder, network=make_net)"
            )
        return partial(_own, network)
    if spec["kind"] not in (*NETWORKS, *_PROCESSES) or spec["n_classes"] != n_classes:
        raise ValueError(f"no built-in network {spec}")
    build: Callable[..., Any] = build_network
    if spec["kind"] in _PROCESSES:
        module, _, name = _PROCESSES[spec["kind"]].partition(":")
        build = getattr(import_module(module), name)
        if spec["kernel"] is None:
            if network is None:
                raise InputError("this model was trained with your own kernel; in Python: load(folder, network=kernel)")
            return partial(build, spec, network)
    if network is not None:
        raise SettingError("this model was trained with a built-in network; leave network= out")
    return partial(build, spec)


def _under(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _own(network: Any) -> Any:
    """A module to load weights into; one that the user passes stays as it is."""
    import copy

    from torch import nn

    made = copy.deepcopy(network) if isinstance(network, nn.Module) else network() if callable(network) else network
    if not isinstance(made, nn.Module):
        raise SettingError(f"network must be a torch module or a function that makes one; got {type(made).__name__}")
    return made


def _present_device(name: str) -> Any:
    """Where to predict: as the settings say, or on the processor where this machine has no such device."""
    import torch

    device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    try:
        torch.zeros(1, device=device)
    except Exception:  # every back end says in its own way that it is not there
        return torch.device("cpu")
    return device
