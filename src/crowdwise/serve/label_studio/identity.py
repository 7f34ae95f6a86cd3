"""Who a campaign is for Label Studio: a mark that stays with its votes, and the token with which it is called."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import sqlalchemy as sa

from crowdwise.serve.access import Access, new_token
from crowdwise.serve.schema import meta
from crowdwise.serve.store import upsert

if TYPE_CHECKING:
    from crowdwise.serve.store import Store

__all__ = ["Identity", "mark_in"]

# The name of the token that Label Studio has, and of the row with the mark.
_TOOL, _MARK = "label-studio", "label-studio: mark"


class Identity:
    """Of a campaign whose store is open.

    Attributes
    ----------
    here : str
        Where Label Studio finds its service.
    mark : str
        Tells its webhook and model connection from those of other campaigns, whatever address or token these have.
    """

    def __init__(self, store: Store, access: Access, here: str) -> None:
        self._store, self._access, self.here = store, access, here
        self.mark = mark_in(store.engine)
        if not self.mark:
            self.mark = secrets.token_hex(6)
            row = {"name": _MARK, "value": self.mark}
            store.submit(lambda connection: upsert(connection, meta, [row])).result()
        self._token = ""

    def knows(self, token: str) -> bool:
        """Whether this is the token that Label Studio should have."""
        caller = self._access.caller(token)
        return caller is not None and (caller.role, caller.name) == ("tool", _TOOL)

    def token(self) -> str:
        """A token for Label Studio, made once; earlier ones are no longer valid."""
        if not self._token:
            self._token = self._store.submit(lambda connection: new_token(connection, "tool", _TOOL)).result()
            self._access.forget()
        return self._token


def mark_in(engine: sa.Engine) -> str:
    """The mark of the campaign in a database, "" where it has none yet; asks nobody to let go of the database."""
    try:
        with engine.connect() as connection:
            return str(connection.execute(sa.select(meta.c.value).where(meta.c.name == _MARK)).scalar() or "")
    except sa.exc.DBAPIError:
        return ""
