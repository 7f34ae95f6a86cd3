"""Routes that Label Studio calls: its webhook, and the protocol of a model backend beside `/health`, always there."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Request

from crowdwise.errors import InputError
from crowdwise.serve.access import Caller
from crowdwise.serve.callers import needs, token_of
from crowdwise.serve.label_studio.bridge import Bridge
from crowdwise.serve.label_studio.link import CONSENSUS

__all__ = ["LARGE", "label_studio"]

label_studio = APIRouter()
# Whose bodies have a limit of their own.
LARGE = ("/webhook", "/predict", "/setup")
_PARSED_HERE = 100_000


def bridge_here(request: Request) -> Bridge:
    """The bridge of this campaign."""
    found: Bridge = request.app.state.bridge
    return found


async def tool(request: Request) -> Caller:
    """The caller, with the token of a tool: as a bearer, or as the password that model connections send; never slowed down."""
    service = request.app.state.service
    found: Caller | None = service.access.caller(token_of(request.headers.get("authorization", "")))
    if found is None or found.role not in ("tool", "lead"):
        where = request.client.host if request.client else ""
        if not service.strangers.allows(where):
            raise HTTPException(429, "too many requests without a valid token; wait a few seconds")
        raise HTTPException(401, "this is for Label Studio, with the token that `crowdwise label-studio connect` gave it")
    return found


Tool = Annotated[Caller, Depends(tool)]
Reader = Annotated[Caller, Depends(needs("lead", "tool"))]
Here = Annotated[Bridge, Depends(bridge_here)]


async def _body(request: Request) -> Any:
    raw = await request.body()
    try:
        return await asyncio.to_thread(json.loads, raw) if len(raw) > _PARSED_HERE else json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError("the body is not JSON") from None


@label_studio.post("/webhook", tags=["label studio"])
async def post_webhook(request: Request, _: Tool, bridge: Here) -> dict[str, int]:
    """Take in what Label Studio reports; when this answers its votes are on the disk."""
    return {"deliveries": await bridge.hear(await _body(request))}


@label_studio.post("/setup", tags=["label studio"])
async def post_setup(_: Tool) -> dict[str, str]:
    """Say which version predictions have. What Label Studio sends here, a token among it, is not looked at."""
    return {"model_version": CONSENSUS}


@label_studio.get("/versions", tags=["label studio"])
async def get_versions(_: Tool) -> dict[str, list[str]]:
    """The versions of predictions."""
    return {"versions": [CONSENSUS]}


@label_studio.post("/predict", tags=["label studio"])
async def post_predict(request: Request, _: Tool, bridge: Here) -> dict[str, Any]:
    """Labels with their confidence, for the tasks of a request in their order."""
    body = await _body(request)
    tasks = body.get("tasks") if isinstance(body, dict) else None
    if not isinstance(tasks, list):
        raise InputError("tasks must be a list")
    numbers = [one.get("id") if isinstance(one, dict) and isinstance(one.get("id"), int) else None for one in tasks]
    return {"results": await asyncio.to_thread(bridge.predictions, numbers)}


@label_studio.get("/label-studio", tags=["label studio"])
async def get_state(_: Reader, bridge: Here) -> dict[str, Any]:
    """How the connection to Label Studio stands."""
    about = {"url": bridge.settings.url, "project": bridge.settings.project, "tasks": len(bridge.mirror.tasks)}
    return about | {"settled": bridge.settled, **bridge.facts}
