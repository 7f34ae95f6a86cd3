"""Which likelihood a Gaussian process should have: the one under which the votes on items that did not teach are likelier.

Bounds under two likelihoods cannot be compared. So each is tried: fitted to three quarters of the items (of a sample, where
there are many) and judged by the votes on the last quarter.
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
from crowdwise.parts.priors.robust_max import LIKELIHOODS

__all__ = ["chosen_likelihood"]

# Items that the choice looks at, at most and at least; below, a quarter of them says too little.
_MOST, _LEAST = 3_000, 40
_JUDGING = 0.25


def chosen_likelihood(process: Any, features: Any, votes: Annotations) -> tuple[str, dict[str, float]]:
    """The likelihood to take, and how unlikely the judging votes were under each, in nats per vote."""
    able = np.flatnonzero(votes.votes_per_item > 0)
    if len(able) < _LEAST or votes.n_classes == 1:
        return LIKELIHOODS[0], {}
    sample = np.sort(generator(process.random_state or 0).permutation(able)[:_MOST])
    rows = rows_of(features, torch.float64).take(torch.from_numpy(sample)).numpy()
    fewer, init = votes.take_items(sample), process.init
    changes = {"validation": _JUDGING, "refit": False, "patience": process.epochs, "checkpoint": None, "warm_start": False}
    found = {}
    for name in LIKELIHOODS:
        trial = clone(process).set_params(likelihood=name, **changes)
        if not isinstance(init, str):
            trial.init = np.asarray(init)[sample]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trial.fit(rows, fewer)
        found[name] = float(trial.history_["held_out"][-1])
    return min(found, key=lambda name: found[name]), found
