"""``crowdwise convert``: votes from one format to another."""

from __future__ import annotations

from dataclasses import MISSING
from pathlib import Path

from crowdwise import io
from crowdwise.cli.declare import TABLE, argument, flag, group, option
from crowdwise.cli.fitting import read_votes
from crowdwise.cli.job import Job, among, count, to_stdout
from crowdwise.cli.options import RAW, VOTES, QuietOptions, ReadOptions
from crowdwise.errors import SettingError
from crowdwise.report.text import dropped_lines

EXAMPLES = (
    "Example: crowdwise convert export.json -o votes.csv\n\n"
    "To a platform: crowdwise convert votes.csv --to label-studio -o tasks.json"
)


@group
class Options(QuietOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES)
    output: Path = option("-o --output", "FILE", "The file to write.", MISSING, place=TABLE)
    to: str = option("--to", "FORMAT", "Format: tidy (by suffix), wide, answers, label-studio, prodigy, toloka ...", "tidy")
    raw: bool = flag("--raw", RAW)


def run(options: Options, read: ReadOptions) -> None:
    """Read votes in any known format and write them in another, whole or not at all."""
    among("--to", options.to, io.DESTINATIONS)
    if to_stdout(options.output):
        raise SettingError("convert writes files; name one with -o")
    # The other formats have suffixes of their own, which `convert` knows.
    job = Job(options, own=[] if options.to == "tidy" else ["-o"])
    data = io.convert(read_votes(options.votes, read), options.output, to=options.to, spreadsheet_safe=not options.raw)
    job.say([f"wrote {options.output}: {count(data.n_votes, 'vote')} on {count(data.n_items, 'item')}"])
    job.say(dropped_lines(data.n_missing, 0, 0))
