"""Audits of a live campaign: labels of a fit are frozen, a lead checks some of them in a drawn order, and a bound follows.

The certificate is about the frozen labels, with those found wrong corrected, whatever votes come later. Of the risk the j-th
audit has the part 2^-j (`crowdwise.campaign.certified`), so that a lead may begin as many as they like. What was checked is
known from then on, also to later fits.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from crowdwise.campaign.certified import CampaignAudit, begun
from crowdwise.data.gold import UNCLEAR
from crowdwise.errors import InputError
from crowdwise.serve.schema import audits, checks, items
from crowdwise.serve.store import upsert

if TYPE_CHECKING:
    from crowdwise.serve.brain import Brain
    from crowdwise.serve.store import Store

__all__ = ["Audits"]


class Audits:
    """The audit of now, and what it proves as far as that has been found."""

    def __init__(self, store: Store, brain: Brain, seed: int) -> None:
        self._store, self._brain, self._seed = store, brain, seed
        self.now: CampaignAudit | None = None
        self.revision = self.began = 0
        for row in store.rows(sa.select(audits).order_by(audits.c.number.desc()).limit(1)):
            found = store.rows(sa.select(checks.c.item, checks.c.label).where(checks.c.number == row.number))
            self.begun(dict(row._mapping), {check.item: check.label for check in found})

    def begun(self, row: dict[str, Any], truth: dict[str, str] | None = None) -> None:
        """It is on the disk; `truth` are labels that were checked before a restart."""
        design = json.loads(row["design"])
        fields = {name: design[name] for name in ("items", "labels", "size", "settled", "pool", "error")}
        # The order is the design: checks count up to the first item that nobody looked at.
        self.now = CampaignAudit(row["number"], **fields, drawn=len(fields["items"]), truth=truth or {})
        self.revision, self.began = row["revision"], row["began"]
        self._brain.check(replace(self.now, truth=dict(self.now.truth)))

    def begin(self, now: int) -> dict[str, Any]:
        """Freeze the labels of the last fit: the row to write, which `begun` takes then."""
        fit = self._brain.live.fit
        if fit is None or not fit.result.votes.n_votes:
            raise InputError("there are no labels to check yet; wait for votes and the first fit")
        result, number = fit.result, 1 + (0 if self.now is None else self.now.number)
        truth = self._brain.live.truth[self._brain.live.place]
        design = begun(result, np.arange(result.votes.n_items), np.flatnonzero(truth >= 0), [self._seed, number])
        voted = np.flatnonzero(result.votes.votes_per_item > 0)
        frozen = dict(zip(result.votes.items[voted].tolist(), result.labels[voted].tolist(), strict=True))
        known = np.flatnonzero(truth >= 0)
        frozen |= {result.votes.items[n]: self._brain.live.classes[truth[n]] for n in known.tolist()}
        labels = zlib.compress(json.dumps(frozen).encode())
        return {"number": number, "began": now, "revision": fit.revision, "design": json.dumps(design), "labels": labels}

    def waiting(self, n: int) -> list[str]:
        """Items to check next, in the order that was drawn."""
        return [] if self.now is None else self.now.waiting[:n]

    def check(self, item: str, label: str, by: str, now: int) -> Any:
        """The job that writes a checked label; "?" where nobody can tell."""
        audit = self.now
        if audit is None or item not in audit.items:
            raise InputError("this item is not among those drawn to be checked; reload, or begin an audit")
        if label != UNCLEAR and label not in self._brain.live.classes:
            raise InputError(f"a checked label is one of {', '.join(self._brain.live.classes)}, or {UNCLEAR}")
        row = {"number": audit.number, "item": item, "label": label, "by": by, "at": now}

        def write(connection: sa.Connection) -> None:
            upsert(connection, checks, [row])
            # A class may be called "?"; as a label it is one.
            known = label if label != UNCLEAR or label in self._brain.live.classes else None
            connection.execute(items.update().where(items.c.item == item).values(truth=known))

        return write

    def checked(self, item: str, label: str) -> None:
        """It is on the disk."""
        assert self.now is not None
        self.now.truth[item] = label
        self._brain.check(replace(self.now, truth=dict(self.now.truth)))

    def facts(self) -> dict[str, Any] | None:
        """How far the audit is, and the share of frozen labels it proves right."""
        if self.now is None:
            return None
        number, counted, certified = self._brain.facts.get("audit", (0, 0, 0.0))
        known = number == self.now.number
        return {
            "number": self.now.number,
            "revision": self.revision,
            "began": self.began / 1e6,
            "drawn": len(self.now.items),
            "checked": len(self.now.truth),
            "counted": counted if known else 0,
            "certified": certified if known else 0.0,
            # Deliveries since, which the frozen labels do not have.
            "later": self._brain.revision - self.revision,
        }

    def frozen(self) -> dict[str, str]:
        """The labels of the audit, checked ones corrected."""
        if self.now is None:
            raise InputError("no audit has begun; labels are certified by checking some of them")
        row = self._store.rows(sa.select(audits.c.labels).where(audits.c.number == self.now.number))[0]
        found: dict[str, str] = json.loads(zlib.decompress(row.labels))
        return found | {item: label for item, label in self.now.truth.items() if label in self._brain.live.classes}
