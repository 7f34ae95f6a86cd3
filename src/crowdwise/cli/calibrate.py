"""``crowdwise calibrate``: labels whose confidence can be believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.declare import argument, file, option
from crowdwise.cli.display import count, number
from crowdwise.cli.fitting import build, fit_to, result_of
from crowdwise.cli.inputs import gold_of, is_saved, read_gold, read_votes
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import TRUTH, VOTES_OR_SAVED, MethodOptions, OutputOptions, ReadOptions
from crowdwise.cli.outcome import narrow
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.estimator.result import Result
    from crowdwise.trust.calibration.calibrating import Calibrated

EXAMPLES = (
    "Example: crowdwise calibrate votes.csv -o labels.csv\n\n"
    "With true labels of some items: crowdwise calibrate votes.csv --truth gold.csv --plot reliability.png -o labels.csv"
)
_HOW = "votes or groups, without truth; temperature, dirichlet or isotonic, with it; none only measures."


@dataclass(frozen=True, kw_only=True)
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    truth: Path | None = file("--truth", TRUTH)
    how: str | None = option("--how", "WAY", _HOW, shown="temperature with truth, else votes")
    plot: Path | None = file("--plot", "Draw the reliability curves (.png .pdf .svg); needs truth and matplotlib.")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Infer labels and correct how sure they are.

    Without true labels, by the temperature that predicts held-out votes best (votes), or by counting the votes of
    annotators who share errors for less (groups). With true labels of some items, by these; every one of them gets a
    probability from a calibration that has not seen it, and so the calibration error after it is an honest one.
    """
    from crowdwise.trust.calibration.calibrating import HOWS, NEED_TRUTH, calibrate

    among("--how", options.how, HOWS)
    job = Job(options, (options.votes, options.truth, method.gold, method.history), plot=options.plot)
    result, known = fit_and_truth(options.votes, read, method, options.truth, options.quiet)
    if known is None:
        for name, needs in ((f"--how {options.how}", options.how in NEED_TRUTH), ("--plot", options.plot is not None)):
            if needs:
                raise SettingError(f"{name} needs true labels: --truth FILE (columns item and label)")
    done = calibrate(result, options.how, truth=known)
    if options.plot is not None and done.before is not None and done.after is not None:
        from crowdwise.report.plot.calibration import plot_reliability

        curves = {"before": done.before} | ({} if done.how == "none" else {"after": done.after})
        job.file("--plot", lambda path: plot_reliability(curves, path))
    job.main(done.result.items_frame(), "item", document=lambda: _document(done), key="labels", screen=narrow, limit=10)
    job.say(_summary_lines(done))


def fit_and_truth(path: str, read: ReadOptions, method: MethodOptions, truth: Path | None, quiet: bool) -> tuple[Result, Any]:
    """Fit, and true labels that the fit has not seen (a frame or a list), or None.

    Gold that the votes carry is set aside and serves as the truth, unless --truth gives another.
    """
    if is_saved(path):
        result = result_of(path, read, method, quiet)
        return result, read_gold(truth, result.votes)
    estimator = build(method)
    votes = read_votes(path, read)
    known: Any = read_gold(truth, votes)
    known = gold_of(votes) if known is None else known
    return fit_to(replace(votes, gold=None), estimator, method, quiet).result_, known


def _document(done: Calibrated) -> dict[str, Any]:
    document: dict[str, Any] = {"method": done.result.method, "how": done.how, "account": done.account, **done.facts}
    for name, curve in (("before", done.before), ("after", done.after)):
        if curve is not None:
            document["n_checked"] = curve.n_known
            document[name] = {**curve.facts(), "curve": curve.frame().to_dicts()}
    return document


def _summary_lines(done: Calibrated) -> Iterator[str]:
    """What was done, and the measures before and after it."""
    yield f"{done.result.method}: {done.account}"
    if done.before is None or done.after is None:
        yield "no true labels to check it by; give some with --truth FILE"
        return
    yield f"checked on {count(done.before.n_known, 'item')} with a true label:"
    for name, curve in (("before", done.before), ("after", done.after)):
        low, high = curve.ece_interval
        yield (
            f"{name:>6}: ECE {number(curve.ece)} (95% interval {number(low)} to {number(high)}), Brier {number(curve.brier)}, "
            f"log-loss {number(curve.log_loss)}, confidence {number(curve.mean_confidence)}, "
            f"accuracy {number(curve.mean_accuracy)}"
        )
        if done.how == "none":
            break
