"""``crowdwise explain``: why an item got its label."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from crowdwise.cli.options import Json, MethodOptions, ReadOptions
from crowdwise.errors import SettingError

EXAMPLES = "Example: crowdwise explain photo-007 votes.csv\n\nOf a saved model: crowdwise explain photo-007 --from model"


def run(
    wanted: Annotated[str, typer.Argument(metavar="ITEM", help="The id of the item.")],
    read: ReadOptions,
    method: MethodOptions,
    votes: Annotated[str | None, typer.Argument(metavar="VOTES", help="Votes (- reads stdin), or a saved folder.")] = None,
    source: Annotated[Path | None, typer.Option("--from", metavar="DIR", help="A folder written by --save.")] = None,
    as_json: Json = False,
) -> None:
    """Show how much the class prior and each vote moved the label of one item.

    Contributions add up: to the log-odds of the label against the runner-up or, for methods that
    count votes, to the difference of their shares.
    """
    from crowdwise.cli.display import bar, print_rows
    from crowdwise.cli.inputs import result_of
    from crowdwise.cli.outputs import print_json
    from crowdwise.cli.text import number, one_line
    from crowdwise.estimator.result import Result

    if (votes is None) == (source is None):
        raise SettingError("give either VOTES or --from DIR")
    result = Result.load(source) if source is not None else result_of(str(votes), read, method)
    why = result.explain(wanted)
    if as_json:
        parts = {name: getattr(why, name) for name in ("item", "label", "against", "confidence", "unit", "total", "known")}
        print_json(parts | {"rows": why.rows.to_dicts()})
        return
    known = " (known: the votes did not decide it)" if why.known else ""
    print(f"{one_line(why.item)}: {one_line(why.label)}, probability {number(why.confidence)}{known}")
    largest = max((abs(value) for value in why.rows["contribution"]), default=0.0)
    rows = [[*row, bar(row[-1], largest)] for row in why.rows.rows()]
    rows.append(["total", None, why.total, ""])
    heading = f"for {one_line(why.label)}, against {one_line(why.against)}"
    print_rows(["source", "vote", why.unit, heading], rows, right=[why.unit])
