"""The client: errors of the service in its words."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.serve.serving import Served

from crowdwise.errors import InputError
from crowdwise.serve import Client
from crowdwise.serve.access import Rates


def test_a_question_is_asked_and_answered(served: Served) -> None:
    client = Client(f"{served.url}/", served.lead)
    assert client.add_items(["a", ("b", {"text": "Bee"})]) == 2
    question = served.wait_for(lambda: (found := client.next("anna & co/1"))["item"] and found)
    assert client.vote(question["item"], "cat", annotator="anna & co/1", key="1") == "taken"
    assert client.vote(question["item"], "cat", annotator="anna & co/1", key="1") == "repeated"
    with pytest.raises(InputError, match="409 the key"):
        client.vote(question["item"], "dog", annotator="anna & co/1", key="1")


def test_errors_are_in_words(served: Served) -> None:
    with pytest.raises(InputError, match="401 this token is not valid"):
        Client(served.url, "x" * 43).labels()
    with pytest.raises(InputError, match="has an address such as"):
        Client("127.0.0.1", "x")
    with pytest.raises(InputError, match="does not answer"):
        Client("http://127.0.0.1:9", "x").progress()


def test_a_loop_of_votes_waits_as_the_service_says(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(served.url, served.token("tool", "eager"))
    with monkeypatch.context() as patch:
        patch.setattr(served.service, "rates", Rates(4.0, 2))
        start = time.monotonic()
        assert [client.vote(f"loop{n}", ("cat", "dog")[n % 2], annotator="loop") for n in range(8)] == ["taken"] * 8
        assert time.monotonic() - start >= 1
        # Not for ever.
        patch.setattr(served.service, "rates", Rates(1e-6, 1))
        hasty = Client(served.url, served.lead, timeout=1.5)
        hasty.progress()
        with pytest.raises(InputError, match="429 too many requests with this token"):
            hasty.progress()


def test_a_connection_that_breaks_is_tried_once_more() -> None:
    """A service that takes a request, and goes away instead of answering."""
    heard: list[bytes] = []

    def answer(listening: socket.socket, broken: int) -> None:
        for number in range(broken + 1):
            line, _ = listening.accept()
            with line, line.makefile("rb") as lines:
                length = 0
                while (head := lines.readline().strip().lower()) != b"":
                    length = int(head.partition(b":")[2]) if head.startswith(b"content-length") else length
                heard.append(lines.read(length))
                if number == broken:
                    body = b'{"outcome": "repeated", "token": "x"}'
                    line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", "x", timeout=20)
        thread = threading.Thread(target=answer, args=(listening, 1))
        thread.start()
        assert client.vote("a", "cat", annotator="anna") == "repeated"
        thread.join(20)
        # The same key: the service takes it once.
        assert heard[0] == heard[1]
        assert len(json.loads(heard[0])["key"]) == 32
        # A second break is an error; so is the first where another try would be another token.
        for call, times in ((lambda: client.vote("a", "cat"), 2), (lambda: client.add_annotator("anna"), 1)):
            thread = threading.Thread(target=answer, args=(listening, times))
            thread.start()
            with pytest.raises(InputError, match="does not answer"):
                call()
            assert client.progress()["outcome"] == "repeated"
            thread.join(20)


def test_the_hook_that_the_docs_show_delivers_answers_of_prodigy(served: Served) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "other-labelling-tools.md"
    found = re.search(r"```text\n(from crowdwise\.serve import Client\n.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    code = found[1].replace("http://127.0.0.1:8765", served.url).replace("the token of a tool", served.token("tool", "prodigy"))
    known: dict[str, Any] = {}
    exec(code, known)
    one = {"_input_hash": 1111, "_session_id": "reviews-anna", "accept": ["cat"], "answer": "accept", "_timestamp": 1777593600}
    refused, empty = one | {"answer": "ignore", "_input_hash": 1112}, one | {"accept": [], "_input_hash": 1113}
    for _ in range(2):
        known["update"]([one, refused, empty])
    # Changed later; what comes late changes nothing.
    known["update"]([one | {"accept": ["dog"], "_timestamp": 1777593700}])
    known["update"]([one | {"_timestamp": 1777593650}])
    served.settle()
    labels = {row["item"]: row for row in Client(served.url, served.lead).labels()}
    assert (labels["1111"]["label"], labels["1111"]["n_votes"]) == ("dog", 1)
    assert not {"1112", "1113"} & labels.keys()
