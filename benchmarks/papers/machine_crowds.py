"""Crowds of classifiers: votes that machines trained on little give, and a simulated crowd of the size of ImageNet-15N."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import beta

from benchmarks.page import SHARED
from crowdwise.data.annotations import Annotations

# Shares of the classes of Statlog (Shuttle) and of CoverType, by their counts.
SHUTTLE = (45586, 50, 171, 8903, 3267, 10, 13)
COVERTYPE = (211840, 283301, 35754, 2747, 9493, 17367, 20510)


@dataclass(frozen=True)
class Crowd:
    """Rows and votes of training items with their truth, and new items; `right` is each annotator's share of right votes."""

    X: np.ndarray
    votes: Annotations
    truth: np.ndarray
    X_test: np.ndarray
    truth_test: np.ndarray

    @property
    def right(self) -> np.ndarray:
        hits = np.bincount(self.votes.annotator, self.votes.label == self.truth[self.votes.item], self.votes.n_annotators)
        return np.asarray(hits / np.maximum(self.votes.votes_per_annotator, 1))


# -- digits by weak classifiers ----------------------------------------------------------------


@cache
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images of MNIST as rows of 14 x 14 pixels between 0 and 1, and their digits."""
    found = []
    for part in ("", "test_"):
        pixels = np.load(SHARED / "mnist" / f"{part}images.npz")["images"].astype(np.float32) / 255
        found.append(pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(pixels), -1))
        found.append(pl.read_csv(SHARED / "mnist" / f"{part}truth.csv").sort("item")["label"].to_numpy())
    return found[0], found[1], found[2], found[3]


def kinds(seed: int) -> list[Any]:
    """Classifiers of five kinds."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeClassifier

    return [
        KNeighborsClassifier(1),
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5),
        GaussianNB(var_smoothing=1e-2),
        LogisticRegression(max_iter=200),
        DecisionTreeClassifier(random_state=seed),
    ]


def pool(X: np.ndarray, truth: np.ndarray, rng: np.random.Generator) -> Iterator[tuple[Any, np.ndarray]]:
    """Classifiers with the columns that they read, without end: of any kind, trained on few rows and columns."""
    while True:
        model = kinds(int(rng.integers(1000)))[rng.integers(5)]
        rows = rng.permutation(len(X))[: int(np.exp(rng.uniform(np.log(15), np.log(600))))]
        columns = rng.permutation(X.shape[1])[: int(np.exp(rng.uniform(np.log(8), np.log(X.shape[1]))))]
        if len(np.unique(truth[rows])) > 1:
            yield model.fit(X[rows][:, columns], truth[rows]), columns


def weak_digits(n_annotators: int, n_held: int, seed: int, answered: float, span: tuple[float, float]) -> Crowd:
    """Votes of classifiers from the pool whose accuracy lies in the span, evenly spread over it.

    They are trained on the first `n_held` of the shuffled images and answer a random share of the others; those that nobody
    answered are left out.
    """
    X, truth, X_test, truth_test = digits()
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    held, rest = order[:n_held], order[n_held:]
    edges = np.linspace(*span, n_annotators + 1)
    chosen: dict[int, np.ndarray] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model, columns in pool(X[held], truth[held], rng):
            said = model.predict(X[rest][:, columns])
            place = int(np.searchsorted(edges, (said == truth[rest]).mean(), side="right")) - 1
            if 0 <= place < n_annotators:
                chosen.setdefault(place, said)
            if len(chosen) == n_annotators:
                break
    label = np.stack([chosen[a] for a in range(n_annotators)], axis=1)
    seen = rng.random(label.shape) < answered
    kept = seen.any(axis=1)
    item, annotator = np.nonzero(seen[kept])
    names = {"items": range(kept.sum()), "annotators": range(n_annotators), "classes": range(10)}
    votes = Annotations.from_arrays(item, annotator, label[kept][item, annotator], **names)
    return Crowd(X[rest][kept], votes, truth[rest][kept], X_test, truth_test)


# -- everything answered by fifteen classifiers ------------------------------------------------


def made(name: str, n_items: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and classes: scikit-learn's digits, or Gaussian clusters with the class shares of a set of the slides."""
    from sklearn.datasets import load_digits, make_classification

    if name == "digits":
        X, truth = load_digits(return_X_y=True)
        return X, truth
    shares = np.array(SHUTTLE if name == "shuttle-like" else COVERTYPE, float)
    easy = name == "shuttle-like"
    return make_classification(
        n_items,
        n_features=9 if easy else 20,
        n_informative=7 if easy else 10,
        n_redundant=2 if easy else 5,
        n_classes=len(shares),
        n_clusters_per_class=2 if easy else 4,
        weights=list(shares / shares.sum()),
        class_sep=2.5 if easy else 1.0,
        flip_y=0.0,
        random_state=seed,
    )


def machines(name: str, n_items: int, n_train: int, seed: int) -> tuple[Annotations, np.ndarray]:
    """Votes of fifteen classifiers: five kinds, each trained on three parts of what is held out, every item answered by all."""
    X, truth = made(name, n_items, seed)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    X, truth = X[order], truth[order]
    parts = np.array_split(np.arange(3 * n_train), 3)
    rest = slice(3 * n_train, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = [model.fit(X[part], truth[part]).predict(X[rest]) for part in parts for model in kinds(seed)]
    n_voted = len(X) - 3 * n_train
    item, annotator = np.repeat(np.arange(n_voted), 15), np.tile(np.arange(15), n_voted)
    names = {"items": range(n_voted), "annotators": range(15), "classes": range(int(truth.max()) + 1)}
    return Annotations.from_arrays(item, annotator, np.stack(said, axis=1).ravel(), **names), truth[rest]


# -- a crowd of the size of ImageNet-15N -------------------------------------------------------


@dataclass(frozen=True)
class Size:
    """Of the simulated crowd; `error` is that of a vote, `unclear` the share of items whose votes say nothing."""

    items: int = 2514
    classes: int = 15
    annotators: int = 100
    per_item: int = 3
    error: float = 0.4268
    unclear: float = 0.1
    features: int = 64
    distance: float = 3.6
    tested: int = 2000


def similar_classes(size: Size, seed: int) -> Crowd:
    """Clusters of features, and annotators who take a class for one of a few that are like it.

    Accuracies are the quantiles of a Beta distribution with the mean at which votes, with those on unclear items, have the
    error asked for. Wrong labels come from rows that all share, drawn from a sparse Dirichlet distribution.
    """
    rng = np.random.default_rng(seed)
    n, k = size.items + size.tested, size.classes
    truth = rng.integers(0, k, n)
    centres = rng.standard_normal((k, size.features))
    centres *= size.distance / np.linalg.norm(centres, axis=1, keepdims=True)
    X = (centres[truth] + rng.standard_normal((n, size.features))).astype(np.float32)
    mean = (1 - size.error - size.unclear / k) / (1 - size.unclear)
    accuracy = rng.permutation(beta.ppf((np.arange(size.annotators) + 0.5) / size.annotators, 5 * mean, 5 * (1 - mean)))
    wrong = rng.dirichlet(np.full(k - 1, 0.3), k)
    row = np.stack([np.insert(wrong[c], c, 0) for c in range(k)])
    item = np.repeat(np.arange(size.items), size.per_item)
    annotator = np.concatenate([rng.permutation(size.annotators)[: size.per_item] for _ in range(size.items)])
    unclear = rng.random(size.items) < size.unclear
    other = np.array([rng.choice(k, p=row[c]) for c in truth[item]])
    label = np.where(rng.random(len(item)) < accuracy[annotator], truth[item], other)
    label = np.where(unclear[item], rng.integers(0, k, len(item)), label)
    names = {"items": range(size.items), "annotators": range(size.annotators), "classes": range(k)}
    votes = Annotations.from_arrays(item, annotator, label, **names)
    cut = size.items
    return Crowd(X[:cut], votes, truth[:cut], X[cut:], truth[cut:])
