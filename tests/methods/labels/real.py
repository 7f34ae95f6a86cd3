"""Real votes with their gold labels, for tests against published accuracies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from tests.methods.labels.helpers import quiet

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.trust.metrics import accuracy


def accuracy_on(folder: Path, dataset: str, method: str, **settings: Any) -> float:
    """Accuracy (ties split) on the deduplicated votes, as the published tables have it."""
    votes = Annotations.from_frame(pl.read_csv(folder / dataset / "annotations.csv")).deduplicate()
    truth = pl.read_csv(folder / dataset / "truth.csv")
    gold = np.full(votes.n_items, -1)
    gold[np.searchsorted(votes.items.astype(int), truth["item"].to_numpy())] = truth["label"].to_numpy()
    with quiet():
        model = make(method, **settings).fit(votes)
    return accuracy(model.result_.model_posterior, gold)
