"""What every task should look like in Label Studio, and the writes that make it so, the most urgent first.

A task is open or closed by its overlap. Of the open ones, those to ask about now are the *front*: they carry a prediction of
the version that the project's queue follows. Label Studio asks about the one with the lowest score (where a project has members
of its own, it draws one of them at random, whatever the score), and about others only when nobody can answer these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

__all__ = ["Rules", "Task", "View", "Write", "front_of", "writes"]

# How far a confidence moves before it is written again.
_MOVED = 0.02


@dataclass
class Task:
    """A task as Label Studio has it.

    Attributes
    ----------
    annotations, skipped, overlap : int
        As it counts them.
    labelled : bool
        Whether it is closed there.
    updated, seen : str
        When it changed there, and up to when its annotations are here.
    queue : tuple or None
        Id and score of the prediction that the queue follows.
    consensus : tuple or None
        Id, label and score of the prediction with our label; the id is 0 where it is not known.
    extra : list of int
        Predictions of ours that are there twice.
    """

    annotations: int = 0
    skipped: int = 0
    overlap: int = 1
    labelled: bool = False
    updated: str = ""
    seen: str = ""
    queue: tuple[int, float] | None = None
    consensus: tuple[int, str, float] | None = None
    extra: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class View:
    """A task as this service sees it."""

    label: str | None
    confidence: float
    n_votes: int
    known: bool


@dataclass(frozen=True)
class Rules:
    """When a task is closed, and how it is opened.

    Attributes
    ----------
    sure : float
        Confidence at which a task is closed.
    least, most : int
        Votes that every task gets, and that no task exceeds.
    together : int
        Annotators who may have a task open at a time.
    front : int
        Tasks to ask about now.
    explore : float
        Part of the front that is drawn at random.
    skipped_count : bool
        Whether Label Studio counts skipped annotations.
    over : bool
        Whether the campaign has ended.
    """

    sure: float
    least: int = 1
    most: int = 2**31
    together: int = 1
    front: int = 20
    explore: float = 0.05
    seed: int = 0
    skipped_count: bool = False
    over: bool = False

    def open(self, view: View) -> bool:
        """Whether more is to be asked about a task."""
        if self.over or view.known or view.n_votes >= self.most:
            return False
        return view.n_votes < self.least or view.label is None or not view.confidence >= self.sure

    def given(self, task: Task) -> int:
        """Answers by which Label Studio closes a task."""
        return task.annotations + (task.skipped if self.skipped_count else 0)

    def overlap(self, task: Task, view: View, opened: bool) -> int:
        """Answers up to which a task stays open; none at all, where nobody has answered and nothing more is to be asked."""
        given = self.given(task)
        if not opened:
            # Label Studio counts annotators, of whom somebody may have annotated twice.
            return min(given, max(view.n_votes, 1))
        return max(given + min(self.together, self.most - view.n_votes), min(self.least, self.most))


@dataclass(frozen=True)
class Write:
    """A change: "overlap" (of a task), "ask" and "drop" (the queue's prediction), "label" (ours), or "remove" (twice there)."""

    kind: str
    task: int
    score: float = 0.0
    label: str = ""
    overlap: int = 0
    labelled: bool = False
    prediction: int = 0


def front_of(ranked: Sequence[int], opened: set[int], before: set[int], rules: Rules) -> list[int]:
    """The open tasks to ask about now, best first; who was among them stays while not far behind, so that little is written."""
    best = [task for task in ranked if task in opened]
    drawn = sorted(opened, key=lambda task: sha256(f"{rules.seed}:{task}".encode()).digest()) if rules.explore else []
    chosen = dict.fromkeys(drawn[: round(rules.explore * rules.front)])
    rank = {task: n for n, task in enumerate(best)}
    near = 2 * rules.front
    kept = [task for task in best[:near] if task in before]
    fresh = [task for task in best if task not in before]
    # The first half is always the best there is.
    chosen |= dict.fromkeys(best[: rules.front // 2])
    for task in [*kept, *fresh]:
        if len(chosen) >= rules.front:
            break
        chosen.setdefault(task)
    return sorted(chosen, key=lambda task: rank.get(task, len(best)))


def writes(tasks: dict[int, Task], views: dict[int, View], ranked: Sequence[int], rules: Rules) -> Iterator[Write]:
    """What to write, the most urgent first."""
    opened = {number for number, view in views.items() if number in tasks and rules.open(view)}
    front = front_of(ranked, opened, {number for number, task in tasks.items() if task.queue is not None}, rules)
    place = {number: n for n, number in enumerate(front)}
    close: list[Write] = []
    reopen: list[Write] = []
    rest: list[Write] = []
    for number, view in views.items():
        task = tasks.get(number)
        if task is None:
            continue
        wanted = number in opened
        target, given = rules.overlap(task, view, wanted), rules.given(task)
        # Closed is closed, however; an open one needs room for as many as may answer.
        fits = (task.labelled and task.overlap <= given) if not wanted else (not task.labelled and task.overlap == target)
        if not fits:
            (reopen if number in place else rest if wanted else close).append(
                Write("overlap", number, overlap=target, labelled=not wanted)
            )
    yield from close
    yield from reopen
    for number, n in place.items():
        if tasks[number].queue is None:
            yield Write("ask", number, score=round(n / max(rules.front, 1), 4))
    for number, task in tasks.items():
        if task.queue is not None and number not in place:
            yield Write("drop", number, prediction=task.queue[0])
        for prediction in task.extra:
            yield Write("remove", number, prediction=prediction)
    yield from rest
    for number, n in place.items():
        queue, score = tasks[number].queue, round(n / max(rules.front, 1), 4)
        if queue is not None and queue[1] != score:
            yield Write("ask", number, score=score, prediction=queue[0])
    yield from _labels(tasks, views)


def _labels(tasks: dict[int, Task], views: dict[int, View]) -> Iterator[Write]:
    for number, view in views.items():
        task = tasks.get(number)
        if task is None or view.label is None:
            continue
        there, score = task.consensus, round(view.confidence, 4)
        if there is None or there[1] != view.label or abs(there[2] - score) >= _MOVED:
            yield Write("label", number, score=score, label=view.label, prediction=0 if there is None else there[0])
