from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from tests.methods.classify.crowds import clouds, vote
from threadpoolctl import threadpool_info, threadpool_limits

from crowdwise.engines.gradient.callbacks import EpochRecord
from crowdwise.engines.gradient.threads import threads_for
from crowdwise.methods.classify.ccem import CCEM


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    with threadpool_limits(2):
        torch.set_num_threads(2)
        yield
    torch.set_num_threads(before)


def in_use() -> set[int]:
    return {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}


def test_small_steps_have_one_thread_and_others_are_left_as_they_are() -> None:
    before = in_use()
    with threads_for(1000):
        assert in_use() == {1}
    assert in_use() == before
    with threads_for(10**9):
        assert in_use() == before
    with pytest.raises(ValueError, match="inside"), threads_for(1):
        raise ValueError("inside")
    assert in_use() == before


class Counting:
    def __init__(self) -> None:
        self.seen: set[int] = set()

    def on_epoch_end(self, record: EpochRecord) -> None:
        self.seen.add(torch.get_num_threads())


@pytest.mark.parametrize(("network", "expected"), [("linear", {1}), (torch.nn.Linear(4, 3), {2})])
def test_networks_of_the_user_keep_their_threads(network: object, expected: set[int]) -> None:
    features, truth = clouds(0, 60, 3)
    votes = vote(0, truth, np.full((4, 3, 3), 0.1) + 0.7 * np.eye(3))
    told = Counting()
    CCEM(network=network, epochs=1, callbacks=[told]).fit(features, votes)
    assert told.seen == expected
