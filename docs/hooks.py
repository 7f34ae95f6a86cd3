"""MkDocs hooks: the pages' lists of methods and of public names, taken from the code so that they cannot go stale."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

METHODS_MARKER = "<!-- methods-table -->"
API_MARKER = "<!-- public-names -->"


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Replace the markers by what the installed package says of itself."""
    if METHODS_MARKER in markdown:
        markdown = markdown.replace(METHODS_MARKER, methods_table(files))
    if API_MARKER in markdown:
        markdown = markdown.replace(API_MARKER, api_directives())
    return markdown


def methods_table(files: Files) -> str:
    """Return one row per registered method; its name links to its notes where they exist."""
    registry = _import_own("crowdwise.aggregate.registry")
    if registry is None:
        return "*No methods are registered yet.*"
    rows = ["| Method | What it does | Family | Needs | Reference |", "|---|---|---|---|---|"]
    for name, method in registry.METHODS.items():
        notes = f"methods/{name}.md"
        title = f"[`{name}`]({notes})" if files.get_file_from_path(notes) else f"`{name}`"
        cells = [title, *(_cell(getattr(method, field, "")) for field in ("summary", "family", "needs", "reference"))]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def api_directives() -> str:
    """Return one mkdocstrings directive per name in `crowdwise.__all__`, in that order."""
    crowdwise = import_module("crowdwise")
    targets = []
    for name in getattr(crowdwise, "__all__", ()):
        value = getattr(crowdwise, name)
        if isinstance(value, ModuleType):
            targets.append(value.__name__)
        elif hasattr(value, "__module__"):  # not so for constants such as __version__
            # Where it is defined: mkdocstrings reads source and cannot follow the package's lazy exports.
            targets.append(f"{value.__module__}.{value.__qualname__}")
    return "\n\n".join(f"::: {target}" for target in targets or ["crowdwise.annotations", "crowdwise.errors"])


def _import_own(module: str) -> ModuleType | None:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        # A missing dependency of a module that does exist is a fault, not an absence.
        if error.name is None or not module.startswith(error.name):
            raise
        return None


def _cell(value: object) -> str:
    if isinstance(value, (list, tuple, set, frozenset)):
        value = ", ".join(str(part) for part in value)
    return str(value or "").replace("|", "\\|").replace("\n", " ")
