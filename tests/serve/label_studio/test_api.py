"""The client: tokens, messages with a remedy, what is tried again, what is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.serve.label_studio.fake import TOKEN, Fake, faking

from crowdwise.errors import InputError
from crowdwise.serve.label_studio import api as module
from crowdwise.serve.label_studio.api import Away, LabelStudio, Refused, token_of


@pytest.fixture
def fake() -> Iterator[Fake]:
    with faking(Fake(5)) as one:
        yield one


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.0)


def test_both_kinds_of_tokens(fake: Fake) -> None:
    assert len(LabelStudio(fake.url, TOKEN).get("/api/users/")) == 3
    personal = LabelStudio(fake.url + "/", "a.personal.token")
    assert len(personal.get("/api/users/")) == 3
    assert [one["id"] for one in personal.pages(1, size=2)] == [101, 102, 103, 104, 105]
    for wrong in ("wrong-token", "not.a.token"):
        with pytest.raises(Refused, match=r"401, the token is not valid; make one in Label Studio \(Account"):
            LabelStudio(fake.url, wrong).get("/api/users/")
    for bad in ("", "x", "a\nb", "é" * 9):
        with pytest.raises(InputError, match="no token of Label Studio"):
            LabelStudio(fake.url, bad)
    with pytest.raises(InputError, match=r"such as http://localhost:8080"):
        LabelStudio("localhost:8080", TOKEN)


def test_what_goes_wrong_is_said_with_a_remedy(fake: Fake) -> None:
    api = LabelStudio(fake.url, TOKEN, timeout=5)
    with pytest.raises(Refused, match="is the number of the project right"):
        api.get("/api/projects/9/")
    # The token does not go elsewhere.
    fake.refuses = {"GET /api/users": (302, "moved")}
    with pytest.raises(Refused, match=r"moved to https://elsewhere.example.org/; give that address"):
        api.get("/api/users/")
    with pytest.raises(Away, match=r"does not answer .* is it running"):
        LabelStudio("http://127.0.0.1:9", TOKEN, timeout=1).get("/api/users/")


@pytest.mark.parametrize(("method", "times"), [("GET", 3), ("PATCH", 3), ("POST", 1)])
def test_what_may_be_repeated_is_tried_three_times(fake: Fake, method: str, times: int) -> None:
    fake.refuses = {"/api/tasks/101": (503, "database is locked")}
    with pytest.raises(Refused, match="503 database is locked"):
        LabelStudio(fake.url, TOKEN).call(method, "/api/tasks/101/")
    assert len(fake.calls) == times


def test_where_the_token_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)
    with pytest.raises(InputError, match=r"set LABEL_STUDIO_API_KEY, or name a file \(--token-file"):
        token_of(None)
    path = tmp_path / "token"
    with pytest.raises(InputError, match="cannot be read"):
        token_of(path)
    path.write_text(f"{TOKEN}\n")
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        token_of(path)
    path.chmod(0o600)
    assert token_of(path) == TOKEN
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", " from-the-environment ")
    assert token_of(None) == "from-the-environment"
