"""``crowdwise annotators``: how reliable is everyone, and who deserves a look."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from crowdwise.cli.declare import argument, flag, group, option, plot, share
from crowdwise.cli.fitting import ANONYMOUS, read_times, result_of
from crowdwise.cli.job import Job, steps
from crowdwise.cli.options import FDR, VOTES_OR_SAVED, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import SettingError

# Rows that a terminal shows.
_SCREEN = 40
EXAMPLES = (
    "Example: crowdwise annotators votes.csv -o annotators.csv\n\n"
    "Of a saved model: crowdwise annotators model\n\n"
    "With times and a plot: crowdwise annotators votes.csv --time created_at --plot confusions.png"
)
TIME = "Name of the column of the votes' times: tests who changed along them."


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    time: str | None = option("--time", "COLUMN", TIME)
    fdr: float = share("--fdr", "Share of wrong flags to expect among the flags of a check.", FDR)
    drop_spammers: bool = flag("--drop-spammers", "Fit again without the votes of spammers, who are listed.")
    plot: Path | None = plot("the confusion matrices")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Rank the annotators: accuracy with its interval, information in bits, worst confusion, and flags with reasons.

    Flags are spammer, copier (agrees too much with somebody), colluder, group (shares errors with
    others), drift (changes along --time), worse than chance, no better than chance, always the same
    label, and unknown (too few votes to say). They rest on confusion matrices: without
    --method these are consensus's.
    """
    from crowdwise.report.plot.crowd import plot_confusions
    from crowdwise.report.trust_text import flag_lines, reason_lines
    from crowdwise.trust.crowd.dependence import find, settled
    from crowdwise.trust.crowd.table import examine, for_terminal, with_dropped

    job = Job(options, method)
    times = read_times(options.votes, read, options.time)
    result = result_of(options.votes, read, method)
    if result.votes.anonymous:
        raise SettingError(ANONYMOUS.format("crowdwise annotators"))
    with steps() as progress:
        shared = settled(result, find(result.votes), method.trusted or ())
        found = examine(result, fdr=options.fdr, time=times, shared=shared, progress=progress)
        table, dropped = found.table, list[Any]()
        if options.drop_spammers:
            from crowdwise.cli.factions import without_spammers

            result, dropped = without_spammers(result, found.spammers, bool(shared))
        if dropped:
            table = with_dropped(table, examine(result, fdr=options.fdr, time=times, progress=progress).table)
    job.file("--plot", lambda path: f"{plot_confusions(result, path)} confusion matrices")
    job.main(table, "annotator", screen=for_terminal, limit=_SCREEN)
    if options.output is None and not options.as_json and sys.stdout.isatty():
        print("\n".join(reason_lines(table)))
    job.say(flag_lines(found, bool(dropped)))
