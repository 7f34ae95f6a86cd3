"""The online methods in plain Python, every number summed anew from all votes: slow, and written from the equations alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from scipy.special import digamma

Vote = tuple[Any, Any, int, float]


class Oracle:
    """Votes, turns and posteriors; counts are sums over all of them whenever one is needed."""

    def __init__(
        self,
        n_classes: int,
        *,
        weight: Callable[[int, int], float],
        item_weight: Callable[[int, int], float],
        bayes: bool,
        prior: Callable[[int, int, list[float]], float],
        class_prior: float,
        hold: int = 0,
        batch: int = 1,
        sweeps: int = 1,
        tol: float = 1e-3,
        revisit: float = 0.0,
    ) -> None:
        self.k, self.weight, self.item_weight, self.bayes = n_classes, weight, item_weight, bayes
        self.prior, self.class_prior, self.hold, self.batch = prior, class_prior, hold, batch
        self.sweeps, self.tol, self.revisit = sweeps, tol, revisit
        self.votes: list[Vote] = []
        self.turn: list[int] = []
        self.turns: dict[Any, int] = {}
        self.items: list[Any] = []
        self.q: dict[Any, list[float]] = {}
        self.arrival: dict[Any, int] = {}
        self.known: dict[Any, int] = {}
        self.cursor = 0

    def count(self, a: Any, l: int, k: int) -> float:
        return sum(
            self.weight(t, self.turns[a]) * w * self.q[n][k]
            for (n, b, m, w), t in zip(self.votes, self.turn, strict=True)
            if b == a and m == l and t > 0
        )

    def use(self, a: Any, l: int) -> float:
        return sum(
            self.weight(t, self.turns[a]) * w
            for (_, b, m, w), t in zip(self.votes, self.turn, strict=True)
            if b == a and m == l and t > 0
        )

    def share(self, k: int) -> float:
        now = len(self.arrival)
        return sum(self.item_weight(t, now) * self.q[n][k] for n, t in self.arrival.items())

    def infer(self, n: Any, held: bool) -> list[float]:
        if n in self.known:
            return [float(k == self.known[n]) for k in range(self.k)]
        items = 1 if self.bayes else max(len(self.arrival), 1)
        mass = [self.class_prior / items + (0 if held else self.share(k)) for k in range(self.k)]
        if self.bayes:
            scores = [digamma(m) - digamma(sum(mass)) for m in mass]
        else:
            scores = [math.log(m / sum(mass)) for m in mass]
        for m, a, l, w in self.votes:
            if m != n:
                continue
            scale = 1 if self.bayes else max(self.turns.get(a, 0), 1)
            # How often a gave each label, and one pseudo-vote for each.
            use = [1 / scale + (0 if held else self.use(a, j)) for j in range(self.k)]
            for k in range(self.k):
                row = [self.prior(k, j, use) / scale + (0 if held else self.count(a, j, k)) for j in range(self.k)]
                if self.bayes:
                    scores[k] += w * (digamma(row[l]) - digamma(sum(row)))
                else:
                    scores[k] += w * math.log(row[l] / sum(row))
        top = max(scores)
        odds = [math.exp(s - top) for s in scores]
        return [o / sum(odds) for o in odds]

    def visit(self, items: list[Any]) -> float:
        change = 0.0
        for start in range(0, len(items), self.batch):
            part = items[start : start + self.batch]
            held = len(self.arrival) < self.hold
            found = [self.infer(n, held) for n in part]
            for n, q in zip(part, found, strict=True):
                old = self.q.get(n, [0.0] * self.k)
                change = max(change, *(abs(x - y) for x, y in zip(q, old, strict=True)))
                self.q[n] = q
                self.arrival.setdefault(n, len(self.arrival) + 1)
                # The latest vote of an item comes first in its list.
                for e in reversed(range(len(self.votes))):
                    if self.votes[e][0] == n and self.turn[e] == 0:
                        a = self.votes[e][1]
                        self.turns[a] = self.turns.get(a, 0) + 1
                        self.turn[e] = self.turns[a]
        return change

    def update(self, votes: list[Vote], known: dict[Any, int] | None = None) -> None:
        votes = sorted(votes, key=lambda v: (v[0], v[1], v[2], v[3]))
        for n in sorted({v[0] for v in votes}):
            if n not in self.items:
                self.items.append(n)
        self.votes += votes
        self.turn += [0] * len(votes)
        touched = {v[0] for v in votes}
        for n, k in (known or {}).items():
            if self.known.get(n) != k:
                touched.add(n)
            self.known[n] = k
        order = [n for n in self.items if n in touched]
        for sweep in range(self.sweeps):
            change = self.visit(order)
            if sweep and change <= self.tol:
                break
        more = min(math.ceil(self.revisit * len(order)), len(self.items) - len(order))
        again = [self.items[(self.cursor + i) % len(self.items)] for i in range(more)]
        if again:
            self.cursor = (self.cursor + more) % len(self.items)
            self.visit([n for n in again if n in self.arrival and n not in touched])


def fading(forget: float) -> Callable[[int, int], float]:
    """Weights that shrink by a share with every later vote."""
    return lambda t, now: (1 - forget) ** (now - t)


def stepping(step: Callable[[int], float]) -> Callable[[int, int], float]:
    """Weights of a running average with these steps, the first of which is one."""

    def weight(t: int, now: int) -> float:
        value = 1.0 if t == 1 else step(t)
        for j in range(t + 1, now + 1):
            value *= 1 - step(j)
        return value

    return weight
