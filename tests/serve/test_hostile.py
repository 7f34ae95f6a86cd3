"""Hostile requests: refused with 4xx, never 5xx, and nothing is written."""

from __future__ import annotations

import http.client
import random
import socket

import pytest
import sqlalchemy as sa
from tests.serve.serving import Served

from crowdwise.serve.access import Rates
from crowdwise.serve.schema import METADATA

# For nobody without a token.
CLOSED = [("POST", path) for path in ("/votes", "/audit", "/annotators", "/upload", "/items", "/checks", "/release")]
CLOSED += [("GET", path) for path in ("/labels", "/annotators", "/next?annotator=a", "/events", "/metrics", "/live", "/docs")]
VOTE = {"item": "h", "annotator": "a", "label": "cat"}


@pytest.fixture(autouse=True)
def patient(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test begins with as many attempts as a stranger has."""
    monkeypatch.setattr(served.service, "strangers", Rates(5.0, 20.0))


def state(served: Served) -> dict[str, int]:
    """Rows of every table but those of which the service writes by itself."""
    return {
        name: served.service.store.rows(sa.select(sa.func.count()).select_from(table))[0][0]
        for name, table in METADATA.tables.items()
        if name != "snapshots"
    }


def raw(served: Served, text: bytes) -> int:
    """Send bytes as they are; the status, or 0 where the line was closed."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as line:
        line.sendall(text)
        line.shutdown(socket.SHUT_WR)
        found = line.recv(65536)
    return int(found.split()[1]) if found else 0


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "é" * 30, "' OR 1=1 --" * 3, "A" * 10_000])
def test_without_a_valid_token_there_is_nothing(served: Served, token: str) -> None:
    before = state(served)
    headers = {} if not token else {"authorization": b"Bearer " + token.encode()}
    for method, path in CLOSED:
        line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        line.request(method, path, b"{}", headers)
        status = line.getresponse().status
        line.close()
        assert status in (401, 429, 400), (method, path)
    assert state(served) == before


def test_what_strangers_send_is_never_large(served: Served) -> None:
    large = b"item,annotator,label\n" + b"x,y,bird\n" * 120_000
    assert served.call("POST", "/upload", large, token="A" * 43).status == 413
    assert served.call("POST", "/upload", large).status == 422


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/votes", b"{", 422),
        ("POST", "/votes", b"", 422),
        ("POST", "/votes", b"[" * 100_000, 422),
        ("POST", "/votes", b'{"item": "\\ud800", "annotator": "a", "label": "cat"}', 422),
        ("POST", "/votes", b'{"item": "a\\u0000", "annotator": "a", "label": "cat"}', 422),
        ("POST", "/votes", b"\xff\xfe", 422),
        ("POST", "/votes", {"item": "h", "annotator": "a", "label": "bird"}, 422),
        ("POST", "/votes", {**VOTE, "extra": 1}, 422),
        ("POST", "/votes", {**VOTE, "at": "1e999"}, 422),
        ("POST", "/votes", b'{"item": "h", "annotator": "a", "label": "cat", "at": NaN}', 422),
        ("POST", "/votes", b'{"item": "h", "annotator": "a", "label": "cat", "at": 1e400}', 422),
        ("POST", "/votes", {**VOTE, "item": 10**300}, 422),
        ("POST", "/votes", [VOTE, {"item": "h"}], 422),
        ("POST", "/votes", [VOTE] * 10_001, 422),
        ("POST", "/votes", b"x" * 1_000_001, 413),
        ("POST", "/upload?name=../../etc/passwd", b"item,annotator,label\nx,y,cat\n", 422),
        ("POST", "/upload?name=v.csv", b"item,annotator,label\nx,y,bird\n", 422),
        ("POST", "/upload?name=v.csv", b"\x00\x01\x02", 422),
        ("POST", "/upload?name=v.zip", b"PK\x03\x04" + b"\x00" * 60, 422),
        ("POST", "/upload?name=v.csv&at=later", b"item,annotator,label\nx,y,cat\n", 422),
        ("POST", "/items", [{"item": ""}], 422),
        ("POST", "/annotators", {"annotator": "x", "cost": -1}, 422),
        ("POST", "/annotators", {"annotator": "x", "role": "king"}, 422),
        ("POST", "/audit", None, 422),
        ("POST", "/checks", {"item": "x", "label": "cat"}, 422),
        ("GET", "/next", None, 422),
        ("GET", "/next?annotator=%00", None, 422),
        ("GET", "/labels?certified=true", None, 422),
        ("GET", "/labels?format=exe", None, 422),
        ("GET", "/audit?n=999999999999999999999", None, 422),
        ("DELETE", "/votes", None, 405),
        ("PUT", "/labels", b"x", 405),
        ("TRACE", "/votes", None, 405),
        ("BREW", "/votes", None, 405),
        ("GET", "/../../etc/passwd", None, 404),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", None, 404),
        ("GET", "/static/..%2f..%2fpyproject.toml", None, 404),
        ("GET", "/labels/", None, 404),
        ("GET", "//labels", None, 404),
        ("GET", "/" + "a" * 5_000, None, 404),
        ("GET", "/page.html", None, 404),
        ("GET", "/campaign.db", None, 404),
    ],
)
def test_what_is_malformed_is_refused(served: Served, method: str, path: str, body: object, status: int) -> None:
    before = state(served)
    found = served.call(method, path, body)
    # Parsers of HTTP differ in what they know of methods and paths.
    assert found.status in (status, 307, 400), found.text
    assert found.status < 500
    assert b"Traceback" not in found.body
    assert state(served) == before


@pytest.mark.parametrize(
    "text",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /labels HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"GET /labels HTTP/1.1\r\nHost: evil.example\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"POST /votes HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /votes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /votes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nshort",
        b"POST /votes HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n",
        b"POST /votes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        b"GET /labels HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_request_do_no_harm(served: Served, text: bytes) -> None:
    before = state(served)
    assert raw(served, text) < 500
    assert served.call("GET", "/health").status == 200
    assert state(served) == before


def test_another_site_cannot_use_a_browsers_cookie(served: Served) -> None:
    cookie = f"crowdwise_token={served.lead}"
    before = state(served)
    for origin in ("http://evil.example", "null", ""):
        headers = {"cookie": cookie} | ({"origin": origin} if origin else {})
        assert served.call("POST", "/votes", VOTE, token="", **headers).status == 403
    for site in ("cross-site", "same-site", "none", ""):
        headers = {"cookie": cookie, "origin": served.url, "sec_fetch_site": site}
        assert served.call("POST", "/votes", VOTE, token="", **headers).status == 403
    assert state(served) == before
    # Behind a proxy that changes the host, and as browsers say it of another machine without HTTPS.
    proxied = {"cookie": cookie, "origin": "https://labels.example.org", "sec_fetch_site": "same-origin"}
    assert served.call("POST", "/votes", VOTE | {"item": "own"}, token="", **proxied).status == 200
    own = {"cookie": cookie, "origin": served.url}
    assert served.call("POST", "/votes", VOTE | {"item": "own"}, token="", **own).status == 200
    assert served.call("GET", "/labels", token="", cookie=cookie).status == 200
    assert served.call("GET", "/labels", host="evil.example").status == 421


def test_too_many_requests_are_refused_and_the_next_ones_are_not(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    token = served.token("tool", "eager")
    with monkeypatch.context() as patch:
        patch.setattr(served.service, "rates", Rates(1e-6, 2))
        assert [served.call("GET", "/labels", token=token).status for _ in range(3)] == [200, 200, 429]
    assert served.call("GET", "/labels", token=token).status == 200


def test_hundred_damaged_requests_write_nothing(served: Served) -> None:
    rng, before = random.Random(0), state(served)
    whole = b"POST /votes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer x\r\n"
    whole += b'Content-Length: 44\r\n\r\n{"item":"h","annotator":"a","label":"cat"}  '
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        assert raw(served, bytes(damaged[: rng.randint(10, len(damaged))])) < 500
    assert state(served) == before
