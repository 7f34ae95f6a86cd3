"""Data-parallel training: every process evaluates its share of a batch, all see the whole loss.

Logits are gathered before the head, so losses that couple the items of a batch (volumes, mutual
information) are exactly those of one process. Head gradients are then the same everywhere; network
gradients are the sum of the processes' parts. Without `torch.distributed` everything here is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import Tensor, nn

from crowdwise.parts.heads.batch import Batch

__all__ = ["Group"]


class Group:
    """The processes that train together: the default group of `torch.distributed`, or this one alone."""

    def __init__(self) -> None:
        active = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if active else 0
        self.size = dist.get_world_size() if active else 1

    def share(self, rows: Tensor) -> Tensor:
        """This process's rows of a batch."""
        return rows[self.rank :: self.size] if self.size > 1 else rows

    def gather(self, own: Tensor, total: int) -> Tensor:
        """All rows of a batch in their order, [total, ...]; gradients flow to this process's own."""
        if self.size == 1:
            return own
        each = -(-total // self.size)
        padding = own.new_zeros((each - len(own), *own.shape[1:]))
        padded = torch.cat([own, padding])
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded.detach())
        parts[self.rank] = padded
        # Row i of process r is row i * size + r of the batch.
        return torch.stack(parts, 1).reshape(each * self.size, *own.shape[1:])[:total]

    def part(self, batch: Batch) -> Batch:
        """This process's rows of a batch with their votes, for statistics that are then added up; features are left out."""
        if self.size == 1:
            return batch
        votes = torch.nonzero(batch.position % self.size == self.rank).squeeze(1)
        return replace(
            batch,
            rows=self.share(batch.rows),
            # Row i of this process is row i * size + rank of the batch.
            position=torch.div(batch.position.index_select(0, votes), self.size, rounding_mode="floor"),
            entry=batch.entry.index_select(0, votes),
            vote=batch.vote.index_select(0, votes),
            weight=batch.weight.index_select(0, votes),
            item_weight=self.share(batch.item_weight),
            features=None,
        )

    def sum(self, own: Tensor) -> Tensor:
        """What every process counted, added up: the same bits everywhere, and no gradient."""
        if self.size > 1:
            own = own.detach().contiguous()
            dist.all_reduce(own)
        return own

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Add up the processes' gradients, in one message."""
        if self.size == 1:
            return
        own = [p for p in parameters if p.requires_grad]
        for p in own:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        grads = [p.grad for p in own if p.grad is not None]
        if not grads:
            return
        flat = torch.cat([g.reshape(-1) for g in grads])
        dist.all_reduce(flat)
        for g, part in zip(grads, torch.split(flat, [g.numel() for g in grads]), strict=True):
            g.copy_(part.reshape(g.shape))

    def mean(self, own: Tensor) -> Tensor:
        """The mean of what every process computed from parameters and draws of its own; gradients are this one's part."""
        if self.size == 1:
            return own
        value = own.detach().clone()
        dist.all_reduce(value)
        return value / self.size + (own - own.detach()) / self.size

    def same_number(self, number: int) -> int:
        """The first process's number: seeds that nobody chose, epochs done."""
        if self.size == 1:
            return number
        agreed = torch.tensor([number], dtype=torch.int64, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        dist.broadcast(agreed, 0)
        return int(agreed)

    def same_start(self, module: nn.Module) -> None:
        """Give every process the first one's parameters and buffers."""
        if self.size > 1:
            for tensor in module.state_dict().values():
                dist.broadcast(tensor, 0)
