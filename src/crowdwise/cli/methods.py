"""``crowdwise methods``: the registry, and the settings of each method."""

from __future__ import annotations

import json
from typing import Any

from crowdwise.cli.declare import argument, group
from crowdwise.cli.options import ScreenOptions
from crowdwise.cli.screen import print_json, print_rows
from crowdwise.estimator.registry import METHODS, find

EXAMPLES = "Example: crowdwise methods\n\nSettings of one: crowdwise methods dawid-skene"


@group
class Options(ScreenOptions):
    """What is asked and printed."""

    name: str | None = argument("NAME", "Show the settings of this method.", None)


def run(options: Options) -> None:
    """List the methods; with a name, its settings for --set with their defaults."""
    name = options.name
    if name is not None:
        find(name).cls  # noqa: B018  refuses an unknown name, suggests a known one, says what to install
    if options.as_json:
        print_json([method.describe() for method in METHODS.values() if name in (None, method.name)])
    elif name is None:
        rows = [[m.name, m.family, m.summary, m.needs, "yes" * m.shards, m.reference] for m in METHODS.values()]
        print_rows(["name", "family", "summary", "needs", "on shards", "reference"], rows)
    else:
        method = METHODS[name]
        print(f"{method.name}: {method.summary} ({method.family}; needs {method.needs}). {method.reference}")
        settings = [[entry["name"], _typed(entry["default"]), entry["about"]] for entry in method.describe()["settings"]]
        print_rows(["setting", "default", "about"], settings)


def _typed(default: Any) -> str:
    """A default as it would be typed after --set."""
    return default if isinstance(default, str) else json.dumps(default, default=str)
