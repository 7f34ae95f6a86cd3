"""A delivery about a vote, as a source sends it: given, changed, skipped or deleted, with the source's own time.

The state of a vote is that of its newest delivery by (time of the source, key): whatever is repeated, late or out of order ends
the same. Deleted votes stay as tombstones, so that an older delivery that comes later cannot bring them back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from crowdwise.errors import InputError
from crowdwise.serve.settings import NAME

__all__ = ["ACTIONS", "FINAL", "Delivery", "delivery_of", "microseconds", "name_of", "pair_ref"]

ACTIONS = ("label", "skip", "delete")
# The time of what nothing comes after.
FINAL = 2**62
_AHEAD = 86_400 * 10**6


@dataclass(frozen=True)
class Delivery:
    """One delivery.

    Attributes
    ----------
    key : str
        The caller's own name for it: the same key is the same delivery.
    ref : str
        The vote it is about: the source's id, or by default item and annotator.
    item, annotator : str or None
        May be unknown where a source deletes by its id alone.
    action : str
        "label", "skip" (asked and not answered) or "delete".
    at : int
        Microseconds since 1970 by the source's clock.
    """

    key: str
    ref: str
    item: str | None
    annotator: str | None
    label: str | None
    action: str
    at: int

    @property
    def rank(self) -> tuple[int, str]:
        """What is newer."""
        return self.at, self.key

    def digest(self) -> str:
        """Of everything but the key and, which a server may have given, the time."""
        text = json.dumps([self.ref, self.item, self.annotator, self.label, self.action])
        return hashlib.sha256(text.encode()).hexdigest()[:32]


def pair_ref(item: str, annotator: str) -> str:
    """The reference of the one vote that an annotator has about an item."""
    return json.dumps([item, annotator], ensure_ascii=False)


def name_of(value: Any, what: str) -> str:
    """An id as text; refused where no database, page or file could hold it."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not NAME.fullmatch(value) or value != value.strip():
        raise InputError(
            f"{what} must be text of 1 to 200 characters without control characters and without spaces at its ends; "
            f"got {str(value)[:60]!a}"
        )
    return value


def microseconds(value: Any, now: int) -> int:
    """A time of a source: seconds since 1970, or text such as 2026-05-01T12:00:00Z (UTC unless it says otherwise)."""
    found: float
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
            found = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
        elif isinstance(value, bool):
            raise ValueError
        else:
            found = float(value)
        made = round(found * 1e6)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(
            f"at must be seconds since 1970 or a time such as 2026-05-01T12:00:00Z; got {str(value)[:60]!a}"
        ) from problem
    if not 0 <= made <= now + _AHEAD:
        raise InputError(f"at must lie between 1970 and a day from now; got {str(value)[:60]!a}")
    return made


def delivery_of(
    given: dict[str, Any], *, classes: frozenset[str], now: int, new_key: Callable[[], str], annotator: str | None = None
) -> Delivery:
    """A delivery from a request; `annotator` is who asks, where it is somebody who may speak for nobody else."""
    action = given.get("action") or "label"
    if action not in ACTIONS:
        raise InputError(f"action must be one of {', '.join(ACTIONS)}; got {str(action)[:60]!a}")
    item = name_of(given.get("item"), "item")
    named = annotator if given.get("annotator") is None else given["annotator"]
    if named is None:
        raise InputError('whose answer is it? add "annotator": "NAME"; only the token of an annotator says it by itself')
    who = name_of(named, "annotator")
    if annotator is not None and who != annotator:
        raise PermissionError(f"this token is of {annotator}, who cannot answer for others")
    label = given.get("label")
    if action == "label":
        label = name_of(label, "label")
        if label not in classes:
            raise InputError(f"label {label[:60]!a} is not among the classes of the campaign: {', '.join(sorted(classes))}")
    elif label is not None:
        raise InputError(f"action {action!r} has no label; leave it out")
    ref = pair_ref(item, who)
    if given.get("ref") is not None:
        if annotator is not None:
            raise PermissionError("ref is for tools that report the votes of others; leave it out")
        ref = f"ref:{name_of(given['ref'], 'ref')}"
    key = name_of(given["key"], "key") if given.get("key") is not None else new_key()
    if annotator is not None:
        # Nobody can use up the keys of others.
        key = f"{annotator}/{key}"
    at = now if given.get("at") is None else microseconds(given["at"], now)
    return Delivery(key, ref, item, who, label, action, at)
