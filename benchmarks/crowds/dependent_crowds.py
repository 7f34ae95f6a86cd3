"""Simulated crowds with annotators who share errors, and crowds of many kinds without any: for `dependence.py` and its tests.

A group has a hidden answer on every item, drawn from the truth; a member gives that answer with probability `copy` and else
guesses. Everybody else answers from the truth alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate


class Crowd(NamedTuple):
    """Votes, the true class of every item and the group of every annotator (-1: none)."""

    votes: Annotations
    truth: np.ndarray
    code: np.ndarray


def judges(seed: int, family: int, alone: int, n_items: int = 600) -> Crowd:
    """A family of judges that share errors beside independent ones; everybody judges everything."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    seen = _answer(rng, 0.75, truth, 3)
    labels = [_copied(rng, 0.95, seen, 3) for _ in range(family)]
    labels += [_answer(rng, rng.uniform(0.75, 0.85), truth, 3) for _ in range(alone)]
    return _crowd(labels, truth, np.array([0] * family + [-1] * alone))


def colluders(seed: int, n_colluders: int, votes_per_item: int = 60, n_items: int = 500) -> Crowd:
    """Colluders of 60 annotators, who agree on one wrong answer; K = 3."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    seen = _answer(rng, 0.0, truth, 3)
    labels = [_copied(rng, 0.9, seen, 3) for _ in range(n_colluders)]
    labels += [_answer(rng, rng.uniform(0.45, 0.75), truth, 3) for _ in range(60 - n_colluders)]
    return _crowd(labels, truth, np.repeat([0, -1], [n_colluders, 60 - n_colluders]), votes_per_item, rng)


def ring(seed: int, n_classes: int, votes_per_item: int, n_items: int = 400) -> Crowd:
    """Eighteen of 60 annotators who answer from one key that is drawn at random; the others are right in half and more."""
    rng = np.random.default_rng(seed)
    truth, key = rng.integers(n_classes, size=(2, n_items))
    labels = [key] * 18 + [_answer(rng, rng.uniform(0.5, 0.85), truth, n_classes) for _ in range(42)]
    return _crowd(labels, truth, np.repeat([0, -1], [18, 42]), votes_per_item, rng)


def teams(
    seed: int,
    votes_per_item: int = 40,
    n_items: int = 1000,
    sizes: tuple[int, ...] = (20, 8, 6, 4, 2),
    copied: tuple[float, float] = (0.8, 0.95),
) -> Crowd:
    """Everybody belongs to a group, whose answer members give with a probability between those of `copied`; K = 3."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    labels = []
    for size in sizes:
        seen = _answer(rng, rng.uniform(0.65, 0.8), truth, 3)
        labels += [_copied(rng, rng.uniform(*copied), seen, 3) for _ in range(size)]
    return _crowd(labels, truth, np.repeat(np.arange(len(sizes)), sizes), votes_per_item, rng)


def copying_pairs(seed: int, n_items: int = 500) -> Crowd:
    """Five of 15 annotators copy another; six votes per item, K = 3."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(3, size=n_items)
    labels = [_answer(rng, rng.uniform(0.5, 0.8), truth, 3) for _ in range(10)]
    labels += [_copied(rng, 0.9, labels[a], 3) for a in range(5)]
    return _crowd(labels, truth, np.array([0, 1, 2, 3, 4, -1, -1, -1, -1, -1, 0, 1, 2, 3, 4]), 6, rng)


DEPENDENT: dict[str, Callable[[int], Crowd]] = {
    "three of seven judges share errors, N = 600": lambda seed: judges(seed, 3, 4),
    "same, N = 100": lambda seed: judges(seed, 3, 4, 100),
    "five of nine share errors": lambda seed: judges(seed, 5, 4),
    "five of seven share errors": lambda seed: judges(seed, 5, 2),
    "18 of 60 colluders, dense": lambda seed: colluders(seed, 18),
    "18 of 60 colluders, 8 votes per item": lambda seed: colluders(seed, 18, 8, 1500),
    "26 of 60 colluders": lambda seed: colluders(seed, 26),
    "teams of 20, 8, 6, 4, 2": teams,
    "same teams, 8 votes per item": lambda seed: teams(seed, 8, 2000),
    "copying pairs": copying_pairs,
}


def _shared_confusions(seed: int) -> Annotations:
    """Everybody confuses the same classes, each to their own degree."""
    rng = np.random.default_rng(seed)
    common = rng.dirichlet(np.full(4, 0.5), size=4)
    attends = rng.uniform(0.5, 0.9, size=20)[:, None, None]
    return simulate(400, annotators=attends * np.eye(4) + (1 - attends) * common, votes_per_item=8, random_state=seed).votes


def _two_tiers(seed: int) -> Annotations:
    """Experts and novices."""
    options = {"one-coin": {"a": 30.0, "b": 2.0}, "two-coin": {"a": 6.0, "b": 5.0}}
    mix = {"one-coin": 0.3, "two-coin": 0.7}
    return simulate(500, 25, 3, 7, mix, options=options, random_state=seed).votes


def _drawn(**settings: object) -> Callable[[int], Annotations]:
    return lambda seed: simulate(**settings, random_state=seed).votes


INDEPENDENT: dict[str, Callable[[int], Annotations]] = {
    "dense, 7 annotators": _drawn(n_items=300, n_annotators=7, votes_per_item=7, annotators="one-coin"),
    "dense, 30 annotators": _drawn(n_items=200, n_annotators=30, votes_per_item=30, annotators="dirichlet"),
    "sparse": _drawn(n_items=600, n_annotators=60, votes_per_item=4, annotators="dirichlet"),
    "sparse, power law": _drawn(n_items=800, n_annotators=150, votes_per_item=5, activity="power-law"),
    "hard items": _drawn(n_items=400, n_annotators=20, votes_per_item=8, annotators="one-coin", difficulty=1.0),
    "shared confusions": _shared_confusions,
    "spammers": _drawn(
        n_items=400,
        n_annotators=30,
        votes_per_item=8,
        annotators={"one-coin": 0.6, "uniform-spammer": 0.2, "constant-spammer": 0.2},
    ),
    "two tiers": _two_tiers,
    "K = 2": _drawn(n_items=400, n_annotators=15, n_classes=2, votes_per_item=6, annotators="two-coin"),
    "K = 8, unbalanced": _drawn(
        n_items=400,
        n_annotators=20,
        n_classes=8,
        votes_per_item=6,
        class_prior=[0.4, 0.2, 0.15, 0.1, 0.05, 0.05, 0.03, 0.02],
    ),
}

# Kinds that differ in what an annotator is, with few votes and many.
_FULL: dict[str, dict[str, object]] = {
    "one-coin": {"annotators": "one-coin"},
    "confusion matrices": {"annotators": "dirichlet"},
    "confusion matrices, skewed classes": {"annotators": "dirichlet", "class_prior": [0.8, 0.15, 0.05]},
    "adversaries": {
        "annotators": {"dirichlet": 0.7, "uniform-spammer": 0.15, "cyclic-adversary": 0.15},
        "class_prior": [0.5, 0.3, 0.2],
    },
}
# Beside those of `INDEPENDENT`: confusion matrices that no one number per annotator describes.
MATRICES: dict[str, Callable[[int], Annotations]] = {
    **{
        f"{kind}, {8 * n_items:,} votes": _drawn(n_items=n_items, n_annotators=20, n_classes=3, votes_per_item=8, **settings)
        for kind, settings in _FULL.items()
        for n_items in (100, 500, 2000)
    },
    "adversaries, K = 2": _drawn(
        n_items=1000,
        n_annotators=20,
        n_classes=2,
        votes_per_item=8,
        annotators={"two-coin": 0.7, "uniform-spammer": 0.15, "cyclic-adversary": 0.15},
    ),
    "15 who label everything, K = 15, skewed": _drawn(
        n_items=1000,
        n_annotators=15,
        n_classes=15,
        votes_per_item=15,
        annotators="dirichlet",
        class_prior=[2.0 ** -min(k + 1, 14) for k in range(15)],
        options={"dirichlet": {"diagonal": 30.0}},
    ),
}


def topics(seed: int, n_items: int = 500, n_annotators: int = 20) -> Annotations:
    """Annotators good at one of three hidden topics: independent given class and topic, the known source of false alarms."""
    rng = np.random.default_rng(seed)
    truth, topic = rng.integers(3, size=n_items), rng.integers(3, size=n_items)
    right = np.where(rng.integers(3, size=n_annotators)[:, None] == topic, 0.9, 0.5)
    labels = [_answer(rng, row, truth, 3) for row in right]
    return _crowd(labels, truth, np.full(n_annotators, -1), 8, rng).votes


def _answer(rng: np.random.Generator, right: float | np.ndarray, truth: np.ndarray, n_classes: int) -> np.ndarray:
    """The truth with probability `right`, else another class."""
    wrong = (truth + rng.integers(1, n_classes, size=len(truth))) % n_classes
    return np.where(rng.random(len(truth)) < right, truth, wrong)


def _copied(rng: np.random.Generator, copy: float, seen: np.ndarray, n_classes: int) -> np.ndarray:
    """What was seen with probability `copy`, else a guess."""
    return np.where(rng.random(len(seen)) < copy, seen, rng.integers(n_classes, size=len(seen)))


def _crowd(
    labels: list[np.ndarray],
    truth: np.ndarray,
    code: np.ndarray,
    votes_per_item: int | None = None,
    rng: np.random.Generator | None = None,
) -> Crowd:
    """Votes of everybody on everything, or of `votes_per_item` annotators drawn for every item."""
    table = np.array(labels)
    chosen = np.ones(table.shape, bool)
    if rng is not None and votes_per_item is not None and votes_per_item < len(table):
        chosen = rng.random(table.shape).argsort(axis=0).argsort(axis=0) < votes_per_item
    who, item = np.nonzero(chosen)
    votes = Annotations.from_arrays(
        item, who, table[who, item], items=range(len(truth)), annotators=range(len(table)), classes=range(table.max() + 1)
    )
    return Crowd(votes, truth, code)
