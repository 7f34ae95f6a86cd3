"""What Label Studio has: tasks with their counts, our predictions on them, people, and annotations that are not here yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from crowdwise.errors import InputError
from crowdwise.serve.label_studio.api import LabelStudio, Refused
from crowdwise.serve.label_studio.board import Task
from crowdwise.serve.label_studio.link import CONSENSUS, QUEUE
from crowdwise.serve.label_studio.webhooks import REF, Project, Report, ended, read_annotations
from crowdwise.serve.schema import votes
from crowdwise.serve.store import Store
from crowdwise.serve.votes import FINAL, name_of

__all__ = ["Known", "differing", "fetch", "known_votes", "look_up", "people_of", "predictions_into", "task_of"]

# Tasks whose annotations are fetched by one request.
_TOGETHER = 100
# Annotations that are here, by task: their references.
Known = dict[int, set[str]]


def task_of(found: dict[str, Any], before: Task | None = None) -> Task:
    """A task as Label Studio describes it; a description older than the one before changes nothing."""
    task = before or Task()
    updated = str(found.get("updated_at", ""))
    if updated < task.updated:
        return task
    counts = [found.get(key) for key in ("total_annotations", "cancelled_annotations", "overlap")]
    if not all(isinstance(one, int) and 0 <= one < 2**31 for one in counts):
        raise InputError("a task of Label Studio has no counts")
    task.annotations, task.skipped, task.overlap = counts  # type: ignore[assignment]
    task.labelled, task.updated = found.get("is_labeled") is True, updated
    return task


def predictions_into(api: LabelStudio, project: int, tasks: dict[int, Task]) -> None:
    """Find our predictions on tasks; of several of a version the first counts."""
    for task in tasks.values():
        task.queue = task.consensus = None
        task.extra = []
    for one in api.get("/api/predictions/", project=project):
        task_found, version, score = tasks.get(one["task"]), one["model_version"], float(one["score"] or 0.0)
        if task_found is None or version not in (QUEUE, CONSENSUS):
            continue
        if (task_found.queue if version == QUEUE else task_found.consensus) is not None:
            task_found.extra.append(one["id"])
        elif version == QUEUE:
            task_found.queue = one["id"], score
        else:
            task_found.consensus = one["id"], _label(one["result"]), score


def _label(result: Any) -> str:
    try:
        return str(result[0]["value"]["choices"][0])
    except (LookupError, TypeError):
        return ""


def people_of(api: LabelStudio, names: str) -> dict[int, str]:
    """Names of all users by their id: e-mail addresses, or the ids."""
    found = {}
    for one in api.get("/api/users/"):
        try:
            found[int(one["id"])] = name_of(one["email"] if names == "email" else str(one["id"]), "email")
        except (InputError, KeyError, TypeError, ValueError):
            found[int(one["id"])] = str(one["id"])
    return found


def known_votes(store: Store) -> Known:
    """What is here, by task, without what was deleted; read it before Label Studio is asked: what it then lacks is gone."""
    rows = store.rows(sa.select(votes.c.ref, votes.c.item).where(votes.c.ref.startswith(REF), votes.c.at != FINAL))
    found: Known = {}
    for ref, item in rows:
        if item is not None and item.isdigit():
            found.setdefault(int(item), set()).add(ref)
    return found


def differing(tasks: dict[int, Task], known: Known, since: str) -> list[int]:
    """Tasks of which other numbers of annotations are here than there, or that changed since then."""
    return [number for number, task in tasks.items() if _differs(task, len(known.get(number, ())), since)]


def _differs(task: Task, here: int, since: str) -> bool:
    there = task.annotations + task.skipped
    return there != here or (there > 0 and task.updated > max(since, task.seen))


def fetch(api: LabelStudio, project: Project, numbers: Sequence[int], known: Known, now: int) -> Iterable[Report]:
    """Reports of all annotations of some tasks, and of those that are gone, by hundreds of tasks.

    Of tasks that Label Studio leaves out nothing is known: they are unclear.
    """
    for start in range(0, len(numbers), _TOGETHER):
        part = numbers[start : start + _TOGETHER]
        ids = "".join(f"&ids[]={number}" for number in part)
        found = api.call("GET", f"/api/projects/{project.number}/export?exportType=JSON&download_all_tasks=true{ids}")
        if not isinstance(found, list):
            raise InputError("Label Studio exports no list of tasks")
        report = read_annotations(found, project, now)
        there = {one["id"] for one in found}
        report.unclear |= set(part) - there
        yield _with_ends(report, there & set(part), known)


def look_up(api: LabelStudio, project: Project, number: int, known: Known, now: int) -> tuple[Report, dict[str, Any] | None]:
    """The report of one task, and the task; None where it is no more."""
    try:
        found = api.get(f"/api/tasks/{number}/")
    except Refused as problem:
        if problem.status != 404:
            raise
        report = Report(gone={number})
        return _with_ends(report, [number], known), None
    return _with_ends(read_annotations([found], project, now), [number], known), found


def _with_ends(report: Report, numbers: Iterable[int], known: Known) -> Report:
    there = {one.ref for one in report.votes}
    for number in numbers:
        if number not in report.unclear:
            report.votes += [ended(int(ref.removeprefix(REF))) for ref in sorted(known.get(number, set()) - there)]
    return report
