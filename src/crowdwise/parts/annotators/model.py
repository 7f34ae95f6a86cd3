"""What an annotator model is, and the one that most methods have: a confusion matrix per annotator.

An annotator model is a frozen value that says how votes come from labels. `update` and `aligned` return new values: restarts,
warm starts and incremental fits are plain code. Confusion matrices are points (EM) or have Dirichlet rows (variational Bayes).

Symbols
-------
pi_alk : [A, L, K]      P(observed l | true k); sums to one over l
prior_alk : [A, L, K]   pseudo-counts (point) or Dirichlet parameters (Bayesian)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.crowd import Crowd
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import (
    NO_WEIGHT,
    confusion_counts,
    dirichlet_kl,
    expected_log,
    infer_table,
    infer_voted,
    log_floored,
    log_sigmoid,
    segment_sum,
    voted_sums,
)
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["AnnotatorModel", "ByTable", "Confusion", "DirichletConfusion", "FittedToConfusion", "FittedToCounts"]
__all__ += ["SetByMethod", "WithoutMatrices", "WithoutPosterior", "counts_of", "evidence_of_odds", "infer_by_table"]
__all__ += ["infer_by_votes", "normalised", "predictive", "row_smoothing", "taken", "taken_unless_shared"]
__all__ += ["voted_mass", "weighted"]


Self = TypeVar("Self", bound="AnnotatorModel")
CountedT = TypeVar("CountedT", bound="FittedToCounts")
SetT = TypeVar("SetT", bound="SetByMethod")

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


class WithoutMatrices(WithoutPosterior):
    """Base of models that say nothing of single classes, or another thing on every item."""

    def confusion(self) -> None:
        """None: the result reports a plug-in estimate."""
        return None


class SetByMethod(WithoutMatrices):
    """Base of weights that a method sets: there is no likelihood, and nothing that votes would change."""

    def update(self: SetT, votes: Annotations, posterior: Floats) -> SetT:
        """Set by the method, not by this part."""
        return self

    def penalty(self) -> float:
        """No prior."""
        return 0.0


class ByTable:
    """Base of models whose votes have the likelihood of a table: a row per annotator and label, [A, L, K]."""

    def log_table(self) -> Floats:
        """Evidence of every vote: its log-likelihood, or the expectation of that."""
        raise NotImplementedError

    def vote_table(self) -> Floats:
        """Likelihood of every vote as inference takes it: of votes that are distributions, it weighs the labels."""
        return np.asarray(np.exp(self.log_table()))

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        return infer_by_table(votes, self.vote_table(), log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """Evidence of each vote, [len(index), K]."""
        return table_log_lik(votes, index, self.log_table())


class FittedToCounts:
    """Base of models that know their votes by sums over them."""

    def update(self: CountedT, votes: Annotations, posterior: Floats) -> CountedT:
        """Fit to the votes under a posterior of the labels, [N, K]."""
        return self.conditioned(self.statistics(votes, posterior))

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Sums over votes under a posterior of the labels."""
        raise NotImplementedError

    def conditioned(self: CountedT, statistics: tuple[Floats, ...]) -> CountedT:
        """Fit to the sums over all votes."""
        raise NotImplementedError


class FittedToConfusion(FittedToCounts, ByTable):
    """Base of models by a table whose sums are confusion counts."""

    def statistics(self, votes: Annotations, posterior: Floats) -> tuple[Floats, ...]:
        """Expected confusion counts, [A, L, K]."""
        return (counts_of(votes, posterior, self.vote_table() if votes.soft else None),)

    def expected(self, statistics: tuple[Floats, ...]) -> float:
        """Expected log-likelihood of votes with these counts."""
        (counts,) = statistics
        return float((counts * self._log_table).sum())

    @cached_property
    def _log_table(self) -> Floats:
        """Log of the table; taken once, because it costs more than a round over few items."""
        return log_floored(self.vote_table())


def weight_of(votes: Annotations) -> Floats:
    """Weights of the votes, or the kernels' marker for none."""
    return NO_WEIGHT if votes.weight is None else votes.weight


def weighted(votes: Annotations, index: Integers, rows: Floats) -> Floats:
    """Rows about the votes at `index`, times their weights, [len(index), K]."""
    return rows if votes.weight is None else rows * votes.weight[index, None]


def taken(values: Array, index: Integers, unseen: Any) -> Array:
    """The rows at `index`, with `unseen` where that is -1."""
    last = np.empty((1, *values.shape[1:]), values.dtype)
    last[:] = unseen
    return np.concatenate([values, last])[index]


def taken_unless_shared(prior: Floats, index: Integers, unseen: Any = 0.0) -> Floats:
    """The same of what every annotator has of their own, or all have together: then it stays, [1, ...]."""
    return prior if len(prior) == 1 else taken(prior, index, unseen)


def infer_by_table(
    votes: Annotations, table_alk: Floats, log_prior: Floats, known: Integers, posterior: Floats
) -> tuple[float, float]:
    """Inference for models with a full table of vote probabilities, [A, L, K].

    The last axis may hold other latent states than classes (subtypes, say); `posterior` then has as many columns.
    """
    table = np.ascontiguousarray(table_alk).reshape(-1, table_alk.shape[2])
    if votes.soft:
        from crowdwise.parts.annotators.soft import infer_soft

        return infer_soft(votes, table, log_prior, known, posterior)
    return infer_table(votes.item_ptr, votes.row, weight_of(votes), table, log_prior, known, posterior, votes.times)


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
    return infer_voted(votes.item_ptr, votes.label, entry, weight_of(votes), base, bonus, log_prior, known, posterior)


def voted_rows(votes: Annotations, index: Integers, base_e: Floats, bonus_e: Floats) -> Floats:
    """Rows of numbers for the votes at `index`, one for every class and a bonus for the class voted, [len(index), K]."""
    rows = np.repeat(base_e[:, None], votes.n_classes, axis=1)
    rows[np.arange(len(index)), votes.label[index]] += bonus_e
    return rows


def voted_log_lik(votes: Annotations, index: Integers, base_e: Floats, bonus_e: Floats) -> Floats:
    """Rows of evidence for the votes at `index` of a model that speaks only for the class voted."""
    return weighted(votes, index, voted_rows(votes, index, base_e, bonus_e))


def evidence_of_odds(log_odds: Floats, n_classes: int) -> tuple[Floats, Floats]:
    """Of votes with these log-odds of being right: their evidence for every class, and what the class named gets beyond it."""
    others = np.log(max(n_classes - 1, 1))
    return log_sigmoid(-log_odds) - others, log_odds + others


def table_log_lik(votes: Annotations, index: Integers, log_table_alk: Floats) -> Floats:
    """Rows of evidence for the votes at `index` of a model with a table."""
    return weighted(votes, index, log_table_alk[votes.annotator[index], votes.label[index]])


def counts_of(votes: Annotations, posterior: Floats, table_alk: Floats | None = None) -> Floats:
    """Expected confusion counts under a posterior of the classes (or of other latent states), [A, L, K].

    With the probabilities of labels so far, votes that are distributions count as the labels that they probably are.
    """
    if votes.soft and table_alk is not None:
        from crowdwise.parts.annotators.soft import soft_counts

        return soft_counts(votes, table_alk, posterior)
    n_annotators, n_classes = votes.n_annotators, votes.n_classes
    counts = confusion_counts(votes.item_ptr, votes.row, weight_of(votes), posterior, n_annotators * n_classes)
    return counts.reshape(n_annotators, n_classes, posterior.shape[1])


def voted_mass(votes: Annotations, posterior: Floats, entry: Integers, size: int) -> Floats:
    """Weighted sum of the posterior of the class voted, over the votes of each annotator or row, [size]."""
    return voted_sums(votes.item_ptr, votes.label, entry, weight_of(votes), posterior, size)


def sum_by_annotator(votes: Annotations, values_e: Floats) -> Floats:
    """Weighted sum of one number per vote over each annotator's votes, [A]."""
    values = values_e if votes.weight is None else values_e * votes.weight
    return segment_sum(votes.annotator, values, votes.n_annotators)


def row_smoothing(crowd: Crowd, smoothing: float) -> Floats:
    """Pseudo-votes for every confusion row, ``smoothing`` per class, [A, L, K].

    They follow the annotator's own label shares, in which the right label of a row weighs K + 1 times
    as much. Own shares, because pseudo-votes spread evenly would make an annotator who always answers
    the same look informative: rows of frequent classes would be smoothed less. The right label, because
    on thin data a class could otherwise take in items that nobody voted it for.
    """
    n_classes = crowd.n_classes
    used = crowd.answers + max(smoothing, 1e-12)
    return np.asarray(smoothing * n_classes * normalised(used[:, :, None] * (1 + n_classes * np.eye(n_classes))))


@storable
@dataclass(frozen=True, eq=False)
class Confusion(FittedToConfusion, WithoutPosterior):
    """Confusion matrices as points: pi_akl proportional to C_akl + pseudo-count (a MAP step)."""

    prior_alk: Floats
    pi_alk: Floats
    pooled_lk: Floats

    @classmethod
    def start(cls, prior_alk: Floats, n_annotators: int) -> Confusion:
        """Before any data: uniform rows."""
        n_classes = prior_alk.shape[1]
        uniform = np.full((n_annotators, n_classes, n_classes), 1 / n_classes)
        return cls(prior_alk, uniform, uniform[0] if n_annotators else np.full((n_classes, n_classes), 1 / n_classes))

    def vote_table(self) -> Floats:
        """pi, [A, L, K]."""
        return self.pi_alk

    def conditioned(self, statistics: tuple[Floats, ...]) -> Confusion:
        """M-step from the counts of all votes."""
        (counts,) = statistics
        # One pseudo-vote keeps classes that nobody was ever seen on from an empty row.
        pooled = normalised(counts.sum(axis=0) + 1 / counts.shape[1])
        return replace(self, pi_alk=normalised(counts + self.prior_alk), pooled_lk=pooled)

    def log_table(self) -> Floats:
        """log pi, [A, L, K]."""
        return log_floored(self.pi_alk)

    def penalty(self) -> float:
        """Minus the log-density of the Dirichlet(1 + pseudo-count) rows, up to its constant."""
        return float(-(self.prior_alk * self._log_table).sum())

    def aligned(self, index: Integers, item_index: Integers) -> Confusion:
        """Reorder; an annotator never seen gets the pooled matrix."""
        pi_alk = taken(self.pi_alk, index, self.pooled_lk)
        return replace(self, pi_alk=pi_alk, prior_alk=taken_unless_shared(self.prior_alk, index))

    def confusion(self) -> Floats:
        """[A, K, L]."""
        return self.pi_alk.transpose(0, 2, 1)


@storable
@dataclass(frozen=True, eq=False)
class DirichletConfusion(FittedToConfusion):
    """Confusion matrices with Dirichlet rows: beta = beta0 + expected counts."""

    prior_alk: Floats
    beta_alk: Floats
    #: Inference takes E log pi; see `predictive`.
    expects_logs: ClassVar[bool] = True

    @classmethod
    def start(cls, prior_alk: Floats, n_annotators: int) -> DirichletConfusion:
        """Before any data: the prior, [1 or A, L, K] (or [..., L, states] where there are more states than classes)."""
        return cls(prior_alk, np.array(np.broadcast_to(prior_alk, (n_annotators, *prior_alk.shape[1:]))))

    def log_table(self) -> Floats:
        """E log pi, [A, L, K]."""
        return expected_log(self.beta_alk, 1)

    def conditioned(self, statistics: tuple[Floats, ...]) -> DirichletConfusion:
        """Condition the rows on the counts of all votes."""
        return replace(self, beta_alk=statistics[0] + self.prior_alk)

    def penalty(self) -> float:
        """KL of every row from its prior."""
        return dirichlet_kl(self.beta_alk, self.prior_alk, 1)

    def aligned(self, index: Integers, item_index: Integers) -> DirichletConfusion:
        """Reorder; an annotator never seen has the prior (shared, or the mean of the individual ones)."""
        population = self.prior_alk.mean(axis=0)
        prior = taken_unless_shared(self.prior_alk, index, population)
        return replace(self, prior_alk=prior, beta_alk=taken(self.beta_alk, index, population))

    def confusion(self) -> Floats:
        """Posterior mean, [A, K, L]."""
        return normalised(self.beta_alk).transpose(0, 2, 1)

    def concentration(self) -> Floats:
        """Dirichlet parameters, [A, K, L]."""
        return self.beta_alk.transpose(0, 2, 1)


def predictive(model: AnnotatorModel) -> AnnotatorModel:
    """The model to predict votes with: the mean matrices, where inference takes expected logarithms.

    E log pi belongs to the bound of votes that were learned from. Of new votes it says too little, the more so the
    less is known of an annotator.
    """
    mean = model.confusion()
    if mean is None or not getattr(model, "expects_logs", False):
        return model
    pi_alk = np.ascontiguousarray(mean.transpose(0, 2, 1))
    return Confusion(np.zeros((1, *pi_alk.shape[1:])), pi_alk, pi_alk.mean(axis=0))


def normalised(counts_alk: Floats) -> Floats:
    """Divide by the sum over observed labels; rows without any count become uniform."""
    total = counts_alk.sum(axis=-2, keepdims=True)
    empty = total == 0
    if not empty.any():
        return np.asarray(counts_alk / total)
    return np.where(empty, 1 / counts_alk.shape[-2], counts_alk / np.where(empty, 1.0, total))
