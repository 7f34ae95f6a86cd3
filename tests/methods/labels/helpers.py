"""What the tests of the methods share: quiet fits, random crowds, the registry cut by kind."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning
from crowdwise.estimator.registry import label_methods
from crowdwise.methods.labels.dawid_skene import IterativeAggregator
from crowdwise.methods.labels.moment import MomentAggregator

METHODS = label_methods()

# Methods that need more than votes (two classes, say) have tests of their own.
ALL = [name for name, method in METHODS.items() if not method.binary_only and not method.online]
# To these, classes in another order are other data.
ORDERED = [name for name in ALL if METHODS[name].ordered]
ITERATIVE = [name for name in ALL if issubclass(METHODS[name].cls, IterativeAggregator)]
MOMENTS = [name for name in ALL if issubclass(METHODS[name].cls, MomentAggregator)]
COUNTING = [name for name in ALL if name not in (*ITERATIVE, *MOMENTS, "consensus", "auto")]

CLASSIC = ("majority", "wawa", "zbs", "dawid-skene", "one-coin", "confusion-vector", "glad", "mace", "bayes-gc")


def slow_unless_classic(names: list[str]) -> list[Any]:
    """Parameters for a test over methods: the fast suite runs it for the classic ones, the whole suite for all."""
    return [name if name in CLASSIC else pytest.param(name, marks=pytest.mark.slow) for name in names]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Random votes of a few annotators rightly make methods warn; those warnings have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        yield


def random_votes(
    rng: np.random.Generator, n_items: int, n_annotators: int, n_classes: int, n_votes: int, **more: Any
) -> Annotations:
    """Votes without any signal, repeats included; every vocabulary is complete."""
    return Annotations.from_arrays(
        rng.integers(0, n_items, n_votes),
        rng.integers(0, n_annotators, n_votes),
        rng.integers(0, n_classes, n_votes),
        items=range(n_items),
        annotators=range(n_annotators),
        classes=range(n_classes),
        **more,
    )


def crowd(
    seed: int, n_items: int, confusion_akl: Any, *, votes_per_item: int | None = None, prior: Any = None
) -> tuple[Annotations, np.ndarray]:
    """Votes drawn from given confusion matrices, [annotator, true, observed], and the truth."""
    rng = np.random.default_rng(seed)
    confusion = np.asarray(confusion_akl, float)
    n_annotators, n_classes, _ = confusion.shape
    truth = rng.choice(n_classes, n_items, p=prior)
    per_item = n_annotators if votes_per_item is None else votes_per_item
    annotator = np.argsort(rng.random((n_items, n_annotators)), axis=1)[:, :per_item].ravel()
    item = np.repeat(np.arange(n_items), per_item)
    # Inverse of the cumulative row: the first label whose cumulative probability exceeds a uniform draw.
    label = (rng.random((len(item), 1)) > confusion[annotator, truth[item]].cumsum(axis=1)[:, :-1]).sum(axis=1)
    votes = Annotations.from_arrays(
        item, annotator, label, items=range(n_items), annotators=range(n_annotators), classes=range(n_classes)
    )
    return votes, truth


def diagonal_crowd(n_annotators: int, n_classes: int, right: float) -> np.ndarray:
    """Confusion matrices of equally good annotators whose errors are uniform."""
    one = np.full((n_classes, n_classes), (1 - right) / (n_classes - 1))
    np.fill_diagonal(one, right)
    return np.repeat(one[None], n_annotators, axis=0)
