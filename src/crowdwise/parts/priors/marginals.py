"""Label priors that do not look at the item: one class distribution for all.

A label prior is a frozen value with `log_prob()` -> [1, K] (or [N, K] where it reads features),
`update(posterior)` -> a new prior, `penalty()` -> what it subtracts from the bound, and
`probability` -> [K], its point estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.crowd import Vocabularies
from crowdwise.data.encode import codes_of, series_of, tidy
from crowdwise.data.storable import storable
from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import dirichlet_kl, expected_log, log_floored
from crowdwise.kernels.types import Floats

__all__ = ["DirichletMarginals", "Marginals", "given_class_prior"]


@storable
@dataclass(frozen=True, eq=False)
class Marginals:
    """Class shares as a point: d_k = (sum_n q_nk + pseudo_count) / const, or fixed.

    The penalty is minus the log-density of the Dirichlet(1 + pseudo_count) that makes the update
    a MAP step, up to its constant.
    """

    shapes: ClassVar[dict[str, str]] = {"probability": "k", "pseudo_count": "k"}
    probability: Floats
    learn: bool = True
    pseudo_count: float | Floats = 0.0

    def log_prob(self) -> Floats:
        """Log class shares, [1, K]."""
        return log_floored(self.probability)[None, :]

    def update(self, posterior: Floats) -> Marginals:
        """Fit the shares to a posterior, [N, K]."""
        return self.conditioned(posterior.sum(axis=0)) if len(posterior) else self

    def conditioned(self, mass: Floats) -> Marginals:
        """Fit the shares to a posterior summed over items, [K]; all zeros means no items."""
        if not self.learn or not mass.any():
            return self
        mass = mass + self.pseudo_count
        return replace(self, probability=mass / mass.sum())

    def penalty(self) -> float:
        """Minus the log prior density of the shares."""
        if not self.learn:
            return 0.0
        return float(-(self.pseudo_count * log_floored(self.probability)).sum())


@storable
@dataclass(frozen=True, eq=False)
class DirichletMarginals:
    """Class shares with a Dirichlet posterior: alpha = alpha0 + sum_n q_n."""

    shapes: ClassVar[dict[str, str]] = {"alpha0": "k", "alpha": "k"}
    alpha0: Floats
    alpha: Floats

    @property
    def probability(self) -> Floats:
        """Posterior mean of the shares, [K]."""
        return np.asarray(self.alpha / self.alpha.sum())

    def log_prob(self) -> Floats:
        """E[log d_k], [1, K]."""
        return expected_log(self.alpha, 0)[None, :]

    def update(self, posterior: Floats) -> DirichletMarginals:
        """Condition on a posterior of the labels, [N, K]."""
        return self.conditioned(posterior.sum(axis=0))

    def conditioned(self, mass: Floats) -> DirichletMarginals:
        """Condition on a posterior summed over items, [K]."""
        return replace(self, alpha=self.alpha0 + mass)

    def penalty(self) -> float:
        """KL from the Dirichlet prior."""
        return dirichlet_kl(self.alpha, self.alpha0, 0)


def given_class_prior(class_prior: Any, crowd: Vocabularies) -> Floats | None:
    """Read the setting `class_prior`: None for "learn" and "anchored", else K probabilities in the order of the classes."""
    n_classes = crowd.n_classes
    if isinstance(class_prior, str):
        if class_prior in ("learn", "anchored"):
            return None
        if class_prior == "uniform":
            return np.full(n_classes, 1 / n_classes)
        raise SettingError(f"class_prior must be 'learn', 'anchored', 'uniform' or probabilities, got {class_prior!r}")
    if isinstance(class_prior, Mapping):
        codes = codes_of(tidy(series_of(list(class_prior))), tidy(series_of(crowd.classes)))
        if sorted(codes.tolist()) != list(range(n_classes)):
            raise SettingError(f"class_prior must name every class once: {crowd.classes.tolist()}; got {list(class_prior)}")
        values = np.empty(n_classes)
        values[codes] = _numbers(list(class_prior.values()))
    elif isinstance(class_prior, Sequence | np.ndarray):
        values = _numbers(class_prior)
    else:
        raise SettingError(f"class_prior must be 'learn', 'anchored', 'uniform' or probabilities, got {class_prior!r}")
    if values.shape != (n_classes,) or not (np.isfinite(values) & (values >= 0)).all() or values.sum() <= 0:
        raise SettingError(
            f"class_prior needs {n_classes} numbers >= 0, one per class {crowd.classes.tolist()}; got {class_prior!r}"
        )
    return np.asarray(values / values.sum())


def _numbers(values: Any) -> Floats:
    try:
        return np.asarray(values, float)
    except (TypeError, ValueError):
        raise SettingError(f"class_prior must hold numbers >= 0; got {values!r}") from None
