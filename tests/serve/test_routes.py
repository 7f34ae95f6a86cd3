"""The routes, over HTTP: votes in, labels, questions, audits and events out."""

from __future__ import annotations

import csv
import http.client
import io
import json
import random
from pathlib import Path

import pytest
from tests.serve.serving import PLAIN, Served, serving, settings_in

from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError
from crowdwise.methods.labels.consensus import Consensus
from crowdwise.serve import Client
from crowdwise.serve.service import Service
from crowdwise.serve.store import Store
from crowdwise.serve.votes import Delivery


def crowd(prefix: str, n_items: int = 30) -> list[dict[str, str]]:
    found = simulate(
        n_items=n_items, n_annotators=6, n_classes=2, classes=["cat", "dog"], votes_per_item=4, random_state=1
    ).votes
    rows = zip(found.item.tolist(), found.annotator.tolist(), found.label.tolist(), strict=True)
    return [
        {"item": f"{prefix}{n}", "annotator": f"w{a}", "label": str(found.classes[k]), "key": f"{prefix}{n}-{a}-{j}"}
        for j, (n, a, k) in enumerate(rows)
    ]


def test_labels_are_those_of_a_fit_to_all_votes(tmp_path: Path) -> None:
    given = crowd("i")
    with serving(settings_in(tmp_path)) as served:
        client = Client(served.url, served.lead)
        assert set(client.votes(given)) == {"taken"}
        assert set(client.votes(given)) == {"repeated"}
        served.settle()
        newest = {(one["item"], one["annotator"]): one["label"] for one in given}
        table = {
            "item": [pair[0] for pair in newest],
            "annotator": [pair[1] for pair in newest],
            "label": list(newest.values()),
        }
        expected = {row["item"]: row for row in Consensus().fit(table).result_.items_frame().iter_rows(named=True)}
        found = {row["item"]: row for row in client.labels()}
        assert {name: row["label"] for name, row in found.items()} == {name: row["label"] for name, row in expected.items()}
        for name, row in found.items():
            assert row["confidence"] == pytest.approx(expected[name]["confidence"], abs=1e-5)
        rows = list(csv.DictReader(io.StringIO(served.call("GET", "/labels?format=csv").text)))
        assert [row["item"] for row in rows] == [row["item"] for row in client.labels()]
        progress = client.progress()
        assert (progress["votes"], progress["spent"]) == (len(newest), len(newest))
        assert progress["expected_accuracy"]["low"] <= progress["expected_accuracy"]["expected"]
        assert {row["annotator"] for row in client.annotators()} == {one["annotator"] for one in given}
        assert served.call("GET", "/history").json()["snapshots"]
        changed = given[0] | {"label": "dog" if given[0]["label"] == "cat" else "cat", "key": "changed"}
        assert client.votes([changed]) == ["taken"]
        assert client.vote(given[1]["item"], None, annotator=given[1]["annotator"], action="delete", key="gone") == "taken"
        served.settle()
        assert client.progress()["votes"] == len(newest) - 1


def test_a_vote_is_seen_within_a_second(tmp_path: Path) -> None:
    import time

    with serving(settings_in(tmp_path), hurry=False) as served:
        served.wait_for(lambda: served.service.brain.live.fit is not None)
        served.call("POST", "/votes", {"item": "quick", "annotator": "a", "label": "cat"})
        start = time.monotonic()
        served.wait_for(
            lambda: any(row["item"] == "quick" and row["label"] for row in served.call("GET", "/labels").json()["labels"])
        )
        assert time.monotonic() - start < 1
        served.wait_for(lambda: "crowdwise_inference_lag_seconds 0\n" in served.call("GET", "/metrics").text)


def test_two_annotators_never_have_the_same_question(served: Served) -> None:
    client = Client(served.url, served.lead)
    client.add_items([(f"q{n}", {"text": f"Question {n}"}) for n in range(5)])
    tokens = {name: client.add_annotator(name) for name in ("anna", "bert", "carl")}
    served.wait_for(lambda: len(list(served.service.brain.desk.candidates(served.service.brain.live, "anna", 2**62))) >= 5)
    own = {name: Client(served.url, token) for name, token in tokens.items()}
    first = {name: one.next() for name, one in own.items()}
    assert len({one["item"] for one in first.values()}) == 3
    assert own["anna"].next() == first["anna"]
    assert own["anna"].vote(first["anna"]["item"], "cat", key="1") == "taken"
    second = own["anna"].next()
    assert second["item"] not in {one["item"] for one in first.values()}
    assert own["anna"].vote(second["item"], None, action="skip", key="2") == "taken"
    assert own["anna"].next()["item"] not in {None, first["anna"]["item"], second["item"]}
    with pytest.raises(InputError, match="403"):
        own["anna"].next("bert")
    with pytest.raises(InputError, match="403"):
        own["anna"].labels()
    with pytest.raises(InputError, match="403"):
        own["anna"].vote("q1", "cat", annotator="bert")
    served.call("POST", "/release", {"item": first["bert"]["item"]}, token=tokens["bert"])
    assert not served.service.brain.desk.open_for("bert", 0)


def test_annotators_who_change_are_flagged_with_the_time(tmp_path: Path) -> None:
    """By the times of the source: the votes come in another order."""
    votes = [
        # From the 61st hour on "tired" gives the same answer whatever the item is.
        {"item": f"i{n}", "annotator": who, "label": "cat" if n % 2 or (who == "tired" and n >= 60) else "dog", "at": at}
        for n in range(120)
        for at in [1777593600 + 3600 * n]
        for who in ("tired", "anna", "bert", "carl")
    ]
    quick = PLAIN.replace("[inference]\n", '[inference]\nmethod = "dawid-skene"\n')
    with serving(settings_in(tmp_path, quick)) as served:
        client = Client(served.url, served.lead)
        client.votes(random.Random(0).sample(votes, len(votes)))
        served.settle()
        found = {row["annotator"]: row for row in client.annotators()}
        assert [name for name, row in found.items() if "drift" in row["flags"]] == ["tired"]
        # date -u -d @$((1777593600 + 3600 * 60)): 3 May 2026, 12:00, of an even item, which is a dog.
        assert "fell from 100% to 50% since 03 May 12:00 UTC" in found["tired"]["reasons"]
        assert "since 03 May 12:00 UTC" in served.call("GET", "/live").text


def test_capacity_budget_and_who_may_answer(tmp_path: Path) -> None:
    text = '[campaign]\nclasses = ["cat", "dog"]\nitems = "items.csv"\n[target]\nbudget = 3.0\n[inference]\nrefit_votes = 1\n'
    text += '[[annotators]]\nname = "anna"\ncapacity = 1\n[[annotators]]\nname = "bert"\ncost = 2.0\n'
    (tmp_path / "items.csv").write_text('item,text\ni1,One\ni2,"=Two"\ni3,Three\n')
    with serving(settings_in(tmp_path, text)) as served:
        client = Client(served.url, served.lead)
        question = served.wait_for(lambda: (found := client.next("anna"))["item"] and found)
        assert question["content"]["text"] in ("One", "=Two", "Three")
        assert client.next("stranger")["why"] == "stranger is not an annotator of this campaign"
        assert client.next("ana")["why"].endswith("; did you mean 'anna'?")
        with pytest.raises(InputError, match="is not listed"):
            client.vote("i9", "cat", annotator="anna")
        client.vote(question["item"], "cat", annotator="anna")
        served.settle()
        assert "answers that were agreed" in client.next("anna")["why"]
        other = client.next("bert")
        client.vote(other["item"], "cat", annotator="bert")
        served.settle()
        assert client.progress()["left"] == 0
        assert client.next("bert") == {"item": None, "why": "the budget of 3 is spent"}


def test_items_that_come_to_a_quiet_campaign_are_asked_about(served: Served) -> None:
    client = Client(served.url, served.lead)
    served.settle()
    client.add_items(["late"])
    served.wait_for(lambda: "late" in set(served.service.brain.desk.candidates(served.service.brain.live, "x", 2**62)))


def test_nothing_is_reached_before_anybody_has_voted(tmp_path: Path) -> None:
    with serving(settings_in(tmp_path, PLAIN + '[target]\nstop = "expected"\n')) as served:
        served.settle()
        progress = Client(served.url, served.lead).progress()
        assert (progress["stop"], progress["expected_accuracy"], progress["expected_finish"]) == ("", None, None)


def test_questions_that_were_handed_out_survive_a_restart(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with serving(settings) as served:
        client = Client(served.url, served.lead)
        client.add_items(["a", "b"])
        first = served.wait_for(lambda: (found := client.next("anna"))["item"] and found)
        token = served.lead
    with serving(settings) as served:
        client = Client(served.url, served.lead)
        assert client.next("anna") == first
        served.wait_for(lambda: (found := client.next("bert"))["item"] and found)
        assert client.next("bert")["item"] != first["item"]
        assert served.call("GET", "/progress", token=token).status == 401


def test_classes_that_votes_have_cannot_be_taken_away(tmp_path: Path) -> None:
    store = Store(settings_in(tmp_path).url)
    store.take([Delivery("k", "r", "i", "a", "bird", "label", 1)]).result()
    store.close()
    with pytest.raises(InputError, match=r"\[campaign\] classes: there are votes for 'bird'"):
        Service(settings_in(tmp_path))


def test_an_audit_certifies_frozen_labels(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, PLAIN + "[target]\naccuracy = 0.5\n")
    with serving(settings) as served:
        client = Client(served.url, served.lead)
        assert "no labels to check" in served.call("POST", "/audit").json()["error"]
        votes = [
            {"item": f"i{n}", "annotator": f"w{a}", "label": "cat" if n % 2 else "dog"} for n in range(40) for a in range(3)
        ]
        client.votes(votes)
        served.settle()
        assert served.call("POST", "/audit").json()["audit"]["number"] == 1
        drawn = served.call("GET", "/audit?n=40").json()["items"]
        assert sorted(one["item"] for one in drawn) == sorted({one["item"] for one in votes})
        for number, one in enumerate(drawn):
            right = "cat" if int(one["item"][1:]) % 2 else "dog"
            # One label in forty is wrong, and one cannot be told.
            label = "?" if number == 3 else ("cat" if right == "dog" else "dog") if number == 7 else right
            assert served.call("POST", "/checks", {"item": one["item"], "label": label}).status == 200
        audit = served.wait_for(lambda: (found := client.progress()["audit"])["counted"] == 40 and found)
        # All are checked: one is unclear, which counts as wrong, and the wrong one is corrected.
        assert audit["certified"] == pytest.approx(39 / 40)
        assert "prove" in client.progress()["stop"]
        assert "prove" in client.next("w1")["why"]
        frozen = {row["item"]: row["label"] for row in client.labels(certified=True)}
        wrong = drawn[7]["item"]
        assert frozen[wrong] == ("dog" if int(wrong[1:]) % 2 else "cat")
        assert len(frozen) == 40
        labels = {row["item"]: row for row in client.labels()}
        assert labels[wrong]["note"] == "known"
        assert served.call("POST", "/checks", {"item": "nothing", "label": "cat"}).status == 422
        assert served.call("POST", "/checks", {"item": wrong, "label": "bird"}).status == 422
    with serving(settings) as served:
        audit = served.wait_for(lambda: (found := Client(served.url, served.lead).progress()["audit"])["counted"] and found)
        assert (audit["checked"], audit["certified"]) == (40, pytest.approx(39 / 40))


def test_events_tell_of_votes(served: Served) -> None:
    line = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    line.request("GET", "/events", headers={"authorization": f"Bearer {served.lead}"})
    stream = line.getresponse()
    assert stream.getheader("content-type", "").startswith("text/event-stream")
    served.call("POST", "/votes", {"item": "told", "annotator": "a", "label": "dog"})
    kind, found = "", {}
    # Between the line that names votes and theirs, the last event found may still be another, such as that of a fit.
    while not (kind == "votes" and any(one["item"] == "told" for one in found.get("items", ()))):
        text = stream.fp.readline().decode()
        kind = text.split(": ", 1)[1].strip() if text.startswith("event: ") else kind
        found = json.loads(text[6:]) if text.startswith("data: ") else found or {"items": []}
    line.close()


def test_metrics_health_and_description(served: Served) -> None:
    text = served.call("GET", "/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["crowdwise_votes"]) >= 0
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert {"crowdwise_votes", "crowdwise_request_seconds", "crowdwise_fits_total"} <= names
    assert served.call("GET", "/health", token="").json()["status"] == "UP"
    paths = served.call("GET", "/openapi.json").json()["paths"]
    assert {"/votes", "/labels", "/next", "/progress", "/events", "/metrics", "/health", "/annotators"} <= set(paths)
    assert "/votes" in served.call("GET", "/docs").text


def test_a_tool_delivers_for_everybody_and_reads_labels(served: Served) -> None:
    token = served.token("tool", "label-tool")
    tool = Client(served.url, token)
    assert tool.vote("t1", "cat", annotator="w", ref="17", at=5) == "taken"
    assert tool.vote("t1", "dog", annotator="w", ref="17", at=4) == "older"
    assert tool.labels() is not None
    with pytest.raises(InputError, match="403"):
        tool.annotators()


@pytest.mark.slow
def test_full_fits_run_in_a_process_of_their_own(tmp_path: Path) -> None:
    with serving(settings_in(tmp_path), process=True) as served:
        Client(served.url, served.lead).votes(crowd("p", 10))
        served.settle(60)
        assert served.service.brain.n_fits >= 1
        assert served.service.brain.facts["progress"]["expected"] > 0
        served.wait_for(lambda: "annotators" in served.service.brain.facts)


@pytest.mark.slow
def test_a_campaign_in_postgresql(tmp_path: Path, postgresql: str) -> None:
    with serving(settings_in(tmp_path, PLAIN.replace("[inference]", f'store = "{postgresql}"\n[inference]'))) as served:
        client, given = Client(served.url, served.lead), crowd("pg", 10)
        assert set(client.votes(given)) == {"taken"}
        served.settle()
        assert {row["item"] for row in client.labels()} >= {one["item"] for one in given}
        served.wait_for(lambda: client.next("w1")["item"])


def test_what_is_wrong_with_a_vote_is_named(served: Served) -> None:
    client = Client(served.url, served.lead)
    with pytest.raises(InputError, match="lable"):
        client.call("POST", "/votes", {"item": "x", "lable": "cat", "annotator": "bert"})
    with pytest.raises(InputError, match=r"0\.lable"):
        client.call("POST", "/votes", [{"item": "x", "lable": "cat", "annotator": "bert"}])
    with pytest.raises(InputError, match='whose answer is it\\? add "annotator"'):
        client.vote("x", "cat")
    with pytest.raises(InputError, match=r"found 'photo', 'who', 'answer'\. Call the columns item, annotator and label;"):
        client.upload(b"photo,who,answer\nx,bert,cat\n")
    with pytest.raises(InputError, match="takes the bytes of a table"):
        client.upload("votes.csv")  # type: ignore[arg-type]
