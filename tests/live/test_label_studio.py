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
from tests.live.campaign import Campaign
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

    crowd = Crowd(people, project, answers, most=330).start()
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
