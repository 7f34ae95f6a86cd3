"""Annotators who share errors: how often the check speaks without reason, and what it finds.

    python -m benchmarks run dependence [--method NAME] [--seeds 10]

Three tables: false alarms on crowds of independent annotators; simulated crowds with known groups; the shared sets. No fit sees
a true label. The crowds are those of `dependent_crowds.py`, drawn with seeds that nothing was settled on. What the check costs:
`check_cost`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import cache
from time import process_time
from typing import Any, TypeVar

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.accuracy.real_data import SETS
from benchmarks.crowd_sets import labelled
from benchmarks.crowds.dependent_crowds import DEPENDENT, INDEPENDENT, MATRICES, topics
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.simulate import simulate
from crowdwise.trust.calibration.effective_votes import EffectiveVotes
from crowdwise.trust.crowd.cautious import cautious, lowered
from crowdwise.trust.crowd.dependence import Reading, find
from crowdwise.trust.crowd.fusion import fused
from crowdwise.trust.metrics import accuracy, log_loss

BENCHMARK = Benchmark(
    "How often does the check for shared errors speak without reason, and what does it find?",
    sections=("dependence",),
    data=("labelled",),
    renders=("--method consensus",),
    quick="--seeds 1 --method majority",
    small={"ALARMS": 1},
    leaves_out=("detection",),
)

T = TypeVar("T")

FIRST_SEED = 5000
ALARMS = 50
RUNS = Records("dependence")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--method", default="dawid-skene")
    arguments.add_argument("--seeds", type=int, default=10)
    given = arguments.parse_args()
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    parts = []
    for part in (false_alarms(), detection(given.method, given.seeds), real_sets(given.method)):
        print(part, flush=True)
        parts.append(part)
    command = f"python -m benchmarks run dependence --method {given.method} --seeds {given.seeds}"
    put("dependence", "\n".join([provenance(command, RUNS), *parts]))


@cache
def loaded(method: str) -> None:
    """Imports and the loading of compiled code do not count."""
    for size in (50, 20_000):
        drawn = simulate(size, random_state=0).votes
        find(drawn)
        for name in {method, "dawid-skene", "majority"}:
            crowdwise.make(name).fit(drawn)


@RUNS.each
def alarms(kind: str) -> int:
    """Crowds of a kind on which the check speaks."""
    drawn = (INDEPENDENT | MATRICES | {"topics": topics})[kind]
    return sum(bool(find(drawn(FIRST_SEED + s))) for s in range(ALARMS))


def false_alarms() -> str:
    from scipy.stats import beta

    fired = {name: alarms(name) for name in INDEPENDENT | MATRICES}
    total, wrong = ALARMS * len(fired), sum(fired.values())
    high = float(beta.ppf(0.975, wrong + 1, total - wrong))
    low = float(beta.ppf(0.025, wrong, total - wrong + 1)) if wrong else 0.0
    special = alarms("topics")
    kinds = ", ".join(f"{name}: {count}" for name, count in fired.items())
    return (
        f"\n**False alarms**: {wrong} of {total} crowds of independent annotators ({100 * wrong / total:.1f} %, 95% interval "
        f"{100 * low:.1f} to {100 * high:.1f} %). By kind, of {ALARMS} each: {kinds}. Where annotators specialise in hidden "
        f"topics, which is no group but looks like one: {special} of {ALARMS}.\n"
    )


def detection(method: str, seeds: int) -> str:
    header = ["crowd", "exact", "other reading", "missed", "majority", method, "fused, found", "fused, known"]
    calibration = ["crowd", "accuracy", "confidence", "cautious", "log-loss", "cautious log-loss"]
    ways = ["crowd", "inferred again", "discounted, fitted again", "fused, fitted again"]
    rows, sure, compared = [], [], []
    for name in DEPENDENT:
        runs = [measured(name, method, FIRST_SEED + s) for s in range(seeds)]
        verdicts = [str(sum(run["verdict"] == v for run in runs)) for v in ("exact", "other", "missed")]
        shown = [interval([run[key] for run in runs], 100, 1) for key in ("majority", "plain", "found", "known")]
        rows.append([name, *verdicts, *shown])
        fired = [run for run in runs if run["fired"]]
        if fired:
            keys = (("plain", 100, 1), ("confidence", 100, 1), ("cautious", 100, 1), ("loss", 1, 2), ("cautious loss", 1, 2))
            sure.append([name, *(interval([run[key] for run in fired], scale, digits) for key, scale, digits in keys)])
            pairs = (("inferred", "inferred loss"), ("cautious", "cautious loss"), ("fused", "fused loss"))
            shown = [[interval([run[key] for run in fired], 100, 1) for key, _ in pairs]]
            shown.append([interval([run[key] for run in fired], 1, 2) for _, key in pairs])
            compared.append([name, *(f"{first}; {second}" for first, second in zip(*shown, strict=True))])
    return (
        f"\n**Known groups**, {seeds} seeds each, accuracy in percent with the 95% interval over seeds. *Exact*: the preferred "
        "reading is the true groups; *other reading*: they are only among the readings that are kept beside it; *missed*: "
        "neither. Fused labels are "
        f"{method} on votes in which every group is one annotator; `aggregate` does that for groups that are "
        "given, and with `--fuse-groups` for those found.\n\n"
        f"{table(header, rows)}\n\nWhat `aggregate` prints where the check speaks: the labels of {method}, their accuracy, the "
        "confidence of the fit and the cautious one (percent), and the log-loss of both.\n\n"
        f"{table(calibration, sure)}\n\nThree ways to be cautious, confidence (percent) and log-loss: the votes of a group "
        "discounted and the labels inferred again with the annotators of the fit; discounted and fitted again, which is what "
        f"`aggregate` does; fused and fitted again.\n\n{table(ways, compared)}\n"
    )


@RUNS.each
def measured(name: str, method: str, seed: int) -> dict[str, object]:
    crowd = DEPENDENT[name](seed)
    votes, truth = crowd.votes, crowd.truth
    result = crowdwise.make(method).fit(votes).result_
    found = find(votes)
    true = {tuple(np.flatnonzero(crowd.code == j).tolist()) for j in range(crowd.code.max() + 1)}
    readings = [set(reading.members) for reading in found.readings]
    verdict = "exact" if readings[:1] == [true] else "other" if true in readings else "missed"
    rows = np.arange(votes.n_items)
    ways = {"cautious": cautious(result, found)}
    for way, infer in (("inferred", inferred_again), ("fused", fused_again)):
        posterior = result.posterior
        for reading in found.readings:
            moved = lowered(result.posterior, infer(result, reading, method), result.codes)
            lower = moved[rows, result.codes] < posterior[rows, result.codes]
            posterior = np.where(lower[:, None], moved, posterior)
        ways[way] = posterior

    def fitted(code: np.ndarray) -> float:
        return accuracy(crowdwise.make(method).fit(fused(votes, code)).posterior_, truth)

    return {
        "verdict": verdict,
        "fired": bool(found),
        "majority": accuracy(crowdwise.make("majority").fit(votes).posterior_, truth),
        "plain": accuracy(result.posterior, truth),
        "found": fitted(found.readings[0].code) if found else accuracy(result.posterior, truth),
        "known": fitted(crowd.code),
        "confidence": float(result.confidence.mean()),
        "loss": log_loss(result.posterior, truth),
        **{way: float(posterior[rows, result.codes].mean()) for way, posterior in ways.items()},
        **{f"{way} loss": log_loss(posterior, truth) for way, posterior in ways.items()},
    }


def inferred_again(result: crowdwise.Result, reading: Reading, method: str) -> np.ndarray:
    return EffectiveVotes(reading.code, reading.correlation).result(result).posterior


def fused_again(result: crowdwise.Result, reading: Reading, method: str) -> np.ndarray:
    return crowdwise.make(method).fit(fused(result.votes, reading.code)).posterior_


@RUNS.each
def on_set(name: str, method: str) -> dict[str, Any]:
    """Groups and seconds; where the check speaks, accuracy and log-loss as they are, cautious and fused."""
    loaded(method)
    votes, truth = labelled(name)
    result, fit_seconds = timed(lambda: crowdwise.make(method).fit(votes).result_)
    found, check_seconds = timed(lambda: find(votes))
    run: dict[str, Any] = {"votes": votes.n_votes, "groups": [len(group.members) for group in found.groups]}
    run |= {"readings": len(found.readings), "check": check_seconds, "fit": fit_seconds}
    if found:
        after = crowdwise.make(method).fit(fused(votes, found.readings[0].code)).posterior_
        run["right"] = [accuracy(q, truth) for q in (result.posterior, after)]
        run["loss"] = [log_loss(q, truth) for q in (result.posterior, cautious(result, found), after)]
    return run


def real_sets(method: str) -> str:
    rows, speaking = [], []
    for name in SETS:
        run = on_set(name, method)
        sizes = ", ".join(map(str, run["groups"])) or "-"
        others = str(run["readings"] - 1) if run["groups"] else "-"
        rows.append([name, f"{run['votes']:,}", sizes, others, f"{run['check']:.3f}", f"{run['fit']:.3f}"])
        if "right" in run:
            (plain, after), (loss, careful, loss_after) = run["right"], run["loss"]
            speaking.append(
                f"On {name}, {method} has {100 * plain:.1f} % and log-loss {loss:.2f}, with cautious confidence "
                f"{careful:.2f}; fused, {100 * after:.1f} % and {loss_after:.2f}."
            )
    header = ["set", "votes", "sizes of groups", "other readings", "check, s", f"{method}, s"]
    return f"\n**Shared sets**, as they are; processor seconds.\n\n{table(header, rows)}\n\n{' '.join(speaking)}\n"


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and the processor seconds that it took: they do not depend on what else the machine does."""
    started = process_time()
    value = run()
    return value, process_time() - started
