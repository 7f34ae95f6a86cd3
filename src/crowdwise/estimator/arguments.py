"""What is said of an argument that `fit` does not have: the nearest that it has, or how to weigh rows without one."""

from __future__ import annotations

import inspect
from typing import Any

from crowdwise.errors import did_you_mean

__all__ = ["refusal"]

# Weights on its votes would make an item's label surer, where scikit-learn means that there are more such items.
_OF_ROWS = (
    ": an item counts as often as its row stands in X. Repeat rows by whole numbers w, rows = np.repeat(np.arange(len(X)), w), "
    "or draw them by any others, rows = np.random.default_rng(0).choice(len(X), len(X), p=w / w.sum()); then "
    "fit(X[rows], votes[rows]). For votes that count more than others, see Annotations.from_arrays(..., weight=...)"
)
_OF_ANSWERS = "; single answers have weights: from_arrays(..., weight=...), or from_frame(..., weight=COLUMN)"


def refusal(estimator: Any, name: str) -> str:
    """Say which arguments the `fit` of this estimator takes instead of `name`."""
    known = [p.name for p in inspect.signature(estimator.fit).parameters.values() if p.kind is not p.VAR_KEYWORD]
    here = f"fit of {type(estimator).__name__} takes no {name}"
    if name == "sample_weight":
        return here + (_OF_ROWS if "X" in known and hasattr(estimator, "predict_proba") else _OF_ANSWERS)
    return f"{here}{did_you_mean(name, known)} (it takes {', '.join(known)})"
