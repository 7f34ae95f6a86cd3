"""``crowdwise calibrate``: labels whose confidence can be believed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli.options import Json, MethodOptions, Output, Quiet, ReadOptions, SpreadsheetSafe, VotesOrSaved
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.estimator.result import Result
    from crowdwise.trust.calibration.calibrating import Calibrated

EXAMPLES = (
    "Example: crowdwise calibrate votes.csv -o labels.csv\n\n"
    "With true labels of some items: crowdwise calibrate votes.csv --truth gold.csv --plot reliability.png -o labels.csv"
)

Truth = Annotated[
    Path | None,
    typer.Option("--truth", metavar="FILE", help="True labels of some items: item, label. The fit does not see them."),
]


def run(
    votes: VotesOrSaved,
    read: ReadOptions,
    method: MethodOptions,
    truth: Truth = None,
    how: Annotated[
        str | None,
        typer.Option(
            "--how",
            metavar="WAY",
            help="votes or groups, without truth; temperature, dirichlet or isotonic, with it; none only measures.",
            show_default="temperature with truth, else votes",
        ),
    ] = None,
    output: Output = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the reliability curves (.png .pdf .svg); needs truth, matplotlib."),
    ] = None,
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Infer labels and correct how sure they are.

    Without true labels, by a temperature under which held-out votes are foretold best (votes), or by counting the votes of
    annotators who share errors for less (groups). With true labels of some items, by these; every one of them gets a
    probability from a calibration that has not seen it, and so the calibration error after it is an honest one.
    """
    from crowdwise.cli.outputs import check_outputs, emit, print_json, to_stdout, write
    from crowdwise.errors import did_you_mean
    from crowdwise.trust.calibration.calibrating import HOWS, NEED_TRUTH, calibrate

    if how is not None and how not in HOWS:
        raise SettingError(f"--how: no way {how!r}{did_you_mean(how, list(HOWS))} (there are {', '.join(HOWS)})")
    inputs = (votes, truth, method.gold, method.history)
    check_outputs({"-o": output}, inputs)
    check_plot(plot, (*inputs, output))
    if as_json and to_stdout(output):
        raise SettingError("--json and -o - both ask for stdout; choose one")
    result, known = fit_and_truth(votes, read, method, truth, quiet)
    if known is None:
        for option, needs in (("--how " + str(how), how in NEED_TRUTH), ("--plot", plot is not None)):
            if needs:
                raise SettingError(f"{option} needs true labels: --truth FILE (columns item and label)")
    done = calibrate(result, how, truth=known)
    if plot is not None and done.before is not None and done.after is not None:
        from crowdwise.cli.outputs import wrote
        from crowdwise.report.plot.calibration import plot_reliability

        plot_reliability({"before": done.before} | ({} if done.how == "none" else {"after": done.after}), plot)
        wrote(plot, quiet)
    items = done.result.items_frame()
    if as_json:
        document = _document(done)
        if output is None:
            document["labels"] = items.to_dicts()
        else:
            write(items, output, "item", quiet, spreadsheet_safe)
        print_json(document)
    elif output is None and sys.stdout.isatty():
        emit(items.select("item", "label", "confidence", "n_votes", "note"), None, "item", limit=10)
    else:
        emit(items, output, "item", quiet=quiet, safe=spreadsheet_safe)
    if not quiet:
        _tell(done)


def fit_and_truth(path: str, read: ReadOptions, method: MethodOptions, truth: Path | None, quiet: bool) -> tuple[Result, Any]:
    """Fit, and true labels that the fit has not seen (a frame or a list), or None.

    Gold that the votes carry is set aside and serves as the truth, unless --truth gives another.
    """
    from dataclasses import replace

    from crowdwise.cli.inputs import STDIN, build, fit_to, is_saved, read_gold, read_votes, result_of

    if path != STDIN and is_saved(path):
        result = result_of(path, read, method, quiet)
        return result, read_gold(truth, result.votes)
    estimator = build(method)
    votes = read_votes(path, read)
    known: Any = read_gold(truth, votes)
    if known is None and votes.gold is not None and (votes.gold >= 0).any():
        known = [votes.classes[code] if code >= 0 else None for code in votes.gold]
    votes = replace(votes, gold=None)
    return fit_to(votes, estimator, method, quiet).result_, known


def check_plot(plot: Path | None, inputs: tuple[str | Path | None, ...]) -> None:
    """Refuse a plot that could not be written, before any work."""
    from crowdwise.cli.outputs import check_outputs
    from crowdwise.report.plot.figure_file import SUFFIXES

    if plot is not None:
        if not str(plot).lower().endswith(SUFFIXES):
            raise SettingError(f"--plot: {plot}: a plot ends in {', '.join(SUFFIXES)}")
        check_outputs({"--plot": plot}, inputs, tables=False)


def _document(done: Calibrated) -> dict[str, Any]:
    document: dict[str, Any] = {"method": done.result.method, "how": done.how, "account": done.account, **done.facts}
    for name, curve in (("before", done.before), ("after", done.after)):
        if curve is not None:
            document["n_checked"] = curve.n_known
            document[name] = {**curve.facts(), "curve": curve.frame().to_dicts()}
    return document


def _tell(done: Calibrated) -> None:
    """What was done, and the measures before and after it, on stderr."""
    from crowdwise.cli.text import count, number, say

    say(f"{done.result.method}: {done.account}")
    if done.before is None or done.after is None:
        say("no true labels to check it by; give some with --truth FILE")
        return
    say(f"checked on {count(done.before.n_known, 'item')} with a true label:")
    for name, curve in (("before", done.before), ("after", done.after)):
        low, high = curve.ece_interval
        say(
            f"{name:>6}: ECE {number(curve.ece)} (95% interval {number(low)} to {number(high)}), Brier {number(curve.brier)}, "
            f"log-loss {number(curve.log_loss)}, confidence {number(curve.mean_confidence)}, "
            f"accuracy {number(curve.mean_accuracy)}"
        )
        if done.how == "none":
            break
