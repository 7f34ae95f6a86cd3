"""The thread that follows the votes: infers items again as votes come, asks for full fits, and keeps the list of questions.

It reads the database and nothing else, so that a restart ends in the same state; requests never wait for it.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import sqlalchemy as sa

from crowdwise.serve.fitting import Fitter, Order, Task, effective
from crowdwise.serve.live import Live
from crowdwise.serve.questions import Desk
from crowdwise.serve.schema import annotators, deliveries, items, leases, snapshots, votes
from crowdwise.serve.settings import Settings
from crowdwise.serve.store import Store

__all__ = ["Brain"]

HOUR = 3600 * 10**6
# Seconds between looks at the database while votes come, and while none come; between lists of questions and between snapshots.
_QUICK, _IDLE, _LIST, _SNAPSHOT = 0.2, 1.0, 1.0, 60.0
_CHUNK = 500
# Shares of the time that following votes and fitting take at most where there is much to do; votes are seen within a second.
_FOLLOWING, _FITTING, _LONGEST = 0.2, 0.2, 0.8


class Brain:
    """Follows a store.

    Attributes
    ----------
    live : Live
        What is thought of every item.
    desk : Desk
        What to ask next.
    revision : int
        The delivery up to which `live` has them all.
    facts : dict
        What the last fit said: "progress", "plan", "annotators" (a frame), "failed".
    counts : dict
        Items, votes, labels, confidence and cost, as of `revision`.
    """

    def __init__(self, store: Store, settings: Settings, publish: Callable[[str, dict[str, Any]], None]) -> None:
        self.store, self.settings, self._publish = store, settings, publish
        self.live = Live(settings.campaign.classes, settings.inference.method)
        self.desk = Desk(settings)
        self.facts: dict[str, Any] = {}
        self.revision = self.n_fits = 0
        # Deliveries by hour.
        self.hours: Counter[int] = Counter()
        # Items of which there is something to show.
        self.shows: set[str] = set()
        self.costs: dict[str, float] = {}
        self.capacity: dict[str, int | None] = {}
        # Revisions of the last fit and of the last order of one, and when it was given.
        self._fitted_at, self._asked_for, self._asked_at, self._busy = 0, 0, 0.0, False
        self._rests_until = 0.0
        self._listed, self._kept, self._desk_is_old = 0.0, 0.0, True
        self._orders = 0
        # The newest audit that is to be judged.
        self._audits: deque[Any] = deque(maxlen=1)
        self._new_truth, self._position = False, -1
        self._names = threading.Lock()
        self._stop = threading.Event()
        self._fitter: Fitter | None = None
        self._load()
        self._thread = threading.Thread(target=self._run, name="crowdwise-brain", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def close(self) -> None:
        """End the thread and the process of fits."""
        self._stop.set()
        self.store.committed.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._fitter is not None:
            self._fitter.close()

    # -- what others ask for -------------------------------------------------------------------

    @property
    def given(self) -> Counter[str]:
        """Votes that count by annotator."""
        return self.store.given

    @property
    def idle(self) -> bool:
        """Whether every delivery is in, also in the last fit."""
        return not self._busy and self.live.fit is not None and self._fitted_at == self.revision

    def check(self, audit: Any) -> None:
        """Ask what an audit proves; the answer comes as facts."""
        self._audits.append(audit)
        self._new_truth = True
        self.store.committed.set()

    def learn(self) -> None:
        """Take in true labels that were written."""
        self._new_truth = True
        self.store.committed.set()

    # -- the thread ----------------------------------------------------------------------------

    def _load(self) -> None:
        """What the database has: items, annotators, leases, counts."""
        hour = deliveries.c.received // HOUR
        self.hours.update({int(row[0]): row[1] for row in self.store.rows(sa.select(hour, sa.func.count()).group_by(hour))})
        for row in self.store.rows(sa.select(leases)):
            self.desk.lease(row.item, row.annotator, row.expires)
        self.revision = self.store.newest()
        self.refresh()
        people = sa.func.count(sa.distinct(votes.c.annotator))
        voted = sa.select(votes.c.item, people).where(votes.c.action == "label").group_by(votes.c.item)
        self.live.count({row[0]: row[1] for row in self.store.rows(voted)})
        self.counts = self._counted()

    def refresh(self, truths: bool = False) -> None:
        """Take in items and annotators that came since; `truths` where true labels became known."""
        with self._names:
            rows = sa.select(items.c.position, items.c.item, items.c.truth, items.c.content.is_not(None).label("shows"))
            newer = rows.where(items.c.position > self._position).order_by(items.c.position)
            found = self.store.rows(rows.where(items.c.truth.is_not(None))) if truths else []
            new = self.store.rows(newer)
            self.live.add([(row.item, row.truth) for row in [*new, *found]])
            self._position = new[-1].position if new else self._position
            self.shows |= {row.item for row in new if row.shows}
            # Somebody may be asked about them before anybody votes.
            self._desk_is_old |= bool(new or found)
            people = self.store.rows(sa.select(annotators))
            self.costs = {row.annotator: row.cost for row in people}
            self.capacity = {row.annotator: row.capacity for row in people}

    def _run(self) -> None:
        while not self._stop.is_set():
            self.store.committed.wait(_QUICK if self._busy else _IDLE)
            self.store.committed.clear()
            start = time.monotonic()
            try:
                self.step()
            except Exception as problem:  # a database that is away for a moment; /health says so
                self.facts["failed"] = f"{type(problem).__name__}: {problem!s:.300}"
                self._stop.wait(_IDLE)
            took = time.monotonic() - start
            self._stop.wait(min(max(_QUICK, took * (1 / _FOLLOWING - 1)), _LONGEST))

    def step(self) -> None:
        """Take in what has come."""
        self._hear()
        changed = self._follow()
        now = time.monotonic()
        self._order(now)
        if now - self._listed >= _LIST and (changed or self._desk_is_old):
            self._listed, self._desk_is_old = now, False
            self.counts = self._counted()
            self.desk.plan(self.live, self.costs)
        elif changed:
            self._desk_is_old = True

    def _follow(self) -> bool:
        """Infer again the items whose votes have changed."""
        revision = self.store.newest()
        truths, self._new_truth = self._new_truth, False
        if revision == self.revision and not truths:
            return False
        self.refresh(truths)
        received = sa.select(deliveries.c.received).where(deliveries.c.seq > self.revision, deliveries.c.seq <= revision)
        self.hours.update(row[0] // HOUR for row in self.store.rows(received))
        touched = self._infer(self.revision, revision)
        self.revision = revision
        self.counts = self._counted()
        shown = [self._about(name) for name in touched[-20:]]
        self._publish("votes", {"revision": revision, "votes": self.counts["votes"], "items": shown})
        return True

    def _infer(self, after: int, until: int) -> list[str]:
        """Infer again the items of the deliveries after one up to another."""
        newer = sa.select(votes.c.item).where(votes.c.seq > after, votes.c.seq <= until, votes.c.item.is_not(None))
        touched = sorted({row[0] for row in self.store.rows(newer)})
        columns = votes.c.item, votes.c.annotator, votes.c.label, votes.c.at, votes.c.key
        for start in range(0, len(touched), _CHUNK):
            names = touched[start : start + _CHUNK]
            query = sa.select(*columns).where(votes.c.item.in_(names), votes.c.action == "label")
            self.live.infer(names, effective([tuple(row) for row in self.store.rows(query)]))
        return touched

    def _about(self, name: str) -> dict[str, Any]:
        position, live = self.live.index[name], self.live
        code = int(live.label[position])
        label = None if code < 0 else live.classes[code]
        return {
            "item": name,
            "label": label,
            "confidence": None if label is None else round(float(live.posterior[position, code]), 4),
            "n_votes": int(live.n_votes[position]),
        }

    def _order(self, now: float) -> None:
        """Ask for a fit where one is due: at once the first, then after so many votes, or so many seconds with any."""
        if self._busy:
            return
        if self._fitter is None or not self._fitter.alive:
            rules, goal = self.settings.inference, self.settings.target
            self._fitter = Fitter(
                Task(self.settings.url, self.settings.campaign.classes, rules.method, goal.accuracy, goal.probability)
            )
        if self._audits:
            self._ask(Order(self._orders, self._audits.pop()))
            return
        rules, first = self.settings.inference, self._orders == 0
        open_still = self.live.fit is None or self._fitted_at < self.revision
        rested = now - self._rests_until >= 0
        enough = rested and self.revision - self._asked_for >= rules.refit_votes
        # Of the first votes nothing is known until there is a fit to some.
        enough |= self.live.fit is not None and not self.live.fit.result.votes.n_votes
        if first or (open_still and (enough or now - self._asked_at >= rules.refit_seconds)):
            self._asked_at, self._asked_for = now, self.revision
            self._ask(Order(self._orders))

    def _ask(self, order: Order) -> None:
        assert self._fitter is not None
        self._orders, self._busy = self._orders + 1, True
        self._fitter.ask(order)

    def _hear(self) -> None:
        """What the process of fits has to say."""
        if self._fitter is None:
            return
        try:
            for kind, content in self._fitter.answers():
                self._take(kind, content)
        except (EOFError, OSError):
            self.facts["failed"] = "the process of fits has ended; it is started again"
            self._fitter.close()
            self._fitter, self._busy = None, False

    def _take(self, kind: str, content: Any) -> None:
        if kind == "done":
            self._busy, now = False, time.monotonic()
            self._rests_until = now + (now - self._asked_at) * (1 / _FITTING - 1)
            return
        if kind == "fit":
            self.refresh()
            self.live.adopt(content)
            self.n_fits, self._fitted_at, self._desk_is_old = self.n_fits + 1, content.revision, True
            self.facts.pop("failed", None)
            # Votes that came while it ran.
            self._infer(content.revision, self.revision)
            self.counts = self._counted()
        else:
            self.facts[kind] = content
        if kind == "progress":
            self._snapshot()
        self._publish(kind, {"revision": self._fitted_at})

    def _snapshot(self) -> None:
        """Keep how far the campaign is, at most once a minute."""
        if time.monotonic() - self._kept < _SNAPSHOT and self._kept:
            return
        self._kept = time.monotonic()
        facts = json.dumps(self.counts | self.facts["progress"])
        row = {"at": time.time_ns() // 1000, "revision": self.revision, "facts": facts}
        self.store.execute(snapshots.insert().values(**row))

    def _counted(self) -> dict[str, Any]:
        """Counts of now."""
        live, given = self.live, self.given.copy()
        with live.lock:
            label, confidence = live.label.copy(), live.confidence
        labelled = label >= 0
        sure = confidence[labelled]
        return {
            "items": len(label),
            "labelled": int(labelled.sum()),
            "votes": sum(given.values()),
            "spent": float(sum(n * self.costs.get(who, 1.0) for who, n in given.items())),
            "mean_confidence": float(sure.mean()) if len(sure) else None,
            "sure": float((sure >= 0.95).sum() / max(len(label), 1)),
            "shares": [int(n) for n in np.bincount(label[labelled], minlength=len(live.classes))],
        }
