"""``crowdwise explain``: why an item got its label."""

from __future__ import annotations

from crowdwise.cli.declare import argument, group
from crowdwise.cli.fitting import is_saved, result_of
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions, ScreenOptions
from crowdwise.cli.screen import print_json, print_rows

EXAMPLES = "Example: crowdwise explain photo-007 votes.csv\n\nOf a saved model: crowdwise explain photo-007 model"


@group
class Options(ScreenOptions):
    """What is read and printed."""

    wanted: str = argument("ITEM", "The id of the item.")
    votes: str = argument("VOTES", VOTES_OR_SAVED)


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Show how much the class prior and each vote moved the label of one item.

    Contributions add up: to the log-odds of the label against the runner-up or, for methods that
    count votes, to the difference of their shares.
    """
    from crowdwise.engines.independence import find
    from crowdwise.report import explanation_text

    result = result_of(options.votes, read, method)
    why = result.explain(options.wanted)
    if options.as_json:
        print_json(explanation_text.explanation_document(why))
        return
    print(explanation_text.explanation_heading(why))
    names, rows = explanation_text.explanation_rows(why)
    print_rows(names, rows, right=[why.unit])
    # What the fit looked for is remembered; a saved model keeps its confidence as it is.
    shared = not is_saved(options.votes) and bool(find(result.votes))
    for line in explanation_text.explanation_notes(why, shared):
        print(line)
