"""Which likelihood and which scale of the features a Gaussian process should have: those under which votes are likelier.

Bounds under two likelihoods cannot be compared. So settings are tried: fitted to three quarters of the items (of a sample,
where there are many) and judged by the votes on the last quarter. One setting after the other, each with the best of those
before it: of two settings three trials instead of four.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.base import clone

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.rows import rows_of
from crowdwise.kernels.numerics import generator
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.priors.robust_max import LIKELIHOODS

__all__ = ["SCALINGS", "chosen_settings"]

SCALINGS = ("columns", "together")
# What may be "auto"; the first of each is taken where there is nothing to choose by.
_OPEN = {"scaling": SCALINGS, "likelihood": LIKELIHOODS}
# Items that the choice looks at, at most and at least; below, a quarter of them says too little.
_MOST, _LEAST = 3_000, 40
_JUDGING = 0.25
# Epochs without a better score before a trial ends: its votes judge, they do not stop it.
_NEVER = 10**6
# Spreads of columns that differ by no more than this factor count as one.
_ALIKE = 1.1


def chosen_settings(process: Any, features: Any, votes: Annotations) -> tuple[dict[str, str], dict[str, float]]:
    """The settings to take, and how unlikely the judging votes were under each that was tried, in nats per vote."""
    able = np.flatnonzero(votes.votes_per_item > 0)
    taken = {name: getattr(process, name) for name in _OPEN}
    left = {name: choices for name, choices in _OPEN.items() if taken[name] == "auto"}
    taken |= {name: choices[0] for name, choices in left.items()}
    if not left or len(able) < _LEAST or votes.n_classes == 1:
        return taken, {}
    sample = np.sort(generator(process.random_state or 0).permutation(able)[:_MOST])
    rows = rows_of(features, torch.float64).take(torch.from_numpy(sample)).numpy()
    if _one_spread(rows):
        left.pop("scaling", None)
    fewer, tried = votes.take_items(sample), dict[str, float]()

    def unlikely(settings: dict[str, str]) -> float:
        label = ", ".join(settings[name] for name in left)
        if label not in tried:
            tried[label] = _held_out(process, rows, fewer, sample, settings)
        return tried[label]

    for name, choices in left.items():
        taken = min((taken | {name: choice} for choice in choices), key=unlikely)
    return taken, tried


def _one_spread(rows: Floats) -> bool:
    """Whether all columns that vary have about one spread, so that the ways to scale them are one."""
    spread = rows.std(axis=0)
    spread = spread[spread > 0]
    return len(spread) < 2 or bool(spread.max() <= _ALIKE * spread.min())


def _held_out(process: Any, rows: Floats, votes: Annotations, sample: Integers, settings: dict[str, str]) -> float:
    """How unlikely the votes on items that did not teach are, in nats per vote."""
    changes = {"validation": _JUDGING, "refit": False, "patience": _NEVER, "checkpoint": None, "warm_start": False}
    trial = clone(process).set_params(**settings, **changes)
    if not isinstance(process.init, str):
        trial.init = np.asarray(process.init)[sample]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trial.fit(rows, votes)
    return float(trial.history_["held_out"][-1])
