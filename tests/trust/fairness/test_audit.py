from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.trust.fairness.crowds import Crowd, biased_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.labels.dawid_skene import DawidSkene
from crowdwise.trust.fairness import ItemGroupDS, annotator_scores, audit, groups_of, matrices_given
from crowdwise.trust.fairness.audit import CIRCULAR, UNSEEN, Audit
from crowdwise.trust.fairness.gaps import one_hot
from crowdwise.trust.fairness.scores import _farthest


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    return biased_crowd(0, n_items=400, n_annotators=12, per_item=6, bias=0.4)


@pytest.fixture(scope="module")
def found(crowd: Crowd) -> Audit:
    return audit(DawidSkene().fit(crowd.votes), crowd.group, truth=crowd.gold, n_resamples=200)


def rate(frame: pl.DataFrame, **wanted: Any) -> dict[str, Any]:
    return frame.row(by_predicate=pl.all_horizontal(pl.col(name) == value for name, value in wanted.items()), named=True)


def test_rates_of_annotators_and_consensus_are_those_counted_by_hand(crowd: Crowd, found: Audit) -> None:
    votes = crowd.votes
    mine = (crowd.group[votes.item] == 1) & (crowd.truth[votes.item] == 1)
    row = rate(found.rates, of="annotators", measure="true-positive rate", group=1)
    assert (row["rate"], row["n"]) == pytest.approx((votes.label[mine].mean(), mine.sum()))
    labels = DawidSkene().fit(votes).labels_
    wrong = (crowd.group == 0) & (crowd.truth == 0)
    row = rate(found.rates, of="consensus", measure="false-positive rate", group=0)
    assert (row["rate"], row["n"]) == pytest.approx((labels[wrong].mean(), wrong.sum()))
    assert row["against"] == "truth"
    assert row["low"] <= row["rate"] <= row["high"]
    assert rate(found.rates, of="consensus", measure="share", group=0)["against"] == ""


def test_with_truth_nothing_is_circular_and_without_it_that_is_said(crowd: Crowd, found: Audit) -> None:
    assert UNSEEN not in found.notes
    assert CIRCULAR not in found.notes
    blind = audit(DawidSkene().fit(crowd.votes), crowd.group, n_resamples=20)
    assert UNSEEN in blind.notes
    assert CIRCULAR in blind.notes
    assert blind.gaps.filter(of="consensus")["measure"].to_list() == ["demographic parity"]
    assert set(blind.gaps.filter(of="annotators")["against"]) == {"", "consensus, circular"}
    told = audit(DawidSkene().fit(crowd.votes, crowd.gold), crowd.group, n_resamples=20)
    assert UNSEEN in told.notes
    assert CIRCULAR not in told.notes
    assert set(told.gaps.filter(of="annotators")["against"]) == {"", "truth"}


def test_the_consensus_is_not_measured_on_what_the_fit_was_told(crowd: Crowd) -> None:
    told = {n: int(crowd.truth[n]) for n in range(200)}
    found = audit(DawidSkene().fit(crowd.votes, told), crowd.group, truth=crowd.gold, n_resamples=20)
    assert found.rates.filter(of="consensus", measure="accuracy")["n"].sum() == 200
    assert found.rates.filter(of="annotators", measure="accuracy")["n"].sum() == crowd.votes.n_votes


def test_biased_annotators_have_the_largest_scores(crowd: Crowd, found: Audit) -> None:
    score = found.annotators["score"].to_numpy()
    assert score[:6].mean() > 2 * score[6:].mean()
    assert not found.annotators["flag"][6:].any()
    assert found.annotators["flag"][:6].any()
    assert found.annotators["n_votes"].sum() == crowd.votes.n_votes


def test_the_score_is_the_distance_of_the_posterior_means(crowd: Crowd) -> None:
    groups = groups_of(crowd.votes, crowd.group)
    model = matrices_given(crowd.votes, groups, one_hot(crowd.truth, 2), kappa=10.0)
    counts = np.zeros((12, 2, 2, 2))
    np.add.at(
        counts, (crowd.votes.annotator, crowd.group[crowd.votes.item], crowd.truth[crowd.votes.item], crowd.votes.label), 1
    )
    base = np.array([[5.0, 2.0], [2.0, 5.0]])
    pooled = counts.sum(axis=1) + base
    beta = counts + (10 * pooled / pooled.sum(axis=2, keepdims=True) + base)[:, None]
    mean = beta / beta.sum(axis=3, keepdims=True)
    frame = annotator_scores(crowd.votes, groups, model, n_draws=50)
    assert frame["score"].to_numpy() == pytest.approx(np.linalg.norm(mean[:, 0] - mean[:, 1], axis=(1, 2)))
    # Of one row with two labels, draws are Beta: the tail probability by scipy.
    exact = np.mean(
        [
            np.linalg.norm([np.array([1, -1]) * (a[k] - b[k]) for k in range(2)]) > 0.2
            for a, b in zip(
                *(np.random.default_rng(0).beta(beta[0, s, :, 0], beta[0, s, :, 1], (4000, 2)) for s in (0, 1)), strict=True
            )
        ]
    )
    assert annotator_scores(crowd.votes, groups, model, n_draws=2000)["probability"][0] == pytest.approx(exact, abs=0.05)


def test_an_annotator_who_saw_one_group_alone_has_no_score() -> None:
    votes = Annotations.from_arrays([0, 1, 0, 1], ["x", "x", "y", "y"], [0, 1, 0, 1])
    groups = groups_of(votes, ["a", "b"])
    only = Annotations.from_arrays([0, 1, 0], ["x", "x", "y"], [0, 1, 0])
    frame = annotator_scores(only, groups, matrices_given(only, groups, np.eye(2)))
    assert frame["score"].is_null().to_list() == [False, True]
    assert frame["n_least"].to_list() == [1, 0]
    with pytest.raises(SettingError, match="least"):
        annotator_scores(votes, groups, matrices_given(votes, groups, np.eye(2)), least=0)


def test_of_several_groups_the_two_farthest_count() -> None:
    rng = np.random.default_rng(0)
    matrices = rng.dirichlet([1, 1, 1], size=(4, 5, 3))
    seen = np.ones((4, 5), bool)
    seen[0, 3:] = False
    for one, voted, found in zip(matrices, seen, _farthest(matrices, seen), strict=True):
        pairs = [(s, t) for t in range(5) for s in range(t) if voted[s] and voted[t]]
        assert tuple(found) == max(pairs, key=lambda pair: float(np.linalg.norm(one[pair[0]] - one[pair[1]])))


def test_many_groups_of_few_votes_flag_nobody() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 600)
    item, who = np.repeat(np.arange(600), 3), rng.integers(0, 60, 1800)
    label = np.where(rng.random(1800) < 0.8, truth[item], 1 - truth[item])
    votes = Annotations.from_arrays(item, who, label, classes=[0, 1])
    found = audit(DawidSkene().fit(votes), rng.integers(0, 20, 600), truth=truth, n_resamples=20)
    assert not found.annotators["flag"].any()


@pytest.mark.parametrize("shape", ["labels", "mapping", "frame", "probabilities"])
def test_predictions_of_every_shape_are_measured_alike(crowd: Crowd, shape: str) -> None:
    said = np.random.default_rng(0).integers(0, 2, 400)
    given: Any = {
        "labels": said,
        "mapping": dict(enumerate(said.tolist())),
        "frame": pl.DataFrame({"item": np.arange(400), "label": said, "confidence": 0.5}),
        "probabilities": one_hot(said, 2) * 0.6 + 0.2,
    }[shape]
    found = audit(DawidSkene().fit(crowd.votes), crowd.group, truth=crowd.gold, predictions=given, n_resamples=20)
    row = rate(found.rates, of="predictions", measure="accuracy", group=1)
    assert row["rate"] == pytest.approx((said == crowd.truth)[crowd.group == 1].mean())


def test_predictions_that_do_not_fit_are_refused(crowd: Crowd) -> None:
    fitted = DawidSkene().fit(crowd.votes)
    with pytest.raises(InputError, match="must have shape"):
        audit(fitted, crowd.group, predictions=np.ones((3, 2)))
    with pytest.raises(InputError, match="sum one"):
        audit(fitted, crowd.group, predictions=np.ones((400, 2)))


def test_soft_rates_are_sums_of_probabilities(crowd: Crowd) -> None:
    model = ItemGroupDS().fit(crowd.votes.with_groups(crowd.group))
    found = audit(model, crowd.group, soft=True, n_resamples=50)
    row = rate(found.rates, of="consensus", measure="share", group=1)
    assert row["rate"] == pytest.approx(model.posterior_[crowd.group == 1, 1].mean())


def test_the_same_seed_gives_the_same_bits(crowd: Crowd) -> None:
    fitted = DawidSkene().fit(crowd.votes)
    first, second = (audit(fitted, crowd.group, n_resamples=50) for _ in range(2))
    assert first.gaps.equals(second.gaps)
    assert first.annotators.equals(second.annotators)


def test_small_groups_one_group_and_few_annotators_are_noted() -> None:
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y", "x", "y"], ["no", "yes", "yes", "yes"])
    found = audit(DawidSkene().fit(votes), ["g", "h"], n_resamples=20)
    assert any("Fewer than 30 items" in note for note in found.notes)
    assert any("Only 2 annotators" in note for note in found.notes)
    assert any("positive class is yes" in note for note in found.notes)
    alone = audit(DawidSkene().fit(votes), ["g", "g"], n_resamples=20, positive="no")
    assert any("one group" in note for note in alone.notes)
    assert alone.gaps["gap"].is_null().all()
    assert found.group_frame.rows() == [("g", 1), ("h", 1)]
