"""The project as it is known here: its tasks by their counts, its people, and how what is missing is found."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from crowdwise.errors import InputError
from crowdwise.serve.label_studio.api import LabelStudio
from crowdwise.serve.label_studio.board import Task
from crowdwise.serve.label_studio.reading import (
    Known,
    differing,
    fetch,
    known_votes,
    look_up,
    people_of,
    predictions_into,
    task_of,
)
from crowdwise.serve.label_studio.webhooks import Project, Report
from crowdwise.serve.schema import meta, votes
from crowdwise.serve.service import now
from crowdwise.serve.store import upsert

if TYPE_CHECKING:
    from crowdwise.serve.service import Service

__all__ = ["Mirror"]

_PEOPLE, _SINCE, _PROJECT = "label-studio: people", "label-studio: since", "label-studio: project"
# Tasks that are looked up one by one; where there are more, all are listed.
_ONE_BY_ONE = 20
_COUNTS = ("task_number", "total_annotations_number", "skipped_annotations_number")


class Mirror:
    """Tasks and people of a project; used by one thread.

    Parameters
    ----------
    take : function
        Takes in a report, and returns when its votes are on the disk.
    add : function
        Makes tasks known as items.

    Attributes
    ----------
    heard, project : Project
        How webhooks are read, and what was asked for: of somebody new a webhook is not believed who they are, and who is asked
        for and not found is called by their id.
    version : int
        Grows with every change.
    doubtful : bool
        Whether something was missed, so that all tasks are to be compared.
    """

    def __init__(
        self, service: Service, api: LabelStudio, take: Callable[[Report], None], add: Callable[[Sequence[int]], None]
    ) -> None:
        assert service.settings.label_studio is not None
        self._store, self._api, self._settings = service.store, api, service.settings.label_studio
        self._take, self._add = take, add
        rows = self._store.rows(sa.select(meta).where(meta.c.name.in_([_PEOPLE, _SINCE, _PROJECT])))
        kept = {row.name: json.loads(row.value) for row in rows}
        # The first name of somebody stays theirs, whatever becomes of their address.
        self._people: dict[int, str] = {int(key): name for key, name in kept.get(_PEOPLE, {}).items()}
        self._since: str = kept.get(_SINCE, "")
        self._begun: str | None = kept.get(_PROJECT)
        about = self._settings.project, self._settings.question, frozenset(service.settings.campaign.classes)
        by_id = self._settings.names == "id"
        self.heard = Project(*about, str if by_id else self._people.get)
        self.project = Project(*about, str if by_id else self._named)
        self.tasks: dict[int, Task] = {}
        self.version = self.fetched = 0
        self.doubtful, self._seen = True, False

    def follow(self, reports: list[Report]) -> None:
        """What webhooks left to do: new counts, tasks to look up, tasks that are gone."""
        if not reports:
            return
        self.version += 1
        unclear: set[int] = set()
        for report in reports:
            for number, found in report.tasks.items():
                self.tasks[number] = task_of(found, self.tasks.get(number))
            unclear |= report.unclear | report.gone
            # Of a deleted annotation no more is told than its id.
            unclear |= self._tasks_of([one.ref for one in report.votes if one.item is None])
        if len(unclear) > _ONE_BY_ONE:
            self.doubtful = True
            return
        if any(report.unclear for report in reports):
            self._meet()
        # In this order: what is here and then lacks there is gone.
        known: Known = known_votes(self._store) if unclear else {}
        for number in sorted(unclear):
            self._look_up(number, known)

    def _look_up(self, number: int, known: Known) -> None:
        report, found = look_up(self._api, self.project, number, known, now())
        if found is None:
            self.tasks.pop(number, None)
        else:
            self.tasks[number] = task_of(found, self.tasks.get(number))
            self._add([number])
        self._take(report)

    def _tasks_of(self, refs: list[str]) -> set[int]:
        found: set[int] = set()
        for start in range(0, len(refs), 500):
            rows = self._store.rows(sa.select(votes.c.item).where(votes.c.ref.in_(refs[start : start + 500])))
            found |= {int(row.item) for row in rows if row.item is not None and row.item.isdigit()}
        return found

    def compare(self, busy: Callable[[], bool]) -> bool:
        """Compare the counts of the project, and all tasks where they differ and nothing is on its way; whether all were."""
        if not self.doubtful:
            found = self._api.get(f"/api/projects/{self.project.number}/", include=",".join(_COUNTS))
            tasks = self.tasks.values()
            here = [len(tasks), sum(task.annotations for task in tasks), sum(task.skipped for task in tasks)]
            if busy() or here == [found[key] for key in _COUNTS]:
                return False
        self.reconcile()
        return True

    def reconcile(self) -> None:
        """Compare every task, fetch what differs, end what is gone there."""
        self._meet()
        known, number = known_votes(self._store), self.project.number
        listed = {one["id"]: one for one in self._api.pages(number)}
        self.tasks = {task: task_of(found, self.tasks.get(task)) for task, found in listed.items()}
        self._add(sorted(self.tasks))
        if self.doubtful:
            predictions_into(self._api, number, self.tasks)
        numbers = differing(self.tasks, known, self._since)
        # Pages shift where tasks go while they are read: of what is missing, each is asked for.
        missing = known.keys() - listed.keys()
        for report in fetch(self._api, self.project, numbers, known, now()):
            self._take(report)
            missing |= report.unclear
        for task in set(numbers) - missing:
            self.tasks[task].seen = self.tasks[task].updated
        self.fetched += len(numbers)
        for task in sorted(missing):
            self._look_up(task, known)
        self._since = max((task.updated for task in self.tasks.values()), default="")
        self._keep(_SINCE, self._since)
        self.version, self.doubtful = self.version + 1, False

    def recognise(self, found: dict[str, Any]) -> None:
        """Refuse another project than the one whose votes are here: they would all be gone there."""
        begun = f"{found['id']} {found['created_at']}"
        if self._begun is None:
            self._begun = begun
            self._keep(_PROJECT, begun)
        if self._begun != begun:
            raise InputError(
                f"the votes in this store are of another project (number and beginning {self._begun}, here {begun}); "
                'name another store in [campaign], such as store = "other.db"'
            )

    # -- people --------------------------------------------------------------------------------

    def _meet(self) -> None:
        """Learn who is there."""
        found = people_of(self._api, self._settings.names)
        new = {number: name for number, name in found.items() if number not in self._people}
        if new:
            self._people.update(new)
            self._keep_people()

    def _named(self, number: int) -> str:
        """Their name; somebody who has left has none, and is called by their id from now on."""
        if number not in self._people:
            self._people[number] = str(number)
            self._keep_people()
        return self._people[number]

    def _keep_people(self) -> None:
        self._keep(_PEOPLE, {str(number): name for number, name in self._people.items()})

    def _keep(self, name: str, value: Any) -> None:
        row = {"name": name, "value": json.dumps(value)}
        self._store.submit(lambda connection: upsert(connection, meta, [row])).result()
