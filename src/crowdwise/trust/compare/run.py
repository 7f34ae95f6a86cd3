"""`compare` and `comparison`: choose, run and measure."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.gold import encode_gold
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.trust.compare.choose import ALL, build, chosen, with_edges
from crowdwise.trust.compare.collect import Collector
from crowdwise.trust.compare.fitting import Outcome, Task, run_method
from crowdwise.trust.compare.prepare import check_options, rows_of, warning_of
from crowdwise.trust.compare.processes import run_all
from crowdwise.trust.compare.table import Comparison
from crowdwise.trust.heldout import deal

__all__ = ["compare", "comparison"]


def compare(
    votes: Any,
    truth: Any = None,
    methods: Sequence[str] | str | None = None,
    *,
    features: Any = None,
    items: Any = None,
    edges: Any = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    random_state: int | None = 0,
    jobs: int | None = None,
    time_limit: float | None = None,
    folds: int = 5,
    progress: Callable[[str, int, int], None] | None = None,
) -> pl.DataFrame:
    """Fit methods to votes and measure each; one row per method, in registry order.

    Parameters
    ----------
    votes : Annotations, frame or matrix
        Gold labels attached to them are set aside, so that the truth cannot leak into a fit.
    truth : mapping, frame, Series or sequence, optional
        True labels of all or some items, in any shape that ``fit(votes, gold)`` takes. Without it only `held_out` and
        `agreement` are measured.
    methods : sequence of str, "all" or None
        Names from the registry; a few quick ones of different kinds (`DEFAULT_METHODS`) when left out.
    features : [R, ...], optional
        One row per item; then classifiers take part too, measured by the labels they recover.
    items : sequence, optional
        Ids of the rows of `features`. Without it, rows are in the order of the votes' items.
    edges : pairs, table or Edges, optional
        Which items depend on each other, by their ids; then methods that need them take part too.
    settings : mapping, optional
        Method name -> its settings.
    random_state : int or None
        Seed of the folds and of every method that draws random numbers, unless its `settings` give another.
    jobs : int, optional
        How many methods run at a time, each in a process and with a thread of its own. Their number changes no result.
        When left out, methods run one after the other in this process, whose memory then says nothing of them.
    time_limit : float, optional
        Seconds that each method may take, held-out votes included; implies processes.
    folds : int
        Folds of held-out votes; 0 leaves them out.
    progress : callable, optional
        Called with (what runs, methods done, methods in all).

    Returns
    -------
    frame
        method; with truth accuracy (ties split), macro_f1, auc, log_loss, ece and ece_debiased; held_out (mean log-probability
        of a vote by a fit without it), agreement (mean share of equal labels with the other methods), seconds, memory_mb,
        n_iter, converged, error. A method that fails has its message in `error` and nulls elsewhere.

    Notes
    -----
    `seconds` is the fit alone: each method first runs on a few votes, so that imports and the
    compilation of kernels are charged to none.

    Examples
    --------
    >>> from crowdwise.data.datasets import demo
    >>> campaign = demo()
    >>> table = compare(campaign.votes, campaign.gold, ["dawid-skene", "majority"])
    >>> table["method"].to_list()
    ['majority', 'dawid-skene']
    """
    return comparison(
        votes,
        truth,
        methods,
        features=features,
        items=items,
        edges=edges,
        settings=settings,
        random_state=random_state,
        jobs=jobs,
        time_limit=time_limit,
        folds=folds,
        n_resamples=0,
        progress=progress,
    ).table


def comparison(
    votes: Any,
    truth: Any = None,
    methods: Sequence[str] | str | None = None,
    *,
    features: Any = None,
    items: Any = None,
    edges: Any = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    random_state: int | None = 0,
    jobs: int | None = None,
    time_limit: float | None = None,
    folds: int = 5,
    reference: str | None = None,
    level: float = 0.95,
    n_resamples: int = 1000,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Do the same as `compare`, with intervals of all measures and paired differences to a reference.

    Parameters
    ----------
    reference : str, optional
        The method that differences are taken to. When left out: the most accurate one, or without truth the one with the
        highest `held_out`.
    level : float
        Of the intervals.
    n_resamples : int
        Resamples of the items behind the intervals (fewer, down to 200, beyond 50,000 items); 0 for no intervals.

    Other parameters are those of `compare`.

    Examples
    --------
    >>> from crowdwise.data.datasets import demo
    >>> found = comparison(demo().votes, demo().gold, ["majority", "one-coin"])
    >>> found.reference
    'one-coin'
    >>> found.intervals.filter(measure="accuracy", method="majority")["difference_high"].item() < 0
    True
    """
    check_options(jobs, time_limit, level, n_resamples)
    votes = replace(as_annotations(votes), gold=None)
    truth_n = None if truth is None else encode_gold(votes, truth)
    if truth_n is not None and not (truth_n >= 0).any():
        raise InputError("the truth names no item of these votes; check that both use the same item ids")
    row = None if features is None else rows_of(votes, features, items)
    if row is not None and (row < 0).any():
        votes, truth_n, row = votes[row >= 0], None if truth_n is None else truth_n[row >= 0], row[row >= 0]
    # Built first: a misspelt name or setting is the caller's to correct, not a row of the table.
    given = settings or {}
    names = chosen(methods, given, votes.n_classes, features is not None, edges is not None)
    given = given if edges is None else with_edges(given, names, edges, votes)
    built = {name: build(name, given.get(name, {}), random_state) for name in names}
    if votes.anonymous and (methods is None or methods == ALL or list(methods) == [ALL]):
        built = {name: made for name, made in built.items() if not getattr(made, "needs_annotators", False)}
        names = list(built)
        text = "methods that learn about annotators are left out: nobody knows who gave these votes"
        warnings.warn(text, DataWarning, stacklevel=2)
    if reference is not None and reference not in names:
        raise SettingError(f"the reference {reference!r} is not among the methods compared: {', '.join(names)}")
    fold = deal(votes, folds, random_state or 0) if folds else None
    task = Task(replace(votes, items=np.arange(votes.n_items)), fold, features, row)
    collector = Collector(task, truth_n)
    _collect(collector, built, task, jobs, time_limit, progress)
    facts = {
        "n_items": votes.n_items,
        "n_votes": votes.n_votes,
        "n_annotators": votes.n_annotators,
        "n_classes": votes.n_classes,
        "n_known": 0 if truth_n is None else int((truth_n >= 0).sum()),
        "n_held_out": 0 if task.fold is None else int((task.fold >= 0).sum()),
        "folds": folds,
        "seed": random_state,
        "time_limit": time_limit,
        "level": level,
    }
    return collector.comparison(
        names, reference=reference, level=level, n_resamples=n_resamples, random_state=random_state, facts=facts
    )


def _collect(
    collector: Collector,
    built: Mapping[str, Any],
    task: Task,
    jobs: int | None,
    time_limit: float | None,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    """Run every method, here or in processes, and hand its outcome over; what cannot be built is an outcome too."""

    def done(outcome: Outcome) -> None:
        for category, text in outcome.warnings:
            warnings.warn(f"{outcome.method}: {text}", warning_of(category), stacklevel=6)
        collector.add(outcome)

    for name, estimator in built.items():
        if isinstance(estimator, str):
            done(Outcome(name, error=estimator))
    ready = [estimator for estimator in built.values() if not isinstance(estimator, str)]
    if jobs is None and time_limit is None:
        for number, estimator in enumerate(ready):
            if progress is not None:
                progress(estimator.name, number, len(ready))
            done(run_method(estimator, task, lambda: None))
    else:
        run_all(ready, task, jobs=jobs or 1, time_limit=time_limit, progress=progress, done=done)
