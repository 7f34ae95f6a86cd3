"""Audits inside a campaign: what checked labels prove, at any look and over several audits."""

from __future__ import annotations

from math import comb
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdwise.campaign.certified import CampaignAudit
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.oracle import SimulatedCrowd
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.labels.dawid_skene import DawidSkene

N = 60


@pytest.fixture
def crowd() -> SimulatedCrowd:
    return SimulatedCrowd.of(simulate(N, 8, 2, 1, random_state=3), 3)


def begun(crowd: SimulatedCrowd, n_votes: int = 4 * N, **more: Any) -> ActiveLoop:
    names = {"items": crowd.items, "annotators": crowd.annotators, "classes": crowd.classes.tolist()}
    loop = ActiveLoop(DawidSkene(), "random+random", **names, **more)
    while loop.votes.n_votes < n_votes:
        loop.tell(crowd.answer(loop.ask(N)))
    return loop


def filled(table: pl.DataFrame, crowd: SimulatedCrowd) -> pl.DataFrame:
    truth = dict(zip(crowd.items.tolist(), crowd.classes[crowd.truth].tolist(), strict=True))
    return table.with_columns(pl.Series("true label", [str(truth[item]) for item in table["item"]], dtype=pl.String))


def right(loop: ActiveLoop, crowd: SimulatedCrowd) -> float:
    labels = loop.labels().select("item", "label")
    return float(np.mean(labels["label"].to_numpy() == crowd.classes[crowd.truth]))


def audit_of(wrong: list[bool], size: int, pool: int | None = None, number: int = 1) -> CampaignAudit:
    items = [f"i{n}" for n in range(len(wrong))]
    truth = {item: "b" if error else "a" for item, error in zip(items, wrong, strict=True)}
    return CampaignAudit(number, items, ["a"] * len(wrong), size, 0, pool or size, 0.1, len(wrong), truth)


def test_checking_all_labels_leaves_no_doubt() -> None:
    # Two of ten were wrong and are corrected.
    assert audit_of([True, False] + [False] * 7 + [True], 10).right_from(0.95) == 1
    # Of twenty in the pool nobody voted on ten: these count as wrong.
    assert audit_of([False] * 10, 10, pool=20).right_from(0.95) == 0.5


def test_nothing_checked_proves_nothing_and_gaps_end_the_proof() -> None:
    assert audit_of([], 50).right_from(0.95) == 0
    full, gap = audit_of([False] * 30, 50), audit_of([False] * 30, 50)
    del gap.truth["i10"]
    assert gap.n_usable == 10
    assert gap.waiting == ["i10"]
    assert gap.right_from(0.95) < full.right_from(0.95)


def test_later_audits_have_less_of_the_risk() -> None:
    first, second = (audit_of([False] * 30, 100, number=number).right_from(0.95) for number in (1, 2))
    assert second < first
    # Of 30 right ones among 100, w wrong ones leave this probability: no bound can be better at the risk of the first audit.
    most = max(w for w in range(71) if comb(100 - w, 30) / comb(100, 30) > 0.025)
    assert first <= 1 - most / 100


@pytest.mark.slow
def test_certificates_are_true_at_every_look() -> None:
    # 15 of 80 labels are wrong. Whoever looks after every check and stops when most is proved is deceived once in forty times
    # at most (the first audit has half of the risk of 0.05).
    wrong = np.arange(80) < 15
    deceived = 0
    for seed in range(60):
        drawn = np.random.default_rng(seed).permutation(wrong)[:40].tolist()
        looks = [audit_of(drawn[:n], 80) for n in (10, 20, 30, 40)]
        # Before corrections: those found wrong are right afterwards.
        deceived += any(look.right_from(0.95) - sum(drawn[: look.n_usable]) / 80 > 65 / 80 for look in looks)
    assert deceived <= 5


def test_a_campaign_is_certified(crowd: SimulatedCrowd) -> None:
    loop = begun(crowd)
    assert loop.certified() == 0
    assert loop.stop(target=0.7, certified=True) == ""
    while not (reason := loop.stop(target=0.7, certified=True)):
        assert loop.tell_checked(filled(loop.check(10), crowd)) == 10
    assert reason.startswith("certified: at least ")
    assert "whatever the votes are like" in reason
    assert right(loop, crowd) >= loop.certified() >= 0.7
    # Also without being asked to believe checked labels only.
    assert loop.stop(target=0.7) == reason


def test_checks_wait_until_they_are_told(crowd: SimulatedCrowd) -> None:
    loop = begun(crowd)
    first = loop.check(5)
    assert first.columns == ["item", "true label"]
    assert loop.check(5)["item"].to_list() == first["item"].to_list()
    assert loop.check(8)["item"].to_list()[:5] == first["item"].to_list()
    assert loop.tell_checked(first) == 0
    assert loop.tell_checked(filled(first, crowd)) == 5
    assert loop.tell_checked(filled(first, crowd)) == 0
    assert loop.check(5)["item"].to_list()[:3] == loop.check(3)["item"].to_list()


def test_new_votes_end_an_audit_and_what_was_checked_is_known(crowd: SimulatedCrowd) -> None:
    loop = begun(crowd)
    checked = filled(loop.check(20), crowd)
    loop.tell_checked(checked)
    unclear = loop.check(1).with_columns(pl.lit("?").alias("true label"))
    loop.tell_checked(unclear)
    before = loop.certified()
    assert before > 0
    assert loop.result.votes.n_gold == 0
    questions = loop.ask(N)
    # Nobody is paid for what is known.
    assert not set(questions["item"]) & set(checked["item"])
    loop.tell(crowd.answer(questions))
    assert loop.certified() == 0
    assert loop.result.votes.n_gold == 20
    known = dict(loop.labels().filter(pl.col("note") == "checked").select("item", "label").iter_rows())
    assert {item: str(label) for item, label in known.items()} == dict(checked.iter_rows())
    # The next audit draws others.
    assert not set(loop.check(30)["item"]) & set(checked["item"])


def test_an_audit_is_resumed(crowd: SimulatedCrowd, tmp_path: Path) -> None:
    loop = begun(crowd, path=tmp_path / "campaign")
    loop.tell_checked(filled(loop.check(15), crowd))
    drawn = loop.check(4)["item"].to_list()
    again = ActiveLoop.load(tmp_path / "campaign", DawidSkene())
    assert again.certified() == loop.certified() > 0
    assert again.check(4)["item"].to_list() == drawn
    assert again.labels().filter(pl.col("note") == "checked").height == 15


def test_what_was_not_drawn_or_is_no_class_is_refused(crowd: SimulatedCrowd) -> None:
    loop = begun(crowd)
    with pytest.raises(InputError, match="nothing is being checked"):
        loop.tell_checked(pl.DataFrame({"item": ["x"], "true label": ["cat"]}))
    table = filled(loop.check(3), crowd)
    with pytest.raises(InputError, match="is not among the classes"):
        loop.tell_checked(table.with_columns(pl.lit("horse").alias("true label")))
    others = [item for item in crowd.items.tolist() if item not in table["item"].to_list()]
    with pytest.raises(InputError, match="was not drawn to be checked"):
        loop.tell_checked(pl.DataFrame({"item": others[:1], "true label": table["true label"][:1]}))
    with pytest.raises(InputError, match="need the column 'true label'"):
        loop.tell_checked(table.select("item"))
    with pytest.raises(SettingError, match="at least 1"):
        loop.check(0)


def test_without_votes_there_is_nothing_to_check(crowd: SimulatedCrowd) -> None:
    loop = begun(crowd, 0)
    assert loop.check(5).height == 0
    assert loop.certified() == 0
    assert loop.stop(target=0.5, certified=True) == ""
