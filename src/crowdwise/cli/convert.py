"""``crowdwise convert``: votes from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdwise.cli.options import Quiet, ReadOptions, SpreadsheetSafe, VotesPath
from crowdwise.errors import SettingError, did_you_mean

EXAMPLES = (
    "Example: crowdwise convert export.json -o votes.csv\n\n"
    "To a platform: crowdwise convert votes.csv --to label-studio -o tasks.json"
)


def run(
    votes: VotesPath,
    read: ReadOptions,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file to write.")],
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="tidy (by suffix), wide, answers, label-studio, prodigy, toloka ...")
    ] = "tidy",
    spreadsheet_safe: SpreadsheetSafe = False,
    quiet: Quiet = False,
) -> None:
    """Read votes in any known format and write them in another, whole or not at all."""
    from crowdwise.cli.inputs import read_votes
    from crowdwise.cli.outputs import check_outputs, to_stdout
    from crowdwise.cli.text import count, say
    from crowdwise.io import DESTINATIONS, convert

    if to not in DESTINATIONS:
        raise SettingError(
            f"cannot convert to {to!r}{did_you_mean(to, list(DESTINATIONS))} (there are {', '.join(DESTINATIONS)})"
        )
    if to_stdout(output):
        raise SettingError("convert writes files; name one with -o")
    # The other formats have suffixes of their own, which `convert` knows.
    check_outputs({"-o": output}, (votes,), tables=to == "tidy")
    data = convert(read_votes(votes, read), output, to=to, spreadsheet_safe=spreadsheet_safe)
    if not quiet:
        say(f"wrote {output}: {count(data.n_votes, 'vote')} on {count(data.n_items, 'item')}")
        if data.n_missing:
            say(f"dropped {count(data.n_missing, 'missing label')}")
