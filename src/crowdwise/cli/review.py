"""``crowdwise review``: which labels to accept as they are, and which to have looked at."""

from __future__ import annotations

from pathlib import Path

from crowdwise import report, trust
from crowdwise.cli.calibrate import fit_and_truth
from crowdwise.cli.declare import argument, file, flag, group, option, share
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import GIVE_TRUTH, TRUTH, VOTES_OR_SAVED, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import SettingError

EXAMPLES = (
    "Example: crowdwise review votes.csv --error 0.05 -o decisions.csv\n\n"
    "With true labels of some items: crowdwise review votes.csv --error 0.05 --truth gold.csv --sets -o decisions.csv"
)
_WAYS = ("experience", "groups", "none")


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    error: float = share("--error", "Share of wrong labels to allow among the accepted.", 0.05)
    truth: Path | None = file("--truth", TRUTH)
    how: str = option("--how", "WAY", "How confidence is calibrated: experience, groups or none.", "experience")
    assurance: float | None = share(
        "--assurance", "Without truth: share of crowds in which the error stays within the rate, such as 0.9."
    )
    risk: float = share("--risk", "With truth: chance that the error is larger all the same.", 0.05)
    sets: bool = flag("--sets", "Add label sets that hold the true label at a rate of 1 - error.")
    adaptive: bool = flag("--adaptive", "With truth: larger sets for harder items (APS, not LAC).")
    by_class: bool = flag("--by-class", "With truth: sets that hold at that rate in every class.")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Accept labels at a stated rate of errors, and send the rest for review.

    Without true labels, by experience with other crowds: the expected error is within the rate, and the range over crowds is
    printed. With true labels of some items, chosen at random, labels are
    accepted only as far as these show that the error stays within the rate, and the error found is printed with its interval.
    """
    among("--how", options.how, _WAYS, "; true labels are kept for the check")
    job = Job(options, method)
    result, known = fit_and_truth(options.votes, read, method, options.truth)
    if known is None and (options.adaptive or options.by_class):
        raise SettingError(f"--adaptive and --by-class need true labels; {GIVE_TRUTH}")
    decisions = trust.calibration.decisions.decide(
        result,
        options.error,
        truth=known,
        how=options.how,
        delta=options.risk,
        assurance=options.assurance,
        sets=options.sets,
        score="aps" if options.adaptive else "lac",
        by_class=options.by_class,
    )
    job.main(decisions.frame(), "item", document=lambda: {"method": result.method, **decisions.facts()}, key="decisions")
    job.say(report.decision_lines(decisions, options.error, options.risk))
