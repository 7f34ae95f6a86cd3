"""A served campaign beside a fake Label Studio: what it takes in, what it writes back, and what it finds after downtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="crowdwise[serve] is not installed")

import sqlalchemy as sa
from tests.serve.label_studio.fake import Fake, faking
from tests.serve.serving import Served

from crowdwise.serve.access import Rates
from crowdwise.serve.label_studio import bridge
from crowdwise.serve.label_studio.command import Options, run
from crowdwise.serve.label_studio.link import CONSENSUS, QUEUE
from crowdwise.serve.schema import votes

Connect = Callable[..., AbstractContextManager[Served]]
Settled = Callable[[Served], None]


def kept(served: Served) -> set[tuple[str, str | None, str | None]]:
    rows = served.service.store.rows(sa.select(votes).where(votes.c.action != "delete"))
    return {(row.item, row.annotator, row.label) for row in rows}


def there(fake: Fake) -> set[tuple[str, str | None, str | None]]:
    found = set()
    for one in fake.annotations.values():
        label = one["result"][0]["value"]["choices"][0] if one["result"] else None
        found.add((str(one["task"]), f"p{one['completed_by']}@example.org", label))
    return found


def agree(fake: Fake, tasks: list[int], label: str = "yes") -> None:
    for task in tasks:
        for person in fake.users:
            fake.annotate(task, person, label)


def test_a_project_is_connected_and_followed(connected: Connect, settled: Settled) -> None:
    with faking(Fake(12)) as fake:
        agree(fake, [101, 102])
        with connected(fake, "front = 4") as served:
            settled(served)
            # What was there before.
            assert kept(served) == there(fake)
            assert len(kept(served)) == 6
            assert len(served.service.brain.live) == 12
            (hook,), (model,) = fake.webhooks.values(), fake.models.values()
            assert hook["headers"]["Authorization"] == f"Bearer {model['basic_auth_pass']}"
            assert (fake.project["sampling"], fake.project["model_version"]) == ("Uncertainty sampling", QUEUE)
            assert fake.project["show_collab_predictions"] is False
            asked = [one for one in fake.predictions.values() if one["model_version"] == QUEUE]
            assert sorted(one["score"] for one in asked) == [0.0, 0.25, 0.5, 0.75]
            # Nobody is shown what others said.
            assert all(one["result"] == [] for one in asked)
            # Answers by webhook, more of them than a token may have requests: none would come again.
            kept_rates, served.service.rates = served.service.rates, Rates(0.001, 1)
            for _ in range(9):
                assert fake.annotate(fake.queue(1) or 0, 1, "no")
            served.service.rates = kept_rates
            settled(served)
            assert kept(served) == there(fake)
            said = {one["task"]: one["result"][0]["value"]["choices"] for one in fake.predictions.values() if one["result"]}
            assert said[101] == ["yes"]
            assert set(said) == {one["task"] for one in fake.annotations.values()}
            facts = served.call("GET", "/label-studio").json()
            assert (facts["linked"], facts["problem"], facts["tasks"], facts["webhooks"]) == (True, "", 12, 9)


def test_certain_tasks_are_closed_and_doubtful_ones_stay_open(connected: Connect, settled: Settled) -> None:
    with faking(Fake(8, people=8)) as fake:
        # Everybody agrees on most, and on the last two nobody does.
        agree(fake, [101, 102, 103, 104, 105, 106])
        for task in (107, 108):
            for person in (1, 2):
                fake.annotate(task, person, "yes" if person == 1 else "no")
        with connected(fake, "sure = 0.9") as served:
            settled(served)
            closed = {number for number, task in fake.tasks.items() if task["is_labeled"]}
            sure = {
                int(row["item"])
                for row in served.service.brain.live.frame().rows(named=True)
                if (row["confidence"] or 0) >= 0.9
            }
            assert closed == sure
            assert not closed & {107, 108}
            assert fake.tasks[107]["overlap"] == 3
            assert all(fake.tasks[number]["overlap"] <= 8 for number in closed)


def test_downtime_of_either_side_is_made_up_for(connected: Connect, settled: Settled) -> None:
    with faking(Fake(6)) as fake:
        with connected(fake) as served:
            settled(served)
            first = fake.annotate(101, 1, "yes")
            second = fake.annotate(101, 2, "yes")
            third = fake.annotate(102, 1, "no")
            settled(served)
            assert kept(served) == there(fake)
        # Nobody hears of these.
        fake.delete(first)
        fake.change(second, label="no")
        fake.annotate(103, 3, "no")
        fake.annotate(104, 3, None)
        fake.delete_task(102)
        fake.new_task()
        assert third not in fake.annotations
        with connected(fake) as served:
            settled(served)
            assert kept(served) == there(fake)
            assert len(fake.webhooks) == len(fake.models) == 1
            # An address of before is not called any more.
            next(iter(fake.webhooks.values()))["url"] = next(iter(fake.models.values()))["url"] = "http://127.0.0.1:9"
        with connected(fake) as served:
            settled(served)
            assert len(fake.webhooks) == len(fake.models) == 1
            assert next(iter(fake.models.values()))["url"] == f"http://127.0.0.1:{served.port}"
            # While both are there, but a webhook is lost: counts tell.
            fake.sends = False
            fake.annotate(105, 1, "yes")
            served.wait_for(lambda: kept(served) == there(fake))
            fetched = served.service.store.rows(sa.select(sa.func.count()).select_from(votes))[0][0]
            assert fetched == 6


def test_a_webhook_that_is_switched_off_moved_or_removed_is_repaired(connected: Connect, settled: Settled) -> None:
    """While both run; and what was not reported meanwhile is here, even where no count shows it."""
    with faking(Fake(6)) as fake, connected(fake) as served:
        said: list[str] = []
        served.service.say = said.append
        number = fake.annotate(101, 1, "yes")
        settled(served)
        assert served.call("GET", "/label-studio").json()["repaired"] == ""
        (hook,) = fake.webhooks.values()
        (model,) = fake.models.values()
        whole, label = dict(hook), "yes"
        for wrong, words in (
            ({"is_active": False}, "webhook was switched off"),
            ({"url": "http://127.0.0.1:9/webhook"}, "webhook pointed to http://127.0.0.1:9/webhook"),
            ({"actions": ["TASKS_CREATED"]}, "webhook was changed"),
            (None, "webhook was not there"),
        ):
            label = "no" if label == "yes" else "yes"
            with fake.lock:
                fake.webhooks.clear()
                if wrong is not None:
                    fake.webhooks[hook["id"]] = whole | wrong
                fake.change(number, label=label)
            served.wait_for(lambda: f"warning: Label Studio: the {words}; that is repaired" in said)  # noqa: B023
            assert [one | {"id": 0, "project": 1} for one in fake.webhooks.values()] == [whole | {"id": 0, "project": 1}]
            served.wait_for(lambda: kept(served) == {("101", "p1@example.org", label)})  # noqa: B023
        assert len(said) == len(set(said)) == 5
        assert served.call("GET", "/label-studio").json()["repaired"] == "webhook was not there"
        # With it the model connection is looked at.
        with fake.lock:
            next(iter(fake.models.values()))["url"] = "http://127.0.0.1:9"
            next(iter(fake.webhooks.values()))["is_active"] = False
        served.wait_for(lambda: "webhook was switched off and model connection pointed to http://127.0.0.1:9;" in said[-1])
        assert [one | {"id": 0} for one in fake.models.values()] == [model | {"id": 0, "url": served.url}]


def test_who_was_away_and_reports_is_back(connected: Connect, settled: Settled, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, however long this service would have waited."""
    made: list[bridge.Bridge] = []
    start = bridge.Bridge.start
    monkeypatch.setattr(bridge.Bridge, "start", lambda one: (made.append(one), start(one))[1])
    with faking(Fake(4)) as fake, connected(fake) as served:
        settled(served)
        api, facts = made[0].api, made[0].facts
        with monkeypatch.context() as patch:
            patch.setattr(api, "url", "http://127.0.0.1:9")
            served.wait_for(lambda: "does not answer" in facts["problem"])
            monkeypatch.setattr(bridge, "_LONGEST", 300.0)
            monkeypatch.setattr(bridge, "_SLOWER", 1_000_000)
            # By now it waits that long.
            time.sleep(2.5)
        fake.annotate(101, 1, "yes")
        served.wait_for(lambda: not facts["problem"] and fake.tasks[101]["overlap"] == 2)


def test_a_project_that_was_taken_over_is_left_alone(connected: Connect, settled: Settled, tmp_path: Path) -> None:
    """Nothing is written there, and the webhook does not come back, until the other campaign has gone."""
    other = tmp_path / "other.toml"
    with faking(Fake(6)) as fake:
        with connected(fake) as served:
            said: list[str] = []
            served.service.say = said.append
            settled(served)
            run(Options(action="connect", campaign=other, url=fake.url, project=1, take_over=True))
            served.wait_for(lambda: "is connected with another campaign" in "".join(said))
            assert "webhook http://127.0.0.1:8765" in said[-1]
            before = len(fake.calls)
            # Somebody answers, and nobody here hears of it.
            fake.annotate(101, 1, "yes")
            served.wait_for(lambda: len([call for call in fake.calls[before:] if call[1] == "/api/webhooks/"]) > 1)
            assert {call[0] for call in fake.calls[before:]} == {"GET"}
            assert not kept(served)
        # Nor after a restart.
        with connected(fake) as served:
            served.wait_for(lambda: "another campaign" in served.call("GET", "/label-studio").json()["problem"])
            assert [one["url"] for one in fake.webhooks.values()] == ["http://127.0.0.1:8765/webhook"]
            assert not fake.models
            run(Options(action="disconnect", campaign=other))
            settled(served)
            assert kept(served) == there(fake)
            assert [one["url"] for one in fake.webhooks.values()] == [f"{served.url}/webhook"]


def test_no_task_exceeds_the_limit(connected: Connect, settled: Settled) -> None:
    """Nor where more people than that may have it open."""
    with faking(Fake(2, people=5)) as fake, connected(fake, questions="most = 3\nper_item = 5") as served:
        highest = 0
        for _ in range(5 * 2):
            settled(served)
            highest = max(highest, *(task["overlap"] for task in fake.tasks.values()))
            asked = next(((task, person) for person in fake.users if (task := fake.queue(person))), None)
            if asked is None:
                break
            # Nobody agrees.
            fake.annotate(*asked, "yes" if asked[1] % 2 else "no")
        counts = [fake.shown(number)["total_annotations"] for number in fake.tasks]
        assert counts == [3, 3]
        assert highest == 3
        assert all(task["is_labeled"] for task in fake.tasks.values())


def test_deleted_and_ground_truth_by_webhook(connected: Connect, settled: Settled) -> None:
    with faking(Fake(4)) as fake, connected(fake) as served:
        settled(served)
        number = fake.annotate(101, 1, "yes")
        fake.annotate(102, 2, "no")
        fake.change(number, ground_truth=True)
        served.wait_for(lambda: served.service.brain.live.truth[0] >= 0)
        served.wait_for(lambda: kept(served) == {("102", "p2@example.org", "no")})
        fake.delete_task(102)
        served.wait_for(lambda: not kept(served))
        settled(served)
        assert fake.tasks[101]["is_labeled"]


def test_without_webhooks_votes_are_fetched(connected: Connect, settled: Settled) -> None:
    with faking(Fake(5)) as fake:
        fake.refuses = {"POST /api/webhooks": (400, "URL resolves to a reserved network address (block: 127.0.0.0/8)")}
        with connected(fake) as served:
            settled(served)
            assert "SSRF_PROTECTION_ENABLED" in served.call("GET", "/label-studio").json()["unlinked"]
            fake.annotate(101, 1, "yes")
            served.wait_for(lambda: kept(served) == there(fake))
            settled(served)
            # The version can be the project's once there is a prediction of it.
            assert fake.project["model_version"] == QUEUE


def test_what_is_refused_is_said_and_tried_again(connected: Connect, settled: Settled) -> None:
    with faking(Fake(3)) as fake:
        fake.refuses = {"GET /api/users": (403, "You do not have permission")}
        with connected(fake) as served:
            served.wait_for(lambda: "403 You do not have permission" in served.call("GET", "/label-studio").json()["problem"])
            assert served.call("GET", "/health").status == 200
            fake.refuses = {}
            settled(served)
            assert served.call("GET", "/label-studio").json()["tasks"] == 3


def test_predictions_of_ours_that_somebody_removed_or_doubled(connected: Connect, settled: Settled) -> None:
    with faking(Fake(4)) as fake:
        agree(fake, [101])
        with connected(fake, "front = 2") as served:
            settled(served)
            for one in list(fake.predictions.values()):
                number = fake.number()
                fake.predictions[number] = one | {"id": number}
        with connected(fake, "front = 2") as served:
            settled(served)
            pairs = [(one["task"], one["model_version"]) for one in fake.predictions.values()]
            assert len(pairs) == len(set(pairs)) == 3
            fake.predictions.clear()
            for person in (1, 2):
                fake.annotate(fake.queue(person) or 0, person, "no")
        with connected(fake, "front = 2") as served:
            settled(served)
            assert {one["model_version"] for one in fake.predictions.values()} == {QUEUE, CONSENSUS}


def test_the_end_of_the_campaign_closes_everything(connected: Connect, settled: Settled) -> None:
    with faking(Fake(4)) as fake:
        agree(fake, [101])
        with connected(fake, questions="[target]\nbudget = 3.0") as served:
            settled(served)
            assert all(task["is_labeled"] for task in fake.tasks.values())
            assert fake.tasks[104]["overlap"] == 0
            assert fake.queue(1) is None


def test_the_page_links_to_the_task(connected: Connect, settled: Settled) -> None:
    with faking(Fake(3)) as fake, connected(fake) as served:
        settled(served)
        found = served.call("GET", "/next?annotator=p1@example.org").json()
        assert found["url"] == f"{fake.url}/projects/1/data?task={found['item']}"


def test_routes_of_label_studio(connected: Connect, settled: Settled) -> None:
    with faking(Fake(4)) as fake:
        agree(fake, [101])
        with connected(fake, "max_webhook = 20000") as served:
            settled(served)
            token = next(iter(fake.models.values()))["basic_auth_pass"]
            call = served.call
            found = call("POST", "/predict", {"tasks": [{"id": 102}, {"id": 101}, {"id": "x"}, 5]}, token=token).json()[
                "results"
            ]
            assert [one["result"][0]["value"]["choices"] if one["result"] else None for one in found] == [
                None,
                ["yes"],
                None,
                None,
            ]
            assert {one["model_version"] for one in found} == {CONSENSUS}
            assert call("POST", "/setup", {"access_token": "x"}, token=token).json() == {"model_version": CONSENSUS}
            # Not for people, nor for strangers, nor malformed, nor too large.
            assert call("POST", "/webhook", {}, token=served.token("annotator", "anna")).status == 401
            for given in ("", "x" * 43):
                assert call("POST", "/webhook", {}, token=given).status == 401
            assert call("POST", "/webhook", {}, token="", authorization="Basic !!").status == 401
            for body in (b"", b"[" * 9_000, b"{", b'"\\ud800"', b'{"action": "ANNOTATION_CREATED", "project": {"id": 1}}'):
                status = call("POST", "/webhook", body, token=token).status
                assert status in (200, 422), body
            assert call("POST", "/webhook", b" " * 20_001, token=token).status == 413
            assert call("POST", "/predict", {"tasks": 5}, token=token).status == 422
            assert kept(served) == there(fake)


def test_an_annotation_that_changes_hands_stays_where_it_was(connected: Connect, settled: Settled) -> None:
    with faking(Fake(3)) as fake, connected(fake) as served:
        settled(served)
        number = fake.annotate(101, 1, "yes")
        fake.change(number, completed_by=2)
        fake.annotate(102, 2, "no")
        served.wait_for(lambda: len(kept(served)) == 2)
        assert ("101", "p1@example.org", "yes") in kept(served)
        facts: dict[str, Any] = served.call("GET", "/label-studio").json()
        assert facts["conflicts"] >= 1


def test_another_project_is_refused_and_no_vote_is_lost(connected: Connect, settled: Settled) -> None:
    with faking(Fake(3)) as fake:
        agree(fake, [101])
        with connected(fake) as served:
            settled(served)
    with faking(Fake(3)) as other:
        other.project["created_at"] = "2026-05-02T00:00:00Z"
        with connected(other) as served:
            said = served.wait_for(lambda: served.call("GET", "/label-studio").json()["problem"])
            assert "of another project" in said
            assert len(kept(served)) == 3
            assert not other.predictions


def test_tasks_that_are_left_out_are_asked_for(connected: Connect, settled: Settled) -> None:
    with faking(Fake(6)) as fake:
        agree(fake, [101, 102, 103])
        with connected(fake) as served:
            settled(served)
            fake.hides, before = {102}, len(fake.calls)
            fake.sends = False
            number = fake.annotate(102, 1, "no")
            served.wait_for(lambda: ("GET", "/api/tasks/102/", None) in fake.calls[before:])
            # None of its votes has ended, and what is new is here.
            served.wait_for(lambda: kept(served) == there(fake))
            fake.delete(number)
            fake.delete_task(103)
            served.wait_for(lambda: kept(served) == there(fake))
