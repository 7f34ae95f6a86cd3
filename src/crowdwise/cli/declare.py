"""How options are declared: a group of options is a frozen dataclass whose fields are made by these functions.

`crowdwise.cli.app` turns the fields of the groups that a command takes into its options.
"""

from __future__ import annotations

from dataclasses import MISSING, field
from typing import Any

import typer

__all__ = ["OPTION", "argument", "column", "file", "flag", "option"]

# The key under which a field's metadata holds its option.
OPTION = "option"


def option(
    names: str, metavar: str, about: str, default: Any = None, panel: str | None = None, shown: str | None = None
) -> Any:
    """Declare an option: its names, what stands for its value, a sentence; `shown` is the default in words."""
    shown_default = True if shown is None else shown
    made = typer.Option(*names.split(), metavar=metavar, help=about, rich_help_panel=panel, show_default=shown_default)
    return field(default=default, metadata={OPTION: made})


def flag(names: str, about: str, panel: str | None = None) -> Any:
    """Declare an option without a value; typer would show the type <bool>."""
    return option(names, "", about, False, panel)


def file(name: str, about: str, panel: str | None = None) -> Any:
    """Declare an option that names a file."""
    return option(name, "FILE", about, None, panel)


def column(name: str, what: str, panel: str) -> Any:
    """Declare an option that names a column of the input."""
    return option(name, "COLUMN", f"Name of the {what} column.", None, panel, "found by its name")


def argument(metavar: str, about: str, default: Any = MISSING) -> Any:
    """Declare what stands without a name."""
    return field(default=default, metadata={OPTION: typer.Argument(metavar=metavar, help=about)})
