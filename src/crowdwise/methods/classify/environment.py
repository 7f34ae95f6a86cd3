"""Where and from which seed a run starts, and which checkpoint belongs to it: known before it starts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.fields import Fields
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.gradient.stream import StreamRows
from crowdwise.errors import InputError, SettingError

__all__ = ["check_checkpoint", "device_of", "fingerprint"]

# Rows that tell the data of a checkpoint from others.
_COMPARED = 1024


def check_checkpoint(path: Any, random_state: Any) -> None:
    """A checkpoint that cannot be written or resumed must be known before an hour of training."""
    if path is None:
        return
    if random_state is None:
        raise SettingError("a run with a checkpoint needs a random_state: another seed could not resume it")
    if not isinstance(path, str | os.PathLike):
        raise SettingError(f"checkpoint must name a file; got {path!r}")
    if Path(path).is_dir():
        raise InputError(f"checkpoint: {path} is a folder; name a file in it")
    folder = Path(path).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"checkpoint: cannot write into {folder}; make the folder, or name another file")


def device_of(name: str) -> torch.device:
    """The device of this name, tried out; "auto" is a GPU when there is one."""
    if name != "auto":
        try:
            device = torch.device(name)
            torch.zeros(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError, TypeError):
            raise SettingError(f"no torch device {name!r} on this machine; try cpu") from None
        return device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def fingerprint(method: str, settings: Mapping[str, Any], rows: Rows, votes: Annotations) -> str:
    """Hash of what a run depends on; of many rows a sample counts."""
    plain = {name: _as_text(value) for name, value in settings.items()}
    sizes = [len(rows), list(rows.shape), votes.n_annotators, [str(c) for c in votes.classes]]
    digest = hashlib.sha256(json.dumps([method, plain, sizes], sort_keys=True).encode())
    for array in (votes.item_ptr, votes.annotator, votes.label, votes.weight, votes.gold):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    if isinstance(rows, StreamRows):
        digest.update(repr(rows.stream.item_ids).encode())
        return digest.hexdigest()
    for part in torch.split(torch.arange(0, len(rows), max(1, len(rows) // _COMPARED)), 64):
        taken = rows.take(part)
        for tensor in taken.values() if isinstance(taken, Fields) else (taken,):
            digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def _as_text(value: Any) -> str:
    """A setting as text; all numbers of an array, of which `repr` shows some."""
    return repr(value.tolist()) if hasattr(value, "tolist") else repr(value)
