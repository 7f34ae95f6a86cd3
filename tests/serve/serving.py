"""A campaign that is really served: uvicorn in a thread, spoken to over HTTP; full fits run in a thread too, unless asked."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from crowdwise.serve import brain as brain_module
from crowdwise.serve import files, fitting
from crowdwise.serve.access import new_token
from crowdwise.serve.running import configured
from crowdwise.serve.schema import open_engine
from crowdwise.serve.service import Service
from crowdwise.serve.settings import Settings, read_settings

PLAIN = '[campaign]\nclasses = ["cat", "dog"]\nnew_items = true\n[inference]\nrefit_votes = 1\n[server]\nrate = 1000.0\n'


class InlineFitter:
    """Fits where it is asked: a process of its own takes seconds to start."""

    alive = True

    def __init__(self, task: fitting.Task) -> None:
        self._task, self._engine, self._answers = task, open_engine(task.url), deque[tuple[str, Any]]()

    def ask(self, order: fitting.Order) -> None:
        if order.audit is not None:
            proven = order.audit.right_from(self._task.probability)
            self._answers.append(("audit", (order.audit.number, order.audit.n_usable, proven)))
        else:
            fit, times = fitting.fit_votes(self._task, self._engine)
            self._answers += [("fit", fit), *fitting.about_fit(self._task, fit.result, times, planned=10**9)]
        self._answers.append(("done", order.number))

    def answers(self, wait: float = 0.0) -> Iterator[tuple[str, Any]]:
        while self._answers:
            yield self._answers.popleft()

    def close(self) -> None:
        self._engine.dispose()


def settings_in(folder: Path, text: str = PLAIN) -> Settings:
    path = folder / "campaign.toml"
    path.write_text(text)
    return read_settings(path)


class Answer:
    """Status, headers and body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, dict(response.getheaders()), response.read()

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A running service, with the token of its lead."""

    def __init__(self, service: Service, port: int) -> None:
        self.service, self.port, self.url = service, port, f"http://127.0.0.1:{port}"
        self.lead = self.token("lead", "lead")

    def token(self, role: str, name: str) -> str:
        made = self.service.store.submit(lambda connection: new_token(connection, role, name)).result()
        self.service.access.forget()
        return made

    def call(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Answer:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        known = {"authorization": f"Bearer {self.lead if token is None else token}"} if token != "" else {}
        if raw is not None and not isinstance(body, bytes):
            known["content-type"] = "application/json"
        try:
            # A server that refuses a body need not take it in.
            with suppress(ConnectionError):
                line.request(method, path, raw, known | {name.replace("_", "-"): value for name, value in headers.items()})
            return Answer(line.getresponse())
        finally:
            line.close()

    def settle(self, seconds: float = 20.0) -> None:
        """Wait until every delivery is in labels and in a fit."""
        service, until = self.service, time.monotonic() + seconds
        while not (service.brain.idle and service.brain.revision == service.store.newest()):
            assert time.monotonic() < until, service.brain.facts
            time.sleep(0.02)

    def wait_for(self, condition: Callable[[], Any], seconds: float = 20.0) -> Any:
        until = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < until, self.service.brain.facts
            time.sleep(0.02)
        return found


# Shares of the time, and seconds between looks, with which nobody has to wait.
_HURRY = {"_QUICK": 0.02, "_IDLE": 0.05, "_LIST": 0.05, "_FOLLOWING": 0.9, "_FITTING": 0.9}


@contextmanager
def serving(
    settings: Settings, *, process: bool = False, hurry: bool = True, listening: socket.socket | None = None
) -> Iterator[Served]:
    """Serve a campaign at a free port of this machine, or where somebody listens already; without `hurry`, at a real pace."""
    patch = pytest.MonkeyPatch()
    if not process:
        patch.setattr(brain_module, "Fitter", InlineFitter)
    for name, value in _HURRY.items() if hurry else ():
        patch.setattr(brain_module, name, value)
    if hurry:
        patch.setattr(files, "_LOOK", 0.05)
    listening = listening or socket.create_server(("127.0.0.1", 0))
    service = Service(settings)
    config = configured(service)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        until = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.01)
        yield Served(service, listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()
        patch.undo()
