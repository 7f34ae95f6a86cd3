"""Policies of crowdwise, scikit-activeml and cleanlab (ActiveLab) on the same crowds and seeds; one read-out for all.

    make bench-active

Whoever chose the questions, labels of all items come from features and votes together, by one model: the default of campaigns
with features (`crowdwise.campaign.learner.default_model`). Every policy may read that model's labels. Classifiers of the other
libraries are logistic regressions on them, as theirs take a label per item; annot-mix is trained on the votes themselves.
ActiveLab reads out-of-sample predictions (five folds), as its documentation asks for. Every campaign of a seed starts with the
same random answers. Annotators are not chosen by skill unless the row says so: ActiveLab scores items only, and
scikit-activeml's wrapper draws annotators at random unless it is given their performance.

Three crowds are simulated, two recorded. Model and policy were chosen on the crowds of campaign_crowds.py, after quick looks at
simulated experts on labelme too, one of the three here; the other four were not in view, but for the number of rounds of the
model's Gaussians, which was also tried on these and other seeds of all five. That the model is one of two classifiers was also
tried on recorded votes of rte, ner_mturk and cifar10n.
Runs are kept in benchmarks/records/versus_active.jsonl, so that an interrupted command resumes where it stopped.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import version
from io import StringIO
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

import crowdwise
import crowdwise.errors
from benchmarks.campaigns.active_curves import (
    IMAGES,
    MARGIN,
    Answering,
    Crowd,
    draw,
    level_of,
    needed,
    recorded_rows,
    reduced,
    reduced_set,
    rows_of,
    simulated_rows,
)
from benchmarks.declaration import Benchmark
from benchmarks.page import SHARED, interval, provenance, put, table
from benchmarks.records import Records
from crowdwise.campaign.assign import suggest
from crowdwise.campaign.learner import default_model
from crowdwise.campaign.policies import State
from crowdwise.campaign.pool import Pool, extended
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Which library's policies need the fewest answers?",
    sections=("versus active",),
    data=("labelme", "rte"),
    packages=("torch", "skactiveml", "cleanlab"),
    renders=("",),
    quick="--seeds 1 --dry-run",
)

RECORDS = Records("versus_active")
PICTURE = IMAGES / "versus-active.png"
FOLDS = 5
# Passes of annot-mix over the items with votes, in batches of 64.
MIX_EPOCHS = 30


@dataclass(frozen=True, eq=False)
class Turn:
    """What a policy may read: the votes so far, the common model, and who can be asked about what."""

    crowd: Crowd
    votes: Annotations
    seed: int
    turn: int

    @cached_property
    def model(self) -> Any:
        return default_model(self.crowd.X).fit(self.crowd.X, self.votes)

    @property
    def result(self) -> Any:
        return self.model.result_

    @cached_property
    def voted(self) -> np.ndarray:
        return np.flatnonzero(self.votes.votes_per_item > 0)

    @cached_property
    def classifier(self) -> Any:
        return self.trained(self.voted)

    def trained(self, items: np.ndarray) -> Any:
        """The classifier on the labels of these items; classes that are absent have no probability."""
        return Classifier(self.votes.n_classes).fit(self.crowd.X[items], self.result.posterior[items].argmax(axis=1))

    @cached_property
    def matrix(self) -> np.ndarray:
        """Votes as both libraries take them, [N, A], NaN where there is none."""
        found = np.full((self.votes.n_items, self.votes.n_annotators), np.nan)
        found[self.votes.item, self.votes.annotator] = self.votes.label
        return found

    @cached_property
    def available(self) -> np.ndarray:
        """Pairs that can be asked, [N, A]."""
        allowed = self.crowd.oracle.allowed
        free = np.ones(self.matrix.shape, bool)
        if allowed is not None:
            free[:] = False
            free[allowed.item, allowed.annotator] = True
        return free & np.isnan(self.matrix)

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.turn])

    @property
    def number(self) -> int:
        """A seed for what takes whole numbers."""
        return 1000 * self.seed + self.turn

    def measure(self) -> tuple[float, float]:
        """Accuracy of the labels of all items, and of the classifier on test items; the same for all policies."""
        guessed = self.model.predict(self.crowd.X_test)
        return accuracy(self.result.posterior, self.crowd.oracle.truth), float((guessed == self.crowd.truth_test).mean())


class Classifier:
    """Logistic regression with a probability for every class, seen or not."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def fit(self, X: np.ndarray, labels: np.ndarray) -> Classifier:
        self.seen = np.unique(labels)
        self.model = LogisticRegression(C=0.1, max_iter=300).fit(X, labels) if len(self.seen) > 1 else None
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        # A little of every class keeps logarithms finite, and rows that cleanlab's checks accept.
        shares = np.full((len(X), self.n_classes), 1e-6)
        shares[:, self.seen] += 1 if self.model is None else self.model.predict_proba(X)
        return shares / shares.sum(axis=1, keepdims=True)


Pairs = tuple[np.ndarray, np.ndarray]
Chooser = Callable[[Turn, int], Pairs]


def at_random(turn: Turn, size: int) -> Pairs:
    return ours("random+random")(turn, size)


def ours(policy: str) -> Chooser:
    """A policy of crowdwise on the common model."""

    def choose(turn: Turn, size: int) -> Pairs:
        pool = Pool.of(turn.votes, allowed=turn.crowd.oracle.allowed)
        found = suggest(State(turn.result, pool, turn.rng, turn.model, turn.crowd.X), policy, size)
        return found.item, found.annotator

    return choose


def wrapped(performance: bool) -> Chooser:
    """scikit-activeml: margin of items, and annotators at random or by the upper bound of interval estimation."""

    def choose(turn: Turn, size: int) -> Pairs:
        from skactiveml.classifier import SklearnClassifier

        return _by_margin(turn, size, _theirs(turn, SklearnClassifier), _upper(turn) if performance else None)

    return choose


def annot_mix(turn: Turn, size: int) -> Pairs:
    """scikit-activeml's annot-mix, trained on the votes: margin of items, and annotators by its performance on each of them."""
    import torch
    from skactiveml.classifier.multiannotator import AnnotMixClassifier

    torch.manual_seed(turn.number)
    torch.set_num_threads(1)
    n_classes, width = turn.votes.n_classes, turn.crowd.X.shape[1]
    network = torch.nn.Sequential(torch.nn.Linear(width, 64), torch.nn.ReLU(), torch.nn.Linear(64, n_classes))
    settings = {"max_epochs": MIX_EPOCHS, "batch_size": 64, "lr": 1e-2, "optimizer": torch.optim.RAdam, "verbose": 0}
    rows = turn.crowd.X.astype(np.float32)
    clf = AnnotMixClassifier(network, classes=list(range(n_classes)), neural_net_param_dict=settings, random_state=turn.number)
    clf.fit(rows[turn.voted], turn.matrix[turn.voted])
    _, performance = clf.predict_proba(rows, extra_outputs="annotator_perf")
    return _by_margin(turn, size, clf, performance)


def _by_margin(turn: Turn, size: int, clf: Any, performance: np.ndarray | None) -> Pairs:
    from skactiveml.pool import UncertaintySampling
    from skactiveml.pool.multiannotator import SingleAnnotatorWrapper

    items = UncertaintySampling(method="margin_sampling", random_state=turn.number)
    query = SingleAnnotatorWrapper(items, random_state=turn.number)
    # It never ends where an item is left that nobody can be asked about.
    open_items = np.flatnonzero(turn.available.any(axis=1))
    if not len(open_items):
        return open_items, open_items
    if performance is not None and performance.ndim == 2:
        performance = performance[open_items]
    found = query.query(
        turn.crowd.X.astype(np.float32), turn.matrix, annotators=turn.available[open_items], candidates=open_items,
        batch_size=min(size, int(turn.available.sum())), A_perf=performance, clf=clf, fit_clf=False,
    )  # fmt: skip
    return found[:, 0], found[:, 1]


def active_lab(annotators: str) -> Chooser:
    """cleanlab's: the items of the lowest scores; it does not say whom to ask."""

    def choose(turn: Turn, size: int) -> Pairs:
        from cleanlab.multiannotator import get_active_learning_scores

        voted, everyone = turn.voted, np.arange(turn.votes.n_items)
        unvoted = np.setdiff1d(everyone, voted)
        predicted = turn.classifier.predict_proba(turn.crowd.X)
        fold = turn.rng.permutation(len(voted)) % FOLDS
        for part in range(FOLDS):
            held = voted[fold == part]
            predicted[held] = turn.trained(voted[fold != part]).predict_proba(turn.crowd.X[held])
        labels = turn.matrix[voted]
        answered = labels[:, ~np.isnan(labels).all(axis=0)]
        with redirect_stdout(StringIO()):  # it prints whose votes overlap with nobody's
            first, second = get_active_learning_scores(answered, predicted[voted], predicted[unvoted] if len(unvoted) else None)
        scores = np.empty(len(everyone))
        scores[voted], scores[unvoted] = first, second
        return suggest_items(turn, -scores, annotators, size)

    return choose


@dataclass(frozen=True, eq=False)
class Given:
    """Items by given scores, annotators by a policy of crowdwise."""

    scores: np.ndarray
    other: Any
    joint: bool = False

    def items(self, state: State) -> np.ndarray:
        return self.scores[state.pool.items]

    def pairs(self, state: State, items: np.ndarray) -> np.ndarray:
        return self.other.pairs(state, items)


def suggest_items(turn: Turn, scores: np.ndarray, annotators: str, size: int) -> Pairs:
    """The best items that can be asked about, one question each, and for each an annotator."""
    from crowdwise.campaign.policies import policy_of

    pool = Pool.of(turn.votes, allowed=turn.crowd.oracle.allowed)
    policy = Given(scores, policy_of(f"random+{annotators}"))
    found = suggest(State(turn.result, pool, turn.rng), policy, size, explore=0)
    return found.item, found.annotator


def _theirs(turn: Turn, wrapper: Any) -> Any:
    """The common classifier as scikit-activeml takes it, fitted."""
    labels = np.full(turn.votes.n_items, np.nan)
    labels[turn.voted] = turn.result.posterior[turn.voted].argmax(axis=1)
    model = LogisticRegression(C=0.1, max_iter=300)
    return wrapper(model, classes=list(range(turn.votes.n_classes)), random_state=turn.number).fit(turn.crowd.X, labels)


def _upper(turn: Turn) -> np.ndarray:
    """Upper bounds of the annotators' accuracy by scikit-activeml's interval estimation, [A]."""
    from skactiveml.pool.multiannotator import IntervalEstimationAnnotModel

    classes = list(range(turn.votes.n_classes))
    model = IntervalEstimationAnnotModel(classes=classes, random_state=turn.number).fit(turn.crowd.X, turn.matrix)
    return model.A_perf_[:, 2]


DEFAULT = "crowdwise: warm-information, the default"
CHOOSERS: dict[str, Chooser] = {
    "random pairs": at_random,
    DEFAULT: ours("warm-information"),
    "scikit-activeml: margin, random annotators": wrapped(False),
    "scikit-activeml: margin, interval estimation": wrapped(True),
    "scikit-activeml: margin and annotators of annot-mix": annot_mix,
    "cleanlab: ActiveLab, random annotators": active_lab("random"),
}


def _answered(right: np.ndarray, truth: np.ndarray, n_classes: int, rng: np.random.Generator) -> Answering:
    """Answers that are right with these probabilities, [N, A]; errors are uniform."""
    wrong = (truth[:, None] + rng.integers(1, n_classes, right.shape)) % n_classes
    return Answering(np.where(rng.random(right.shape) < right, truth[:, None], wrong), truth, n_classes)


@cache
def careless(most: int, seed: int) -> Crowd:
    """Handwritten digits, 30 annotators: every third guesses, the others are right in 50 to 90 % of the cases."""
    images, test = (np.load(SHARED / "mnist" / f"{part}images.npz")["images"] for part in ("", "test_"))
    truth, truth_test = (pl.read_csv(SHARED / "mnist" / f"{part}truth.csv")["label"].to_numpy() for part in ("", "test_"))
    rng = np.random.default_rng([5, seed])
    chosen = np.sort(rng.permutation(len(images))[:most])
    first, last = (
        part.reshape(len(part), -1) / 255.0 for part in (images[:5000], np.concatenate([images[chosen], test[:1000]]))
    )
    rows = reduced(first, last, 30)[1]
    right = np.tile(rng.uniform(0.5, 0.9, 30), (most, 1))
    right[:, ::3] = 0.1
    return Crowd(_answered(right, truth[chosen], 10, rng), rows[:most], rows[most:], truth_test[:1000])


@cache
def topical(most: int, seed: int) -> Crowd:
    """Photographs of CIFAR-10, 24 annotators who know two of eight regions of the features and little of the others."""
    from sklearn.cluster import KMeans

    data, X, X_test = reduced_set("cifar10n", 30)
    rng = np.random.default_rng([6, seed])
    chosen = np.sort(rng.permutation(len(data.X))[:most])
    topic = KMeans(8, n_init=1, random_state=seed).fit_predict(X[chosen])
    known = np.array([np.isin(np.arange(8), rng.permutation(8)[:2]) for _ in range(24)])
    right = np.where(known[:, topic].T, 0.95, 0.35)
    return Crowd(_answered(right, data.truth[chosen], 10, rng), X[chosen], X_test, data.truth_test)


@dataclass(frozen=True)
class Race:
    """A crowd by seed; answers per item at the start, in all and at a time."""

    crowd: Callable[[int], Crowd]
    start: float
    budget: float
    batch: float


SIZE = 200
RACES = {
    "experts by traits on labelme": Race(lambda seed: simulated_rows("labelme", 30, SIZE, 40, seed), 0.5, 3.0, 0.5),
    "experts by topic on cifar10n": Race(lambda seed: topical(SIZE, seed), 0.5, 3.0, 0.5),
    "a third guesses, on mnist": Race(lambda seed: careless(SIZE, seed), 0.5, 3.0, 0.5),
    "labelme, recorded": Race(lambda seed: recorded_rows("labelme", 30, SIZE, seed), 0.5, 2.5, 0.5),
    "sentence_polarity, recorded": Race(lambda seed: recorded_rows("sentence_polarity", 50, SIZE, seed), 0.5, 4.0, 0.5),
}


def campaign(race: Race, choose: Chooser, seed: int) -> list[list[float]]:
    """Answers so far, accuracy of labels and on test items, seconds that the choice took; after every batch."""
    crowd = race.crowd(seed)
    oracle, n_items = crowd.oracle, len(crowd.oracle.items)
    size, budget = (round(part * n_items) for part in (race.batch, race.budget))
    nothing = Annotations.from_arrays([], [], [], items=oracle.items, annotators=[], classes=oracle.classes.tolist())
    votes = extended(nothing, annotators=oracle.annotators.tolist())
    points: list[list[float]] = []
    spent, number = 0.0, 0
    while votes.n_votes < budget:
        turn = Turn(crowd, votes, seed, number)
        if votes.n_votes:
            points.append([votes.n_votes, *turn.measure(), spent])
        started = perf_counter()
        if votes.n_votes < round(race.start * n_items):
            pool = Pool.of(votes, allowed=oracle.allowed)
            first = suggest(State(crowdwise.make("majority").fit(votes).result_, pool, turn.rng), "random+random", size)
            item, annotator = first.item, first.annotator
        else:
            item, annotator = choose(turn, min(size, budget - votes.n_votes))
        spent += perf_counter() - started
        if not len(item):
            return points
        asked = pl.DataFrame({"item": pl.Series(oracle.items[item]), "annotator": pl.Series(oracle.annotators[annotator])})
        answers = oracle.answer(asked)
        votes = votes.concat(
            Annotations.from_arrays(
                answers["item"].to_list(), answers["annotator"].to_list(), answers["label"].to_list(),
                items=votes.items, annotators=votes.annotators, classes=votes.classes,
            )
        )  # fmt: skip
        number += 1
    turn = Turn(crowd, votes, seed, number)
    points.append([votes.n_votes, *turn.measure(), spent])
    return points


def measure(races: list[str], n_seeds: int) -> None:
    """Run what there is no record of; a seed goes through all crowds and policies before the next."""
    for seed in range(n_seeds):
        for race in races:
            for name, choose in CHOOSERS.items():
                RECORDS.once(f"{race} / {name} / {seed}", partial(campaign, RACES[race], choose, seed))


@RECORDS.each
def versions() -> str:
    return ", ".join(f"{library} {version(library)}" for library in ("scikit-activeml", "cleanlab"))


def recorded_runs(races: list[str], n_seeds: int) -> dict[str, dict[str, list[list[list[float]]]]]:
    """Curves by crowd and policy, of the seeds that every policy of the crowd has."""
    kept, found = RECORDS.read(), {}
    for race in races:
        seeds = [seed for seed in range(n_seeds) if all(f"{race} / {name} / {seed}" in kept for name in CHOOSERS)]
        if seeds:
            found[race] = {name: [kept[f"{race} / {name} / {seed}"] for seed in seeds] for name in CHOOSERS}
    return found


def savings(runs: dict[str, list[list[list[float]]]]) -> dict[str, np.ndarray]:
    """Share of random pairs' answers that a policy saves on the labels of all items, by policy, [seeds]."""
    reference = next(iter(runs.values()))
    levels = [level_of(one, 1) for one in reference]
    ends = [one[-1][0] for one in reference]

    def answers(curves: list[list[list[float]]]) -> np.ndarray:
        return np.array([min(needed(one, 1, level), end) for one, level, end in zip(curves, levels, ends, strict=True)])

    return {name: 1 - answers(curves) / answers(reference) for name, curves in runs.items()}


def summary(found: dict[str, dict[str, list[list[list[float]]]]]) -> str:
    """The default beside random pairs and the neighbour that saves most in the mean, and their paired difference."""
    rows = []
    for race, runs in found.items():
        saved = savings(runs)
        best = max((name for name in saved if name.startswith(("scikit", "cleanlab"))), key=lambda name: saved[name].mean())
        gap = saved[DEFAULT] - saved[best]
        cells = [interval(list(values), 100, 0) for values in (saved[DEFAULT], saved[best], gap)]
        rows.append([race, cells[0], best, *cells[1:], str(len(gap))])
    head = ["crowd", "default saves (%)", "best neighbour", "it saves (%)", "difference, paired", "seeds"]
    return table(head, rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--races", nargs="*", default=list(RACES))
    options.add_argument("--tables", action="store_true", help="from the runs that are there")
    options.add_argument("--dry-run", action="store_true", help="print the tables, write neither page nor figure")
    given = options.parse_args()
    if not given.tables:
        measure(given.races, given.seeds)
    found = recorded_runs(given.races, given.seeds)
    parts, panels = [summary(found) + "\n"], []
    for name, runs in found.items():
        race = RACES[name]
        crowd = race.crowd(0)
        n_items = len(crowd.oracle.items)
        stops = [round(share * n_items) for share in (1.0, 2.0, race.budget)]
        batches = (race.budget - race.start) / race.batch
        parts.append(f"**{name}** ({crowd.size}; {round(race.batch * n_items)} answers at a time)\n")
        for column, words in ((1, "labels of all items"), (2, "test items")):
            rows = rows_of(runs, column, stops)
            if column == 1:
                rows = [[*row, f"{np.mean([one[-1][3] for one in runs[row[0]]]) / batches:.2f}"] for row in rows]
            head = [words, *(f"{stop:,} answers" for stop in stops), "answers needed", "saving (%)"]
            parts.append(table(head + ["seconds per batch"] * (column == 1), rows) + "\n")
            panels.append((f"{name}: {words}", runs, column))
    libraries = versions()
    text = (
        provenance("make bench-active", RECORDS) + f"\n{libraries}. Labels of all libraries' campaigns "
        "are read out by the same model of features and votes. Accuracy in percent at some numbers of answers; answers needed "
        f"to come within {100 * MARGIN:.0f} point of what random pairs reach with the whole budget, and the saving against "
        "them; mean ± half width of the 95% interval over seeds. Seconds per batch are the choice alone, without the common "
        f"model.\n\n![Policies of three libraries](images/{PICTURE.name})\n\n" + "\n".join(parts)
    )
    if given.dry_run:
        print(text)
        return
    draw(panels, 2, PICTURE)
    put("versus active", text)
