"""Do what `board` asks for: one request per change, new labels by one request for many tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from crowdwise.serve.label_studio.api import LabelStudio, Refused
from crowdwise.serve.label_studio.board import Task, Write
from crowdwise.serve.label_studio.link import CONSENSUS, QUEUE, Question
from crowdwise.serve.label_studio.reading import task_of

__all__ = ["apply"]


def apply(api: LabelStudio, project: int, question: Question, tasks: dict[int, Task], wanted: Sequence[Write]) -> int:
    """Write, and note what is there then; returns how many requests it took."""
    new = [write for write in wanted if write.kind == "label" and tasks[write.task].consensus is None]
    others = [write for write in wanted if write not in new]
    for write in others:
        if not _one(api, question, tasks[write.task], write):
            tasks.pop(write.task)
    if new:
        bodies = [
            {"task": write.task, "result": question.result(write.label), "score": write.score, "model_version": CONSENSUS}
            for write in new
        ]
        api.call("POST", f"/api/projects/{project}/import/predictions", bodies)
        for write in new:
            # Its id is looked up when it is to be changed.
            tasks[write.task].consensus = 0, write.label, write.score
    return len(others) + bool(new)


def _one(api: LabelStudio, question: Question, task: Task, write: Write) -> bool:
    """Write one change; False where the task is no more."""
    try:
        if write.kind == "overlap":
            state = {"overlap": write.overlap, "is_labeled": write.labelled}
            task_of(api.call("PATCH", f"/api/tasks/{write.task}/", state), task)
            task.seen = task.updated
        elif write.kind == "ask":
            task.queue = _asked(api, write), write.score
        elif write.kind == "drop":
            task.queue = None
            api.call("DELETE", f"/api/predictions/{write.prediction}/")
        elif write.kind == "remove":
            task.extra.remove(write.prediction)
            api.call("DELETE", f"/api/predictions/{write.prediction}/")
        else:
            _label(api, question, task, write)
    except Refused as problem:
        if problem.status != 404:
            raise
        if write.kind == "overlap":
            return False
        # Somebody removed the prediction.
        task.queue = None if write.kind == "ask" else task.queue
        task.consensus = None if write.kind == "label" else task.consensus
    return True


def _asked(api: LabelStudio, write: Write) -> int:
    # Without a result: nobody is shown what others answered.
    if write.prediction:
        api.call("PATCH", f"/api/predictions/{write.prediction}/", {"score": write.score})
        return write.prediction
    body: dict[str, Any] = {"task": write.task, "result": [], "score": write.score, "model_version": QUEUE}
    return int(api.call("POST", "/api/predictions/", body)["id"])


def _label(api: LabelStudio, question: Question, task: Task, write: Write) -> None:
    number = write.prediction
    if not number:
        ours = [one["id"] for one in api.get("/api/predictions/", task=write.task) if one["model_version"] == CONSENSUS]
        if not ours:
            task.consensus = None
            return
        number, task.extra = ours[0], [*task.extra, *ours[1:]]
    api.call("PATCH", f"/api/predictions/{number}/", {"result": question.result(write.label), "score": write.score})
    task.consensus = number, write.label, write.score
