"""What every method computes with: logs with one floor, softmax in place, Dirichlet expectations, and sums over votes.

Arrays in, arrays out. Two primitives over votes make every Dawid-Skene-like method O(E K): evidence per item, counts per
annotator. Small problems run in plain numpy, because loading the compiled loops would cost more than the whole fit; larger ones
run in compiled loops, above `THREADED_FROM` votes in threads. Ranges are cut by vote count, each thread adds into its own
counts, and these are summed in order: a result is the same to the bit run after run, within rounding for any thread count.

Symbols
-------
item_ptr : [N + 1]       votes of item n are item_ptr[n]:item_ptr[n + 1]
row : [E]                annotator * K + label of each vote
table : [A K, K]         P(observed l | true k) at [a K + l, k]
log_prior : [1 or N, K]  one row for all items, or one per item
known : [N] or [0]       class code of items whose label is given, -1 elsewhere
posterior : [N, K]       overwritten in place
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.errors import SettingError
from crowdwise.kernels.gamma import digamma, log_gamma
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["NO_WEIGHT", "below_ceiling", "best_class", "beta_interval", "clamp", "class_mass", "combined", "confusion_counts"]
__all__ += ["dirichlet_draw", "dirichlet_kl", "expected_log", "of_type", "overwrite"]
__all__ += ["expected_rank", "generator", "harden", "highest", "in_ranges", "infer_table", "infer_voted", "item_of_votes"]
__all__ += ["log_floored", "log_sigmoid", "log_softmax", "median_class", "moved", "n_threads", "one_thread", "overall_shares"]
__all__ += ["ratio", "segment_sum", "softmax", "softmax_into", "tempered", "vote_shares", "voted_sums"]


# The one floor of the library: log(0) becomes about -690, small enough never to win against a
# possible class, finite so that 0 * log(0) is 0. `vote_loops._FLOOR` is the same number.
FLOOR = 1e-300
# Up to this many columns, numpy is faster column by column than along rows.
_NARROW = 16


def log_floored(values: Floats) -> Floats:
    """Elementwise log with zeros raised to the floor."""
    return np.asarray(np.log(np.maximum(values, FLOOR)))


def highest(rows: Floats, initial: float = -np.inf) -> Floats:
    """The highest entry of each row, and not less than `initial`, [N]."""
    if not 0 < rows.shape[1] <= _NARROW:
        return np.asarray(rows.max(axis=1, initial=initial))
    top = np.maximum(rows[:, 0], initial)
    for column in rows.T[1:]:
        np.maximum(top, column, out=top)
    return top


def softmax(scores: Floats) -> Floats:
    """Softmax of every row, [N, K]."""
    shares = np.exp(scores - scores.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def log_softmax(scores: Floats) -> Floats:
    """Its logarithm: every row of log scores normalised."""
    below = scores - scores.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(below - np.log(np.exp(below).sum(axis=1, keepdims=True)))


def softmax_into(scores: Floats, known: Array, posterior: Floats, times: Floats | None = None) -> tuple[float, float]:
    """Write softmax(scores) into `posterior` row by row; return (sum of log-normalisers, sum of changes).

    The change of a row is half the sum of the absolute differences of its entries: the share of probability that moved. In both
    sums a row counts as often as `times` says, [N]; once by default.
    """
    if len(known):
        given = np.flatnonzero(known >= 0)
        kept = scores[given, known[given]]
        scores[given] = -np.inf
        scores[given, known[given]] = kept
    top = highest(scores)
    scores -= top[:, None]
    np.exp(scores, out=scores)
    total = scores.sum(axis=1)
    scores /= total[:, None]
    change = moved(scores, posterior, times)
    posterior[:] = scores
    logs = np.log(total)
    return float(top.sum() + logs.sum() if times is None else times @ (top + logs)), change


def tempered(posterior: Floats, temperature: float | Floats) -> Floats:
    """Rows to the power 1 / temperature, normalised, [N, K]; one temperature, or one per row."""
    scores = log_floored(posterior) / np.reshape(temperature, (-1, 1))
    scores -= highest(scores)[:, None]
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return np.asarray(scores)


def moved(after: Floats, before: Floats, times: Floats | None = None) -> float:
    """Sum over rows of the share of probability that moved: half the sum of the absolute differences."""
    way = np.abs(after - before)
    return 0.5 * float(way.sum() if times is None else times @ way.sum(axis=1))


def expected_log(parameters: Floats, axis: int) -> Floats:
    """E[log p] under Dirichlets whose parameters lie along `axis`."""
    return np.asarray(digamma(parameters) - digamma(parameters.sum(axis=axis, keepdims=True)))


def dirichlet_draw(rng: np.random.Generator, concentration: Floats) -> Floats:
    """A draw of every distribution along the last axis; of tiny parameters none underflows to nothing."""
    gamma = np.maximum(rng.standard_gamma(concentration), np.finfo(float).tiny)
    return np.asarray(gamma / gamma.sum(axis=-1, keepdims=True))


def dirichlet_kl(parameters: Floats, prior: Floats, axis: int) -> float:
    """Sum of KL(Dir(parameters) || Dir(prior)) over all Dirichlets whose parameters lie along `axis`."""
    prior = np.broadcast_to(prior, parameters.shape)
    kl = (log_gamma(parameters.sum(axis=axis)) - log_gamma(prior.sum(axis=axis))).sum()
    kl -= (log_gamma(parameters) - log_gamma(prior)).sum()
    kl += ((parameters - prior) * expected_log(parameters, axis)).sum()
    return float(kl)


def generator(random_state: Any) -> np.random.Generator:
    """A generator of random numbers from the setting `random_state`: None or a whole number >= 0."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(f"random_state must be None or a whole number >= 0; got {random_state!r}") from None


def segment_sum(index: Array, values: Floats | None, size: int) -> Floats:
    """Sum of `values` (ones if None) over equal entries of `index`, [size]."""
    return np.bincount(index, weights=values, minlength=size).astype(np.float64, copy=False)


def ratio(part: Any, whole: Any, otherwise: Any) -> Floats:
    """part / whole, and `otherwise` where the whole is not above zero."""
    return np.asarray(np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise))


def log_sigmoid(x: Floats) -> Floats:
    """log(1 / (1 + exp(-x))) without overflow."""
    return np.asarray(-np.logaddexp(0.0, -x))


def best_class(posterior: Floats, prior: Floats) -> Integers:
    """The tie rule: highest posterior, then highest class prior, then lowest index.

    Entries within 1e-9 of the top count as tied: a tie must not be decided by rounding.
    """
    top = highest(posterior, 0.0)[:, None]
    tied = posterior >= top - 1e-9
    rounded = np.round(np.asarray(prior, float), 9)
    return np.asarray(np.where(tied, rounded, -1.0).argmax(axis=1))


# -- posteriors over labels, [N, K] ------------------------------------------------------------


def below_ceiling(log_prob: Floats, ceiling: float) -> Floats:
    """Bound every probability from above and share the excess evenly among the classes still below, [N, K].

    Takes and returns logs. `ceiling` is at least 1 / K; at most K passes, because each fills a class up.
    """
    n_classes = log_prob.shape[1]
    if ceiling >= 1 or n_classes == 1:
        return log_prob
    prob = np.exp(log_prob)
    for _ in range(n_classes):
        over = prob > ceiling
        if not over.any():
            break
        prob[over] = ceiling
        free = prob < ceiling
        excess = np.maximum(1 - prob.sum(axis=1, keepdims=True), 0)
        prob += np.where(free, excess / np.maximum(free.sum(axis=1, keepdims=True), 1), 0)
    return log_floored(prob)


def clamp(posterior: Floats, known: Array) -> None:
    """Set the rows of items whose label is given to that label, in place."""
    if len(known):
        given = np.flatnonzero(known >= 0)
        posterior[given] = 0.0
        posterior[given, known[given]] = 1.0


def overwrite(posterior: Floats, values: Floats, known: Array) -> float:
    """Put these rows, and the labels that are given, in the place of `posterior`; return the sum of the changes of its rows."""
    clamp(values, known)
    change = moved(values, posterior)
    posterior[:] = values
    return change


def harden(posterior: Floats) -> Floats:
    """All mass on the highest entry of each row (the lowest index among equals)."""
    hard = np.zeros_like(posterior)
    hard[np.arange(len(posterior)), posterior.argmax(axis=1)] = 1.0
    return hard


def expected_rank(posterior: Floats) -> Floats:
    """Mean of the class code, of ordered classes counted from 1, [N]."""
    return np.asarray(posterior @ np.arange(1, posterior.shape[1] + 1))


def median_class(posterior: Floats) -> Integers:
    """The first ordered class up to which half of the probability lies, [N]: the least expected number of steps off."""
    # A tie must not be decided by rounding.
    return np.asarray((np.cumsum(posterior, axis=1)[:, :-1] < 0.5 - 1e-9).sum(axis=1))


# -- votes -------------------------------------------------------------------------------------

NO_WEIGHT: Floats = np.empty(0)

# Loading numba and its cached loops costs about 0.7 s; numpy fits this many votes in less.
COMPILED_FROM = 20_000
# Below this, handing work to threads costs more than the second core saves.
THREADED_FROM = 100_000

_this_thread = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, kernels called by this thread use no others: it is itself one of several that share the work."""
    before = getattr(_this_thread, "alone", False)
    _this_thread.alone = True
    try:
        yield
    finally:
        _this_thread.alone = before


def n_threads() -> int:
    """Threads used on large problems: CROWDWISE_THREADS, or every core this process may use."""
    if getattr(_this_thread, "alone", False):
        return 1
    asked = os.environ.get("CROWDWISE_THREADS", "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def infer_table(
    item_ptr: Integers,
    row: Integers,
    weight: Floats,
    table: Floats,
    log_prior: Floats,
    known: Integers,
    posterior: Floats,
    times: Floats | None = None,
) -> tuple[float, float]:
    """Posterior of every item from a table of vote probabilities.

    log q_nk = log_prior_nk + sum over votes e of n of weight_e log table[row_e, k] + const

    With `times`, [N], an item stands for as many; this serves votes without weights under one prior for all.

    Returns
    -------
    log_evidence : float
        Sum over items of the log-normaliser.
    change : float
        Sum over items of the share of their posterior that moved.
    """
    if len(row) < COMPILED_FROM:
        scores = _sum_by_item(item_ptr, log_floored(table)[row], weight)
        scores += log_prior
        return softmax_into(scores, known, posterior, times)
    from crowdwise.kernels import vote_loops

    votes, known = (of_type(np.int64, item_ptr), of_type(np.int32, row)), of_type(np.int16, known)
    if len(weight) == 0 and len(log_prior) == 1:
        tables = of_type(np.float64, table), of_type(np.float64, np.exp(log_prior[0]))
        often = of_type(np.float64, NO_WEIGHT if times is None else times)
        return combined(item_ptr, vote_loops.infer_products, *votes, *tables, known, often, posterior)
    assert times is None
    logs = (of_type(np.float64, given) for given in (weight, log_floored(table), log_prior))
    return combined(item_ptr, vote_loops.infer_logs, *votes, *logs, known, posterior)


def infer_voted(
    item_ptr: Integers,
    label: Integers,
    entry: Integers,
    weight: Floats,
    base: Floats,
    bonus: Floats,
    log_prior: Floats,
    known: Integers,
    posterior: Floats,
) -> tuple[float, float]:
    """Like `infer_table` for models in which a vote adds `base` to all classes and `bonus` to its own: O(E).

    Both are looked up at the vote's `entry` (an annotator, say), or at the vote itself where `entry` is empty.
    """
    if len(label) < COMPILED_FROM:
        n_items, n_classes = posterior.shape
        # Without any vote, an empty `entry` still means that nothing is looked up.
        if len(entry) or len(label) == 0:
            base, bonus = base[entry], bonus[entry]
        if len(weight):
            base, bonus = base * weight, bonus * weight
        cell = item_of_votes(item_ptr).astype(np.int64) * n_classes + label
        scores = segment_sum(cell, bonus, n_items * n_classes).reshape(n_items, n_classes) + log_prior
        log_evidence, change = softmax_into(scores, known, posterior)
        return log_evidence + float(base.sum()), change
    from crowdwise.kernels import vote_loops

    votes = of_type(np.int64, item_ptr), of_type(np.int16, label), of_type(np.int32, entry)
    logs = (of_type(np.float64, given) for given in (weight, base, bonus, log_prior))
    return combined(item_ptr, vote_loops.infer_voted, *votes, *logs, of_type(np.int16, known), posterior)


def voted_sums(item_ptr: Integers, label: Integers, entry: Integers, weight: Floats, posterior: Floats, size: int) -> Floats:
    """Sum over the votes of each entry of the posterior of the class voted, [size]."""
    if len(label) < COMPILED_FROM:
        mass = posterior[item_of_votes(item_ptr), label]
        return segment_sum(entry, mass * weight if len(weight) else mass, size)
    from crowdwise.kernels import vote_loops

    votes = of_type(np.int64, item_ptr), of_type(np.int16, label), of_type(np.int32, entry)
    masses = of_type(np.float64, weight), of_type(np.float64, posterior)

    def add(start: int, stop: int) -> Floats:
        sums = np.zeros(size)
        vote_loops.add_voted(start, stop, *votes, *masses, sums)
        return sums

    return np.asarray(sum(in_ranges(item_ptr, add)))


def confusion_counts(item_ptr: Integers, row: Integers, weight: Floats, posterior: Floats, n_rows: int) -> Floats:
    """Expected counts: ``counts[a K + l, k]``, the posterior mass of true class k under votes l of a."""
    n_classes = posterior.shape[1]
    if len(row) < COMPILED_FROM:
        mass = posterior[item_of_votes(item_ptr)]
        if len(weight):
            mass = mass * weight[:, None]
        cell = row.astype(np.int64)[:, None] * n_classes + np.arange(n_classes)
        return segment_sum(cell.ravel(), mass.ravel(), n_rows * n_classes).reshape(n_rows, n_classes)
    from crowdwise.kernels import vote_loops

    votes = of_type(np.int64, item_ptr), of_type(np.int32, row)
    masses = of_type(np.float64, weight), of_type(np.float64, posterior)

    def count(start: int, stop: int) -> Floats:
        counts = np.zeros((n_rows, n_classes))
        vote_loops.add_counts(start, stop, *votes, *masses, counts)
        return counts

    parts: list[Floats] = in_ranges(item_ptr, count)
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def class_mass(item_ptr: Integers, posterior: Floats) -> Floats:
    """Sum of the posterior over items, [K]."""
    if item_ptr[-1] < COMPILED_FROM:
        return np.asarray(posterior.sum(axis=0))
    from crowdwise.kernels import vote_loops

    rows = of_type(np.float64, posterior)

    def add(start: int, stop: int) -> Floats:
        total = np.zeros(posterior.shape[1])
        vote_loops.add_rows(start, stop, rows, total)
        return total

    return np.asarray(sum(in_ranges(item_ptr, add)))


def vote_shares(item_ptr: Integers, label: Integers, weight: Floats, n_classes: int, overall: Floats | None = None) -> Floats:
    """Share of each class among an item's votes, [N, K]; without votes the `overall` ones (default: of these votes)."""
    counts = _label_counts(item_ptr, label, weight, n_classes)
    total = counts.sum(axis=1)
    if overall is None:
        overall = overall_shares(counts.sum(axis=0))
    counts[total == 0] = overall
    total[total == 0] = 1
    counts /= total[:, None]
    return counts


def _label_counts(item_ptr: Integers, label: Integers, weight: Floats, n_classes: int) -> Floats:
    """Weight of the votes of each item for each class, [N, K]."""
    n_items = len(item_ptr) - 1
    if len(label) < COMPILED_FROM:
        cell = item_of_votes(item_ptr).astype(np.int64) * n_classes + label
        return segment_sum(cell, weight if len(weight) else None, n_items * n_classes).reshape(n_items, n_classes)
    from crowdwise.kernels import vote_loops

    counts = np.zeros((n_items, n_classes))
    arrays = of_type(np.int64, item_ptr), of_type(np.int16, label), of_type(np.float64, weight)
    in_ranges(item_ptr, lambda start, stop: vote_loops.add_labels(start, stop, *arrays, counts))
    return counts


def overall_shares(counts: Floats) -> Floats:
    """Shares of classes by their counts, [K]; even without any."""
    total = counts.sum()
    return np.asarray(counts / total) if total > 0 else np.full(len(counts), 1 / len(counts))


def item_of_votes(item_ptr: Integers) -> NDArray[np.int32]:
    """Item code of every vote, [E]."""
    return np.repeat(np.arange(len(item_ptr) - 1, dtype=np.int32), np.diff(item_ptr))


def _sum_by_item(item_ptr: Integers, rows_ek: Floats, weight: Floats) -> Floats:
    if len(weight):
        rows_ek = rows_ek * weight[:, None]
    n_items, n_classes = len(item_ptr) - 1, rows_ek.shape[1]
    cell = item_of_votes(item_ptr).astype(np.int64)[:, None] * n_classes + np.arange(n_classes)
    return segment_sum(cell.ravel(), rows_ek.ravel(), n_items * n_classes).reshape(n_items, n_classes)


def combined(item_ptr: Integers, loop: Callable[..., tuple[float, float]], *arrays: Any) -> tuple[float, float]:
    """Run an inference loop over ranges of items; add evidence and changes."""
    parts = in_ranges(item_ptr, lambda start, stop: loop(start, stop, *arrays))
    return sum(evidence for evidence, _ in parts), sum(change for _, change in parts)


def of_type(dtype: type[np.generic], array: Any) -> Any:
    """The array as compiled loops read it: of this type, contiguous and not to be written to.

    Loops are compiled for every combination of types they are called with, and read-only is a type; so there is one.
    """
    view = np.ascontiguousarray(array, dtype).view(np.ndarray)[...]
    view.flags.writeable = False
    return view


def in_ranges(item_ptr: Integers, work: Callable[[int, int], Any]) -> list[Any]:
    """Call ``work(start, stop)`` on ranges of items with about equally many votes, in threads if it pays."""
    n_items, n_votes = len(item_ptr) - 1, int(item_ptr[-1])
    threads = n_threads() if n_votes >= THREADED_FROM else 1
    if threads == 1:
        return [work(0, n_items)]
    cuts = np.searchsorted(item_ptr, np.linspace(0, n_votes, threads + 1)[1:-1])
    bounds = [0, *cuts.tolist(), n_items]
    return list(_pool(os.getpid(), threads).map(work, bounds[:-1], bounds[1:]))


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """One pool per process (threads do not survive a fork) and size."""
    return ThreadPoolExecutor(threads, thread_name_prefix="crowdwise")


def beta_interval(mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Central 95 % of the Beta distributions with these means and variances."""
    from scipy.special import betaincinv

    mean = np.clip(mean, 1e-6, 1 - 1e-6)
    size = np.maximum(mean * (1 - mean) / np.maximum(variance, 1e-18) - 1, 1e-3)
    low, high = (betaincinv(mean * size, (1 - mean) * size, level) for level in (0.025, 0.975))
    return low, high
