"""Weights of networks as safetensors: bytes that hold numbers and no code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.errors import InputError, MissingExtraError

__all__ = ["check_safetensors", "load_weights", "weights_bytes", "weights_of"]


def check_safetensors() -> Any:
    """The library that saves weights; refused before training where it is not installed."""
    try:
        import safetensors.numpy
    except ModuleNotFoundError as problem:
        raise MissingExtraError("saving a network needs safetensors: pip install 'crowdwise[torch]'") from problem
    return safetensors.numpy


def weights_bytes(weights: Mapping[str, Any]) -> bytes:
    """Arrays or tensors by name, as the content of a file."""
    # Not by `ascontiguousarray`, which gives a tensor without axes one.
    content: bytes = check_safetensors().save({name: np.asarray(array, order="C") for name, array in weights.items()})
    return content


def weights_of(content: bytes) -> dict[str, Any]:
    """The tensors of a file's content, by name."""
    from safetensors.torch import load

    return dict(load(content))


def load_weights(network: Any, tensors: Mapping[str, Any], own: bool = False) -> None:
    """Put the saved weights in; the first that does not fit is named.

    Parameters
    ----------
    own : bool
        The network is the user's, who may have brought another one than was trained.
    """
    from torch.nn.parameter import is_lazy

    state = network.state_dict()
    problem = next((f"has no {name!r}, which was saved" for name in tensors if name not in state), None)
    problem = problem or next((f"has {name!r}, which was not saved" for name in state if name not in tensors), None)
    for name, tensor in state.items():
        # Lazy layers take their sizes from what is loaded.
        if problem is None and not is_lazy(tensor) and tensor.shape != tensors[name].shape:
            problem = f"has {name!r} of shape {list(tensor.shape)}, and {list(tensors[name].shape)} was saved"
    if problem is not None:
        if own:
            raise InputError(f"this network is not the one that was trained: it {problem}")
        raise ValueError(f"the network {problem}")
    network.load_state_dict(dict(tensors))
