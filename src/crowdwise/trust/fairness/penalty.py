"""A penalty on the difference between groups of what a network says; added to the loss of a `ConfusionHead`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from crowdwise.parts.heads.batch import Batch

__all__ = ["ParityPenalty"]


@dataclass(frozen=True, eq=False)
class ParityPenalty:
    """strength x (mean f in group 0 - mean f in group 1)^2, for the classes in question.

    A batch has few items of a small group, and the square of a noisy difference is too large on average: it would punish
    decided predictions. The product of the differences in two halves of the batch is right on average, because the items of a
    batch are in random order. With more groups: twice the sum of squared deviations from the mean of the groups, which is the
    same for two.

    Attributes
    ----------
    group : [N]
        Group of every item.
    classes : list of int
        Whose probabilities are compared.
    """

    strength: float
    group: Tensor
    n_groups: int
    classes: tuple[int, ...]

    def __call__(self, log_f: Tensor, log_confusion_alk: Tensor, batch: Batch) -> Tensor:
        """Scalar; zero where a half of the batch has items of fewer than two groups in common with the other."""
        f = log_f[:, list(self.classes)].exp()
        group = self.group.to(batch.rows.device).index_select(0, batch.rows)
        middle = len(f) // 2
        (first, n_first), (second, n_second) = (
            self._means(f[part], group[part]) for part in (slice(middle), slice(middle, None))
        )
        both = (n_first > 0) & (n_second > 0)
        if int(both.sum()) < 2:
            return log_f.new_zeros(())
        first, second = first[both], second[both]
        return 2 * self.strength * ((first - first.mean(0)) * (second - second.mean(0))).sum()

    def _means(self, f: Tensor, group: Tensor) -> tuple[Tensor, Tensor]:
        """Mean probabilities of each group, [G, c], and its items, [G]."""
        total = f.new_zeros(self.n_groups, f.shape[1]).index_add(0, group, f)
        count = torch.bincount(group, minlength=self.n_groups)
        return total / count.clamp(min=1)[:, None].to(f.dtype), count
