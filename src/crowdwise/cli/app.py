"""The app: one verb per job, each in a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

from crowdwise import __version__
from crowdwise.cli import (
    aggregate,
    annotators,
    calibrate,
    cluster,
    compare,
    convert,
    demo,
    explain,
    fairness,
    methods,
    plan,
    predict,
    rank,
    regress,
    report,
    review,
    simulate,
    simulate_campaign,
    spans,
    suggest,
    summary,
    train,
)
from crowdwise.cli.command import paragraphs, register

__all__ = ["app", "main"]

app = typer.Typer(
    name="crowdwise",
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
_PANELS = {
    "Labels from votes": (aggregate, annotators, explain, calibrate, review, report, compare, summary, fairness),
    "Classifiers from features and votes": (train, predict),
    "Answers that are not one class per item": (rank, regress, cluster, spans),
    "Campaigns": (suggest, plan, simulate_campaign),
    "Files, methods, examples": (convert, simulate, methods, demo),
}
for panel, modules in _PANELS.items():
    for module in modules:
        name = module.__name__.rpartition(".")[2].replace("_", "-")
        register(app, module.run, name=name, examples=module.EXAMPLES, panel=panel)


def main() -> None:
    """Run the command line; the console script and ``python -m crowdwise`` both start here."""
    app(prog_name="crowdwise")
