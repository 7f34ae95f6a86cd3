"""Progress on stderr, only while a person is watching."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.progress import Progress

    from crowdwise.estimator.base import Aggregator
    from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["epochs", "iterations", "steps"]


@contextmanager
def iterations(estimator: Aggregator, quiet: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of `fit`: iterations so far and how much the posterior still moves."""
    with _bar(quiet) as bar:
        if bar is None:
            yield None
            return
        most = estimator.get_params().get("max_iter")
        task = bar.add_task(estimator.name, total=most)
        yield lambda iteration, bound, change: bar.update(
            task, completed=iteration, description=f"{estimator.name}: change {change:.1e}"
        )


@contextmanager
def epochs(estimator: CrowdClassifier, quiet: bool) -> Iterator[Callable[[int, float, float], None] | None]:
    """Give the callback of a classifier's `fit`: epochs so far and the score of held-out votes, or how much still moves."""
    with _bar(quiet) as bar:
        if bar is None:
            yield None
            return
        settings = estimator.get_params(deep=False)
        network = "epochs" in settings or getattr(estimator, "has_network", False)
        task = bar.add_task(estimator.name, total=settings.get("epochs", settings.get("max_iter")))

        def show(number: int, objective: float, score: float) -> None:
            # Held out is a loss per vote; without any, as in the last run on all items, it is not a number.
            text = "training on all items" if score != score else f"held-out {-score:.4f}" if network else f"change {score:.1e}"
            bar.update(task, completed=number, description=f"{estimator.name}: {text}")

        yield show


@contextmanager
def steps(quiet: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """Give the callback of `compare`: which method is running, and how many are done."""
    with _bar(quiet) as bar:
        if bar is None:
            yield None
            return
        task = bar.add_task("", total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)


@contextmanager
def _bar(quiet: bool) -> Iterator[Progress | None]:
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    # stdout may be a pipe whose bytes are the result: it is left alone.
    with Progress(*columns, console=Console(stderr=True, color_system=colours), transient=True, redirect_stdout=False) as bar:
        yield bar
