"""A trained network from its saved weights: built again from its plain description, or by the user who brought it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from crowdwise.engines.gradient.networks import BUILDERS
from crowdwise.engines.gradient.weights import load_weights, weights_of
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.classify.network_model import NetworkModel

__all__ = ["rebuilt_model"]


def rebuilt_model(weights: bytes, plain: dict[str, Any], n_classes: int, device: str, network: Any) -> NetworkModel:
    """The model whose `state` was saved as weights and plain values; `network` is the user's own, where one was trained."""
    spec, tensors = plain["spec"], weights_of(weights)
    dtype = {"float32": torch.float32, "float64": torch.float64}[plain["dtype"]]
    make, where = _maker(spec, n_classes, network), _present_device(device)
    n_members, made = int(plain["members"]), []
    if n_members < 1:
        raise ValueError(f"{n_members} networks")
    for number in range(n_members):
        own = tensors if n_members == 1 else _under(tensors, f"{number}.")
        load_weights(module := make().to(dtype), own, own=spec is None or spec.get("mapped") is not None)
        made.append(module.eval().to(where))
    return NetworkModel(tuple(made), spec, dtype, where, bool(plain["mixed"]), int(plain["passes"]))


def _maker(spec: dict[str, Any] | None, n_classes: int, network: Any) -> Callable[[], nn.Module]:
    """What makes the backbone untrained: a built-in one from its plain description, or the user's."""
    if spec is None:
        if network is None:
            raise InputError(
                "this model was trained with your own network, which the command line cannot make; "
                "in Python: load(folder, network=make_net)"
            )
        return partial(_own, network)
    if spec["kind"] not in BUILDERS or spec["n_classes"] != n_classes:
        raise ValueError(f"no built-in network {spec}")
    build = BUILDERS[spec["kind"]]
    # Gaussian processes have a kernel in their spec, unless it was the user's.
    if spec.get("kernel", "") is None:
        if network is None:
            raise InputError("this model was trained with your own kernel; in Python: load(folder, network=kernel)")
        return partial(build, spec, network)
    if spec.get("mapped") is not None:
        if network is None:
            raise InputError("this model was trained with your own feature map; in Python: load(folder, network=feature_map)")
        return partial(build, spec, network)
    if network is not None:
        raise SettingError("this model was trained with a built-in network; leave network= out")
    return partial(build, spec)


def _under(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _own(network: Any) -> nn.Module:
    """A module to load weights into; one that the user passes stays as it is."""
    made = copy.deepcopy(network) if isinstance(network, nn.Module) else network() if callable(network) else network
    if not isinstance(made, nn.Module):
        raise SettingError(f"network must be a torch module or a function that makes one; got {type(made).__name__}")
    return made


def _present_device(name: str) -> torch.device:
    """Where to predict: as the settings say, or on the processor where this machine has no such device."""
    device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
    try:
        torch.zeros(1, device=device)
    except Exception:  # every back end says in its own way that it is not there
        return torch.device("cpu")
    return device
