"""Who asks: tokens by their hashes, and how often each may ask.

A token is 32 random bytes, so that one round of SHA-256 is enough to keep it; the database has no token.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from crowdwise.serve.schema import tokens

if TYPE_CHECKING:
    from crowdwise.serve.store import Store

__all__ = ["Access", "Caller", "Rates", "new_token"]

# Seconds for which a token is believed without a look into the database.
_BELIEVED = 5.0
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
    """Looks tokens up; `forget` after one has changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, tuple[float, Caller]] = OrderedDict()

    def forget(self) -> None:
        """Look every token up again."""
        self._known.clear()

    def caller(self, token: str) -> Caller | None:
        """Who has this token; None where nobody has."""
        if not 20 <= len(token) <= 200:
            return None
        wanted, now = _hash(token), time.monotonic()
        known = self._known.get(wanted)
        if known is not None and now - known[0] < _BELIEVED:
            return known[1]
        rows = self._store.rows(sa.select(tokens).where(tokens.c.hash == wanted))
        if not rows or not hmac.compare_digest(rows[0].hash, wanted):
            self._known.pop(wanted, None)
            return None
        found = Caller(rows[0].role, rows[0].name)
        self._known[wanted] = now, found
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found


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
