"""``crowdwise methods``: the registry, and the settings of each method."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from crowdwise.cli.declare import argument, flag
from crowdwise.cli.job import print_json, print_rows

EXAMPLES = "Example: crowdwise methods\n\nSettings of one: crowdwise methods dawid-skene"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked and printed."""

    name: str | None = argument("NAME", "Show the settings of this method.", None)
    as_json: bool = flag("--json", "Print JSON on stdout.")


def run(options: Options) -> None:
    """List the methods; with a name, its settings for --set with their defaults."""
    from crowdwise.estimator.registry import METHODS, find

    name = options.name
    if name is not None:
        find(name).cls  # noqa: B018  refuses an unknown name, suggests a known one, says what to install
    chosen = [method for method in METHODS if name in (None, method)]
    if options.as_json:
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
    return facts | {"on_shards": method.shards}


def _shown_fact(value: Any) -> str:
    return ("yes" if value else "") if isinstance(value, bool) else str(value)


def _document(name: str) -> dict[str, Any]:
    from crowdwise.errors import MissingExtraError
    from crowdwise.estimator.estimator import describe_settings
    from crowdwise.estimator.registry import METHODS

    # What the name stands for, where one class serves several.
    own = METHODS[name].settings
    try:
        settings = [
            entry | {"default": own.get(entry["name"], entry["default"])} for entry in describe_settings(METHODS[name].cls)
        ]
        return _facts(name) | {"settings": settings}
    except MissingExtraError:
        # The list of all methods is no less true without torch; asked for by name, `find` has said what to install.
        return _facts(name) | {"settings": None}


def _shown(default: Any) -> str:
    """A default as it would be typed after --set."""
    return default if isinstance(default, str) else json.dumps(default, default=str)
