"""A campaign on a real Label Studio: 200 tasks, five annotators, either side killed in the middle; no vote lost, none twice."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.live.campaign import Campaign, command
from tests.live.crowd import QUESTION, Crowd
from tests.live.studio import PROGRAM, Studio, prepare

from crowdwise.serve.label_studio.link import CONSENSUS, QUEUE

if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not there (make .venv-label-studio/.installed): nothing was tried", allow_module_level=True)

TASKS = 200
# Shares of right answers of the five, from a careful one to one who guesses.
RIGHT = (0.95, 0.9, 0.85, 0.75, 0.5)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    prepare()
    one = Studio(tmp_path_factory.mktemp("studio"))
    try:
        one.wait()
        yield one
    finally:
        one.kill()


@pytest.fixture
def campaigns(tmp_path: Path) -> Iterator[list[Campaign]]:
    made: list[Campaign] = []
    yield made
    for one in made:
        if one.process.poll() is None:
            os.kill(one.process.pid, signal.SIGTERM)
            one.process.wait(30)


def annotations(studio: Studio, project: int) -> dict[int, dict[str, Any]]:
    exported = studio.api.call("GET", f"/api/projects/{project}/export?exportType=JSON&download_all_tasks=true")
    return {one["id"]: one for task in exported for one in task["annotations"]}


def same_on_both_sides(studio: Studio, project: int, campaign: Campaign) -> None:
    people = {one["id"]: one["email"] for one in studio.api.get("/api/users/")}
    there = {}
    for number, one in annotations(studio, project).items():
        label = one["result"][0]["value"]["choices"][0] if one["result"] else None
        there[f"label-studio:{number}"] = str(one["task"]), people[one["completed_by"]], label
    assert campaign.votes() == there


def test_two_hundred_tasks_five_annotators_and_two_crashes(studio: Studio, tmp_path: Path, campaigns: list[Campaign]) -> None:
    project, rng = studio.project(TASKS), random.Random(7)
    people = [studio.person(f"crash{k}") for k in range(len(RIGHT))]
    numbers = [one["id"] for one in studio.api.pages(project)]
    truth = {number: rng.choice(["yes", "no"]) for number in numbers}
    other = {"yes": "no", "no": "yes"}
    # What was there before: twenty answers, one of them skipped.
    for number in numbers[:20]:
        skip = "?was_cancelled=1" if number == numbers[0] else ""
        people[0].call(
            "POST", f"/api/tasks/{number}/annotations/{skip}", {"result": [] if skip else QUESTION.result(truth[number])}
        )
    campaign = Campaign(tmp_path, studio, project, "front = 20\n")
    campaigns.append(campaign)
    campaign.settle()
    same_on_both_sides(studio, project, campaign)

    def answers(k: int, task: int) -> str:
        return truth[task] if random.Random(f"{k}-{task}").random() < RIGHT[k] else other[truth[task]]

    # They have patience: a slow machine takes its time to be back.
    crowd = Crowd(people, project, answers, most=330, asks=120).start()
    crowd.wait(80)
    campaign.kill()
    crowd.wait(130)
    campaign.restart()
    crowd.wait(190)
    studio.kill()
    time.sleep(1)
    studio.restart()
    crowd.join()
    # Beside what people do: an answer that changes, and one that is deleted.
    last = max(annotations(studio, project))
    people[4].call("PATCH", f"/api/annotations/{last}/", {"result": QUESTION.result("no")})
    studio.api.call("DELETE", f"/api/annotations/{last - 1}/")
    campaign.settle()
    assert len(crowd.given) >= 330
    same_on_both_sides(studio, project, campaign)

    state = campaign.state()
    assert (state["conflicts"], state["strange annotations"]) == (0, 0)
    labels = {int(row["item"]): row for row in campaign.client.labels() if row["label"] is not None}
    right = sum(row["label"] == truth[number] for number, row in labels.items())
    assert right / len(labels) > 0.75
    predictions = studio.api.get("/api/predictions/", project=project)
    said = {one["task"]: one["result"][0]["value"]["choices"][0] for one in predictions if one["model_version"] == CONSENSUS}
    assert said == {number: row["label"] for number, row in labels.items()}
    # One of each kind on a task, and what is asked next shows nothing.
    assert max(Counter((one["task"], one["model_version"]) for one in predictions).values()) == 1
    assert all(one["result"] == [] for one in predictions if one["model_version"] == QUEUE)
    # Sure ones are closed, doubtful ones are not.
    for one in studio.api.pages(project):
        sure = one["id"] in labels and labels[one["id"]]["confidence"] >= 0.95
        assert one["is_labeled"] == sure, one


def test_one_campaign_per_project_whose_webhook_is_repaired(studio: Studio, tmp_path: Path, campaigns: list[Campaign]) -> None:
    project = studio.project(6, maximum_annotations=3)
    campaign = Campaign(tmp_path / "first", studio, project)
    campaigns.append(campaign)
    path = tmp_path / "first" / "campaign.toml"
    # The overlap that the project had.
    assert "\nmost = 3\n" in path.read_text()
    assert studio.api.get(f"/api/projects/{project}/")["maximum_annotations"] == 1
    campaign.settle()
    (hook,) = studio.api.get("/api/webhooks/", project=project)
    (model,) = studio.api.get("/api/ml/", project=project)
    assert model["readable_state"] == "Connected"

    # Another one is refused, and writes nothing.
    second = tmp_path / "second"
    second.mkdir()
    connect = [*campaign.connect[:-1], "http://127.0.0.1:9"]
    done = command(second, *connect)
    assert done.returncode != 0
    assert f"webhook {campaign.url}, model connection {campaign.url}" in done.stderr
    assert "--take-over" in done.stderr
    assert not list(second.iterdir())
    assert studio.api.get("/api/webhooks/", project=project) == [hook]

    # Somebody answers while the webhook is off, and changes that answer, which no count shows.
    person, number = studio.person("switch"), next(studio.api.pages(project))["id"]
    made = person.call("POST", f"/api/tasks/{number}/annotations/", {"result": QUESTION.result("yes")})
    campaign.settle()
    assert campaign.state()["repaired"] == ""
    studio.api.call("PATCH", f"/api/webhooks/{hook['id']}/", {"is_active": False})
    person.call("PATCH", f"/api/annotations/{made['id']}/", {"result": QUESTION.result("no")})
    campaign.wait(lambda: campaign.state()["repaired"] == "webhook was switched off")
    campaign.wait(lambda: [label for *_, label in campaign.votes().values()] == ["no"])
    same_on_both_sides(studio, project, campaign)
    studio.api.call("PATCH", f"/api/webhooks/{hook['id']}/", {"url": "http://127.0.0.1:9/webhook"})
    campaign.wait(lambda: campaign.state()["repaired"] == "webhook pointed to http://127.0.0.1:9/webhook")
    (repaired,) = studio.api.get("/api/webhooks/", project=project)
    assert repaired | {"updated_at": ""} == hook | {"updated_at": ""}

    # The other one takes over: this one says so, and lets be what it would have written.
    done = command(second, *connect, "--take-over")
    assert f"taken over from {campaign.url}" in done.stderr, done.stderr
    assert "is connected with another campaign" in campaign.wait(lambda: campaign.state()["problem"])
    assert [one["url"] for one in studio.api.get("/api/webhooks/", project=project)] == ["http://127.0.0.1:9/webhook"]
    assert studio.api.get("/api/ml/", project=project) == []
    # And connects again when that one has gone.
    assert command(second, "label-studio", "disconnect").returncode == 0
    campaign.settle()
    same_on_both_sides(studio, project, campaign)
    assert [one["url"] for one in studio.api.get("/api/webhooks/", project=project)] == [f"{campaign.url}/webhook"]
