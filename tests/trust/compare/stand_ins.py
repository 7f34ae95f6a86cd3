"""Methods that misbehave, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from crowdwise import MajorityVote


class StandIn:
    """The little that a comparison needs of an estimator."""

    name = "stand-in"

    def __init__(self, n_votes: int = 0) -> None:
        self.n_votes = n_votes

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"n_votes": self.n_votes}

    def set_params(self, n_votes: int = 0) -> Any:
        self.n_votes = n_votes
        return self

    def fit(self, votes: Any) -> Any:
        raise NotImplementedError


class Fails(StandIn):
    name = "fails"

    def fit(self, votes: Any) -> Any:
        raise RuntimeError("no luck")


class Dies(StandIn):
    name = "dies"

    def fit(self, votes: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Leaves(StandIn):
    name = "leaves"

    def fit(self, votes: Any) -> Any:
        os.write(2, b"some trouble\nthe last words\n")
        os._exit(3)


class Sleeps(StandIn):
    name = "sleeps"

    def fit(self, votes: Any) -> Any:
        time.sleep(600)


class SleepsLater(StandIn):
    """Fits all the votes at once, and any fold of them never."""

    name = "sleeps-later"

    def fit(self, votes: Any) -> Any:
        if votes.n_votes < self.n_votes:
            time.sleep(600)
        return MajorityVote().fit(votes)


class DiesLater(StandIn):
    name = "dies-later"

    def fit(self, votes: Any) -> Any:
        if votes.n_votes < self.n_votes:
            os.kill(os.getpid(), signal.SIGKILL)
        return MajorityVote().fit(votes)
