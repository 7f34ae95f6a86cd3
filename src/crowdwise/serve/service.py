"""A live campaign as an object: what requests, files and pages ask of it."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import sqlalchemy as sa

from crowdwise.errors import InputError, did_you_mean
from crowdwise.serve.access import Access, Caller, Rates, new_token
from crowdwise.serve.audits import Audits
from crowdwise.serve.brain import HOUR, Brain
from crowdwise.serve.events import Events
from crowdwise.serve.schema import annotators, audits, deliveries, items, leases, snapshots, votes
from crowdwise.serve.settings import Settings
from crowdwise.serve.store import Store, upsert
from crowdwise.serve.votes import Delivery, delivery_of, name_of

__all__ = ["Service", "now"]

# Candidates that are looked at for one question, and annotators whose answers are kept in memory.
_MOST_LOOKED_AT, _REMEMBERED = 5_000, 2_000
_SECOND = 10**6


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class Service:
    """Store, inference, questions and audits of one campaign; its coroutines belong to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.events = settings, Events()
        # To whoever started it; nothing is said where nobody listens.
        self.say: Callable[[str], None] = lambda words: None
        # What deserves a look at the start.
        self.remarks: list[str] = []
        self.store = Store(settings.url)
        try:
            self.store.submit(self._set_up).result()
        except BaseException:
            self.store.close()
            raise
        self.brain = Brain(self.store, settings, self.events.publish)
        self.access = Access(self.store)
        self.rates = Rates(settings.server.rate, 4 * settings.server.rate)
        self.strangers = Rates(5.0, 20.0)
        self.audits = Audits(self.store, self.brain, settings.questions.seed)
        self.started, self._expired = now(), 0
        self.counts: dict[str, int] = {}
        self._answered: OrderedDict[str, set[int]] = OrderedDict()
        self._classes = frozenset(settings.campaign.classes)

    def _set_up(self, connection: sa.Connection) -> None:
        """Items and annotators of the campaign's file; classes that votes have and the file has not are refused."""
        classes = self.settings.campaign.classes
        strange = connection.execute(sa.select(votes.c.label).where(votes.c.label.not_in(classes)).limit(1)).scalar()
        if strange is not None:
            raise InputError(f"[campaign] classes: there are votes for {strange[:60]!a}, which is not among them; add it")
        entries = [{"annotator": one.name, "capacity": one.capacity, "cost": one.cost} for one in self.settings.annotators]
        if entries:
            upsert(connection, annotators, entries)
        if self.settings.campaign.items is not None:
            self._take_items(connection, self.settings.campaign.items)

    def _take_items(self, connection: sa.Connection, name: str) -> None:
        """The items of the campaign's table: new ones, and what is shown now of those that are there."""
        from crowdwise.serve.files import local_pictures, read_items

        given = read_items(self.settings.place(name))
        before = connection.execute(sa.select(sa.func.count()).select_from(items)).scalar() or 0
        changed, new = self.store.show_items(connection, given), self.store.add_items(connection, given)
        if changed:
            self.remarks.append(f"{name}: of {changed:,} known items other columns are shown from now on; their votes stay")
        if before and new:
            self.remarks.append(f"{name}: items that are new: {new:,}")
        if before + new > len(given):
            self.remarks.append(
                f"{name}: items of the campaign that are not in it: {before + new - len(given):,}; they stay, as an item whose "
                "id was corrected does beside the new one"
            )
        local = local_pictures(given)
        if local:
            (item, picture), more = local[0], f" and {len(local) - 1:,} more" if len(local) > 1 else ""
            self.remarks.append(
                f"{name}: the picture {picture[:80]!a} of item {item[:60]!a}{more} will be seen as text: write its full "
                "address, http://... or https://..., where a web server has it"
            )

    def close(self) -> None:
        """Write what waits, end threads and processes."""
        self.brain.close()
        self.store.close()

    # -- in ------------------------------------------------------------------------------------

    async def take(self, given: Sequence[Any], caller: Caller) -> list[str]:
        """Take in deliveries as requests have them, all or none."""
        time_of = now()
        made = []
        for number, one in enumerate(given):
            if not isinstance(one, dict):
                raise InputError(f"vote {number} is not an object with item, annotator and label")
            try:
                made.append(self._delivery(one, caller, time_of))
            except InputError as problem:
                raise InputError(f"vote {number}: {problem}" if len(given) > 1 else str(problem)) from problem
        return await self.deliver(made)

    def _delivery(self, one: dict[str, Any], caller: Caller, time_of: int) -> Delivery:
        made = delivery_of(
            one, classes=self._classes, now=time_of, new_key=lambda: secrets.token_hex(16), annotator=caller.annotator
        )
        self.check_item(str(made.item))
        return made

    def check_item(self, item: str) -> None:
        """Refuse items that are not listed, where only these are wanted."""
        if not self.settings.campaign.new_items and item not in self.brain.live.index:
            raise InputError(
                f"item {item[:60]!a} is not listed; add it by POST /items, or set new_items = true in the campaign's file"
            )

    async def deliver(self, made: Sequence[Delivery]) -> list[str]:
        """Take in deliveries; when this returns they are on the disk."""
        outcomes = await asyncio.wrap_future(self.store.take(made))
        for one, outcome in zip(made, outcomes, strict=True):
            self.counts[outcome] = self.counts.get(outcome, 0) + 1
            if outcome == "taken" and one.annotator is not None:
                self._note(one)
        return outcomes

    def _note(self, one: Delivery) -> None:
        """A question is answered, or an answer is gone."""
        item, annotator = str(one.item), str(one.annotator)
        self.brain.desk.release(item, annotator)
        position = self.brain.live.index.get(item)
        if one.action == "delete" or position is None:
            # Looked up again.
            self._answered.pop(annotator, None)
        elif annotator in self._answered:
            self._answered[annotator].add(position)

    async def add_items(self, given: Sequence[tuple[str, str | None]]) -> int:
        """Make items known; returns how many were new."""
        found = await asyncio.wrap_future(self.store.submit(lambda connection: self.store.add_items(connection, given)))
        await asyncio.to_thread(self.brain.refresh)
        return found

    async def know(self, truths: dict[str, str]) -> None:
        """Make true labels of items known."""

        def write(connection: sa.Connection) -> None:
            self.store.add_items(connection, [(item, None) for item in truths])
            for item, label in truths.items():
                connection.execute(items.update().where(items.c.item == item).values(truth=label))

        await asyncio.wrap_future(self.store.submit(write))
        self.brain.learn()

    async def add_annotator(self, name: str, role: str, capacity: int | None, cost: float) -> str:
        """Make somebody known, with a new token."""

        def write(connection: sa.Connection) -> str:
            if role == "annotator":
                upsert(connection, annotators, [{"annotator": name, "capacity": capacity, "cost": cost}])
            return new_token(connection, role, name)

        token = await asyncio.wrap_future(self.store.submit(write))
        await asyncio.to_thread(self.access.forget)
        await asyncio.to_thread(self.brain.refresh)
        return token

    # -- out -----------------------------------------------------------------------------------

    async def next(self, annotator: str) -> dict[str, Any]:
        """The question that somebody has open, or a new one; without one, why there is none."""
        annotator, time_of, desk = name_of(annotator, "annotator"), now(), self.brain.desk
        await self._expire(time_of)
        held = desk.open_for(annotator, time_of)
        if held:
            return await self._question(held[0], desk.held[annotator][held[0]])
        why = self.closed() or self._beyond(annotator)
        if why:
            return {"item": None, "why": why}
        expires = time_of + int(self.settings.questions.lease_minutes * 60 * _SECOND)
        chosen = await self._choose(annotator, time_of)
        if chosen is None:
            return {
                "item": None,
                "why": "every item that is open now has your answer or is with somebody else; ask again later",
            }
        desk.lease(chosen, annotator, expires)
        row = {"item": chosen, "annotator": annotator, "expires": expires}
        try:
            await asyncio.wrap_future(self.store.submit(lambda connection: upsert(connection, leases, [row])))
        except BaseException:
            desk.release(chosen, annotator)
            raise
        return await self._question(chosen, expires)

    async def _choose(self, annotator: str, time_of: int) -> str | None:
        desk, live = self.brain.desk, self.brain.live
        answered = await self._answers_of(annotator)
        free = islice(desk.candidates(live, annotator, time_of), _MOST_LOOKED_AT)
        return next((item for item in free if live.index[item] not in answered), None)

    async def _answers_of(self, annotator: str) -> set[int]:
        """Positions of the items that somebody has answered or skipped; kept for those who were here last."""
        known = self._answered.pop(annotator, None)
        if known is None:
            asked = sa.select(votes.c.item).where(votes.c.annotator == annotator, votes.c.action != "delete")
            rows = await asyncio.to_thread(self.store.rows, asked)
            index = self.brain.live.index
            known = {index[row[0]] for row in rows if row[0] in index}
        self._answered[annotator] = known
        while len(self._answered) > _REMEMBERED:
            self._answered.popitem(last=False)
        return known

    def shown(self, item: str) -> dict[str, Any]:
        """An item with what is shown of it; "url" is where it is answered, if not here."""
        content = self.store.rows(sa.select(items.c.content).where(items.c.item == item)) if item in self.brain.shows else []
        made = {"item": item, "content": json.loads(content[0][0]) if content and content[0][0] else {}}
        elsewhere = self.settings.label_studio
        return made if elsewhere is None else made | {"url": elsewhere.page_of(item)}

    async def _question(self, item: str, expires: int) -> dict[str, Any]:
        shown = await asyncio.to_thread(self.shown, item) if item in self.brain.shows else self.shown(item)
        return shown | {
            "classes": list(self.settings.campaign.classes),
            "until": expires / _SECOND,
        }

    async def give_back(self, item: str, annotator: str) -> None:
        """Let others have a question."""
        gone = leases.delete().where(leases.c.item == item, leases.c.annotator == annotator)
        await asyncio.wrap_future(self.store.execute(gone))
        self.brain.desk.release(item, annotator)

    async def _expire(self, time_of: int) -> None:
        if time_of - self._expired > 10 * _SECOND:
            self._expired = time_of
            self.brain.desk.expire(time_of)
            gone = leases.delete().where(leases.c.expires <= time_of)
            await asyncio.wrap_future(self.store.execute(gone))

    def closed(self) -> str:
        """Why nobody is asked anything any more."""
        budget = self.settings.target.budget
        if budget is not None and self.brain.counts["spent"] >= budget:
            return f"the budget of {budget:g} is spent"
        return self.stop(self.audits.facts())

    def _beyond(self, annotator: str) -> str:
        if annotator not in self.brain.capacity:
            near = did_you_mean(annotator, list(self.brain.capacity))
            return "" if self.settings.campaign.new_items else f"{annotator[:60]} is not an annotator of this campaign{near}"
        most = self.brain.capacity[annotator]
        if most is not None and self.brain.given[annotator] >= most:
            return f"{annotator[:60]} has given the {most} answers that were agreed"
        return ""

    def progress(self) -> dict[str, Any]:
        """How far the campaign is: counts, what is expected, what is proven, what is spent, and whether to stop."""
        goal, brain = self.settings.target, self.brain
        audit, counts = self.audits.facts(), brain.counts
        return {
            "target": goal.accuracy,
            "probability": goal.probability,
            **counts,
            "revision": brain.revision,
            "inferred": brain.live.fit is not None,
            "expected_accuracy": brain.facts.get("progress"),
            "audit": audit,
            "stop": self.stop(audit),
            "budget": goal.budget,
            "left": None if goal.budget is None else goal.budget - counts["spent"],
            "votes_to_go": brain.facts.get("plan"),
            "votes_last_hour": self.last_hour(),
            "expected_finish": self._finish(),
        }

    def _finish(self) -> float | None:
        """When the target is reached at the rate of the last hour, in seconds since 1970; None where nobody can say."""
        plan, rate = self.brain.facts.get("plan"), self.last_hour()
        if plan is None or rate <= 0 or not plan["votes"] < float("inf"):
            return None
        return float(now() / _SECOND + 3600 * plan["votes"] / rate)

    def annotators(self) -> list[dict[str, Any]]:
        """A row per annotator of the last fit, those that deserve a look first; the others, without votes, last."""
        table = self.brain.facts.get("annotators")
        rows = [] if table is None else [_plain(row) for row in table.iter_rows(named=True)]
        known = {row["annotator"] for row in rows}
        for row in rows:
            row |= {"votes_now": self.brain.given[row["annotator"]], "cost": self.brain.costs.get(row["annotator"], 1.0)}
        rows.sort(key=lambda row: (row["flags"] in ("", "unknown"), 1.0 if row["accuracy"] is None else row["accuracy"]))
        new = [name for name in sorted(self.brain.costs) if name not in known]
        return rows + [{"annotator": name, "votes_now": self.brain.given[name], "cost": self.brain.costs[name]} for name in new]

    # -- audits --------------------------------------------------------------------------------

    async def begin_audit(self) -> dict[str, Any]:
        """Freeze the labels of the last fit."""
        row = await asyncio.to_thread(self.audits.begin, now())
        await asyncio.wrap_future(self.store.execute(audits.insert().values(**row)))
        self.audits.begun(row)
        return {"audit": self.audits.facts()}

    async def check(self, item: str, label: str, by: str) -> dict[str, Any]:
        """Take in a checked label."""
        await asyncio.wrap_future(self.store.submit(self.audits.check(item, label, by, now())))
        self.audits.checked(item, label)
        self.events.publish("check", {"item": item})
        return {"audit": self.audits.facts()}

    def stop(self, audit: dict[str, Any] | None) -> str:
        """Why the campaign has reached its target; empty while it has not."""
        goal, expected = self.settings.target, self.brain.facts.get("progress")
        if goal.stop != "never" and audit is not None and audit["certified"] >= goal.accuracy:
            return f"checked labels prove that at least {audit['certified']:.1%} of the labels are right"
        if goal.stop == "expected" and expected is not None and expected["reached"]:
            return f"at least {goal.accuracy:.0%} of the labels are right with probability {expected['chance']:.3f}"
        return ""

    def lag(self) -> float:
        """For how many seconds the oldest delivery waits that labels do not have yet."""
        waiting = sa.select(deliveries.c.received).where(deliveries.c.seq > self.brain.revision).order_by(deliveries.c.seq)
        found = self.store.rows(waiting.limit(1))
        return max(now() - found[0][0], 0) / _SECOND if found else 0.0

    def last_hour(self) -> float:
        """Deliveries per hour, by this hour and the last."""
        time_of = now()
        hour, part = divmod(time_of, HOUR)
        hours = self.brain.hours
        return float(hours[hour] + hours[hour - 1] * (1 - part / HOUR))

    def history(self) -> list[dict[str, Any]]:
        """Snapshots, at most some two hundred of them, the oldest first."""
        times = [row[0] for row in self.store.rows(sa.select(snapshots.c.at).order_by(snapshots.c.at))]
        step = max(len(times) // 200, 1)
        wanted = times[::step] if (len(times) - 1) % step == 0 else [*times[::step], times[-1]]
        found = []
        for start in range(0, len(wanted), 400):
            rows = self.store.rows(sa.select(snapshots).where(snapshots.c.at.in_(wanted[start : start + 400])))
            found += [{"at": row.at / _SECOND, "revision": row.revision, **json.loads(row.facts)} for row in rows]
        return sorted(found, key=lambda one: one["at"])


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers with the digits that mean something, and none that JSON has no word for."""
    made = {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}
    return {name: None if isinstance(value, float) and value != value else value for name, value in made.items()}
