"""Members of groups, judged by a fit that counts every group as one."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from crowdwise import Annotations, make
from crowdwise.trust.crowd import fusion, members

CODE = np.array([0, -1, 0, -1, -1])


@pytest.fixture(scope="module")
def votes() -> Annotations:
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=200)
    labels = np.where(rng.random((200, 5)) < 0.8, truth[:, None], 1 - truth[:, None])
    labels[:, 2] = labels[:, 0]
    return Annotations.from_matrix(labels, annotators=list("abcde"))


@pytest.mark.parametrize("method", ["dawid-skene", "majority", "consensus"])
def test_labels_are_the_fused_ones_and_members_are_counted_by_them(votes: Annotations, method: str) -> None:
    fused = make(method).fit(fusion.fused(votes, CODE)).result_
    found = members.judged(fused, votes, CODE)
    assert found.votes.annotators.tolist() == list("abcde")
    np.testing.assert_array_equal(found.posterior, fused.posterior)
    # Those who stand alone come first among the fused, and keep what they had.
    np.testing.assert_allclose(found.confusion[[1, 3, 4]], fused.confusion[:3], rtol=1e-9)
    # By hand: expected counts of one member, with half a vote in every cell.
    mine = votes.annotator == 0
    counts = np.full((2, 2), 0.5)
    for n, label in zip(votes.item[mine], votes.label[mine], strict=True):
        counts[:, label] += fused.model_posterior[n]
    np.testing.assert_allclose(found.confusion[0], counts / counts.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(found.confusion[2], found.confusion[0], rtol=1e-9)


def test_a_group_counts_the_votes_of_its_members() -> None:
    votes = Annotations.from_matrix([[0, 0, 1], [1, 1, 1], [0, 1, 0], [None, 0, 0]], annotators=list("xyz"))
    people = pl.DataFrame({"annotator": ["z", "pair"], "n_votes": [4, 5], "agreement": [0.5, 0.1], "accuracy": [0.7, 0.8]})
    found = members.counted(people, votes, np.array([0, 0, -1]), ["pair"], np.array([0, 1, 0, 1]))
    # x: 3 of 3 equal the label; y: 2 of 4.
    assert found.rows() == [("z", 4, 0.5, 0.7), ("pair", 7, 5 / 7, 0.8)]
    assert found.columns == people.columns


def test_groups_that_never_met_leave_no_gap() -> None:
    votes = Annotations.from_matrix([[0, None, 1, 1], [None, 1, 0, 0], [1, None, 1, 0]], annotators=list("wxyz"))
    code, names = fusion.met(votes, np.array([0, 0, 1, 1]), ["apart", "together"])
    assert code.tolist() == [-1, -1, 0, 0]
    assert names == ["together"]
    assert fusion.fused(votes, np.array([0, 0, 1, 1]), ["apart", "together"]).annotators.tolist() == ["w", "x", "together"]
