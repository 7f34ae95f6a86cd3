"""``crowdwise explain``: why an item got its label."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from crowdwise.cli.declare import argument, flag, option
from crowdwise.cli.fitting import result_of
from crowdwise.cli.job import bar, number, one_line, print_json, print_rows
from crowdwise.cli.options import VOTES_OR_SAVED, MethodOptions, ReadOptions
from crowdwise.errors import SettingError

EXAMPLES = "Example: crowdwise explain photo-007 votes.csv\n\nOf a saved model: crowdwise explain photo-007 --from model"

# Rows that are no votes.
_FURTHER = {
    "models": "several models were averaged, and the logarithm of a mean is not the mean of logarithms",
    "caution": "what experience with other crowds takes back, because votes share errors",
}


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

    if (options.votes is None) == (options.source is None):
        raise SettingError("give either VOTES or --from DIR")
    result = Result.load(options.source) if options.votes is None else result_of(options.votes, read, method)  # type: ignore[arg-type]
    why = result.explain(options.wanted)
    if options.as_json:
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
    for name, meaning in _FURTHER.items():
        if name in why.rows["source"]:
            print(f"{name}: {meaning}")
