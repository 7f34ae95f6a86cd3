"""Who may call a route: by a token in the header, or by the cookie of a page of ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable

from fastapi import HTTPException, Request

from crowdwise.serve.access import Caller
from crowdwise.serve.service import Service

__all__ = ["COOKIE", "needs", "token_of"]

COOKIE = "crowdwise_token"


def needs(*roles: str) -> Callable[[Request], Awaitable[Caller]]:
    """A dependency: the caller, if they have one of these roles."""

    async def caller(request: Request) -> Caller:
        service: Service = request.app.state.service
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        cookie = request.cookies.get(COOKIE, "")
        if kind.lower() != "bearer":
            token = cookie
            if token and request.method not in ("GET", "HEAD"):
                _same_site(request)
        found = service.access.caller(token.strip())
        if found is None:
            where = request.client.host if request.client else ""
            if not service.strangers.allows(where):
                raise HTTPException(429, "too many requests without a valid token; wait a few seconds")
            words = "send a token: Authorization: Bearer TOKEN" if not token else "this token is not valid"
            raise HTTPException(401, words, {"WWW-Authenticate": "Bearer"})
        if not service.rates.allows(f"{found.role}/{found.name}"):
            raise HTTPException(429, "too many requests with this token; slow down", {"Retry-After": "1"})
        if found.role not in roles:
            raise HTTPException(403, f"this is for {' or '.join(roles)}; the token is of the {found.role} {found.name[:60]}")
        return found

    return caller


def token_of(authorization: str) -> str:
    """The token in a header: a bearer's, or the password of tools that send one; "" where there is none."""
    kind, _, token = authorization.partition(" ")
    if kind.lower() == "basic":
        try:
            token = base64.b64decode(token, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return token.strip() if kind.lower() in ("basic", "bearer") else ""


def _same_site(request: Request) -> None:
    """A browser's cookie counts only for requests of our own pages."""
    # Browsers say it over HTTPS and on this machine; a proxy may have changed the host that the origin is compared with.
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin", "")
    ours = origin.partition("://")[2] == request.headers.get("host", "?") if site is None else site == "same-origin"
    if not ours:
        raise HTTPException(403, "this request comes from another site")
