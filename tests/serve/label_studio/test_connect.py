"""The command: writes the campaign's file, registers, says how both sides stand, takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="crowdwise[serve] is not installed")

from tests.serve.label_studio.fake import TOKEN, Fake, faking

from crowdwise.errors import InputError, SettingError
from crowdwise.serve.label_studio.bridge import bridge_of
from crowdwise.serve.label_studio.command import Options, run
from crowdwise.serve.running import serve
from crowdwise.serve.service import Service
from crowdwise.serve.settings import read_settings


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", TOKEN)
    with faking(Fake(3)) as one:
        yield one


def test_connect_status_disconnect(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "campaign.toml"
    fake.project["title"] = 'Cats "and" \\dogs'
    fake.project["label_config"] = '<View><Choices name="answer" choice="multiple"/></View>'
    given = Options(action="connect", campaign=path, url=fake.url, project=1)
    run(given)
    said = capsys.readouterr().err
    assert f"connected; start it: crowdwise serve {path} (3 tasks and 0 annotations come in)" in said
    assert "annotations with several count as skipped" in said
    settings = read_settings(path)
    assert settings.campaign.classes == ("yes", "no")
    assert settings.campaign.name == 'Cats "and" \\dogs'
    assert settings.label_studio is not None
    assert (settings.label_studio.question, settings.label_studio.here) == ("answer", None)
    assert TOKEN not in path.read_text()
    (hook,) = fake.webhooks.values()
    assert hook["url"] == "http://127.0.0.1:8765/webhook"
    # Again: the section is written anew, and what else stands in the file stays.
    path.write_text(path.read_text().replace("# least = 1", "least = 2") + "[[annotators]]\nname = 'anna'\n")
    run(Options(action="connect", campaign=path, url=fake.url, project=1, here="http://127.0.0.1:9000"))
    settings = read_settings(path)
    assert (settings.questions.least, settings.annotators[0].name) == (2, "anna")
    assert settings.label_studio is not None
    assert settings.label_studio.here == "http://127.0.0.1:9000"
    capsys.readouterr()
    run(Options(campaign=path))
    said = capsys.readouterr().err
    assert "annotations, skipped ones among them: 0 there, 0 here" in said
    assert f"the service does not run; start it: crowdwise serve {path}" in said
    service = Service(settings)
    run(Options(campaign=path))
    service.close()
    assert "the service runs" in capsys.readouterr().err
    run(Options(action="disconnect", campaign=path))
    assert "connections removed: 1" in capsys.readouterr().err
    assert not fake.webhooks


def connect(fake: Fake, path: Path, **more: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    run(Options(action="connect", campaign=path, url=fake.url, project=1, **more))


def test_connecting_again_changes_nothing(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One webhook, whose token stays; where the service moved, it moves."""
    path = tmp_path / "campaign.toml"
    connect(fake, path)
    (before,) = [dict(one) for one in fake.webhooks.values()]
    text, calls = path.read_text(), len(fake.calls)
    connect(fake, path)
    assert list(fake.webhooks.values()) == [before]
    assert path.read_text() == text
    assert not [call for call in fake.calls[calls:] if "webhooks" in call[1] and call[0] != "GET"]
    connect(fake, path, here="http://127.0.0.1:9000")
    assert list(fake.webhooks.values()) == [before | {"url": "http://127.0.0.1:9000/webhook"}]
    assert "the webhook pointed to http://127.0.0.1:8765/webhook; that is repaired" in capsys.readouterr().err
    # One that is there twice is there once.
    fake.webhooks[99] = next(iter(fake.webhooks.values())) | {"id": 99}
    connect(fake, path, here="http://127.0.0.1:9000")
    assert len(fake.webhooks) == 1


def test_a_webhook_that_was_switched_off_is_on_again(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "campaign.toml"
    connect(fake, path)
    (hook,) = fake.webhooks.values()
    before = dict(hook)
    hook["is_active"] = False
    run(Options(campaign=path))
    assert "webhook: switched off;" in capsys.readouterr().err
    connect(fake, path)
    assert "the webhook was switched off; that is repaired" in capsys.readouterr().err
    assert list(fake.webhooks.values()) == [before]
    # Of which nobody here has the token.
    (hook,) = fake.webhooks.values()
    hook["headers"] = stranger = {**before["headers"], "Authorization": "Bearer " + "x" * 43}
    connect(fake, path)
    assert "the webhook was changed; that is repaired" in capsys.readouterr().err
    (hook,) = fake.webhooks.values()
    assert hook["headers"] not in (stranger, before["headers"])


@pytest.mark.parametrize("here", [None, "http://127.0.0.1:9000"])
def test_the_project_of_another_campaign_is_refused(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str], here: str | None
) -> None:
    """By its mark: also where both have the address that all have by default."""
    first, second = tmp_path / "first" / "campaign.toml", tmp_path / "second" / "campaign.toml"
    connect(fake, first)
    fake.webhooks[77] = {
        "id": 77,
        "url": "https://chat.example.org/webhook",
        "headers": {"Authorization": "Bearer " + "x" * 43},
    }
    fake.webhooks[77] |= {"actions": ["ANNOTATION_CREATED"], "is_active": True}
    before, calls = [dict(one) for one in fake.webhooks.values()], len(fake.calls)
    words = r"connected with another campaign \(webhook http://127.0.0.1:8765\), .* --project 1 --take-over$"
    with pytest.raises(InputError, match=words):
        connect(fake, second, here=here)
    assert not second.exists()
    assert {call[0] for call in fake.calls[calls:]} == {"GET"}
    connect(fake, second, here=here, take_over=True)
    assert "taken over from http://127.0.0.1:8765; stop the service there" in capsys.readouterr().err
    # What is not ours is of no concern.
    assert fake.webhooks[77] == before[1]
    (hook,) = [one for number, one in fake.webhooks.items() if number != 77]
    assert hook["url"] == f"{here or 'http://127.0.0.1:8765'}/webhook"
    assert hook["headers"] != before[0]["headers"]
    # The second stays, and the first is refused in its turn, with its file as it was.
    connect(fake, second, here=here)
    text = first.read_text()
    with pytest.raises(InputError, match="connected with another campaign"):
        connect(fake, first, most=3)
    assert first.read_text() == text
    run(Options(campaign=first))
    said = capsys.readouterr().err
    assert "webhook: no;" in said
    assert f"warning: project 1 is connected with another campaign (webhook {here or 'http://127.0.0.1:8765'})" in said
    # It has nothing there to take back.
    run(Options(action="disconnect", campaign=first))
    assert "connections removed: 0" in capsys.readouterr().err
    assert hook in fake.webhooks.values()
    run(Options(action="disconnect", campaign=second))
    connect(fake, first)


@pytest.mark.slow
def test_a_campaign_in_postgresql_keeps_its_webhook(
    fake: Fake, tmp_path: Path, postgresql: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(f'[campaign]\nclasses = ["yes", "no"]\nstore = "{postgresql}"\n')
    connect(fake, path)
    (before,) = [dict(one) for one in fake.webhooks.values()]
    connect(fake, path)
    assert list(fake.webhooks.values()) == [before]
    with pytest.raises(InputError, match="connected with another campaign"):
        connect(fake, tmp_path / "other" / "campaign.toml")
    service = Service(read_settings(path))
    try:
        # Of a campaign that is served, too.
        run(Options(campaign=path))
    finally:
        service.close()
    said = capsys.readouterr().err
    assert "webhook: yes; model connection: no" in said
    assert "warning" not in said
    run(Options(action="disconnect", campaign=path))
    assert not fake.webhooks


def test_disconnect_waits_for_the_end_of_the_service(fake: Fake, tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    connect(fake, path)
    service = Service(read_settings(path))
    try:
        with pytest.raises(InputError, match="is being served by another process"):
            run(Options(action="disconnect", campaign=path))
    finally:
        service.close()
    assert len(fake.webhooks) == 1


def test_the_most_answers_of_a_task(fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As asked for; or else as the file has it; or else the overlap that the project had for all its tasks."""
    path = tmp_path / "campaign.toml"

    def most() -> int | None:
        return read_settings(path).questions.most

    connect(fake, path)
    assert (most(), fake.project["maximum_annotations"]) == (None, 1)
    assert "no limit" in capsys.readouterr().err
    fake.project["maximum_annotations"] = 3
    connect(fake, path)
    # From now on overlaps are set task by task.
    assert (most(), fake.project["maximum_annotations"]) == (3, 1)
    said = capsys.readouterr().err
    assert "most = 3: no task gets more answers" in said
    assert "no limit" not in said
    # In the place of the comment, and of what was there.
    lines = path.read_text().splitlines()
    assert lines[lines.index("most = 3") - 1] == "# least = 1"
    assert "# most = 7" not in lines
    fake.project["maximum_annotations"] = 4
    connect(fake, path)
    assert most() == 3
    connect(fake, path, most=5)
    assert most() == 5
    assert path.read_text().count("most =") == 1
    # In files that people wrote.
    for questions in (
        "",
        "[questions]",
        "[questions] # Q\nleast = 2\nmost=9 # nine",
        "[questions]\nleast = 2\n[target]\nstop = 'never'",
    ):
        path.write_text(f'[campaign]\nclasses = ["yes", "no"]\n{questions}\n')
        connect(fake, path, most=4)
        assert most() == 4
        assert (read_settings(path).questions.least == 2) == ("least" in questions)
    # A project with an overlap below what every task gets.
    path.write_text('[campaign]\nclasses = ["yes", "no"]\n[questions]\nleast = 6\n')
    fake.project["maximum_annotations"] = 2
    connect(fake, path)
    assert most() == 6
    text = path.read_text()
    for given, words in ((5, r"most \(5\) is below least \(6\)"), (0, "most must be at least 1"), (2_000, "at most 1000")):
        with pytest.raises(SettingError, match=words):
            connect(fake, path, most=given)
    assert path.read_text() == text
    path.write_text('questions = {least = 1}\n[campaign]\nclasses = ["yes", "no"]\n')
    with pytest.raises(InputError, match="is not TOML"):
        connect(fake, path, most=4)


def test_a_refused_connect_writes_nothing(fake: Fake, tmp_path: Path) -> None:
    """A campaign keeps its project; while it is served, its file stays as it is."""
    path = tmp_path / "campaign.toml"
    # The address as it stands in the browser.
    run(Options(action="connect", campaign=path, url=f"{fake.url}/projects/1/data?tab=2", project=1))
    text = path.read_text()
    assert f'url = "{fake.url}"' in text
    with pytest.raises(InputError, match="belongs to project 1, whose votes it keeps; name another file for project 4"):
        run(Options(action="connect", campaign=path, url=fake.url, project=4))
    service = Service(read_settings(path))
    try:
        with pytest.raises(InputError, match="is being served by another process"):
            run(Options(action="connect", campaign=path, url="http://127.0.0.1:9", project=1))
    finally:
        service.close()
    assert path.read_text() == text


def test_what_is_wrong_is_said_where_the_service_was_started(fake: Fake, tmp_path: Path) -> None:
    """Once, and not what passes by itself."""
    path = tmp_path / "campaign.toml"
    run(Options(action="connect", campaign=path, url=fake.url, project=1))
    service, said = Service(read_settings(path)), []
    service.say = said.append
    try:
        bridge = bridge_of(service)
        assert bridge is not None
        for problem in ("", "locked", "", "away", "away", "away", ""):
            bridge.report(problem)
    finally:
        service.close()
    assert said == [connected := "Label Studio: connected with project 1", "warning: Label Studio: away", connected]


def test_without_a_token_no_token_of_the_lead_is_made(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown once: not before all that can be wrong was looked at."""
    path, said = tmp_path / "campaign.toml", []
    run(Options(action="connect", campaign=path, url=fake.url, project=1))
    monkeypatch.delenv("LABEL_STUDIO_API_KEY")
    with pytest.raises(InputError, match="no token for Label Studio"):
        serve(read_settings(path), None, 0, said.append)
    assert said == []


def test_what_cannot_be_connected_is_said(fake: Fake, tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"

    def connect(**more: object) -> None:
        run(Options(**({"action": "connect", "campaign": path, "url": fake.url, "project": 1} | more)))  # type: ignore[arg-type]

    with pytest.raises(SettingError, match="connect needs --url and --project"):
        connect(url=None)
    with pytest.raises(SettingError, match="ACTION must be one of connect, status, disconnect"):
        connect(action="fly")
    with pytest.raises(InputError, match="no <Choices> called 'mood'; its controls: answer"):
        connect(question="mood")
    controls = fake.project["parsed_label_config"]
    fake.project["parsed_label_config"] = {"box": {"type": "RectangleLabels", "to_name": ["image"]}}
    with pytest.raises(InputError, match=r"no <Choices> \(its controls: box \(RectangleLabels\)\)"):
        connect()
    fake.project["parsed_label_config"] = controls | {"mood": controls["answer"]}
    with pytest.raises(InputError, match=r"several <Choices> .* name one with --question"):
        connect()
    fake.project["parsed_label_config"] = {"answer": controls["answer"] | {"labels": []}}
    with pytest.raises(InputError, match="does not list the labels"):
        connect()
    assert not path.exists()
    path.write_text('[campaign]\nclasses = ["yes", "maybe"]\n')
    fake.project["parsed_label_config"] = controls
    with pytest.raises(InputError, match="classes lacks 'no'"):
        connect()
    with pytest.raises(InputError, match="has no section"):
        run(
            Options(
                campaign=tmp_path / "c.toml" if (tmp_path / "c.toml").write_text('[campaign]\nclasses = ["a", "b"]\n') else path
            )
        )


def test_settings_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    head = '[campaign]\nclasses = ["a", "b"]\n[label_studio]\n'
    path.write_text(head + 'url = "http://x"\nproject = 1\n')
    with pytest.raises(SettingError, match="the key 'question' is missing"):
        read_settings(path)
    path.write_text(head + 'url = "http://x"\nproject = 0\nquestion = "q"\n')
    with pytest.raises(SettingError, match="project must be at least 1"):
        read_settings(path)
    path.write_text(head + 'url = "http://x"\nproject = 1\nquestion = "q"\ntoken = "secret"\n')
    with pytest.raises(SettingError, match="no key 'token'"):
        read_settings(path)
