"""Keeps a project and a campaign the same: a thread beside the service, which no request ever waits for.

Votes come by webhook. What a webhook did not bring, because either side was away, is found by comparing the counts of both.
What this service thinks of the tasks is written back a little at a time, the most urgent first.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from crowdwise.errors import CrowdwiseError, InputError
from crowdwise.serve.label_studio import link
from crowdwise.serve.label_studio.api import Away, LabelStudio, Refused, token_of
from crowdwise.serve.label_studio.board import Rules, View, writes
from crowdwise.serve.label_studio.identity import Identity
from crowdwise.serve.label_studio.mirror import Mirror
from crowdwise.serve.label_studio.webhooks import Report, read_webhook
from crowdwise.serve.label_studio.writing import apply
from crowdwise.serve.schema import votes
from crowdwise.serve.service import now
from crowdwise.serve.store import Conflict

if TYPE_CHECKING:
    from crowdwise.serve.service import Service
    from crowdwise.serve.settings import Settings

__all__ = ["Bridge", "address_of", "bridge_of"]

# Seconds between steps at least, between looks while nothing comes, and after a problem at most, each time so much longer;
# seconds for a report to be taken in; writes in one step, and how many of those that wait are counted; deliveries in one
# transaction; reports that are kept.
_STEP, _LOOK, _LONGEST, _SLOWER, _PATIENCE = 0.3, 1.0, 60.0, 2, 120.0
_WRITES, _COUNTED, _TOGETHER, _REPORTS = 20, 200, 1_000, 5_000


class Bridge:
    """Between one service and one project.

    Attributes
    ----------
    facts : dict
        How it stands: what is wrong, what was taken in, what waits to be written.
    """

    def __init__(self, service: Service, api: LabelStudio) -> None:
        assert service.settings.label_studio is not None
        self.service, self.api, self.settings = service, api, service.settings.label_studio
        self.mirror = Mirror(service, api, lambda report: self._wait(self._take(report)), self._add_items)
        self._us = Identity(service.store, service.access, address_of(service.settings))
        self.question: link.Question | None = None
        self.facts: dict[str, Any] = {"linked": False, "problem": "", "waiting": None, "strange": "", "repaired": ""}
        self.facts |= dict.fromkeys(("webhooks", "taken", "strange annotations", "conflicts", "fetched", "written"), 0)
        self._lock = threading.Lock()
        self._reports: list[Report] = []
        self._queued = False
        self._skipped_count, self._checked, self._busy_until, self._linked_at = False, 0.0, 0.0, 0.0
        self._done: tuple[int, ...] = ()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failed, self._said = 0, ""
        self._thread = threading.Thread(target=self._run, name="crowdwise-label-studio", daemon=True)

    def start(self) -> None:
        """Begin; to be called where the service's event loop runs."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """End the thread; a request that is under way is left to itself."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5)

    # -- what requests ask for -----------------------------------------------------------------

    async def hear(self, body: Any) -> int:
        """Take in a webhook; returns how many deliveries it was."""
        self.facts["webhooks"] += 1
        try:
            report = read_webhook(body, self.mirror.heard, now())
            await self._take(report)
        except CrowdwiseError:
            # It will not come again.
            self.mirror.doubtful = True
            raise
        with self._lock:
            if len(self._reports) < _REPORTS:
                self._reports.append(report)
            else:
                # Label Studio is away and yet reports: all tasks are compared when it is back.
                self._reports, self.mirror.doubtful = [], True
        self._wake.set()
        return len(report.votes)

    async def _take(self, report: Report) -> None:
        """Take in a report; when this returns its votes are on the disk."""
        for start in range(0, len(report.votes), _TOGETHER):
            part = report.votes[start : start + _TOGETHER]
            try:
                outcomes = await self.service.deliver(part)
            except Conflict:
                outcomes = [await self._one(delivery) for delivery in part]
            self.facts["taken"] += outcomes.count("taken")
        if report.truths:
            await self.service.know(report.truths)
        if report.strange:
            self.facts["strange annotations"] += len(report.strange)
            self.facts["strange"] = report.strange[-1][:300]

    async def _one(self, delivery: Any) -> str:
        """An annotation that changed hands stays with whom it had first."""
        try:
            return (await self.service.deliver([delivery]))[0]
        except Conflict as problem:
            self.facts["conflicts"] += 1
            self.facts["strange"] = str(problem)[:300]
            return "refused"

    def predictions(self, numbers: Sequence[int | None]) -> list[dict[str, Any]]:
        """What is thought of some tasks, as a model backend says it."""
        made, question = [], self.question
        views = self._views([number for number in numbers if number is not None])
        for number in numbers:
            view = None if number is None else views.get(number)
            known = view is not None and view.label is not None and question is not None
            result = question.result(view.label) if known else []  # type: ignore[union-attr, arg-type]
            score = view.confidence if known else 0.0  # type: ignore[union-attr]
            made.append({"result": result, "score": round(score, 4), "model_version": link.CONSENSUS})
        return made

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        pause, away = _STEP, False
        while not self._stop.is_set():
            try:
                self.step()
                pause, away = _STEP, False
                self.report("")
            except Exception as problem:  # Label Studio is away, or refuses: tried again, less and less often
                known = isinstance(problem, CrowdwiseError)
                self.report(str(problem)[:500] if known else f"{type(problem).__name__}: {problem!s:.300}")
                self.mirror.doubtful = True
                pause, away = min(_SLOWER * pause, _LONGEST), isinstance(problem, Away)
            # Who was away and reports is back, and people wait there.
            self._stop.wait(_STEP if away else pause)
            self._wake.wait(max(pause, _LOOK) if away else _LOOK)
            self._wake.clear()

    def report(self, problem: str) -> None:
        """Keep what is wrong, and say it where the service was started: once, and not what passes by itself."""
        self.facts["problem"] = problem
        self._failed = self._failed + 1 if problem else 0
        if self._failed == 1:
            return
        wrong = problem or self.facts.get("unlinked")
        words = f"warning: Label Studio: {wrong}" if wrong else f"Label Studio: connected with project {self.settings.project}"
        if words != self._said:
            self.service.say(words)
            self._said = words

    def step(self) -> None:
        """Do what there is to do."""
        if self.question is None or self._due(self._linked_at):
            # Where this fails, nothing else is done before it succeeds.
            self._linked_at = 0.0
            self._link()
            self._linked_at = time.monotonic()
        with self._lock:
            reports, self._reports = self._reports, []
        self.mirror.follow(reports)
        if self.mirror.doubtful or self._due(self._checked):
            if self.mirror.compare(lambda: bool(self._reports)):
                self._follow_project()
            self._checked = time.monotonic()
            self.facts["fetched"] = self.mirror.fetched
        if time.monotonic() >= self._busy_until:
            self._write()

    def _due(self, last: float) -> bool:
        return not last or time.monotonic() - last >= self.settings.check_seconds

    def _follow_project(self) -> None:
        found = self.api.get(f"/api/projects/{self.settings.project}/")
        self.mirror.recognise(found)
        self._queued = link.project_settings(self.api, found)
        self.question = link.question_of(found, self.settings.question)
        self._skipped_count = found.get("skip_queue") == "IGNORE_SKIPPED"

    def _link(self) -> None:
        """Register with the project, which calls this service meanwhile; or find that all is as it should be, and repair it."""
        number, was_linked = self.settings.project, self.facts["linked"]
        if was_linked and link.stands(link.webhooks(self.api, number, self._us.here), self._us):
            return
        there = link.connections(self.api, number, self._us.here)
        theirs = link.others(there, self._us.mark)
        if theirs:
            # Two that write overlaps and scores would undo each other's.
            self.facts["linked"] = False
            raise InputError(link.taken(theirs, self.settings, f"{self.service.settings.stem}.toml"))
        self._follow_project()
        try:
            token, webhook = link.webhook(self.api, number, self._us, there)
            model = link.backend(self.api, number, self._us, token, there)
        except Refused as problem:
            # Votes are fetched instead.
            self.facts |= {"linked": False, "unlinked": str(problem)[:500]}
            return
        self.facts |= {"linked": True, "unlinked": ""}
        wrong = {"webhook": webhook, "model connection": model}
        found = [f"{what} {words}" for what, words in wrong.items() if words and (was_linked or words != link.MISSING)]
        if found:
            self.facts["repaired"] = " and ".join(found)
            self.service.say(f"warning: Label Studio: the {self.facts['repaired']}; that is repaired")
            # What was not reported meanwhile need not show in the counts.
            self.mirror.doubtful = True
        if model:
            self._follow_project()

    def _add_items(self, numbers: Sequence[int]) -> None:
        self._wait(self.service.add_items([(str(number), None) for number in numbers]))

    def _wait(self, coroutine: Any) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE)

    # -- writing back --------------------------------------------------------------------------

    def _write(self) -> None:
        """Write some of what differs; nothing before the first fit, when nothing is known of the tasks."""
        brain, mirror = self.service.brain, self.mirror
        if brain.live.fit is None or self.question is None:
            return
        state = self._state()
        if state == self._done:
            return
        newer = sa.select(votes.c.item).where(votes.c.seq > brain.revision, votes.c.item.is_not(None))
        unseen = {row.item for row in self.service.store.rows(newer)}
        # Of those with votes that were not looked at yet, the label is about to change.
        views = {number: view for number, view in self._views(mirror.tasks).items() if str(number) not in unseen}
        waiting = list(islice(writes(mirror.tasks, views, self._ranked(), self._rules()), _COUNTED))
        self.facts["waiting"] = len(waiting)
        if not waiting:
            self._done = state
            return
        done = apply(self.api, self.settings.project, self.question, mirror.tasks, waiting[:_WRITES])
        mirror.version += 1
        if not self._queued:
            self._follow_project()
        self.facts["written"] += done
        self._busy_until = time.monotonic() + done / self.settings.per_second
        self._wake.set()

    def _state(self) -> tuple[int, ...]:
        brain = self.service.brain
        return brain.revision, brain.n_fits, brain.desk.n_plans, self.mirror.version

    @property
    def settled(self) -> bool:
        """Whether all that is known here is written there, and all that was reported from there is known."""
        return self._done == self._state() and self.service.brain.idle and not (self._reports or self.mirror.doubtful)

    def _rules(self) -> Rules:
        questions, goal = self.service.settings.questions, self.service.settings.target
        return Rules(
            sure=self.settings.sure or goal.accuracy,
            least=questions.least,
            most=questions.most or 2**31 - 1,
            together=questions.per_item,
            front=self.settings.front,
            explore=questions.explore,
            seed=questions.seed,
            skipped_count=self._skipped_count,
            over=bool(self.service.closed()),
        )

    def _views(self, numbers: Iterable[int]) -> dict[int, View]:
        live = self.service.brain.live
        with live.lock:
            label, confidence, n_votes, truth = live.label.copy(), live.confidence, live.n_votes.copy(), live.truth.copy()
        found = {}
        for number in list(numbers):
            position = live.index.get(str(number))
            if position is None or position >= len(label):
                continue
            code = int(label[position])
            name = None if code < 0 else live.classes[code]
            sure = 0.0 if name is None else float(confidence[position])
            found[number] = View(name, sure, int(n_votes[position]), bool(truth[position] >= 0))
        return found

    def _ranked(self) -> list[int]:
        names = self.service.brain.live.names
        made = [names[position] for position in self.service.brain.desk.order.tolist()]
        return [int(name) for name in made if name.isdigit()]


def bridge_of(service: Service) -> Bridge | None:
    """The bridge of a campaign that has one."""
    found = service.settings.label_studio
    if found is None:
        return None
    path = None if found.token_file is None else service.settings.place(found.token_file)
    return Bridge(service, LabelStudio(found.url, token_of(path)))


def address_of(settings: Settings) -> str:
    """Where Label Studio finds this service."""
    found, server = settings.label_studio, settings.server
    if found is not None and found.here:
        return found.here.rstrip("/")
    host = "127.0.0.1" if server.host in ("0.0.0.0", "::", "") else server.host
    return f"http://{f'[{host}]' if ':' in host else host}:{server.port}"
