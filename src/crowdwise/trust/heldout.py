"""Votes that a fit has not seen: how well a model predicts them is what can be measured without any true label.

    p(y_e | the other votes) = sum_k q_n(k | the other votes of n) R_a[k, y_e]

Votes are dealt into folds; each fold is predicted by a fit to the others. Only votes that leave another one on their item
are held out: without any, nothing but the class shares could predict them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats, Integers

__all__ = ["deal", "held_out", "log_prob_by", "log_prob_under", "random_places"]


# The smallest probability of a vote, so that one surprise costs much, not everything.
_FLOOR = 1e-12
_CHUNK = 100_000


def deal(votes: Annotations, folds: int = 5, seed: int = 0) -> Integers:
    """Fold of every vote, [E]; -1 for votes that are never held out.

    The votes of an item go to folds one after the other from a random first, so that folds differ by one vote per item at
    most; an item with no more votes than folds loses one at a time.
    """
    if folds < 2:
        raise SettingError(f"folds must be at least 2, or nothing is left to fit to; got {folds!r}")
    rng = np.random.default_rng(seed)
    count, place = votes.votes_per_item, random_places(votes, rng)
    first = rng.integers(folds, size=votes.n_items)
    fold = (place + first[votes.item]) % folds
    if votes.soft:
        # The rows of one distribution are one vote.
        fold, count = np.repeat(fold[votes.answer_ptr[:-1]], np.diff(votes.answer_ptr)), votes.answers_per_item
    return np.where(count[votes.item] > 1, fold, -1)


def random_places(votes: Annotations, rng: np.random.Generator) -> Integers:
    """Place of every vote in a random order of the votes on its item, [E]."""
    order = np.lexsort((rng.random(votes.n_votes), votes.item))
    place = np.empty(votes.n_votes, np.int64)
    place[order] = np.arange(votes.n_votes) - votes.item_ptr[:-1][votes.item]
    return place


def log_prob_by(result: Result, votes: Annotations, index: Integers) -> Floats:
    """Log-probability of the votes at `index`, [len(index)], by a fit to others of the same items and annotators.

    `result` must have been fitted to votes with the vocabularies of `votes`. Annotators that it has not met answer as the
    crowd does on average.
    """
    seen = result.votes.votes_per_annotator
    confusion = result.confusion
    if not seen.all():
        crowd = np.average(confusion, axis=0, weights=seen) if seen.sum() else confusion.mean(axis=0)
        confusion = np.where(seen[:, None, None] > 0, confusion, crowd)
    return log_prob_under(result.model_posterior, confusion, votes, index)


def log_prob_under(posterior: Floats, confusion: Floats, votes: Annotations, index: Integers) -> Floats:
    """Log-probability of the votes at `index`, [len(index)], from class probabilities and confusion matrices.

    Parameters
    ----------
    posterior : [N, K]
    confusion : [A, K, L]
        P(observed | true) of every annotator.
    """
    log_prob = np.empty(len(index))
    for start in range(0, len(index), _CHUNK):
        part = index[start : start + _CHUNK]
        rows = confusion[votes.annotator[part], :, votes.label[part]]
        chance = (posterior[votes.item[part]] * rows).sum(axis=1)
        log_prob[start : start + _CHUNK] = np.log(np.maximum(chance, _FLOOR))
    return log_prob


def held_out(fit: Callable[[Annotations], Result], votes: Annotations, fold: Integers) -> Floats:
    """Log-probability of every vote by a fit to the other folds, [E]; NaN where a vote is never held out.

    Parameters
    ----------
    fit : callable
        From votes to a `Result`: ``lambda votes: make("dawid-skene").fit(votes).result_``.
    fold : [E]
        From `deal`.
    """
    log_prob = np.full(votes.n_votes, np.nan)
    for number in range(int(fold.max(initial=-1)) + 1):
        index = np.flatnonzero(fold == number)
        if len(index):
            log_prob[index] = log_prob_by(fit(votes.take_votes(fold != number)), votes, index)
    return log_prob
