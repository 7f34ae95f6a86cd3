"""What programs call: votes in, labels, questions, progress, checks, events and metrics out."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from crowdwise.errors import InputError
from crowdwise.serve.access import Caller
from crowdwise.serve.callers import needs
from crowdwise.serve.events import LISTENERS
from crowdwise.serve.files import upload
from crowdwise.serve.metrics import metrics_text
from crowdwise.serve.service import Service, now
from crowdwise.serve.votes import microseconds, name_of

__all__ = ["api"]

api = APIRouter()
_MOST = 10_000
Lead = Annotated[Caller, Depends(needs("lead"))]
Reader = Annotated[Caller, Depends(needs("lead", "tool"))]
Anybody = Annotated[Caller, Depends(needs("lead", "tool", "annotator"))]
Id = Annotated[str | int, Field(description="1 to 200 characters")]


class Vote(BaseModel):
    """An answer, or what became of one. Repeated and late deliveries change nothing; the newest `at` counts."""

    model_config = ConfigDict(extra="forbid")
    item: Id
    annotator: Id | None = None
    label: Id | None = None
    action: Literal["label", "skip", "delete"] = "label"
    key: Id | None = Field(None, description="Your own name of this delivery: the same key is taken once.")
    at: float | str | None = Field(None, description="When, by your clock: seconds since 1970 or ISO 8601.")
    ref: Id | None = Field(None, description="Your id of the vote, where somebody may have several about an item.")


class Item(BaseModel):
    """An item, and what to show of it."""

    model_config = ConfigDict(extra="forbid")
    item: Id
    content: dict[str, str] = Field(default_factory=dict)


class NewAnnotator(BaseModel):
    """Somebody who may answer (or a tool, or another lead)."""

    model_config = ConfigDict(extra="forbid")
    annotator: Id
    role: Literal["annotator", "tool", "lead"] = "annotator"
    capacity: int | None = Field(None, ge=0, le=10**9)
    cost: float = Field(1.0, gt=0, le=1e9, allow_inf_nan=False)


class Check(BaseModel):
    """The true label of an item; "?" where nobody can tell."""

    model_config = ConfigDict(extra="forbid")
    item: Id
    label: Id


def service_of(request: Request) -> Service:
    """The campaign."""
    found: Service = request.app.state.service
    return found


Campaign = Annotated[Service, Depends(service_of)]


# Of the two routes that annotators call all day long, requests are taken apart here: it takes a third of the time.
_VOTES: TypeAdapter[Vote | list[Vote]] = TypeAdapter(Vote | list[Vote])
_VOTES_BODY = {"required": True, "content": {"application/json": {"schema": _VOTES.json_schema(ref_template="{model}")}}}
_who = needs("lead", "tool", "annotator")


def _json(content: Any) -> Response:
    return Response(json.dumps(content), media_type="application/json")


@api.post("/votes", tags=["in"], openapi_extra={"requestBody": _VOTES_BODY})
async def post_votes(request: Request) -> Response:
    """Take in one vote or a list of votes, all or none; when this answers they are on the disk."""
    caller, service = await _who(request), service_of(request)
    body = await request.body()
    try:
        given = _VOTES.validate_json(body)
    except ValidationError as problem:
        errors = problem.errors(include_url=False, include_input=False, include_context=False)
        # What is wrong with the kind that was meant, not why it is not the other one.
        meant = "list[Vote]" if body.lstrip().startswith(b"[") else "Vote"
        first = next((one for one in errors if one["loc"] and one["loc"][0] == meant), errors[-1])
        where = ".".join(str(part) for part in first["loc"] if part not in ("Vote", "list[Vote]"))
        raise InputError(f"{where}: {first['msg']}" if where else first["msg"]) from problem
    several = given if isinstance(given, list) else [given]
    if len(several) > _MOST:
        raise InputError(f"at most {_MOST:,} votes in one request")
    outcomes = await service.take([vars(one) for one in several], caller)
    return _json({"outcomes": outcomes} if isinstance(given, list) else {"outcome": outcomes[0]})


@api.post("/upload", tags=["in"])
async def post_upload(
    request: Request, _: Lead, service: Campaign, name: str = "votes.csv", at: str | None = None
) -> dict[str, Any]:
    """Take in a table of votes, any that crowdwise reads, sent as the body of the request."""
    when = now() if at is None else microseconds(at if not _is_number(at) else float(at), now())
    return await upload(service, await request.body(), name, when)


@api.post("/items", tags=["in"])
async def post_items(given: list[Item], _: Lead, service: Campaign) -> dict[str, int]:
    """Add items; those that are there are left as they are."""
    if len(given) > _MOST:
        raise InputError(f"at most {_MOST:,} items in one request")
    rows = [(name_of(one.item, "item"), json.dumps(one.content) if one.content else None) for one in given]
    return {"new": await service.add_items(rows)}


@api.post("/annotators", tags=["in"])
async def post_annotator(given: NewAnnotator, _: Lead, service: Campaign) -> dict[str, str]:
    """Give somebody a token, which is shown this once; an earlier one is no longer valid."""
    name = name_of(given.annotator, "annotator")
    return {"annotator": name, "token": await service.add_annotator(name, given.role, given.capacity, given.cost)}


@api.get("/labels", tags=["out"])
async def get_labels(
    _: Reader, service: Campaign, format: Literal["json", "csv"] = "json", certified: bool = False
) -> Response:
    """All labels with calibrated confidence; with `certified`, those of the audit with what was checked corrected."""
    return Response(
        await asyncio.to_thread(_labels, service, format, certified),
        media_type="text/csv; charset=utf-8" if format == "csv" else "application/json",
        headers={"Content-Disposition": f'attachment; filename="labels.{format}"'} if format == "csv" else None,
    )


def _labels(service: Service, format: str, certified: bool) -> str:
    import polars as pl

    from crowdwise.io.writer import escape_formulas, rounded

    revision = service.brain.revision
    if certified:
        frozen = service.audits.frozen()
        frame, revision = pl.DataFrame({"item": list(frozen), "label": list(frozen.values())}), service.audits.revision
    else:
        frame = rounded(service.brain.live.frame())
    if format == "csv":
        # People open it with a spreadsheet.
        return escape_formulas(frame).write_csv()
    return f'{{"revision":{revision},"labels":{frame.write_json()}}}'


@api.get("/annotators", tags=["out"])
async def get_annotators(_: Lead, service: Campaign) -> dict[str, Any]:
    """Everybody as of the last fit: votes, accuracy with its 95% interval, worst confusion, flags with reasons."""
    return {"annotators": service.annotators()}


_ANNOTATOR = {"name": "annotator", "in": "query", "required": False, "schema": {"type": "string"}}


@api.get("/next", tags=["questions"], openapi_extra={"parameters": [_ANNOTATOR]})
async def get_next(request: Request) -> Response:
    """The best question for an annotator now; nobody else gets it until it is answered or its time is over."""
    caller, annotator = await _who(request), request.query_params.get("annotator")
    who = caller.annotator or annotator
    if who is None:
        raise InputError("whom is the question for? /next?annotator=NAME")
    if annotator is not None and annotator != who:
        raise PermissionError(f"this token is of {who}, who cannot ask for others")
    return _json(await service_of(request).next(who))


@api.post("/release", tags=["questions"])
async def post_release(given: Check | Item, caller: Anybody, service: Campaign, annotator: str | None = None) -> dict[str, str]:
    """Give a question back unanswered: others may have it."""
    who = caller.annotator or annotator
    if who is None:
        raise InputError("whose question is it? /release?annotator=NAME")
    await service.give_back(name_of(given.item, "item"), name_of(who, "annotator"))
    return {"released": str(given.item)}


@api.get("/progress", tags=["out"])
async def get_progress(_: Reader, service: Campaign) -> dict[str, Any]:
    """How far the campaign is: target, expected accuracy with its range, what checks prove, budget, votes still to ask."""
    return _finite(service.progress())


@api.get("/history", tags=["out"])
async def get_history(_: Reader, service: Campaign) -> dict[str, Any]:
    """How the campaign went: a snapshot per fit, at most one a minute; and deliveries per hour."""
    hours = [{"hour": hour * 3600, "deliveries": n} for hour, n in sorted(service.brain.hours.items())[-24 * 14 :]]
    return _finite({"snapshots": await asyncio.to_thread(service.history), "hours": hours})


@api.post("/audit", tags=["audit"])
async def post_audit(_: Lead, service: Campaign) -> dict[str, Any]:
    """Begin an audit: freeze the labels of the last fit, and draw the order in which to check them."""
    return await service.begin_audit()


@api.get("/audit", tags=["audit"])
async def get_audit(_: Lead, service: Campaign, n: Annotated[int, Query(ge=1, le=100)] = 20) -> dict[str, Any]:
    """Items to check next, without their labels, and what is proven so far."""
    waiting = service.audits.waiting(n)
    return {"audit": service.audits.facts(), "items": [service.shown(item) for item in waiting]}


@api.post("/checks", tags=["audit"])
async def post_check(given: Check, caller: Lead, service: Campaign) -> dict[str, Any]:
    """Say what the true label of an item is."""
    return await service.check(name_of(given.item, "item"), name_of(given.label, "label"), caller.name)


@api.get("/events", tags=["out"])
async def get_events(_: Lead, service: Campaign) -> StreamingResponse:
    """What happens, as server-sent events: votes, fit, progress, annotators, plan, audit, file."""
    if len(service.events) >= LISTENERS:
        raise HTTPException(429, f"{LISTENERS} listeners are enough; close one")
    return StreamingResponse(service.events.listen(), media_type="text/event-stream")


@api.get("/metrics", tags=["watch"])
async def get_metrics(request: Request, _: Reader, service: Campaign) -> Response:
    """Everything that is counted, for Prometheus."""
    text = await asyncio.to_thread(metrics_text, service, request.app.state.timings)
    return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


@api.get("/health", tags=["watch"])
async def get_health(service: Campaign) -> dict[str, Any]:
    """Whether the service runs; needs no token and says nothing of the campaign."""
    await asyncio.to_thread(service.store.newest)
    return {"status": "failing" if "failed" in service.brain.facts else "UP", "inferred": service.brain.live.fit is not None}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _finite(value: dict[str, Any]) -> dict[str, Any]:
    """The same with nothing that JSON has no word for."""
    return {name: _said(one) for name, one in value.items()}


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return _finite(value)
    if isinstance(value, list):
        return [_said(one) for one in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
