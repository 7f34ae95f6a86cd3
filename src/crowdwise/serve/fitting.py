"""The full fit, in a process of its own: it reads the votes from the database and sends back what it makes of them.

The process lives as long as the pipe to the one that started it: when that dies, however it dies, this one ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl
    import sqlalchemy as sa

    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result
    from crowdwise.kernels.types import Integers
    from crowdwise.trust.crowd.table import Findings

__all__ = ["Fit", "Fitter", "Order", "Task", "about_fit", "effective", "fit_votes", "read_votes"]

# Votes must grow by this share before campaigns are simulated again, which takes longer than a fit.
_GROWTH = 0.1


@dataclass(frozen=True)
class Order:
    """What to do: a fit, or what checked labels prove (`audit`, a `CampaignAudit`)."""

    number: int
    audit: Any = None


@dataclass(frozen=True, eq=False)
class Fit:
    """A method fitted to the votes of a revision; `concentration` is what annotators are expected to answer, [A, K, L].

    It is None where there are no annotators yet.
    """

    revision: int
    result: Result
    concentration: Any
    notes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Task:
    """What stays the same between fits."""

    url: str
    classes: tuple[str, ...]
    method: str
    target: float
    probability: float


class Fitter:
    """The process and the pipe to it."""

    def __init__(self, task: Task) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve_fits, args=(task, theirs), name="crowdwise-fits", daemon=True)
        self._process.start()
        # So that the other side sees the end of this one.
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.is_alive()

    def ask(self, order: Order) -> None:
        """Hand over an order; answers come by `answers`."""
        self._pipe.send(order)

    def answers(self, wait: float = 0.0) -> Iterator[tuple[str, Any]]:
        """What has come since; raises `EOFError` or `OSError` where the process has died."""
        while self._pipe.poll(wait):
            yield self._pipe.recv()
            wait = 0.0

    def close(self) -> None:
        """End the process, also in the middle of a fit: everything it does can be done again."""
        self._pipe.close()
        self._process.terminate()
        self._process.join(10)


def serve_fits(task: Task, pipe: Any) -> None:
    """Answer orders until the pipe closes."""
    # The other process decides when to stop; requests come before fits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("CROWDWISE_THREADS", "1")
    if hasattr(os, "nice"):
        os.nice(15)
    from crowdwise.serve.schema import open_engine

    engine, planned = open_engine(task.url), 0
    while True:
        try:
            order: Order = pipe.recv()
            if order.audit is not None:
                pipe.send(("audit", (order.audit.number, order.audit.n_usable, _proven(order.audit, task.probability))))
            else:
                fit, times = fit_votes(task, engine)
                pipe.send(("fit", fit))
                for answer in about_fit(task, fit.result, times, planned):
                    pipe.send(answer)
                    if answer[0] == "plan":
                        planned = fit.result.votes.n_votes
            pipe.send(("done", order.number))
        except (EOFError, BrokenPipeError, ConnectionError):
            return
        except Exception as problem:  # reported on the page and by /health; the next order is another attempt
            pipe.send(("failed", f"{type(problem).__name__}: {problem!s:.300}"))
            pipe.send(("done", order.number))


def _proven(audit: Any, probability: float) -> float:
    return float(audit.right_from(probability))


def fit_votes(task: Task, engine: sa.Engine) -> tuple[Fit, Integers]:
    """The method on all votes, with labels that were checked as known; and when the votes were given, [E]."""
    from crowdwise.campaign.answers import Answers
    from crowdwise.estimator.registry import find, make_aggregator

    start = time.perf_counter()
    revision, votes, truth, times = read_votes(engine, task.classes)
    model = make_aggregator(task.method)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(votes, truth if truth and find(task.method).gold else None)
    result: Result = model.result_
    # Found here, so that the process that answers requests need not.
    concentration = Answers(result, None, None).rows.concentration if votes.n_annotators else None
    _ = result.reliability, result.codes
    notes = tuple(dict.fromkeys(str(one.message)[:300] for one in caught))
    return Fit(revision, result, concentration, notes, time.perf_counter() - start), times


def about_fit(task: Task, result: Result, times: Integers, planned: int) -> Iterator[tuple[str, Any]]:
    """What a fit says of progress, annotators and the votes still to ask; `times` are microseconds of the votes, [E]."""
    from crowdwise import campaign
    from crowdwise.trust.crowd.table import examine

    if not result.votes.n_votes:
        # Of no labels all are right: nothing is reached by that.
        return
    mean, low, high = campaign.expected_accuracy(result)
    chance = campaign.chance_of(result, task.target)
    yield "progress", {"expected": mean, "low": low, "high": high, "chance": chance, "reached": chance >= task.probability}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "annotators", _told(_dated(examine(result, time=times)), result)
    if result.votes.n_votes >= (1 + _GROWTH) * planned:
        found = campaign.plan(result, task.target, task.probability)
        yield "plan", {"votes": found.votes, "low": found.low, "high": found.high, "out_of_reach": found.out_of_reach}


def _told(table: pl.DataFrame, result: Result) -> pl.DataFrame:
    """The table without accuracies of those who share no item with anybody: the model has but what it expects of all."""
    import polars as pl

    from crowdwise.estimator.judgement import answered

    alone = result.votes.annotators[answered(result) == 0].tolist()
    known = pl.when(~pl.col("annotator").is_in(alone))
    return table.with_columns(known.then(pl.col("accuracy", "accuracy_low", "accuracy_high")).name.keep())


def _dated(found: Findings) -> pl.DataFrame:
    """The table of annotators; of those whose quality has changed the reason says since when."""
    import polars as pl

    from crowdwise.serve.drawing import moment

    changed = found.reports["drift"].frame.filter("flag").select("annotator", "reason", "changed_at")
    since = {name: (words, f"{words} since {moment(at / 1e6)}") for name, words, at in changed.iter_rows()}
    reasons = [
        words.replace(*since[name]) if name in since else words
        for name, words in found.table.select("annotator", "reasons").iter_rows()
    ]
    return found.table.with_columns(reasons=pl.Series(reasons, dtype=pl.String))


def read_votes(engine: sa.Engine, classes: tuple[str, ...]) -> tuple[int, Annotations, dict[str, str], Integers]:
    """Revision, all votes with all items and annotators, the true labels that are known, and times, of one moment."""
    import numpy as np
    import sqlalchemy as sa

    from crowdwise.data.annotations import Annotations
    from crowdwise.serve.schema import annotators, deliveries, items, votes

    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            # Without it, every query would see a moment of its own.
            connection.exec_driver_sql("BEGIN")
        else:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        revision = connection.execute(sa.select(sa.func.max(deliveries.c.seq))).scalar() or 0
        named = list(connection.execute(sa.select(items.c.item, items.c.truth)))
        people = list(connection.execute(sa.select(annotators.c.annotator)).scalars())
        columns = votes.c.item, votes.c.annotator, votes.c.label, votes.c.at, votes.c.key
        rows = effective([tuple(row) for row in connection.execute(sa.select(*columns).where(votes.c.action == "label"))])
        connection.rollback()
    item, annotator, label = ([row[k] for row in rows] for k in range(3))
    everything = {"items": [row.item for row in named], "annotators": people, "classes": list(classes)}
    truth = {row.item: row.truth for row in named if row.truth is not None}
    # In the order of votes, which is by item and annotator.
    codes = ({name: n for n, name in enumerate(names)} for names in (everything["items"], people))
    n_e, a_e = (np.array([of[name] for name in side], np.int64) for of, side in zip(codes, (item, annotator), strict=True))
    times = np.array([row[3] for row in rows], np.int64)[np.lexsort((a_e, n_e))]
    return revision, Annotations.from_arrays(item, annotator, label, **everything), truth, times


def effective(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Of rows (item, annotator, label, at, key), the newest of each item and annotator, who may have several by source."""
    newest: dict[tuple[Any, Any], tuple[Any, ...]] = {}
    for row in rows:
        known = newest.get(row[:2])
        if known is None or row[3:] > known[3:]:
            newest[row[:2]] = row
    return list(newest.values())
