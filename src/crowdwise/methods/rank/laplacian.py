"""The information of comparisons as a weighted graph Laplacian: linear systems, standard errors and draws, sparse.

Scores are known up to a shift per connected part, so everything said of uncertainty is about scores relative to the mean of
their part. A pin, a rank-one term per part, takes the shift away without touching the differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.rank.games import Games

__all__ = ["EXACT_ITEMS", "Laplacian", "Spread", "rank_interval", "ranks_within", "spread_of"]

# Up to here systems are factorised densely and standard errors are exact.
EXACT_ITEMS = 1500
# Draws of the approximation above it.
LARGE_DRAWS = 32


@dataclass(frozen=True, eq=False)
class Laplacian:
    """sum over pairs of weight (e_low - e_high)(e_low - e_high)' + diag(diagonal), with a pin per part where asked.

    Attributes
    ----------
    games : Games
        The pairs.
    weight : [M]
        Information of each pair about the difference of its scores, >= 0.
    diagonal : [N]
        Information of the prior about each score, >= 0.
    pinned : bool
        Whether every part has a pin. It is needed where there is no prior.
    """

    games: Games
    weight: Floats
    diagonal: Floats
    pinned: bool

    @cached_property
    def _sizes(self) -> Floats:
        return np.bincount(self.games.component).astype(np.float64)

    @cached_property
    def pin(self) -> Floats:
        """Strength of the pin of each part: its mean information, or 1 where nothing is known."""
        own = self.games.spread(self.weight, self.weight) + self.diagonal
        mean = np.bincount(self.games.component, own) / self._sizes
        return np.where(mean > 0, mean, 1.0) if self.pinned else np.zeros(len(mean))

    @cached_property
    def main(self) -> Floats:
        """The diagonal of the whole matrix, [N]; a row without anything is given 1."""
        share = (self.pin / self._sizes)[self.games.component]
        found = self.games.spread(self.weight, self.weight) + self.diagonal + share
        return np.where(found > 0, found, 1.0)

    @cached_property
    def _others(self) -> Any:
        """The part off the diagonal, without pins."""
        from scipy.sparse import csr_array

        begin, others, pair = self.games.neighbours
        return csr_array((-self.weight[pair], others, begin), shape=(self.games.n_items,) * 2)

    def part_sums(self, x: Floats) -> Floats:
        """Sums over the items of each part, [C, S], of x, [N, S]."""
        part = self.games.component
        return np.column_stack([np.bincount(part, column, len(self._sizes)) for column in x.T])

    def times(self, x: Floats) -> Floats:
        """The product with x, [N, S]."""
        share = self.pin / self._sizes
        product: Floats = self._others @ x
        product += (self.main - share[self.games.component])[:, None] * x
        if self.pinned and len(share) == 1:
            product += share * x.sum(axis=0)
        elif self.pinned:
            product += (share[:, None] * self.part_sums(x))[self.games.component]
        return product

    @cached_property
    def _factor(self) -> Any:
        from scipy.linalg import cho_factor

        part, share = self.games.component, self.pin / self._sizes
        dense = self._others.toarray() + np.where(part[:, None] == part, share[part], 0.0)
        np.fill_diagonal(dense, self.main)
        return cho_factor(dense, lower=True)

    @property
    def exact(self) -> bool:
        """Whether systems are solved by a dense factorisation."""
        return self.games.n_items <= EXACT_ITEMS

    def solve(self, b: Floats, tol: float) -> Floats:
        """Solve for b, [N] or [N, S], to a relative residual of `tol` by preconditioned conjugate gradients."""
        if self.exact:
            from scipy.linalg import cho_solve

            found: Floats = cho_solve(self._factor, b)
            return found
        return self._conjugate_gradients(b.reshape(len(b), -1), tol).reshape(b.shape)

    def _conjugate_gradients(self, b: Floats, tol: float) -> Floats:
        x, residual = np.zeros_like(b), b.copy()
        goal = tol * np.linalg.norm(b, axis=0)
        scaled = residual / self.main[:, None]
        direction, product = scaled.copy(), np.sum(residual * scaled, axis=0)
        # Half-way solutions are still directions of ascent, so a chain of thousands of items ends here too.
        for _ in range(1000):
            if (np.linalg.norm(residual, axis=0) <= goal).all():
                break
            image = self.times(direction)
            curvature = np.sum(direction * image, axis=0)
            step = np.divide(product, curvature, out=np.zeros_like(product), where=curvature > 0)
            x += step * direction
            residual -= step * image
            scaled = residual / self.main[:, None]
            before, product = product, np.sum(residual * scaled, axis=0)
            direction *= np.divide(product, before, out=np.zeros_like(product), where=before > 0)
            direction += scaled
        return x


@dataclass(frozen=True, eq=False)
class Spread:
    """How uncertain scores are: standard errors, [N], and draws of their errors, [N, S]."""

    standard_error: Floats
    draws: Floats


def spread_of(games: Games, weight: Floats, diagonal: Floats, n_draws: int, random: np.random.Generator) -> Spread:
    """Standard errors and draws of the Gaussian approximation, of scores relative to the mean of their part.

    Up to `EXACT_ITEMS` items the variances are those of the inverse. Above, with S draws x of the Gaussian (b random with
    covariance H, x = H^-1 b), the variance of an item is 1 / H_ii, its variance given all others, plus the mean over draws of
    (x_i - b_i / H_ii)^2, the variance of what the others tell about it: only this smaller part is estimated.
    """
    matrix = Laplacian(games, weight, diagonal, pinned=True)
    part, n_items = games.component, games.n_items
    ones = matrix.solve(np.ones(n_items), 1e-8)
    total = np.bincount(part, ones)[part]
    if matrix.exact:
        inverse = matrix.solve(np.eye(n_items), 0.0)
        variance, n_large = np.diag(inverse).copy(), n_draws
    else:
        n_large = min(n_draws, LARGE_DRAWS)
    noise = _noise(matrix, n_large, random)
    x = matrix.solve(noise, 1e-3)
    if not matrix.exact:
        variance = 1 / matrix.main + np.mean((x - noise / matrix.main[:, None]) ** 2, axis=1)
    # Given that the mean of each part stays where it is: what the pin had left to it goes.
    variance -= ones**2 / total
    draws = x - (ones / total)[:, None] * matrix.part_sums(x)[part]
    met = games.spread(np.ones(games.n_pairs), np.ones(games.n_pairs)) > 0
    return Spread(np.where(met, np.sqrt(np.maximum(variance, 0.0)), np.nan), draws)


def _noise(matrix: Laplacian, n_draws: int, random: np.random.Generator) -> Floats:
    """Random vectors, [N, S], whose covariance is the matrix."""
    games, root = matrix.games, np.sqrt(matrix.weight)
    pins = np.sqrt(matrix.pin / np.bincount(games.component))
    columns = []
    for _ in range(n_draws):
        column = games.gather(root * random.standard_normal(games.n_pairs))
        column += np.sqrt(matrix.diagonal) * random.standard_normal(games.n_items)
        columns.append(column + (pins * random.standard_normal(len(pins)))[games.component])
    return np.column_stack(columns)


def ranks_within(score: Floats, part: Integers) -> Integers:
    """Rank of every item among those of its part, 1 the best, [N]; equal scores share the better rank."""
    order = np.lexsort((-score, part))
    place, ordered, parts = np.arange(len(score)), score[order], part[order]
    begins = np.ones(len(score), bool)
    begins[1:] = parts[1:] != parts[:-1]
    differs = begins.copy()
    differs[1:] |= ordered[1:] != ordered[:-1]
    ranks = np.empty(len(score), np.int64)
    ranks[order] = np.maximum.accumulate(np.where(differs, place, 0)) - np.maximum.accumulate(np.where(begins, place, 0)) + 1
    return ranks


def rank_interval(score: Floats, spread: Spread, level: float, part: Integers) -> tuple[Integers, Integers]:
    """Range of ranks among the items of a part, 1 the best.

    Up to `EXACT_ITEMS` items: what an item takes in a share `level` of the draws, in which all scores move together. Above:
    the ranks that the ends of its own score's interval have among the scores of the others.
    """
    tail = (1 - level) / 2
    if len(score) > EXACT_ITEMS:
        half = float(ndtri(1 - tail)) * np.nan_to_num(spread.standard_error)
        # Parts one after the other on one axis, so far apart that no interval reaches the next.
        offset = part * (2 * float((np.abs(score) + half).max()) + 1)
        falling = np.sort(offset - score)
        first = np.searchsorted(np.sort(part), part, side="left")
        best = np.searchsorted(falling, offset - (score + half), side="left") - first + 1
        worst = np.searchsorted(falling, offset - (score - half), side="right") - first
        return best, worst
    ranks = np.column_stack([ranks_within(draw, part) for draw in (score[:, None] + spread.draws).T])
    low, high = np.quantile(ranks, [tail, 1 - tail], axis=1, method="closest_observation")
    return low.astype(np.int64), high.astype(np.int64)
