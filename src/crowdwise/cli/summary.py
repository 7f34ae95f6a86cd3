"""``crowdwise summary``: counts and agreement."""

from __future__ import annotations

from crowdwise.cli.options import Json, ReadOptions, VotesPath

EXAMPLES = "Example: crowdwise summary votes.csv"


def run(votes: VotesPath, read: ReadOptions, as_json: Json = False) -> None:
    """Count votes, items, annotators and classes, and measure how far annotators agree."""
    from crowdwise.cli.display import print_pairs
    from crowdwise.cli.inputs import read_votes
    from crowdwise.cli.outputs import print_json

    found = read_votes(votes, read).summary()
    if as_json:
        print_json(found)
    else:
        print_pairs(found)
