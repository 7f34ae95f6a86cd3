from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.trust.fairness.crowds import biased_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.labels.majority import MajorityVote
from crowdwise.trust.fairness import ItemGroupDS, parity_labels, parity_weights
from crowdwise.trust.fairness.parity import _best_between


def posterior_of(q: NDArray[np.float64]) -> Any:
    n_items, n_classes = q.shape
    votes = Annotations.from_arrays([], [], [], items=range(n_items), annotators=[], classes=list(range(n_classes)))
    return SimpleNamespace(votes=votes, posterior=q, codes=q.argmax(axis=1))


def rates(labels: Any, group: Any, mass: Any) -> list[float]:
    return [float((mass * labels)[group == g].sum() / mass[group == g].sum()) for g in np.unique(group)]


@pytest.mark.parametrize("constraint", ["demographic", "opportunity", "false-positives"])
@pytest.mark.parametrize("with_truth", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_pair_of_thresholds_is_better(constraint: str, with_truth: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Rounded, so that there are ties, which no threshold cuts through.
    q, group = rng.random(14).round(1), np.repeat([0, 1], [8, 6])
    z = (rng.random(14) < q).astype(int)
    z[[0, 1, 8, 9]] = [0, 1, 0, 1]
    found = parity_labels(
        posterior_of(np.stack([1 - q, q], 1)), group, constraint=constraint, within=0.15, truth=z if with_truth else None
    )
    t = z if with_truth else q
    mass = {"demographic": np.ones(14), "opportunity": t, "false-positives": 1 - t}[constraint]
    best = -np.inf
    cuts = [np.append(np.unique(q[group == g]), 2.0) for g in (0, 1)]
    for low, high in product(*cuts):
        labels = (q >= np.where(group == 0, low, high)).astype(int)
        first, second = rates(labels, group, mass)
        if abs(first - second) <= 0.15 + 1e-9:
            best = max(best, float(np.where(labels, t, 1 - t).sum()))
    assert np.where(found.codes, t, 1 - t).sum() == pytest.approx(best)
    assert found.gap <= 0.15 + 1e-9
    assert found.rate == pytest.approx(rates(found.codes, group, mass))


def test_a_constraint_that_is_met_changes_nothing() -> None:
    crowd = biased_crowd(0)
    model = ItemGroupDS().fit(crowd.votes.with_groups(crowd.group))
    found = parity_labels(model, crowd.group, within=1.0)
    assert found.n_changed == 0
    assert found.codes.tolist() == model.result_.codes.tolist()
    assert found.expected_cost == pytest.approx(0)


def test_the_cost_is_the_accuracy_lost() -> None:
    crowd = biased_crowd(0, shares=(0.7, 0.2))
    model = ItemGroupDS().fit(crowd.votes.with_groups(crowd.group))
    found = parity_labels(model, crowd.group, within=0.02, truth=crowd.gold)
    assert found.gap <= 0.02 + 1e-9 < found.gap_before
    assert found.accuracy == pytest.approx((found.codes == crowd.truth).mean())
    assert found.cost[0] == pytest.approx(found.accuracy_before - found.accuracy)
    assert found.cost[1] < found.cost[0] < found.cost[2]
    assert found.n_known == 600
    assert found.against == ""
    frame = found.items_frame()
    assert (frame["label"] != frame["label_before"]).sum() == found.n_changed
    assert found.groups_frame()["n_changed"].sum() == found.n_changed
    assert parity_labels(model, crowd.group, constraint="opportunity").against.endswith("circular")
    assert parity_labels(model, crowd.group, constraint="opportunity", truth=crowd.gold).against == "truth"


def test_splitting_ties_meets_a_narrow_constraint_that_thresholds_cannot() -> None:
    votes = Annotations.from_arrays(
        np.arange(40), ["x"] * 40, np.r_[np.ones(10), np.zeros(10), np.ones(4), np.zeros(16)].astype(int)
    )
    group = np.repeat([0, 1], 20)
    result = MajorityVote().fit(votes)
    together = parity_labels(result, group, within=0.0)
    split = parity_labels(result, group, within=0.0, split_ties=True)
    assert together.gap == split.gap == 0
    assert together.expected_cost > split.expected_cost
    assert split.rate == pytest.approx([0.2, 0.2]) or split.rate == pytest.approx([0.5, 0.5]) or 0.2 <= split.rate[0] <= 0.5
    assert split.codes.tolist() == parity_labels(result, group, within=0.0, split_ties=True).codes.tolist()


def test_with_several_classes_the_class_must_be_named_and_others_keep_their_order() -> None:
    rng = np.random.default_rng(0)
    q, group = rng.dirichlet([1, 1, 1], 60), np.repeat([0, 1, 2], 20)
    with pytest.raises(SettingError, match="name the class"):
        parity_labels(posterior_of(q), group)
    found = parity_labels(posterior_of(q), group, positive=1, within=0.05)
    assert found.gap <= 0.05 + 1e-9
    rest = found.codes != 1
    assert (found.codes[rest] == np.where([True, False, True], q, -1)[rest].argmax(axis=1)).all()


def test_a_group_without_known_positives_keeps_the_threshold_of_the_model() -> None:
    q = np.array([0.9, 0.4, 0.6, 0.2])
    found = parity_labels(posterior_of(np.stack([1 - q, q], 1)), [0, 0, 1, 1], constraint="opportunity", truth=[1, 1, 0, 0])
    assert found.codes[2:].tolist() == [1, 0]
    assert np.isnan(found.rate[1])


def test_scores_of_a_classifier_take_the_place_of_the_posterior() -> None:
    crowd = biased_crowd(0, n_items=50)
    model = MajorityVote().fit(crowd.votes)
    scores = np.random.default_rng(0).dirichlet([1, 1], 50)
    found = parity_labels(model, crowd.group, scores=scores, within=1.0)
    assert found.codes.tolist() == scores.argmax(axis=1).tolist()
    with pytest.raises(InputError, match="scores must have shape"):
        parity_labels(model, crowd.group, scores=scores[:3])


def test_range_maxima_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    value = rng.integers(0, 9, 37).astype(float)
    start, stop = rng.integers(0, 37, 300), rng.integers(0, 38, 300)
    for a, b, place in zip(start, stop, _best_between(value, start, stop), strict=True):
        assert place == -1 if a >= b else value[place] == value[a:b].max()


def test_what_is_wrong_is_said() -> None:
    q = posterior_of(np.full((2, 2), 0.5))
    with pytest.raises(SettingError, match="constraint must be one of"):
        parity_labels(q, [0, 1], constraint="demografic")
    with pytest.raises(SettingError, match="within"):
        parity_labels(q, [0, 1], within=-1)
    with pytest.raises(InputError, match="only one class"):
        parity_labels(posterior_of(np.ones((2, 1))), [0, 1])


def test_weights_make_class_and_group_independent() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 500)
    label = (rng.random(500) < np.array([0.2, 0.5, 0.8])[group]).astype(int)
    weight = parity_weights(label, group)
    shares = [np.average(label[group == g], weights=weight[group == g]) for g in range(3)]
    assert shares == pytest.approx([label.mean()] * 3)
    assert [weight[group == g].sum() for g in range(3)] == pytest.approx([(group == g).sum() for g in range(3)])


def test_soft_weights_do_the_same_in_expectation_and_agree_with_hard_ones() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 200)
    q = rng.dirichlet([1, 2], 200)
    mass = q * parity_weights(q, group)
    assert mass[group == 0].sum(axis=0) / mass[group == 0].sum() == pytest.approx(q.mean(axis=0))
    label = rng.integers(0, 2, 200)
    assert parity_weights(np.eye(2)[label], group)[np.arange(200), label] == pytest.approx(parity_weights(label, group))
    with pytest.raises(InputError, match="one group per label"):
        parity_weights([0, 1], ["a"])
    with pytest.raises(InputError, match="sum to one"):
        parity_weights([[0.2, 0.2]], ["a"])
