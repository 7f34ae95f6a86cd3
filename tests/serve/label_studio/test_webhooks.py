"""What Label Studio reports becomes votes, each once, whatever is repeated, late or out of order."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="crowdwise[serve] is not installed")

from tests.serve.label_studio.fake import Fake

from crowdwise.errors import InputError
from crowdwise.serve.label_studio.webhooks import Project, Report, ended, read_annotations, read_webhook
from crowdwise.serve.store import Store
from crowdwise.serve.votes import FINAL

NOW = 1_900_000_000 * 10**6
PEOPLE = {1: "anna", 2: "bert", 3: "carl"}
PROJECT = Project(1, "answer", frozenset({"yes", "no"}), PEOPLE.get)


def annotation(**more: Any) -> dict[str, Any]:
    result = [{"from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": ["yes"]}}]
    about = {"id": 7, "task": 12, "completed_by": 2, "updated_at": "2026-05-01T12:00:00.250000Z", "result": result}
    return about | {"was_cancelled": False, "ground_truth": False} | more


def webhook(action: str = "ANNOTATION_CREATED", **about: Any) -> dict[str, Any]:
    return {"action": action, "project": {"id": 1}, **(about or {"annotation": annotation()})}


def heard(**more: Any) -> Report:
    return read_webhook(webhook(annotation=annotation(**more)), PROJECT, NOW)


def test_an_annotation_is_a_vote_by_its_id_at_its_own_time() -> None:
    (vote,) = heard().votes
    assert (vote.ref, vote.item, vote.annotator, vote.label, vote.action) == ("label-studio:7", "12", "bert", "yes", "label")
    # 2026-05-01T12:00:00.25Z by hand: 1,777,636,800 seconds after 1970.
    assert vote.at == 1_777_636_800_250_000
    # The same again has the same key; the next state another.
    assert heard().votes[0].key == vote.key
    assert heard(updated_at="2026-05-01T12:00:01Z").votes[0].key != vote.key
    # Exports have an object here.
    assert read_annotations([{"id": 12, "annotations": [annotation(completed_by={"id": 2})]}], PROJECT, NOW).votes == [vote]


def test_skipped_empty_and_ground_truth() -> None:
    assert [one.action for one in heard(was_cancelled=True).votes] == ["skip"]
    report = heard(result=[])
    assert [one.action for one in report.votes] == ["skip"]
    assert not report.strange
    report = heard(ground_truth=True)
    assert report.truths == {"12": "yes"}
    # Until it is no ground truth any more, at a later time.
    assert report.votes[0].action == "delete"
    assert report.votes[0].at < FINAL


@pytest.mark.parametrize(
    ("choices", "why"),
    [(["yes", "no"], "several labels"), (["maybe"], "'maybe' is not among the classes"), (["\u202e" * 300], "not among")],
)
def test_what_is_no_vote_is_said(choices: list[str], why: str) -> None:
    result = [{"from_name": "answer", "to_name": "text", "type": "choices", "value": {"choices": choices}}]
    report = heard(result=result)
    assert [one.action for one in report.votes] == ["skip"]
    assert why in report.strange[0]
    assert report.strange[0].isascii()


def test_ends_and_tasks() -> None:
    report = read_webhook(webhook("ANNOTATIONS_DELETED", annotations=[{"id": 7}, {"id": 8}]), PROJECT, NOW)
    assert report.votes == [ended(7), ended(8)]
    assert read_webhook(webhook("TASKS_DELETED", tasks=[{"id": 12}]), PROJECT, NOW).gone == {12}
    # What was imported with new tasks is not told.
    assert read_webhook(webhook("TASKS_CREATED", tasks=[{"id": 13}]), PROJECT, NOW).unclear == {13}
    # Somebody whom nobody knows yet.
    report = heard(completed_by=9)
    assert (report.votes, report.unclear) == ([], {12})


def test_other_projects_and_actions_are_of_no_concern() -> None:
    for body in (
        webhook() | {"project": {"id": 2}},
        webhook() | {"project": None},
        webhook("PROJECT_UPDATED"),
        [],
        None,
        "x",
        {},
    ):
        assert read_webhook(body, PROJECT, NOW) == Report()


@pytest.mark.parametrize(
    "more",
    [
        *({"id": bad} for bad in ("7", True, -1, 2**70)),
        *({"task": None}, {"completed_by": "anna"}, {"completed_by": {}}, {"result": "yes"}),
        *({"updated_at": bad} for bad in ("soon", None, "2099-01-01T00:00:00Z")),
    ],
)
def test_malformed_annotations_are_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        heard(**more)


def test_malformed_lists_are_refused() -> None:
    for body in (
        webhook("ANNOTATIONS_DELETED", annotations="all"),
        webhook("TASKS_DELETED", tasks=[7]),
        webhook(annotation=None),
    ):
        with pytest.raises(InputError):
            read_webhook(body, PROJECT, NOW)


def test_repeated_late_and_disordered_webhooks_leave_each_vote_once(tmp_path: Path) -> None:
    fake, rng = Fake(20), random.Random(0)
    people, open_ones = list(fake.users), []
    for _ in range(300):
        if open_ones and rng.random() < 0.4:
            number = rng.choice(open_ones)
            if rng.random() < 0.3:
                open_ones.remove(number)
                fake.delete(number)
            elif fake.annotations[number]["result"]:
                fake.change(number, label=rng.choice(["yes", "no"]))
        else:
            open_ones.append(fake.annotate(rng.choice(list(fake.tasks)), rng.choice(people), rng.choice(["yes", "no", None])))
    sent = [body for body in fake.sent for _ in range(rng.randint(1, 3))]
    rng.shuffle(sent)
    store = Store(f"sqlite:///{tmp_path / 'c.db'}")
    try:
        outcomes: Counter[str] = Counter()
        for body in sent:
            outcomes.update(store.take(read_webhook(body, PROJECT, NOW).votes).result())
        import sqlalchemy as sa

        from crowdwise.serve.schema import votes

        kept = {row.ref: (row.item, row.annotator, row.label) for row in store.rows(sa.select(votes)) if row.action != "delete"}
    finally:
        store.close()
    assert min(outcomes.values()) > 20
    # What is left in Label Studio is what is left here.
    left = {}
    for number, one in fake.annotations.items():
        label = one["result"][0]["value"]["choices"][0] if one["result"] else None
        left[f"label-studio:{number}"] = str(one["task"]), PEOPLE[one["completed_by"]], label
    assert kept == left
