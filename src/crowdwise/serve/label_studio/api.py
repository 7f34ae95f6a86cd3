"""A small client of Label Studio over the standard library: bounded answers, bounded retries, messages with a remedy."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from crowdwise.errors import InputError

__all__ = ["TOKEN", "Away", "LabelStudio", "Refused", "token_of"]

# The environment variable with the token.
TOKEN = "LABEL_STUDIO_API_KEY"
_ATTEMPTS, _PAUSE, _LARGEST = 3, 0.3, 200_000_000
# Requests that may be sent twice without doing anything twice.
_REPEATABLE = frozenset({"GET", "PATCH", "PUT", "DELETE"})
_TOKENS = (
    "make one in Label Studio (Account & Settings: Personal Access Token), or, for a legacy token, let an owner enable these "
    "(Organization: API Tokens Settings)"
)


class Away(InputError):
    """Label Studio does not answer now; later it may."""


class Refused(InputError):
    """Label Studio answered with an error."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse: the token would travel along, to wherever it goes."""


class LabelStudio:
    """Calls the API of one Label Studio.

    Parameters
    ----------
    url : str
        Where it runs.
    token : str
        A personal access token, or a legacy token.
    timeout : float
        Seconds to wait for one answer.
    """

    def __init__(self, url: str, token: str, timeout: float = 30.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"Label Studio has an address such as http://localhost:8080; got {url!r:.80}")
        self.url, self._timeout = url.rstrip("/"), timeout
        self._token, self._access = token.strip(), ""
        # A personal access token is a JSON web token, with which short-lived ones are fetched.
        self._personal = self._token.count(".") == 2
        if not self._token.isascii() or not self._token.isprintable() or not 5 <= len(self._token) <= 4_000:
            raise InputError(f"this is no token of Label Studio; {_TOKENS}")
        self._opener = urllib.request.build_opener(_NoRedirects)

    def get(self, path: str, **query: Any) -> Any:
        """What stands at a path."""
        return self.call("GET", path + (f"?{urlencode(query)}" if query else ""))

    def pages(self, project: int, size: int = 500) -> Iterator[dict[str, Any]]:
        """Every task of a project with its counts, without its annotations."""
        number, seen = 0, 0
        while True:
            number += 1
            try:
                found = self.get("/api/tasks", project=project, page=number, page_size=size, resolve_uri="false")
            except Refused as problem:
                # The page after the last.
                if problem.status == 404 and number > 1:
                    return
                raise
            yield from found["tasks"]
            seen += len(found["tasks"])
            if not found["tasks"] or seen >= found["total"]:
                return

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the API; what may be repeated is, where Label Studio is busy or away for a moment."""
        for attempt in range(_ATTEMPTS):
            try:
                return self._once(method, path, body)
            except (Away, Refused) as problem:
                busy = isinstance(problem, Away) or problem.status in (429, 500, 502, 503, 504)
                if not busy or method not in _REPEATABLE or attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE * 4**attempt)
        raise AssertionError

    def _once(self, method: str, path: str, body: Any) -> Any:
        if not self._personal:
            return self._send(method, path, body, f"Token {self._token}")
        if self._access:
            try:
                return self._send(method, path, body, f"Bearer {self._access}")
            except Refused as problem:
                # Short-lived ones end after some minutes.
                if problem.status != 401:
                    raise
        self._access = str(self._send("POST", "/api/token/refresh/", {"refresh": self._token}, "")["access"])
        return self._send(method, path, body, f"Bearer {self._access}")

    def _send(self, method: str, path: str, body: Any, authorization: str) -> Any:
        raw = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/json"} | ({"Authorization": authorization} if authorization else {})
        if raw is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(f"{self.url}{path}", raw, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                text = answer.read(_LARGEST + 1)
        except urllib.error.HTTPError as problem:
            with problem:
                raise self._refused(method, path, problem) from None
        except (OSError, HTTPException) as problem:
            reason = getattr(problem, "reason", problem)
            words = f"Label Studio at {self.url} does not answer ({reason!s:.200}); is it running, and is the url right?"
            raise Away(words) from None
        if len(text) > _LARGEST:
            raise Refused(0, f"{self.url}{path}: the answer is larger than {_LARGEST:,} bytes")
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise Refused(0, f"{self.url}{path} does not answer with JSON; is this the address of Label Studio?") from None

    def _refused(self, method: str, path: str, problem: urllib.error.HTTPError) -> Refused:
        words = problem.read(10_000).decode("utf-8", "replace")
        try:
            found = json.loads(words)
            detail = (
                str(found.get("validation_errors") or found.get("detail") or found) if isinstance(found, dict) else str(found)
            )
        except ValueError:
            detail = str(problem.reason)
        where = f"{method} {self.url}{path.partition('?')[0]}: {problem.code}"
        if problem.code == 401:
            return Refused(401, f"{where}, the token is not valid; {_TOKENS}")
        if problem.code in (301, 302, 303, 307, 308):
            to = problem.headers.get("Location", "?")[:200]
            return Refused(problem.code, f"{where}, it moved to {to}; give that address as url")
        if problem.code == 404:
            detail += "; is the number of the project right, and does the token's owner see it?"
        return Refused(problem.code, f"{where} {detail[:400]}")


def token_of(path: Path | None) -> str:
    """The token of Label Studio: in a file that nobody else may read, or in the environment."""
    found = os.environ.get(TOKEN, "").strip()
    if path is None or (found and not path.exists()):
        if not found:
            file = "a file (--token-file, which becomes token_file in the campaign's file)"
            raise InputError(f"no token for Label Studio: set {TOKEN}, or name {file}; {_TOKENS}")
        return found
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InputError(f"{path} can be read by others; keep the token to yourself: chmod 600 {path}")
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        words = f"{path}: the token of Label Studio cannot be read ({problem}); write it there, or set {TOKEN}"
        raise InputError(words) from problem
