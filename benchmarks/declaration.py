"""What a benchmark says of itself, and how all of them are found: `BENCHMARK = Benchmark(...)` in a script of a room.

Declarations are read from the source, not imported, so that listing them needs none of their packages. The name of a benchmark
is that of its file, its room that of the folder; arguments are plain values.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.places import ROOT, SHARED

# Rooms: the title of the page, and the parts of the library whose change makes figures of the room stale.
FITS = ("methods", "engines", "parts", "kernels")
ROOMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "accuracy": ("Labels", FITS),
    "calibration": ("Confidence", (*FITS, "estimator", "trust/calibration", "trust/audit")),
    "classifiers": ("Classifiers", ("methods/classify", "engines", "parts", "kernels")),
    "campaigns": ("Campaigns", (*FITS, "campaign")),
    "crowds": ("Crowds that share errors", (*FITS, "trust/crowd", "trust/judges", "trust/fairness")),
    "gp": ("Gaussian processes", ("methods/classify", "engines", "parts", "kernels")),
    "speed": ("Speed and memory", (*FITS, "cli", "io", "data", "campaign")),
    "versus": ("Beside other libraries", (*FITS, "campaign")),
    "scale": ("Shards and clusters", (*FITS, "scale")),
    "papers": ("Papers", (*FITS, "campaign")),
}
# Several sets under one name.
LABELLED = (
    "adult", "bluebird", "cf", "cf_amt", "cifar10n", "convarg_pairs", "dog", "labelme", "ner_mturk", "possent", "product",
    "rte", "sentence_polarity", "sp_amt", "temp", "web", "wsd",
)  # fmt: skip
FEATURES = ("labelme", "cifar10n", "sentence_polarity", "rte", "convarg_pairs", "ner_mturk")
FAMILIES = {"labelled": LABELLED, "features": FEATURES}


@dataclass(frozen=True)
class Benchmark:
    """What a script measures and needs."""

    question: str
    #: Blocks of the pages that it writes.
    sections: tuple[str, ...] = ()
    #: Sets that it reads, by the names of their folders or of a family of them; none where all data are simulated.
    data: tuple[str, ...] = ()
    #: Packages beyond those of the library and scikit-learn.
    packages: tuple[str, ...] = ()
    #: Files and folders below src/crowdwise, if others than the room's.
    measures: tuple[str, ...] = ()
    #: Its file of records, if other than its name.
    records: str = ""
    #: Arguments with which it renders its blocks from its records alone.
    renders: tuple[str, ...] = ()
    #: For a quick run: arguments, and smaller values of constants of the module.
    quick: str = ""
    small: Mapping[str, Any] = field(default_factory=dict)
    #: Functions of the module that a quick run leaves out, and takes to return nothing.
    leaves_out: tuple[str, ...] = ()
    #: Why it has no quick run.
    no_quick: str = ""


@dataclass(frozen=True)
class Script:
    """A benchmark with its place."""

    room: str
    name: str
    path: Path
    declared: Benchmark

    @property
    def module(self) -> str:
        return f"benchmarks.{self.room}.{self.name}"

    @property
    def measures(self) -> tuple[str, ...]:
        """Paths from the root of the checkout."""
        return tuple(f"src/crowdwise/{part}" for part in self.declared.measures or ROOMS[self.room][1])

    @cached_property
    def sets(self) -> tuple[str, ...]:
        """Folders of data, families spelled out."""
        return tuple(dict.fromkeys(one for name in self.declared.data for one in FAMILIES.get(name, (name,))))

    def missing(self, shared: Path | None = SHARED) -> list[str]:
        """Packages and, with a folder to look in, sets that are not here."""
        packages = [f"package {name}" for name in self.declared.packages if find_spec(name) is None]
        return packages + [f"data {name}" for name in self.sets if shared and not (shared / name).is_dir()]


def scripts() -> dict[str, Script]:
    """Every benchmark by name, room by room."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / "benchmarks" / room).glob("*.py")):
            declared = declaration(path)
            if declared is not None:
                if path.stem in found:
                    raise ValueError(f"two benchmarks are called {path.stem}: in {found[path.stem].room} and in {room}")
                found[path.stem] = Script(room, path.stem, path, declared)
    return found


def declaration(path: Path) -> Benchmark | None:
    """What stands behind `BENCHMARK =`, or None."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "BENCHMARK":
            call = node.value
            if not isinstance(call, ast.Call):
                raise ValueError(f"{path}: BENCHMARK is no call of Benchmark")
            given = {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg}
            return Benchmark(*map(ast.literal_eval, call.args), **given)
    return None
