"""Pages: a token signs in, nothing of strangers is markup, nothing is loaded from elsewhere."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.serve.serving import PLAIN, Served, serving, settings_in

from crowdwise.serve import Client
from crowdwise.serve.brain import Brain
from crowdwise.serve.drawing import history_picture, hours_picture

EVIL = "<img src=x onerror=alert(1)>"


def cookie_of(served: Served, token: str) -> str:
    form = urlencode({"token": token}).encode()
    found = served.call("POST", "/signin", form, token="", content_type="application/x-www-form-urlencoded")
    assert found.status == 303
    kept = found.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in kept.split(";")}
    return kept.partition(";")[0]


def test_a_stranger_sees_the_form_alone(served: Served) -> None:
    page = served.call("GET", "/", token="")
    assert page.status == 200
    assert 'id="signin"' in page.text
    assert "data-part" not in page.text
    assert served.call("GET", "/check", token="").status == 401
    wrong = served.call("POST", "/signin", b"token=nonsense", token="")
    assert wrong.status == 401
    assert "not valid" in wrong.text
    assert served.call("POST", "/signin", b"\xff", token="").status in (400, 401)


def test_the_dashboard_shows_names_as_text(served: Served) -> None:
    client = Client(served.url, served.lead)
    client.votes([{"item": f"{EVIL}{n}", "annotator": f"{EVIL}{a}", "label": "cat"} for n in range(3) for a in range(3)])
    served.settle()
    page = served.call("GET", "/", token="", cookie=cookie_of(served, served.lead))
    assert page.status == 200
    for part in ("head", "tiles", "pictures", "items", "annotators"):
        assert f'data-part="{part}"' in page.text
    assert "<img" not in page.text
    assert "&lt;img src=x onerror" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # No style or script stands in the page, and no address of others.
    assert not re.search(r"<script>|<style|style=|onclick|https?://(?!www.w3.org)", page.text)
    assert "data-part" in served.call("GET", "/live").text
    assert "attachment" in served.call("GET", "/labels?format=csv").headers["content-disposition"]


def test_everybody_gets_a_page_of_their_own(served: Served) -> None:
    annotator = served.call("GET", "/", token=served.token("annotator", "anna"))
    assert 'data-mode="answer"' in annotator.text
    assert "no page" in served.call("GET", "/", token=served.token("tool", "ls")).text
    assert 'data-mode="check"' in served.call("GET", "/check").text
    assert served.call("GET", "/check", token=served.token("annotator", "anna")).status == 403
    for path in ("/style.css", "/signin.js", "/live.js", "/work.js"):
        assert served.call("GET", path, token="").status == 200
    cookie = cookie_of(served, served.lead)
    left = served.call("POST", "/signout", b"", token="", cookie=cookie, origin=served.url)
    assert left.status == 303
    assert 'crowdwise_token=""' in left.headers["set-cookie"]


def tile(served: Served, name: str) -> str:
    """What a tile of the dashboard says, as text."""
    page = served.call("GET", "/live").text
    found = re.search(f"<div><dt>{name}</dt>(.*?)</div>", page)
    assert found is not None
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", found[1]))).strip()


def test_what_cannot_be_told_is_no_figure(tmp_path: Path) -> None:
    text = PLAIN + '[[annotators]]\nname = "anna"\ncost = 1.25\n[target]\nbudget = 2000.0\n'
    with serving(settings_in(tmp_path, text)) as served:
        client = Client(served.url, served.lead)
        client.votes([{"item": f"i{n}", "annotator": "anna", "label": "cat"} for n in range(6)])
        served.settle()
        assert tile(served, "Spent") == "7.5 of 2 000"
        assert tile(served, "Expected right") == "\u2013 too few votes overlap to say"
        served.wait_for(client.annotators)
        (anna,) = client.annotators()
        assert "nobody else voted on the same items" in anna["reasons"]
        assert anna["accuracy"] is None
        client.votes([{"item": f"i{n}", "annotator": who, "label": "cat"} for n in range(6) for who in ("bert", "carl")])
        served.settle()
        served.wait_for(lambda: all(one.get("accuracy") for one in client.annotators()))


def test_after_a_restart_nothing_looks_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_in(tmp_path)
    with serving(settings) as served:
        client = Client(served.url, served.lead)
        client.votes([{"item": f"i{n}", "annotator": f"w{a}", "label": "cat"} for n in range(5) for a in range(3)])
        served.settle()
        assert client.progress()["inferred"]
        audit = served.call("POST", "/audit").json()["audit"]
        assert (audit["drawn"], audit["later"]) == (5, 0)
        first = served.call("GET", "/audit").json()["items"][0]["item"]
        served.call("POST", "/checks", {"item": first, "label": "cat"})
        client.vote(first, "dog", annotator="w9")
        served.settle()
        assert served.call("GET", "/audit").json()["audit"]["later"] == 1
        assert "1 of 5 checked" in tile(served, "Proven right")
        assert tile(served, "Labelled") == "5 of 5 items"
    # The first fit takes its time.
    monkeypatch.setattr(Brain, "_order", lambda self, now: None)
    with serving(settings) as served:
        for name in ("Labelled", "Mean confidence", "Expected right"):
            assert tile(served, name) == "\u2013 fitting \u2026"
        assert "1 of 5 checked" in tile(served, "Proven right")
        notes = {row["note"] for row in Client(served.url, served.lead).labels()}
        assert notes == {"known", "fitting"}
        assert not Client(served.url, served.lead).progress()["inferred"]
        served.service.brain.facts["failed"] = "no"
        assert tile(served, "Labelled") == "\u2013 no fit yet"


@pytest.mark.parametrize("n", [1, 2, 50])
def test_pictures_of_any_length_are_drawn(n: int) -> None:
    facts = {"items": 4, "labelled": 2, "mean_confidence": 0.8, "expected": 0.7, "low": 0.5, "high": 0.9}
    snapshots = [facts | {"at": 1000.0 * k} for k in range(n)]
    snapshots[0] |= {"mean_confidence": None, "expected": float("nan")}
    assert history_picture(snapshots, 0.95).count("<svg") == 1
    assert "nan" not in history_picture(snapshots, 0.95)
    assert hours_picture({100: 5}, 100).count("<title>") == 2
