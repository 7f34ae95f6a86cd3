"""Families of annotators: how their confusion matrices are drawn.

Each takes (rng, number of annotators, number of classes, settings) and returns
``confusion[annotator, true, observed]``, [A, K, K], rows summing to one.

References
----------
Karger, Oh & Shah (2011), Iterative learning for reliable crowdsourcing systems: hammer-spammer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING

import numpy as np

from crowdwise.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.kernels.types import Array, Floats

    Confusions = Floats

__all__ = ["FAMILIES", "draw_annotators"]

PROBABILITIES = ("p", "gamma", "accuracy")


def one_coin(rng: np.random.Generator, n: int, n_classes: int, a: float = 8.0, b: float = 2.0) -> Confusions:
    """Accuracy ~ Beta(a, b), mean 0.8 by default; errors are spread evenly."""
    return _symmetric(rng.beta(a, b, (n, 1)), n_classes)


def two_coin(rng: np.random.Generator, n: int, n_classes: int, a: float = 8.0, b: float = 2.0) -> Confusions:
    """One accuracy per true class ~ Beta(a, b): sensitivity and specificity for two classes."""
    return _symmetric(rng.beta(a, b, (n, n_classes)), n_classes)


def dirichlet(rng: np.random.Generator, n: int, n_classes: int, diagonal: float = 8.0, off_diagonal: float = 1.0) -> Confusions:
    """Rows ~ Dirichlet with weight `diagonal` on the true class, `off_diagonal` on each other one."""
    weight_kl = np.full((n_classes, n_classes), off_diagonal) + (diagonal - off_diagonal) * np.eye(n_classes)
    gamma_akl = np.maximum(rng.standard_gamma(weight_kl, (n, n_classes, n_classes)), np.finfo(float).tiny)
    return np.asarray(gamma_akl / gamma_akl.sum(axis=2, keepdims=True))


def hammer_spammer(rng: np.random.Generator, n: int, n_classes: int, gamma: float = 0.5) -> Confusions:
    """Always right with probability gamma, else a uniform spammer."""
    hammer = rng.random(n) < gamma
    return np.where(hammer[:, None, None], np.eye(n_classes), 1 / n_classes)


def cyclic_adversary(rng: np.random.Generator, n: int, n_classes: int, p: float = 0.9) -> Confusions:
    """Answer class k + 1 for class k with probability p; the rest is spread evenly."""
    return np.roll(_symmetric(np.full((n, 1), p), n_classes), 1, axis=2)


def uniform_spammer(rng: np.random.Generator, n: int, n_classes: int) -> Confusions:
    """Answer at random whatever the class."""
    return np.full((n, n_classes, n_classes), 1 / n_classes)


def constant_spammer(rng: np.random.Generator, n: int, n_classes: int) -> Confusions:
    """Answer one class, drawn once for each annotator, whatever the class."""
    return np.repeat(np.eye(n_classes)[rng.integers(n_classes, size=n)][:, None, :], n_classes, axis=1)


def colluder(rng: np.random.Generator, n: int, n_classes: int, accuracy: float = 0.0) -> Confusions:
    """Give the same label as every other colluder on the item: wrong, except with probability `accuracy`."""
    return _symmetric(np.full((n, 1), accuracy), n_classes)


FAMILIES: dict[str, Callable[..., Confusions]] = {
    "one-coin": one_coin,
    "two-coin": two_coin,
    "dirichlet": dirichlet,
    "hammer-spammer": hammer_spammer,
    "cyclic-adversary": cyclic_adversary,
    "uniform-spammer": uniform_spammer,
    "constant-spammer": constant_spammer,
    "extreme-spammer": uniform_spammer,  # and labels every item
    "colluder": colluder,
}


def draw_annotators(
    rng: np.random.Generator,
    n_annotators: int,
    n_classes: int,
    shares: Mapping[str, float],
    options: Mapping[str, Mapping[str, float]],
) -> tuple[Confusions, Array]:
    """Draw a mix of families, in its order; return the confusion matrices and the family of each annotator, [A]."""
    for name in (*shares, *options):
        if name not in FAMILIES:
            raise SettingError(
                f"no family of annotators {name!r}; there are {', '.join(FAMILIES)}{did_you_mean(str(name), list(FAMILIES))}"
            )
    values = np.array(list(shares.values()), float)
    if not ((values >= 0).all() and abs(values.sum() - 1) < 1e-6):
        raise SettingError(f"shares of annotators must be >= 0 and sum to one, got {dict(shares)}")
    for name, given in options.items():
        allowed = list(signature(FAMILIES[name]).parameters)[3:]
        for option, value in given.items():
            if option not in allowed:
                raise SettingError(f"{name} has no option {option!r}; it has {', '.join(allowed) or 'none'}")
            if value < 0 or (value == 0 and option in ("a", "b", "diagonal")) or (value > 1 and option in PROBABILITIES):
                raise SettingError(f"option {option!r} of {name} is out of range: {value}")
    # Cutting at rounded cumulative shares gives counts that sum to A and are off by less than one.
    counts = np.diff(np.round(np.cumsum(values) * n_annotators).astype(int), prepend=0)
    parts = [
        FAMILIES[name](rng, int(count), n_classes, **options.get(name, {})) for name, count in zip(shares, counts, strict=True)
    ]
    return np.concatenate(parts), np.repeat(np.array([*shares, None], dtype=object)[:-1], counts)


def _symmetric(right_ak: Floats, n_classes: int) -> Confusions:
    """Put accuracies ([A, 1] or [A, K]) on the diagonal and spread the rest evenly; a single class is always right."""
    if n_classes == 1:
        return np.ones((len(right_ak), 1, 1))
    right_akl = np.broadcast_to(right_ak[:, :, None], (len(right_ak), n_classes, n_classes))
    return np.where(np.eye(n_classes, dtype=bool), right_akl, (1 - right_akl) / (n_classes - 1))
