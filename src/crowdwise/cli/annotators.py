"""``crowdwise annotators``: how reliable is everyone, and who deserves a look."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import report
from crowdwise.cli import fitting
from crowdwise.cli.declare import argument, file, flag, group, option, plot, share
from crowdwise.cli.job import Job, naming, say, steps
from crowdwise.cli.options import FDR, GROUPS, VOTES_OR_SAVED, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import SettingError
from crowdwise.trust import crowd

# Rows that a terminal shows.
_SCREEN = 40
EXAMPLES = (
    "Example: crowdwise annotators votes.csv -o annotators.csv\n\n"
    "Of a saved model: crowdwise annotators model\n\n"
    "Judges of a few families: crowdwise annotators verdicts.csv --groups families.csv\n\n"
    "A detector by name: crowdwise annotators votes.csv --detector spem --detector eigen-ratio\n\n"
    "With times and a plot: crowdwise annotators votes.csv --time created_at --plot confusions.png"
)
_DETECTOR = "A further detector, as a column of scores: spem, ghosh, eigen-ratio or jaffe:N (N groups). May be repeated."
TIME = "Name of the column of the votes' times: tests who changed along them."


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    time: str | None = option("--time", "COLUMN", TIME)
    groups: Path | None = file("--groups", GROUPS)
    fdr: float = share("--fdr", "Share of wrong flags to expect among the flags of a check.", FDR)
    detector: list[str] | None = option("--detector", "NAME", _DETECTOR)
    drop_spammers: bool = flag("--drop-spammers", "Fit again without the votes of spammers, who are listed.")
    plot: Path | None = plot("the confusion matrices")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Rank the annotators: accuracy with its interval, information in bits, worst confusion, and flags with reasons.

    Flags are spammer, copier (agrees too much with somebody), colluder, group (shares errors with
    others), drift (changes along --time), worse than chance, no better than chance, always the same
    label, and unknown (too few votes to say). They rest on confusion matrices: without
    --method these are consensus's. With --groups, everybody is judged by a fit in which every group counts as one.
    """
    job = Job(options, method)
    _check(options, method)
    times = fitting.read_times(options.votes, read, options.time)
    result, shared, grouped = _judged(options, read, method)
    look = partial(crowd.table.examine, fdr=options.fdr, time=times, detectors=options.detector or ())
    with steps() as progress:
        found = look(result, shared=shared, progress=progress)
        table, dropped = found.table, list[Any]()
        if options.drop_spammers:
            result, dropped = report.without_spammers(result, found.spammers, shared, say)
        if dropped:
            table = crowd.table.with_dropped(table, look(result, progress=progress).table)
    table = table if grouped is None else grouped.named(table)
    job.file("--plot", lambda path: f"{report.plot.plot_confusions(result, path)} confusion matrices")
    job.main(table, "annotator", screen=crowd.table.for_terminal, limit=_SCREEN)
    if options.output is None and not options.as_json and sys.stdout.isatty():
        print("\n".join(report.reason_lines(table)))
    job.say(report.flag_lines(found, bool(dropped)))


def _check(options: Options, method: MethodOptions) -> None:
    """Refuse unknown detectors, and options that do not go together."""
    if options.groups is not None:
        fitting.check_groups(method, (options, ["drop_spammers"]))
    if options.detector:
        with naming("--detector"):
            for name in options.detector:
                crowd.named.check_named(name)


def _judged(
    options: Options, read: ReadOptions, method: MethodOptions
) -> tuple[crowdwise.Result, crowd.dependence.Dependence, report.Grouped | None]:
    """The fit that annotators are judged by, and who shares errors; with --groups, a fit in which every group counts as one."""
    if options.groups is not None:
        return _by_groups(options.votes, options.groups, read, method)
    result = fitting.result_of(options.votes, read, method) if fitting.is_saved(options.votes) else None
    if result is None:
        estimator, votes = fitting.build(method), _named_votes(options.votes, read)
        result = fitting.fit_to(votes, estimator, method).result_
    trusted = method.trusted or ()
    shared = crowd.dependence.settled(result, crowd.dependence.find(result.votes), trusted)
    if shared or trusted:
        say(
            *report.trusted_lines(shared, result.votes, trusted),
            *report.dependence_lines(shared, result.votes, "judged"),
        )
    return result, shared, None


def _by_groups(
    path: str, groups: Path, read: ReadOptions, method: MethodOptions
) -> tuple[crowdwise.Result, crowd.dependence.Dependence, report.Grouped]:
    if fitting.is_saved(path):
        raise SettingError(f"--groups: {path} is a saved model; name the file of votes, to fit them again")
    estimator, votes = fitting.build(method), _named_votes(path, read)
    grouped = fitting.read_grouped(votes, groups)
    result = fitting.fit_to(grouped.fused, estimator, method).result_
    say(*report.dependence_lines(crowd.dependence.find(grouped.fused), grouped.fused, "judged"))
    # Readings of the votes that the table of groups does not contradict.
    shared = crowd.dependence.Dependence(
        tuple(reading for reading in crowd.dependence.find(votes).readings if grouped.explains(reading))
    )
    return crowd.members.judged(result, votes, grouped.code), shared, grouped


def _named_votes(path: str, read: ReadOptions) -> crowdwise.Annotations:
    votes = fitting.read_votes(path, read)
    if votes.anonymous:
        raise SettingError(fitting.ANONYMOUS.format("crowdwise annotators"))
    return votes
