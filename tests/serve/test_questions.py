"""Questions: the best item for whoever asks, nobody asked twice, nothing handed out twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.serve.serving import settings_in

from crowdwise.campaign.answers import Answers
from crowdwise.data.annotations import Annotations
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.serve.fitting import Fit
from crowdwise.serve.live import Live
from crowdwise.serve.questions import Desk

TOML = '[campaign]\nclasses = ["cat", "dog"]\n[inference]\nmethod = "dawid-skene"\n[questions]\nexplore = 0.0\n'


def desk_of(folder: Path, more: str = "") -> tuple[Desk, Live]:
    """Item "sure" has four votes that agree, "open" is split; "good" agrees with the others, "bad" never does."""
    settings = settings_in(folder, TOML + 'policy = "information"\n' + more)
    rows = [(f"i{n}", who, "cat" if n % 2 else "dog") for n in range(20) for who in ("good", "fair")]
    rows += [(f"i{n}", "bad", "cat" if n % 3 else "dog") for n in range(20)]
    rows += [("sure", who, "cat") for who in ("good", "fair")]
    rows += [("open", "fair", "cat"), ("open", "bad", "dog")]
    votes = Annotations.from_arrays(*zip(*rows, strict=True), classes=["cat", "dog"])
    result = DawidSkene().fit(votes).result_
    live = Live(["cat", "dog"], "dawid-skene")
    live.add([(str(name), None) for name in votes.items])
    live.adopt(Fit(1, result, Answers(result, None, None).rows.concentration, (), 0.0))
    desk = Desk(settings)
    desk.plan(live, {})
    return desk, live


def test_what_is_open_is_asked_before_what_is_sure(tmp_path: Path) -> None:
    desk, live = desk_of(tmp_path)
    order = list(desk.candidates(live, "good", 0))
    assert sorted(order) == sorted(live.names)
    assert order.index("open") < order.index("sure")
    # Nothing is known of a newcomer: the order of the items themselves.
    assert list(desk.candidates(live, "newcomer", 0)).index("open") < order.index("sure")


def test_a_question_that_is_out_is_not_handed_out_again_until_its_time_is_over(tmp_path: Path) -> None:
    desk, live = desk_of(tmp_path)
    first = next(desk.candidates(live, "good", 0))
    desk.lease(first, "good", 100)
    assert desk.open_for("good", 50) == [first]
    assert first not in list(desk.candidates(live, "fair", 50))
    assert first in list(desk.candidates(live, "fair", 100))
    assert (desk.leases, desk.held) == ({}, {})
    # What was handed out again has a time of its own.
    desk.lease(first, "good", 200)
    desk.lease(first, "good", 300)
    desk.expire(200)
    assert desk.open_for("good", 250) == [first]


def test_several_may_have_an_item_where_the_campaign_says_so(tmp_path: Path) -> None:
    desk, live = desk_of(tmp_path, "per_item = 2\n")
    desk.lease("open", "good", 100)
    assert "open" in desk.candidates(live, "fair", 0)
    desk.lease("open", "other", 100)
    assert "open" not in desk.candidates(live, "fair", 0)
    desk.release("open", "other")
    desk.release("open", "nobody")
    assert "open" in desk.candidates(live, "fair", 0)


def test_items_with_most_votes_are_closed_and_those_that_lack_votes_come_first(tmp_path: Path) -> None:
    desk, live = desk_of(tmp_path, "most = 3\nleast = 3\n")
    live.add([("new", None)])
    desk.plan(live, {})
    order = list(desk.candidates(live, "good", 0))
    assert order[0] == "new"
    assert set(order) == {"new", "open", "sure"}


def test_known_items_are_not_asked_about(tmp_path: Path) -> None:
    desk, live = desk_of(tmp_path)
    live.add([("open", "cat")])
    assert "open" not in list(desk.candidates(live, "good", 0))
    desk.plan(live, {})
    assert "open" not in list(desk.candidates(live, "good", 0))


def test_some_questions_are_asked_at_random(tmp_path: Path) -> None:
    desk, live = desk_of(tmp_path, "")
    fixed = [next(desk.candidates(live, "good", 0)) for _ in range(20)]
    assert len(set(fixed)) == 1
    settings = settings_in(tmp_path, TOML.replace("explore = 0.0", "explore = 1.0"))
    explored, again = Desk(settings), Desk(settings)
    for one in (explored, again):
        one.plan(live, {})
    drawn = [next(explored.candidates(live, "good", 0)) for _ in range(20)]
    assert len(set(drawn)) > 5
    assert drawn == [next(again.candidates(live, "good", 0)) for _ in range(20)]


@pytest.mark.parametrize("policy", ["warm-information", "error-reduction", "entropy+accuracy", "random+random", "margin+ucb"])
def test_every_policy_ranks_items(tmp_path: Path, policy: str) -> None:
    _, live = desk_of(tmp_path)
    desk = Desk(settings_in(tmp_path, TOML + f'policy = "{policy}"\n'))
    desk.plan(live, {"good": 2.0})
    assert sorted(desk.candidates(live, "good", 0)) == sorted(live.names)


def test_before_the_first_fit_items_are_asked_at_random(tmp_path: Path) -> None:
    live = Live(["cat", "dog"], "consensus")
    live.add([(f"i{n}", None) for n in range(30)])
    desk = Desk(settings_in(tmp_path, TOML))
    desk.plan(live, {})
    order = list(desk.candidates(live, "x", 0))
    assert sorted(order) == sorted(live.names)
    assert order != live.names
    assert np.isfinite(live.posterior).all()
