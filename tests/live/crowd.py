"""Simulated people who work through a project by the API of Label Studio, as its own pages do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from crowdwise.errors import InputError
from crowdwise.serve.label_studio.api import LabelStudio, Refused
from crowdwise.serve.label_studio.link import Question

QUESTION = Question("answer", "text", ("yes", "no"))


class Crowd:
    """Everybody asks for a task, answers it, and asks again; who is told that there is none asks some more times.

    Parameters
    ----------
    answers : function
        The label that a person (by number) gives to a task (by id); None skips it.
    most : int
        Answers after which all stop.
    """

    def __init__(
        self,
        people: list[LabelStudio],
        project: int,
        answers: Callable[[int, int], str | None],
        *,
        most: int = 10**9,
        asks: int = 8,
    ) -> None:
        self._people, self._project, self._answers, self._most, self._asks = people, project, answers, most, asks
        self.given: list[tuple[int, int, str | None]] = []
        self._lock, self._threads = (
            threading.Lock(),
            [threading.Thread(target=self._work, args=(k,)) for k in range(len(people))],
        )
        self.problems: list[str] = []

    def start(self) -> Crowd:
        for one in self._threads:
            one.start()
        return self

    def join(self) -> None:
        for one in self._threads:
            one.join()

    @property
    def busy(self) -> bool:
        return any(one.is_alive() for one in self._threads)

    def wait(self, n: int, seconds: float = 900.0) -> None:
        """Wait until so many answers are given, or nobody works any more."""
        until = time.monotonic() + seconds
        while len(self.given) < n and self.busy:
            assert time.monotonic() < until, self.problems[-3:]
            time.sleep(0.05)

    def _work(self, k: int) -> None:
        nothing = 0
        while nothing < self._asks and len(self.given) < self._most:
            try:
                self._one(k)
                nothing = 0
            except Refused as problem:
                if problem.status != 404:
                    self.problems.append(str(problem))
                nothing += 1
                time.sleep(1.0)
            except InputError as problem:
                # It is away; people come back.
                self.problems.append(str(problem))
                time.sleep(0.5)

    def _one(self, k: int) -> None:
        person = self._people[k]
        task = int(person.get(f"/api/projects/{self._project}/next")["id"])
        label = self._answers(k, task)
        skip = "?was_cancelled=1" if label is None else ""
        person.call(
            "POST", f"/api/tasks/{task}/annotations/{skip}", {"result": [] if label is None else QUESTION.result(label)}
        )
        with self._lock:
            self.given.append((k, task, label))
