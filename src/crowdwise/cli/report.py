"""``crowdwise report``: one page about the labels, the annotators and what to do next."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.annotators import TIME
from crowdwise.cli.declare import argument, file, flag, option
from crowdwise.cli.fairness import GroupOptions, check_groups, item_groups
from crowdwise.cli.fitting import build, fit_and_measure, is_saved, read_gold, read_kept, read_times, read_votes, result_of
from crowdwise.cli.job import PAGES, Job, at_least, command_line
from crowdwise.cli.options import FDR, RAW, TRUTH, VOTES_OR_SAVED, KeepOptions, MethodOptions, QuietOptions, ReadOptions
from crowdwise.errors import SettingError
from crowdwise.report.text import beside, summary_lines

if TYPE_CHECKING:
    from crowdwise.estimator.outcome import Result

EXAMPLES = (
    "Example: crowdwise report votes.csv -o report.html\n\n"
    "With true labels to check against: crowdwise report votes.csv -o report.html --truth truth.csv\n\n"
    "Of a saved model: crowdwise report model -o report.html"
)


@dataclass(frozen=True, kw_only=True)
class Options(QuietOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    output: Path = option("-o --output", "FILE", "The page to write (.html).", Path("report.html"))
    truth: Path | None = file("--truth", TRUTH)
    labels: Path | None = file("--labels", "Write the labels of all items too, safe to open in a spreadsheet.")
    raw: bool = flag("--raw", RAW)
    time: str | None = option("--time", "COLUMN", TIME)
    price: float | None = option("--price", "AMOUNT", "Price of one vote, for the plan.")
    title: str | None = option("--title", "TEXT", "Heading of the page.")
    fdr: float = option("--fdr", "SHARE", "Share of wrong flags to expect among the flags of a check.", FDR)


def run(options: Options, groups: GroupOptions, read: ReadOptions, method: MethodOptions, keep: KeepOptions) -> None:
    """Write one page about a fit: labels and their certainty, items to review, annotators, calibration, and what votes buy.

    It needs no network and no other file. Tables can be searched and sorted; of large data the page holds the part worth
    reading first, and --labels writes all of it.
    """
    from datetime import date

    from crowdwise.report import write_report
    from crowdwise.trust.crowd.report import check_level

    check_level(options.fdr)
    at_least("--price", options.price, 0)
    grouped = groups != GroupOptions()
    if grouped:
        check_groups(options.votes, groups)
    if options.output.suffix.lower() not in PAGES:
        raise SettingError(f"-o: {options.output}: a page ends in .html")
    reads = (options.votes, method.gold, method.history, options.truth, groups.groups)
    job = Job(options, reads, tables={"--labels": options.labels}, files={"-o": options.output})
    times = read_times(options.votes, read, options.time)
    fitted, unseen = _fitted(options.votes, read, method, options.quiet)
    result: Result = getattr(fitted, "result_", fitted)
    made = {"Command": command_line()}
    for name, path in (("Votes", options.votes), ("Truth", options.truth), ("Gold", method.gold), ("Groups", groups.groups)):
        made |= _fingerprint(name, path)
    more: dict[str, Any] = {"title": options.title, "time": times, "price": options.price, "fdr": options.fdr}
    # Gold that the fit did not see measures labels as well as a file of true labels does.
    truth = unseen if options.truth is None else read_gold(options.truth, result.votes)
    more |= {"truth": truth, "made": made | {"Date": date.today().isoformat()}}
    more["groups"] = item_groups(options.votes, read, groups, result.votes) if grouped else None
    about = read_kept(options.votes, keep, read, result.votes)
    job.file("-o", lambda path: write_report(fitted, path, about=about, **more))
    job.table("--labels", lambda: result.items_frame() if about is None else beside(result.items_frame(), about), "item")
    job.say(summary_lines(result))


def _fitted(votes: str, read: ReadOptions, method: MethodOptions, quiet: bool) -> tuple[Any, Any]:
    """The result of a saved folder, or the estimator fitted to votes: it knows why it chose its method; and unseen gold."""
    if not is_saved(votes):
        from crowdwise.cli.dependent import careful

        estimator, truth = fit_and_measure(read_votes(votes, read), build(method), method, quiet)
        names = estimator.result_.votes
        known = None if truth is None else {names.items[n]: names.classes[truth[n]] for n in (truth >= 0).nonzero()[0]}
        return careful(estimator, method.trusted), known
    from crowdwise.estimator.loading import load

    result = result_of(votes, read, method, quiet)
    # Of a choice, the estimator holds the reasons; of others the result holds all there is.
    return (load(votes) if result.method.startswith("auto: ") else result), None


def _fingerprint(name: str, path: str | Path | None) -> dict[str, str]:
    """What says later whether a file is still the same."""
    if path is None or not Path(path).is_file():
        return {}
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read())
    return {name: f"{Path(path).name} (SHA-256 {digest.hexdigest()[:16]}…)"}
