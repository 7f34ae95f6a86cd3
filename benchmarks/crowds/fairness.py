"""Groups of items: per-group confusion, gaps and their intervals, parity and its cost, on simulated and one real crowd.

python -m benchmarks run fairness
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

import crowdwise
import crowdwise.errors
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.data.annotations import Annotations
from crowdwise.io import read_gold
from crowdwise.trust.crowd import spammers
from crowdwise.trust.fairness import ItemGroupDS, ParityClassifier, audit, disparity, parity_labels
from crowdwise.trust.fairness.gaps import gap_tables, one_hot
from crowdwise.trust.fairness.rates import Decisions

BENCHMARK = Benchmark(
    "Are gaps between groups of items found, and what does parity cost?",
    sections=("fairness",),
    data=("convarg_pairs",),
    packages=("torch",),
    renders=("",),
    small={"SEEDS": [0]},
    leaves_out=("recovery", "coverage", "amplified", "training", "minority"),
)

SEEDS = range(12)
RUNS = Records("fairness")


def crowd(
    seed: int,
    *,
    n_items: int = 800,
    n_annotators: int = 20,
    per_item: int = 5,
    bias: float = 0.3,
    biased: float = 0.5,
    shares: tuple[float, float] = (0.5, 0.3),
    small: float = 0.25,
) -> tuple[Annotations, Any, Any, Any]:
    """Votes, groups, truth and matrices [A, G, K, L]; the first annotators miss positives of group 1 by `bias`."""
    rng = np.random.default_rng(seed)
    group = (rng.random(n_items) < small).astype(int)
    truth = (rng.random(n_items) < np.array(shares)[group]).astype(int)
    right = np.repeat(rng.uniform(0.65, 0.9, (n_annotators, 1, 2)), 2, axis=1)
    right[: round(biased * n_annotators), 1, 1] -= bias
    confusion = np.empty((n_annotators, 2, 2, 2))
    for k in range(2):
        confusion[:, :, k, k], confusion[:, :, k, 1 - k] = right[:, :, k], 1 - right[:, :, k]
    item = np.repeat(np.arange(n_items), per_item)
    who = np.concatenate([rng.choice(n_annotators, per_item, replace=False) for _ in range(n_items)])
    label = (rng.random(len(item)) < confusion[who, group[item], truth[item], 1]).astype(int)
    made = Annotations.from_arrays(item, who, label, items=range(n_items), annotators=range(n_annotators), classes=[0, 1])
    return made, group, truth, confusion


KINDS: dict[str, dict[str, Any]] = {
    "bayes-gc (pooled)": {},
    "kappa = 0 (groups apart)": {"kappa": 0.0},
    "kappa = 3": {"kappa": 3.0},
    "kappa = 10 (default)": {},
    "kappa = 30": {"kappa": 30.0},
}


@RUNS.each
def recovered(name: str, per_item: int, small: float, seed: int) -> list[float]:
    """Error of the matrices in the small group, and share of right labels there."""
    votes, group, truth, confusion = crowd(seed, per_item=per_item, small=small)
    if name.startswith("bayes"):
        fitted: Any = crowdwise.make("bayes-gc").fit(votes)
        mean = np.repeat(fitted.confusion_[:, None], 2, axis=1)
    else:
        fitted = ItemGroupDS(**KINDS[name]).fit(votes.with_groups(group))
        beta = fitted.result_.annotators.by_group()
        mean = beta / beta.sum(axis=3, keepdims=True)
    return [np.abs(mean - confusion)[:, 1].mean(), (fitted.labels_ == truth)[group == 1].mean()]


def recovery() -> str:
    """Error of the matrices in the small group, and labels there."""
    rows = []
    settings = [(3, 0.25), (5, 0.25), (10, 0.25), (10, 0.1)]
    for name in KINDS:
        cells = []
        for per_item, small in settings:
            errors, right = zip(*(recovered(name, per_item, small, seed) for seed in SEEDS), strict=True)
            cells.append(f"{interval(list(errors), 1, 3)}; {interval(list(right), 100, 1)}")
        rows.append([name, *cells])
    head = [f"{per} votes per item, {small:.0%} of items" for per, small in settings]
    return table(["", *head], rows)


@RUNS.each
def gaps_of(bias: float, biased: float, seed: int) -> dict[str, float]:
    """Gap in class shares, by who labels."""
    votes, group, truth, _ = crowd(seed, bias=bias, biased=biased)
    labels = {"truth": truth}
    labels |= {name: crowdwise.make(name).fit(votes).labels_ for name in ("majority", "dawid-skene", "bayes-gc")}
    labels["item-group-ds"] = ItemGroupDS().fit(votes.with_groups(group)).labels_
    labels["item-group-ds, shared"] = ItemGroupDS(class_shares="shared").fit(votes.with_groups(group)).labels_
    return {name: float(said[group == 0].mean() - said[group == 1].mean()) for name, said in labels.items()}


def amplified() -> str:
    """The gap in class shares that aggregation reports, against the true one."""
    scenes = {"no bias": (0.0, 0.5), "half of the crowd biased": (0.3, 0.5), "all biased": (0.3, 1.0)}
    runs = [[gaps_of(*scene, seed) for seed in SEEDS] for scene in scenes.values()]
    rows = [[name, *(interval([run[name] for run in of], 100, 1) for of in runs)] for name in runs[0][0]]
    return table(["labels by", *scenes], rows)


@RUNS.each
def covered_by_labels(size: int) -> list[float]:
    """How often 95 % intervals hold the true difference of four rates."""
    # Rates of group 0 are .9 and .3, of group 1 .7 and .2; 70 and 50 % are positives.
    share, right = (0.7 * 0.9 + 0.3 * 0.3, 0.5 * 0.7 + 0.5 * 0.2), (0.7 * 0.9 + 0.3 * 0.7, 0.5 * 0.7 + 0.5 * 0.8)
    true = {"demographic parity": share[0] - share[1], "equal opportunity": 0.2, "false-positive rate": 0.1}
    true["accuracy"] = right[0] - right[1]
    held: dict[str, list[bool]] = {name: [] for name in true}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        group = np.repeat([0, 1], [400, size])
        truth = (rng.random(len(group)) < np.where(group, 0.5, 0.7)).astype(int)
        rate = np.where(truth, np.where(group, 0.7, 0.9), np.where(group, 0.2, 0.3))
        said = (rng.random(len(group)) < rate).astype(int)
        for row in disparity(said, group, truth, n_resamples=500).iter_rows(named=True):
            if row["measure"] in held and row["gap"] is not None:
                sign = 1 if row["higher"] == 0 else -1
                held[row["measure"]].append(row["low"] <= sign * true[row["measure"]] <= row["high"])
    return [float(np.mean(values)) for values in held.values()]


@RUNS.each
def covered_by_votes(n_annotators: int) -> float:
    """The same of one rate, where annotators have a bias of their own and are drawn together."""
    kept: list[bool] = []
    for seed in range(150):
        rng = np.random.default_rng(10_000 + seed)
        votes, group, truth, _ = crowd(seed, n_annotators=n_annotators, n_items=300, bias=0.0)
        # .15 on average, on positives of group 1: votes are turned to negative.
        lapse = rng.beta(1, 3, n_annotators) * 0.6 / 0.775
        mine = (group[votes.item] == 1) & (truth[votes.item] == 1) & (votes.label == 1)
        turned = mine & (rng.random(votes.n_votes) < lapse[votes.annotator])
        said, where = np.where(turned, 0, votes.label), votes.item
        votes_of = Decisions(one_hot(said, 2), one_hot(truth[where], 2), group[where], 2, votes.annotator)
        _, gaps = gap_tables(votes_of, np.array([0, 1]), votes.classes, [1], 0.95, 500, 0)
        row = gaps.filter(measure="equal opportunity").row(0, named=True)
        sign = 1 if row["higher"] == 0 else -1
        kept.append(row["low"] <= sign * 0.15 <= row["high"])
    return float(np.mean(kept))


def coverage() -> str:
    """How often 95 % intervals hold the true difference."""
    rows = []
    for size in (15, 40, 150):
        rows.append([f"labels, {size} items in the smaller group", *(f"{100 * one:.1f}" for one in covered_by_labels(size))])
    for number in (8, 20, 60):
        rows.append([f"votes, {number} annotators drawn together", "-", f"{100 * covered_by_votes(number):.1f}", "-", "-"])
    return table(["", "demographic parity", "equal opportunity", "false-positive rate", "accuracy"], rows)


@RUNS.each
def with_parity(constraint: str, told: str, seed: int) -> list[float]:
    """Gaps before and after, accuracies before and after, and share of labels changed."""
    votes, group, truth, _ = crowd(seed)
    fitted = ItemGroupDS().fit(votes.with_groups(group))
    known: Any = None
    if told != "none":
        some = np.random.default_rng(seed).permutation(len(truth))[: 100 if told != "all" else None]
        known = {int(n): int(truth[n]) for n in some}
    done = parity_labels(fitted, group, constraint=constraint, within=0.02, truth=known)
    mass = np.ones(len(truth)) if constraint == "demographic" else truth
    gaps = []
    for labels in (done.before, done.codes):
        rates = [np.average(labels[group == g], weights=mass[group == g]) for g in (0, 1)]
        gaps.append(float(abs(rates[0] - rates[1])))
    right = [float((labels == truth).mean()) for labels in (done.before, done.codes)]
    return [*gaps, *right, done.n_changed / len(truth)]


def parity() -> str:
    """Gaps before and after thresholds per group, and accuracy; measured against the whole truth."""
    rows = []
    kinds = [("demographic", "none"), ("demographic", "100 items")]
    kinds += [("opportunity", "none"), ("opportunity", "100 items"), ("opportunity", "all")]
    for constraint, told in kinds:
        got = zip(*(with_parity(constraint, told, seed) for seed in SEEDS), strict=True)
        rows.append([f"{constraint}, gold: {told}", *(interval(list(values), 100, 1) for values in got)])
    return table(["constraint within 2 points", "gap before", "gap after", "accuracy before", "after", "labels changed"], rows)


@RUNS.each
def trained(seed: int, **options: Any) -> list[float]:
    """Gaps of probabilities and of labels on new items, and accuracy."""
    votes, group, truth, _ = crowd(seed, n_items=1200, bias=0.15, shares=(0.6, 0.35), small=0.4)
    noise = np.random.default_rng(10_000 + seed).normal(size=(1200, 6))
    X = np.column_stack([truth + 0.8 * noise[:, 0], group + 0.6 * noise[:, 1], truth + 1.5 * noise[:, 2], noise[:, 3:]])
    model = ParityClassifier(network="mlp", random_state=seed, **options).fit(X[:800], votes[:800].with_groups(group[:800]))
    f = model.predict_proba(X[800:])[:, 1]
    said, new, known = f > 0.5, group[800:], truth[800:]
    gaps = [float(one[new == 0].mean() - one[new == 1].mean()) for one in (f, said)]
    return [*gaps, float((said == known).mean())]


def training() -> str:
    """A network that learns from votes, with the penalty and with weights; new items."""
    rows = []
    kinds: dict[str, dict[str, Any]] = {"ccem (strength 0)": {"strength": 0.0}}
    kinds |= {f"strength {s}": {"strength": float(s)} for s in (1, 10, 100)}
    kinds["re-weighted, strength 0"] = {"strength": 0.0, "reweigh": True}
    for name, options in kinds.items():
        got = zip(*(trained(seed, **options) for seed in range(5)), strict=True)
        rows.append([name, *(interval(list(values), 100, 1) for values in got)])
    return table(["", "gap of probabilities", "gap of labels", "accuracy"], rows)


@RUNS.each
def pruned(seed: int) -> list[list[float]]:
    """A few annotators who know group 1 well, among many who do not: who is pruned in two ways, and what it does."""
    rng = np.random.default_rng(seed)
    group = (rng.random(600) < 0.4).astype(int)
    truth = (rng.random(600) < 0.5).astype(int)
    right = np.full((24, 2, 2), 0.8)
    right[:18, 1, 1] = 0.3
    right[18:, 1, 1] = 0.9
    item = np.repeat(np.arange(600), 5)
    who = np.concatenate([rng.choice(24, 5, replace=False) for _ in range(600)])
    label = np.where(rng.random(3000) < right[who, group[item], truth[item]], truth[item], 1 - truth[item])
    votes = Annotations.from_arrays(item, who, label, annotators=range(24), classes=[0, 1])
    result = crowdwise.make("dawid-skene").fit(votes).result_
    agreement, mine = result.annotators_frame()["agreement"].to_numpy(), (group == 1) & (truth == 1)
    found = []
    for gone in (spammers.score(result).codes, np.argsort(agreement)[:6]):
        kept = votes.drop(annotators=gone.tolist()) if len(gone) else votes
        after = crowdwise.make("dawid-skene").fit(kept).labels_
        found.append([(gone < 18).sum() / 18, (gone >= 18).sum() / 6, result.codes[mine].mean(), after[mine].mean()])
    return found


def minority() -> str:
    ways = ("spammer check, 5 % false flags", "least agreement, a quarter pruned")
    runs = np.array([pruned(seed) for seed in SEEDS])
    rows = [[name, *(interval(list(values), 100, 1) for values in runs[:, way].T)] for way, name in enumerate(ways)]
    head = ["pruned by", "of the 18", "of the 6", "true positives of group 1 before", "after"]
    return table(head, rows)


@RUNS.each
def gaps_of_topics() -> list[list[str]]:
    """Arguments by topic and side: a natural group that is no protected attribute."""
    folder = SHARED / "convarg_pairs"
    votes = crowdwise.read(folder / "annotations.csv")
    pairs, names = pl.read_csv(folder / "pairs.csv"), pl.read_csv(folder / "topics.csv")
    groups = dict(pairs.join(names, on="topic").select("item", "name").iter_rows())
    truth = read_gold(folder / "truth.csv", votes)
    rows = []
    fits = {"majority": crowdwise.make("majority").fit(votes), "dawid-skene": crowdwise.make("dawid-skene").fit(votes)}
    fits["item-group-ds"] = ItemGroupDS().fit(votes.with_groups(groups))
    for name, fitted in fits.items():
        seen = audit(fitted, groups, truth=truth, positive=2, n_resamples=1000)
        for row in seen.gaps.filter((pl.col("of") == "consensus") | (pl.lit(name) == "majority")).iter_rows(named=True):
            if row["measure"] not in ("demographic parity", "accuracy"):
                continue
            who = "single votes" if row["of"] == "annotators" else name
            ends = f"{100 * row['gap']:.1f} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"
            what = "share of *equal*" if row["measure"] == "demographic parity" else "agreement with the corpus labels"
            rows.append([who, what, row["higher"][:40], row["lower"][:40], ends])
    return rows


def main() -> None:
    text = [
        provenance("python -m benchmarks run fairness", RUNS),
        "\nTwo groups of items; 20 annotators, right 65 to 90 % of the time, of whom half miss 30 points more of the positives "
        "of the small group. Means over 12 seeds with 95 % intervals; 800 items unless said otherwise.\n",
        "\n**Matrices in the small group**: mean absolute error of an entry; accuracy of its labels in percent.\n",
        recovery(),
        "\n**Gap in the share of positives** between the groups, in points.\n",
        amplified(),
        "\n**Coverage** of 95 % intervals of gaps, in percent, over 300 (labels) and 150 (votes) simulations.\n",
        coverage(),
        "\n**Parity by thresholds**, in points and percent, all measured against the whole truth, whatever the "
        "thresholds were told.\n",
        parity(),
        "\n**Parity in training** (`parity-classifier`, new items, 5 seeds), in points and percent.\n",
        training(),
        "\n**Pruning and minorities.** 18 annotators see 30 % of the positives of group 1, 6 see 90 %; all are right 80 % of "
        "the time elsewhere. Percent of each kind pruned, and true positives of the consensus.\n",
        minority(),
        "\n**Topics of arguments** (`convarg_pairs`, 11,760 pairs, 22 topics with a side each). No set here has protected "
        "attributes; topics are a natural group of items whose differences may be real. The corpus labels were estimated from "
        "the same votes, so agreement with them is circular. Gaps in points, with intervals for the widest of all 231 pairs.\n",
        table(["labels by", "rate", "highest", "lowest", "gap"], gaps_of_topics()),
    ]
    put("fairness", "\n".join(text))
