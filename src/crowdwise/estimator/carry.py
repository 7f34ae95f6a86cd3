"""What of an earlier fit is carried over to votes with their own items, annotators and classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import codes_of, series_of, tidy, translate, vocabulary_array
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import vote_shares
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.parts.annotators.model import weight_of

__all__ = ["carried_history", "carried_posterior", "named_annotators", "places", "positions"]

_NOBODY: Integers = np.empty(0, np.int16)


# Names are few where there are so many times as many.
_FEW = 50


def positions(ids: Array, vocabulary: Array) -> Integers:
    """Position of every id in `vocabulary`, -1 where absent.

    A bootstrap sample of items repeats ids in the vocabulary; the first of them is found.
    """
    known = tidy(series_of(vocabulary))
    first = known.is_first_distinct()
    codes = codes_of(tidy(series_of(ids)), known.filter(first))
    return np.append(np.flatnonzero(first.to_numpy()), -1)[codes]


def places(ids: Array, result: Result, side: str) -> Integers:
    """Position of every id among the "items" or "annotators" of a fit, -1 where absent.

    A few names among very many are looked up one by one, in an index that is made once and kept beside the fit: a prediction
    for some items then costs no pass over all of them.
    """
    vocabulary: Array = getattr(result.votes, side)
    names = ids.tolist()
    if vocabulary.dtype != object or len(names) * _FEW > len(vocabulary) or not all(isinstance(one, str) for one in names):
        return positions(ids, vocabulary)
    kept = vars(result).setdefault(f"index of {side}", {})
    if not kept:
        # Of repeated ids the first counts.
        kept.update((name, n) for n, name in reversed(list(enumerate(vocabulary.tolist()))))
    return np.array([kept.get(one, -1) for one in names], np.int64)


def named_annotators(result: Result, names: Sequence[Any] | None) -> Any:
    """The annotators' part for annotators by their ids, in this order, by default all of the fit; without any item."""
    if names is None:
        return result.annotators
    who = positions(vocabulary_array(tidy(series_of(np.asarray(names)))), result.votes.annotators)
    return result.annotators.aligned(who, np.empty(0, np.int64))


def carried_posterior(earlier: Result, votes: Annotations) -> Floats:
    """Posterior of an earlier fit, carried over to `votes` with their own items and classes.

    Items not seen before get the earlier model's opinion of their votes. Where classes are new,
    the earlier model knows nothing of them, so vote shares are mixed in.
    """
    old = earlier.votes
    columns = translate(old.classes, votes.classes)
    rows = positions(votes.items, old.items)
    shares = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)
    if (columns < 0).any():
        return shares
    carried = np.zeros(shares.shape)
    seen = rows >= 0
    carried[np.ix_(seen, columns)] = earlier.model_posterior[rows[seen]]
    if votes.n_classes > old.n_classes:
        carried[~seen] = shares[~seen]
        return 0.5 * carried + 0.5 * shares
    order = np.argsort(columns)
    fresh = votes[~seen].with_classes(old.classes.tolist()) if (~seen).any() else None
    if fresh is not None:
        who = positions(votes.annotators, old.annotators)
        opinion = np.zeros((fresh.n_items, old.n_classes))
        model = earlier.annotators.aligned(who, np.full(fresh.n_items, -1))
        # A prior with a row per item has none for these.
        shares = np.log(np.maximum(earlier.class_prior, 1e-300))[None]
        model.infer(fresh, shares if len(earlier.prior.log_prob()) > 1 else earlier.prior.log_prob(), _NOBODY, opinion)
        carried[~seen] = opinion[:, order]
    return carried


def carried_history(earlier: Result, votes: Annotations) -> Floats:
    """The user's history, distributed over the annotators and classes of `votes`, [A, L, K]."""
    assert earlier.history is not None
    classes = translate(earlier.votes.classes, votes.classes)
    who = positions(earlier.votes.annotators, votes.annotators)
    history = np.zeros((votes.n_annotators, votes.n_classes, votes.n_classes))
    history[np.ix_(who, classes, classes)] = earlier.history
    return history
