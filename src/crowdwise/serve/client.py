"""A client of `crowdwise serve` with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlencode

from crowdwise.errors import InputError

__all__ = ["Client"]


class Client:
    """Speaks to a running service.

    Parameters
    ----------
    url : str
        Where it runs, such as ``http://127.0.0.1:8765``.
    token : str
        Of a lead, a tool or an annotator.
    timeout : float
        Seconds to wait for an answer; and, where the service asks for patience, altogether until it takes the request.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8765", token)  # doctest: +SKIP
    >>> question = client.next("anna")  # doctest: +SKIP
    >>> client.vote(question["item"], "cat", annotator="anna", key="anna-1")  # doctest: +SKIP
    'taken'
    """

    def __init__(self, url: str, token: str, timeout: float = 30.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"a service has an address such as http://127.0.0.1:8765; got {url!r:.60}")
        self._url, self._token, self._timeout = url.rstrip("/"), token, timeout

    def vote(self, item: Any, label: Any, **more: Any) -> str:
        """Give one vote; `more` are annotator, key, at, action and ref. Returns "taken", "repeated" or "older"."""
        return str(self.call("POST", "/votes", _keyed({"item": item, "label": label, **more}), twice=True)["outcome"])

    def votes(self, votes: Iterable[dict[str, Any]]) -> list[str]:
        """Give several votes, all or none."""
        return list(self.call("POST", "/votes", list(map(_keyed, votes)), twice=True)["outcomes"])

    def next(self, annotator: str | None = None) -> dict[str, Any]:
        """The next question; its "item" is None where there is none, and "why" says why."""
        query = "" if annotator is None else f"?annotator={quote(annotator, safe='')}"
        return dict(self.call("GET", f"/next{query}"))

    def labels(self, certified: bool = False) -> list[dict[str, Any]]:
        """All labels, a row per item."""
        return list(self.call("GET", "/labels?certified=true" if certified else "/labels")["labels"])

    def annotators(self) -> list[dict[str, Any]]:
        """All annotators, with intervals and flags."""
        return list(self.call("GET", "/annotators")["annotators"])

    def progress(self) -> dict[str, Any]:
        """How far the campaign is."""
        return dict(self.call("GET", "/progress"))

    def add_items(self, items: Iterable[Any]) -> int:
        """Add items: ids, or pairs of an id and what to show of it. Returns how many were new."""
        rows = [one if isinstance(one, tuple) else (one, {}) for one in items]
        return int(self.call("POST", "/items", [{"item": item, "content": shown} for item, shown in rows])["new"])

    def add_annotator(self, name: str, **more: Any) -> str:
        """Make somebody known; `more` are role, capacity and cost. Returns their token, which nobody can look up later."""
        return str(self.call("POST", "/annotators", {"annotator": name, **more})["token"])

    def upload(self, table: bytes, name: str = "votes.csv") -> dict[str, Any]:
        """Send a table of votes: its bytes, as `Path("votes.csv").read_bytes()` has them."""
        if not isinstance(table, bytes):
            raise InputError("upload takes the bytes of a table: upload(Path('votes.csv').read_bytes())")
        return dict(self.call("POST", f"/upload?{urlencode({'name': name})}", table, twice=True))

    def call(self, method: str, path: str, body: Any = None, *, twice: bool = False) -> Any:
        """Call any route; an error of the service is an `InputError` with its words.

        A request that comes too soon is sent again when the service says. One whose connection breaks is sent once more, if it
        only reads, or where `twice` says that the service takes it once however often it comes.
        """
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, "Accept": "application/json"}
        request = urllib.request.Request(f"{self._url}{path}", raw, headers, method=method)
        until, again = time.monotonic() + self._timeout, twice or method == "GET"
        while True:
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as problem:
                wished = problem.headers.get("Retry-After", "")
                pause = max(int(wished), 1) if problem.code == 429 and wished.isdecimal() else None
                if pause is not None and time.monotonic() + pause < until:
                    problem.close()
                    time.sleep(pause)
                    continue
                words = problem.read().decode("utf-8", "replace")
                with_reason = json.loads(words).get("error", words) if words.startswith("{") else words
                raise InputError(f"{method} {path}: {problem.code} {with_reason[:300]}") from problem
            except (OSError, http.client.HTTPException) as problem:
                reason = getattr(problem, "reason", problem)
                if again and not isinstance(reason, TimeoutError):
                    again = False
                    continue
                raise InputError(f"{self._url} does not answer ({reason})") from problem


def _keyed(vote: dict[str, Any]) -> dict[str, Any]:
    """A vote with a key, by which the service takes it once."""
    return vote if vote.get("key") is not None else {**vote, "key": secrets.token_hex(16)}
