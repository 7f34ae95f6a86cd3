"""Connections: closed where a request does not come in time, where its head is too large, and where there are too many of them.

uvicorn gives a head as long as it likes to take, as much as it likes to be, and a silent line no end before its first request.
Bodies are the guard's, which answers; here ends what the guard never sees, and what is sent on after it has answered.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

__all__ = ["connection_within"]

# Bytes of a head; of a body by its limit (a chunk of one byte is sent as six); seconds by which the guard comes first.
_HEAD, _AS_CHUNKS, _GRACE = 65_536, 6, 2.0


class Connection(HttpToolsProtocol):
    """A connection of whose requests each must be here within `seconds`, with a body of at most `most` bytes."""

    seconds, most, together = 15.0, 50_000_000, 2_000

    def connection_made(self, transport: Any) -> None:
        """Somebody has connected, and has to say what they want."""
        super().connection_made(transport)
        self._timer: asyncio.TimerHandle | None = None
        # Bytes since the last whole request; whether a head is complete, and whether the body behind it is.
        self._size, self._in_body, self._whole = 0, False, False
        if len(self.connections) > self.together:
            transport.close()
        else:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request, of several, or of none."""
        before = self._size
        self._size += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if min(before, self._size) > (_AS_CHUNKS * self.most if self._in_body else 0) + _HEAD:
            self._refuse(431)
        elif self._whole and not self.cycle.response_complete:
            self._stop()
        elif self._timer is None:
            self._start()

    def on_message_begin(self) -> None:
        """The first byte of a head."""
        super().on_message_begin()
        self._whole = False

    def on_headers_complete(self) -> None:
        """The head is here."""
        super().on_headers_complete()
        self._in_body = True

    def on_message_complete(self) -> None:
        """The request is here."""
        super().on_message_complete()
        self._size, self._in_body, self._whole = 0, False, True

    def _start(self) -> None:
        self._timer = self.loop.call_later(self.seconds + _GRACE, self._refuse, 408)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int) -> None:
        """Close, with an answer where a head has begun: a browser that opened a line in advance would show it."""
        if self.transport.is_closing():
            return
        if self._size and not (self._in_body or self._whole):
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()


def connection_within(seconds: float, most: int, together: int) -> Any:
    """The class of connections with these limits."""
    return type("Connection", (Connection,), {"seconds": seconds, "most": most, "together": together})
