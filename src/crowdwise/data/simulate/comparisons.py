"""Comparisons whose true scores and annotators are known, to try methods on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.comparisons import Comparisons
from crowdwise.errors import SettingError
from crowdwise.kernels.ties import outcome_probabilities
from crowdwise.kernels.types import Floats

__all__ = ["Simulated", "simulate_comparisons"]


@dataclass(frozen=True, eq=False)
class Simulated:
    """Comparisons, the true scores, [N], and the true reliabilities of annotators, [A]."""

    comparisons: Comparisons
    score: Floats
    reliability: Floats


def simulate_comparisons(
    n_items: int = 50,
    n_votes: int = 1000,
    n_annotators: int = 20,
    *,
    reliable: tuple[float, float] = (0.9, 1.0),
    spammers: float = 0.0,
    adversaries: float = 0.0,
    score_sd: float = 1.5,
    tie: float | None = None,
    score: Floats | None = None,
    random_state: int = 0,
) -> Simulated:
    """Draw comparisons of random pairs by CrowdBT's model.

    Parameters
    ----------
    reliable : tuple
        Range of the reliabilities of honest annotators.
    spammers, adversaries : float
        Shares of annotators with reliability 1/2 and 0.1.
    score_sd : float
        Standard deviation of the normal scores.
    tie : float, optional
        Davidson's tie parameter; left out, nobody ties.
    score : [N], optional
        True scores to use instead.
    """
    if n_items < 2 or n_annotators < 1 or not 0 <= spammers + adversaries <= 1:
        raise SettingError("a simulation needs two items, an annotator, and shares of spammers and adversaries up to 1")
    random = np.random.default_rng(random_state)
    score = random.normal(0, score_sd, n_items) if score is None else np.asarray(score, float)
    reliability = random.uniform(*reliable, n_annotators)
    n_spammers, n_adversaries = round(spammers * n_annotators), round(adversaries * n_annotators)
    reliability[:n_spammers] = 0.5
    reliability[n_spammers : n_spammers + n_adversaries] = 0.1
    first = random.integers(0, n_items, n_votes)
    second = (first + random.integers(1, n_items, n_votes)) % n_items
    annotator = random.integers(0, n_annotators, n_votes)
    win, loss, _ = outcome_probabilities("half" if tie is None else "davidson", tie, score[first] - score[second])
    dice = random.random(n_votes)
    outcome = np.where(dice < win, 1, np.where(dice < win + loss, -1, 0))
    outcome = np.where(random.random(n_votes) < reliability[annotator], outcome, -outcome)
    votes = Comparisons(
        first.astype(np.int32),
        second.astype(np.int32),
        annotator.astype(np.int32),
        outcome.astype(np.int8),
        np.arange(n_items),
        np.arange(n_annotators),
    )
    return Simulated(votes, score, reliability)
