"""Lines that bring nothing, too slowly or too much: closed in bounded time, while those that are served stay open."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from tests.serve.serving import PLAIN, Served, serving, settings_in

from crowdwise.serve import connections, running

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
SECONDS = 0.3


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A campaign that waits a third of a second for a request."""
    patch = pytest.MonkeyPatch()
    patch.setattr(connections, "_GRACE", 0.2)
    patch.setattr(running, "_CONNECTIONS", 20)
    text = PLAIN.replace("[server]\n", f"[server]\ntimeout = {SECONDS}\n")
    with serving(settings_in(tmp_path_factory.mktemp("hurried"), text)) as one:
        yield one
    patch.undo()


def answered(served: Served, first: bytes, drip: bytes, seconds: float = 5.0) -> tuple[bytes, float]:
    """Send something, then drop after drop until the line is closed: what came back, and after how long it was closed."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=0.02) as line:
        begin, found = time.monotonic(), b""
        line.sendall(first)
        while time.monotonic() - begin < seconds:
            try:
                part = line.recv(65536)
            except TimeoutError:
                with suppress(OSError):
                    line.sendall(drip)
                continue
            except ConnectionError:
                part = b""
            if not part:
                return found, time.monotonic() - begin
            found += part
    raise AssertionError(f"still open after {seconds} seconds")


# What is sent first, then drop by drop, and the status of the answer.
SLOW = [
    (b"", b"", b""),  # as browsers open lines in advance: nothing is answered that they would show
    (b"", b"\r\n", b"408"),
    (b"GET /", b"a", b"408"),
    (HEALTH, b"x: y\r\n", b"408"),
    (HEALTH + b"\r\n", b"\r\n", b"200"),
    (HEALTH + b"content-length: 9000\r\n\r\n", b"x", b"200"),
    (b"POST /votes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9000\r\n\r\n", b"x", b"408"),
    (HEALTH + b"\r\n" + HEALTH, b"x", b"200"),
]


def test_what_does_not_come_in_time_is_cut_off(hurried: Served) -> None:
    with ThreadPoolExecutor(len(SLOW)) as pool:
        found = list(pool.map(lambda one: answered(hurried, one[0], one[1]), SLOW))
    assert [answer[9:12] for answer, _ in found] == [status for _, _, status in SLOW]
    assert max(seconds for _, seconds in found) < SECONDS + 2


def test_a_head_has_an_end(hurried: Served) -> None:
    found, _ = answered(hurried, HEALTH, b"x: " + b"y" * 60_000 + b"\r\n")
    assert found[9:12] in (b"431", b"")


def test_who_is_served_stays_connected(hurried: Served) -> None:
    head = f"GET /events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {hurried.lead}\r\n\r\n"
    with pytest.raises(AssertionError, match="still open"):
        answered(hurried, head.encode(), b"", 2 * SECONDS)
    with socket.create_connection(("127.0.0.1", hurried.port), timeout=5) as line:
        for _ in range(3):
            line.sendall(HEALTH + b"\r\n")
            assert b" 200 " in line.recv(65536)
            time.sleep(SECONDS * 0.6)


def test_too_many_lines_are_closed_and_not_answered_with_5xx(hurried: Served) -> None:
    lines = [socket.create_connection(("127.0.0.1", hurried.port), timeout=5) for _ in range(40)]
    try:
        closed = 0
        for line in lines[20:]:
            with suppress(ConnectionError):
                line.sendall(HEALTH + b"\r\n")
                found = line.recv(65536)
                assert not found.startswith(b"HTTP/1.1 5")
                closed += not found
        assert closed >= 15
    finally:
        for line in lines:
            line.close()
    hurried.wait_for(lambda: hurried.call("GET", "/health", token="").status == 200)
