"""Which annotators vote on which items.

The annotators of an item are drawn as if one by one without replacement, each with probability
proportional to its activity: all first votes at once, then all second votes, and so on,
redrawing the few that hit an annotator whom the item already has. That needs no
items x annotators array and keeps the annotators of an item distinct. Where redrawing stalls
(nearly every annotator votes on every item) the rest is drawn exactly, in chunks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ACTIVITIES", "draw_design"]

ACTIVITIES = ("uniform", "power-law", "regular")


def draw_design(
    rng: np.random.Generator, n_items: int, kind: NDArray[Any], low: int, high: int, activity: str, exponent: float
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the item and the annotator of every vote, [E] each."""
    extreme, ordinary = (
        np.flatnonzero(mask).astype(np.int32) for mask in (kind == "extreme-spammer", kind != "extreme-spammer")
    )
    if high > len(ordinary):
        raise SettingError(
            f"{high} votes per item need as many annotators, there are {len(ordinary)}"
            + (" besides the extreme spammers" if len(extreme) else "")
        )
    if activity == "regular":
        pick_nr = _regular(rng, n_items, len(ordinary), high)
    else:
        weight = (rng.permutation(len(ordinary)) + 1.0) ** (-exponent if activity == "power-law" else 0.0)
        pick_nr = _distinct(rng, n_items, weight, high)
    count_n = rng.integers(low, high + 1, size=n_items) if low < high else np.full(n_items, high)
    keep_nr = np.arange(high) < count_n[:, None]
    everyone = np.arange(n_items, dtype=np.int32)
    item = np.concatenate([np.repeat(everyone, count_n), np.repeat(everyone, len(extreme))])
    return item, np.concatenate([ordinary[pick_nr[keep_nr]], np.tile(extreme, n_items)])


def _distinct(rng: np.random.Generator, n_rows: int, weight: NDArray[Any], size: int) -> NDArray[np.int32]:
    """Draw `size` different indices for every row, successively and in proportion to `weight`, [rows, size]."""
    cumulative = np.cumsum(weight)
    edges = cumulative / cumulative[-1]
    # Column-major: every step writes one column and compares it with the earlier ones.
    pick = np.empty((n_rows, size), np.int32, order="F")
    for column in range(size):
        rows = np.arange(n_rows)
        for _ in range(20):
            pick[rows, column] = np.searchsorted(edges, rng.random(len(rows)), side="right")
            taken = np.zeros(len(rows), bool)
            for earlier in range(column):
                taken |= pick[rows, earlier] == pick[rows, column]
            rows = rows[taken]
            if len(rows) == 0:
                break
        # About a million cells at a time.
        for chunk in np.array_split(rows, -(-len(rows) * len(weight) // 2**20) or 1):
            left = np.tile(weight, (len(chunk), 1))
            np.put_along_axis(left, pick[chunk, :column], 0.0, axis=1)
            # The smallest of independent exponentials with these rates is a draw in proportion to them.
            with np.errstate(divide="ignore"):
                pick[chunk, column] = np.argmin(rng.standard_exponential(left.shape) / left, axis=1)
    return pick


def _regular(rng: np.random.Generator, n_rows: int, n_indices: int, size: int) -> NDArray[np.int32]:
    """Give every row `size` different indices and every index equally many rows, give or take one, [rows, size]."""
    if 2 * size > n_indices:
        # Choose who is absent instead: swaps succeed often only while rows are sparse. This table has
        # at most twice as many cells as there are votes.
        present = np.ones((n_rows, n_indices), bool)
        np.put_along_axis(present, _regular(rng, n_rows, n_indices, n_indices - size), False, axis=1)
        return np.nonzero(present)[1].reshape(n_rows, size).astype(np.int32)
    while True:
        order = rng.permutation(n_indices).astype(np.int32)
        pick = rng.permutation(order[np.arange(n_rows * size) % max(n_indices, 1)]).reshape(n_rows, size)
        if all(_repair(rng, pick, row) for row in np.flatnonzero((np.diff(np.sort(pick, axis=1), axis=1) == 0).any(axis=1))):
            return pick


def _repair(rng: np.random.Generator, pick: NDArray[np.int32], row: Any) -> bool:
    """Swap repeated indices of a row with random cells where both fit; False when none is found."""
    for column in range(pick.shape[1]):
        for _ in range(1000):
            value = pick[row, column]
            if value not in pick[row, :column]:
                break
            other, cell = int(rng.integers(len(pick))), int(rng.integers(pick.shape[1]))
            if pick[other, cell] not in pick[row] and value not in pick[other]:
                pick[row, column], pick[other, cell] = pick[other, cell], value
        else:
            return False
    return True
