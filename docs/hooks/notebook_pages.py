"""MkDocs hook: a page for every notebook, with what its cells print and draw, the notebook to download, and the gallery."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from notebook_runs import NOTEBOOKS, Cell, Output, cells_of, executed, missing_for

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = ["gallery", "notebook_of", "on_config", "on_files", "on_page_markdown", "page_of"]

GALLERY_MARKER = "<!-- notebooks -->"
# In the order of the gallery.
ORDER = ("label-aggregation", "llm-judges", "transformer", "gaussian-processes", "campaign", "audit")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the notebooks below the gallery."""
    for entry in config.nav or []:
        if entry.get("Gallery") == "gallery.md":
            pages = [{_title(_cells(name)): f"notebooks/{name}.md"} for name in ORDER]
            entry["Gallery"] = [{"All notebooks": "gallery.md"}, *pages]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the page, the pictures and the notebook of every script; one that fails is an error of the build."""
    for name in ORDER:
        path = NOTEBOOKS / f"{name}.py"
        missing = missing_for(path.read_text(encoding="utf-8"))
        try:
            outputs = [Output()] * len(_cells(name)) if missing else executed(path)
        except RuntimeError as fault:
            raise PluginError(str(fault)) from fault
        made: dict[str, str | bytes] = {
            f"{name}.md": page_of(name, _cells(name), outputs, missing),
            f"{name}.ipynb": json.dumps(notebook_of(_cells(name), outputs), indent=1),
        }
        made |= {file: base64.b64decode(png) for file, (_, png) in zip(*_pictures(name, outputs), strict=True)}
        for file, content in made.items():
            files.append(File.generated(config, f"notebooks/{file}", content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Put the notebooks into the gallery."""
    return markdown.replace(GALLERY_MARKER, gallery(files)) if GALLERY_MARKER in markdown else markdown


def gallery(files: Files) -> str:
    """Title, what it is about and the last picture of every notebook."""
    parts = []
    for name in ORDER:
        cells = _cells(name)
        parts += [f"## [{_title(cells)}](notebooks/{name}.md)", cells[0].text.partition("\n\n")[2]]
        pictures = sorted(file.src_uri for file in files if re.fullmatch(rf"notebooks/{name}-\d\.png", file.src_uri))
        if pictures:
            parts.append(f"[![From the notebook]({pictures[-1]}){{ width=420 }}](notebooks/{name}.md)")
    return "\n\n".join(parts)


def page_of(name: str, cells: list[Cell], outputs: list[Output], missing: list[str]) -> str:
    """A notebook as a page: text, code, and below the code what it gave."""
    parts = []
    numbers = iter(range(1, 1000))
    for cell, output in zip(cells, outputs, strict=True):
        if cell.kind == "markdown":
            parts.append(cell.text)
        elif cell.kind == "code":
            parts.append(f"```python\n{cell.text}\n```")
            parts += [f"```text\n{output.printed.rstrip()}\n```"] if output.printed.strip() else []
            parts += [f"![{title or 'What the cell draws'}]({name}-{next(numbers)}.png)" for title, _ in output.figures]
    note = f"[Download the notebook]({name}.ipynb), or see [all of them](../gallery.md)."
    if missing:
        note += f"\n\n!!! warning\n\n    Not run where these pages were built: it needs {', '.join(missing)}."
    return "\n\n".join([parts[0], note, *parts[1:]]) + "\n"


def notebook_of(cells: list[Cell], outputs: list[Output]) -> dict[str, Any]:
    """The same as a Jupyter notebook, format 4.5; checks are not in it."""
    entries = []
    for number, (cell, output) in enumerate(zip(cells, outputs, strict=True)):
        entry: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": cell.text.splitlines(keepends=True)}
        if cell.kind == "markdown":
            entries.append({"cell_type": "markdown"} | entry)
        elif cell.kind == "code":
            entries.append({"cell_type": "code", "execution_count": None, "outputs": _shown(output)} | entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": entries, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _shown(output: Output) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    if output.printed:
        shown.append({"output_type": "stream", "name": "stdout", "text": output.printed.splitlines(keepends=True)})
    for title, png in output.figures:
        data = {"image/png": png, "text/plain": [title or "a figure"]}
        shown.append({"output_type": "display_data", "metadata": {}, "data": data})
    return shown


def _pictures(name: str, outputs: list[Output]) -> tuple[list[str], list[tuple[str, str]]]:
    figures = [figure for output in outputs for figure in output.figures]
    return [f"{name}-{number}.png" for number in range(1, len(figures) + 1)], figures


def _cells(name: str) -> list[Cell]:
    return cells_of(Path(NOTEBOOKS / f"{name}.py").read_text(encoding="utf-8"))


def _title(cells: list[Cell]) -> str:
    return cells[0].text.partition("\n")[0].removeprefix("# ")
