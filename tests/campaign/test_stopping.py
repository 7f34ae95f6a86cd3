"""When to stop: the distribution of right labels by enumeration, and plans by campaigns of another making."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.campaign.conftest import fake_result, no_votes

from crowdwise.campaign import planning
from crowdwise.campaign.stopping import chance_of, expected_accuracy, plan, reached
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import Simulation, simulate
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.methods.labels.dawid_skene import DawidSkene


def result_with(right: Any) -> Any:
    right = np.asarray(right, float)
    votes = no_votes(len(right), 2)
    return fake_result(votes, np.column_stack([right, 1 - right]), np.tile(np.eye(2), (2, 1, 1)))


def enumerated(right: list[float]) -> list[float]:
    """P(number of right labels) over all ways to be right and wrong."""
    chances = [0.0] * (len(right) + 1)
    for outcome in product([0, 1], repeat=len(right)):
        chances[sum(outcome)] += math.prod(p if hit else 1 - p for p, hit in zip(right, outcome, strict=True))
    return chances


@given(st.lists(st.floats(0.5, 1), min_size=1, max_size=8), st.floats(0.01, 0.99))
def test_the_number_of_right_labels_has_the_enumerated_distribution(right: list[float], target: float) -> None:
    chances = enumerated(right)
    needed = math.ceil(target * len(right) - 1e-9)
    assert chance_of(result_with(right), target) == pytest.approx(sum(chances[needed:]), abs=1e-12)
    mean, low, high = expected_accuracy(result_with(right), 0.9)
    assert mean == pytest.approx(sum(right) / len(right))
    below = np.cumsum([0, *chances])
    for end, level in ((low, 0.05), (high, 0.95)):
        count = round(end * len(right))
        assert below[count] <= level + 1e-9
        assert below[count + 1] >= level - 1e-9


def test_large_sets_are_nearly_exact() -> None:
    rng = np.random.default_rng(0)
    right = rng.uniform(0.6, 1, 700)
    chances = np.ones(1)
    for p in right:
        chances = np.append(chances * (1 - p), 0) + np.insert(chances * p, 0, 0)
    for target in (0.78, 0.8, 0.82):
        assert chance_of(result_with(right), target) == pytest.approx(chances[math.ceil(target * 700) :].sum(), abs=0.01)
    mean, low, high = expected_accuracy(result_with(right), 0.95)
    below = chances.cumsum()
    assert mean == pytest.approx(right.mean())
    assert low == pytest.approx(np.searchsorted(below, 0.025) / 700, abs=2 / 700)
    assert high == pytest.approx(np.searchsorted(below, 0.975) / 700, abs=2 / 700)


def test_the_target_is_reached_when_it_is_likely_enough() -> None:
    # Two items, right with 0.9 each: both with 0.81, at least one with 0.99.
    result = result_with([0.9, 0.9])
    assert chance_of(result, 0.95) == pytest.approx(0.81)
    assert chance_of(result, 0.5) == pytest.approx(0.99)
    assert reached(result, 0.95, 0.8)
    assert not reached(result, 0.95, 0.82)
    assert reached(result, 0.5)


def test_only_chosen_items_count() -> None:
    result = result_with([0.5, 0.99, 1.0])
    assert expected_accuracy(result, items=np.array([1, 2]))[0] == pytest.approx(0.995)
    assert chance_of(result, 0.9, np.array([1, 2])) == pytest.approx(0.99)
    assert reached(result, 0.9, 0.98, np.array([1, 2]))
    assert not reached(result, 0.9, 0.98)


@pytest.mark.parametrize(("target", "probability"), [(0, 0.5), (1, 0.5), (0.5, 0), (0.5, 1), (float("nan"), 0.5)])
def test_shares_outside_zero_and_one_are_refused(target: float, probability: float) -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        reached(result_with([0.9]), target, probability)


def test_nothing_to_do_takes_no_votes() -> None:
    found = plan(result_with([0.99, 0.98]), 0.95)
    assert (found.votes, found.low, found.high, found.out_of_reach) == (0, 0, 0, 0)
    assert found.now == pytest.approx(0.985)


def test_coin_flippers_never_get_there() -> None:
    votes = no_votes(4, 2)
    found = plan(fake_result(votes, np.full((4, 2), 0.5), np.full((2, 2, 2), 0.5), 1e9), 0.95, repeats=2)
    assert found.out_of_reach == 1
    assert found.votes == found.low == found.high == math.inf


def test_perfect_annotators_need_a_vote_for_each_open_item() -> None:
    votes = no_votes(10, 2)
    perfect = fake_result(votes, [[1.0, 0.0]] * 6 + [[0.5, 0.5]] * 4, np.tile(np.eye(2), (2, 1, 1)), 1e9)
    # With one item open, the tenth label is a coin: nine are right for sure, all ten with probability 1/2.
    found = plan(perfect, 0.9, repeats=3)
    assert (found.votes, found.low, found.high, found.probability) == (3, 3, 3, 0.95)
    assert plan(perfect, 0.949, repeats=3).votes == 4


def walked(rng: np.random.Generator, accuracy: float, n_items: int, target: float) -> int:
    """Votes of a campaign with two classes: evidence of every item as a walk of log-odds, the least certain item next.

    It ends when the target is expected, which is when it is about as likely as not.
    """
    truth = rng.choice([-1, 1], n_items)
    evidence, step, asked = np.zeros(n_items), math.log(accuracy / (1 - accuracy)), 0
    while (1 / (1 + np.exp(-np.abs(evidence)))).mean() < target:
        n = int(np.argmin(np.abs(evidence)))
        evidence[n] += step * truth[n] * (1 if rng.random() < accuracy else -1)
        asked += 1
    return asked


@pytest.mark.slow
def test_the_interval_of_a_plan_covers_campaigns() -> None:
    votes = no_votes(40, 3)
    crowd = np.tile([[0.75, 0.25], [0.25, 0.75]], (3, 1, 1))
    found = plan(fake_result(votes, np.full((40, 2), 0.5), crowd, 1e9), 0.9, 0.5, repeats=60)
    rng = np.random.default_rng(1)
    campaigns = np.array([walked(rng, 0.75, 40, 0.9) for _ in range(100)])
    assert found.votes == pytest.approx(campaigns.mean(), rel=0.1)
    # Ninety in a hundred are meant; four standard deviations either way.
    assert 0.78 <= ((campaigns >= found.low) & (campaigns <= found.high)).mean() <= 1
    assert found.low < campaigns.mean() < found.high


def needed(drawn: Simulation, target: float, rng: np.random.Generator) -> int:
    """Votes of a real campaign: the least certain items, whoever comes, the model fitted to all votes after each fifteen."""
    votes, asked, step = drawn.votes, 0, drawn.votes.n_items // 10
    sure = BayesGC(confidence="model").fit(votes).posterior_.max(axis=1)
    while sure.mean() < target:
        items, who = np.argsort(sure)[:step], rng.integers(votes.n_annotators, size=step)
        chances = drawn.confusion[who, drawn.truth[items]].cumsum(axis=1)
        said = (rng.random((step, 1)) > chances[:, :-1]).sum(axis=1)
        answers = [
            names[codes].tolist() for names, codes in ((votes.items, items), (votes.annotators, who), (votes.classes, said))
        ]
        votes, asked = votes.concat(Annotations.from_arrays(*answers)), asked + step
        sure = BayesGC(confidence="model").fit(votes).posterior_.max(axis=1)
    return asked


@pytest.mark.slow
def test_nine_in_ten_intervals_cover_the_votes_that_were_needed() -> None:
    covered, widths = [], []
    for seed in range(16):
        drawn = simulate(n_items=150, n_annotators=12, n_classes=2, votes_per_item=2, annotators="one-coin", random_state=seed)
        found = plan(BayesGC(confidence="model").fit(drawn.votes).result_, 0.93, 0.5, repeats=14, random_state=seed)
        votes = needed(drawn, 0.93, np.random.default_rng(seed))
        covered.append(found.low <= votes <= found.high)
        widths.append((found.high - found.low) / found.votes)
    # Nine in ten of sixteen are 14.4, and fewer than 12 come about once in sixty times.
    assert sum(covered) >= 12
    # Not by saying nothing.
    assert np.median(widths) < 1.2


@pytest.mark.slow
def test_the_interval_of_a_large_set_is_as_narrow_as_its_campaigns(monkeypatch: pytest.MonkeyPatch) -> None:
    # What is known of the crowd is certain, so that only items make campaigns differ: a part of 50 of 800 items, scaled
    # up, would have four times the spread of whole ones, which are simulated as they are for comparison.
    crowd = np.tile([[0.75, 0.25], [0.25, 0.75]], (3, 1, 1))
    result = fake_result(no_votes(800, 3), np.full((800, 2), 0.5), crowd, 1e9)
    whole = plan(result, 0.85, 0.5, repeats=20)
    monkeypatch.setattr(planning, "_SIMULATED", 50)
    part = plan(result, 0.85, 0.5, repeats=20)
    assert part.votes == pytest.approx(whole.votes, rel=0.1)
    assert (part.high - part.low) / (whole.high - whole.low) < 2.5


def test_the_excess_spread_of_a_part_is_taken_out() -> None:
    rng = np.random.default_rng(0)
    # Crowds make a standard deviation of 30; parts of a quarter of the items one of 80, and the whole half of that.
    crowds = rng.normal(1000, 30, 4000)
    first, again = (crowds + rng.normal(0, 80, 4000) for _ in range(2))
    found = planning._of_the_whole(first, first - again, 0.25)
    assert found.mean() == pytest.approx(first.mean())
    assert found.std() == pytest.approx(math.hypot(30, 40), rel=0.05)


def test_who_answers_is_drawn_as_numpy_chooses() -> None:
    result = small_fit()
    votes = result.votes.votes_per_annotator + 1e-9
    known = planning._Known(result)
    for seed in range(5):
        ours = known.activity.searchsorted(np.random.default_rng(seed).random(50), side="right")
        theirs = np.random.default_rng(seed).choice(len(votes), size=50, p=votes / votes.sum())
        np.testing.assert_array_equal(ours, theirs)


def test_campaigns_are_announced() -> None:
    steps: list[tuple[str, int, int | None]] = []
    planning.plans(small_fit(), [0.999], repeats=3, progress=lambda *step: steps.append(step))
    assert steps == [("simulating campaigns", n, 3) for n in range(3)]


def small_fit() -> Result:
    return DawidSkene().fit(simulate(30, 7, 3, 3, random_state=0).votes).result_
