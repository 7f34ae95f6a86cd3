"""Learning curves of policies on simulated and recorded crowds: RD, AD, AC and DALC, and the label-only policies.

    python -m benchmarks run active_curves                      # written to its page
    python -m benchmarks run active_curves --seeds 2 --studies rte    # prints the tables of a part

Every campaign starts without votes. The same model judges all policies of a table: accuracy of the labels of all items and,
with features, of predictions on test items. An answer is needed to reach a level if the level is then held for three
measurements in a row, so that one lucky batch does not count.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import crowdwise
import crowdwise.errors
import crowdwise.io
from benchmarks.declaration import Benchmark
from benchmarks.feature_sets import SETS, FeatureSet
from benchmarks.page import IMAGES, SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.oracle import RecordedCrowd
from crowdwise.campaign.policies import policy_of
from crowdwise.trust.metrics import accuracy, auc

BENCHMARK = Benchmark(
    "Which policy needs the fewest answers, on recorded and simulated crowds?",
    sections=("active curves",),
    data=("rte", "dog", "labelme", "sentence_polarity"),
    packages=("torch",),
    renders=("",),
    quick="--studies rte --seeds 1",
)

RUNS = Records("active_curves")
RANDOM = "random+random"
# Measurements in a row at which a level must be held, and how far below the full-data accuracy still counts.
HELD, MARGIN = 3, 0.01
# Answers per item at which tables show accuracies.
STOPS = (0.5, 1.0, 2.0, 4.0, 8.0)
# What is measured after every batch, by its place there.
AREA = "AUC, test items"
MARKS = ((1, "labels of all items"), (2, "test items"), (3, AREA))
LABELS, FIRST, FEATURES = "active-labels.png", "active-first.png", "active-features.png"
PICTURES = {
    LABELS: "Label-only policies on recorded crowds",
    FIRST: "The first answers on rte",
    FEATURES: "RD, AD, AC and DALC",
}


class Answering:
    """A crowd with an answer to every question, [N, A]: the same one whenever it is asked."""

    allowed = None

    def __init__(self, said: np.ndarray, truth: np.ndarray, n_classes: int) -> None:
        self.said, self.truth = said, truth.astype(np.int64)
        self.items, self.annotators, self.classes = np.arange(len(said)), np.arange(said.shape[1]), np.arange(n_classes)

    def answer(self, questions: pl.DataFrame) -> pl.DataFrame:
        label = self.said[questions["item"].to_numpy(), questions["annotator"].to_numpy()]
        return questions.select("item", "annotator").with_columns(label=pl.Series(label))


def experts(X: np.ndarray, truth: np.ndarray, n_annotators: int, n_classes: int, seed: int, rank: int = 10) -> Answering:
    """Annotators whose reliability varies over x as in DALC: sigmoid(u_a . t(x)), wrong answers uniform."""
    rng = np.random.default_rng([7, seed])
    rows = (X - X.mean(0)) / X.std(0)
    traits = rows @ rng.normal(size=(X.shape[1], rank)) / np.sqrt(X.shape[1])
    # The paper's entries, U(-0.3, 0.6); the scale spreads reliabilities out to nearly 0 and 1.
    known = rng.uniform(-0.3, 0.6, (n_annotators, rank + 1))
    logit = 2 * (traits @ known[:, 1:].T) + 4 * known[:, 0]
    right = rng.random(logit.shape) < 1 / (1 + np.exp(-logit))
    wrong = (truth[:, None] + rng.integers(1, n_classes, logit.shape)) % n_classes
    return Answering(np.where(right, truth[:, None], wrong), truth, n_classes)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Who answers, the items' features (None without), and test items."""

    oracle: Any
    X: Any = None
    X_test: Any = None
    truth_test: Any = None

    @property
    def size(self) -> str:
        oracle = self.oracle
        pairs = "any pair" if oracle.allowed is None else f"{oracle.allowed.n_votes:,} recorded votes"
        words = f"{len(oracle.items):,} items, {len(oracle.annotators)} annotators, K = {len(oracle.classes)}, {pairs}"
        return words if self.X is None else f"{words}, {self.X.shape[1]} features"


def reduced(X: np.ndarray, X_test: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The first principal components, which make networks quick, scaled to one."""
    from sklearn.decomposition import PCA

    pca = PCA(width, random_state=0).fit(X)
    first, second = pca.transform(X), pca.transform(X_test)
    return (first / first.std()).astype(np.float32), (second / first.std()).astype(np.float32)


@cache
def reduced_set(name: str, width: int) -> tuple[FeatureSet, np.ndarray, np.ndarray]:
    """A set, and the reduced rows of its items and test items."""
    data = SETS[name](0)
    return data, *reduced(data.X, data.X_test, width)


@cache
def recorded(name: str, seed: int) -> Crowd:
    votes = crowdwise.read(next((SHARED / name).glob("annotations.csv*"))).deduplicate()
    return Crowd(RecordedCrowd(votes, crowdwise.io.read_gold(SHARED / name / "truth.csv")))


@cache
def recorded_rows(name: str, width: int, most: int, seed: int) -> Crowd:
    """Recorded votes on items with features; another sample of the items for every seed where there are more."""
    data, X, X_test = reduced_set(name, width)
    chosen = np.sort(np.random.default_rng([3, seed]).permutation(data.votes.n_items)[:most])
    votes = data.votes[chosen]
    gold = dict(zip(votes.items.tolist(), data.votes.classes[data.truth[chosen]].tolist(), strict=True))
    return Crowd(RecordedCrowd(votes.with_gold(gold)), X[chosen], X_test, data.votes.classes[data.truth_test])


@cache
def simulated_rows(name: str, width: int, most: int, n_annotators: int, seed: int) -> Crowd:
    """Experts of different parts of a real feature space."""
    data, X, X_test = reduced_set(name, width)
    chosen = np.sort(np.random.default_rng([3, seed]).permutation(data.votes.n_items)[:most])
    crowd = experts(X[chosen], data.truth[chosen], n_annotators, data.votes.n_classes, seed)
    return Crowd(crowd, X[chosen], X_test, data.truth_test)


@dataclass(frozen=True)
class Entry:
    """A curve: a policy, the model it reads, and how the campaign begins."""

    policy: str
    model: str = "dawid-skene"
    settings: dict[str, Any] = field(default_factory=dict)
    # Random answers per item before the policy begins, and options of the loop.
    start: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """Entries by name, on a crowd that may differ by seed; the first entry is what savings are measured against."""

    crowd: Callable[[int], Crowd]
    entries: dict[str, Entry]
    # Answers per item in all (None: every recorded vote) and at a time.
    budget: float | None
    batch: float
    seeds: int
    about: str = ""


def campaign(crowd: Crowd, entry: Entry, seed: int, budget: int, batch: int) -> list[list[float]]:
    """Answers so far, accuracy of labels, accuracy and area under the curve on test items (NaN without), after every batch."""
    oracle, points = crowd.oracle, list[list[float]]()
    model = crowdwise.make(entry.model, **entry.settings)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    loop = ActiveLoop(
        model, RANDOM if entry.start else entry.policy, items=oracle.items, annotators=oracle.annotators,
        classes=oracle.classes.tolist(), allowed=oracle.allowed, features=crowd.X, random_state=seed, **entry.options,
    )  # fmt: skip
    n_start = round(entry.start * len(oracle.items))
    asked = 0
    while asked < budget:
        # The first answers come in batches too, so that all curves are measured at the same numbers.
        questions = loop.ask(min(batch, budget - asked))
        if not questions.height:
            break
        asked += questions.height
        loop.tell(oracle.answer(questions))
        if asked >= n_start:
            loop.policy = policy_of(entry.policy)
        elif crowd.X is not None:
            continue  # the same random answers for all: a network need not be fitted to them
        labels = accuracy(loop.result.posterior, oracle.truth)
        test = area = np.nan
        if crowd.X is not None:
            found = np.asarray(loop.model.predict_proba(crowd.X_test))
            place = {label: k for k, label in enumerate(loop.model.classes_.tolist())}
            code = np.array([place[label] for label in crowd.truth_test.tolist()])
            test, area = accuracy(found, code), auc(found, code)
        points.append([asked, labels, test, area])
    return points


# -- what is raced --------------------------------------------------------------------------------

LABEL_ONLY = {
    "RD: random+random": Entry(RANDOM),
    "AD: entropy+random": Entry("entropy+random"),
    "AC: random+accuracy": Entry("random+accuracy"),
    "entropy+ucb": Entry("entropy+ucb"),
    "entropy+thompson": Entry("entropy+thompson"),
    "error-reduction": Entry("error-reduction"),
    "information": Entry("information"),
    "warm-information": Entry("warm-information"),
    "RD, every item once first": Entry(RANDOM, options={"least": 1}),
    "information, every item once first": Entry("information", options={"least": 1}),
}
# A small network in few epochs and traits that are quick to fit: policies are compared, not models.
NETWORK = {
    "epochs": 10, "hidden": 64, "learning_rate": 1e-2, "dropout": 0.25, "validation": 0.0, "dropout_passes": 10,
    "rank": 5, "alternations": 1,
}  # fmt: skip


def targeted(**options: Any) -> dict[str, Entry]:
    """The paper's four with `dalc`, and others on the same model; items are spread out over the features where it is said."""

    def entry(policy: str, diverse: bool = False) -> Entry:
        return Entry(policy, "dalc", NETWORK, start=0.5, options={"diverse": diverse, **options})

    return {
        "RD: random+random": entry(RANDOM),
        "AD: predictive-entropy+random": entry("predictive-entropy+random"),
        "AC: random+expertise": entry("random+expertise"),
        "DALC: predictive-entropy+expertise": entry("dalc"),
        "targeted": entry("targeted"),
        "targeted, spread out": entry("targeted", diverse=True),
        "information": entry("information"),
    }


FLAT = {"class_prior": [0.5, 0.5]}
FIRST_ANSWERS = {
    "RD, dawid-skene": Entry(RANDOM),
    "RD, every item twice first": Entry(RANDOM, options={"least": 2}),
    "RD, equal class shares": Entry(RANDOM, settings=FLAT),
    "warm-information": Entry("warm-information"),
    "information": Entry("information"),
    "information, after 1 random answer per item": Entry("information", start=1),
    "information, 30% random questions": Entry("information", options={"explore": 0.3}),
    "information, every item once first": Entry("information", options={"least": 1}),
    "information, every item twice first": Entry("information", options={"least": 2}),
    "information, equal class shares": Entry("information", settings=FLAT),
    "information, equal class shares, twice first": Entry("information", settings=FLAT, options={"least": 2}),
    "RD, bayes-gc": Entry(RANDOM, "bayes-gc"),
    "information, bayes-gc": Entry("information", "bayes-gc"),
    "information, bayes-gc, alpha0 = 50": Entry("information", "bayes-gc", {"alpha0": 50.0}),
    "information, bayes-gc, alpha0 = 50, twice first": Entry("information", "bayes-gc", {"alpha0": 50.0}, options={"least": 2}),
    "RD, majority": Entry(RANDOM, "majority"),
}
# Most answers of one simulated annotator: else a few experts would answer everything.
CAPACITY = 150
STUDIES = {
    "rte": Study(lambda seed: recorded("rte", 0), LABEL_ONLY, None, 0.25, 5),
    "dog": Study(lambda seed: recorded("dog", 0), LABEL_ONLY, None, 0.25, 5),
    "web": Study(lambda seed: recorded("web", 0), LABEL_ONLY, None, 0.4, 3),
    "rte, the first answers": Study(
        lambda seed: recorded("rte", 0), FIRST_ANSWERS, 4.0, 0.25, 5,
        "Why policies lose at first, and what helps: the model is dawid-skene unless a row says so, and levels are those of "
        "the first row after 4 answers per item.",
    ),
    "simulated experts on labelme": Study(
        lambda seed: simulated_rows("labelme", 30, 600, 40, seed), targeted(capacity=CAPACITY), 4.0, 0.25, 5,
        f"Reliability varies over the features of real images; nobody answers more than {CAPACITY} times.",
    ),
    "labelme, recorded": Study(lambda seed: recorded_rows("labelme", 30, 600, seed), targeted(), 2.5, 0.2, 5),
    "sentence_polarity, recorded": Study(
        lambda seed: recorded_rows("sentence_polarity", 100, 600, seed), targeted(), 5.5, 0.4, 5
    ),
}  # fmt: skip


# -- tables and figures ---------------------------------------------------------------------------


def curve(points: list[list[float]], column: int) -> tuple[np.ndarray, np.ndarray]:
    values = np.array(points)
    return values[:, 0], values[:, column]


def needed(points: list[list[float]], column: int, level: float) -> float:
    """Answers from which on the level is held for some measurements; infinite where it never is."""
    votes, values = curve(points, column)
    for place in range(len(values)):
        if (values[place : place + HELD] >= level).all():
            # On the line from the measurement before, which is below.
            before = max(place - 1, 0)
            return float(np.interp(level, values[[before, place]], votes[[before, place]]))
    return np.inf


def level_of(reference: list[list[float]], column: int) -> float:
    """What the reference reaches with all its answers, less the margin."""
    return float(curve(reference, column)[1][-HELD:].mean()) - MARGIN


def at(points: list[list[float]], column: int, answers: float) -> float:
    """Accuracy at a number of answers, between measurements on a line; NaN before the first and well after the last."""
    votes, values = curve(points, column)
    right = values[-1] if answers < 1.05 * votes[-1] else np.nan
    return float(np.interp(answers, votes, values, left=np.nan, right=right))


def rows_of(runs: dict[str, list[list[list[float]]]], column: int, stops: list[int]) -> list[list[str]]:
    """Accuracy at the stops, answers needed, and the saving against the first entry on the same seeds."""
    rows, reference = [], next(iter(runs.values()))
    for name, curves in runs.items():
        n_seeds = min(len(curves), len(reference))
        end = [one[-1][0] for one in reference]
        need, saved, missed = [], [], 0
        for seed in range(n_seeds):
            level = level_of(reference[seed], column)
            first = min(needed(reference[seed], column, level), end[seed])
            mine = needed(curves[seed], column, level)
            missed += not np.isfinite(mine)
            need.append(min(mine, end[seed]))
            saved.append(1 - need[-1] / first)
        cells = [interval([at(one, column, stop) for one in curves[:n_seeds]], 100, 1) for stop in stops]
        worst = f" ({missed} of {n_seeds} never)" if missed else ""
        rows.append([name, *cells, interval(need, 1, 0) + worst, "" if curves is reference else interval(saved, 100, 0)])
    return rows


def draw(panels: list[tuple[str, dict[str, list[list[list[float]]]], int]], width: int, path: Path) -> None:
    """Mean accuracy against answers with 95% bands, a panel per crowd; the full-data accuracy is dotted."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from scipy.stats import t

    names = list(dict.fromkeys(name for _, runs, _ in panels for name in runs))
    colours = ["#333333", *plt.get_cmap("tab10" if len(names) <= 11 else "tab20").colors]
    height = -(-len(panels) // width)
    figure, axes = plt.subplots(height, width, figsize=(4.4 * width, 3.1 * height + 0.17 * len(names) / width), squeeze=False)
    handles = {}
    for axis, (title, runs, column) in zip(axes.flat, panels, strict=False):
        for name, curves in runs.items():
            shortest = min(len(one) for one in curves)
            votes = np.array(curves[0])[:shortest, 0]
            values = 100 * np.array([np.array(one)[:shortest, column] for one in curves])
            mean = values.mean(axis=0)
            place = names.index(name)
            look = {"color": colours[place % len(colours)], "linestyle": "--" if place == 0 else "-"}
            handles[name] = axis.plot(votes, mean, linewidth=1.4, zorder=3 if place else 4, **look)[0]
            if len(values) > 1:
                half = t.ppf(0.975, len(values) - 1) * values.std(axis=0, ddof=1) / np.sqrt(len(values))
                axis.fill_between(votes, mean - half, mean + half, color=look["color"], alpha=0.12, linewidth=0)
        reference = next(iter(runs.values()))
        axis.axhline(100 * np.mean([level_of(one, column) for one in reference]), color="#999999", linewidth=0.8, linestyle=":")
        # The first answers, where everything is near chance, would squeeze what matters.
        low = np.mean([at(one, column, 0.1 * one[-1][0] + one[0][0]) for one in reference])
        axis.set_ylim(bottom=max(100 * low - 8, 0), top=min(axis.get_ylim()[1], 100))
        axis.set_title(title, fontsize=10)
        axis.grid(color="#eeeeee")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy (%)")
    for axis in axes[-1]:
        axis.set_xlabel("answers")
    lines = -(-len(handles) // width)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=width, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, (0.17 * lines + 0.1) / figure.get_figheight(), 1, 1))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


def measure(studies: list[str], n_seeds: int | None) -> dict[str, list[list[list[float]]]]:
    """All curves, by "study / entry"; a seed goes through all of them before the next."""
    results: dict[str, list[list[list[float]]]] = {}
    for seed in range(max(n_seeds or STUDIES[name].seeds for name in studies)):
        for name in studies:
            if seed < (n_seeds or STUDIES[name].seeds):
                for title in STUDIES[name].entries:
                    results.setdefault(f"{name} / {title}", []).append(raced(name, title, seed))
    return results


@RUNS.each
def raced(name: str, title: str, seed: int) -> list[list[float]]:
    study = STUDIES[name]
    crowd = study.crowd(seed)
    n_items = len(crowd.oracle.items)
    budget = crowd.oracle.allowed.n_votes if study.budget is None else round(study.budget * n_items)
    return campaign(crowd, study.entries[title], seed, budget, round(study.batch * n_items))


@RUNS.each
def size_of(name: str) -> list[Any]:
    """In words, the items, and whether there are features."""
    crowd = STUDIES[name].crowd(0)
    return [crowd.size, len(crowd.oracle.items), crowd.X is not None]


def report(results: dict[str, list[list[list[float]]]], studies: list[str], n_seeds: int | None) -> tuple[str, dict[str, list]]:
    """Tables, and the panels of the figures by file name."""
    parts, panels = [], dict[str, list]()
    for name in studies:
        study = STUDIES[name]
        runs = {t: results[f"{name} / {t}"][: n_seeds or study.seeds] for t in study.entries}
        size, n_items, with_rows = size_of(name)
        end = next(iter(runs.values()))[0][-1][0]
        stops = [round(share * n_items) for share in STOPS if share * n_items < 0.95 * end]
        n_runs = min(map(len, runs.values()))
        parts.append(f"**{name}** ({size}; {n_runs} seeds). {study.about}".strip() + "\n")
        plain = not with_rows
        for column, words in MARKS[:1] if plain else MARKS:
            header = [words, *(f"{stop:,}" for stop in stops), f"{end:,.0f}", "answers needed", "saving (%)"]
            parts.append(table(header, rows_of(runs, column, [*stops, end])) + "\n")
            if study.entries is FIRST_ANSWERS:
                usual = {t: curves for t, curves in runs.items() if study.entries[t].model == "dawid-skene"}
                others = {t: curves for t, curves in runs.items() if t not in usual}
                halves = {"dawid-skene": usual, "other models": others}
                panels[FIRST] = [(f"{name}: {which}", part, 1) for which, part in halves.items() if part]
            elif words != AREA:
                title = name if plain else f"{name}: {words}"
                panels.setdefault(LABELS if plain else FEATURES, []).append((title, runs, column))
    return "\n".join(parts), panels


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=None, help="fewer or more than the studies have")
    options.add_argument("--studies", nargs="*", default=list(STUDIES))
    given = options.parse_args()
    tables, panels = report(measure(given.studies, given.seeds), given.studies, given.seeds)
    pictures = "\n\n".join(f"![{PICTURES[file]}](images/{file})" for file in panels)
    text = (
        provenance("python -m benchmarks run active_curves" + (f" --seeds {given.seeds}" if given.seeds else ""), RUNS)
        + "\nAccuracy in percent at some numbers of answers; then the answers needed to come within "
        f"{100 * MARGIN:.0f} point of what random questions (RD) reach with all answers of the table, held for {HELD} "
        "measurements in a row or to the end, and the saving against RD on the same seeds. Mean ± half width of the 95% "
        "interval over seeds. A campaign that never gets there counts with all answers.\n\n" + pictures + "\n\n" + tables
    )
    if given.studies != list(STUDIES):  # a part of a page is no page
        print(text)
        return
    for file, drawn in panels.items():
        draw(drawn, 3 if file == LABELS else 2, IMAGES / file)
    put("active curves", text)
