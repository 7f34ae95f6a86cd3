"""The app: one verb per job, each in a module of its own."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from crowdwise import __version__
from crowdwise.cli.command import Group, paragraphs, register

__all__ = ["app", "main"]

app = typer.Typer(
    name="crowdwise",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    # Python's own traceback: --debug is for people who report bugs, and they paste it.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: crowdwise demo\n\nThen: crowdwise aggregate votes.csv -o labels.csv",
)


def _version(asked: bool) -> None:
    if asked:
        print(f"crowdwise {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Labels you can trust from the noisy votes of many annotators.

    Results go to stdout or to whole files; everything else to stderr. Exit codes: 0 fine, 1 the
    data or the run is at fault, 2 wrong usage, 130 interrupted.
    """


app.callback(help=paragraphs(_root))(_root)
# Every command is a module of this package, with `run` and `EXAMPLES`.
_PANELS = {
    "Labels from votes": "aggregate annotators explain calibrate review audit report compare summary fairness",
    "Classifiers from features and votes": "train predict",
    "Answers that are not one class per item": "rank regress cluster spans",
    "Campaigns": "suggest plan simulate-campaign",
    "Files, methods, examples": "convert simulate methods demo",
}
for _panel, _names in _PANELS.items():
    for _name in _names.split():
        _module = import_module(f"crowdwise.cli.{_name.replace('-', '_')}")
        register(app, _module.run, name=_name, examples=_module.EXAMPLES, panel=_panel)


def main() -> None:
    """Run the command line; the console script and ``python -m crowdwise`` both start here."""
    app(prog_name="crowdwise")
