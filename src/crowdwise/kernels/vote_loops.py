"""Compiled loops over votes sorted by item: posteriors from tables, counts from posteriors. Imported where it pays.

Each function works on the items ``start:stop`` and releases the GIL, so that the caller can run several ranges in threads.
The loops are serial inside, hence the same to the bit run after run. `numerics` calls every one with the same types of
arguments, so that each is compiled once.

Tables stay in the cache or they do not: time goes into reading their rows. So inference and counts are two passes, each with
one table (a pass that did both would need two tables at once and was slower), and four classes at a time run in registers.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numba
import numpy as np

from crowdwise.kernels.types import Floats, Integers

__all__ = ["add_counts", "add_labels", "add_rows", "add_voted", "infer_logs", "infer_products", "infer_voted"]

compiled = numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})


# Below this sum a product of probabilities may have lost digits, so the item is redone in logs.
_SAFE_SUM = 1e-250
_FLOOR = 1e-300
_LONG_ROW = 12


@compiled
def _store(scores: Floats, known: int, posterior_row: Floats) -> tuple[float, float]:
    """Normalise log scores into the posterior row; return its log-normaliser and the share that moved."""
    n_classes = len(scores)
    if known >= 0:
        for k in range(n_classes):
            if k != known:
                scores[k] = -np.inf
    top = scores[0]
    for k in range(1, n_classes):
        top = max(top, scores[k])
    total = 0.0
    for k in range(n_classes):
        scores[k] = math.exp(scores[k] - top)
        total += scores[k]
    change = 0.0
    for k in range(n_classes):
        value = scores[k] / total
        change += abs(value - posterior_row[k])
        posterior_row[k] = value
    return top + math.log(total), 0.5 * change


@compiled
def _multiply(first: int, last: int, row: Integers, table: Floats, prior: Floats, product: Floats) -> float:
    """Product over the votes ``first:last`` of their rows of the table, times the prior; return its sum over classes."""
    n_classes = len(prior)
    total, k = 0.0, 0
    while k + 4 <= n_classes:
        a, b, c, d = prior[k], prior[k + 1], prior[k + 2], prior[k + 3]
        for e in range(first, last):
            r = row[e]
            a *= table[r, k]
            b *= table[r, k + 1]
            c *= table[r, k + 2]
            d *= table[r, k + 3]
        product[k], product[k + 1], product[k + 2], product[k + 3] = a, b, c, d
        total += (a + b) + (c + d)
        k += 4
    if k + 2 <= n_classes:
        a, b = prior[k], prior[k + 1]
        for e in range(first, last):
            r = row[e]
            a *= table[r, k]
            b *= table[r, k + 1]
        product[k], product[k + 1] = a, b
        total += a + b
        k += 2
    if k < n_classes:
        a = prior[k]
        for e in range(first, last):
            a *= table[row[e], k]
        product[k] = a
        total += a
    return total


@compiled
def infer_products(
    start: int,
    stop: int,
    item_ptr: Integers,
    row: Integers,
    table: Floats,
    prior: Floats,
    known: Integers,
    times: Floats,
    posterior: Floats,
) -> tuple[float, float]:
    """Posterior of each item by products of probabilities; items that underflow are redone in logs."""
    n_classes = len(prior)
    product = np.empty(n_classes)
    evidence, change = 0.0, 0.0
    for n in range(start, stop):
        t = times[n] if len(times) else 1.0
        total = _multiply(item_ptr[n], item_ptr[n + 1], row, table, prior, product)
        if total > _SAFE_SUM and (len(known) == 0 or known[n] < 0):
            evidence += t * math.log(total)
            inverse = 1.0 / total
            moved = 0.0
            for k in range(n_classes):
                value = product[k] * inverse
                moved += abs(value - posterior[n, k])
                posterior[n, k] = value
            change += t * 0.5 * moved
        else:
            for k in range(n_classes):
                product[k] = math.log(max(prior[k], _FLOOR))
            for e in range(item_ptr[n], item_ptr[n + 1]):
                r = row[e]
                for k in range(n_classes):
                    product[k] += math.log(max(table[r, k], _FLOOR))
            log_total, moved = _store(product, known[n] if len(known) else -1, posterior[n])
            evidence += t * log_total
            change += t * moved
    return evidence, change


@compiled
def infer_logs(
    start: int,
    stop: int,
    item_ptr: Integers,
    row: Integers,
    weight: Floats,
    log_table: Floats,
    log_prior: Floats,
    known: Integers,
    posterior: Floats,
) -> tuple[float, float]:
    """Posterior of each item by sums of (weighted) logs, with one prior row for all or one per item."""
    n_classes = log_table.shape[1]
    per_item = 1 if log_prior.shape[0] > 1 else 0
    scores = np.empty(n_classes)
    evidence, change = 0.0, 0.0
    for n in range(start, stop):
        for k in range(n_classes):
            scores[k] = log_prior[n * per_item, k]
        for e in range(item_ptr[n], item_ptr[n + 1]):
            r = row[e]
            w = weight[e] if len(weight) else 1.0
            for k in range(n_classes):
                scores[k] += w * log_table[r, k]
        log_total, moved = _store(scores, known[n] if len(known) else -1, posterior[n])
        evidence += log_total
        change += moved
    return evidence, change


@compiled
def infer_voted(
    start: int,
    stop: int,
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
    """Posterior where a vote adds `base` to every class and `bonus` to the class it names: O(votes).

    Both are looked up at the vote's `entry` (an annotator, say), or at the vote itself where `entry` is empty.
    """
    n_classes = posterior.shape[1]
    per_item = 1 if log_prior.shape[0] > 1 else 0
    scores = np.empty(n_classes)
    evidence, change = 0.0, 0.0
    for n in range(start, stop):
        for k in range(n_classes):
            scores[k] = log_prior[n * per_item, k]
        for e in range(item_ptr[n], item_ptr[n + 1]):
            w = weight[e] if len(weight) else 1.0
            i = entry[e] if len(entry) else e
            evidence += w * base[i]
            scores[label[e]] += w * bonus[i]
        log_total, moved = _store(scores, known[n] if len(known) else -1, posterior[n])
        evidence += log_total
        change += moved
    return evidence, change


@compiled
def add_counts(
    start: int, stop: int, item_ptr: Integers, row: Integers, weight: Floats, posterior: Floats, counts: Floats
) -> None:
    """Add each item's posterior to the count rows of its votes."""
    n_classes = posterior.shape[1]
    # Long rows run in vector registers; of short ones, four entries at a time are kept in registers.
    by_four = 0 if len(weight) or n_classes >= _LONG_ROW else n_classes - n_classes % 4
    for n in range(start, stop):
        first, last = item_ptr[n], item_ptr[n + 1]
        for k in range(0, by_four, 4):
            a, b, c, d = posterior[n, k], posterior[n, k + 1], posterior[n, k + 2], posterior[n, k + 3]
            for e in range(first, last):
                r = row[e]
                counts[r, k] += a
                counts[r, k + 1] += b
                counts[r, k + 2] += c
                counts[r, k + 3] += d
        if by_four == n_classes - 1 and len(weight) == 0:
            a = posterior[n, by_four]
            for e in range(first, last):
                counts[row[e], by_four] += a
        elif by_four < n_classes:
            for e in range(first, last):
                r = row[e]
                w = weight[e] if len(weight) else 1.0
                for k in range(by_four, n_classes):
                    counts[r, k] += w * posterior[n, k]


@compiled
def add_labels(start: int, stop: int, item_ptr: Integers, label: Integers, weight: Floats, counts: Floats) -> None:
    """Add each vote to the count of its item and label."""
    for n in range(start, stop):
        for e in range(item_ptr[n], item_ptr[n + 1]):
            counts[n, label[e]] += weight[e] if len(weight) else 1.0


@compiled
def add_rows(start: int, stop: int, rows: Floats, total: Floats) -> None:
    """Add up the rows ``start:stop``."""
    for n in range(start, stop):
        for k in range(rows.shape[1]):
            total[k] += rows[n, k]


@compiled
def add_voted(
    start: int,
    stop: int,
    item_ptr: Integers,
    label: Integers,
    entry: Integers,
    weight: Floats,
    posterior: Floats,
    sums: Floats,
) -> None:
    """Add the posterior of the class that each vote names to the vote's entry of `sums`."""
    for n in range(start, stop):
        for e in range(item_ptr[n], item_ptr[n + 1]):
            w = weight[e] if len(weight) else 1.0
            sums[entry[e]] += w * posterior[n, label[e]]
