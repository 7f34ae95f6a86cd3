"""The state of a training run in one file, written whole or not at all; resuming ends in the same bits.

A checkpoint is a safetensors file: weights, the best weights so far and the optimiser's state as
tensors, everything else as JSON in its header. Randomness is drawn again from (seed, epoch) in every
epoch, so no generator needs saving.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from crowdwise.errors import InputError, SettingError
from crowdwise.io.writer import replacing

__all__ = ["Checkpoint", "read", "write"]

_VERSION = "1"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A run after some epochs: tensors by dotted names, and plain values."""

    fingerprint: str
    tensors: dict[str, Tensor]
    plain: dict[str, Any]


def write(path: Path, state: Checkpoint) -> None:
    """Replace the checkpoint at `path`."""
    from safetensors.torch import save

    try:
        header = json.dumps(state.plain)
    except TypeError as problem:
        raise SettingError(f"this optimiser or scheduler keeps state that cannot be checkpointed: {problem}") from problem
    content = save(
        {name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.tensors.items()},
        metadata={"crowdwise": _VERSION, "fingerprint": state.fingerprint, "plain": header},
    )
    with replacing(path) as partial:
        partial.write_bytes(content)


def read(path: Path, fingerprint: str) -> Checkpoint | None:
    """The checkpoint at `path`, or None where there is none; one of another run is refused."""
    if not path.exists():
        return None
    from safetensors import safe_open

    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
        if meta.get("crowdwise") != _VERSION:
            raise ValueError("no crowdwise checkpoint of this version")
        plain = json.loads(meta["plain"])
    except Exception as problem:  # whatever a damaged or foreign file does to the reader
        raise InputError(f"{path}: not a checkpoint that can be resumed ({problem}); delete it to start again") from problem
    if meta["fingerprint"] != fingerprint:
        raise InputError(
            f"{path}: a checkpoint of other data or settings; delete it to start again, or give this run a file of its own"
        )
    return Checkpoint(fingerprint, tensors, plain)


def split_state(state: dict[str, Any], prefix: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Separate the tensors of an optimiser's ``state`` (index -> name -> value) from its plain values."""
    tensors, plain = {}, {}
    for index, values in state.items():
        for name, value in values.items():
            key = f"{prefix}{index}.{name}"
            if isinstance(value, Tensor):
                tensors[key] = value
            else:
                plain[key] = value
    return tensors, plain


def join_state(tensors: dict[str, Tensor], plain: dict[str, Any], prefix: str) -> dict[int, dict[str, Any]]:
    """Undo `split_state`."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**tensors, **plain}.items():
        if key.startswith(prefix):
            index, _, name = key.removeprefix(prefix).partition(".")
            state.setdefault(int(index), {})[name] = value
    return state


def under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Tensors whose names start with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def named(module: torch.nn.Module, prefix: str) -> dict[str, Tensor]:
    """State of a module with `prefix` before every name."""
    return {prefix + name: value for name, value in module.state_dict().items()}
