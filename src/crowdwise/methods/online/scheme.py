"""How an online method counts votes: its rules and weights, given class shares and a history of annotators.

Estimators hold one from `fit` to `fit`; shards on other machines get one of their own. Nothing of it depends on votes, so that
states can be counted wherever they lie.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from crowdwise.engines.loop import LabelPrior, Progress, Round, Run, loop
from crowdwise.kernels.numerics import log_floored
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.online.arriving import without_votes
from crowdwise.methods.online.loops import visit
from crowdwise.methods.online.records import Memory, Rules
from crowdwise.methods.online.state import State
from crowdwise.parts.priors.marginals import given_class_prior

__all__ = ["Counting", "Scheme"]


class Counting(Protocol):
    """What an online method says of itself."""

    class_prior: Any
    batch: int
    sweeps: int
    tol: float

    def rules_for(self, n_classes: int, history: Floats, history_total: Floats, fixed: Floats) -> Rules:
        """How counts become evidence."""
        ...

    def memory_for(self, size: int) -> Memory:
        """Tables of weights for turns up to `size`; refuses settings under which there are none."""
        ...

    def parts_of(self, state: State, scheme: Scheme, who: Integers) -> tuple[LabelPrior, Any]:
        """Label prior and annotator model of a state, annotators in the order of `who`."""
        ...


class Scheme:
    """Rules and weights of a method, with the history of annotators in the order in which its state knows them."""

    def __init__(self, method: Counting, history: Floats | None) -> None:
        self.method, self.history = method, history
        self._tables: tuple[int, Memory] | None = None
        self._grown: tuple[Floats, Floats] | None = None

    @property
    def forgets(self) -> bool:
        """Whether a vote weighs by its turn."""
        return len(self.method.memory_for(0).gain) > 0

    def memory(self, size: int) -> Memory:
        """Tables long enough, kept from update to update."""
        if self._tables is None or self._tables[0] < size:
            size = max(size, 2 * self._tables[0] if self._tables else 0)
            self._tables = size, self.method.memory_for(size)
        return self._tables[1]

    def rules(self, state: State) -> Rules:
        """How the counts of a state become evidence."""
        fixed = given_class_prior(self.method.class_prior, without_votes(state.classes))
        n_classes = len(state.classes)
        history = np.empty((0, n_classes, n_classes)), np.empty((0, n_classes))
        if self.history is not None:
            history = self.grown_history(state)
        return self.method.rules_for(n_classes, *history, np.empty(0) if fixed is None else log_floored(fixed))

    def parts(self, state: State, who: Integers) -> tuple[LabelPrior, Any]:
        """Label prior and annotator model of a state, annotators in the order of `who`."""
        return self.method.parts_of(state, self, who)

    def grown_history(self, state: State) -> tuple[Floats, Floats]:
        """History of all annotators of the state and its sums over the observed label, zero for those who came later."""
        assert self.history is not None
        n_classes, kept = len(state.classes), self._grown
        if kept is None or len(kept[0]) < len(state.annotators) or kept[0].shape[2] < n_classes:
            grown = np.zeros((2 * len(state.annotators), n_classes, n_classes))
            grown[: len(self.history), : self.history.shape[1], : self.history.shape[2]] = self.history
            kept = self._grown = grown, grown.sum(axis=1)
        return kept

    def sweep(
        self, state: State, items: Integers, memory: Memory, *, max_iter: int, progress: Progress | None = None
    ) -> tuple[Run[None], int]:
        """Visit items of a state until little changes; return the run, and how many votes were read."""
        rules, read = self.rules(state), 0

        def step(_: None) -> tuple[None, Round]:
            nonlocal read
            n_read, change = visit(items, self.method.batch, state.arrays, memory, rules)
            read += n_read
            return None, Round(change / max(len(items), 1))

        return loop(step, None, max_iter=max_iter, tol=self.method.tol, progress=progress), read
