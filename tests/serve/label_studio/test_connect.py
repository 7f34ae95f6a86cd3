"""The command: writes the campaign's file, registers, says how both sides stand, takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
    assert [one["url"] for one in fake.webhooks.values()] == ["http://127.0.0.1:8765/webhook"]


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
