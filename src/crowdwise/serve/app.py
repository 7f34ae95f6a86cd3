"""The web application: who may call what, and how errors are answered; the routes are in `crowdwise.serve.routes`."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from crowdwise import __version__
from crowdwise.errors import CrowdwiseError
from crowdwise.serve.callers import token_of
from crowdwise.serve.files import Drop
from crowdwise.serve.guard import Guard
from crowdwise.serve.label_studio.backend import LARGE, label_studio
from crowdwise.serve.label_studio.bridge import bridge_of
from crowdwise.serve.metrics import Timings
from crowdwise.serve.page import pages
from crowdwise.serve.routes import api
from crowdwise.serve.service import Service
from crowdwise.serve.store import Busy, Conflict

__all__ = ["create_app"]

_ABOUT = """Votes in, labels with calibrated confidence out. Send your token as `Authorization: Bearer TOKEN`."""


def create_app(service: Service) -> Any:
    """The application of one campaign, which it closes at shutdown."""
    settings = service.settings
    bridge, large = bridge_of(service), {"/upload": settings.server.max_upload}

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.events.bind(asyncio.get_running_loop())
        service.brain.start()
        if bridge is not None:
            bridge.start()
        # What is here now stays: looking through it for garbage would hold every request up.
        gc.collect()
        gc.freeze()
        watching = None
        if settings.campaign.drop is not None:
            watching = asyncio.create_task(Drop(service, settings.place(settings.campaign.drop)).watch())
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()
            service.events.close()
            if bridge is not None:
                await asyncio.to_thread(bridge.close)
            await asyncio.to_thread(service.close)

    app = FastAPI(
        title=f"crowdwise: {settings.campaign.name}",
        version=__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.service, app.state.timings = service, Timings()
    _answer_errors(app)
    # As they are: included routers would be built at the first request, beside other threads.
    app.router.routes.extend([*api.routes, *pages.routes])
    if bridge is not None:
        app.state.bridge = bridge
        app.router.routes.extend(label_studio.routes)
        large |= dict.fromkeys(LARGE, bridge.settings.max_webhook)
    app.add_middleware(_Timed, timings=app.state.timings)
    server = settings.server

    def largest(path: str, headers: dict[bytes, bytes]) -> int:
        """Bodies are read before anything else is: what strangers send is never large."""
        if path not in large:
            return server.max_body
        token = token_of(headers.get(b"authorization", b"").decode("latin-1"))
        return server.max_body if service.access.caller(token) is None else large[path]

    return Guard(
        app,
        hosts={server.host.lower(), *(name.lower() for name in server.hosts)},
        limit=largest,
        timeout=server.timeout,
    )


def _answer_errors(app: FastAPI) -> None:
    def answer(status: int, words: str) -> JSONResponse:
        # Text of strangers goes back in JSON alone, and without what JSON cannot hold.
        return JSONResponse({"error": words.encode("utf-8", "replace").decode()[:500]}, status)

    async def ours(_: Request, problem: Exception) -> JSONResponse:
        status = 409 if isinstance(problem, Conflict) else 429 if isinstance(problem, Busy) else 422
        made = answer(status, str(problem))
        if isinstance(problem, Busy):
            made.headers["Retry-After"] = "1"
        return made

    async def forbidden(_: Request, problem: Exception) -> JSONResponse:
        return answer(403, str(problem))

    async def malformed(_: Request, problem: Exception) -> JSONResponse:
        found = problem.errors()[0] if isinstance(problem, RequestValidationError) and problem.errors() else {}
        where = ".".join(str(part) for part in found.get("loc", ()))
        return answer(422, f"{where}: {found.get('msg', 'the request is malformed')}")

    async def plain(_: Request, problem: Exception) -> JSONResponse:
        assert isinstance(problem, StarletteHTTPException)
        made = answer(problem.status_code, str(problem.detail))
        made.headers.update(problem.headers or {})
        return made

    app.add_exception_handler(CrowdwiseError, ours)
    app.add_exception_handler(PermissionError, forbidden)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(StarletteHTTPException, plain)


class _Timed:
    """Counts every request, by its route and status."""

    def __init__(self, app: Any, timings: Timings) -> None:
        self._app, self._timings = app, timings

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()

        async def timed(message: Any) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "other")
                self._timings.add(f"{scope['method']} {route}", message["status"], time.perf_counter() - start)
            await send(message)

        await self._app(scope, receive, timed)
