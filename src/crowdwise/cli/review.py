"""``crowdwise review``: which labels to accept as they are, and which to have looked at."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.calibrate import Truth
from crowdwise.cli.options import FLAG, Json, MethodOptions, Output, Quiet, ReadOptions, SpreadsheetSafe, VotesOrSaved
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.trust.calibration.decisions import Decisions

EXAMPLES = (
    "Example: crowdwise review votes.csv --error 0.05 -o decisions.csv\n\n"
    "With true labels of some items: crowdwise review votes.csv --error 0.05 --truth gold.csv --sets -o decisions.csv"
)
_WAYS = ("votes", "groups", "none")


def run(
    votes: VotesOrSaved,
    read: ReadOptions,
    method: MethodOptions,
    error: Annotated[float, typer.Option("--error", metavar="SHARE", help="Share of wrong labels among the accepted.")] = 0.05,
    truth: Truth = None,
    how: Annotated[
        str, typer.Option("--how", metavar="WAY", help="How confidence is calibrated: votes, groups or none.")
    ] = "votes",
    risk: Annotated[
        float, typer.Option("--risk", metavar="SHARE", help="With truth: chance that the error is larger all the same.")
    ] = 0.05,
    sets: Annotated[
        bool, typer.Option("--sets", metavar=FLAG, help="Add label sets that hold the true label at a rate of 1 - error.")
    ] = False,
    adaptive: Annotated[
        bool, typer.Option("--adaptive", metavar=FLAG, help="With truth: larger sets for harder items (APS, not LAC).")
    ] = False,
    by_class: Annotated[
        bool, typer.Option("--by-class", metavar=FLAG, help="With truth: sets that hold at that rate in every class.")
    ] = False,
    output: Output = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Accept labels at a stated rate of errors, and send the rest for review.

    Without true labels the calibrated posterior is believed. With true labels of some items, chosen at random, labels are
    accepted only as far as these show that the error stays within the rate, and the error found is printed with its interval.
    """
    from crowdwise.cli.calibrate import fit_and_truth
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout, write
    from crowdwise.errors import did_you_mean
    from crowdwise.trust.calibration.decisions import decide

    for option, value in (("--error", error), ("--risk", risk)):
        if not 0 < value < 1:
            raise SettingError(f"{option} must be between 0 and 1; got {value}")
    if how not in _WAYS:
        hint = did_you_mean(how, list(_WAYS))
        raise SettingError(f"--how: no way {how!r}{hint} (there are {', '.join(_WAYS)}; true labels are kept for the check)")
    check_outputs({"-o": output}, (votes, truth, method.gold, method.history))
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    result, known = fit_and_truth(votes, read, method, truth, quiet)
    if known is None and (adaptive or by_class):
        raise SettingError("--adaptive and --by-class need true labels: --truth FILE (columns item and label)")
    decisions = decide(
        result, error, truth=known, how=how, delta=risk, sets=sets, score="aps" if adaptive else "lac", by_class=by_class
    )
    frame = decisions.frame()
    if as_json:
        document: dict[str, Any] = {"method": result.method, **decisions.facts()}
        if output is None:
            document["decisions"] = frame.to_dicts()
        else:
            write(frame, output, "item", quiet, spreadsheet_safe)
        print_json(document)
    elif output is None and sys.stdout.isatty():
        emit(frame, None, "item", limit=20)
    else:
        emit(frame, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        _tell(decisions, error, risk)


def _tell(decisions: Decisions, error: float, risk: float) -> None:
    """How many are accepted and what is known of their error, on stderr."""
    from crowdwise.cli.text import count, number, say
    from crowdwise.trust.calibration.selection import least_known

    found, facts = decisions.selection, decisions.facts()
    say(f"{decisions.result.method}: {decisions.account}")
    accepted, total = facts["n_accepted"], facts["n_accepted"] + facts["n_review"]
    limit = f" (confidence from {number(found.threshold)})" if accepted else ""
    rest = f"; {count(decisions.n_known, 'label')} known" if decisions.n_known else ""
    say(f"accept {accepted:,} of {count(total, 'item')}{limit}, review {total - accepted:,}{rest}")
    if decisions.n_known == 0:
        if accepted:
            say(
                f"expected error of the accepted: {number(found.expected)}, believed and not measured: the posterior does "
                "not know of errors that all annotators share, and is often too hopeful; some true labels "
                "(--truth FILE) would show"
            )
    elif total == 0:
        say("every item has a true label, so that there is nothing to decide")
    elif found.interval is None:
        verb = "is" if decisions.n_known == 1 else "are"
        say(
            f"nothing is accepted: it takes at least {least_known(error, risk)} surest items with a true label, nearly all "
            f"right, to show an error within {number(error)}; {decisions.n_known:,} {verb} known: "
            "add true labels, or allow a larger --error or --risk"
        )
    else:
        low, high = found.interval
        say(
            f"checked on {count(found.n_checked, 'accepted item')} with a true label: {found.n_wrong:,} wrong, "
            f"{number(found.n_wrong / found.n_checked)} (95% interval {number(low)} to {number(high)}); "
            f"within {number(error)} with probability {number(1 - risk)}"
        )
    if decisions.sets is not None and total:
        say(f"label sets: {number(decisions.mean_set_size)} labels on average, {decisions.sets_account}")
