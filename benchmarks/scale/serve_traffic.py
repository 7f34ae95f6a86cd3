"""A served campaign for measurements, and those who call it: plain enough to leave the processor to the server."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

CAMPAIGN = '[campaign]\nclasses = ["cat", "dog"]\nnew_items = true\n[server]\nrate = 100000.0\n'
# Of votes on items that nobody was asked about.
ITEMS, ANNOTATORS = 100_000, 1_000
_LINES, _CALLERS = 64, 8


class Server:
    """A served campaign in a folder."""

    def __init__(self, folder: Path, more: str = "") -> None:
        from crowdwise.serve import Client

        self.folder = folder
        (folder / "campaign.toml").write_text(CAMPAIGN + more)
        line = [sys.executable, "-m", "crowdwise", "serve", "campaign.toml"]
        done = subprocess.run(
            [*line, "--token", "lead", "--role", "lead"], cwd=folder, capture_output=True, text=True, check=True
        )
        self.token, self._line = done.stdout.strip(), line
        self.port = 0
        self.process = self._start()
        self.client = Client(f"http://127.0.0.1:{self.port}", self.token, timeout=600)

    def _start(self) -> subprocess.Popen[str]:
        log = (self.folder / "log").open("a")
        process = subprocess.Popen([*self._line, "--port", str(self.port)], cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        first = process.stderr.readline()
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)", first).group(1))  # type: ignore[union-attr]
        threading.Thread(target=lambda: log.write(process.stderr.read()), daemon=True).start()  # type: ignore[union-attr]
        return process

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def restart(self) -> None:
        self.process = self._start()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def megabytes(self) -> float:
        """Of the server itself, without the process of fits."""
        import psutil

        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def processor_seconds(self) -> float:
        import psutil

        used = psutil.Process(self.process.pid).cpu_times()
        return used.user + used.system

    def settle(self, votes: int) -> None:
        """Wait until the first fit has all of so many votes."""
        while not (found := self.client.progress())["expected_accuracy"] or found["votes"] < votes:
            time.sleep(0.5)


class Line(asyncio.Protocol):
    """A connection that is kept open, with one request at a time: plain enough to leave the processor to the server."""

    def __init__(self, server: Server) -> None:
        self._host = f" HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {server.token}\r\n".encode()
        self._answer: asyncio.Future[bytes] | None = None
        self._found, self._wanted = b"", 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._found += data
        if not self._wanted:
            head, _, _ = self._found.lower().partition(b"\r\n\r\n")
            size = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            self._wanted = len(head) + 4 + int(size) if size else 0
        if self._wanted and len(self._found) >= self._wanted and self._answer is not None:
            self._answer.set_result(self._found)
            self._found, self._wanted, self._answer = b"", 0, None

    def connection_lost(self, problem: Exception | None) -> None:
        if self._answer is not None:
            self._answer.set_exception(ConnectionError("the server has closed the line"))

    def call(self, method: str, path: str, raw: bytes = b"") -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        kind = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(raw) if raw else b""
        self._transport.write(b"%s %s%s%s\r\n%s" % (method.encode(), path.encode(), self._host, kind, raw))
        return self._answer


async def asked(line: Line, method: str, path: str, raw: bytes = b"") -> bytes:
    """The body of an answer; anything but 200 ends the run."""
    answer = await line.call(method, path, raw)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"{method} {path}: {answer[:300]!r}")
    return answer.partition(b"\r\n\r\n")[2]


async def connected(server: Server, n: int) -> list[Line]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(lambda: Line(server), "127.0.0.1", server.port))[1] for _ in range(n)]


class Crowd:
    """Annotators who were asked something, and answer."""

    def __init__(self) -> None:
        self._rng, self._asked = random.Random(0), dict[str, str | None]()

    async def ask(self, line: Line, who: str) -> None:
        self._asked[who] = json.loads(await asked(line, "GET", f"/next?annotator={who}"))["item"]

    async def answer(self, line: Line, who: str) -> None:
        item = self._asked.pop(who, None) or f"i{self._rng.randrange(ITEMS)}"
        vote = {"item": item, "annotator": who, "label": self._rng.choice(["cat", "dog"])}
        await asked(line, "POST", "/votes", json.dumps(vote).encode())


def steps(votes: int, questions: int) -> Iterator[tuple[int, str, str]]:
    """Number, kind and annotator of every request, questions among votes; who answers was asked half a round ago."""
    for n in range(votes):
        yield n, "votes", f"a{(n + ANNOTATORS // 2) % ANNOTATORS}"
        if n * questions // votes < (n + 1) * questions // votes:
            yield n, "next", f"a{n % ANNOTATORS}"


async def traffic(server: Server, per_second: int, questions: int, seconds: float) -> dict[str, list[float]]:
    """So many votes and questions a second, sent when their time has come: how long each took from then."""
    taken: dict[str, list[float]] = {"next": [], "votes": []}
    free: asyncio.Queue[Line] = asyncio.Queue()
    for line in await connected(server, _LINES):
        free.put_nowait(line)
    crowd, running, begin = Crowd(), set(), time.perf_counter() + 0.5

    async def send(kind: str, due: float, who: str) -> None:
        line = await free.get()
        await (crowd.ask if kind == "next" else crowd.answer)(line, who)
        taken[kind].append(time.perf_counter() - due)
        free.put_nowait(line)

    for n, kind, who in steps(int(per_second * seconds), int(questions * seconds)):
        due = begin + n / per_second
        await asyncio.sleep(max(due - time.perf_counter(), 0))
        task = asyncio.create_task(send(kind, due, who))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return taken


async def in_turn(server: Server, votes: int, questions: int) -> None:
    """So many votes and questions by callers of whom each waits for its answer."""
    crowd, todo = Crowd(), steps(votes, questions)

    async def call(line: Line) -> None:
        for _, kind, who in todo:
            await (crowd.ask if kind == "next" else crowd.answer)(line, who)

    await asyncio.gather(*(call(line) for line in await connected(server, _CALLERS)))


async def lags(server: Server, found: list[float], over: asyncio.Event) -> None:
    """Second by second, for how long the oldest vote waits that labels do not have yet."""
    (line,) = await connected(server, 1)
    while not over.is_set():
        text = (await asked(line, "GET", "/metrics")).decode()
        found.append(float(re.search(r"^crowdwise_inference_lag_seconds (\S+)$", text, re.MULTILINE).group(1)))  # type: ignore[union-attr]
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), 1)
