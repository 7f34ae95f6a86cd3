"""What the tests of the gradient engine share: small crowds with features, and batches of their votes."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning
from crowdwise.parts.heads.batch import Batch, VoteList

CPU = torch.device("cpu")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Small and random data rightly make methods warn; those warnings have tests of their own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        yield


def blobs(seed: int, n_items: int, n_classes: int, n_features: int = 4, gap: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian clouds around random centres `gap` standard deviations from the origin: features and true classes."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_classes, n_features))
    centres *= gap / np.linalg.norm(centres, axis=1, keepdims=True)
    truth = np.arange(n_items) % n_classes
    rng.shuffle(truth)
    return centres[truth] + rng.normal(size=(n_items, n_features)), truth


def votes_on(truth: np.ndarray, confusion_akl: Any, seed: int = 0, share: float = 1.0) -> Annotations:
    """Every annotator votes on a share of the items by a confusion matrix, [annotator, true, observed]."""
    rng = np.random.default_rng(seed)
    confusion = np.asarray(confusion_akl, float)
    n_annotators, n_classes, _ = confusion.shape
    item, annotator = (index.ravel() for index in np.indices((len(truth), n_annotators)))
    label = (rng.random((len(item), 1)) > confusion[annotator, truth[item]].cumsum(axis=1)[:, :-1]).sum(axis=1)
    kept = rng.random(len(item)) < share
    return Annotations.from_arrays(
        item[kept],
        annotator[kept],
        label[kept],
        items=range(len(truth)),
        annotators=range(n_annotators),
        classes=range(n_classes),
    )


def even(n_annotators: int, n_classes: int, right: float) -> np.ndarray:
    """Confusion matrices of equally good annotators with even errors, [A, K, L]."""
    one = np.full((n_classes, n_classes), (1 - right) / (n_classes - 1))
    np.fill_diagonal(one, right)
    return np.repeat(one[None], n_annotators, axis=0)


def small_crowd(seed: int = 0, n_items: int = 60, n_classes: int = 3, right: float = 0.8) -> tuple[np.ndarray, Annotations]:
    """Features and the votes of four annotators, some of whom skip items."""
    features, truth = blobs(seed, n_items, n_classes)
    return features, votes_on(truth, even(4, n_classes, right), seed, share=0.8)


def batch_of(votes: Annotations, *, item_weight: Any = None, epoch: int = 0, order: Any = None) -> Batch:
    """All items (or those of `order`) as one batch in float64."""
    order = torch.arange(votes.n_items) if order is None else torch.as_tensor(order)
    return next(VoteList(votes, torch.float64, CPU, item_weight).batches(order, max(len(order), 1), epoch))


def some_votes(
    seed: int = 0, n_items: int = 5, n_annotators: int = 3, n_classes: int = 3, weighted: bool = True
) -> Annotations:
    """Random votes with repeats, an item without votes and (optionally) uneven weights."""
    rng = np.random.default_rng(0)
    n_votes = 4 * n_items
    return Annotations.from_arrays(
        rng.integers(0, n_items - 1, n_votes),
        rng.integers(0, n_annotators, n_votes),
        rng.integers(0, n_classes, n_votes),
        rng.uniform(0.5, 2.0, n_votes) if weighted else None,
        items=range(n_items),
        annotators=range(n_annotators),
        classes=range(n_classes),
    )


def random_logits(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
