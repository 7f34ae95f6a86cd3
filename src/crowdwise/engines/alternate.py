"""Engine 1: alternate between labels and annotators until neither moves.

One loop serves EM (point parts), variational Bayes (Dirichlet parts) and hard EM. Each round

    annotators = annotators.update(votes, posterior)
    prior      = prior.update(posterior)
    posterior  = softmax(prior.log_prob() + sum of the votes' evidence)
    bound      = sum_n logsumexp_k(...) - prior.penalty() - annotators.penalty()

so the bound belongs to the posterior that is returned, and never falls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crowdwise.errors import ConvergenceWarning
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.posterior import clamp, harden

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.parts.annotators.protocol import AnnotatorModel

__all__ = ["Fit", "LabelPrior", "alternate", "best_of", "bound_trace", "has_settled", "warn_unless_converged"]

Floats = NDArray[np.float64]
Progress = Callable[[int, float, float], None]


class LabelPrior(Protocol):
    """What a label prior is: see `crowdwise.parts.priors.marginals`."""

    @property
    def probability(self) -> Floats: ...  # noqa: D102
    def log_prob(self) -> Floats: ...  # noqa: D102
    def update(self, posterior: Floats) -> LabelPrior: ...  # noqa: D102
    def penalty(self) -> float: ...  # noqa: D102


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method returns: the posterior [N, K], its fitted parts and how it got there.

    `trace` holds one array per named term of the bound; their sum is the bound.
    """

    posterior: Floats
    prior: Any
    annotators: Any
    trace: dict[str, Floats]
    n_iter: int
    converged: bool

    @property
    def bound(self) -> float:
        """The last value of the bound."""
        return float(sum(values[-1] for values in self.trace.values())) if self.n_iter else float("-inf")


def alternate(
    votes: Annotations,
    prior: LabelPrior,
    annotators: AnnotatorModel,
    *,
    start: Floats,
    known: NDArray[Any],
    max_iter: int,
    tol: float,
    hard: bool = False,
    progress: Progress | None = None,
) -> Fit:
    """Run the loop from a posterior `start`, [N, K].

    Stops when the bound's relative change is below `tol` and no posterior entry moved by more than
    ``100 * tol``: on the bound alone, a few items could still be moving. `hard` assigns each item
    to its best class between rounds (classification EM, "fast Dawid-Skene"). `known` holds class
    codes of items whose label is given, -1 elsewhere, or is empty.
    """
    posterior = np.array(start)
    clamp(posterior, known)
    assigned = harden(posterior) if hard else posterior
    rows: list[tuple[float, float, float]] = []
    converged = False
    for iteration in range(max_iter):
        annotators = annotators.update(votes, assigned)
        prior = prior.update(assigned)
        evidence, change = annotators.infer(votes, prior.log_prob(), known, posterior)
        if hard:
            evidence += float(log_floored(posterior.max(axis=1)).sum())
            previous, assigned = assigned, harden(posterior)
            change = float(np.abs(assigned - previous).max(initial=0.0))
        rows.append((evidence, -prior.penalty(), -annotators.penalty()))
        if progress is not None:
            progress(iteration + 1, sum(rows[-1]), change)
        if has_settled(rows, change, tol):
            converged = True
            break
    return Fit(posterior, prior, annotators, bound_trace(rows), len(rows), converged)


def has_settled(rows: list[tuple[float, float, float]], change: float, tol: float) -> bool:
    """The rule to stop by, after at least two rounds: `rows` are the bound's terms, `change` a probability's largest."""
    if len(rows) < 2 or change > 100 * tol:
        return False
    bound = sum(rows[-1])
    return abs(bound - sum(rows[-2])) <= tol * abs(bound)


def bound_trace(rows: list[tuple[float, float, float]]) -> dict[str, Floats]:
    """The terms of the bound by name, one entry per round."""
    votes_term, prior_term, annotators_term = np.array(rows).reshape(-1, 3).T
    return {"votes": votes_term, "class prior": prior_term, "annotators": annotators_term}


def best_of(fit: Callable[[Floats], Fit], starts: list[Floats]) -> Fit:
    """Fit from every start and keep the highest bound; warn once if that fit did not converge."""
    return warn_unless_converged(max((fit(start) for start in starts), key=lambda done: done.bound))


def warn_unless_converged(fit: Fit) -> Fit:
    """Return the fit, with a warning if it stopped early."""
    if not fit.converged:
        warnings.warn(
            f"stopped after {fit.n_iter} iterations before the stopping rule was met; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=5,
        )
    return fit
