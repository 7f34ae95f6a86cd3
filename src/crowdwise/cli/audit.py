"""``crowdwise audit``: a few labels checked by a person, and a certificate for the others."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import crowdwise
from crowdwise import io, report, trust
from crowdwise.cli.declare import argument, file, flag, group, option, page, share
from crowdwise.cli.fitting import is_saved, read_kept, result_of, sharing
from crowdwise.cli.job import Job, refuse, to_stdout
from crowdwise.cli.options import VOTES_OR_SAVED, KeepOptions, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import InputError, SettingError
from crowdwise.trust import crowd

EXAMPLES = (
    "Example: crowdwise audit votes.csv --check 100 -o check.csv\n\n"
    "Or check them in a browser: crowdwise audit votes.csv --check 100 --page check.html --show items.csv\n\n"
    "When they are checked: crowdwise audit votes.csv --checked check.csv --error 0.05 -o labels.csv\n\n"
    "Not enough yet: crowdwise audit votes.csv --more check.csv --check 20 -o check-2.csv\n\n"
    "Which annotators share errors: crowdwise audit votes.csv --decide 20 -o decide.csv; when they are checked: "
    "crowdwise aggregate votes.csv --gold decide.csv --fuse-groups -o labels.csv"
)
_FIRST, _FURTHER = 100, 20


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    check: int | None = option("--check", "N", "Draw so many items to check.", shown="100; 20 with --more", least=1)
    checked: Path | None = file("--checked", "The table of drawn items with their true labels: certify the others.")
    more: Path | None = file("--more", "An earlier table of drawn items: keep its rows and draw further items.")
    decide: int | None = option(
        "--decide", "N", "Draw so many items that decide which annotators share errors; their labels go to --gold.", least=1
    )
    error: float = share("--error", "Share of wrong labels to allow among the accepted.", 0.05)
    risk: float = share("--risk", "Chance that more of the accepted are wrong all the same.", 0.05)
    page: Path | None = page("Write a page (.html) to check items in a browser, or, with --checked, on what was found.")
    show: Path | None = file("--show", "What the page shows of the items: item and columns of text, links or pictures.")
    show_labels: bool = flag("--show-labels", "Show the proposed labels to those who check; they tend to agree with them.")


def run(options: Options, read: ReadOptions, method: MethodOptions, keep: KeepOptions) -> None:
    """Check a few labels, and certify how far the others can be accepted.

    First draw items to check, surer ones and rare classes more often; then write their true classes into the table, or check
    them on the page, without a look at the votes. From the checked labels follows which labels can be accepted so that at
    most the stated share of them is wrong, with probability 1 - risk; how many of all labels are right; and how many more
    checks would certify how much more. This assumes nothing of votes, annotators or model, and holds at every look: check
    some, look, and draw more until it is enough. Wrong labels that were found are corrected.

    Where annotators seem to share errors, --decide draws instead items to which the readings of the votes give different
    labels. They certify nothing; named as known (aggregate --gold FILE --fuse-groups), they choose the reading.
    """
    if options.decide is not None:
        words = "{} is about a certificate, and --decide draws what decides who shares errors; run them one after the other"
        refuse(words, (options, ["check", "checked", "more", "page", "show", "show_labels"]), (keep, ["keep"]))
    elif options.checked is not None:
        drawing = ["check", "more", "show", "show_labels"]
        refuse("--checked certifies and {} is for drawing; run them one after the other", (options, drawing))
    elif options.check is None and options.more is None and options.page is None:
        raise SettingError(
            "say what to do: --check N draws items to check, --checked FILE certifies by those that are checked, --decide N "
            "draws items that decide which annotators share errors"
        )
    if options.decide is None and (options.page is None or options.checked is not None):
        words = "{} says what a page to check items shows; name the page with --page FILE"
        refuse(words, (options, ["show"]), (keep, ["keep"]))
    job = Job(options, method)
    if job.to_file:
        instead = {} if options.decide is None else {"instead": "name it as known with aggregate --gold"}
        trust.audit.checks.check_unfilled(job.output, **instead)
    if options.decide is not None:
        _decide(job, options, read, method)
    elif options.checked is None:
        _draw(job, options, read, method, keep)
    else:
        _certify(job, options, read, method)


def _draw(job: Job, options: Options, read: ReadOptions, method: MethodOptions, keep: KeepOptions) -> None:
    earlier = None if options.more is None else trust.audit.read_checks(options.more)
    result = _result(options, read, method, earlier)
    checks = None if earlier is None else trust.audit.checks.checks_of(result, earlier)
    n = options.check or (_FIRST if checks is None else _FURTHER)
    drawn = trust.audit.draw(result, n, error=options.error, seed=method.seed or 0, more=checks)
    about = read_kept(options.votes, keep, read, result.votes)
    shown = None if options.show is None else io.kept.read_shown(options.show, result.votes)
    content = [frame for frame in (about, shown) if frame is not None]
    shown_as = {"content": content, "labels": options.show_labels}
    job.file("--page", lambda path: report.write_check_page(drawn, path, name=path.stem, **shown_as))
    only_page = options.page is not None and options.output is None and not options.as_json
    if not only_page:
        job.main(drawn.frame(labels=options.show_labels), "item", document=lambda: {"design": drawn.plan.design}, key="check")
    n_earlier, shared = 0 if checks is None else len(checks.code), sharing(options.votes, result)
    job.say(report.draw_lines(drawn, n_earlier, only_page, options.risk, *_files(options), shared))


def _decide(job: Job, options: Options, read: ReadOptions, method: MethodOptions) -> None:
    result, n = result_of(options.votes, read, method), options.decide or 0
    item = crowd.dependence.disputed(result, method.trusted or (), seed=method.seed or 0)
    if len(item) == 0:
        raise InputError(
            "there is nothing to decide: no groups that share errors are found in the votes, or what is known has decided, or "
            "however the votes are read, the labels are the same"
        )
    frame = trust.audit.checks.to_fill(result.votes, item[:n])
    job.main(frame, "item", document=lambda: {"disputed": len(item)}, key="check")
    job.say(report.decide_lines(frame.height, len(item), *_files(options)))


def _files(options: Options) -> tuple[str, str]:
    """The votes and the table that was written, as the next command names them."""
    written = options.output is not None and not to_stdout(options.output)
    return shlex.quote(options.votes), shlex.quote(str(options.output)) if written else "FILE"


def _certify(job: Job, options: Options, read: ReadOptions, method: MethodOptions) -> None:
    table = trust.audit.read_checks(options.checked)
    result = _result(options, read, method, table)
    audit = trust.audit.certify(result, table, options.error, 1 - options.risk)
    made = {"Method": result.method, "Drawn by": table.design}
    job.page(result.method, lambda: report.audit_page(audit), made)
    job.main(audit.frame(), "item", document=lambda: {"method": result.method, **audit.facts()}, key="labels")
    job.say(report.audit_lines(audit))


def _result(
    options: Options, read: ReadOptions, method: MethodOptions, table: trust.audit.CheckTable | None
) -> crowdwise.Result:
    """The fit; with a table of checks, with the seed with which its items were drawn."""
    if table is not None and method.seed is None and table.seed and not is_saved(options.votes):
        method = replace(method, seed=table.seed)
    return result_of(options.votes, read, method)
