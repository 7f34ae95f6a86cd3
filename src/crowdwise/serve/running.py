"""Start the server: where it listens, and what is said at the start."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
import uvicorn

from crowdwise.errors import InputError
from crowdwise.serve.access import new_token
from crowdwise.serve.app import create_app
from crowdwise.serve.schema import annotators, tokens
from crowdwise.serve.service import Service
from crowdwise.serve.settings import Settings
from crowdwise.serve.store import Store, upsert
from crowdwise.serve.votes import name_of

__all__ = ["configured", "serve", "token_for"]

# Connections at a time, and seconds in which a line without a request is closed.
_CONNECTIONS, _KEEP = 2_000, 30


def token_for(settings: Settings, name: str, role: str) -> str:
    """Make a token while nobody serves the campaign."""
    store = Store(settings.url)
    try:

        def write(connection: sa.Connection) -> str:
            if role == "annotator":
                known = Store.look_up(connection, annotators, "annotator", {name})
                if name not in known:
                    upsert(connection, annotators, [{"annotator": name_of(name, "--token"), "capacity": None, "cost": 1.0}])
            return new_token(connection, role, name_of(name, "--token"))

        return store.submit(write).result()
    finally:
        store.close()


def configured(service: Service) -> uvicorn.Config:
    """How the server runs: bounded in everything that others can make large."""
    return uvicorn.Config(
        create_app(service),
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_KEEP,
        timeout_graceful_shutdown=5,
        h11_max_incomplete_event_size=65_536,
        ws="none",
        lifespan="on",
    )


def serve(settings: Settings, host: str | None, port: int | None, say: Callable[[str], None]) -> None:
    """Serve until interrupted."""
    server = settings.server
    server = replace(server, host=host or server.host, port=server.port if port is None else port)
    settings = replace(settings, server=server)
    listening = _listen(server.host, server.port)
    place = _address(listening)
    service = Service(settings)
    made = _first_token(service.store)
    say(f"{settings.campaign.name}: {place} (Ctrl+C stops it; nothing is lost)")
    if made is not None:
        say(f"lead token, shown this once: {made}")
        say(f"sign in: {place}/#{made}")
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(configured(service)).run(sockets=[listening])
    say("stopped")


def _first_token(store: Store) -> str | None:
    """A token for the lead, where there is none yet."""
    if store.rows(sa.select(tokens.c.hash).where(tokens.c.role == "lead")):
        return None
    return store.submit(lambda connection: new_token(connection, "lead", "lead")).result()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as problem:
        raise InputError(f"cannot listen at {host}:{port} ({problem.strerror}); name another with --port") from problem


def _address(listening: Any) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
