"""``crowdwise methods``: the registry, and the settings of each method."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from crowdwise.cli.options import Json

EXAMPLES = "Example: crowdwise methods\n\nSettings of one: crowdwise methods dawid-skene"


def run(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this method's settings.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods; with a name, its settings for --set with their defaults."""
    from crowdwise.cli.display import print_rows
    from crowdwise.cli.outputs import print_json
    from crowdwise.estimator.registry import METHODS, make

    if name is not None:
        make(name)  # refuses an unknown name and suggests a known one
    chosen = [method for method in METHODS if name in (None, method)]
    if as_json:
        print_json([_document(method) for method in chosen])
    elif name is None:
        names = ["name", "family", "summary", "needs", "on_shards", "reference"]
        rows = [[_shown_fact(_facts(method)[column]) for column in names] for method in chosen]
        print_rows([column.replace("_", " ") for column in names], rows)
    else:
        method = METHODS[name]
        print(f"{method.name}: {method.summary} ({method.family}; needs {method.needs}). {method.reference}")
        settings = [[entry["name"], _shown(entry["default"]), entry["about"]] for entry in _document(name)["settings"]]
        print_rows(["setting", "default", "about"], settings)


def _facts(name: str) -> dict[str, Any]:
    from crowdwise.estimator.registry import METHODS

    method = METHODS[name]
    facts = {column: getattr(method, column) for column in ("name", "family", "summary", "needs", "reference")}
    return facts | {"on_shards": bool(getattr(method, "additive", False))}


def _shown_fact(value: Any) -> str:
    return ("yes" if value else "") if isinstance(value, bool) else str(value)


def _document(name: str) -> dict[str, Any]:
    from crowdwise.errors import MissingExtraError
    from crowdwise.estimator.registry import METHODS
    from crowdwise.estimator.settings import describe_settings

    try:
        return _facts(name) | {"settings": describe_settings(METHODS[name].cls)}
    except MissingExtraError:
        # The list of all methods is no less true without torch; asked for by name, `make` has said what to install.
        return _facts(name) | {"settings": None}


def _shown(default: Any) -> str:
    """A default as it would be typed after --set."""
    return default if isinstance(default, str) else json.dumps(default, default=str)
