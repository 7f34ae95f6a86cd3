"""Conformal label sets: sets of classes that hold the true one with a stated probability, whatever the model.

Given M items of known class, drawn like the others, and a score s(q_n, k), small where k is plausible,

    threshold = the ceil((M + 1)(1 - alpha))-th smallest score of the known items' true classes
    set_n = {k : s(q_n, k) <= threshold}            P(z_n in set_n) >= 1 - alpha

for a new item, on average over known and new items. No probability needs to be right; better ones make smaller sets.
Where M is too small for the rank, every set holds all classes.

Scores: ``lac``, 1 - q_nk, gives the smallest sets on average; ``aps``, the probability of all classes at least as probable
as k, gives larger sets to harder items, so that coverage is more even (with `randomised`, k's own share is multiplied by
a uniform draw, which makes the coverage exact). `by_class` takes a threshold per class, from the known items of this
class: coverage then holds for every class, which takes at least 1 / alpha - 1 known items of each.

Notes
-----
The guarantee needs exchangeable items: known ones chosen at random, and treated by the fit as all others are. A fit that
was given these labels as gold breaks it.

References
----------
Sadinle, Lei and Wasserman (2019), Least ambiguous set-valued classifiers with bounded error levels (LAC). Romano, Sesia
and Candès (2020), Classification with valid and adaptive coverage (APS).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import SettingError, check_share
from crowdwise.kernels.types import Flags, Floats
from crowdwise.trust.calibration.base import known_of

__all__ = ["ConformalSets"]


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Label sets at level 1 - alpha; `threshold` has one entry per class, [K] (all equal unless `by_class`).

    Examples
    --------
    >>> q = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    >>> sets = ConformalSets.fit(q, [0, 0, 1, 1], alpha=0.4)  # the ceil(5 * 0.6) = 3rd of 0.1, 0.2, 0.3, 0.6
    >>> sets.sets([[0.5, 0.5], [0.7, 0.3]]).tolist()
    [[True, False], [True, False]]
    """

    alpha: float
    score: str
    threshold: Floats
    randomised: bool = False
    seed: int | None = 0

    @classmethod
    def fit(
        cls,
        probability: ArrayLike,
        truth: ArrayLike,
        alpha: float = 0.1,
        *,
        score: str = "lac",
        by_class: bool = False,
        randomised: bool = False,
        seed: int | None = 0,
    ) -> ConformalSets:
        """Choose the threshold by items of known class: probability [N, K], truth [N] with -1 where unknown."""
        check_share("alpha", alpha)
        if score not in ("lac", "aps"):
            raise SettingError(f"score must be 'lac' or 'aps'; got {score!r}")
        if randomised and score != "aps":
            raise SettingError("only score='aps' can be randomised")
        q_mk, z_m = known_of(probability, truth, least=1)
        # Other draws than those of `sets`: known items may be among the items that get sets.
        draw = np.random.default_rng([1, seed or 0]).random(len(z_m)) if randomised else None
        own = _scores(q_mk, score, draw)[np.arange(len(z_m)), z_m]
        n_classes = q_mk.shape[1]
        if by_class:
            threshold = np.array([_rank(own[z_m == k], alpha) for k in range(n_classes)])
        else:
            threshold = np.full(n_classes, _rank(own, alpha))
        return cls(alpha, score, threshold, randomised, seed)

    def sets(self, probability: ArrayLike, *, never_empty: bool = True) -> Flags:
        """Which classes belong to the set of every item, [N, K]; an empty one gets the most probable class."""
        q_nk = np.asarray(probability, float)
        draw = np.random.default_rng([0, self.seed or 0]).random(len(q_nk)) if self.randomised else None
        held = _scores(q_nk, self.score, draw) <= self.threshold
        if never_empty and len(q_nk):
            held[np.arange(len(q_nk)), q_nk.argmax(axis=1)] |= ~held.any(axis=1)
        return np.asarray(held)


def _rank(scores: Floats, alpha: float) -> float:
    """The ceil((M + 1)(1 - alpha))-th smallest; infinity where there are not so many."""
    # The rounding keeps (M + 1)(1 - alpha) = 18.000000000000004 from becoming 19.
    rank = int(np.ceil(np.round((len(scores) + 1) * (1 - alpha), 9)))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else float("inf")


def _scores(q_nk: Floats, score: str, draw: Floats | None) -> Floats:
    """How implausible every class is, [N, K]."""
    if score == "lac":
        return 1 - q_nk
    # Ties are broken by the order of the classes: any fixed rule will do.
    order = np.argsort(-q_nk, axis=1, kind="stable")
    ranked = np.take_along_axis(q_nk, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    total = before + (ranked if draw is None else draw[:, None] * ranked)
    scores = np.empty_like(q_nk)
    np.put_along_axis(scores, order, total, axis=1)
    return scores
