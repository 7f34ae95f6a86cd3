"""From outcomes to a comparison: each is measured as it comes, and large posteriors are not kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.errors import InputError
from crowdwise.kernels.types import Floats
from crowdwise.trust.compare.fitting import Outcome, Task
from crowdwise.trust.compare.resample import bootstrap, item_scores, n_resamples_for
from crowdwise.trust.compare.table import (
    AGAINST_TRUTH,
    DEBIASED,
    HELD_OUT,
    MEASURES,
    Comparison,
    Scored,
    agreement_of,
    best_of,
    intervals_of,
    matrix_of,
    row_of,
)
from crowdwise.trust.metrics import ece_by_chance, without_chance

__all__ = ["Collector"]


class Collector:
    """Takes outcomes one by one, in any order, and makes the comparison of them.

    Parameters
    ----------
    task : Task
    truth : [N] or None
        Class codes, -1 where unknown.
    """

    def __init__(self, task: Task, truth: NDArray[np.int16] | None) -> None:
        self._task = task
        self._known = None if truth is None else np.flatnonzero(truth >= 0)
        self._truth = np.empty(0, np.int64) if truth is None else truth[truth >= 0].astype(np.int64)
        self._voted = np.flatnonzero(task.votes.votes_per_item > 0)
        held = np.zeros(0, np.int64) if task.fold is None else np.flatnonzero(task.fold >= 0)
        self._held, self._per_item = held, np.bincount(task.votes.item[held], minlength=task.votes.n_items)
        self._scored: dict[str, Scored] = {}

    def add(self, outcome: Outcome) -> None:
        """Measure an outcome and keep what the comparison needs of it."""
        scored = Scored(outcome, {})
        if outcome.posterior is not None and outcome.codes is not None:
            try:
                self._measure(scored, outcome.posterior)
            except InputError as problem:
                outcome.error, scored.values, scored.scores = str(problem), {}, None
            else:
                scored.codes = outcome.codes[self._voted].astype(np.int16)
                if outcome.log_prob is not None and len(self._held):
                    scored.held_out = self._by_item(outcome.log_prob[self._held])
                    scored.values[HELD_OUT] = float(outcome.log_prob[self._held].mean())
        outcome.posterior = outcome.codes = outcome.log_prob = None
        self._scored[outcome.method] = scored

    def _by_item(self, log_prob: Floats) -> Floats:
        """Sum over the held-out votes of every item, [N]."""
        summed = np.bincount(self._task.votes.item[self._held], log_prob, minlength=self._task.votes.n_items)
        return np.asarray(summed, float)

    def _measure(self, scored: Scored, posterior: Floats) -> None:
        if not np.isfinite(posterior).all():
            raise InputError("its posterior is not finite")
        if self._known is not None:
            seen = posterior[self._known]
            found = {measure.__name__: measure(seen, self._truth) for measure in MEASURES}
            scored.values |= found | {DEBIASED: without_chance(found["ece"], ece_by_chance(seen, self._truth))}
            scored.scores = item_scores(seen, self._truth)

    def comparison(
        self,
        methods: Sequence[str],
        *,
        reference: str | None = None,
        level: float = 0.95,
        n_resamples: int = 1000,
        random_state: int | None = 0,
        facts: dict[str, Any] | None = None,
    ) -> Comparison:
        """The tables, with methods in this order."""
        rows = [self._scored[name] for name in methods]
        against = [] if self._known is None else [*AGAINST_TRUTH, DEBIASED]
        agreement = agreement_of(rows)
        table = pl.DataFrame(
            [row_of(scored, agreement) for scored in rows],
            schema={"method": pl.String}
            | dict.fromkeys([*against, HELD_OUT, "agreement", "seconds", "memory_mb"], pl.Float64)
            | {"n_iter": pl.Int64, "converged": pl.Boolean, "error": pl.String},
        )
        reference = reference or best_of(table, against)
        draws: dict[tuple[str, str], Floats] = {}
        if n_resamples and self._known is not None:
            known = {scored.outcome.method: scored.scores.measure for scored in rows if scored.scores is not None}
            draws |= self._resampled(known, AGAINST_TRUTH, len(self._truth), n_resamples, random_state)
        if n_resamples and len(self._held):
            company = self._per_item > 0
            votes = {s.outcome.method: self._mean_of(s.held_out[company]) for s in rows if s.held_out is not None}
            draws |= self._resampled(votes, (HELD_OUT,), int(company.sum()), n_resamples, random_state)
        return Comparison(
            table, intervals_of(rows, draws, reference, level), matrix_of(rows, agreement), reference, facts or {}
        )

    def _mean_of(self, log_prob: Floats) -> Callable[[Floats], Floats]:
        """Mean log-probability of a vote where items count several times."""
        n_votes = self._per_item[self._per_item > 0]
        return lambda weight: np.array([(weight @ log_prob) / (weight @ n_votes)])

    @staticmethod
    def _resampled(
        measures: Mapping[str, Callable[[Floats], Floats]],
        names: Sequence[str],
        n_items: int,
        most: int,
        random_state: int | None,
    ) -> dict[tuple[str, str], Floats]:
        """Resampled values, [n_resamples], by method and measure; none of a single item, whose resamples are all equal."""
        if not measures or n_items < 2:
            return {}
        drawn = bootstrap(list(measures.values()), n_items, n_resamples_for(n_items, most), random_state)
        return {(method, name): drawn[:, m, k] for m, method in enumerate(measures) for k, name in enumerate(names)}
