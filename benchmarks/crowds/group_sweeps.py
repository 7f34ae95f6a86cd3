"""The tutorial's sweeps over groups, colluders and spammers, and whether looking for groups ever costs much.

    python -m benchmarks run group_sweeps [--seeds 5] [--crowds 50]

Sizes as on the slides: groups N = 5,000, A = 40, K = 3; colluders N = 5,000, A = 60, K = 3; spammers N = 10,000, A = 20, K = 4.
The slides show these sweeps as figures without numbers, so only ours are here.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.crowds.dependent_crowds import DEPENDENT, Crowd, colluders, ring, teams
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.trust.crowd import covariance, eigen_scores, raykar_yu, spammers, spem
from crowdwise.trust.crowd.dependence import colluding as colluding_in
from crowdwise.trust.crowd.dependence import find, rooted
from crowdwise.trust.crowd.fusion import fused
from crowdwise.trust.crowd.pruning import refit_fused, refit_without
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "How do methods hold as groups, colluders and spammers grow?",
    sections=("group sweeps",),
    renders=("",),
    quick="--seeds 1 --crowds 1",
    small={"DEPENDENT": {}},
    leaves_out=("groups", "colluding", "random_keys", "spamming"),
)

RUNS = Records("group_sweeps")
FIRST_SEED = 9000
# Name -> sizes of the groups, and how faithfully members give the group's answer.
GROUPS = {
    "five of 8": ((8,) * 5, (0.8, 0.95)),
    "20, 8, 6, 4, 2": ((20, 8, 6, 4, 2), (0.8, 0.95)),
    "28, 6, 3, 2, 1": ((28, 6, 3, 2, 1), (0.8, 0.95)),
    "two of 20": ((20, 20), (0.8, 0.95)),
    "ten of 4": ((4,) * 10, (0.8, 0.95)),
    "twenty of 2": ((2,) * 20, (0.8, 0.95)),
    "20, 8, 6, 4, 2, copied 0.6": ((20, 8, 6, 4, 2), (0.6, 0.6)),
    "20, 8, 6, 4, 2, copied 0.4": ((20, 8, 6, 4, 2), (0.4, 0.4)),
}
INDEPENDENT: dict[str, dict[str, object]] = {
    "independent, dense": {"n_items": 300, "n_annotators": 10, "votes_per_item": 10},
    "independent, 4 votes per item": {"n_items": 600, "n_annotators": 60, "votes_per_item": 4, "annotators": "dirichlet"},
    "independent, hard items": {"n_items": 400, "n_annotators": 20, "votes_per_item": 8, "difficulty": 1.0},
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--crowds", type=int, default=50)
    given = arguments.parse_args()
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)
    parts = []
    sweeps = groups, colluding, random_keys, spamming
    for part in (*(sweep(given.seeds) for sweep in sweeps), never_worse(given.crowds)):
        print(part, flush=True)
        parts.append(part)
    said = provenance(f"python -m benchmarks run group_sweeps --seeds {given.seeds} --crowds {given.crowds}", RUNS)
    put("group sweeps", "\n".join([said, *parts]))


def fitted(method: str, votes: Annotations, truth: np.ndarray, **settings: object) -> float:
    return accuracy(crowdwise.make(method, **settings).fit(votes).result_.model_posterior, truth)


def rows_of(runs: Callable[[int], dict[str, float]], seeds: int) -> tuple[list[str], list[str]]:
    """Names of what was measured, and its means in percent with intervals over seeds."""
    measured = [runs(FIRST_SEED + s) for s in range(seeds)]
    return list(measured[0]), [interval([run[name] for run in measured], 100, 1) for name in measured[0]]


@RUNS.each
def in_groups(seed: int, sizes: tuple[int, ...], copied: tuple[float, float]) -> dict[str, float]:
    drawn = teams(seed, n_items=5000, sizes=sizes, copied=copied)
    votes, truth = drawn.votes, drawn.truth
    given = {a: int(j) for a, j in enumerate(drawn.code)}
    return {
        "found exactly": float({tuple(g.members.tolist()) for g in find(votes).groups} == true_groups(drawn)),
        "majority": fitted("majority", votes, truth),
        "dawid-skene": fitted("dawid-skene", votes, truth),
        "group-vote": fitted("group-vote", votes, truth),
        "group-dawid-skene": fitted("group-dawid-skene", votes, truth),
        "groups known": fitted("group-dawid-skene", votes, truth, groups=given),
    }


def groups(seeds: int) -> str:
    rows = []
    for name, (sizes, copied) in GROUPS.items():
        header, shown = rows_of(lambda seed, sizes=sizes, copied=copied: in_groups(seed, sizes, copied), seeds)
        rows.append([name, *shown])
    return f"\n**Groups**, {seeds} seeds, accuracy in percent.\n\n{table(['groups', *header], rows)}\n"


def true_groups(drawn: Crowd) -> set[tuple[int, ...]]:
    found = (np.flatnonzero(drawn.code == j) for j in range(drawn.code.max() + 1))
    return {tuple(members.tolist()) for members in found if len(members) > 1}


@RUNS.each
def among_colluders(seed: int, n_colluders: int) -> dict[str, float]:
    drawn = colluders(seed, n_colluders, n_items=5000)
    votes, truth = drawn.votes, drawn.truth
    result = crowdwise.make("dawid-skene").fit(votes).result_
    shown = {name: fitted(name, votes, truth) for name in ("majority", "pgd", "m-msr")}
    shown["dawid-skene"] = accuracy(result.posterior, truth)
    for name, found in (("fused, found", find(votes)), ("fused, one trusted", rooted(result, [59]))):
        fit = refit_fused(result, found.readings[0]) if found.groups else result
        shown[name] = accuracy(fit.posterior, truth)
    shown["fused, known"] = fitted("dawid-skene", fused(votes, drawn.code), truth)
    return shown


def colluding(seeds: int) -> str:
    rows = []
    for n_colluders in (6, 12, 18, 24, 27):
        header, shown = rows_of(lambda seed, n=n_colluders: among_colluders(seed, n), seeds)
        rows.append([f"{n_colluders} of 60", *shown])
    return f"\n**Colluders**, {seeds} seeds, accuracy in percent.\n\n{table(['colluders', *header], rows)}\n"


@RUNS.each
def of_a_key(seed: int, n_classes: int, votes_per_item: int) -> dict[str, float]:
    """Who is seen and left out of 18 of 60 who answer from one random key, as `--drop-colluders --trusted` does."""
    drawn = ring(seed, n_classes, votes_per_item)
    votes, truth = drawn.votes, drawn.truth
    result = crowdwise.make("dawid-skene").fit(votes).result_
    right = np.bincount(votes.annotator, votes.label == truth[votes.item]) / votes.votes_per_annotator
    trusted = int(18 + np.argsort(right[18:])[21])
    gone = colluding_in(votes, rooted(result, [trusted]))
    kept = refit_without(result, gone) if gone else result
    known = refit_without(result, list(range(18)))
    return {
        "warned": float(bool(find(votes))),
        "dropped exactly": float(gone == list(range(18))),
        "dawid-skene": accuracy(result.posterior, truth),
        "without those dropped": accuracy(kept.posterior, truth),
        "without all colluders": accuracy(known.posterior, truth),
    }


def random_keys(seeds: int) -> str:
    rows = []
    for n_classes in (2, 3, 5):
        for per_item in (60, 15, 8):
            header, shown = rows_of(lambda seed, k=n_classes, n=per_item: of_a_key(seed, k, n), seeds)
            rows.append([f"{n_classes} classes, {per_item} votes per item", *shown])
    return (
        f"\n**A random key**, {seeds} seeds, percent. 18 of 60 give the answer of a key that is drawn at random, on 400 items; "
        "the others are right in 50 to 85 %. *Dropped* is who `--drop-colluders` leaves out if the median of the honest "
        f"annotators is named with `--trusted`.\n\n{table(['crowd', *header], rows)}\n"
    )


def spamming(seeds: int) -> str:
    rows, flags = [], []
    for n_spammers in (4, 8, 12, 16):
        for kind in ("spammers", "malicious"):
            header, shown = rows_of(lambda seed, n=n_spammers, kind=kind: oracle(seed, n, kind), seeds)
            rows.append([f"{n_spammers} of 20 {kind}", *shown])
        names, found = rows_of(lambda seed, n=n_spammers: detected(seed, n), seeds)
        flags.append([f"{n_spammers} of 20", *found])
    return (
        f"\n**Spammers**, {seeds} seeds, accuracy in percent; the oracle knows all confusion matrices. Spammers tell it "
        "nothing, and malicious annotators, right in a tenth of the items, tell it "
        f"much.\n\n{table(['annotators', *header], rows)}\n\n"
        "Flagged spammers, and honest annotators who are not flagged, in percent: by covariance as on the "
        "slides (k-means) and with a "
        "false-discovery rate, by confusion matrices (Raykar and Yu), by both as `--drop-spammers` does, and "
        "by SpEM and the ratio of eigenvectors.\n\n"
        f"{table(['spammers', *names], flags)}\n"
    )


def with_spammers(seed: int, n_spammers: int, kind: str) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Votes of everybody on everything, the truth, and the confusion matrices: honest ones are right in 0.4 to 0.7."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(4, size=10_000)
    confusion = np.empty((20, 4, 4))
    for a in range(20):
        right = 0.1 if a < n_spammers else rng.uniform(0.4, 0.7)
        confusion[a] = np.full((4, 4), (1 - right) / 3) + (right - (1 - right) / 3) * np.eye(4)
        if a < n_spammers and kind == "spammers":
            confusion[a] = rng.dirichlet(np.ones(4))
    drawn = [(rng.random((len(truth), 1)) > own[truth].cumsum(axis=1)[:, :-1]).sum(axis=1) for own in confusion]
    return Annotations.from_matrix(np.column_stack(drawn), annotators=range(20)), truth, confusion


@RUNS.each
def oracle(seed: int, n_spammers: int, kind: str) -> dict[str, float]:
    votes, truth, confusion = with_spammers(seed, n_spammers, kind)
    score = np.zeros((votes.n_items, 4))
    np.add.at(score, votes.item, np.log(confusion[votes.annotator, :, votes.label] + 1e-12))
    shares = np.exp(score - score.max(axis=1, keepdims=True))
    right = {"oracle": accuracy(shares / shares.sum(axis=1, keepdims=True), truth)}
    return right | {name: fitted(name, votes, truth) for name in ("majority", "dawid-skene", "consensus")}


@RUNS.each
def detected(seed: int, n_spammers: int) -> dict[str, float]:
    votes, _, _ = with_spammers(seed, n_spammers, "spammers")
    result = crowdwise.make("dawid-skene").fit(votes).result_
    reports = {
        "k-means": covariance.score(result, rule="k-means"),
        "covariance": covariance.score(result),
        "Raykar and Yu": raykar_yu.score(result),
        "both": spammers.score(result),
        "SpEM": spem.score(result),
        "eigen-ratio": eigen_scores.score(result),
    }
    found = {}
    for name, report in reports.items():
        flag = np.isin(np.arange(20), report.codes)
        found[f"{name}: found"] = float(flag[:n_spammers].mean())
        found[f"{name}: honest kept"] = float(1 - flag[n_spammers:].mean())
    return found


@RUNS.each
def of_kind(name: str, seed: int) -> dict[str, float]:
    votes, truth = DEPENDENT[name](seed)[:2] if name in DEPENDENT else independent(seed, INDEPENDENT[name])
    result, found = crowdwise.make("consensus").fit(votes).result_, find(votes)
    run = {"majority": fitted("majority", votes, truth), "consensus": accuracy(result.posterior, truth)}
    run["fused"] = accuracy(refit_fused(result, found.readings[0]).posterior, truth) if found else run["consensus"]
    run["group"] = fitted("group-dawid-skene", votes, truth)
    return run | {"better": max(run["majority"], run["consensus"])}


def never_worse(crowds: int) -> str:
    rows, worst = [], []
    for name in (*DEPENDENT, *INDEPENDENT):
        runs = [of_kind(name, FIRST_SEED + s) for s in range(crowds)]
        gaps = {key: [run[key] - run["better"] for run in runs] for key in ("fused", "group")}
        mean = [interval([run[key] for run in runs], 100, 1) for key in ("majority", "consensus", "fused", "group")]
        lost = [str(sum(gap < -0.01 for gap in gaps[key])) for key in ("fused", "group")]
        rows.append([name, *mean, *lost])
        best = max(np.mean([run["majority"] for run in runs]), np.mean([run["consensus"] for run in runs]))
        worst.append({key: np.mean([run[key] for run in runs]) - best for key in ("fused", "group")})
    low = {key: 100 * min(entry[key] for entry in worst) for key in ("fused", "group")}
    header = [
        "crowd",
        "majority",
        "consensus",
        "consensus, fused",
        "group-dawid-skene",
        "fused: crowds lost",
        "group: crowds lost",
    ]
    return (
        f"\n**Does it ever cost much?** {crowds} crowds of each kind, accuracy in percent; *lost*: crowds in which it is more "
        "than a point below the better of majority and consensus in the same crowd, which nobody knows "
        "beforehand. On average over "
        f"the crowds of a kind, the lowest difference to the better of the two is {low['fused']:+.1f} points (fused) and "
        f"{low['group']:+.1f} (group-dawid-skene).\n\n{table(header, rows)}\n"
    )


def independent(seed: int, size: dict[str, object]) -> tuple[Annotations, np.ndarray]:
    drawn = simulate(**size, random_state=seed)
    return drawn.votes, drawn.truth
