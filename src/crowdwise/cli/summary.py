"""``crowdwise summary``: counts and agreement."""

from __future__ import annotations

from dataclasses import dataclass

from crowdwise.cli.declare import argument, flag
from crowdwise.cli.fitting import read_votes
from crowdwise.cli.options import VOTES, ReadOptions
from crowdwise.cli.screen import print_json, print_pairs

EXAMPLES = "Example: crowdwise summary votes.csv"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is read and printed."""

    votes: str = argument("VOTES", VOTES)
    as_json: bool = flag("--json", "Print JSON on stdout.")


def run(options: Options, read: ReadOptions) -> None:
    """Count votes, items, annotators and classes, and measure how far annotators agree."""
    found = read_votes(options.votes, read).summary()
    (print_json if options.as_json else print_pairs)(found)
