"""Policies of crowdwise, scikit-activeml and cleanlab (ActiveLab) on the same crowds, models and seeds.

    make bench-active

Labels come from dawid-skene on the votes so far, for items without votes from the classifier; the classifier is a logistic
regression on the labels of the items with votes. Every policy reads these two, or only the votes, as its library has it, and
every campaign of a seed starts with the same random answers. ActiveLab reads out-of-sample predictions of the same classifier
(five folds), as its documentation asks for. Neither library's annotators are chosen by skill unless the row says so: ActiveLab
scores items only, and scikit-activeml's wrapper draws annotators at random unless it is given their performance.

Runs are kept in benchmarks/.runs/versus_active.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from io import StringIO
from time import perf_counter
from typing import Any

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

import crowdwise
import crowdwise.errors
from benchmarks.campaigns.active_curves import IMAGES, MARGIN, Crowd, draw, keep, recorded_rows, rows_of, simulated_rows
from benchmarks.declaration import Benchmark
from benchmarks.page import provenance, put, table
from benchmarks.records import KEPT
from crowdwise.campaign.assign import suggest
from crowdwise.campaign.policies import State
from crowdwise.campaign.pool import Pool, extended
from crowdwise.data.annotations import Annotations
from crowdwise.trust.metrics import accuracy

BENCHMARK = Benchmark(
    "Which library's policies need the fewest answers?",
    sections=("versus active",),
    data=("labelme", "rte"),
    packages=("torch", "skactiveml", "cleanlab"),
    quick="--seeds 1 --dry-run",
)

RUNS = KEPT / "versus_active.json"
PICTURE = IMAGES / "versus-active.png"
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Turn:
    """What a policy may read: the votes so far, the aggregator's result, the classifier, and who can be asked about what."""

    crowd: Crowd
    votes: Annotations
    seed: int
    turn: int

    @cached_property
    def result(self) -> Any:
        return crowdwise.make("dawid-skene").fit(self.votes).result_

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
        """Accuracy of the labels of all items, and of the classifier on test items."""
        labels = np.where(
            (self.votes.votes_per_item > 0)[:, None], self.result.posterior, self.classifier.predict_proba(self.crowd.X)
        )
        guessed = self.classifier.predict_proba(self.crowd.X_test).argmax(axis=1)
        return accuracy(labels, self.crowd.oracle.truth), float((self.votes.classes[guessed] == self.crowd.truth_test).mean())


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


def ours(policy: str, model: str | None = None, **settings: Any) -> Chooser:
    """A policy of crowdwise on the common models, or on a model of its own."""

    def choose(turn: Turn, size: int) -> Pairs:
        result, classifier = turn.result, turn.classifier
        if model is not None:
            own = crowdwise.make(model, **settings)
            result = (own.fit(turn.votes) if hasattr(own, "update") else own.fit(turn.crowd.X, turn.votes)).result_
        pool = Pool.of(turn.votes, allowed=turn.crowd.oracle.allowed)
        # A policy that starts at random asks whether the labels rest on a classifier; here they rest on votes.
        reads = (classifier, turn.crowd.X) if policy.startswith("predictive") else ()
        found = suggest(State(result, pool, turn.rng, *reads), policy, size)
        return found.item, found.annotator

    return choose


def wrapped(strategy: str, performance: bool) -> Chooser:
    """scikit-activeml: a strategy of items, and annotators at random or by the upper bound of interval estimation."""

    def choose(turn: Turn, size: int) -> Pairs:
        from skactiveml.classifier import SklearnClassifier
        from skactiveml.pool import RandomSampling, UncertaintySampling
        from skactiveml.pool.multiannotator import SingleAnnotatorWrapper

        options: dict[str, Any] = {}
        if strategy == "random":
            items = RandomSampling(random_state=turn.number)
        else:
            items = UncertaintySampling(method=strategy, random_state=turn.number)
            options = {"clf": _theirs(turn, SklearnClassifier), "fit_clf": False}
        query = SingleAnnotatorWrapper(items, random_state=turn.number)
        # It never ends where an item is left that nobody can be asked about.
        open_items = np.flatnonzero(turn.available.any(axis=1))
        found = query.query(
            turn.crowd.X, turn.matrix, annotators=turn.available[open_items], candidates=open_items,
            batch_size=min(size, int(turn.available.sum())), A_perf=_upper(turn) if performance else None, **options,
        )  # fmt: skip
        return found[:, 0], found[:, 1]

    return choose


def threshold(turn: Turn, size: int) -> Pairs:
    """scikit-activeml's IEThresh: several annotators for an item, once; it is not defined where some cannot answer."""
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool.multiannotator import IntervalEstimationThreshold

    clf, matrix = _theirs(turn, SklearnClassifier), turn.matrix
    asked: list[np.ndarray] = []
    free = turn.available.copy()
    while sum(map(len, asked)) < size and free.all(axis=1).any():  # it asks only about items that nobody has answered
        query = IntervalEstimationThreshold(random_state=turn.number + 17 * len(asked))
        asked.append(query.query(turn.crowd.X, matrix, clf, fit_clf=False, candidates=np.arange(len(matrix)), annotators=free))
        free[asked[-1][:, 0], asked[-1][:, 1]] = False
    found = np.concatenate([*asked, np.empty((0, 2), np.int64)]).astype(np.int64)[:size]
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


CHOOSERS: dict[str, Chooser] = {
    "random pairs": at_random,
    "crowdwise: warm-information, the default": ours("warm-information"),
    "crowdwise: information": ours("information"),
    "crowdwise: entropy+ucb": ours("entropy+ucb"),
    "crowdwise: predictive-entropy+ucb": ours("predictive-entropy+ucb"),
    "crowdwise: information, bayes-gc": ours("information", "bayes-gc", alpha0=50.0),
    "crowdwise: information, raykar": ours("information", "raykar"),
    "scikit-activeml: margin, random annotators": wrapped("margin_sampling", False),
    "scikit-activeml: margin, interval estimation": wrapped("margin_sampling", True),
    "scikit-activeml: IEThresh": threshold,
    "cleanlab: ActiveLab, random annotators": active_lab("random"),
    "cleanlab: ActiveLab, our ucb annotators": active_lab("ucb"),
}


@dataclass(frozen=True)
class Race:
    """A crowd by seed; answers per item at the start, in all and at a time."""

    crowd: Callable[[int], Crowd]
    start: float
    budget: float
    batch: float


RACES = {
    "simulated experts on labelme": Race(lambda seed: simulated_rows("labelme", 30, 600, 40, seed), 0.5, 3.0, 0.2),
    "labelme, recorded": Race(lambda seed: recorded_rows("labelme", 30, 600, seed), 0.5, 2.5, 0.2),
    "sentence_polarity, recorded": Race(lambda seed: recorded_rows("sentence_polarity", 100, 600, seed), 0.5, 4.0, 0.25),
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


def measure(races: list[str], n_seeds: int) -> dict[str, list[list[list[float]]]]:
    """All curves, by "race / policy"; a seed goes through all of them before the next."""
    results = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    for seed in range(n_seeds):
        for race in races:
            for name, choose in CHOOSERS.items():
                if choose is threshold and race.endswith("recorded"):
                    continue
                runs = results.setdefault(f"{race} / {name}", [])
                if len(runs) > seed:
                    continue
                started = perf_counter()
                runs.append(campaign(RACES[race], choose, seed))
                last = [round(value, 4) for value in runs[-1][len(runs[-1]) // 2]]
                print(race, "/", name, "/", seed, "half way:", last, f"{perf_counter() - started:.0f} s", flush=True)
                keep(results, RUNS)
    return results


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seeds", type=int, default=4)
    options.add_argument("--races", nargs="*", default=list(RACES))
    options.add_argument("--tables", action="store_true", help="from the runs that are there")
    options.add_argument("--dry-run", action="store_true", help="print the tables, write neither page nor figure")
    given = options.parse_args()
    results = json.loads(RUNS.read_text()) if given.tables else measure(given.races, given.seeds)
    parts, panels = [], []
    for name in given.races:
        race = RACES[name]
        runs = {c: results[f"{name} / {c}"][: given.seeds] for c in CHOOSERS if results.get(f"{name} / {c}")}
        if not runs:
            continue
        n_items = len(race.crowd(0).oracle.items)
        stops = [round(share * n_items) for share in (1.0, 2.0, race.budget)]
        batches = (race.budget - race.start) / race.batch
        for column, words in ((1, "labels of all items"), (2, "test items")):
            rows = rows_of(runs, column, stops)
            if column == 1:
                rows = [[*row, f"{np.mean([one[-1][3] for one in runs[row[0]]]) / batches:.2f}"] for row in rows]
            head = [words, *(f"{stop:,} answers" for stop in stops), "answers needed", "saving (%)"]
            parts.append(table(head + ["seconds per batch"] * (column == 1), rows) + "\n")
            panels.append((f"{name}: {words}", runs, column))
        parts.insert(len(parts) - 2, f"**{name}** ({race.crowd(0).size}; {round(race.batch * n_items)} answers at a time)\n")
    seeds = min(len(runs) for key, runs in results.items() if key.split(" / ")[0] in given.races)
    text = (
        provenance("make bench-active")
        + f"\nscikit-activeml {version('scikit-activeml')}, cleanlab {version('cleanlab')}. Accuracy in percent at some "
        "numbers of answers; answers needed to come within "
        f"{100 * MARGIN:.0f} point of what random pairs reach with the whole budget, and the saving against them; mean ± half "
        f"width of the 95% interval over {seeds} seeds.\n\n![Policies of three libraries](images/{PICTURE.name})\n\n"
        + "\n".join(parts)
    )
    if given.dry_run:
        print(text)
        return
    draw(panels, 2, PICTURE)
    put("versus active", text)
