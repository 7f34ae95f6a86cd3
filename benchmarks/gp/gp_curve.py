"""Test accuracy after every epoch of a training, beside its seconds: the clock stands still while the network is judged."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import torch

# Test rows shown to the network at once, so that watching takes no memory of note.
SHOWN = 2_000


class Curve:
    """Watches one fit: give `progress` to it, and read `points` and `seconds` when it has ended.

    Points begin with the training of the network; the choice of a likelihood before it counts in the seconds. A `model` that
    is not trained in epochs has no points, and with `watched=False` none has.
    """

    def __init__(
        self,
        model: Any,
        X_test: np.ndarray,
        truth_test: np.ndarray,
        *,
        watched: bool = True,
        clock: Callable[[], float] = process_time,
    ) -> None:
        self.points: list[tuple[float, float]] = []
        self._rows, self._truth, self._clock = torch.from_numpy(X_test), truth_test, clock
        self._network: tuple[Any, torch.dtype] | None = None
        self._paused = 0.0
        if watched and hasattr(model, "_network"):
            self._own = model._network
            model._network = self._build
        self._started = clock()

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self._clock() - self._started - self._paused

    def _build(self, rows: Any, start: Any) -> Any:
        """What the model would have built, and a note of it; after early stopping comes another."""
        made = self._own(rows, start)
        self._network = made[0], start.dtype
        return made

    def progress(self, *_: Any) -> None:
        """Judge the network as it is."""
        if self._network is None:
            return
        now, stopped = self.seconds, self._clock()
        network, dtype = self._network
        network.eval()
        with torch.no_grad():
            answer = torch.cat([network(part.to(dtype)).argmax(1) for part in self._rows.split(SHOWN)]).numpy()
        network.train()
        self.points.append((now, float((answer == self._truth).mean())))
        self._paused += self._clock() - stopped
