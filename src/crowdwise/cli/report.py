"""``crowdwise report``: one page about the labels, the annotators and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import report
from crowdwise.cli.annotators import TIME
from crowdwise.cli.declare import PAGE, argument, file, flag, group, option, share, table
from crowdwise.cli.fairness import GroupOptions, check_groups, item_groups
from crowdwise.cli.fitting import build, careful, is_saved, read_gold, read_kept, read_times, read_votes, result_of
from crowdwise.cli.job import Job, command_line, steps
from crowdwise.cli.options import FDR, RAW, TRUTH, VOTES_OR_SAVED, KeepOptions, MethodOptions, QuietOptions, ReadOptions
from crowdwise.report.text import beside, summary_lines

EXAMPLES = (
    "Example: crowdwise report votes.csv -o report.html\n\n"
    "With true labels to check against: crowdwise report votes.csv -o report.html --truth truth.csv\n\n"
    "Of a saved model: crowdwise report model -o report.html"
)


@group
class Options(QuietOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    output: Path = option("-o --output", "FILE", "The page to write (.html).", Path("report.html"), place=PAGE)
    truth: Path | None = file("--truth", TRUTH)
    labels: Path | None = table("--labels", "Write the labels of all items too, safe to open in a spreadsheet.")
    raw: bool = flag("--raw", RAW)
    time: str | None = option("--time", "COLUMN", TIME)
    price: float | None = option("--price", "AMOUNT", "Price of one vote, for the plan.", least=0)
    title: str | None = option("--title", "TEXT", "Heading of the page.")
    fdr: float = share("--fdr", "Share of wrong flags to expect among the flags of a check.", FDR)


def run(options: Options, groups: GroupOptions, read: ReadOptions, method: MethodOptions, keep: KeepOptions) -> None:
    """Write one page about a fit: labels and their certainty, items to review, annotators, calibration, and what votes buy.

    It needs no network and no other file. Tables can be searched and sorted; of large data the page holds the part worth
    reading first, and --labels writes all of it.
    """
    from datetime import date

    grouped = groups != GroupOptions()
    if grouped:
        check_groups(options.votes, groups)
    job = Job(options, groups, method)
    times = read_times(options.votes, read, options.time)
    fit, unseen = _fit(options.votes, read, method)
    result: crowdwise.Result = getattr(fit, "result_", fit)
    made = {"Command": command_line()}
    for name, path in (("Votes", options.votes), ("Truth", options.truth), ("Gold", method.gold), ("Groups", groups.groups)):
        made |= report.fingerprint(name, path)
    more: dict[str, Any] = {"title": options.title, "time": times, "price": options.price, "fdr": options.fdr}
    # Gold that the fit did not see measures labels as well as a file of true labels does.
    truth = unseen if options.truth is None else read_gold(options.truth, result.votes)
    more |= {"truth": truth, "made": made | {"Date": date.today().isoformat()}}
    more["groups"] = item_groups(options.votes, read, groups, result.votes) if grouped else None
    about = read_kept(options.votes, keep, read, result.votes)
    with steps() as progress:
        job.file("-o", lambda path: report.write_report(fit, path, about=about, progress=progress, **more))
    job.table("--labels", lambda: beside(result.items_frame(), about), "item")
    job.say(summary_lines(result))


def _fit(path: str, read: ReadOptions, method: MethodOptions) -> tuple[Any, Any]:
    """What is shown, the estimator where it knows why it chose its method; and gold that it did not see, [N] labels."""
    if is_saved(path):
        result = result_of(path, read, method)
        return (crowdwise.load(path) if result.method.startswith("auto: ") else result), None
    votes = read_votes(path, read)
    estimator, gold = careful(votes, build(method), method), read_gold(method.gold, votes)
    known = votes if gold is None else votes.with_gold(gold)
    return estimator, known.gold_labels() if method.gold_is == "truth" else None
