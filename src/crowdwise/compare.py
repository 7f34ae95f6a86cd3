"""Every method on the same votes, measured against known true labels."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.aggregate.base import as_annotations
from crowdwise.aggregate.registry import METHODS, make
from crowdwise.errors import ConvergenceWarning, InputError, SettingError, did_you_mean
from crowdwise.gold import encode_gold
from crowdwise.kernels.votes import COMPILED_FROM
from crowdwise.metrics import accuracy, ece, log_loss, macro_f1

if TYPE_CHECKING:
    from crowdwise.aggregate.base import Aggregator
    from crowdwise.annotations import Annotations

__all__ = ["compare"]

_MEASURES = (accuracy, macro_f1, log_loss, ece)
_SCHEMA = {
    "method": pl.String,
    **{measure.__name__: pl.Float64 for measure in _MEASURES},
    "seconds": pl.Float64,
    "n_iter": pl.Int64,
    "converged": pl.Boolean,
    "error": pl.String,
}


def compare(
    votes: Any,
    truth: Any,
    methods: Sequence[str] | None = None,
    *,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    random_state: int | None = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> pl.DataFrame:
    """Fit methods to votes and measure each against the truth; one row per method, in registry order.

    Parameters
    ----------
    votes : Annotations, frame or matrix
        Gold labels attached to them are set aside, so that the truth cannot leak into a fit.
    truth : mapping, frame, Series or sequence
        True labels of all or some items, in any shape that ``fit(votes, gold)`` takes.
    methods : sequence of str, optional
        Names from the registry; all label-only methods when left out.
    settings : mapping, optional
        Method name -> its settings.
    random_state : int or None
        Seed of every method that draws random numbers, unless its `settings` give another.
    progress : callable, optional
        Called before every method with (name, methods done, methods in all).

    Returns
    -------
    frame
        method, accuracy (ties split), macro_f1, log_loss, ece, seconds, n_iter, converged, error.
        A method that fails has its message in `error` and nulls elsewhere.

    Notes
    -----
    `seconds` is the fit alone: each method first runs on a few votes, so that imports and the
    compilation of kernels are charged to none.

    Examples
    --------
    >>> from crowdwise.datasets import demo
    >>> campaign = demo()
    >>> table = compare(campaign.votes, campaign.gold, ["dawid-skene", "majority"])
    >>> table["method"].to_list()
    ['majority', 'dawid-skene']
    """
    votes = replace(as_annotations(votes), gold=None)
    truth_n = encode_gold(votes, truth)
    if not (truth_n >= 0).any():
        raise InputError("the truth names no item of these votes; check that both use the same item ids")
    # Built first: a misspelt name or setting is the caller's to correct, not a row of the table.
    estimators = [_build(name, settings or {}, random_state) for name in _chosen(methods, settings or {}, votes.n_classes)]
    sample = _throwaway(votes)
    rows = []
    for done, estimator in enumerate(estimators):
        if progress is not None:
            progress(estimator.name, done, len(estimators))
        _warm_up(estimator, sample)
        rows.append(_row(estimator, votes, truth_n))
    return pl.DataFrame(rows, schema=_SCHEMA)


def _chosen(methods: Sequence[str] | None, settings: Mapping[str, Any], n_classes: int) -> list[str]:
    """The methods to run, in registry order; every name given anywhere must be known."""
    asked = [name for name, method in METHODS.items() if method.suits(n_classes)] if methods is None else list(methods)
    for name in (*asked, *settings):
        if name not in METHODS:
            raise SettingError(f"no method {name!r}{did_you_mean(name, list(METHODS))} (there are {', '.join(METHODS)})")
    return [name for name in METHODS if name in asked]


def _build(name: str, settings: Mapping[str, Mapping[str, Any]], random_state: int | None) -> Aggregator:
    estimator = make(name)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=random_state)
    return estimator.set_params(**settings.get(name, {}))


def _throwaway(votes: Annotations) -> Annotations:
    """The first items: few, but enough votes to run compiled loops where the whole would run them."""
    enough = COMPILED_FROM if votes.n_votes >= COMPILED_FROM else 100
    return votes[: int(np.searchsorted(votes.item_ptr, enough))]


def _warm_up(estimator: Aggregator, sample: Annotations) -> None:
    params = estimator.get_params()
    rehearsal = type(estimator)().set_params(**params | {name: 1 for name in ("max_iter", "restarts") if name in params})
    # Whatever is wrong will be reported by the fit that counts.
    with warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        rehearsal.fit(sample)


def _row(estimator: Aggregator, votes: Annotations, truth_n: NDArray[np.int16]) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(_SCHEMA) | {"method": estimator.name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = time.perf_counter()
            estimator.fit(votes)
            row["seconds"] = time.perf_counter() - start
            row |= {measure.__name__: measure(estimator.posterior_, truth_n) for measure in _MEASURES}
            row |= {"n_iter": estimator.n_iter_, "converged": estimator.converged_}
        except Exception as problem:
            row = dict.fromkeys(_SCHEMA) | {"method": estimator.name, "error": str(problem) or type(problem).__name__}
    for warning in caught:
        # The column `converged` says it already.
        if not issubclass(warning.category, ConvergenceWarning):
            warnings.warn(f"{estimator.name}: {warning.message}", warning.category, stacklevel=3)
    return row
