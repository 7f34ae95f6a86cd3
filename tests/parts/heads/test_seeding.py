"""Randomness of an epoch comes from (seed, epoch, rank), and the user's stays as it was."""

from __future__ import annotations

import itertools

import torch

from crowdwise.parts.heads.seeding import mixed_seed, seeded

CPU = torch.device("cpu")


def drawn(seed: int, epoch: int, rank: int = 0) -> list[float]:
    with seeded(seed, epoch, rank, CPU):
        drawn: list[float] = torch.rand(4).tolist()
        return drawn


def test_the_same_seed_epoch_and_rank_draw_the_same() -> None:
    assert drawn(3, 5) == drawn(3, 5)


def test_seeds_epochs_and_ranks_draw_numbers_of_their_own() -> None:
    places = list(itertools.product((0, 1), (-1, 0, 1), (0, 1)))
    # A rank may share its numbers with another epoch's first rank, never with a rank of the same epoch.
    for seed, epoch, rank in places:
        assert drawn(seed, epoch, rank) != drawn(1 - seed, epoch, rank)
        assert drawn(seed, epoch, rank) != drawn(seed, epoch + 1, rank)
        assert drawn(seed, epoch, rank) != drawn(seed, epoch, 1 - rank)


def test_the_users_randomness_is_left_untouched() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    drawn(0, 0)
    assert torch.equal(torch.rand(3), expected)


def test_every_epoch_has_a_seed_that_torch_takes() -> None:
    seeds = [mixed_seed(seed, epoch) for seed in (0, 1, 2**62, 2**63) for epoch in (-1, 0, 10_000)]
    assert all(0 <= seed < 2**63 - 2**20 for seed in seeds)
    assert len({mixed_seed(0, epoch) for epoch in range(-1, 1000)}) == 1001
