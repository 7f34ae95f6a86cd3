"""The pages in a real browser: sign in with a token, watch a vote arrive, check three labels, download."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.report.browser import CHROMIUM, Browser
from tests.serve.serving import Served, serving, settings_in

from crowdwise.serve import Client

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt install chromium): the pages were not opened"),
    pytest.mark.skipif(os.name == "nt", reason="the browser is spoken to over inherited descriptors"),
]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(settings_in(tmp_path_factory.mktemp("pages"))) as served:
        client = Client(served.url, served.lead)
        client.add_items([(f"i{n}", {"text": f"Text of {n}", "see": f"https://example.org/{n}"}) for n in range(12)])
        client.votes(
            [{"item": f"i{n}", "annotator": f"w{a}", "label": "cat" if n % 2 else "dog"} for n in range(10) for a in range(3)]
        )
        served.settle()
        yield served


def seen(browser: Browser, expression: str, accept: Callable[[object], bool] = bool, seconds: float = 30.0) -> object:
    """Wait until the page shows something."""
    until = time.monotonic() + seconds
    while not accept(found := browser.run(expression)):
        assert time.monotonic() < until, (expression, found, browser.run("document.body.innerText")[:500])
        time.sleep(0.05)
    return found


def key(browser: Browser, one: str) -> None:
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=one, text=one)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=one)


def test_a_lead_signs_in_watches_checks_and_downloads(campaign: Served, tmp_path: Path) -> None:
    with Browser(site=campaign.url) as browser:
        browser.open(campaign.url)
        browser.click("#token")
        browser.type(campaign.lead)
        browser.key("Enter", 13)
        seen(browser, "document.querySelector('[data-part=tiles]') !== null")
        assert "crowdwise_token" not in browser.run("document.cookie")
        # A vote arrives: the page shows it without being loaded again.
        votes = "[...document.querySelectorAll('.tiles div')].find(d => d.innerText.startsWith('Votes')).children[1].innerText"
        assert browser.run(votes) == "30"
        browser.run("window.same = true")
        Client(campaign.url, campaign.lead).vote("i10", "cat", annotator="w0")
        seen(browser, votes, lambda found: found == "31")
        assert browser.run("window.same") is True
        # Three labels are checked with the keyboard.
        browser.open(f"{campaign.url}/check")
        seen(browser, "!document.getElementById('begin').hidden")
        assert "freezes the labels of the last fit" in browser.run("document.getElementById('frozen').innerText")
        campaign.settle()
        browser.click("#begin")
        for n in range(3):
            item = seen(
                browser, "!document.getElementById('choices').hidden && document.querySelector('#content h2').innerText"
            )
            assert f"Text of {str(item)[1:]}" in browser.run("document.getElementById('content').innerText")
            key(browser, "?" if n == 2 else "1" if int(str(item)[1:]) % 2 or item == "i10" else "2")
            seen(
                browser,
                "document.getElementById('count').innerText",
                lambda found, n=n: str(found).startswith(f"{n + 1} of 11 checked"),
            )
        assert "labels of the last fit before" in browser.run("document.getElementById('frozen').innerText")
        browser.key("ArrowLeft", 37)
        seen(browser, "document.querySelector('#choices [aria-pressed=true]').value", lambda found: found == "?")
        seen(browser, "document.getElementById('count').innerText", lambda found: "proven right" in str(found))
        assert [row[0] for row in campaign.service.store.rows(sa.text("SELECT count(*) FROM checks"))] == [3]
        # The labels are downloaded.
        browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        browser.open(campaign.url)
        browser.click('a[href="/labels?format=csv"]')
        until = time.monotonic() + 15
        while not (tmp_path / "labels.csv").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert (tmp_path / "labels.csv").read_text().startswith("item,label,confidence,")
        assert browser.problems == []


def test_an_annotator_answers_on_a_phone(campaign: Served) -> None:
    token = Client(campaign.url, campaign.lead).add_annotator("anna")
    with Browser(390, 844, site=campaign.url) as browser:
        browser.open(f"{campaign.url}/#{token}")
        first = seen(
            browser,
            "(document.querySelector('#choices:not([hidden])') && document.querySelector('#content h2').innerText)",
        )
        assert browser.run("location.hash") == ""
        browser.click("#choices button")
        seen(browser, "document.querySelector('#content h2').innerText", lambda found: found != first)
        key(browser, "s")
        seen(browser, "document.getElementById('status').innerText", lambda found: found == "skipped")
        assert browser.run("document.documentElement.scrollWidth") <= 390
        found = campaign.service.store.rows(sa.text("SELECT action FROM votes WHERE annotator = 'anna'"))
        assert sorted(row[0] for row in found) == ["label", "skip"]
        assert browser.problems == []


def test_names_of_strangers_stay_text(campaign: Served) -> None:
    evil = "<img src=x onerror=\"document.title='hacked'\">"
    Client(campaign.url, campaign.lead).votes([{"item": evil, "annotator": evil, "label": "cat"}])
    with Browser(390, 844, site=campaign.url) as browser:
        browser.open(f"{campaign.url}/#{campaign.lead}")
        seen(browser, f"document.body.innerText.includes({json.dumps(evil[:12])})")
        assert "hacked" not in browser.run("document.title")
        assert browser.run("document.querySelectorAll('img').length") == 0
        assert browser.run("document.documentElement.scrollWidth") <= 390
        assert browser.problems == []


def signed_in(browser: Browser, name: str) -> None:
    seen(browser, "document.body?.dataset.who", lambda found: found == name)
    seen(browser, "document.querySelector('header form')?.innerText", lambda found: name in str(found))
    assert browser.run("location.pathname + location.hash") == "/"


def test_a_click_signs_out(campaign: Served) -> None:
    with Browser(site=campaign.url) as browser:
        browser.open(f"{campaign.url}/#{campaign.lead}")
        signed_in(browser, "lead")
        browser.click("header form button")
        seen(browser, "document.getElementById('token') !== null")
        browser.open(campaign.url)
        assert browser.run("document.getElementById('token') !== null")
        # The dashboard may ask once more before it is left.
        assert [one for one in browser.problems if "/live" not in one] == []


def test_a_link_signs_in_whoever_opens_it_where_somebody_else_is(campaign: Served) -> None:
    client = Client(campaign.url, campaign.lead)
    first, second = "bert <b>", "carla"
    tokens = {name: client.add_annotator(name) for name in (first, second)}
    shown = "(document.querySelector('#choices:not([hidden])') && document.querySelector('#content h2').innerText)"

    def votes_of(name: str) -> int:
        return int(
            campaign.service.store.rows(sa.text("SELECT count(*) FROM votes WHERE annotator = :name").bindparams(name=name))[0][
                0
            ]
        )

    with Browser(site=campaign.url) as browser:
        browser.open(f"{campaign.url}/#{tokens[first]}")
        signed_in(browser, first)
        seen(browser, shown)
        # The page is open: the address changes, and nothing would be loaded.
        browser.run(f"location.href = '{campaign.url}/#{tokens[second]}'")
        signed_in(browser, second)
        answered = seen(browser, shown)
        browser.click("#choices button")
        seen(browser, "document.getElementById('status').innerText", lambda found: found == "saved")
        assert (votes_of(first), votes_of(second)) == (0, 1)
        # Not before the next question is there: a click until then is none.
        seen(browser, shown, lambda found: bool(found) and found != answered)
        # Somebody else signs in in another tab: what is answered here is nobody's.
        browser.run(f"fetch('/signin', {{method: 'POST', body: 'token={tokens[first]}'}}).then(() => 1)")
        browser.click("#choices button")
        signed_in(browser, first)
        assert (votes_of(first), votes_of(second)) == (0, 1)
        browser.open("about:blank")
        browser.open(f"{campaign.url}/#{campaign.lead}")
        signed_in(browser, "lead")
