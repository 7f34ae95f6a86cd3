"""A task, its estimators and their outcomes as files: written once, read by every process.

The folder is a temporary one of this user's own, so estimators are pickled into it. Votes and features are plain arrays;
dense features stay on disk, mapped into the memory of every process, instead of one copy each.
"""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.anonymous import AnonymousVotes
from crowdwise.data.encode import series_of, to_polars, vocabulary_array
from crowdwise.errors import SettingError
from crowdwise.trust.compare.fitting import Outcome, Task

__all__ = ["read_estimator", "read_outcome", "read_task", "write_arrays", "write_estimator", "write_outcome", "write_task"]

_VOTES = ("item_ptr", "annotator", "label", "weight")
_NOTES = ("seconds", "memory_mb", "n_iter", "converged", "error", "warnings")


def write_task(task: Task, folder: Path) -> None:
    """Write votes, folds and features."""
    for name in _VOTES:
        if getattr(task.votes, name) is not None:
            _write(getattr(task.votes, name), folder / f"{name}.npy")
    for name in ("annotators", "classes"):
        pl.DataFrame({name: series_of(getattr(task.votes, name))}).write_ipc(folder / f"{name}.arrow")
    kind = {"soft": task.votes.soft, "anonymous": task.votes.anonymous}
    (folder / "kind.json").write_text(json.dumps(kind), encoding="utf-8")
    if task.fold is not None:
        _write(task.fold, folder / "fold.npy")
    if task.row is not None:
        _write(task.row, folder / "row.npy")
        _write_features(task.features, folder)


def _write_features(X: Any, folder: Path) -> None:
    import scipy.sparse

    if isinstance(X, np.memmap) and _is_whole(X):
        (folder / "features.txt").write_text(str(X.filename), encoding="utf-8")
    elif scipy.sparse.issparse(X):
        scipy.sparse.save_npz(folder / "features.npz", X.tocsr(), compressed=False)
    elif hasattr(X, "columns"):
        to_polars(X).write_ipc(folder / "features.arrow")
    else:
        array = np.asarray(X)
        if array.dtype.kind not in "fiub":
            raise SettingError(
                f"features of type {type(X).__name__} cannot be sent to another process; "
                "give an array, a frame or a sparse matrix, or compare in this process with jobs=None"
            )
        _write(array, folder / "features.npy")


def _is_whole(X: Any) -> bool:
    """Whether an array in a file is all of that ``.npy`` file, which processes can then read themselves."""
    try:
        whole = np.load(X.filename, mmap_mode="r", allow_pickle=False)
    except (OSError, TypeError, ValueError):
        return False
    return bool((whole.shape, whole.dtype, whole.offset, whole.strides) == (X.shape, X.dtype, X.offset, X.strides))


def read_task(folder: Path) -> Task:
    """Read what `write_task` wrote."""
    arrays: dict[str, Any] = {name: _read(folder / f"{name}.npy") for name in (*_VOTES, "fold", "row")}
    ids = {name: vocabulary_array(pl.read_ipc(folder / f"{name}.arrow")[name]) for name in ("annotators", "classes")}
    kind = json.loads((folder / "kind.json").read_text(encoding="utf-8"))
    votes = (AnonymousVotes if kind["anonymous"] else Annotations)(
        arrays["item_ptr"],
        arrays["annotator"],
        arrays["label"],
        np.arange(len(arrays["item_ptr"]) - 1),
        ids["annotators"],
        ids["classes"],
        weight=arrays["weight"],
        soft=kind["soft"],
    )
    return Task(votes, arrays["fold"], _read_features(folder), arrays["row"])


def _read_features(folder: Path) -> Any:
    if (folder / "features.npz").exists():
        import scipy.sparse

        return scipy.sparse.load_npz(folder / "features.npz")
    if (folder / "features.arrow").exists():
        return pl.read_ipc(folder / "features.arrow")
    named = folder / "features.txt"
    where = Path(named.read_text(encoding="utf-8")) if named.exists() else folder / "features.npy"
    return np.load(where, mmap_mode="r", allow_pickle=False) if where.exists() else None


def write_estimator(estimator: Any, folder: Path) -> None:
    """Write an estimator with its settings."""
    try:
        content = pickle.dumps(estimator)
    except Exception as problem:
        raise SettingError(
            f"{estimator.name}: its settings cannot be sent to another process ({problem}); "
            "compare in this process with jobs=None"
        ) from problem
    folder.mkdir()
    (folder / "estimator").write_bytes(content)


def read_estimator(folder: Path) -> Any:
    """Read what `write_estimator` wrote, in another process."""
    try:
        return pickle.loads((folder / "estimator").read_bytes())
    except Exception as problem:
        raise SettingError(
            f"its settings cannot be read in another process ({problem}); define what they use in a module of its own, "
            "or compare in this process with jobs=None"
        ) from problem


def write_outcome(outcome: Outcome, folder: Path) -> None:
    """Write how a fit ended: arrays first, so that where the notes are, everything is."""
    write_arrays(outcome, folder, "posterior", "codes")
    partial = folder / "notes.part"
    partial.write_text(json.dumps({name: getattr(outcome, name) for name in _NOTES}), encoding="utf-8")
    os.replace(partial, folder / "notes.json")


def write_arrays(outcome: Outcome, folder: Path, *names: str) -> None:
    """Write arrays of an outcome, each whole or not at all."""
    for name in names:
        if getattr(outcome, name) is not None:
            _write(getattr(outcome, name), folder / f"{name}.npy")


def read_outcome(method: str, folder: Path) -> Outcome | None:
    """Read what there is; None where a process ended before its fit did."""
    if not (folder / "notes.json").exists():
        return None
    notes = json.loads((folder / "notes.json").read_text(encoding="utf-8"))
    notes["warnings"] = [(category, text) for category, text in notes["warnings"]]
    arrays = {name: _read(folder / f"{name}.npy") for name in ("posterior", "codes", "log_prob")}
    return replace(Outcome(method), **notes, **arrays)


def _write(array: Any, path: Path) -> None:
    # A process may be stopped at any moment: what bears its name is whole.
    partial = path.with_suffix(".part")
    with partial.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    os.replace(partial, path)


def _read(path: Path) -> Any:
    return np.load(path, allow_pickle=False) if path.exists() else None
