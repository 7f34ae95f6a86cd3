from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.trust.fairness.crowds import biased_crowd

from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning, DataWarning, NotFittedError, SettingError
from crowdwise.estimator.registry import make
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion
from crowdwise.trust.fairness import ItemGroupDS


def error_of(model: ItemGroupDS, confusion: Any, group: int) -> float:
    beta = model.result_.annotators.by_group()
    mean = beta / beta.sum(axis=3, keepdims=True)
    return float(np.abs(mean - confusion)[:, group].mean())


def test_given_the_matrices_the_posterior_is_bayes_rule() -> None:
    # Parameters so large that E log p is log p: then inference is a product that can be written out.
    votes = Annotations.from_arrays([0, 0, 1, 1], ["x", "y", "x", "y"], [0, 1, 1, 1], classes=[0, 1])
    group = np.array([0, 1])
    table = np.random.default_rng(0).dirichlet([2, 2], size=(2, 2, 2))  # annotator, group, true
    model = ItemGroupConfusion.start(votes, group, 2, np.ones((2, 2, 2)), np.ones((2, 2)))
    beta = np.stack([1e9 * table[a, s].T for a, s in zip(model.pair_a, model.pair_s, strict=True)])
    fitted = type(model)(**(vars(model) | {"beta_plk": beta}))
    posterior = np.zeros((2, 2))
    fitted.infer(votes, np.log([[0.3, 0.7]]), np.empty(0, np.int16), posterior)
    for n, labels in enumerate([(0, 1), (1, 1)]):
        joint = [p * table[0, n, k, labels[0]] * table[1, n, k, labels[1]] for k, p in enumerate((0.3, 0.7))]
        assert posterior[n] == pytest.approx(np.array(joint) / sum(joint), rel=1e-6)
    assert fitted.log_lik(votes, np.array([2]))[0] == pytest.approx(np.log(table[0, 1, :, 1]), rel=1e-6)


def test_counts_of_a_pair_are_those_counted_by_hand() -> None:
    crowd = biased_crowd(0, n_items=30, n_annotators=4, per_item=3)
    votes, q = crowd.votes, np.random.default_rng(1).dirichlet([1, 1], size=30)
    parent = np.full((4, 2, 2), 2.0)
    model = ItemGroupConfusion.start(votes, crowd.group, 2, parent, np.ones((2, 2))).update(votes, q)
    expected = np.full((4, 2, 2, 2), 2.0)
    for n, a, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        for k in range(2):
            expected[a, crowd.group[n], k, label] += q[n, k]
    assert model.by_group() == pytest.approx(expected)
    assert model.by_group(slice(1, 3)) == pytest.approx(expected[1:3])
    assert model.concentration() == pytest.approx(1 + (expected - 2).sum(axis=1))


def test_the_bound_never_falls() -> None:
    for seed, shares in product(range(3), ("by-group", "shared")):
        crowd = biased_crowd(seed, n_items=80, per_item=3)
        trace = ItemGroupDS(class_shares=shares).fit(crowd.votes.with_groups(crowd.group)).trace_
        assert (np.diff(trace) >= -1e-9 * abs(trace[0])).all()


def test_one_group_is_bayes_gc_around_its_own_matrices() -> None:
    crowd = biased_crowd(0)
    alone = ItemGroupDS(kappa=0).fit(crowd.votes.with_groups(np.zeros(600)))
    plain = BayesGC().fit(crowd.votes)
    assert alone.posterior_ == pytest.approx(plain.result_.model_posterior, abs=1e-3)
    assert alone.confusion_ == pytest.approx(plain.confusion_, abs=1e-3)


def test_a_very_large_kappa_gives_all_groups_the_same_matrix() -> None:
    crowd = biased_crowd(0)
    beta = ItemGroupDS(kappa=1e7).fit(crowd.votes.with_groups(crowd.group)).result_.annotators.by_group()
    mean = beta / beta.sum(axis=3, keepdims=True)
    assert mean[:, 0] == pytest.approx(mean[:, 1], abs=1e-4)


@pytest.mark.slow
def test_shrinkage_beats_pooling_and_no_sharing_on_the_small_group() -> None:
    errors: dict[float, list[float]] = {0.0: [], 10.0: [], 1e6: []}
    for seed in range(8):
        crowd = biased_crowd(seed, per_item=7, bias=0.35, biased=0.3, small=0.3)
        for kappa, found in errors.items():
            fitted = ItemGroupDS(kappa=kappa).fit(crowd.votes.with_groups(crowd.group))
            found.append(error_of(fitted, crowd.confusion, 1))
    assert np.mean(errors[10.0]) < np.mean(errors[1e6])
    assert np.mean(errors[10.0]) < np.mean(errors[0.0]) * 1.05


def test_gold_shows_a_bias_that_the_whole_crowd_shares() -> None:
    crowd = biased_crowd(3, biased=1.0, bias=0.45, n_annotators=8, small=0.6, n_items=500)
    blind = ItemGroupDS().fit(crowd.votes.with_groups(crowd.group))
    told = ItemGroupDS().fit(crowd.votes.with_groups(crowd.group), gold=crowd.gold)
    true_rate = crowd.confusion[:, 1, 1, 1].mean()
    beta = [model.result_.annotators.by_group() for model in (blind, told)]
    seen, known = ((b / b.sum(axis=3, keepdims=True))[:, 1, 1, 1].mean() for b in beta)
    assert abs(known - true_rate) < 0.1 < abs(seen - true_rate)


def test_shared_class_shares_pull_labels_of_groups_together() -> None:
    crowd = biased_crowd(1, bias=0.0, per_item=3, shares=(0.6, 0.3))
    gap = {}
    for shares in ("by-group", "shared"):
        q = ItemGroupDS(class_shares=shares).fit(crowd.votes.with_groups(crowd.group)).posterior_[:, 1]
        gap[shares] = q[crowd.group == 0].mean() - q[crowd.group == 1].mean()
    assert gap["shared"] < gap["by-group"]


def test_new_votes_are_read_with_the_matrices_of_their_group() -> None:
    crowd = biased_crowd(0)
    model = ItemGroupDS().fit(crowd.votes.with_groups(crowd.group))
    again = model.predict_proba(crowd.votes.with_groups(crowd.group))
    assert again == pytest.approx(model.posterior_, abs=1e-3)
    new = Annotations.from_arrays(["n"] * 2, [0, "stranger"], [1, 1], classes=[0, 1])
    known, strange, none = (model.predict_proba(new.with_groups(groups)) for groups in ({"n": 0}, {"n": "other"}, None))
    assert known.sum() == pytest.approx(1)
    assert strange == pytest.approx(none)


def test_frames_hold_a_row_per_pair_and_entry() -> None:
    crowd = biased_crowd(0, n_items=40, n_annotators=5, per_item=2)
    model = ItemGroupDS().fit(crowd.votes.with_groups(np.where(crowd.group, "w", "m")))
    frame = model.confusion_frame()
    pairs = {(a, "mw"[crowd.group[n]]) for n, a in zip(crowd.votes.item.tolist(), crowd.votes.annotator.tolist(), strict=True)}
    assert frame.height == len(pairs) * 4
    assert (frame["low"] <= frame["probability"]).all()
    assert frame["n_votes"].sum() == pytest.approx(crowd.votes.n_votes * 4)
    shares = model.class_shares_frame()
    assert shares.group_by("group").agg(shares["share"].sum()).height == 2
    assert model.group_names_.tolist() == ["m", "w"]
    assert "log-odds" in model.explain(0).unit


@pytest.mark.parametrize(
    ("item", "annotator", "label"),
    [([0], ["x"], ["a"]), ([0, 0, 0], ["x", "x", "x"], ["a", "b", "b"]), ([0, 1, 2], ["ü", "ü", "ü"], ["a", "b", None])],
)
@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
def test_odd_shapes_have_an_answer(item: list[int], annotator: list[str], label: list[Any]) -> None:
    votes = Annotations.from_arrays(item, annotator, label)
    model = ItemGroupDS().fit(votes.with_groups([f"g{n}" for n in votes.items]))
    assert model.posterior_.sum(axis=1) == pytest.approx(1)
    assert model.confusion_frame()["probability"].is_between(0, 1).all()


def test_votes_of_nobody_keep_the_prior() -> None:
    votes = Annotations.from_arrays([], [], [], items=[1, 2], annotators=["x"], classes=["a", "b"])
    assert ItemGroupDS().fit(votes.with_groups(["g", "h"])).posterior_ == pytest.approx(0.5)


def test_what_is_wrong_is_said() -> None:
    crowd = biased_crowd(0, n_items=20)
    with pytest.raises(SettingError, match="needs the group of every item"):
        ItemGroupDS().fit(crowd.votes)
    with pytest.raises(SettingError, match="kappa must be at least 0"):
        ItemGroupDS(kappa=-1).fit(crowd.votes.with_groups(crowd.group))
    with pytest.raises(NotFittedError):
        _ = ItemGroupDS().labels_
    with pytest.raises(SettingError, match="level"):
        ItemGroupDS().fit(crowd.votes.with_groups(crowd.group)).confusion_frame(2)
    with pytest.warns(ConvergenceWarning):
        make("item-group-ds", max_iter=1).fit(crowd.votes.with_groups(crowd.group))
    with pytest.warns(DataWarning, match="only one class"):
        ItemGroupDS().fit(Annotations.from_arrays([1], [1], [1]).with_groups(["g"]))
