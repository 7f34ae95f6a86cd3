"""The client: errors of the service in its words."""

from __future__ import annotations

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
