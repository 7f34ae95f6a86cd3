"""Who asks: tokens by their hashes, and how often each may ask.

A token is 32 random bytes, so that one round of SHA-256 is enough to keep it; the database has no token.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from crowdwise.serve.schema import tokens

if TYPE_CHECKING:
    from crowdwise.serve.store import Store

__all__ = ["Access", "Caller", "Rates", "new_token"]

# Callers whose rates are remembered.
_REMEMBERED = 10_000


@dataclass(frozen=True)
class Caller:
    """Somebody with a token."""

    role: str
    name: str

    @property
    def annotator(self) -> str | None:
        """Whom alone this caller may speak for; None for everybody."""
        return self.name if self.role == "annotator" else None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def new_token(connection: sa.Connection, role: str, name: str) -> str:
    """Make a token, which is shown this once; an earlier one of the same name and role is no longer valid."""
    token = secrets.token_urlsafe(32)
    connection.execute(tokens.delete().where(tokens.c.role == role, tokens.c.name == name))
    connection.execute(tokens.insert().values(hash=_hash(token), role=role, name=name))
    return token


class Access:
    """Who has which token; `forget` after one has changed.

    Whoever serves a campaign is the one process that changes it: nobody is looked up in the database twice.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._reading = store, threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Read the tokens again."""
        # Whoever reads last has seen what the others wrote.
        with self._reading:
            self._known = {row.hash: Caller(row.role, row.name) for row in self._store.rows(sa.select(tokens))}

    def caller(self, token: str) -> Caller | None:
        """Who has this token; None where nobody has."""
        return self._known.get(_hash(token)) if 20 <= len(token) <= 200 else None


class Rates:
    """A bucket of requests per caller, which fills with time."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._rate, self._burst = per_second, max(burst, 1.0)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, who: str) -> bool:
        """Take one request from the bucket, if there is one in it."""
        now = time.monotonic()
        left, then = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        allowed = left >= 1
        self._left[who] = (left - 1 if allowed else left), now
        while len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return allowed
