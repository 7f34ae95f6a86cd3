"""Fits that look at items with the same votes once are the fits that look at all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.engines.shards import Whole
from crowdwise.estimator.registry import make_aggregator
from crowdwise.scale.local import Local

PATTERNS_FROM = "crowdwise.engines.shards.PATTERNS_FROM"
METHODS: dict[str, dict[str, Any]] = {
    "dawid-skene": {},
    "consensus": {},
    "bayes-gc": {},
    "cbcc": {},
    "hierarchical-dawid-skene": {},
    "mean-field": {"family": "confusion"},
}


def crowd(seed: int = 0) -> Annotations:
    """2,500 items of which many have the same votes; ten have none."""
    votes = simulate(n_items=2500, n_annotators=6, n_classes=3, votes_per_item=3, random_state=seed).votes
    return votes.take_votes(votes.item >= 10)


def gold_of(votes: Annotations) -> Annotations:
    rng = np.random.default_rng(1)
    return replace(
        votes, gold=np.where(rng.random(votes.n_items) < 0.2, rng.integers(0, 3, votes.n_items), -1).astype(np.int16)
    )


def both(monkeypatch: pytest.MonkeyPatch, fit: Callable[[], Any]) -> tuple[Any, Any]:
    """With patterns, and without."""
    seen = []
    collapsed = Whole.collapsed

    def watched(self: Whole) -> Whole:
        found = collapsed(self)
        seen.append(found.pattern is not None)
        return found

    monkeypatch.setattr(Whole, "collapsed", watched)
    monkeypatch.setattr(PATTERNS_FROM, 0)
    once = fit()
    assert seen
    assert all(seen)
    asked = len(seen)
    monkeypatch.setattr(PATTERNS_FROM, 10**9)
    each = fit()
    assert not any(seen[asked:])
    assert asked == len(seen) - asked
    return once, each


# Every method with items that stand aside and with known labels; one with both and with neither.
@pytest.mark.parametrize(
    ("name", "focus", "gold"),
    [
        *((name, 0, False) for name in METHODS),
        *((name, 10**9, True) for name in METHODS),
        ("dawid-skene", 0, True),
        ("dawid-skene", 10**9, False),
    ],
)
def test_a_fit_by_patterns_is_the_fit(name: str, focus: int, gold: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crowdwise.engines.loop.FOCUS_FROM", focus)
    votes = gold_of(crowd()) if gold else crowd()
    once, each = both(monkeypatch, lambda: make_aggregator(name, **METHODS[name]).fit(votes).result_)
    assert once.n_iter == each.n_iter
    np.testing.assert_allclose(once.posterior, each.posterior, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(once.codes, each.codes)
    np.testing.assert_allclose(once.annotators.confusion(), each.annotators.confusion(), rtol=0, atol=1e-9)
    for term, values in each.trace.items():
        np.testing.assert_allclose(once.trace[term], values, rtol=1e-9)


def test_starts_that_differ_within_a_pattern_lead_to_the_same_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = crowd()
    once, each = both(
        monkeypatch, lambda: make_aggregator("dawid-skene", init="random", random_state=3, restarts=2).fit(votes).result_
    )
    np.testing.assert_allclose(once.posterior, each.posterior, rtol=0, atol=1e-6)
    assert once.bound == pytest.approx(each.bound, rel=1e-9)


def test_hard_fits_and_weighted_votes_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PATTERNS_FROM, 0)
    votes = crowd()
    heavy = replace(votes, weight=np.full(votes.n_votes, 2.0))
    assert Whole.of(heavy).collapsed().pattern is None
    once = make_aggregator("dawid-skene", hard=True).fit(votes).result_
    monkeypatch.setattr(PATTERNS_FROM, 10**9)
    each = make_aggregator("dawid-skene", hard=True).fit(votes).result_
    np.testing.assert_array_equal(once.posterior, each.posterior)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dawid-skene", "consensus"])
def test_shards_which_look_at_every_item_equal_patterns_in_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PATTERNS_FROM, 0)
    votes = crowd()
    votes = votes.take_items(np.flatnonzero(votes.votes_per_item))
    votes.to_frame().write_parquet(tmp_path / "votes.parquet")
    memory = make_aggregator(name).fit(votes).result_
    with Local(shards=3, work_dir=tmp_path / "work") as engine:
        shards = make_aggregator(name).fit(tmp_path / "votes.parquet", engine=engine).result_
    assert memory.n_iter == shards.n_iter
    for term, values in memory.trace.items():
        np.testing.assert_allclose(shards.trace[term], values, rtol=1e-12)
