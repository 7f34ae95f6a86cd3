"""The client: errors of the service in its words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.serve.serving import Served

from crowdwise.errors import InputError
from crowdwise.serve import Client


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
