"""What Label Studio reports, as deliveries: annotations given, changed, skipped and deleted, and tasks that came or went.

An annotation is a vote by its own id, and its `updated_at` the time of the source: whatever is repeated, late or out of order
ends the same. A deleted annotation never comes back under its id, so that its end has the time after which nothing comes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from crowdwise.errors import InputError
from crowdwise.io.platforms.label_studio import answers_of
from crowdwise.serve.votes import FINAL, Delivery, microseconds, name_of

__all__ = ["ACTIONS", "REF", "Project", "Report", "ended", "read_annotations", "read_webhook"]

# What the webhook is for.
ACTIONS: tuple[str, ...] = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED")
ACTIONS += ("TASKS_CREATED", "TASKS_DELETED")
REF = "label-studio:"
_LARGEST = 2**62


@dataclass(frozen=True)
class Project:
    """What is known of a project before anything comes from it.

    Attributes
    ----------
    number : int
        Its id.
    question : str
        The control whose answers are votes (`from_name`).
    name_of : function
        The name of the annotator with an id; None where nobody knows it yet.
    """

    number: int
    question: str
    classes: frozenset[str]
    name_of: Callable[[int], str | None]


@dataclass
class Report:
    """What was reported.

    Attributes
    ----------
    votes : list of Delivery
        To take in.
    truths : dict
        Labels that somebody marked as ground truth, by item.
    tasks : dict
        Tasks as Label Studio describes them.
    unclear, gone : set of int
        Tasks to look up, because more must be known; tasks that are no more.
    strange : list of str
        Why some annotations are no votes.
    """

    votes: list[Delivery] = field(default_factory=list)
    truths: dict[str, str] = field(default_factory=dict)
    tasks: dict[int, dict[str, Any]] = field(default_factory=dict)
    unclear: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    strange: list[str] = field(default_factory=list)


def read_webhook(body: Any, project: Project, now: int) -> Report:
    """The report of a webhook; what is of another project or of no concern is an empty one."""
    report = Report()
    if not isinstance(body, dict) or body.get("action") not in ACTIONS:
        return report
    about = body.get("project")
    if not isinstance(about, dict) or about.get("id") != project.number:
        return report
    action = body["action"]
    if action == "ANNOTATIONS_DELETED":
        report.votes = [ended(_id(one)) for one in _list(body, "annotations")]
    elif action == "TASKS_DELETED":
        report.gone = {_id(one) for one in _list(body, "tasks")}
    elif action == "TASKS_CREATED":
        # Annotations that were imported with them are not among what is sent.
        report.unclear = {_id(one) for one in _list(body, "tasks")}
    else:
        found = body.get("annotation")
        for one in found if isinstance(found, list) else [found]:
            _read(report, one, project, now)
        tasks = body.get("task")
        report.tasks = {_id(task): task for task in (tasks if isinstance(tasks, list) else [tasks]) if isinstance(task, dict)}
    return report


def read_annotations(tasks: Iterable[Any], project: Project, now: int) -> Report:
    """The report of tasks with all their annotations, as they are now."""
    report = Report()
    for task in tasks:
        for one in _list(task, "annotations"):
            _read(report, one, project, now)
    return report


def ended(annotation: int) -> Delivery:
    """The end of an annotation."""
    return Delivery(f"{REF}{annotation}:deleted", f"{REF}{annotation}", None, None, None, "delete", FINAL)


def _read(report: Report, annotation: Any, project: Project, now: int) -> None:
    if not isinstance(annotation, dict):
        raise InputError("an annotation is an object")
    number, task, person = _id(annotation), _id(annotation, "task"), annotation.get("completed_by")
    # Some answers have all of the user here.
    who = project.name_of(_id(person) if isinstance(person, dict) else _id(annotation, "completed_by"))
    if who is None:
        report.unclear.add(task)
        return
    item, at = str(task), microseconds(annotation.get("updated_at"), now)
    action, label = "skip", None
    if not annotation.get("was_cancelled"):
        label, why = _label(annotation, project)
        if label is not None and annotation.get("ground_truth"):
            # Not a vote among others; a later delivery may make it one.
            report.truths[item] = label
            action, label = "delete", None
        elif label is not None:
            action = "label"
        elif why:
            report.strange.append(f"annotation {number}: {why}")
    told = hashlib.sha256(json.dumps([who, label, action]).encode()).hexdigest()[:16]
    report.votes.append(Delivery(f"{REF}{number}:{at}:{told}", f"{REF}{number}", item, who, label, action, at))


def _label(annotation: dict[str, Any], project: Project) -> tuple[str | None, str]:
    """The one label of an annotation, or why it has none; nothing is the matter with an empty one."""
    result = annotation.get("result")
    if not isinstance(result, list):
        raise InputError("the result of an annotation is a list")
    found = answers_of(annotation).get(project.question, [])
    if not found:
        return None, f"it answers other questions than {project.question!a}" if result else ""
    if len(found) > 1:
        return None, "it has several labels"
    label = str(found[0])
    if label not in project.classes:
        return None, f"its label {label[:60]!a} is not among the classes of the campaign"
    return name_of(label, "label"), ""


def _id(entry: Any, key: str = "id") -> int:
    found = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found < _LARGEST:
        raise InputError(f"{key} must be a number as Label Studio gives them; got {str(found)[:60]!a}")
    return found


def _list(entry: Any, key: str) -> list[Any]:
    found = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(found, list):
        raise InputError(f"{key} must be a list")
    return found
