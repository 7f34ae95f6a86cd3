"""``crowdwise explain``: why an item got its label."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crowdwise.cli.declare import argument, flag, option
from crowdwise.cli.fitting import result_of
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions
from crowdwise.cli.screen import print_json, print_rows
from crowdwise.errors import SettingError

EXAMPLES = "Example: crowdwise explain photo-007 votes.csv\n\nOf a saved model: crowdwise explain photo-007 --from model"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is read and printed."""

    wanted: str = argument("ITEM", "The id of the item.")
    votes: str | None = argument("VOTES", VOTES_OR_SAVED, None)
    source: Path | None = option("--from", "DIR", "A folder written by --save, instead of VOTES.")
    as_json: bool = flag("--json", "Print JSON on stdout.")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Show how much the class prior and each vote moved the label of one item.

    Contributions add up: to the log-odds of the label against the runner-up or, for methods that
    count votes, to the difference of their shares.
    """
    from crowdwise.estimator.outcome import Result
    from crowdwise.report import explanation_text

    if (options.votes is None) == (options.source is None):
        raise SettingError("give either VOTES or --from DIR")
    result = Result.load(options.source) if options.votes is None else result_of(options.votes, read, method)  # type: ignore[arg-type]
    why = result.explain(options.wanted)
    if options.as_json:
        print_json(explanation_text.explanation_document(why))
        return
    print(explanation_text.explanation_heading(why))
    names, rows = explanation_text.explanation_rows(why)
    print_rows(names, rows, right=[why.unit])
    for line in explanation_text.explanation_notes(why):
        print(line)
