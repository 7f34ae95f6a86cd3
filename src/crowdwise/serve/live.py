"""What is thought of every item now: posteriors of the last full fit, moved by every vote since.

Between fits annotators are as the last fit had them, and items with new, changed or deleted votes are inferred again from all
their votes (`predict_proba`): at the cost of these items, and exactly what the fit would say of them with the same annotators.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import best_class
from crowdwise.kernels.types import Array, Floats, Integers

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.serve.fitting import Fit

__all__ = ["Live"]


class Live:
    """Items by position, in the order in which they came.

    Attributes
    ----------
    names, index : list of str, dict
        The items, and the position of each.
    posterior : [N, K]
        As sure as the method's confidence says.
    n_votes, truth : [N]
        Votes that count, and the code of the known label or -1.
    fit : Fit or None
        The last full fit; None before the first.
    place : [N of the fit]
        Positions of the items of the fit.
    """

    def __init__(self, classes: Sequence[str], method: str) -> None:
        self.classes, self.method = tuple(classes), method
        self._code = {name: k for k, name in enumerate(classes)}
        self.names: list[str] = []
        self.index: dict[str, int] = {}
        self._posterior = np.empty((0, len(classes)))
        self._n_votes, self._truth, self._label = (np.empty(0, np.int64) for _ in range(3))
        self.fit: Fit | None = None
        self._model: Any = None
        self.place: Integers = np.empty(0, np.int64)
        self.lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def posterior(self) -> Floats:
        """[N, K]."""
        return self._posterior[: len(self.names)]

    @property
    def n_votes(self) -> Integers:
        """[N]."""
        return self._n_votes[: len(self.names)]

    @property
    def truth(self) -> Integers:
        """[N]."""
        return self._truth[: len(self.names)]

    @property
    def label(self) -> Integers:
        """Code of the label, [N]; -1 where there is none."""
        return self._label[: len(self.names)]

    @property
    def confidence(self) -> Floats:
        """Probability of the label, [N]; nan where there is none."""
        label = self.label
        found = self.posterior[np.arange(len(label)), np.maximum(label, 0)]
        return np.where(label >= 0, found, np.nan)

    def add(self, items: Sequence[tuple[str, str | None]]) -> None:
        """Make items known, with their true label where it is; a label of an item that is known becomes known."""
        with self.lock:
            new = [name for name, _ in items if name not in self.index]
            first, size = len(self.names), len(self._posterior)
            if first + len(new) > size:
                more = max(first + len(new), 2 * size, 1024) - size
                even = np.full((more, len(self.classes)), 1 / len(self.classes))
                self._posterior = np.concatenate([self._posterior, even])
                self._n_votes = np.concatenate([self._n_votes, np.zeros(more, np.int64)])
                self._truth, self._label = (np.concatenate([old, np.full(more, -1)]) for old in (self._truth, self._label))
            for name in new:
                self.index[name] = len(self.names)
                self.names.append(name)
            for name, truth in items:
                if truth is not None and truth in self._code:
                    self._settle(self.index[name], self._code[truth])

    def _settle(self, position: int, code: int) -> None:
        self._truth[position] = self._label[position] = code
        self._posterior[position] = np.eye(len(self.classes))[code]

    def count(self, votes: dict[str, int]) -> None:
        """Set the numbers of votes of some items, before they are inferred."""
        with self.lock:
            for name, n in votes.items():
                self._n_votes[self.index[name]] = n

    def adopt(self, fit: Fit) -> None:
        """Take over a full fit: every item is as it has it; those with votes since come by `infer`."""
        from crowdwise.estimator.registry import make_aggregator

        result = fit.result
        place = np.array([self.index[name] for name in result.votes.items.tolist()], np.int64)
        model = make_aggregator(self.method)
        model.keep_outcome(result)
        with self.lock:
            # Of the first votes in a campaign only a method that knows other crowds has something to say.
            speaks = result.votes.n_annotators or self.method == "consensus"
            self.fit, self._model, self.place = fit, model if speaks else None, place
            counts = np.asarray(result.votes.votes_per_item)
            free = self._truth[place] < 0
            self._n_votes[place] = counts
            self._posterior[place[free]] = result.posterior[free]
            self._label[place[free]] = np.where(counts[free] > 0, result.codes[free], -1)

    def infer(self, items: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Items whose votes have changed, and all votes (item, annotator, label) that they have now."""
        counts = dict.fromkeys(items, 0)
        for row in rows:
            counts[row[0]] += 1
        voted = [name for name, count in counts.items() if count]
        posterior: Array = np.empty((0, len(self.classes)))
        if voted and self._model is not None:
            columns = ([row[k] for row in rows] for k in range(3))
            votes = Annotations.from_arrays(*columns, classes=list(self.classes))
            # In the order of the items of these votes.
            voted = votes.items.tolist()
            posterior = self._model.predict_proba(votes)
        with self.lock:
            self._put(counts, voted, posterior)

    def _put(self, counts: dict[str, int], voted: list[str], posterior: Floats) -> None:
        shares = np.full(len(self.classes), 1 / len(self.classes))
        if self.fit is not None:
            shares = np.asarray(self.fit.result.class_prior)
        decided = best_class(posterior, shares)
        found = dict(zip(voted, range(len(posterior)), strict=False))
        for name, count in counts.items():
            position = self.index[name]
            self._n_votes[position] = count
            if self._truth[position] >= 0:
                continue
            row = found.get(name)
            self._posterior[position] = shares if row is None else posterior[row]
            self._label[position] = -1 if row is None else decided[row]

    def frame(self) -> pl.DataFrame:
        """A row per item, with the columns of `Result.items_frame`."""
        import polars as pl

        with self.lock:
            names, label = pl.Series("item", self.names, dtype=pl.String), self.label.copy()
            confidence, n_votes, truth, posterior = (
                self.confidence,
                self.n_votes.copy(),
                self.truth.copy(),
                self.posterior.copy(),
            )
            # Of a service that has just started nothing is lost: the first fit runs.
            source, not_yet = ("", "fitting") if self.fit is None else (self.fit.result.confidence_source, "not inferred yet")
        known, voted, none = truth >= 0, label >= 0, n_votes == 0
        columns = {
            "item": names,
            "label": pl.Series([*self.classes, None], dtype=pl.String)[np.where(voted, label, len(self.classes))],
            "confidence": pl.Series(confidence).fill_nan(None),
            "confidence_source": np.select([known, voted], ["gold", source], default=""),
            "n_votes": n_votes,
            "note": np.select([known, none, ~voted], ["known", "no votes", not_yet], default=""),
        }
        return pl.DataFrame(columns | {f"p({name})": posterior[:, k] for k, name in enumerate(self.classes)})
