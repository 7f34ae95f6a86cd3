"""``crowdwise calibrate``: labels whose confidence can be believed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import crowdwise
from crowdwise import report, trust
from crowdwise.cli.declare import argument, file, group, option, plot
from crowdwise.cli.fitting import build, careful, is_saved, read_gold, read_votes, result_of
from crowdwise.cli.job import Job, among
from crowdwise.cli.options import GIVE_TRUTH, TRUTH, VOTES_OR_SAVED, MethodOptions, OutputOptions, ReadOptions
from crowdwise.errors import SettingError
from crowdwise.report.text import narrow

EXAMPLES = (
    "Example: crowdwise calibrate votes.csv -o labels.csv\n\n"
    "With true labels of some items: crowdwise calibrate votes.csv --truth gold.csv --plot reliability.png -o labels.csv"
)
_HOW = (
    "How confidence is corrected: experience or groups, without truth; temperature, dirichlet or isotonic, with it; none takes "
    "the model at its word."
)


@group
class Options(OutputOptions):
    """What is read and written."""

    votes: str = argument("VOTES", VOTES_OR_SAVED)
    truth: Path | None = file("--truth", TRUTH)
    how: str | None = option("--how", "WAY", _HOW, shown="temperature with truth, else experience")
    plot: Path | None = plot("the reliability curves, with truth")


def run(options: Options, read: ReadOptions, method: MethodOptions) -> None:
    """Infer labels and correct how sure they are.

    Without true labels, by what real crowds have shown (experience), or the same with the votes of annotators who share
    errors counted for less (groups). With true labels of some items, by these; every one of them gets a
    probability from a calibration that has not seen it, and so the calibration error after it is an honest one.
    """
    among("--how", options.how, trust.calibration.calibrating.HOWS)
    job = Job(options, method)
    result, known = fit_and_truth(options.votes, read, method, options.truth)
    needing = [f"--how {options.how}"] * (options.how in trust.calibration.calibrating.NEED_TRUTH)
    needing += ["--plot"] * (options.plot is not None)
    if known is None and needing:
        raise SettingError(f"{needing[0]} needs true labels; {GIVE_TRUTH}")
    done = trust.calibration.calibrate(result, options.how, truth=known)
    job.file("--plot", lambda path: report.plot.plot_reliability(done.curves, path))
    document = partial(report.calibration_document, done)
    job.main(done.result.items_frame(), "item", document=document, key="labels", screen=narrow, limit=10)
    job.say(report.calibration_lines(done))


def fit_and_truth(path: str, read: ReadOptions, method: MethodOptions, truth: Path | None) -> tuple[crowdwise.Result, Any]:
    """Fit, and true labels that the fit has not seen (a frame or a list), or None.

    Gold that the votes carry is set aside and serves as the truth, unless --truth gives another.
    """
    if is_saved(path):
        result = result_of(path, read, method)
        return result, read_gold(truth, result.votes)
    estimator = build(method)
    votes = read_votes(path, read)
    known: Any = read_gold(truth, votes)
    known = votes.gold_labels() if known is None else known
    if method.gold is None and votes.n_gold:
        # That is how gold in the votes is used here, said or not.
        method = replace(method, gold_is=None)
    return careful(replace(votes, gold=None), estimator, method).result_, known
