"""Stops of campaigns: what is said of the labels at the stop, and how many are right.

    python -m benchmarks run stop_truth [--seeds N] [--sets S,T] [--dry-run]

Recorded crowds answer. A campaign has up to 200 items of a set, drawn by its seed, dawid-skene and warm-information (both the
defaults of `crowdwise suggest`), and a quarter of a vote per item at a time, or a tenth of the votes so far if that is more. It
runs until `ActiveLoop.stop(target)` says so or nobody is left to ask, which comes soon on sets with few votes per item: they
have a row of their own. Targets are 0.65, 0.7, 0.75, 0.8 and 0.9 in turn (chosen after a first look at sets with ten votes per
item and more, so that many campaigns reach them).

Three things were fitted to labelled sets: the exponent of dawid-skene, the spread of exponents, and the spread of temperatures
beside it. For a campaign on a set the first and the last are estimated again from the 16 others: the exponent as
`experience` does it (the mean log-loss minimised, .10 added), the spread of temperatures from campaigns of the
other sets between the first look at which most items have two votes and four votes per item. The spread of exponents is the
shipped one. In the audited variant the campaign has labels checked, 20 at a time and at most 100, when the target is as likely
as not, goes on for a vote per item if that certifies nothing, and gives up after four audits. Runs are kept in
benchmarks/records/stop_truth.jsonl.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import crowdwise
import crowdwise.io
from benchmarks.accuracy.real_data import SETS
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, provenance, put, table
from benchmarks.records import Records
from crowdwise.campaign import right_labels
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.oracle import RecordedCrowd
from crowdwise.campaign.right_labels import RightLabels, overlapping
from crowdwise.campaign.stopping import chance_of, expected_accuracy
from crowdwise.data.gold import encode_gold
from crowdwise.estimator import judgement
from crowdwise.estimator.experience import EXPONENT_SD, EXPONENT_SD_ABOVE, EXPONENTS
from crowdwise.estimator.judgement import calibrated
from crowdwise.kernels.numerics import tempered

BENCHMARK = Benchmark(
    "Is what a campaign says at its stop true?",
    sections=("stops",),
    data=("labelled",),
    renders=("--dry-run",),
    quick="--sets dog --seeds 1",
    small={"ITEMS": 20, "SETS": ["dog", "rte"]},
)

METHOD, POLICY = "dawid-skene", "warm-information"
ITEMS, TARGETS, FEWEST = 200, (0.65, 0.7, 0.75, 0.8, 0.9), 9.95
GRID, SHIFTS = np.round(np.arange(0, 1.801, 0.01), 2), np.round(np.arange(-3, 3.001, 0.1), 2)
FIT_SEEDS, UP_TO = 4, 4.0
KEPT = Records("stop_truth")


@cache
def crowd_of(name: str) -> tuple[crowdwise.Annotations, np.ndarray]:
    folder = SHARED / name
    votes = crowdwise.read(next(folder.glob("annotations.csv*"))).deduplicate()
    return votes, encode_gold(votes, crowdwise.io.read_gold(folder / "truth.csv")).astype(np.int64)


def begin(name: str, seed: int) -> tuple[ActiveLoop, RecordedCrowd, np.ndarray]:
    """A campaign on some items of known label, its crowd, and the codes of the true classes."""
    votes, truth = crowd_of(name)
    known = np.flatnonzero(truth >= 0)
    chosen = np.sort(np.random.default_rng([seed, 7]).choice(known, min(ITEMS, len(known)), replace=False))
    part = votes.take_items(chosen)
    crowd = RecordedCrowd(part)
    people = part.annotators[part.votes_per_annotator > 0].tolist()
    names = {"items": crowd.items, "annotators": people, "classes": crowd.classes.tolist(), "allowed": crowd.allowed}
    return ActiveLoop(crowdwise.make(METHOD), POLICY, random_state=seed, **names), crowd, truth[chosen]


def advance(loop: ActiveLoop, crowd: RecordedCrowd) -> bool:
    questions = loop.ask(max(len(crowd.items) / 4, loop.votes.n_votes / 10))
    if questions.height:
        loop.tell(crowd.answer(questions))
    return bool(questions.height)


def accuracy(loop: ActiveLoop, crowd: RecordedCrowd, truth: np.ndarray) -> float:
    """Share of right labels, checked ones corrected."""
    named = dict(loop.labels().select("item", "label").iter_rows())
    # An item without votes gets the most frequent class.
    guess = loop.result.labels
    said = [named[item] if named[item] is not None else guess[place] for place, item in enumerate(crowd.items.tolist())]
    return float(np.mean([label == crowd.classes[code] for label, code in zip(said, truth, strict=True)]))


# -- what is fitted to sets ------------------------------------------------------------------------


def losses_of(name: str) -> list[float]:
    """Mean log-loss of dawid-skene on all votes of a set, by exponent."""
    votes, truth = crowd_of(name)
    result = crowdwise.make(METHOD).fit(votes).result_
    judged = np.flatnonzero(truth >= 0)

    def loss(exponent: float) -> float:
        believed = calibrated(result.model_posterior, votes, result.annotators, result.class_prior, exponent)
        return float(-np.log(np.maximum(believed[judged, truth[judged]], 1e-15)).mean())

    return [loss(float(exponent)) for exponent in GRID[::5]]


def looks_of(name: str, seed: int) -> list[list[float]]:
    """Of every look of a campaign: the shift of log T that its accuracy asks for, its standard error, mean (log votes)^2."""
    loop, crowd, truth = begin(name, seed)
    looks, n = [], len(truth)
    while advance(loop, crowd) and loop.votes.n_votes <= UP_TO * n:
        result = loop.result
        if not overlapping(result, slice(None)):
            continue
        right, code, p = float((result.codes == truth).mean()), result.codes, result.confidence
        curve = np.array([tempered(result.posterior, np.exp(s))[np.arange(n), code].mean() for s in SHIFTS])
        shift = float(np.interp(-right, -curve, SHIFTS))
        slope = abs(float(np.interp(shift + 0.1, SHIFTS, curve) - np.interp(shift - 0.1, SHIFTS, curve))) / 0.2
        error = float(np.sqrt((p * (1 - p)).sum())) / n / max(slope, 0.02)
        looks.append([shift, error, float((np.log(np.maximum(result.votes.weight_per_item, 1)) ** 2).mean())])
    return looks


def spreads(runs: dict[str, Any], without: str = "") -> tuple[float, float]:
    """Spread of log T beside that of exponents, all in all and of the half above: sets count alike."""
    total, weight = np.zeros(2), np.zeros(2)
    for name in SETS:
        looks = [look for seed in range(FIT_SEEDS) for look in runs.get(f"looks/{name}/{seed}", [])]
        if name == without or not looks:
            continue
        shift, error, log_votes = np.array(looks).T
        for side, (inside, sd) in enumerate(((shift <= 0, EXPONENT_SD), (shift > 0, EXPONENT_SD_ABOVE))):
            # An error of half a unit says nothing about the set.
            kept = inside & (error < 0.5)
            if kept.any():
                share = float(kept.mean())
                excess = shift**2 - error**2 - sd**2 * log_votes
                total[side] += share * float(excess[kept].mean())
                weight[side] += share
    below, above = np.sqrt(np.maximum(total / np.maximum(weight, 1e-12), 0)).tolist()
    return below, above


def exponent(runs: dict[str, Any], without: str = "") -> float:
    losses = np.array([runs[f"losses/{name}"] for name in SETS if name != without])
    return round(float(GRID[::5][losses.mean(axis=0).argmin()]) + 0.1, 2)


@contextmanager
def learnt_without(runs: dict[str, Any], name: str) -> Iterator[None]:
    """The library as it would be if a set had not been among those it was fitted to."""
    before = right_labels.TEMPERATURE_SD, right_labels.TEMPERATURE_SD_ABOVE, EXPONENTS[METHOD]
    try:
        right_labels.TEMPERATURE_SD, right_labels.TEMPERATURE_SD_ABOVE = spreads(runs, name)
        judgement.EXPONENTS[METHOD] = exponent(runs, name)
        yield
    finally:
        right_labels.TEMPERATURE_SD, right_labels.TEMPERATURE_SD_ABOVE, judgement.EXPONENTS[METHOD] = before


# -- campaigns -------------------------------------------------------------------------------------


def stopped(name: str, seed: int) -> dict[str, Any]:
    """A campaign until its stop, and what the rule without a range over crowds would have said on the way."""
    loop, crowd, truth = begin(name, seed)
    target, n, earlier = TARGETS[seed % len(TARGETS)], len(truth), None
    while advance(loop, crowd):
        if earlier is None and loop.votes.n_votes >= n:
            certain = RightLabels.of(loop.result.confidence[None], np.ones(1), n)
            chance = certain.at_least(int(np.ceil(target * n - 1e-9)))
            if chance >= 0.95:
                earlier = {"votes": loop.votes.n_votes / n, "chance": chance, "right": accuracy(loop, crowd, truth)}
        reason = loop.stop(target)
        if reason:
            break
    mean, low, high = expected_accuracy(loop.result)
    found = {"target": target, "reached": ": at least" in reason, "votes": loop.votes.n_votes / n, "expected": mean}
    return found | {"low": low, "high": high, "right": accuracy(loop, crowd, truth), "earlier": earlier}


def audited(name: str, seed: int) -> dict[str, Any]:
    """A campaign that believes checked labels only."""
    loop, crowd, truth = begin(name, seed)
    true = dict(zip(crowd.items.tolist(), crowd.classes[truth].tolist(), strict=True))
    target, n, audits, checks, wait = TARGETS[seed % len(TARGETS)], len(truth), 0, 0, 0.0
    found: dict[str, Any] = {"target": target, "certified": False}
    going = True
    while going and audits < 4:
        going = advance(loop, crowd)
        if going and (loop.votes.n_votes < wait or chance_of(loop.result, target) < 0.5):
            continue
        audits += 1
        for _ in range(5):
            table = loop.check(20)
            checks += loop.tell_checked(
                table.with_columns(pl.Series("true label", [str(true[item]) for item in table["item"]]))
            )
            if loop.stop(target, certified=True).startswith("certified"):
                found["certified"], going = True, False
                break
        wait = loop.votes.n_votes + n
    found |= {"votes": loop.votes.n_votes / n, "checks": checks, "audits": audits, "right": accuracy(loop, crowd, truth)}
    return found | {"proved": loop.certified()}


def measure(runs: dict[str, Any], names: list[str], seeds: int) -> None:
    def once(key: str, run: Any, *given: Any) -> None:
        if key not in runs:
            runs[key] = run(*given)
            KEPT.add(key, runs[key])

    for name in SETS:
        once(f"losses/{name}", losses_of, name)
        for seed in range(FIT_SEEDS):
            once(f"looks/{name}/{seed}", looks_of, name, seed)
        print(name, flush=True)
    for name in names:
        with learnt_without(runs, name):
            for seed in range(seeds):
                once(f"stop/{name}/{seed}", stopped, name, seed)
                once(f"audit/{name}/{seed}", audited, name, seed)
        print(name, flush=True)


# -- the page --------------------------------------------------------------------------------------


def percent(values: list[Any], digits: int = 0) -> str:
    return f"{100 * float(np.mean(values)):.{digits}f}" if len(values) else "-"


def inside(stops: list[dict[str, Any]]) -> list[bool]:
    """Whether what was reached lies in the stated range."""
    return [one["low"] <= one["right"] <= one["high"] for one in stops]


def row_of(name: str, stops: list[dict[str, Any]], audits: list[dict[str, Any]]) -> list[str]:
    ended = [one for one in stops if one["reached"]]
    earlier = [one for one in stops if one["earlier"]]
    proved = [one for one in audits if one["certified"]]
    means = [percent([one[key] for one in stops], 1) for key in ("expected", "low", "high", "right")]
    return [
        name, str(len(stops)), str(len(ended)), f"{np.mean([one['votes'] for one in stops]):.1f}", *means,
        percent(inside(stops)), percent([one["right"] >= one["target"] for one in ended]),
        f"{len(earlier)}", percent([one["earlier"]["right"] >= one["target"] for one in earlier]),
        f"{len(proved)} of {len(audits)}", percent([one["right"] >= one["proved"] for one in proved]),
        f"{np.mean([one['checks'] for one in proved]):.0f}" if proved else "-",
    ]  # fmt: skip


def report(runs: dict[str, Any], names: list[str], seeds: int) -> None:
    def of(kind: str, name: str) -> list[dict[str, Any]]:
        return [runs[key] for seed in range(seeds) if (key := f"{kind}/{name}/{seed}") in runs]

    many = [name for name in names if crowd_of(name)[0].n_votes >= FEWEST * crowd_of(name)[0].n_items]
    groups = {"ten votes and more": many, "fewer votes": [name for name in names if name not in many]}
    rows = [row_of(name, of("stop", name), of("audit", name)) for part in groups.values() for name in part]
    for group, part in ((group, part) for group, part in groups.items() if part):
        rows.append(row_of(group, *([one for name in part for one in of(kind, name)] for kind in ("stop", "audit"))))
    stops = [one for name in many for one in of("stop", name)]
    head = ["set", "campaigns", "target reached", "votes per item", "expected", "lower end", "upper end", "right"]
    head += ["in the range", "target true", "stops without a range", "target true then"]
    head += ["certified", "certificate true", "checks"]
    below, above = spreads(runs)
    parts = [spreads(runs, name) for name in SETS]
    text = provenance("python -m benchmarks run stop_truth", KEPT) + "\n"
    ended = [one for one in stops if one["reached"]]
    text += (
        f"Shares in percent. Campaigns of up to {ITEMS} items with {METHOD} and {POLICY}; targets "
        f"{', '.join(map(str, TARGETS))} in turn, chosen after a first look so that many campaigns reach them. What was fitted "
        "to sets was fitted without the set of the row (exponent, spread of temperatures; the spread of exponents is that of "
        "all). *In the range*: the share of right labels lies between the ends stated at the stop, whether the target was "
        f"reached or nobody was left to ask; of the {len(ended)} campaigns that reached it on sets with ten votes per item and "
        f"more, {percent(inside(ended))} %. *Stops "
        "without a range*: campaigns that would have stopped, at an earlier look, had crowds been taken to be all alike, and "
        "how often the target was true there. *Certified*: campaigns that had labels checked until the target was proved; "
        "*certificate true*: at least the proved share was right. Campaigns on one set share its crowd: these are "
        f"{len(names)} crowds, not {len(names) * seeds}.\n\n"
        f"Spread of log T beside that of exponents, all sets: {below:.3f}, above {above:.3f}; without one of the 17 sets "
        f"{min(b for b, _ in parts):.3f} to {max(b for b, _ in parts):.3f}, and {min(a for _, a in parts):.3f} to "
        f"{max(a for _, a in parts):.3f}. Exponent {exponent(runs):.2f}.\n\n"
    )
    put("stops", text + table(head, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--sets", default="")
    parser.add_argument("--dry-run", action="store_true", help="run nothing; write what was measured before")
    asked = parser.parse_args()
    runs = KEPT.read()
    names = asked.sets.split(",") if asked.sets else list(SETS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not asked.dry_run:
            measure(runs, names, asked.seeds)
    report(runs, names, asked.seeds)
