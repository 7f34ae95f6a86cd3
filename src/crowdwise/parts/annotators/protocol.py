"""What an annotator model is, and the two reductions that most of them share.

An annotator model is a frozen value that says how votes come from labels. `update` and `aligned`
return new values, so restarts, warm starts and incremental fits are plain code.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels import numerics as kernels
from crowdwise.kernels.numerics import segment_sum
from crowdwise.kernels.types import Floats, Integers

__all__ = ["AnnotatorModel", "WithoutPosterior", "counts_of", "infer_by_table", "infer_by_votes", "voted_mass"]

Self = TypeVar("Self", bound="AnnotatorModel")

_EACH_VOTE: Integers = np.empty(0, np.int32)


class AnnotatorModel(Protocol):
    """The parts of a method that know annotators.

    Confusion matrices inside a model are stored [A, L, K] (annotator, observed, true), the layout
    that the kernels read; `confusion()` turns them to the public [A, K, L].
    """

    def update(self: Self, votes: Annotations, posterior: Floats) -> Self:
        """Fit to the votes under a posterior of the labels, [N, K]."""
        ...

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """Overwrite `posterior`; return the summed log-normalisers and the sum of the changes of items."""
        ...

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of the votes at these positions for every class, [len(index), K]."""
        ...

    def penalty(self) -> float:
        """What the model subtracts from the bound: -log prior, or a KL divergence."""
        ...

    def aligned(self: Self, index: Integers, item_index: Integers) -> Self:
        """Reorder annotators to `index` and items to `item_index`; -1 stands for one never seen, who gets the population's."""
        ...

    def confusion(self) -> Floats | None:
        """Point estimate of P(observed | true), [A, K, L]; None where the model has none."""
        ...

    def concentration(self) -> Floats | None:
        """Dirichlet parameters behind `confusion()`, [A, K, L], where the model is Bayesian; else None."""
        ...


class WithoutPosterior:
    """Base of models without a Dirichlet posterior: point estimates, weights, mixtures."""

    def concentration(self) -> None:
        """No Dirichlet posterior."""
        return None


def weight_of(votes: Annotations) -> Floats:
    """Weights of the votes, or the kernels' marker for none."""
    return kernels.NO_WEIGHT if votes.weight is None else votes.weight


def infer_by_table(
    votes: Annotations, table_alk: Floats, log_prior: Floats, known: Integers, posterior: Floats
) -> tuple[float, float]:
    """Inference for models with a full table of vote probabilities, [A, L, K].

    The last axis may hold other latent states than classes (subtypes, say); `posterior` then has as many columns.
    """
    table = np.ascontiguousarray(table_alk).reshape(-1, table_alk.shape[2])
    return kernels.infer_table(votes.item_ptr, votes.row, weight_of(votes), table, log_prior, known, posterior)


def infer_by_votes(
    votes: Annotations,
    base: Floats,
    bonus: Floats,
    log_prior: Floats,
    known: Integers,
    posterior: Floats,
    entry: Integers = _EACH_VOTE,
) -> tuple[float, float]:
    """Inference for models in which a vote speaks only for the class it names: O(E), no factor K.

    `base` and `bonus` hold one number per vote, or per what `entry` points every vote at (its annotator, its row).
    """
    return kernels.infer_voted(votes.item_ptr, votes.label, entry, weight_of(votes), base, bonus, log_prior, known, posterior)


def voted_log_lik(votes: Annotations, index: Integers, base_e: Floats, bonus_e: Floats) -> Floats:
    """Rows of evidence for the votes at `index` of a model that speaks only for the class voted."""
    rows = np.repeat(base_e[:, None], votes.n_classes, axis=1)
    rows[np.arange(len(index)), votes.label[index]] += bonus_e
    return rows if votes.weight is None else rows * votes.weight[index, None]


def table_log_lik(votes: Annotations, index: Integers, log_table_alk: Floats) -> Floats:
    """Rows of evidence for the votes at `index` of a model with a table."""
    rows = log_table_alk[votes.annotator[index], votes.label[index]]
    return rows if votes.weight is None else rows * votes.weight[index, None]


def counts_of(votes: Annotations, posterior: Floats) -> Floats:
    """Expected confusion counts under a posterior of the classes (or of other latent states), [A, L, K]."""
    n_annotators, n_classes = votes.n_annotators, votes.n_classes
    counts = kernels.confusion_counts(votes.item_ptr, votes.row, weight_of(votes), posterior, n_annotators * n_classes)
    return counts.reshape(n_annotators, n_classes, posterior.shape[1])


def voted_mass(votes: Annotations, posterior: Floats, entry: Integers, size: int) -> Floats:
    """Weighted sum of the posterior of the class voted, over the votes of each annotator or row, [size]."""
    return kernels.voted_sums(votes.item_ptr, votes.label, entry, weight_of(votes), posterior, size)


def sum_by_annotator(votes: Annotations, values_e: Floats) -> Floats:
    """Weighted sum of one number per vote over each annotator's votes, [A]."""
    values = values_e if votes.weight is None else values_e * votes.weight
    return segment_sum(votes.annotator, values, votes.n_annotators)
