"""Pages: sign in, the dashboard, the audit queue, the annotators' page and the list of routes; rendered here, no build step."""

from __future__ import annotations

import asyncio
import html
import json
import re
from importlib.resources import files
from string import Template
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse

from crowdwise.data.markup import plain, text
from crowdwise.report.stylesheet import REPORT_STYLE
from crowdwise.serve.access import Caller
from crowdwise.serve.callers import COOKIE, needs
from crowdwise.serve.dashboard import dashboard
from crowdwise.serve.routes import Campaign, api

__all__ = ["pages"]

pages = APIRouter(include_in_schema=False)
Anybody = Annotated[Caller, Depends(needs("lead", "tool", "annotator"))]
Lead = Annotated[Caller, Depends(needs("lead"))]
_CODE, _AS_CODE = re.compile("`([^`]*)`"), r"<code>\1</code>"
_MONTH = 30 * 86_400


def _file(name: str) -> str:
    return files("crowdwise.serve").joinpath(name).read_text(encoding="utf-8")


def _page(
    request: Request, title: str, body: str, *, script: str = "live.js", mode: str = "", caller: Caller | None = None
) -> HTMLResponse:
    service, role = request.app.state.service, "" if caller is None else caller.role
    places = {
        "lead": [("/", "Dashboard"), ("/check", "Check labels"), ("/labels?format=csv", "Download labels"), ("/docs", "API")]
    }
    links = [*places.get(role, [("/", "Questions")] if role == "annotator" else [])]
    here = request.url.path
    nav = "".join(f'<a href="{to}"{" aria-current=page" if to == here else ""}>{words}</a>' for to, words in links)
    who = ""
    if caller is not None:
        who = html.escape(caller.name)
        nav += f'<form method="post" action="/signout">{text(caller.name, 40)} <button>Sign out</button></form>'
    name = service.settings.campaign.name
    fields = {"title": plain(f"{title}: {name}", 120), "name": text(name, 80), "nav": nav, "body": body, "who": who}
    return HTMLResponse(Template(_file("page.html")).substitute(fields, script=script, mode=mode))


@pages.get("/")
async def get_start(request: Request, service: Campaign) -> Response:
    """The dashboard of a lead, the questions of an annotator; whoever is neither may sign in."""
    try:
        caller = await needs("lead", "tool", "annotator")(request)
    except HTTPException as problem:
        if problem.status_code == 429:
            raise
        return _sign_in(request)
    if caller.role == "lead":
        body = await asyncio.to_thread(dashboard, service)
        return _page(request, "Campaign", f'<p id="status" class="status" role="status">live</p>{body}', caller=caller)
    if caller.role == "annotator":
        return _work(request, "Questions", "answer", caller)
    return _page(request, "Campaign", "<p>This token is for programs; there is no page for it.</p>", caller=caller)


def _sign_in(request: Request, problem: str = "", status: int = 200) -> HTMLResponse:
    made = _page(
        request,
        "Sign in",
        '<form id="signin" class="signin card" method="post" action="/signin"><h1>Sign in</h1>'
        f'<p class="problem" role="alert">{html.escape(problem)}</p>'
        '<label for="token">Your token</label><input id="token" name="token" type="password" autocomplete="current-password" '
        "required autofocus><button>Sign in</button></form>",
    )
    made.status_code = status
    return made


@pages.post("/signin")
async def post_sign_in(request: Request, service: Campaign) -> Response:
    """Keep a valid token as a cookie that scripts cannot read and other sites cannot send."""
    try:
        given = parse_qs((await request.body()).decode(), max_num_fields=5)
    except ValueError:
        return _sign_in(request, "The request is malformed.", 400)
    token = given.get("token", [""])[0].strip()
    if not service.strangers.allows(request.client.host if request.client else ""):
        return _sign_in(request, "Too many attempts; wait a few seconds.", 429)
    if service.access.caller(token) is None:
        return _sign_in(request, "This token is not valid. The lead can make a new one.", 401)
    answer = RedirectResponse("/", 303)
    safe = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token, max_age=_MONTH, httponly=True, samesite="strict", secure=safe)
    return answer


@pages.post("/signout")
async def post_sign_out(_: Anybody) -> Response:
    """Forget the token."""
    answer = RedirectResponse("/", 303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


@pages.get("/live")
async def get_live(_: Lead, service: Campaign) -> HTMLResponse:
    """The parts of the dashboard, as they are now."""
    return HTMLResponse(await asyncio.to_thread(dashboard, service))


@pages.get("/check")
async def get_check(request: Request, caller: Lead) -> HTMLResponse:
    """The audit queue."""
    return _work(request, "Check labels", "check", caller)


def _work(request: Request, title: str, mode: str, caller: Caller) -> HTMLResponse:
    classes = html.escape(json.dumps(list(request.app.state.service.settings.campaign.classes)))
    lead = (
        "Choose the true class of each item, without a look at the votes. <kbd>?</kbd> cannot tell, <kbd>←</kbd> goes back."
        if mode == "check"
        else "Choose the class of each item. <kbd>s</kbd> skips."
    )
    bar = (
        '<progress id="done" value="0" max="1"></progress><span id="count" aria-live="polite"></span>'
        if mode == "check"
        else ""
    )
    frozen = (
        '<p id="frozen" class="status">An audit freezes the labels of the last fit: votes that come later change neither them '
        "nor what is proven of them. Begin when most votes are in.</p>"
        if mode == "check"
        else ""
    )
    body = (
        f'<h1>{title}</h1><p class="lead">{lead} Numbers choose.</p><div class="bar">{bar}'
        '<button type="button" id="back" hidden>← Back</button>'
        '<button type="button" id="begin" hidden>Begin an audit of the labels of the last fit</button></div>'
        '<article id="content" class="card" tabindex="-1" aria-live="polite"></article>'
        f'<div id="choices" role="group" aria-label="Class" data-classes="{classes}" hidden></div>'
        f'{frozen}<p id="status" class="status" role="status"></p><noscript>This page needs JavaScript.</noscript>'
    )
    return _page(request, title, body, script="work.js", mode=mode, caller=caller)


@pages.get("/style.css")
async def get_style() -> Response:
    """The report's style, and what these pages add."""
    return Response(REPORT_STYLE + _file("page.css"), media_type="text/css", headers={"Cache-Control": "max-age=300"})


@pages.get("/{name}.js")
async def get_script(name: Literal["signin", "live", "work"]) -> Response:
    """The scripts: of every page, of the dashboard, and of the queues."""
    return Response(_file(f"{name}.js"), media_type="text/javascript", headers={"Cache-Control": "max-age=300"})


def _described(request: Request) -> dict[str, Any]:
    app = request.app
    return get_openapi(title=app.title, version=app.version, description=app.description, routes=api.routes)


@pages.get("/openapi.json")
async def get_description(request: Request, _: Anybody) -> JSONResponse:
    """The routes as OpenAPI."""
    return JSONResponse(_described(request))


@pages.get("/docs")
async def get_docs(request: Request, caller: Anybody) -> HTMLResponse:
    """The routes as a page that loads nothing from elsewhere."""
    made = []
    for path, methods in _described(request)["paths"].items():
        for method, about in methods.items():
            given = "".join(f"<dd><code>?{plain(one['name'])}=</code></dd>" for one in about.get("parameters", []))
            made.append(
                f'<dl class="route card"><dt>{method.upper()} <code>{plain(path)}</code></dt>'
                f"<dd>{_CODE.sub(_AS_CODE, plain(about.get('description', ''), 300))}</dd>{given}</dl>"
            )
    lead = '<h1>API</h1><p class="lead">Send your token as <code>Authorization: Bearer TOKEN</code>. Schemas: '
    body = f'{lead}<a href="/openapi.json">openapi.json</a>.</p>{"".join(made)}'
    return _page(request, "API", body, caller=caller)
