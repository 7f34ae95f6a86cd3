"""MkDocs hook: the pages' lists of methods and of public names, taken from the code so that they cannot go stale."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

METHODS_MARKER = "<!-- methods-table -->"
API_MARKER = "<!-- public-names -->"
ESTIMATORS_MARKER = "<!-- estimators -->"
LAYERS_MARKER = "<!-- layers -->"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the notes on methods below the table of methods, by family, in the order of the registry."""
    families: dict[str, list[dict[str, str]]] = {}
    for name, method in methods().items():
        if (Path(config.docs_dir) / "methods" / f"{name}.md").is_file():
            families.setdefault(method.family, []).append({name: f"methods/{name}.md"})
    for entry in config.nav or []:
        if entry.get("Methods") == "methods.md":
            entry["Methods"] = [{"All methods": "methods.md"}, *({family: notes} for family, notes in families.items())]
    return config


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: Any) -> str:
    """Replace the markers by what the installed package says of itself."""
    if METHODS_MARKER in markdown:
        markdown = markdown.replace(METHODS_MARKER, methods_table(files))
    if API_MARKER in markdown:
        markdown = markdown.replace(API_MARKER, api_directives())
    if ESTIMATORS_MARKER in markdown:
        markdown = markdown.replace(ESTIMATORS_MARKER, estimator_sections(files))
    if LAYERS_MARKER in markdown:
        markdown = markdown.replace(LAYERS_MARKER, layers())
    return markdown


def methods_table(files: Files) -> str:
    """Return one row per registered method; its name links to its notes where they exist."""
    rows = ["| Method | What it does | Family | Needs | On shards | Reference |", "|---|---|---|---|---|---|"]
    for name, method in methods().items():
        cells = [_title(name, files), *(table_cell(getattr(method, field)) for field in ("summary", "family", "needs"))]
        cells += ["yes" if method.shards else "", table_cell(method.reference)]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def api_directives() -> str:
    """Return one mkdocstrings directive per name in `crowdwise.__all__` that is no method, in that order."""
    crowdwise = import_module("crowdwise")
    estimators = {method.cls for method in methods().values()}
    values = [getattr(crowdwise, name) for name in crowdwise.__all__ if name != "__version__"]
    values = [value for value in values if not isinstance(value, ModuleType)]
    # Where it is defined: mkdocstrings reads source and cannot follow the package's lazy exports.
    targets = [f"{value.__module__}.{value.__qualname__}" for value in values if value not in estimators]
    return "\n\n".join(f"::: {target}\n    options:\n      heading_level: 3" for target in targets)


def estimator_sections(files: Files) -> str:
    """Return, for every class, the methods it serves, the first line of its docstring and a table of its settings."""
    describe = import_module("crowdwise.estimator.estimator").describe_settings
    names: dict[type, list[str]] = {}
    for name, method in methods().items():
        names.setdefault(method.cls, []).append(name)
    sections = []
    for cls, served in names.items():
        rows = [
            f"| `{entry['name']}` | `{entry['default']!r}` | {table_cell(entry['about'])} |"
            for entry in describe(cls)
            if not is_shared(cls, entry)
        ]
        titles = ", ".join(_title(name, files) for name in served)
        about = (cls.__doc__ or "").strip().partition("\n")[0]
        table = ["| Setting | Default | |", "|---|---|---|", *rows] if rows else ["No settings of its own."]
        sections.append("\n".join([f"### {cls.__name__} {{ #{class_anchor(cls)} }}", "", f"{titles}: {about}", "", *table]))
    return "\n\n".join(sections)


def layers() -> str:
    """Return the layers of the import-linter contract, one line each."""
    # Not by tomllib, which Python 3.10 lacks.
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r"^layers = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert found, "pyproject.toml has no layers"
    lines = [re.sub(r"[()]", "", line) for line in re.findall(r'"(.*)"', found[1])]
    return "\n".join(["```text", *(", ".join(re.split(r" [:|] ", line)) for line in lines), "```"])


def class_anchor(cls: type) -> str:
    """Where a class stands on the API page."""
    return f"class-{cls.__name__.lower()}"


def is_shared(cls: type, entry: dict[str, Any]) -> bool:
    """Say whether a setting is the one of the base class, default and all."""
    neural = import_module("crowdwise.methods.classify.neural").NeuralClassifier
    base = neural if issubclass(cls, neural) else import_module("crowdwise.methods.labels.dawid_skene").IterativeAggregator
    shared = {field.name: field.default for field in fields(base)}
    return entry["name"] in shared and entry["default"] == shared[entry["name"]]


def methods() -> dict[str, Any]:
    """The registry, with everything that importing the package registers."""
    import_module("crowdwise")
    methods: dict[str, Any] = import_module("crowdwise.estimator.registry").METHODS
    return methods


def _title(name: str, files: Files) -> str:
    notes = f"methods/{name}.md"
    return f"[`{name}`]({notes})" if files.get_file_from_path(notes) else f"`{name}`"


def table_cell(value: object) -> str:
    """A value as one cell of a Markdown table."""
    if isinstance(value, (list, tuple, set, frozenset)):
        value = ", ".join(str(part) for part in value)
    return str(value or "").replace("|", "\\|").replace("\n", " ")
