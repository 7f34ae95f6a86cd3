"""Start the server: where it listens, and what is said at the start."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
import uvicorn

from crowdwise.errors import InputError
from crowdwise.serve.access import new_token
from crowdwise.serve.app import create_app
from crowdwise.serve.connections import connection_within
from crowdwise.serve.schema import annotators, tokens
from crowdwise.serve.service import Service
from crowdwise.serve.settings import Settings
from crowdwise.serve.store import Store, upsert
from crowdwise.serve.votes import name_of

__all__ = ["configured", "serve", "token_for"]

# Connections at a time, files that are needed beside them, and seconds in which a line without a request is closed.
_CONNECTIONS, _FILES, _KEEP = 2_000, 128, 30
# Seconds for which a thread may keep others waiting. Votes are followed by a thread beside the one that answers, which by
# Python's default of 5 ms would wait that long for every line that it reads.
_TURN = 0.0005


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
    server, together = service.settings.server, _room()
    return uvicorn.Config(
        create_app(service),
        http=connection_within(server.timeout, max(server.max_body, server.max_upload), together),
        log_level="warning",
        access_log=False,
        server_header=False,
        # Beyond it are answers of 503; connections that are too many are closed before.
        limit_concurrency=together + 1,
        timeout_keep_alive=_KEEP,
        timeout_graceful_shutdown=5,
        ws="none",
        lifespan="on",
    )


def serve(settings: Settings, host: str | None, port: int | None, say: Callable[[str], None]) -> None:
    """Serve until interrupted."""
    server = settings.server
    server = replace(server, host=host or server.host, port=server.port if port is None else port)
    settings = replace(settings, server=server)
    service = Service(settings)
    with contextlib.ExitStack() as undo:
        undo.callback(service.close)
        listening = undo.enter_context(_listen(server.host, server.port))
        place = _address(listening)
        # What is wrong with the campaign is said before a token is made, which is shown this once.
        config = configured(service)
        service.store.serves_at(place)
        made = _first_token(service)
        undo.pop_all()
    say(f"{settings.campaign.name}: {place} (Ctrl+C stops it; nothing is lost)")
    if made is not None:
        say(f"lead token, shown this once: {made}")
        say(f"sign in: {place}/#{made}")
    for remark in service.remarks:
        say(remark)
    if server.host in ("0.0.0.0", "::") and not server.hosts:
        say('other machines are refused: name the address by which they find this one in [server], hosts = ["192.168.1.20"]')
    service.say = say
    sys.setswitchinterval(_TURN)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
    say("stopped")


def _room() -> int:
    """Connections for which there are files enough."""
    try:
        import resource
    except ImportError:  # Windows, which counts otherwise
        return _CONNECTIONS
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _CONNECTIONS if most == resource.RLIM_INFINITY else max(min(_CONNECTIONS, most - _FILES), 16)


def _first_token(service: Service) -> str | None:
    """A token for the lead, where there is none yet."""
    store = service.store
    if store.rows(sa.select(tokens.c.hash).where(tokens.c.role == "lead")):
        return None
    made = store.submit(lambda connection: new_token(connection, "lead", "lead")).result()
    service.access.forget()
    return made


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as problem:
        raise InputError(f"cannot listen at {host}:{port} ({problem.strerror}); name another with --port") from problem


def _address(listening: Any) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
