"""Which faction is the crowd: groups planted into real votes, and what checked labels or one trusted annotator make of them.

    python -m benchmarks run factions [groups] [colluders] [clean] [--method NAME] [--seeds 10] [--workers 2]

Three tables: groups planted into twelve sets; colluders planted into two; and whom the checks flag in votes as they are. A
planted group has a hidden answer on every item, right half of the time, which members give with probability 0.9 and else guess;
colluders agree on one wrong class and give it with probability 0.9, else the true one. Members are drawn until they have the
stated share of the votes (colluders: of the annotators). No fit sees a true label but twenty: either drawn evenly from all
items ("checked"; left out of all accuracies), or those that the library asks for ("audited": the first twenty of `disputed`
whose truth is known, fewer where there are fewer, none where no groups are found). The latter are left out of the accuracy of
"audited", and for comparison of that with known groups beside it. Runs are kept in benchmarks/records/factions.jsonl, so that
an interrupted command continues; where the library changed since, delete the file first.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks import crowd_sets
from benchmarks.declaration import Benchmark
from benchmarks.page import interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.trust.crowd import against, colluders, copiers, groups
from crowdwise.trust.crowd.dependence import disputed, find, rooted
from crowdwise.trust.crowd.fusion import fused
from crowdwise.trust.crowd.pruning import refit_fused
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "What do checked labels or a trusted annotator make of factions planted into real votes?",
    sections=("factions, groups", "factions, colluders", "factions, clean"),
    data=("labelled",),
    renders=("groups --seeds 10", "colluders --seeds 10", "clean --seeds 10"),
    quick="clean --seeds 1 --method majority",
    small={"SETS": ["dog"]},
)

SETS = ["bluebird", "cf", "cf_amt", "dog", "labelme", "possent", "product", "rte", "sentence_polarity", "temp", "web", "wsd"]
SHARES, COLLUDING = (0.15, 0.3, 0.45), (0.1, 0.2, 0.3, 0.4)
CHECKED, FIRST_SEED = 20, 7000
KEPT = Records("factions")
# What is planted, into which set, with which share; by table.
Cell = tuple[str, str, float]
Runs = dict[Cell, list[dict[str, float]]]
CELLS: dict[str, list[Cell]] = {
    "groups": [("group", name, share) for share in SHARES for name in SETS],
    "colluders": [("colluders", name, share) for name in ("dog", "web") for share in COLLUDING],
    "clean": [],
}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument(
        "tables", nargs="*", metavar="TABLE", default=list(CELLS), help="groups, colluders, clean; all by default"
    )
    arguments.add_argument("--method", default="consensus")
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--workers", type=int, default=1, help="processes; the figures are the same")
    given = arguments.parse_args()
    ignore_warnings()
    for name in given.tables:
        cells = CELLS[name]
        part = TABLES[name](given.method, measured(given.method, given.seeds, given.workers, cells))
        print(part, flush=True)
        command = f"python -m benchmarks run factions {name} --method {given.method} --seeds {given.seeds}"
        put(f"factions, {name}", f"{provenance(command, KEPT)}\n{part}")


def load(name: str) -> tuple[Annotations, np.ndarray, np.ndarray]:
    """Votes, true classes (-1: unknown), and a class for every item: the true one, or the most voted where it is unknown."""
    votes, truth = crowd_sets.labelled(name)
    return votes, truth, np.where(truth >= 0, truth, crowdwise.make("majority").fit(votes).result_.codes)


def planted(votes: Annotations, who: np.ndarray, label: np.ndarray) -> tuple[Annotations, np.ndarray]:
    """Votes with the labels of these annotators replaced, and the group of everybody."""
    mine = np.isin(votes.annotator, who)
    labels = np.where(mine, label, votes.label)
    code = np.full(votes.n_annotators, -1)
    code[who] = 0
    return Annotations.from_codes(
        votes.item, votes.annotator, labels, votes.items, votes.annotators, votes.classes, None, None
    ), code


def with_group(votes: Annotations, classes: np.ndarray, share: float, seed: int) -> tuple[Annotations, np.ndarray]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(votes.n_annotators)
    mass = np.cumsum(votes.votes_per_annotator[order]) / votes.n_votes
    who = order[: max(int(np.abs(mass - share).argmin()) + 1, 2)]
    other = (classes + rng.integers(1, votes.n_classes, size=len(classes))) % votes.n_classes
    seen = np.where(rng.random(len(classes)) < 0.5, classes, other)[votes.item]
    return planted(votes, who, np.where(rng.random(votes.n_votes) < 0.9, seen, rng.integers(votes.n_classes, size=len(seen))))


def with_colluders(votes: Annotations, classes: np.ndarray, share: float, seed: int) -> tuple[Annotations, np.ndarray]:
    rng = np.random.default_rng(seed)
    who = rng.permutation(votes.n_annotators)[: round(share * votes.n_annotators)]
    wrong = (classes + rng.integers(1, votes.n_classes, size=len(classes))) % votes.n_classes
    return planted(votes, who, np.where(rng.random(votes.n_votes) < 0.9, wrong[votes.item], classes[votes.item]))


def labelled(votes: Annotations, code: np.ndarray, truth: np.ndarray, method: str, seed: int) -> dict[str, float]:
    """Accuracies on the items that were not checked: as fitted, and fused by what was found, checked, trusted and known."""
    rng = np.random.default_rng(seed)
    plain = crowdwise.make(method).fit(votes).result_
    evenly = rng.choice(np.flatnonzero(truth >= 0), CHECKED, replace=False)
    asked = disputed(plain, seed=seed)
    known, rest = with_gold(plain, truth, evenly)
    audited, unasked = with_gold(plain, truth, asked[truth[asked] >= 0][:CHECKED])
    honest = np.flatnonzero(code < 0)
    busy = honest[np.argsort(-votes.votes_per_annotator[honest], kind="stable")[:10]]
    right = [float((votes.label == truth[votes.item])[votes.annotator == a].mean()) for a in busy]
    trusted = votes.annotators[busy[np.argsort(right, kind="stable")[len(busy) // 2]]]
    by_groups = crowdwise.make(method).fit(fused(votes, code)).posterior_

    def relabelled(result: crowdwise.Result, found: object, rest: np.ndarray = rest) -> float:
        return accuracy((refit_fused(result, found.readings[0]) if found.groups else result).posterior, rest)

    return {
        "majority": accuracy(crowdwise.make("majority").fit(votes).result_.model_posterior, rest),
        "plain": accuracy(plain.posterior, rest),
        "gold": accuracy(known.posterior, rest),
        "found": relabelled(plain, find(votes)),
        "checked": relabelled(known, rooted(known)),
        "trusted": relabelled(plain, rooted(plain, [trusted])),
        "known": accuracy(by_groups, rest),
        "audited": relabelled(audited, rooted(audited), unasked),
        "known, unasked": accuracy(by_groups, unasked),
    }


def with_gold(plain: crowdwise.Result, truth: np.ndarray, items: np.ndarray) -> tuple[crowdwise.Result, np.ndarray]:
    """The fit that keeps the true labels of these items, and the truth of the others."""
    gold = np.full(plain.votes.n_items, -1, np.int16)
    gold[items] = truth[items]
    return crowdwise.make(plain.method).fit(replace(plain.votes, gold=gold)).result_, np.where(gold >= 0, -1, truth)


def group_run(method: str, name: str, share: float, seed: int) -> dict[str, float]:
    """What becomes of a group planted into a set."""
    votes, truth, classes = load(name)
    return labelled(*with_group(votes, classes, share, seed), truth, method, seed)


def colluders_run(method: str, name: str, share: float, seed: int) -> dict[str, float]:
    """Who is found of the colluders planted into a set, and what becomes of the labels."""
    votes, truth, classes = load(name)
    drawn, code = with_colluders(votes, classes, share, seed)
    result = crowdwise.make("dawid-skene").fit(drawn).result_
    run = labelled(drawn, code, truth, method, seed)
    run |= {other: accuracy(crowdwise.make(other).fit(drawn).posterior_, truth) for other in ("dawid-skene", "m-msr")}
    for key, report in (("groups", groups.score(result)), ("rank", colluders.score(result))):
        run[key] = float((code[report.codes] == 0).sum() / (code == 0).sum())
        run[f"{key} wrong"] = float((code[report.codes] < 0).sum())
    return run


def run_of(key: str) -> dict[str, float]:
    """The run that a key names: method, what is planted, set, share, seed."""
    method, kind, name, share, seed = key.split()
    return {"group": group_run, "colluders": colluders_run}[kind](method, name, float(share), int(seed))


def measured(method: str, seeds: int, workers: int, cells: list[Cell]) -> Runs:
    """Runs of every cell by seed; those that are not kept are measured, one seed of everything after the other."""
    keys = {cell: [f"{method} {cell[0]} {cell[1]} {cell[2]} {FIRST_SEED + s}" for s in range(seeds)] for cell in cells}
    kept = KEPT.read()
    missing = [key for of_seed in zip(*keys.values(), strict=True) for key in reversed(of_seed) if key not in kept]
    for key in missing:
        KEPT.refuse_to_measure(key)
    with ProcessPoolExecutor(workers, get_context("spawn"), ignore_warnings) as pool:
        for key, run in zip(missing, pool.map(run_of, missing), strict=True):
            KEPT.add(key, run)
            print(key, {name: round(100 * value, 1) for name, value in run.items()}, flush=True)
    kept = KEPT.read()
    return {cell: [kept[key] for key in keys[cell]] for cell in cells}


def ignore_warnings() -> None:
    warnings.simplefilter("ignore", crowdwise.errors.CrowdwiseWarning)


def planted_groups(method: str, runs: Runs) -> str:
    keys = ("majority", "plain", "gold", "found", "checked", "trusted", "known", "audited", "known, unasked")
    cells = CELLS["groups"]
    rows = [[f"{c[1]}, {c[2]:.0%}", *(interval([run[key] for run in runs[c]], 100, 1) for key in keys)] for c in cells]
    near = []
    for share in SHARES:
        means = [{key: np.mean([run[key] for run in runs["group", name, share]]) for key in keys} for name in SETS]
        close = {key: sum(m[key] >= m["known"] - 0.02 for m in means) for key in ("found", "checked", "trusted")}
        close["audited"] = sum(m["audited"] >= m["known, unasked"] - 0.02 for m in means)
        near.append(f"at {share:.0%}: {', '.join(f'{key} {n}' for key, n in close.items())}")
    header = ["set, share of the votes", "majority", method, "with gold", "fused, found", "checked", "trusted", "fused, known"]
    header += ["audited", "known, there"]
    return (
        f"\n**Planted groups**, {len(runs[cells[0]])} seeds each, accuracy in percent with the 95% interval over seeds. "
        f"*With gold*: {method} that keeps {CHECKED} checked labels, drawn evenly; *found*: `--fuse-groups` without anything "
        "known; *checked*: the same with these labels (`--gold`); *trusted*: the same with one annotator, the median by "
        f"accuracy of the ten honest ones with most votes (`--trusted`); *audited*: the same with the {CHECKED} labels that "
        f"`audit --decide {CHECKED}` asks for, which are left out there and under *known, there*. Sets of {len(SETS)} within "
        f"two points of known groups on average, {'; '.join(near)}.\n\n{table(header, rows)}\n"
    )


def planted_colluders(method: str, runs: Runs) -> str:
    # How a column is shown: by which factor and with how many digits.
    shown = {"groups": (100, 0), "groups wrong": (1, 1), "rank": (100, 0), "rank wrong": (1, 1)}
    labels = ("dawid-skene", "m-msr", "plain", "found", "checked", "known", "audited", "known, unasked")
    shown |= dict.fromkeys(labels, (100, 1))
    cells = CELLS["colluders"]
    rows = [
        [f"{c[1]}, {c[2]:.0%}", *(interval([run[key] for run in runs[c]], *how) for key, how in shown.items())] for c in cells
    ]
    header = ["set, share of annotators", "groups: found", "wrong", "rank: found", "wrong"]
    header += ["dawid-skene", "m-msr", method, "fused, found", "checked", "known", "audited", "known, there"]
    return (
        f"\n**Planted colluders**, {len(runs[cells[0]])} seeds each. *Found*: percent of the colluders who are flagged, and "
        "how many others are, by groups in the votes (`aggregate`, and the flags `group` and `colluder`) and by the rank of "
        f"the agreement matrix (`colluders.score`). Then accuracies in percent, as above.\n\n{table(header, rows)}\n"
    )


def clean(method: str, _: Runs) -> str:
    """Whom the checks flag in votes as they are, and whether the flagged share errors given the truth."""
    rows = []
    for name in SETS:
        votes, truth, _ = load(name)
        result = crowdwise.make(method).fit(votes).result_
        ranked = colluders.score(result).codes
        counts = [
            len(groups.score(result).codes),
            len(against.score(result).codes),
            len(copiers.score(result).codes),
            len(ranked),
        ]
        shown = "-" if len(ranked) < 2 else f"{excess_given_truth(votes, truth, ranked):+.2f}"
        rest = np.setdiff1d(np.arange(votes.n_annotators), ranked)
        other = "-" if len(ranked) < 2 else f"{excess_given_truth(votes, truth, rest):+.2f}"
        rows.append([name, str(votes.n_annotators), *map(str, counts), shown, other])
    header = ["set", "annotators", "group", "colluder", "copier", "by rank", "excess among these", "among the others"]
    return (
        "\n**Votes as they are**: annotators who are flagged. *Excess*: agreement beyond that of independent annotators with "
        "the same confusion matrices given the true class, as a share of what is possible, over pairs among "
        "those flagged by rank "
        f"and among the others.\n\n{table(header, rows)}\n"
    )


def excess_given_truth(votes: Annotations, truth: np.ndarray, who: np.ndarray) -> float:
    """Agreement of pairs among these beyond what their counted confusion matrices explain, relative to what is possible."""
    n_classes = votes.n_classes
    kept = np.isin(votes.annotator, who) & (truth[votes.item] >= 0)
    item, annotator, label = votes.item[kept], votes.annotator[kept], votes.label[kept]
    confusion = np.full((votes.n_annotators, n_classes, n_classes), 0.5)
    np.add.at(confusion, (annotator, truth[item], label), 1)
    confusion /= confusion.sum(axis=2, keepdims=True)
    agree = expected = meetings = 0.0
    for n in np.unique(item):
        at = np.flatnonzero(item == n)
        rows = confusion[annotator[at], truth[n]]
        counts = np.bincount(label[at], minlength=n_classes)
        agree += float((counts * (counts - 1)).sum()) / 2
        expected += float((rows.sum(axis=0) ** 2 - (rows**2).sum(axis=0)).sum()) / 2
        meetings += len(at) * (len(at) - 1) / 2
    return (agree - expected) / max(meetings - expected, 1e-9)


TABLES = {"groups": planted_groups, "colluders": planted_colluders, "clean": clean}
