"""How much a comparison costs, counted and not timed: the same votes give the same choice on a busy machine.

    label-only    rounds x (votes x states + annotators x classes x states)   states: classes, or subtypes of all runs
    classifier    rounds x rows x parameters

Rounds are what fits take as a rule (medians over the sets of the benchmarks), known before anything is fitted. Operations of
label-only methods take 10 to 100 ns each, those of classifiers about 0.5 ns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from crowdwise.data.annotations import Annotations
from crowdwise.trust.choice.classifiers import Candidate
from crowdwise.trust.choice.selection import Row

__all__ = ["keep_affordable", "operations_of", "training_operations"]

_ROUNDS = {"majority": 1, "one-coin": 20, "confusion-vector": 20, "dawid-skene": 50, "mace": 80, "consensus": 120, "ebcc": 60}
_OTHER_ROUNDS = 100
# Eight runs over ten subtypes of every class.
_STATES_PER_CLASS = {"ebcc": 80}
# Of classifiers: epochs or rounds. Two stages try several penalties on several folds; EM around a classifier trains it on
# several folds in several rounds.
_TRAINING_ROUNDS, _MANY_ROUNDS = 100, {"two-stage": 500, "crowd-em": 2000}
# Steps of a network at least, and rows of each.
_STEPS, _BATCH = 1000, 128
# Epochs and inducing points of Gaussian processes.
_PROCESS_ROUNDS, _INDUCING = 50, 100
# Weights that read a number of an image in a small convolutional network.
_WEIGHTS_PER_PIXEL = 128


def operations_of(method: str, votes: Annotations) -> float:
    """Operations of one fit of a label-only method."""
    states = votes.n_classes * _STATES_PER_CLASS.get(method, 1)
    return float(_ROUNDS.get(method, _OTHER_ROUNDS) * states * (votes.n_votes + votes.n_annotators * votes.n_classes))


def training_operations(candidate: Candidate, features: Any, n_classes: int) -> float:
    """Operations of one fit of a classifier to rows of these features."""
    n_rows, *shape = features.shape
    numbers = math.prod(shape)
    if candidate.method.startswith("svgp"):
        return float(_PROCESS_ROUNDS * n_rows * _INDUCING * (numbers + n_classes * _INDUCING))
    rounds = _TRAINING_ROUNDS if candidate.network else _MANY_ROUNDS.get(candidate.method, _TRAINING_ROUNDS)
    if not candidate.network:
        return float(rounds * n_rows * numbers * n_classes)
    if len(shape) > 1:
        return float(rounds * n_rows * numbers * _WEIGHTS_PER_PIXEL)
    # Small sets are given more epochs, see `crowdwise.engines.gradient.stopping`; the width of the default network stands in
    # `crowdwise.engines.gradient.networks`.
    rounds = max(rounds, _STEPS * _BATCH // max(n_rows, 1))
    width = 2 ** min(9, max(6, round(math.log2(max(n_rows, 2)) / 2)))
    return float(rounds * n_rows * width * (numbers + n_classes))


def keep_affordable(rows: Sequence[Row], needed: Mapping[str, float], budget: float) -> None:
    """Skip candidates that take more operations than are left when their turn comes; each says so in its note."""
    left = budget
    for row in rows:
        if not row.eligible:
            continue
        if needed[row.method] > left:
            row.give_up(f"skipped: it takes about {needed[row.method]:.1e} operations, and {left:.1e} of {budget:.1e} are left")
        else:
            left -= needed[row.method]
