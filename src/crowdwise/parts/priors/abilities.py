"""What annotators are like before any vote: a prior over their confusion matrices, turned into weighted nodes.

A prior is written as

    "beta:R,W"            accuracy ~ Beta(R, W), wrong answers uniform over the other classes
    "dirichlet:R,W"       a row of the confusion matrix ~ Dirichlet: R on the diagonal, W spread over the K - 1 wrong
                          labels; also "dir:R,W"
    "spammer-hammer:S"    accuracy 0.9 with probability S, guessing (1 / K) otherwise; "spammer-hammer:S,ACCURACY"
    an array              draws of accuracies [S], of accuracies by class [S, K] or of confusion matrices [S, K, K]

With R and W the accuracy has the same prior in all families and for any K. An integral over the
prior becomes a sum over nodes:

    quadrature    one-coin: Gauss-Jacobi, exact for n votes with n // 2 + 1 nodes (a likelihood is a polynomial of
                  degree n in the accuracy); two classes with independent rows: the product of two such rules
    sobol         one scrambled Sobol set, mapped by inverse distribution functions
    monte-carlo   independent draws, as in Kim et al. (2022)

Discrete priors and draws are their own nodes. Nodes are accuracies [S] where errors are uniform and
alike for all classes, else tables [S, L, K] of P(observed l | true k).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.errors import DataWarning, SettingError
from crowdwise.kernels.numerics import log_floored, ratio
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = [
    "FAMILIES",
    "INTEGRALS",
    "AbilityPrior",
    "NodeRule",
    "ability_prior",
    "dirichlet_rows",
    "expand_accuracy",
    "named_prior",
    "node_rules",
]


FAMILIES = ("one-coin", "two-coin", "confusion")
INTEGRALS = ("auto", "quadrature", "sobol", "monte-carlo")
_HAMMER = 0.9
# Who is not named in a mapping of priors.
_OTHERS = "*"
# Sizes of quadrature rules; annotators share the next size above what exactness asks for.
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# With 64 nodes, 1000 votes are integrated to about 1e-12; per axis of a product of two rules, 24 keep 576 nodes.
_MOST_NODES = {1: 64, 2: 24}
_SOBOL_DRAWS, _MONTE_CARLO_DRAWS = 256, 400
_MOST_SOBOL_AXES = 21_201


@dataclass(frozen=True, eq=False)
class AbilityPrior:
    """Beta or Dirichlet parameters of (right, wrong), or atoms with their weights."""

    right: float = 0.0
    wrong: float = 0.0
    atoms: Floats | None = None
    weight: Floats | None = None

    @property
    def accuracy(self) -> float:
        """Expected share of right answers, of a prior of accuracies."""
        if self.atoms is None or self.weight is None:
            return self.right / (self.right + self.wrong)
        return float(self.weight @ self.atoms)

    def row_parameters(self, n_classes: int) -> Floats:
        """Dirichlet parameters of the confusion rows, [L, K]."""
        return np.where(np.eye(n_classes, dtype=bool), self.right, self.wrong / max(n_classes - 1, 1))


@dataclass(frozen=True, eq=False)
class NodeRule:
    """Nodes (accuracies [S] or tables [S, L, K]) and the logs of their weights, which sum to one."""

    node: Floats
    log_weight: Floats


def ability_prior(annotator_prior: Any, weights: Any, n_classes: int) -> AbilityPrior:
    """Read the settings `annotator_prior` and `annotator_weights`."""
    if isinstance(annotator_prior, str):
        if weights is not None:
            raise SettingError(f"annotator_weights belong to draws in annotator_prior; there it says {annotator_prior!r}")
        prior = named_prior(annotator_prior, n_classes)
        if n_classes > 1 and prior.accuracy <= 1 / n_classes:
            warnings.warn(
                f"annotator_prior {annotator_prior!r} expects annotators to be right with probability {prior.accuracy:.2g}, no "
                f"better than chance among {n_classes} classes: labels may come out swapped",
                DataWarning,
                stacklevel=2,
            )
        return prior
    try:
        atoms = np.asarray(annotator_prior, float)
        weight = np.ones(len(atoms)) if weights is None else np.asarray(weights, float)
    except (TypeError, ValueError):
        raise _refused(annotator_prior) from None
    if atoms.ndim not in (1, 2, 3) or len(atoms) == 0 or atoms.shape[1:] != (n_classes,) * (atoms.ndim - 1):
        raise SettingError(
            f"annotator_prior as draws has the shape [S], [S, {n_classes}] or [S, {n_classes}, {n_classes}]; got {atoms.shape}"
        )
    if not ((atoms >= 0) & (atoms <= 1)).all() or (atoms.ndim == 3 and not np.allclose(atoms.sum(axis=2), 1)):
        raise SettingError("annotator_prior as draws holds probabilities; rows of confusion matrices sum to one")
    if weight.shape != (len(atoms),) or not (np.isfinite(weight) & (weight >= 0)).all() or weight.sum() <= 0:
        raise SettingError(f"annotator_weights needs {len(atoms)} numbers >= 0, one per draw; got {weights!r}")
    return AbilityPrior(atoms=atoms, weight=weight / weight.sum())


def dirichlet_rows(annotator_prior: Any, n_classes: int, annotators: Array) -> Floats:
    """Dirichlet parameters of confusion rows, [1 or A, L, K].

    From a setting such as "dir:5,2", or one per annotator: ``{"expert": "dir:20,1", "*": "dir:2,1"}``, where "*" stands
    for all others.
    """
    if not isinstance(annotator_prior, Mapping):
        return _dirichlet_row(annotator_prior, n_classes)[None]
    given = {str(name): _dirichlet_row(prior, n_classes) for name, prior in annotator_prior.items()}
    names = [str(name) for name in annotators.tolist()]
    lacking = "" if _OTHERS in given else next((name for name in names if name not in given), "")
    if lacking:
        raise SettingError(f"annotator_prior has no prior for annotator {lacking!r}; add one for all others under {_OTHERS!r}")
    unknown = [name for name in given if name != _OTHERS and name not in set(names)]
    if unknown:
        warnings.warn(
            f"annotator_prior names {len(unknown)} annotators who gave no votes, such as {unknown[0]!r}",
            DataWarning,
            stacklevel=2,
        )
    return np.stack([given[name if name in given else _OTHERS] for name in names])


def _dirichlet_row(annotator_prior: Any, n_classes: int) -> Floats:
    """[L, K]."""
    prior = ability_prior(annotator_prior, None, n_classes)
    if prior.atoms is not None or not str(annotator_prior).startswith("dir"):
        raise SettingError(f"this method has Dirichlet rows: annotator_prior must be like 'dir:5,2'; got {annotator_prior!r}")
    return prior.row_parameters(n_classes)


def node_rules(
    prior: AbilityPrior,
    family: str,
    n_classes: int,
    degree_a: Array,
    integral: str,
    samples: int | None,
    rng: np.random.Generator,
) -> tuple[list[NodeRule], Integers]:
    """Rules for the integral over the prior, and the rule of every annotator, [A].

    `degree_a` is the number of votes of each annotator; the last rule is the finest.
    """
    everyone = np.zeros(len(degree_a), np.int64)
    if prior.atoms is not None:
        assert prior.weight is not None
        node = prior.atoms if prior.atoms.ndim == 1 else _tables(prior.atoms, n_classes)
        kept = prior.weight > 0
        return [NodeRule(node[kept], np.log(prior.weight[kept]))], everyone
    axes = 1 if family == "one-coin" else 2
    product = family == "one-coin" or n_classes == 2
    if integral == "quadrature" and not product:
        raise SettingError(f"integral: no quadrature for {n_classes} classes in family {family!r}; use 'sobol'")
    if integral == "quadrature" or (integral == "auto" and product):
        # One node more than messages need: posterior means and variances of accuracies are exact, too.
        needed = np.minimum(np.ceil(degree_a) // 2 + 2, _MOST_NODES[axes])
        used, rule_a = np.unique(np.searchsorted(_SIZES, needed), return_inverse=True)
        rules = [_quadrature(prior, _SIZES[i], axes) for i in used] or [_quadrature(prior, 1, axes)]
        return rules, rule_a.reshape(-1)
    draws = samples or (_MONTE_CARLO_DRAWS if integral == "monte-carlo" else _SOBOL_DRAWS)
    shape = {"one-coin": (), "two-coin": (n_classes,), "confusion": (n_classes, n_classes)}[family]
    uniform = _uniforms(draws, int(np.prod(shape, dtype=int)), integral, rng).reshape(-1, *shape)
    return [NodeRule(_from_uniforms(prior, uniform, n_classes), np.full(len(uniform), -np.log(len(uniform))))], everyone


def expand_accuracy(accuracy_sk: Floats, n_classes: int) -> Floats:
    """Tables [S, L, K] of annotators with an accuracy per class (or one, [S, 1]) and uniform errors."""
    if n_classes == 1:
        return np.ones((len(accuracy_sk), 1, 1))
    accuracy = np.broadcast_to(accuracy_sk, (len(accuracy_sk), n_classes))[:, None, :]
    return np.where(np.eye(n_classes, dtype=bool), accuracy, (1 - accuracy) / (n_classes - 1))


def _tables(atoms: Floats, n_classes: int) -> Floats:
    return expand_accuracy(atoms, n_classes) if atoms.ndim == 2 else np.ascontiguousarray(atoms.transpose(0, 2, 1))


def _quadrature(prior: AbilityPrior, size: int, axes: int) -> NodeRule:
    """Gauss-Jacobi on (0, 1) with the Beta(right, wrong) weight; on two axes, their product.

    By Golub and Welsch, from the recurrence of the polynomials: their values overflow for priors of thousands of votes.
    """
    from scipy.linalg import eigh_tridiagonal

    a, b, k = prior.wrong - 1.0, prior.right - 1.0, np.arange(1.0, size)
    both = 2 * k + a + b
    diagonal = np.append((b - a) / (a + b + 2), (b - a) * (b + a) / (both * (both + 2)))
    # At k = 1 two factors, (k + a + b) and (both - 1), are the same number and may be zero.
    ratio = np.divide(k + a + b, both - 1, where=k > 1, out=np.ones(size - 1))
    beside = 4 * k * (k + a) * (k + b) / (both**2 * (both + 1)) * ratio
    x, vectors = eigh_tridiagonal(diagonal, np.sqrt(beside)) if size > 1 else (diagonal, np.ones((1, 1)))
    node, log_weight = np.clip((1 + x) / 2, 1e-15, 1 - 1e-15), 2 * log_floored(np.abs(vectors[0]))
    if axes == 1:
        return NodeRule(node, log_weight)
    both = np.stack(np.meshgrid(node, node, indexing="ij"), axis=-1).reshape(-1, 2)
    return NodeRule(expand_accuracy(both, 2), np.add.outer(log_weight, log_weight).ravel())


def _uniforms(draws: int, axes: int, integral: str, rng: np.random.Generator) -> Floats:
    if integral == "monte-carlo" or axes > _MOST_SOBOL_AXES:
        return rng.random((draws, axes))
    from scipy.stats import qmc

    # A Sobol set is balanced only in powers of two.
    power = max(int(np.ceil(np.log2(draws))), 0)
    return np.asarray(qmc.Sobol(axes, seed=rng).random_base2(power))


def _from_uniforms(prior: AbilityPrior, uniform: Floats, n_classes: int) -> Floats:
    from scipy.special import betaincinv, gammaincinv

    if uniform.ndim == 1:
        return np.asarray(betaincinv(prior.right, prior.wrong, uniform))
    if uniform.ndim == 2:
        return expand_accuracy(betaincinv(prior.right, prior.wrong, uniform), n_classes)
    gamma = gammaincinv(prior.row_parameters(n_classes), uniform)
    total = gamma.sum(axis=1, keepdims=True)
    # Tiny parameters underflow: a row without any mass is that of a perfect annotator.
    return ratio(gamma, total, np.eye(n_classes))


def named_prior(text: str, n_classes: int) -> AbilityPrior:
    """The prior that a text names; what it means for votes is not looked at."""
    kind, _, rest = text.partition(":")
    kind = "dirichlet" if kind == "dir" else kind
    try:
        numbers = [float(part) for part in rest.split(",")]
    except ValueError:
        raise _refused(text) from None
    if kind in ("beta", "dirichlet") and len(numbers) == 2 and 0 < min(numbers) <= max(numbers) < np.inf:
        return AbilityPrior(right=numbers[0], wrong=numbers[1])
    if kind == "spammer-hammer" and len(numbers) in (1, 2) and 0 <= min(numbers) <= max(numbers) <= 1:
        share, accuracy = numbers if len(numbers) == 2 else (numbers[0], _HAMMER)
        return AbilityPrior(atoms=np.array([accuracy, 1 / n_classes]), weight=np.array([share, 1 - share]))
    raise _refused(text)


def _refused(given: Any) -> SettingError:
    return SettingError(
        "annotator_prior must be like 'beta:2,1' or 'dir:2,1' (two numbers above 0: right, wrong) or 'spammer-hammer:0.5' (a "
        f"share between 0 and 1), or, in Python, draws of accuracies or confusion matrices; got {given!r}"
    )
