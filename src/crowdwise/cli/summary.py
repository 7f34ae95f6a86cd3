"""``crowdwise summary``: counts and agreement."""

from __future__ import annotations

from crowdwise.cli.declare import argument, group
from crowdwise.cli.fitting import read_votes
from crowdwise.cli.options import VOTES, ReadOptions, ScreenOptions
from crowdwise.cli.screen import print_answer
from crowdwise.report.text import pair_lines

EXAMPLES = "Example: crowdwise summary votes.csv"


@group
class Options(ScreenOptions):
    """What is read and printed."""

    votes: str = argument("VOTES", VOTES)


def run(options: Options, read: ReadOptions) -> None:
    """Count votes, items, annotators and classes, and measure how far annotators agree."""
    found = read_votes(options.votes, read).summary()
    print_answer(options.as_json, lambda: found, lambda: pair_lines(found))
