"""Server-sent events: what happens, to whoever listens. Who does not keep up is told to reload instead of holding others up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

__all__ = ["Events"]

# Events that may wait for a listener, listeners, and seconds after which a silent line is kept open.
_WAITING, LISTENERS, _BEAT = 100, 100, 15.0


class Events:
    """Listeners, each with a queue; `publish` may be called by any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._number = 0

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop that serves requests."""
        self._loop = loop

    def __len__(self) -> int:
        return len(self._queues)

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        """Tell everybody."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._send, kind, json.dumps(content))

    def _send(self, kind: str, content: str) -> None:
        self._number += 1
        for queue in self._queues:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                kind, content = "reload", "{}"
            queue.put_nowait(f"id: {self._number}\nevent: {kind}\ndata: {content}\n\n")

    def close(self) -> None:
        """End all streams."""
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    async def listen(self) -> AsyncIterator[str]:
        """The stream of one listener."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(_WAITING)
        self._queues.add(queue)
        try:
            yield "retry: 3000\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), _BEAT)
                except asyncio.TimeoutError:
                    text = ": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)
