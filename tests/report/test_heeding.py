"""What is done about annotators who share errors, or who answer at random."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.datasets import demo
from crowdwise.estimator.costs import Costs
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import make
from crowdwise.report.heeding import Grouped, Heeded, without_spammers
from crowdwise.trust.crowd.dependence import Dependence, Reading


def of_labels(*labels: str) -> Result:
    """A fit to two votes alike on each of the items i0, i1, ...: these are its labels."""
    items = [f"i{n}" for n in range(len(labels))]
    votes = Annotations.from_arrays(items * 2, ["ann"] * len(labels) + ["bob"] * len(labels), labels * 2, classes=["x", "y"])
    return make("majority").fit(votes).result_


def test_most_of_a_crowd_is_never_dropped_as_spammers() -> None:
    said: list[str] = []
    result = make("majority").fit(demo().votes).result_
    names = result.votes.annotators.tolist()
    assert without_spammers(result, names[:7], Dependence(), said.append) == (result, [])
    assert "no spammers are dropped: 7 of 12 annotators look like some" in said.pop()
    kept, dropped = without_spammers(result, names[:1], Dependence(), said.append)
    assert dropped == names[:1]
    assert kept.votes.n_annotators == 11
    assert said == [f"dropped 1 spammer: {names[0]}"]
    assert without_spammers(result, [], Dependence(), said.append)[1] == []
    assert len(said) == 1


def with_two_spammers() -> Result:
    """Six who are right in nine of ten answers, and two who answer at random, as columns 6 and 7."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    columns = [np.where(rng.random(400) < 0.9, truth, 1 - truth) for _ in range(6)]
    columns += list(rng.integers(2, size=(2, 400)))
    return make("dawid-skene").fit(Annotations.from_matrix(np.column_stack(columns))).result_


def test_spammers_are_dropped_and_listed() -> None:
    said: list[str] = []
    left = Heeded(with_two_spammers(), Dependence()).without_spammers(0.05, said.append)
    assert left.changed
    assert sorted(left.dropped) == [6, 7]
    assert left.document() == {"dropped_annotators": list(left.dropped)}
    assert left.result.votes.annotators.tolist() == [0, 1, 2, 3, 4, 5]
    assert said[0].startswith("dropped 2 spammers: ")


def test_nobody_is_dropped_while_a_reading_of_the_votes_is_open() -> None:
    said: list[str] = []
    result, alone = with_two_spammers(), Dependence((Reading((), np.full(8, -1)),))
    left = Heeded(result, alone).without_spammers(0.05, said.append)
    assert not left.changed
    assert left.result is result
    assert left.document() == {}
    assert "no spammers are dropped: where annotators share errors" in said[0]
    assert said[0].endswith("; aggregate --drop-colluders or --fuse-groups first")
    # With two readings open, it does not help to count one of them as fused.
    two = Heeded(result, Dependence(alone.readings * 2), changed=True).without_spammers(0.05, said.append)
    assert two.result is result
    assert "choose between the readings first (--trusted NAME or --gold FILE)" in said[1]


def test_labels_by_reading_stand_beside_those_that_are_written() -> None:
    first, second = of_labels("x", "y", "y"), of_labels("y", "y", "x")
    heeded = Heeded(first, Dependence(), {"dependence": []}, [first, second])
    assert heeded.frame(first.items_frame()).to_dict(as_series=False) == {
        "item": ["i0", "i1", "i2"],
        "label": ["x", "y", "y"],
        "reading_1": ["x", "y", "y"],
        "reading_2": ["y", "y", "x"],
    }
    assert heeded.document() == {"dependence": [], "labels_by_reading": [["x", "y", "y"], ["y", "y", "x"]]}
    # Whatever is read, a label costs more than none.
    costs = Costs.of(None, ["x", "y"], abstain=0.0)
    assert heeded.document(costs)["labels_by_reading"] == [[None] * 3] * 2
    assert "labels_by_reading" not in Heeded(first, Dependence(), readings=[first]).document()


def test_a_group_has_the_votes_of_its_members() -> None:
    result = of_labels("x", "y")
    fused = Annotations.from_arrays(["i0", "i1"], ["both", "both"], ["x", "y"])
    grouped = Grouped(result.votes, np.array([0, 0]), fused)
    assert grouped.facts == {"n_votes": 4, "n_annotators": 2}
    items = make("majority").fit(fused).result_.items_frame()
    assert items["n_votes"].to_list() == [1, 1]
    assert grouped.items(items)["n_votes"].to_list() == [2, 2]
