"""How options are declared: a group of options is a frozen dataclass whose fields are made by these functions.

`crowdwise.cli.app` turns the fields of the groups that a command takes into its options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import typer

__all__ = ["INPUT", "LIMITS", "NAME", "OPTION", "PAGE", "PLACE", "PLOT", "SAVE", "TABLE", "argument", "column", "file", "flag"]
__all__ += ["folder", "group", "option", "output", "page", "panel", "plot", "share", "table"]

T = TypeVar("T")
# Keys of a field's metadata: its option, the name that messages use, what stands at the path that it holds, and the
# numbers between which it lies.
OPTION, NAME, PLACE, LIMITS = "option", "name", "place", "limits"
# What stands there: something to read, or what to write.
INPUT, TABLE, PAGE, PLOT, SAVE = "input", "table", "page", "plot", "save"


if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """Only type checkers read it."""
        return lambda made: made


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def group(cls: type[T]) -> type[T]:
    """Make a class a group of options."""
    return dataclass(frozen=True, kw_only=True)(cls)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def panel(title: str) -> Callable[[type[T]], type[T]]:
    """Make a class a group of options, which help shows below this title."""

    def made(cls: type[T]) -> type[T]:
        for name in vars(cls)["__annotations__"]:
            vars(cls)[name].metadata[OPTION].rich_help_panel = title
        return group(cls)

    return made


def option(
    names: str,
    metavar: str,
    about: str,
    default: Any = None,
    panel: str | None = None,
    shown: str | None = None,
    *,
    place: str | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare an option: its names, what stands for its value, a sentence; `shown` is the default in words.

    `place` says what stands at the path, for `crowdwise.cli.job.Job`; a number is `least` or more, or lies between `least`
    and `most`.
    """
    shown_default = True if shown is None else shown
    made = typer.Option(*names.split(), metavar=metavar, help=about, rich_help_panel=panel, show_default=shown_default)
    return field(default=default, metadata={OPTION: made, NAME: names.split()[0], PLACE: place, LIMITS: (least, most)})


def flag(names: str, about: str, panel: str | None = None) -> Any:
    """Declare an option without a value; typer would show the type <bool>."""
    return option(names, "", about, False, panel)


def share(names: str, about: str, default: float | None = None, panel: str | None = None) -> Any:
    """Declare an option that is a number between 0 and 1."""
    return option(names, "SHARE", about, default, panel, least=0, most=1)


def file(name: str, about: str, panel: str | None = None) -> Any:
    """Declare an option that names a file to read."""
    return option(name, "FILE", about, None, panel, place=INPUT)


def table(name: str, about: str, panel: str | None = None) -> Any:
    """Declare an option that names a table to write."""
    return option(name, "FILE", about, None, panel, place=TABLE)


def page(about: str = "Write a page to open in a browser (.html).", panel: str | None = None) -> Any:
    """Declare --page."""
    return option("--page", "FILE", about, None, panel, place=PAGE)


def output(suffixes: str = ".csv .tsv .jsonl .parquet ...") -> Any:
    """Declare -o, where the main table goes."""
    about = f"Write the table here ({suffixes}); - is stdout, as CSV."
    return option("-o --output", "FILE", about, shown="stdout", place=TABLE)


def plot(what: str, panel: str | None = None) -> Any:
    """Declare --plot."""
    return option("--plot", "FILE", f"Draw {what} (.png .pdf .svg); needs matplotlib.", None, panel, place=PLOT)


def folder(name: str, about: str, panel: str | None = None) -> Any:
    """Declare an option that names the folder of a model to write."""
    return option(name, "DIR", about, None, panel, place=SAVE)


def column(name: str, what: str, panel: str | None = None) -> Any:
    """Declare an option that names a column of the input."""
    return option(name, "COLUMN", f"Name of the {what} column.", None, panel, "found by its name")


def argument(metavar: str, about: str, default: Any = MISSING) -> Any:
    """Declare what stands without a name: what is read."""
    metadata = {OPTION: typer.Argument(metavar=metavar, help=about), NAME: metavar, PLACE: INPUT, LIMITS: (None, None)}
    return field(default=default, metadata=metadata)
