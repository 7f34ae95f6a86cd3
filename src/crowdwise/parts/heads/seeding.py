"""Randomness of networks, drawn from (seed, epoch) and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["mixed_seed", "seeded"]


@contextmanager
def seeded(seed: int, epoch: int, rank: int, device: torch.device) -> Iterator[None]:
    """Draw torch's global randomness (dropout, initialisation) from here, and leave the user's untouched."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        own = mixed_seed(seed, epoch) + rank
        if device.type == "cpu":
            # torch.manual_seed also looks for every other kind of device, which takes a millisecond.
            torch.default_generator.manual_seed(own)
        else:
            torch.manual_seed(own)
        yield


def mixed_seed(seed: int, epoch: int) -> int:
    """A seed of its own for every epoch (-1: the initialisation)."""
    return (seed * 1_000_003 + epoch + 1) % (2**63 - 2**20)
