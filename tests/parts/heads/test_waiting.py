"""Items that wait: they teach the likelihood first, and the functions later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.gradient.helpers import CPU, blobs, even, votes_on

from crowdwise.data.annotations import Annotations
from crowdwise.parts.heads.batch import VoteList
from crowdwise.parts.heads.process import ProcessHead
from crowdwise.parts.priors.covariance import covariance
from crowdwise.parts.priors.robust_max import RobustMax, Softmax
from crowdwise.parts.priors.sparse_gp import SparseGP

PRIOR_LK = np.where(np.eye(3, dtype=bool), 2.0, 0.5)


def parts(n_items: int, learning: tuple[int, int] | None = (2, 4), link: Any = None, **more: Any) -> tuple[Any, ...]:
    features, truth = blobs(0, n_items, 3, gap=3.0)
    votes = votes_on(truth, even(4, 3, 0.75), share=0.8)
    if "gold" in more:
        votes = votes.with_gold({n: int(truth[n]) for n in more.pop("gold")})
    rows = torch.tensor(features)
    made = SparseGP(covariance("rbf", 4, lengthscale=2.0).double(), link or RobustMax(), rows[:6].clone(), 3)
    start = np.full((n_items, 3), 0.1)
    np.add.at(start, (votes.item, votes.label), 1.0)
    posterior = torch.tensor(start / start.sum(axis=1, keepdims=True))
    torch.manual_seed(0)
    settings = {"rate": 0.1, "warmup": 1, "frozen": 0} | more
    return made, ProcessHead(votes, PRIOR_LK, posterior, made, learning=learning, **settings), rows, votes


def states(
    head: ProcessHead, made: SparseGP, rows: torch.Tensor, votes: Annotations, n_epochs: int
) -> list[list[torch.Tensor]]:
    """Process, kernel and matrices after every epoch of four batches."""
    optimiser = torch.optim.Adam(made.parameters(), 0.01)
    listed, found = VoteList(votes, torch.float64, CPU), []
    for epoch in range(n_epochs):
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(epoch))
        for batch in listed.batches(order, len(rows) // 4, epoch):
            optimiser.zero_grad()
            head.loss(made.train()(rows[batch.rows]), batch).backward()
            optimiser.step()
            head.natural_step()
        state = {**made.state_dict(), "counts": head.count_rk}
        found.append([state[name].clone() for name in sorted(state)])
    return found


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("link", ["robust-max", "softmax"])
@pytest.mark.parametrize("memoised", [True, False])
def test_items_that_wait_teach_from_the_epoch_on_in_which_they_join(link: str, memoised: bool) -> None:
    """With other features of theirs everything is the same to the bit before that epoch, and nothing after it."""
    found = []
    for moved in (0.0, 1.0):
        made, head, rows, votes = parts(100, link=RobustMax() if link == "robust-max" else Softmax(3), memoised=memoised)
        assert int(head.waits.sum()) == 20
        rows[head.waits] += moved
        found.append(states(head, made, rows, votes, 6))
    assert [same(one, other) for one, other in zip(*found, strict=True)] == [True] * 4 + [False] * 2


def test_items_that_teach_do_so_from_the_start() -> None:
    found = []
    for moved in (0.0, 1.0):
        made, head, rows, votes = parts(100)
        rows[~head.waits] += moved
        found.append(states(head, made, rows, votes, 1))
    assert not same(found[0][0], found[1][0])


@pytest.mark.parametrize(("n_items", "n_waiting"), [(40, 0), (49, 0), (50, 10), (100, 20)])
def test_of_few_items_all_teach_and_all_are_asked(n_items: int, n_waiting: int) -> None:
    _, head, _, votes = parts(n_items)
    assert (votes.votes_per_item > 0).all()
    assert int(head.waits.sum()) == n_waiting
    assert len(head.asked) == (n_waiting or n_items)


def test_where_the_likelihood_is_given_nobody_waits() -> None:
    _, head, _, _ = parts(100, None)
    assert not head.waits.any()
    assert len(head.asked) == 0


def test_items_of_known_class_never_wait_and_those_without_votes_are_not_asked() -> None:
    gold = range(0, 90, 2)
    _, head, _, _ = parts(150, gold=gold)
    assert int(head.waits.sum()) == (150 - 45) // 5
    assert not head.waits[list(gold)].any()
    assert set(head.asked.tolist()) == set(head.waits.nonzero()[:, 0].tolist())
    votes = Annotations.from_arrays(range(60), ["a"] * 60, [0, 1, 2] * 20, items=range(200), classes=range(3))
    made = SparseGP(covariance("rbf", 4, lengthscale=2.0).double(), RobustMax(), torch.zeros(1, 4).double(), 3)
    start = torch.full((200, 3), 1 / 3, dtype=torch.float64)
    head = ProcessHead(votes, PRIOR_LK, start, made, rate=0.1, warmup=1, learning=(2, 4), frozen=0)
    assert len(head.asked) == 12
    assert int(head.asked.max()) < 60


def test_what_is_asked_when_and_how() -> None:
    """In the epochs from `learns` to `joins`: functions without what was learned, at the items that wait."""
    made, head, rows, _ = parts(100)
    asked = []

    def log_prob(at: torch.Tensor) -> torch.Tensor:
        asked.append((at.tolist(), float(made.likelihood.eps)))
        return made.eval()(rows[at])

    values = []
    for epoch in range(6):
        head.begin_epoch(epoch, log_prob)
        values.append(float(made.likelihood.eps))
    assert [at for at, _ in asked] == [head.asked.tolist()] * 2
    assert all(eps < 1e-9 for _, eps in asked)
    # Functions that know nothing say a third of every class, whatever the share.
    assert values[:2] == [1e-3, 1e-3]
    assert values[3:] == [values[3]] * 3


def test_what_votes_tell_by_hand() -> None:
    """Bayes with the mean matrices, class shares even; during the warm-up the labels of the start."""
    _, head, _, votes = parts(100)
    np.testing.assert_array_equal(head._told(0), head.start_nk[head.asked])
    beta = (head.prior_rk + head.count_rk).view(-1, 3, 3).transpose(1, 2).numpy()
    mean = beta / beta.sum(axis=2, keepdims=True)
    told = np.ones((100, 3))
    for n, a, label in zip(votes.item, votes.annotator, votes.label, strict=True):
        told[n] *= mean[a, :, label]
    told = told[head.asked.numpy()]
    np.testing.assert_allclose(head._told(1), told / told.sum(axis=1, keepdims=True), rtol=1e-6)
