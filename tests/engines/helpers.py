"""What tests of several engines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from crowdwise.engines.shards import Kept, Tally, Whole


class InTwo:
    """Two shards in memory, for parts that are fitted to counts; remembers what it was told to keep."""

    keeps = True

    def __init__(self, votes: Any, first: int) -> None:
        self.parts = [Whole.of(part) for part in (votes[:first], votes[first:])]
        for part in self.parts:
            part.shard.alone = False
        self.memory: Kept | None = None

    @property
    def posterior(self) -> Any:
        return np.concatenate([part.posterior for part in self.parts])

    def total(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        return self.parts[0].total(step, *arguments) + self.parts[1].total(step, *arguments)

    refine = total

    def renew(self, step: Callable[..., Tally], *arguments: Any) -> Tally:
        return self.parts[0].renew(step, *arguments) + self.parts[1].renew(step, *arguments)

    def keep(self, name: str, kept: Kept, last: bool = False) -> None:
        self.memory = kept

    def kept(self, name: str) -> Kept | None:
        return self.memory
