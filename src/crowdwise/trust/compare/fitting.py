"""One method on one set of votes: a fit that is timed, and fits to all folds but one that predict the votes left out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import METHODS
from crowdwise.kernels.numerics import COMPILED_FROM
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.heldout import held_out

__all__ = ["Outcome", "Task", "run_method"]


@dataclass(frozen=True, eq=False)
class Task:
    """What every method is run on.

    Attributes
    ----------
    votes : Annotations
        Without gold; its items are their own positions, for ids may be long and no method needs them.
    fold : [E] or None
        From `crowdwise.trust.heldout.deal`; None leaves held-out votes out.
    features : [R, ...] or None
    row : [N] or None
        Row of every item in the features.
    """

    votes: Annotations
    fold: Integers | None = None
    features: Any = None
    row: Integers | None = None


@dataclass(eq=False)
class Outcome:
    """What a method left behind; fields stay None where it did not get that far.

    Attributes
    ----------
    posterior : [N, K]
    codes : [N]
        Class code of the label of every item.
    log_prob : [E]
        Log-probability of every held-out vote, NaN elsewhere.
    seconds : float
        Of the fit to all votes.
    memory_mb : float
        Most memory of the process until that fit was done.
    error : str
        Why there is no more.
    warnings : list
        Category and text of what the fit warned of.
    """

    method: str
    posterior: Floats | None = None
    codes: Integers | None = None
    log_prob: Floats | None = None
    seconds: float | None = None
    memory_mb: float | None = None
    n_iter: int | None = None
    converged: bool | None = None
    error: str | None = None
    warnings: list[tuple[str, str]] = field(default_factory=list)


def run_method(
    estimator: Any, task: Task, memory: Callable[[], float | None], fitted: Callable[[Outcome], None] | None = None
) -> Outcome:
    """Fit, time and cross-validate; whatever goes wrong stands in the outcome.

    Parameters
    ----------
    memory : callable
        Most memory of this process so far in megabytes, or None where that says nothing of the method.
    fitted : callable, optional
        Given the outcome as soon as the fit to all votes is done.
    """
    outcome = Outcome(estimator.name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _warm_up(estimator, task)
            start = time.perf_counter()
            result = _fit(estimator, task, task.votes)
            outcome.seconds = time.perf_counter() - start
            outcome.memory_mb = memory()
            outcome.posterior, outcome.codes = result.posterior, result.codes
            outcome.n_iter, outcome.converged = int(result.n_iter), bool(result.converged)
        except Exception as problem:
            outcome = Outcome(estimator.name, error=_described(problem))
    # That it did not converge is a column of its own.
    reported = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    outcome.warnings = list(dict.fromkeys((w.category.__name__, str(w.message)) for w in reported))
    if fitted is not None:
        fitted(outcome)
    if outcome.error is None and task.fold is not None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome.log_prob = held_out(lambda votes: _fit(estimator, task, votes), task.votes, task.fold)
        except Exception as problem:
            outcome.error = f"held-out votes: {_described(problem)}"
    return outcome


def _described(problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return f"out of memory ({problem})" if str(problem) else "out of memory"
    # A table holds no lone surrogates, which names of files may have.
    return str(problem).encode("utf-8", "replace").decode() or type(problem).__name__


def _fit(estimator: Any, task: Task, votes: Annotations) -> Result:
    """A fit to these votes, which are some of the task's, with a posterior in their order of items."""
    fresh = _again(estimator)
    if not _reads_features(estimator):
        result: Result = fresh.fit(votes).result_
        return result
    assert task.row is not None
    X = _taken_by(estimator, task.features)
    # Rows without an item of the votes get ids that no item has.
    ids = votes.n_items + np.arange(X.shape[0] if hasattr(X, "shape") else len(X))
    ids[task.row] = np.arange(votes.n_items)
    result = fresh.fit(X, votes, items=ids).result_
    believed, inferred = result.posterior[task.row], result.model_posterior[task.row]
    return replace(result, votes=votes, posterior=believed, inferred=inferred)


def _reads_features(estimator: Any) -> bool:
    """Whether it is a classifier; an estimator of your own that is not registered gets the votes alone."""
    method = METHODS.get(estimator.name)
    return method is not None and bool(method.features)


def _taken_by(estimator: Any, X: Any) -> Any:
    """Features as the classifier reads them: only networks read fractions from disk as they go."""
    if isinstance(X, np.memmap) and X.ndim == 2 and (X.dtype.kind != "f" or not estimator.takes_images):
        return np.array(X)
    return X


def _again(estimator: Any, **changes: Any) -> Any:
    """An unfitted estimator with the same settings, or some that differ."""
    return type(estimator)().set_params(**estimator.get_params(deep=False) | changes)


def _warm_up(estimator: Any, task: Task) -> None:
    """Fit to a few votes, so that imports and the compilation of kernels are charged to no method."""
    # Few items, but enough votes to run compiled loops where the whole would run them.
    enough = COMPILED_FROM if task.votes.n_votes >= COMPILED_FROM else 100
    n = int(np.searchsorted(task.votes.item_ptr, enough))
    shorter = {"max_iter": 1, "restarts": 1, "epochs": 1, "checkpoint": None}
    known = estimator.get_params(deep=False)
    # Whatever is wrong will be reported by the fit that counts.
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        rehearsal = _again(estimator, **{name: value for name, value in shorter.items() if name in known})
        if task.row is None or not _reads_features(estimator):
            rehearsal.fit(task.votes[:n])
        else:
            rehearsal.fit(task.features[task.row[:n]], task.votes[:n])
