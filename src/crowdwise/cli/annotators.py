"""``crowdwise annotators``: how reliable is everyone, and who deserves a look."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise.cli.declare import argument, file, flag, option
from crowdwise.cli.fitting import check_known, read_times, result_of
from crowdwise.cli.job import Job, one_line, steps
from crowdwise.cli.options import FDR, VOTES_OR_SAVED, MethodOptions, OutputOptions, ReadOptions

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.estimator.outcome import Result

# Rows that a terminal shows.
_SCREEN = 40
EXAMPLES = (
    "Example: crowdwise annotators votes.csv -o annotators.csv\n\n"
    "Of a saved model: crowdwise annotators model\n\n"
    "With times and a plot: crowdwise annotators votes.csv --time created_at --plot confusions.png"
)
TIME = "Name of the column of the votes' times: tests who changed along them."


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    time: str | None = option("--time", "COLUMN", TIME)
    fdr: float = option("--fdr", "SHARE", "Share of wrong flags to expect among the flags of a check.", FDR)
    drop_spammers: bool = flag("--drop-spammers", "Fit again without the votes of spammers, who are listed.")
    plot: Path | None = file("--plot", "Draw the confusion matrices (.png .pdf .svg); needs matplotlib.")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Rank the annotators: accuracy with its interval, information in bits, worst confusion, and flags with reasons.

    Flags are spammer, copier (agrees too much with somebody), colluder, group (shares errors with
    others), drift (changes along --time), worse than chance, no better than chance, always the same
    label, and unknown (too few votes to tell from chance). They rest on confusion matrices: without
    --method these are consensus's.
    """
    from crowdwise.report.trust_text import flag_lines
    from crowdwise.trust.crowd.pruning import refit_without
    from crowdwise.trust.crowd.report import check_level
    from crowdwise.trust.crowd.table import examine, with_dropped

    check_level(options.fdr)
    job = Job(options, (options.votes, method.gold, method.history), plot=options.plot)
    times = read_times(options.votes, read, options.time)
    result = result_of(options.votes, read, method, options.quiet)
    check_known(result.votes, {"crowdwise annotators": True})
    with steps(options.quiet) as progress:
        found = examine(result, fdr=options.fdr, time=times, progress=progress)
        table = found.table
        if options.drop_spammers and found.spammers:
            result = refit_without(result, found.spammers)
            table = with_dropped(table, examine(result, fdr=options.fdr, time=times, progress=progress).table)
    job.file("--plot", lambda path: _plot(result, path))
    job.main(table, "annotator", screen=_for_screen, limit=_SCREEN)
    if options.output is None and not options.as_json and sys.stdout.isatty():
        _print_reasons(table)
    job.say(flag_lines(found, options.drop_spammers))


def _plot(result: Result, path: Path) -> str:
    from crowdwise.report.plot.crowd import plot_confusions

    return f"{plot_confusions(result, path)} confusion matrices"


def _for_screen(table: pl.DataFrame) -> pl.DataFrame:
    """Those who deserve a look come first where not all fit a screen."""
    from crowdwise.trust.crowd.table import for_terminal

    fits = table.height <= _SCREEN
    return for_terminal(table if fits else table.sort(table["flags"].is_in(["", "unknown"]), maintain_order=True))


def _print_reasons(table: pl.DataFrame, most: int = 20) -> None:
    """Why the flagged are flagged, a line each."""
    flagged = table.filter((table["flags"] != "") & (table["flags"] != "unknown"))
    for row in flagged.head(most).iter_rows(named=True):
        print(one_line(f"{row['annotator']}: {row['reasons']}"))
    if flagged.height > most:
        print(f"... and {flagged.height - most} more; write all with -o FILE")
