"""What every request passes first: hosts, sizes, times, and what browsers are told; a plain ASGI application around another."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

__all__ = ["Guard"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Other sites learn nothing; with "no-referrer" browsers would not say of our own forms that they are ours.
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
        b"img-src 'self' http: https: data:; frame-ancestors 'none'; base-uri 'none'",
    ),
]


class _Refused(Exception):
    def __init__(self, status: int, why: str) -> None:
        self.status, self.why = status, why


class Guard:
    """Refuses strange hosts, large and slow bodies.

    Parameters
    ----------
    hosts : set of str
        Names by which browsers may call; loopback names and addresses always may. Another site whose name was bound to this
        machine (DNS rebinding) is refused by it.
    limit : function
        Largest body in bytes, by path and headers.
    timeout : float
        Seconds within which a body must be here.
    """

    def __init__(self, app: Any, *, hosts: set[str], limit: Callable[[str, dict[bytes, bytes]], int], timeout: float) -> None:
        self.app, self._hosts, self._limit, self._timeout = app, hosts, limit, timeout

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            # WebSockets, which nothing here speaks.
            await send({"type": "websocket.close", "code": 1008})
            return
        begun = False

        async def answer(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                own = {name for name, _ in message.get("headers", [])}
                message["headers"] = [*message.get("headers", []), *(pair for pair in _HEADERS if pair[0] not in own)]
            await send(message)

        try:
            headers = dict(scope["headers"])
            self._check_host(headers.get(b"host", b"").decode("latin-1"))
            if scope["method"] not in ("GET", "HEAD"):
                receive = _replayed(await self._body(scope, headers, receive), receive)
            await self.app(scope, receive, answer)
        except _Refused as refused:
            if not begun:
                await _refuse(answer, refused)

    def _check_host(self, host: str) -> None:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").lower()
        if name in self._hosts or name == "localhost":
            return
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            raise _Refused(421, f"this server is not called {name[:60]!a}; name it in [server] hosts") from None
        if not (address.is_loopback or "*" in self._hosts):
            raise _Refused(421, f"this server is not called {name[:60]!a}; name it in [server] hosts")

    async def _body(self, scope: Message, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        most = self._limit(scope["path"], headers)
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or len(declared) > 18:
            raise _Refused(400, "content-length is no number")
        if int(declared) > most:
            raise _Refused(413, f"the request is larger than {most:,} bytes")
        try:
            return await asyncio.wait_for(_read(receive, most), self._timeout)
        except asyncio.TimeoutError:
            raise _Refused(408, f"the request took longer than {self._timeout:g} seconds to arrive") from None


async def _read(receive: Receive, most: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Refused(400, "the request broke off")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _Refused(413, f"the request is larger than {most:,} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then whatever else comes."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, refused: _Refused) -> None:
    body = json.dumps({"error": refused.why}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
