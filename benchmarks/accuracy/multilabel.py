"""Several labels per item, and votes against classes, beside a model per label.

python -m benchmarks run multilabel
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
from crowdwise.data.label_sets import LabelSets

BENCHMARK = Benchmark(
    "Which method is best where an item may have several labels, or votes speak against classes?",
    sections=("multilabel",),
    data=("affect", "wsd", "cf", "cf_amt", "dog", "labelme", "web"),
    renders=("",),
    small={"SEEDS": [0], "ONE_LABEL": ("wsd",)},
    leaves_out=("few_answers",),
)

RUNS = Records("multilabel")
EMOTIONS = ["anger", "disgust", "fear", "joy", "sadness", "surprise"]
SEEDS = range(5)
METHODS = ["majority per label", "dawid-skene per label", "consensus-sets", "label-wise", "label-wise, dependence"]
# Sets of one label per item with three classes or more and at least some hundred known; of each at most so many items.
ONE_LABEL, MOST_ITEMS = ("wsd", "cf", "cf_amt", "dog", "labelme", "web"), 800
THREE = ["more than half", "label-wise", "consensus-sets"]


def affect(threshold: int) -> tuple[LabelSets, Any]:
    """A headline has an emotion that was rated `threshold` of 100 or more; gold likewise."""
    frames = [
        pl.read_csv(SHARED / "affect" / f"annotations_{name}.csv").with_columns(emotion=pl.lit(name)) for name in EMOTIONS
    ]
    rated = pl.concat(frames).with_columns(yes=pl.col("label") >= threshold)
    sets = rated.group_by("item", "annotator", maintain_order=True).agg(pl.col("emotion").filter(pl.col("yes")).alias("labels"))
    answers = LabelSets.from_arrays(sets["item"], sets["annotator"], sets["labels"].to_list(), labels=EMOTIONS)
    gold = [dict(pl.read_csv(SHARED / "affect" / f"truth_{name}.csv").rows()) for name in EMOTIONS]
    truth = np.array([[known[item] >= threshold for known in gold] for item in answers.items.tolist()])
    return answers, truth


@RUNS.each
def on_affect(threshold: int) -> dict[str, list[list[float]]]:
    """Method -> scores, and both ends of their bootstrap intervals."""
    answers, truth = affect(threshold)
    draws = [np.random.default_rng(b).integers(0, len(truth), len(truth)) for b in range(300)]
    found = {}
    for method, chance in probabilities(answers).items():
        again = [scores(chance[draw], truth[draw]) for draw in draws]
        found[method] = [scores(chance, truth), *np.quantile(again, [0.025, 0.975], axis=0).tolist()]
    return found


def simulated(
    seed: int, together: bool, n_items: int = 300, n_annotators: int = 30, n_labels: int = 8
) -> tuple[LabelSets, Any]:
    """Four answers per item; skill differs between annotators more than between their labels."""
    rng = np.random.default_rng(seed)
    patterns = rng.random((5, n_labels)) < 0.35
    shares = rng.uniform(0.05, 0.5, n_labels)
    if together:
        truth = patterns[rng.integers(0, 5, n_items)] ^ (rng.random((n_items, n_labels)) < 0.05)
    else:
        truth = rng.random((n_items, n_labels)) < shares
    size = (n_annotators, n_labels)
    hit, clear = (
        1 / (1 + np.exp(-(centre + rng.normal(0, sd, n_annotators)[:, None] + rng.normal(0, 0.4, size))))
        for centre, sd in ((1.0, 1.0), (1.8, 0.7))
    )
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :4].ravel()
    item = np.repeat(np.arange(n_items), 4)
    draw = rng.random((len(item), n_labels))
    said = np.where(truth[item], draw < hit[annotator], draw > clear[annotator])
    names = np.array([f"l{k}" for k in range(n_labels)], dtype=object)
    return LabelSets.from_arrays(item, annotator, [names[row].tolist() for row in said], labels=names.tolist()), truth


@RUNS.each
def on_simulated(seed: int, together: bool) -> dict[str, list[float]]:
    """Method -> scores."""
    answers, truth = simulated(seed, together)
    return {method: scores(chance, truth) for method, chance in probabilities(answers).items()}


def probabilities(answers: LabelSets) -> dict[str, Any]:
    """Method -> probability of every label, [N, K]."""
    found = {
        f"{name} per label": np.column_stack(
            [crowdwise.make(name).fit(answers.binary(k)).posterior_[:, 1] for k in range(answers.n_labels)]
        )
        for name in ("majority", "dawid-skene")
    }
    found["consensus-sets"] = crowdwise.make("consensus-sets").fit(answers).result_.probability
    for name, dependence in (("label-wise", False), ("label-wise, dependence", True)):
        found[name] = crowdwise.make("label-wise", dependence=dependence).fit(answers).result_.probability
    return found


def scores(probability: Any, truth: Any) -> list[float]:
    """F1 over all labels (micro), mean F1 of labels (macro), share of sets that are right as a whole."""
    chosen = probability >= 0.5 - 1e-9
    hits, sizes = (chosen & truth).sum(axis=0), chosen.sum(axis=0) + truth.sum(axis=0)
    macro = np.where(sizes > 0, 2 * hits / np.maximum(sizes, 1), np.nan)
    return [2 * hits.sum() / max(sizes.sum(), 1), float(np.nanmean(macro)), float((chosen == truth).all(axis=1).mean())]


def one_label(name: str, most_votes: int | None) -> tuple[LabelSets, crowdwise.Annotations, Any, Any]:
    """A set of one label per item as sets of one, the same as votes, the items of known class, and their class."""
    votes = pl.read_csv(SHARED / name / "annotations.csv").unique(["item", "annotator"], keep="first", maintain_order=True)
    known = pl.read_csv(SHARED / name / "truth.csv").filter(pl.col("item").is_in(votes["item"].unique().to_list()))
    rng = np.random.default_rng(0)
    kept = rng.permutation(np.unique(known["item"].to_numpy()))[:MOST_ITEMS]
    votes = votes.filter(pl.col("item").is_in(kept.tolist()))
    if most_votes is not None:
        votes = votes[rng.permutation(len(votes))].group_by("item", maintain_order=True).head(most_votes)
    votes = votes.sort("item", "annotator")
    classes = sorted({*votes["label"].to_list(), *known["label"].to_list()})
    columns = votes["item"], votes["annotator"]
    answers = LabelSets.from_arrays(*columns, [[f"c{k}"] for k in votes["label"]], labels=[f"c{k}" for k in classes])
    of_item = dict(known.rows())
    truth = np.array([of_item[item] for item in answers.items.tolist()])[:, None] == np.array(classes)
    return answers, crowdwise.Annotations.from_arrays(*columns, votes["label"], classes=classes), truth, classes


@RUNS.each
def on_one_label(name: str, most_votes: int | None) -> dict[str, Any]:
    """Answers per item, what `three` returns, and the accuracy of `consensus` on the votes."""
    answers, votes, truth, classes = one_label(name, most_votes)
    by, sure = three(answers, truth)
    single = crowdwise.make("consensus").fit(votes).labels_
    alone = float((np.array(classes)[truth.argmax(axis=1)] == single).mean())
    return {"count": answers.n_votes / answers.n_items, "by": by, "alone": alone, "sure": sure}


def half(answers: LabelSets) -> Any:
    """The share of the answers that choose a label, where that is not one half; a half is no majority."""
    share = np.column_stack(
        [
            crowdwise.make("majority", confidence="model").fit(answers.binary(k)).posterior_[:, 1]
            for k in range(answers.n_labels)
        ]
    )
    return np.where(np.abs(share - 0.5) < 1e-9, 0.49, share)


def thin(seed: int, n_votes: int, n_items: int = 200, n_annotators: int = 30, n_labels: int = 8) -> tuple[LabelSets, Any]:
    """Labels that apply to 1 to 40 % of the items, with false alarms in proportion."""
    rng = np.random.default_rng(seed)
    shares = np.exp(rng.uniform(np.log(0.01), np.log(0.4), n_labels))
    truth, size = rng.random((n_items, n_labels)) < shares, (n_annotators, n_labels)
    alarms = np.clip(shares / 4, 0.002, 0.3)
    hit, alarm = (
        1 / (1 + np.exp(-(centre + rng.normal(0, sd, n_annotators)[:, None] + rng.normal(0, 0.4, size))))
        for centre, sd in ((1.0, 1.0), (np.log(alarms / (1 - alarms)), 0.7))
    )
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :n_votes].ravel()
    item = np.repeat(np.arange(n_items), n_votes)
    draw = rng.random((len(item), n_labels))
    said = np.where(truth[item], draw < hit[annotator], draw < alarm[annotator])
    names = np.array([f"l{k}" for k in range(n_labels)], dtype=object)
    return LabelSets.from_arrays(item, annotator, [names[row].tolist() for row in said], labels=names.tolist()), truth


def three(answers: LabelSets, truth: Any) -> tuple[list[float], list[float]]:
    """Share of sets right as a whole by three rules; and the accuracy of yes-no answers with what `consensus-sets` expects."""
    found = [half(answers), *(crowdwise.make(name).fit(answers).result_.probability for name in THREE[1:])]
    sure = found[-1]
    right = float(((sure >= 0.5 - 1e-9) == truth).mean())
    return [scores(p, truth)[2] for p in found], [right, float(np.maximum(sure, 1 - sure).mean())]


@RUNS.each
def on_thin(seed: int, n_votes: int) -> tuple[list[float], list[float]]:
    return three(*thin(seed, n_votes))


def few_answers() -> list[str]:
    """Tables of real sets of one label per item, and of simulated rare labels, by the number of answers."""
    rows, exact = [], {}
    for name in ONE_LABEL:
        for most in (1, 2, 3, None):
            run = on_one_label(name, most)
            exact[name, most] = run["by"]
            cells = (f"{100 * x:.1f}" for x in (*run["by"], run["alone"], *run["sure"]))
            rows.append([f"{name}, {run['count']:.1f} answers", *cells])
    more = []
    for n_votes in (1, 2, 4, 10, 20):
        runs = [on_thin(seed, n_votes) for seed in SEEDS[:3]]
        cells = [100 * np.mean([run[part][k] for run in runs]) for part, k in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1))]
        more.append([f"{n_votes} answers", *(f"{x:.1f}" for x in cells)])
    best = {THREE[int(np.mean([by for (of, _), by in exact.items() if of != name], axis=0).argmax())] for name in ONE_LABEL}
    head = [*THREE, "yes-no answers right", "expected"]
    return [
        "\nReal sets of one label per item, every vote taken for a set of one: share of sets right as a whole, in percent, "
        f"with all answers and with the first of a random order; at most {MOST_ITEMS} items of each. *One label*: "
        "`consensus` on the votes, which knows that classes exclude each other. On the right, of `consensus-sets`: yes-no "
        "answers on labels that are right, and the share that it expects. Best on average without each set in turn: "
        f"{', '.join(sorted(best))}.\n",
        table(["set", *THREE, "one label", *head[3:]], rows),
        "\nSimulated: 200 items, 30 annotators, eight labels that apply to 1 to 40 % of the items, 3 seeds; same columns.\n",
        table(["answers per item", *head], more),
    ]


@RUNS.each
def partial(seed: int, against: float, n_items: int = 300, n_classes: int = 4, n_annotators: int = 20) -> tuple[float, ...]:
    """Accuracy of Dawid-Skene on votes for classes alone, and of partial-dawid-skene on all votes."""
    rng = np.random.default_rng(seed)
    truth, ability = rng.integers(0, n_classes, n_items), rng.uniform(0.4, 0.9, n_annotators)
    rows = []
    for n in range(n_items):
        for a in rng.choice(n_annotators, 4, replace=False):
            seen = truth[n] if rng.random() < ability[a] else rng.integers(n_classes)
            other = rng.choice([k for k in range(n_classes) if k != seen])
            rows.append((n, a, f"!c{other}" if rng.random() < against else f"c{seen}"))
    item, annotator, label = zip(*rows, strict=True)
    everything = crowdwise.Annotations.from_arrays(item, annotator, label, items=range(n_items))
    outright = [e for e, text in enumerate(label) if text[0] == "c"]
    columns = ([column[e] for e in outright] for column in (item, annotator, label))
    some = crowdwise.Annotations.from_arrays(*columns, items=range(n_items), classes=[f"c{k}" for k in range(n_classes)])
    names = np.array([f"c{k}" for k in truth])
    alone = [(crowdwise.make(name).fit(some).labels_ == names).mean() for name in ("majority", "dawid-skene")]
    return *alone, (crowdwise.make("partial-dawid-skene").fit(everything).result_.labels == names).mean()


def main() -> None:
    text = [
        "*affect*: 100 headlines, ten annotators each, six emotions rated from 0 to 100; an emotion applies from 50 (or 25) "
        "on, for annotators and gold alike. F1 over all labels (micro), mean F1 of labels (macro) and share of sets that are "
        "right as a whole, in percent, with 95% bootstrap intervals over headlines.\n"
    ]
    rows = []
    for threshold in (50, 25):
        for method, found in on_affect(threshold).items():
            cells = [f"{100 * p:.1f} ({100 * a:.1f}, {100 * b:.1f})" for p, a, b in zip(*found, strict=True)]
            rows.append([f"from {threshold}, {method}", *cells])
    text.append(table(["affect", "F1 micro", "F1 macro", "exact"], rows))
    text.append(
        f"\nSimulated: 300 items, 30 annotators, four answers per item, eight labels, {len(SEEDS)} seeds; percent, mean and "
        "95% interval. *Together*: labels come in five patterns; *apart*: independently.\n"
    )
    runs = [[on_simulated(seed, together) for seed in SEEDS] for together in (True, False)]
    rows = [
        [method, *(interval([run[method][k] for run in part], 100, 1) for part in runs for k in (0, 2))] for method in METHODS
    ]
    text.append(table(["method", "together: F1", "exact", "apart: F1", "exact"], rows))
    text += few_answers()
    text.append(
        f"\nVotes against classes: 300 items, four classes, 20 annotators, four votes per item, {len(SEEDS)} seeds; accuracy "
        "in percent by the share of votes that rule out one wrong class in place of naming one. The first two methods see only "
        "the votes that name a class.\n"
    )
    lines = []
    for against in (0.2, 0.5, 0.8):
        runs_of = [partial(seed, against) for seed in SEEDS]
        lines.append([f"{against:.0%}", *(interval([run[k] for run in runs_of], 100, 1) for k in range(3))])
    text.append(table(["votes against", "majority", "dawid-skene", "partial-dawid-skene"], lines))
    put("multilabel", "\n".join([provenance("python -m benchmarks run multilabel", RUNS), *text]))
