"""``crowdwise report``: one page about the labels, the annotators and what to do next."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.fairness import Group, GroupsFile
from crowdwise.cli.options import FalseDiscovery, MethodOptions, Quiet, ReadOptions, VotesOrSaved
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.estimator.result import Result

EXAMPLES = (
    "Example: crowdwise report votes.csv -o report.html\n\n"
    "With true labels to check against: crowdwise report votes.csv -o report.html --truth truth.csv\n\n"
    "Of a saved model: crowdwise report model -o report.html"
)


def run(
    votes: VotesOrSaved,
    read: ReadOptions,
    method: MethodOptions,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page to write (.html).")] = Path(
        "report.html"
    ),
    truth: Annotated[
        Path | None,
        typer.Option("--truth", metavar="FILE", help="True labels to check against: item, label. The fit is not told."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="Write the labels of all items too, safe to open in a spreadsheet."),
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Column of the votes' times: tests who changed along them.")
    ] = None,
    price: Annotated[float | None, typer.Option("--price", metavar="AMOUNT", help="Price of one vote, for the plan.")] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Heading of the page.")] = None,
    group: Group = None,
    groups: GroupsFile = None,
    fdr: FalseDiscovery = 0.05,
    quiet: Quiet = False,
) -> None:
    """Write one page about a fit: labels and their certainty, items to review, annotators, calibration, and what votes buy.

    It needs no network and no other file. Tables can be searched and sorted; of large data the page holds the part worth
    reading first, and --labels writes all of it.
    """
    from datetime import date

    from crowdwise.cli.account import tell
    from crowdwise.cli.fairness import check_groups, item_groups
    from crowdwise.cli.inputs import read_gold, read_times
    from crowdwise.cli.outputs import check_outputs, write, wrote
    from crowdwise.report import write_report
    from crowdwise.trust.crowd.report import check_level

    check_level(fdr)
    if price is not None and not 0 <= price < float("inf"):
        raise SettingError(f"--price must be 0 or more; got {price}")
    if group is not None or groups is not None:
        check_groups(votes, group, groups)
    inputs = (votes, method.gold, method.history, truth, groups)
    check_outputs({"--labels": labels}, (*inputs, output))
    if output.suffix.lower() not in (".html", ".htm"):
        raise SettingError(f"-o: {output}: a page ends in .html")
    check_outputs({"-o": output}, inputs, tables=False)
    times = None if time is None else read_times(votes, read, time)
    fitted = _fitted(votes, read, method, quiet)
    result: Result = getattr(fitted, "result_", fitted)
    given = {"-o": output, "--truth": truth, "--labels": labels, "--time": time, "--price": price, "--title": title}
    given |= {"--group": group, "--groups": groups}
    made = {"Command": _command(votes, read, method, given | ({} if fdr == 0.05 else {"--fdr": fdr}))}
    for name, path in (("Votes", votes), ("Truth", truth), ("Gold", method.gold), ("Groups", groups)):
        made |= _fingerprint(name, path)
    made["Date"] = date.today().isoformat()
    known = None if truth is None else read_gold(truth, result.votes)
    found = None if group is None and groups is None else item_groups(votes, read, group, groups, result.votes)
    write_report(fitted, output, truth=known, title=title, time=times, price=price, fdr=fdr, groups=found, made=made)
    wrote(output, quiet)
    if labels is not None:
        write(result.items_frame(), labels, "item", quiet, safe=True)
    if not quiet:
        tell(result)


def _fitted(votes: str, read: ReadOptions, method: MethodOptions, quiet: bool) -> Any:
    """The result of a saved folder, or the estimator fitted to votes: it knows why it chose its method."""
    from crowdwise.cli.inputs import STDIN, fit, is_saved, result_of
    from crowdwise.estimator.loading import load

    if votes != STDIN and is_saved(votes):
        result = result_of(votes, read, method, quiet)
        # Of a choice, the estimator holds the reasons; of others the result holds all there is.
        return load(votes) if result.method.startswith("auto: ") else result
    return fit(votes, read, method, quiet)


def _command(votes: str, read: ReadOptions, method: MethodOptions, given: dict[str, Any]) -> str:
    """The command that makes the same page, from the options that were given."""
    words = ["crowdwise", "report", votes]
    for group in (read, method):
        for field in fields(group):
            value = getattr(group, field.name)
            if value != field.default:
                given = given | {f"--{field.name.replace('_', '-')}": value}
    for option, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None and one is not False:
                words += [option] if one is True else [option, str(one)]
    return shlex.join(words)


def _fingerprint(name: str, path: str | Path | None) -> dict[str, str]:
    """What says later whether a file is still the same."""
    if path is None or not Path(path).is_file():
        return {}
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read())
    return {name: f"{Path(path).name} (SHA-256 {digest.hexdigest()[:16]}…)"}
