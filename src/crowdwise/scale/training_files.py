"""A training handed to other processes as files; `crowdwise.scale.training_outcome` hands back what became of it.

Features and votes are plain arrays in a folder of this user's own, written once; dense features are mapped into the memory
of every process. The estimator may hold functions and modules, so it is pickled: a process opens it only if it has the
digest that it was told on its command line.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import pickletools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, vocabulary_array
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["read_data", "read_task", "unfitted", "write_estimator", "write_task"]

_VOTES = ("item_ptr", "annotator", "label", "weight", "gold", "soft")
_VOCABULARIES = ("annotators", "classes")
_ESTIMATOR = "estimator"


# -- there -------------------------------------------------------------------------------------


def unfitted(estimator: CrowdClassifier) -> Any:
    """The estimator with its settings alone; a checkpoint has the path that it has here."""
    settings = estimator.get_params(deep=False)
    if isinstance(settings.get("checkpoint"), str | os.PathLike):
        settings["checkpoint"] = str(Path(settings["checkpoint"]).absolute())
    return type(estimator)(**settings)


def write_estimator(estimator: CrowdClassifier, folder: Path) -> str:
    """Write the estimator and its settings; returns the digest by which a process knows it."""
    try:
        content = pickle.dumps(unfitted(estimator))
    except Exception as problem:  # every kind of object refuses in its own way
        raise SettingError(
            f"{estimator.name}: its settings cannot be sent to another process ({problem}); "
            "in place of a lambda, give a function of a module that can be imported"
        ) from problem
    names = (argument for _, argument, _ in pickletools.genops(content) if isinstance(argument, str))
    if any(name.partition(" ")[0] == "__main__" for name in names):
        raise SettingError(
            f"{estimator.name}: a setting is defined in the script that runs, which other processes do not import; "
            "put the function or class into a module of its own, or start the script itself with torchrun"
        )
    (folder / _ESTIMATOR).write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def write_task(features: Any, votes: Annotations, folder: Path, *, same_machine: bool = True) -> None:
    """Write votes and checked features, row n of which is item n of the votes; workers on this machine find a mapped file."""
    for name in _VOTES:
        if getattr(votes, name) is not None:
            np.save(folder / f"{name}.npy", getattr(votes, name), allow_pickle=False)
    for name in _VOCABULARIES:
        pl.DataFrame({name: series_of(getattr(votes, name))}).write_ipc(folder / f"{name}.arrow")
    if same_machine and isinstance(features, np.memmap) and _is_whole(features):
        (folder / "mapped.txt").write_text(str(Path(str(features.filename)).absolute()), encoding="utf-8")
        (folder / "features.txt").write_text("mapped", encoding="utf-8")
    else:
        _write_features(features, folder)


def _is_whole(features: Any) -> bool:
    """Whether a mapped array is all of a ``.npy`` file, which workers can then map themselves."""
    try:
        whole = np.load(features.filename, mmap_mode="r", allow_pickle=False)
    except (OSError, TypeError, ValueError):
        return False
    return bool((whole.shape, whole.dtype, whole.offset) == (features.shape, features.dtype, features.offset))


def _write_features(features: Any, folder: Path) -> None:
    kind, array = "array", features
    if hasattr(features, "tocsr"):
        import scipy.sparse

        scipy.sparse.save_npz(folder / "features.npz", features.tocsr(), compressed=False)
        kind = "sparse"
    elif isinstance(features, np.memmap):
        kind = "mapped"
    elif not isinstance(features, np.ndarray):
        if not hasattr(features, "detach"):
            raise SettingError(
                "a dataset, dict or stream cannot be sent to another process; give an array, which may be memory-mapped, "
                "or start the script itself with torchrun"
            )
        try:
            kind, array = "tensor", features.detach().cpu().numpy()
        except TypeError as problem:
            raise SettingError(f"a tensor of {features.dtype} cannot be sent to another process; make it float32") from problem
    if kind != "sparse":
        np.save(folder / "features.npy", array, allow_pickle=False)
    (folder / "features.txt").write_text(kind, encoding="utf-8")


# -- in a worker -------------------------------------------------------------------------------


def read_task(folder: Path, digest: str) -> tuple[Any, Any, Annotations]:
    """Read estimator, features and votes; an estimator with another digest is not opened."""
    content = (folder / _ESTIMATOR).read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(f"{folder / _ESTIMATOR}: not what the starting process wrote")
    try:
        estimator = pickle.loads(content)
    except Exception as problem:  # whatever importing the user's modules does
        raise SettingError(
            f"its settings cannot be read in another process ({problem}); define what they use in a module of its own"
        ) from problem
    return estimator, *read_data(folder)


def read_data(folder: Path) -> tuple[Any, Annotations]:
    """Read features and votes; items are numbered, for their ids stay with the starting process."""
    arrays: dict[str, Any] = {}
    for name in _VOTES:
        path = folder / f"{name}.npy"
        arrays[name] = np.load(path, allow_pickle=False) if path.exists() else None
    arrays |= {name: vocabulary_array(pl.read_ipc(folder / f"{name}.arrow")[name]) for name in _VOCABULARIES}
    arrays["soft"] = bool(arrays["soft"])
    votes = Annotations(**arrays, items=np.arange(len(arrays["item_ptr"]) - 1))
    return _read_features(folder), votes


def _read_features(folder: Path) -> Any:
    kind = (folder / "features.txt").read_text(encoding="utf-8")
    if kind == "sparse":
        import scipy.sparse

        return scipy.sparse.load_npz(folder / "features.npz")
    named = folder / "mapped.txt"
    path = Path(named.read_text(encoding="utf-8")) if named.exists() else folder / "features.npy"
    if kind == "mapped":
        return np.load(path, mmap_mode="r", allow_pickle=False)
    import torch

    try:
        # Copy on write: torch has no read-only tensors, and nothing is written.
        tensor = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
    except (TypeError, ValueError):
        # Types that torch does not have, and arrays without entries, cannot be mapped.
        return np.load(path, allow_pickle=False)
    # By way of a tensor, it no longer counts as mapped, whose rows would be shuffled in another way than those in memory.
    return tensor if kind == "tensor" else tensor.numpy()
