"""Labels between fits: what `predict_proba` of the last fit says of all votes that an item has now."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.data.simulate import simulate
from crowdwise.methods.labels.consensus import Consensus
from crowdwise.serve.fitting import Fit
from crowdwise.serve.live import Live

CLASSES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def votes() -> Annotations:
    return simulate(n_items=60, n_annotators=8, n_classes=3, classes=CLASSES, votes_per_item=4, random_state=0).votes


def fitted(votes: Annotations) -> Fit:
    result = Consensus().fit(votes).result_
    return Fit(7, result, None, (), 0.0)


def live_of(votes: Annotations) -> Live:
    live = Live(votes.classes.tolist(), "consensus")
    live.add([(str(name), None) for name in votes.items])
    live.adopt(fitted(votes))
    return live


def rows_of(votes: Annotations) -> list[tuple[str, str, str]]:
    sides = (votes.items, votes.item), (votes.annotators, votes.annotator), (votes.classes, votes.label)
    return list(zip(*(names[codes].tolist() for names, codes in sides), strict=True))


def test_the_same_votes_leave_what_the_fit_said(votes: Annotations) -> None:
    live = live_of(votes)
    before, labels = live.posterior.copy(), live.label.copy()
    names = [str(name) for name in votes.items[:10]]
    live.infer(names, [row for row in rows_of(votes) if row[0] in names])
    np.testing.assert_allclose(live.posterior, before, atol=1e-12)
    assert (live.label == labels).all()


def test_a_vote_moves_its_item_alone_and_deleting_it_moves_it_back(votes: Annotations) -> None:
    live = live_of(votes)
    before, name = live.posterior.copy(), str(votes.items[0])
    own = [row for row in rows_of(votes) if row[0] == name]
    loser = live.classes[int(before[0].argmin())]
    live.infer([name], [*own, (name, "somebody new", loser)])
    assert live.posterior[0, live.classes.index(loser)] > before[0].min()
    np.testing.assert_array_equal(live.posterior[1:], before[1:])
    assert live.n_votes[0] == len(own) + 1
    live.infer([name], own)
    np.testing.assert_allclose(live.posterior, before, atol=1e-12)


def test_an_item_without_votes_has_no_label_and_a_known_one_keeps_its_own(votes: Annotations) -> None:
    live = live_of(votes)
    name, other = str(votes.items[0]), str(votes.items[1])
    live.infer([name], [])
    live.add([(other, "c"), ("new", None)])
    frame = {row["item"]: row for row in live.frame().iter_rows(named=True)}
    assert frame[name]["label"] is None
    assert frame[name]["note"] == "no votes"
    assert (frame[other]["label"], frame[other]["confidence"], frame[other]["note"]) == ("c", 1.0, "known")
    assert (frame["new"]["label"], frame["new"]["n_votes"]) == (None, 0)
    live.infer([other], [(other, "x", "a")])
    assert live.label[1] == 2
    live.adopt(fitted(votes))
    assert live.label[1] == 2


def test_the_table_is_that_of_the_result(votes: Annotations) -> None:
    live = live_of(votes)
    assert live.fit is not None
    ours, theirs = live.frame(), live.fit.result.items_frame()
    assert ours.columns == theirs.columns
    assert ours["label"].to_list() == theirs["label"].to_list()
    np.testing.assert_allclose(ours["confidence"].to_numpy(), theirs["confidence"].to_numpy(), atol=1e-12)


def test_before_the_first_fit_nothing_is_said() -> None:
    live = Live(["a", "b"], "consensus")
    live.add([("i", None)])
    live.infer(["i"], [("i", "x", "a")])
    assert live.frame().row(0, named=True)["note"] == "fitting"
