"""``crowdwise annotators``: how reliable is everyone, and who deserves a look."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdwise.cli.options import (
    DropSpammers,
    FalseDiscovery,
    Json,
    Output,
    Quiet,
    ReadOptions,
    SpreadsheetSafe,
    SteadyMethodOptions,
    VotesOrSaved,
)
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.trust.crowd.table import Findings

# Rows that a terminal shows.
_SCREEN = 40
EXAMPLES = (
    "Example: crowdwise annotators votes.csv -o annotators.csv\n\n"
    "Of a saved model: crowdwise annotators model\n\n"
    "With times and a plot: crowdwise annotators votes.csv --time created_at --plot confusions.png"
)


def run(
    votes: VotesOrSaved,
    read: ReadOptions,
    method: SteadyMethodOptions,
    output: Output = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Column of the votes' times: tests who changed along them.")
    ] = None,
    fdr: FalseDiscovery = 0.05,
    drop_spammers: DropSpammers = False,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the confusion matrices (.png .pdf .svg); needs matplotlib."),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Rank the annotators: accuracy with its interval, information in bits, worst confusion, and flags with reasons.

    Flags are spammer, copier (agrees too much with somebody), colluder, group (shares errors with
    others), drift (changes along --time), worse than chance, no better than chance, always the same
    label, and unknown (too few votes to tell from chance). They rest on confusion matrices: without
    --method these are dawid-skene's.
    """
    from crowdwise.cli.inputs import STEADY_METHOD, read_times, result_of
    from crowdwise.cli.outputs import check_outputs, emit, print_json
    from crowdwise.cli.text import say
    from crowdwise.trust.crowd.pruning import refit_without
    from crowdwise.trust.crowd.report import check_level
    from crowdwise.trust.crowd.table import examine, for_terminal, with_dropped

    check_level(fdr)
    check_outputs({"-o": output}, (votes, method.gold, method.history))
    _check_plot(plot, (votes, method.gold, method.history, output))
    times = None if time is None else read_times(votes, read, time)
    result = result_of(votes, read, method, quiet, STEADY_METHOD)
    found = examine(result, fdr=fdr, time=times)
    table = found.table
    if drop_spammers and found.spammers:
        result = refit_without(result, found.spammers)
        table = with_dropped(table, examine(result, fdr=fdr, time=times).table)
    if plot is not None:
        from crowdwise.report.plot.crowd import plot_confusions

        drawn = plot_confusions(result, plot)
        if not quiet:
            say(f"wrote {plot}: {drawn} confusion matrices")
    if output is None and not as_json and sys.stdout.isatty():
        # Those who deserve a look come first where not all fit a screen.
        shown = table.sort(table["flags"].is_in(["", "unknown"]), maintain_order=True) if table.height > _SCREEN else table
        emit(for_terminal(shown), None, "annotator", limit=_SCREEN)
        _print_reasons(table)
    elif not as_json or output is not None:
        emit(table, output, "annotator", limit=200, quiet=quiet, safe=spreadsheet_safe)
    if as_json:
        print_json(table.to_dicts())
    if not quiet:
        _tell(found, drop_spammers)


def _print_reasons(table: pl.DataFrame, most: int = 20) -> None:
    """Why the flagged are flagged, a line each."""
    from crowdwise.cli.text import one_line

    flagged = table.filter((table["flags"] != "") & (table["flags"] != "unknown"))
    for row in flagged.head(most).iter_rows(named=True):
        print(one_line(f"{row['annotator']}: {row['reasons']}"))
    if flagged.height > most:
        print(f"... and {flagged.height - most} more; write all with -o FILE")


def _check_plot(plot: Path | None, inputs: tuple[str | Path | None, ...]) -> None:
    from crowdwise.cli.outputs import check_outputs
    from crowdwise.report.plot.figure_file import SUFFIXES

    if plot is not None:
        if not str(plot).lower().endswith(SUFFIXES):
            raise SettingError(f"--plot: {plot}: a plot ends in {', '.join(SUFFIXES)}")
        check_outputs({"--plot": plot}, inputs, tables=False)


def _tell(found: Findings, dropped: bool) -> None:
    """Name the flagged on stderr, kind by kind."""
    from crowdwise.cli.text import one_line, say

    for kind, report in found.reports.items():
        if report.flagged:
            names = ", ".join(one_line(name) for name in report.flagged[:10])
            more = f" and {len(report.flagged) - 10} more" if len(report.flagged) > 10 else ""
            say(f"{'dropped, ' if dropped and kind == 'spammer' else ''}{kind}: {names}{more}")
    for note in found.notes:
        say(f"note: {one_line(note)}")
