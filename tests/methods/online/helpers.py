"""What the tests of the online methods share: random streams, replays, reopening."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.storage import load_with_extra


def nothing(classes: Any) -> Annotations:
    """No votes yet, but all classes."""
    return Annotations.from_arrays([], [], [], items=[], annotators=[], classes=classes)


def table(votes: list[tuple[Any, Any, int, float]], n_classes: int) -> Annotations:
    columns = [list(column) for column in zip(*votes, strict=True)]
    return Annotations.from_arrays(*columns, classes=range(n_classes))


def random_stream(
    seed: int, n_updates: int, size: int, *, n_items: int = 6, n_annotators: int = 4, n_classes: int = 3, weighted: bool = False
) -> list[list[tuple[Any, Any, int, float]]]:
    """Updates of random votes, repeats included."""
    rng = np.random.default_rng(seed)
    return [
        [
            (
                int(rng.integers(n_items)),
                int(rng.integers(n_annotators)),
                int(rng.integers(n_classes)),
                float(rng.integers(1, 4)) / 2 if weighted else 1.0,
            )
            for _ in range(size)
        ]
        for _ in range(n_updates)
    ]


def replay(model: Any, votes: Annotations, order: np.ndarray, chunk: int) -> Any:
    """Feed the votes to the model in this order, `chunk` at a time."""
    item, annotator = votes.items[votes.item][order], votes.annotators[votes.annotator][order]
    label = votes.classes[votes.label][order]
    model.fit(nothing(votes.classes))
    for start in range(0, len(order), chunk):
        part = slice(start, start + chunk)
        model.update(Annotations.from_arrays(item[part], annotator[part], label[part], classes=votes.classes))
    return model


def reopened(cls: Any, folder: Path) -> Any:
    """What `crowdwise.load` gives back."""
    result, members = load_with_extra(folder)
    model = cls(**result.settings)
    model._restore(result, members)
    return model


def counted(model: Any, weight: Any) -> np.ndarray:
    """Counts summed anew from every vote, its turn and its item's posterior, [A, L, K]."""
    state = model._state
    turns, posterior = state.used("turns"), state.used("posterior")
    counts = np.zeros_like(state.used("counts"))
    weights = state.used("weight") if len(state.arrays.weight) else np.ones(state.n_votes)
    votes = zip(state.used("item"), state.used("annotator"), state.used("label"), state.used("turn"), weights, strict=True)
    for n, a, l, t, w in votes:
        counts[a, l] += w * weight(int(t), int(turns[a])) * posterior[n]
    return counts
