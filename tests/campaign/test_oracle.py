"""Crowds that answer: recorded votes as they are, simulated ones by their matrices."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from crowdwise.campaign.assign import suggest
from crowdwise.campaign.oracle import RecordedCrowd, SimulatedCrowd
from crowdwise.campaign.policies import State
from crowdwise.campaign.pool import Pool, extended
from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.errors import InputError
from crowdwise.methods.labels.bayes_gc import BayesGC


def recorded() -> Annotations:
    return Annotations.from_arrays(["p", "p", "q", "r"], ["x", "y", "y", "x"], ["cat", "dog", "dog", "cat"])


def questions(*pairs: tuple[object, object]) -> pl.DataFrame:
    return pl.DataFrame(list(pairs), schema=["item", "annotator"], orient="row")


def test_recorded_votes_answer_in_the_order_of_the_questions() -> None:
    crowd = RecordedCrowd(recorded(), {"p": "cat", "q": "dog"})
    asked = questions(("q", "y"), ("p", "y"), ("p", "x"))
    assert crowd.answer(asked).rows() == [("q", "y", "dog"), ("p", "y", "dog"), ("p", "x", "cat")]
    assert crowd.truth.tolist() == [0, 1, -1]
    assert crowd.answer(asked.head(0)).height == 0


def test_a_pair_that_was_not_recorded_is_an_error() -> None:
    crowd = RecordedCrowd(recorded())
    with pytest.raises(InputError, match="'x' was not recorded on 'q'"):
        crowd.answer(questions(("p", "x"), ("q", "x")))
    with pytest.raises(InputError, match="no item 's'"):
        crowd.answer(questions(("s", "x")))


def test_policies_ask_recorded_pairs_only_until_all_are_asked() -> None:
    votes = recorded()
    start = extended(
        Annotations.from_arrays([], [], [], items=[], annotators=[], classes=["cat", "dog"]), ["p", "q", "r"], ["x", "y"]
    )
    result = BayesGC().fit(start).result_
    state = State(result, Pool.of(start, allowed=votes, per_item=5), np.random.default_rng(0))
    found = suggest(state, "information", 100, explore=0.5)
    assert set(found.frame().select("item", "annotator").rows()) == {("p", "x"), ("p", "y"), ("q", "y"), ("r", "x")}


def test_gold_of_the_votes_is_the_truth_unless_another_is_given() -> None:
    votes = recorded().with_gold({"r": "dog"})
    assert RecordedCrowd(votes).truth.tolist() == [-1, -1, 1]


def test_simulated_answers_follow_the_matrices() -> None:
    truth = np.repeat([0, 1], 2000)
    crowd = SimulatedCrowd([[[0.9, 0.1], [0.3, 0.7]]], truth, classes=["cat", "dog"])
    said = crowd.answer(pl.DataFrame({"item": np.arange(4000), "annotator": np.zeros(4000, int)}))["label"].to_numpy()
    # Standard errors are 0.007 and 0.010.
    assert (said[:2000] == "cat").mean() == pytest.approx(0.9, abs=0.03)
    assert (said[2000:] == "cat").mean() == pytest.approx(0.3, abs=0.04)


def test_the_same_question_has_the_same_answer_in_any_order() -> None:
    crowd = SimulatedCrowd.of(simulate(n_items=30, n_annotators=4, votes_per_item=1, random_state=2), random_state=5)
    asked = pl.DataFrame({"item": crowd.items.repeat(4), "annotator": np.tile(crowd.annotators, 30)})
    whole = crowd.answer(asked)
    assert crowd.answer(asked.reverse()).reverse().equals(whole)
    assert not SimulatedCrowd(crowd.confusion, crowd.truth, items=crowd.items.tolist(), annotators=crowd.annotators.tolist(),
                              classes=crowd.classes.tolist(), random_state=6).answer(asked).equals(whole)  # fmt: skip


def test_wrong_crowds_are_refused() -> None:
    with pytest.raises(InputError, match=r"\[A, K, K\]"):
        SimulatedCrowd(np.eye(2), [0])
    with pytest.raises(InputError, match="sum to 1"):
        SimulatedCrowd(np.ones((1, 2, 2)), [0])
    with pytest.raises(InputError, match="class code from 0 to 1"):
        SimulatedCrowd([np.eye(2)], [0, 2])
    with pytest.raises(InputError, match="items must be 1 different names"):
        SimulatedCrowd([np.eye(2)], [0], items=["a", "b"])
