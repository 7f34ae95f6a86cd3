"""Notebooks as scripts: their cells, and what these print and draw when a process of its own runs them.

A notebook is a Python file whose cells begin with ``# %%`` (code), ``# %% [markdown]`` (text, as comments) or ``# %% [check]``
(code that is run and not shown: it holds the text to what it says). ``# needs: torch`` at the top names packages without which
it cannot run. What a cell prints, the value of its last line and its figures are its output.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["NOTEBOOKS", "Cell", "Output", "cells_of", "executed", "missing_for", "run_cells"]

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
CACHE = ROOT / ".cache" / "notebooks"
SECONDS = 1800  # of patience: a notebook takes some ten, but other programs may have the machine


@dataclass(frozen=True)
class Cell:
    """One cell: "code", "markdown" or "check", and its text."""

    kind: str
    text: str


@dataclass(frozen=True)
class Output:
    """What a cell printed, and its figures as pairs of a title and a PNG in base64."""

    printed: str = ""
    figures: tuple[tuple[str, str], ...] = ()


def cells_of(source: str) -> list[Cell]:
    """Divide a script into its cells; empty ones are left out."""
    parts = re.split(r"^# %%(?: \[(\w+)\])?\n", source, flags=re.MULTILINE)[1:]
    cells = []
    for kind, text in zip(parts[::2], parts[1::2], strict=True):
        if kind == "markdown":
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        if text.strip():
            cells.append(Cell(kind or "code", text.strip("\n")))
    return cells


def missing_for(source: str) -> list[str]:
    """Packages that a notebook names and that are not here."""
    named = re.findall(r"^# needs: (.*)$", source, re.MULTILINE)
    names = [name.strip() for line in named for name in line.split(",")]
    return [name for name in names if importlib.util.find_spec(name) is None]


def executed(path: Path) -> list[Output]:
    """What every cell of a notebook gives. Runs that neither the notebook nor the package has changed since are remembered."""
    kept = CACHE / f"{path.stem}-{_fingerprint(path)}.json"
    if not kept.is_file():
        environment = os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "COLUMNS": "100", "NO_COLOR": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__, str(path.resolve()), str(Path(folder) / "outputs.json")]
            run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)
            if run.returncode:
                raise RuntimeError(f"{path.name} does not run:\n{run.stderr}")
            CACHE.mkdir(parents=True, exist_ok=True)
            # Written under another name first: tests and the build of the pages may run the same notebook at a time.
            whole = kept.with_suffix(f".{os.getpid()}")
            whole.write_text((Path(folder) / "outputs.json").read_text(encoding="utf-8"), encoding="utf-8")
            whole.replace(kept)
    read = json.loads(kept.read_text(encoding="utf-8"))
    return [Output(entry["printed"], tuple((title, png) for title, png in entry["figures"])) for entry in read]


def run_cells(cells: list[Cell]) -> list[Output]:
    """Run the cells one after the other in this process."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(cells, start=1):
        printed = io.StringIO()
        if cell.kind != "markdown":
            with contextlib.redirect_stdout(printed):
                _run(cell.text, names, f"<cell {number}>")
        outputs.append(Output(printed.getvalue(), tuple(_figures())))
    return outputs


def _run(text: str, names: dict[str, Any], where: str) -> None:
    """Run a cell, and print the value of its last line where it is an expression, as notebooks do."""
    tree = ast.parse(text, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), where, "eval"), names)
        if value is not None and not type(value).__module__.startswith("matplotlib"):  # axes are shown by their figure
            print(repr(value))


def _figures() -> Iterator[tuple[str, str]]:
    """The figures that a cell has left open, which are closed."""
    if "matplotlib.pyplot" not in sys.modules:
        return
    from matplotlib import pyplot

    for number in pyplot.get_fignums():
        figure, picture = pyplot.figure(number), io.BytesIO()
        figure.savefig(picture, format="png", dpi=110)
        titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
        pyplot.close(figure)
        yield next(filter(None, titles), ""), base64.b64encode(picture.getvalue()).decode("ascii")


def _fingerprint(path: Path) -> str:
    """Changes with the notebook, the package and this file."""
    digest = hashlib.sha256(sys.version.encode())
    for file in [path, Path(__file__), *sorted((ROOT / "src").rglob("*.py"))]:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    found = run_cells(cells_of(Path(sys.argv[1]).read_text(encoding="utf-8")))
    Path(sys.argv[2]).write_text(json.dumps([asdict(output) for output in found]), encoding="utf-8")
