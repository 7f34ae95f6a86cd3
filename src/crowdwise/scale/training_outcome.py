"""What became of a training in other processes: progress, warnings, errors and the model, as files in its folder.

The model comes by `save` and `load`, without pickle; all else is JSON.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise import errors
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.engines.loop import Progress
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["MODEL", "Listener", "ask_to_stop", "raise_problem", "reporter", "take_over", "write_problem", "write_warnings"]

MODEL = "model"
_PROGRESS, _WARNINGS, _STOP = "progress.jsonl", "warnings.json", "stop"
# What the check of the features leaves on the estimator in the starting process, where columns have their names.
_CHECKED = ("feature_names_in_", "n_features_in_", "row_shape_")


# -- in a worker -------------------------------------------------------------------------------


def reporter(folder: Path, first: bool) -> Progress:
    """The callback of `fit` in a worker: the first one tells, and all stop when they are asked to."""

    def report(number: int, objective: float, judged: float) -> None:
        if (folder / _STOP).exists():
            raise KeyboardInterrupt
        if first:
            with (folder / _PROGRESS).open("a", encoding="utf-8") as file:
                file.write(json.dumps([number, objective, judged]) + "\n")

    return report


def write_warnings(heard: list[warnings.WarningMessage], folder: Path) -> None:
    """Write what a worker was warned of."""
    own = [(type(w.message).__name__, str(w.message)) for w in heard if isinstance(w.message, CrowdwiseWarning)]
    _write_json(own, folder / _WARNINGS)


def write_problem(problem: BaseException, rank: int, folder: Path) -> None:
    """Write why a worker failed."""
    own = isinstance(problem, CrowdwiseError)
    text = str(problem) if own else f"{type(problem).__name__}: {problem}"
    note = {"kind": type(problem).__name__ if own else "", "text": text, "time": time.time()}
    _write_json(note, folder / f"problem.{rank}.json")


def _write_json(content: Any, path: Path) -> None:
    # A worker may be ended at any moment: what bears its name is whole.
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(content), encoding="utf-8")
    os.replace(partial, path)


# -- back --------------------------------------------------------------------------------------


class Listener:
    """What the first worker tells of its progress, passed on as it comes."""

    def __init__(self, folder: Path, progress: Progress | None) -> None:
        self.path, self.progress, self._read = folder / _PROGRESS, progress, 0

    def poll(self) -> None:
        """Pass on what is new."""
        if self.progress is None or not self.path.exists():
            return
        with self.path.open(encoding="utf-8") as file:
            file.seek(self._read)
            # A line without its end is still being written.
            while (line := file.readline()).endswith("\n"):
                self._read = file.tell()
                self.progress(*json.loads(line))


def ask_to_stop(folder: Path) -> None:
    """Let the workers end after their epoch, where they cannot be ended at once."""
    (folder / _STOP).touch()


def raise_problem(folder: Path, otherwise: str) -> None:
    """Raise what a worker raised: an error of crowdwise as it was; of others the first, which the rest may follow from."""
    notes = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("problem.*.json")]
    notes.sort(key=lambda note: (not note["kind"], note["time"]))
    if not notes:
        raise CrowdwiseError(otherwise)
    kind: Callable[[str], Exception] | None = getattr(errors, notes[0]["kind"], None)
    if kind is None:
        raise CrowdwiseError(f"a worker failed: {notes[0]['text']}")
    raise kind(notes[0]["text"])


def take_over(estimator: CrowdClassifier, folder: Path, votes: Annotations) -> None:
    """Give `estimator` what the first worker has saved, as if it had been fitted here."""
    from crowdwise.estimator.loading import load

    # What was made by the user is made again: a saved model has its weights alone.
    own = getattr(estimator, "network", getattr(estimator, "kernel", None))
    loaded = load(folder / MODEL, network=None if isinstance(own, str) else own)
    settings = estimator.get_params(deep=False)
    stale = [name for name in vars(estimator) if name.endswith("_") and name not in (*settings, *_CHECKED)]
    for name in stale:
        delattr(estimator, name)
    for name, value in vars(loaded).items():
        if name.endswith("_") and name not in (*settings, *_CHECKED):
            setattr(estimator, name, value)
    estimator.classes_ = votes.classes
    estimator.result_ = replace(loaded.result_, settings=estimator.kept_settings(), votes=votes)
    for name, text in json.loads((folder / _WARNINGS).read_text(encoding="utf-8")):
        warnings.warn(text, getattr(errors, name, CrowdwiseWarning), stacklevel=4)
