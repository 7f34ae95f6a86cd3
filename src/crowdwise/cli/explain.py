"""``crowdwise explain``: why an item got its label."""

from __future__ import annotations

from crowdwise import report
from crowdwise.cli.declare import argument, group
from crowdwise.cli.fitting import result_of, sharing
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions, ScreenOptions
from crowdwise.cli.screen import print_json, print_rows

EXAMPLES = "Example: crowdwise explain photo-007 votes.csv\n\nOf a saved model: crowdwise explain photo-007 model"


@group
class Options(ScreenOptions):
    """What is read and printed."""

    wanted: str = argument("ITEM", "The id of the item.")
    votes: str = argument("VOTES", VOTES_OR_SAVED)


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Show who said what of one item, how far each vote moved its label, and why it is not surer.

    Contributions of votes and class prior add up: to the log-odds of the label against the runner-up or, for methods that
    count votes, to the difference of their shares.
    """
    result = result_of(options.votes, read, method)
    why = result.explain(options.wanted)
    if options.as_json:
        print_json(report.explanation_document(why))
        return
    for line in report.explanation_summary(why):
        print(line)
    names, rows = report.explanation_rows(why)
    print_rows(names, rows, right=[why.unit])
    for line in report.explanation_notes(why, sharing(options.votes, result)):
        print(line)
