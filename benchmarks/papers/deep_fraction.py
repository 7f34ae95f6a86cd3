"""The tasks, methods and tables of deep_tenths: the protocol of Li, Huang and Chen (2021) on public sets.

Binary tasks, most of them one label against the rest and so imbalanced; a random part of the votes is kept; every method ranks
the training items by its probability of the positive class, and the first k are called positive, where k is the true number of
positives. Items tied at the border count with the chance of being drawn. The usual labels (probability above one half) are
judged too. The paper's own images are not at hand; the tasks here come from public sets with features and votes.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

import crowdwise
import crowdwise.errors
from benchmarks.feature_sets import SETS
from benchmarks.page import IMAGES, interval, table
from benchmarks.places import QUICK

FRACTIONS = (10, 30, 50, 70, 100)
SHOWN = (10, 30, 50, 100)
EPOCHS = 2 if QUICK else 40
LABEL_ONLY = ("majority", "dawid-skene", "minimax-entropy", "bayes-gc")
METHODS = {
    "majority": {},
    "dawid-skene": {},
    "minimax-entropy": {},
    "bayes-gc": {},
    "raykar": {},
    "bayes-dgc": {"epochs": EPOCHS},
    "bayes-dgc, paper's model": {"epochs": EPOCHS, "class_shares": True, "steps": "natural"},
}
# task: set, positive classes (None where the set has two), most items
TASKS = {
    "labelme: insidecity": ("labelme", (1,), 1000),
    "labelme: street": ("labelme", (3,), 1000),
    "labelme: coast": ("labelme", (5,), 1000),
    "labelme: opencountry": ("labelme", (7,), 1000),
    "cifar10n: bird": ("cifar10n", (2,), 1500),
    "cifar10n: ship": ("cifar10n", (8,), 1500),
    "ner_mturk: organisation": ("ner_mturk", (5, 6), 1500),
    "rte": ("rte", (1,), 1000),
    "sentence_polarity": ("sentence_polarity", (1,), 1000),
}
PICTURE = IMAGES / "deep-fraction.png"


class Task:
    """Rows, the votes as (item, annotator, 0 or 1), and the truth as 0 or 1."""

    def __init__(self, source: str, positive: tuple[int, ...], most: int) -> None:
        data = SETS[source](0)
        known = np.flatnonzero(data.truth >= 0)
        chosen = np.sort(np.random.default_rng(0).permutation(known)[:most])
        votes = data.votes[chosen]
        self.X = data.X[chosen]
        self.item, self.annotator = votes.item, votes.annotator
        wanted = np.isin(votes.classes, positive)
        self.label = wanted[votes.label].astype(int)
        self.truth = wanted[data.truth[chosen]].astype(int)

    def part(self, percent: int, seed: int) -> crowdwise.Annotations:
        """A random part of the votes; items may be left without any."""
        n_votes = len(self.item)
        kept = np.sort(np.random.default_rng([seed, percent]).permutation(n_votes)[: round(n_votes * percent / 100)])
        columns = (column[kept] for column in (self.item, self.annotator, self.label))
        return crowdwise.Annotations.from_arrays(*columns, items=range(len(self.truth)), classes=[0, 1])

    def size(self) -> dict[str, float]:
        """In numbers."""
        sizes = {"items": len(self.truth), "positive": float(self.truth.mean()), "features": self.X.shape[1]}
        return sizes | {"annotators": len(np.unique(self.annotator)), "votes": len(self.item)}


def judged(score: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Accuracy and F1 of the k highest scores (k as in the truth, ties by chance), and of scores above one half."""
    n_positive = int(truth.sum())
    score = score.round(9)
    border = np.sort(score)[-n_positive]
    above, tied = score > border, score == border
    hits = truth[above].sum() + truth[tied].mean() * (n_positive - above.sum())
    half = np.where(score == 0.5, 0.5, score > 0.5)
    right = float(half @ truth)
    return {
        "accuracy": float(1 - 2 * (n_positive - hits) / len(truth)),
        "f1": float(hits / n_positive),
        "plain accuracy": float(1 - np.abs(half - truth).mean()),
        "plain f1": float(2 * right / (half.sum() + n_positive)),
    }


def run(task: Task, method: str, percent: int, seed: int) -> dict[str, float]:
    votes = task.part(percent, seed)
    model = crowdwise.make(method.partition(",")[0], **METHODS[method])
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    started = perf_counter()
    model.fit(votes) if method in LABEL_ONLY else model.fit(task.X, votes)
    seconds = perf_counter() - started
    return judged(model.posterior_[:, 1], task.truth) | {"seconds": seconds}


def column(results: dict, name: str, method: str, percent: int, key: str, repeats: int) -> np.ndarray:
    return np.array([one[key] for one in results[f"{name} / {method} / {percent}"][:repeats]])


def tables(results: dict, sizes: dict[str, dict[str, float]], repeats: int) -> str:
    def cell(name: str, method: str, percent: int, key: str) -> str:
        return interval(list(column(results, name, method, percent, key, repeats)), 100, 1)

    parts = ["**Mean over the tasks** (one mean per repeat; interval over repeats).\n"]
    for key, words in (("accuracy", "Accuracy, first k"), ("f1", "F1, first k"), ("plain f1", "F1, probability above ½")):
        rows = []
        for method in METHODS:
            means = [np.mean([column(results, t, method, p, key, repeats) for t in sizes], axis=0) for p in FRACTIONS]
            rows.append([method, *(interval(list(mean), 100, 1) for mean in means)])
        parts.append(table([words, *(f"{p}%" for p in FRACTIONS)], rows) + "\n")
    cells = [(name, percent) for name in sizes for percent in FRACTIONS]
    means = np.array([[column(results, cell[0], m, cell[1], "f1", repeats).mean() for m in METHODS] for cell in cells]).round(6)
    best, worst = ((means == edge[:, None]).sum(axis=0) for edge in (means.max(axis=1), means.min(axis=1)))
    counts = [[m, str(best[i]), str(worst[i])] for i, m in enumerate(METHODS)]
    parts.append(f"Of the {len(cells)} pairs of task and part, by mean F1 of the first k (ties count for all):\n")
    parts.append(table(["method", "highest", "lowest"], counts) + "\n")
    parts.append("**Paired differences** of F1, first k: bayes-dgc minus another, on the same votes.\n")
    others = ("raykar", "bayes-gc")
    rows = []
    for name in sizes:
        row = [name]
        for other in others:
            for percent in SHOWN:
                ours, theirs = (column(results, name, m, percent, "f1", repeats) for m in ("bayes-dgc", other))
                row.append(interval(list(ours - theirs), 100, 1))
        rows.append(row)
    parts.append(table(["task", *(f"{other} {p}%" for other in others for p in SHOWN)], rows) + "\n")
    parts.append("**By task**: first k, accuracy and F1.\n")
    for name, size in sizes.items():
        about = (
            f"*{name}*: {size['items']:,} items, {100 * size['positive']:.0f}% positive, {size['features']} features, "
            f"{size['annotators']} annotators, {size['votes'] / size['items']:.1f} votes per item\n"
        )
        head = ["method", *(f"accuracy {p}%" for p in SHOWN), *(f"F1 {p}%" for p in SHOWN)]
        rows = [[m, *(cell(name, m, p, key) for key in ("accuracy", "f1") for p in SHOWN)] for m in METHODS]
        parts.append(about + "\n" + table(head, rows) + "\n")
    return "\n".join(parts)


def draw(results: dict, sizes: dict[str, dict[str, float]], repeats: int) -> None:
    """F1 against the part of the votes seen, a panel per task."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.stats import t

    looks = {
        "majority": ("#999999", "--", 1.2),
        "dawid-skene": ("#666666", ":", 1.4),
        "minimax-entropy": ("#8e44ad", ":", 1.4),
        "bayes-gc": ("#1e8449", "--", 1.4),
        "raykar": ("#d68910", "-", 1.6),
        "bayes-dgc": ("#c0392b", "-", 2.2),
        "bayes-dgc, paper's model": ("#1b6ca8", "-", 1.6),
    }
    width = 3
    height = -(-len(sizes) // width)
    figure, axes = plt.subplots(height, width, figsize=(3.6 * width, 2.7 * height), squeeze=False, sharex=True)
    for axis, name in zip(axes.flat, sizes, strict=False):
        for method, (colour, line, thick) in looks.items():
            values = np.array([column(results, name, method, p, "f1", repeats) for p in FRACTIONS]) * 100
            mean = values.mean(axis=1)
            axis.plot(FRACTIONS, mean, line, color=colour, linewidth=thick, label=method)
            if repeats > 1 and method.startswith(("bayes-dgc", "raykar")):
                half = t.ppf(0.975, repeats - 1) * values.std(axis=1, ddof=1) / np.sqrt(repeats)
                axis.fill_between(FRACTIONS, mean - half, mean + half, color=colour, alpha=0.15, linewidth=0)
        axis.set_title(f"{name} ({100 * sizes[name]['positive']:.0f}% positive)", fontsize=10)
        axis.grid(color="#eeeeee")
        axis.set_xticks(FRACTIONS)
    for axis in axes.flat[len(sizes) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("F1 of the first k (%)")
    for axis in axes[-1]:
        axis.set_xlabel("votes seen (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
