"""Judges in families: what they answer given the class, errors that a family shares included.

A family f has a hidden answer c on every item, drawn given the class k of the item. Member a gives that answer with
probability lam_a, and else one of its own, given the class too:

    P(votes of f | k) = sum_c B_f[k, c] prod_a [lam_a 1(v_a = c) + (1 - lam_a) D_a[k, v_a]]
    P(k | all votes)  proportional to p_k prod_f P(votes of f | k)

With lam = 0 the members are independent given the class, with lam = 1 they are one judge; a family of one has lam = 0, and D
is its confusion matrix. A vote in fractions s counts as a label that is not known: 1(v = c) is s_c, D_a[k, v] is D_a[k] @ s.

The fit is EM from a posterior of the labels. `B` and `D` get one pseudo-vote per row, spread as the family's and the judge's
own labels are, so that a judge who always says the same carries next to no evidence.

Symbols
-------
lam_a : [A]            share of the votes that are the family's answer
shared_fkc : [F, K, K] B, the family's answer given the class
own_akl : [A, K, K]    D, a judge's own answer given the class
share_el : [E, K]      an answer of one judge to one item; rows sum to one
p_ekc : [E, K, K]      its probability given class and family's answer

Cost: O(E K^2) per round, time and memory; see `JudgeModel.fit` for the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.meetings import Answers, answers_of
from crowdwise.kernels.numerics import clamp, log_floored, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.crowd.fusion import fidelity

__all__ = ["JudgeModel"]

_ROUNDS, _STILL = 500, 1e-5


@dataclass(frozen=True, eq=False)
class JudgeModel:
    """What judges answer given the class: class shares [K], family of every judge [A], and the parts of the module's head."""

    prior_k: Floats
    family: Integers
    lam_a: Floats
    shared_fkc: Floats
    own_akl: Floats

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.prior_k)

    @property
    def n_judges(self) -> int:
        """Number of judges."""
        return len(self.family)

    @cached_property
    def confusion(self) -> Floats:
        """P(observed | true) of every judge alone, [A, K, K]."""
        lam = self.lam_a[:, None, None]
        return np.asarray(lam * self.shared_fkc[self.family] + (1 - lam) * self.own_akl)

    def of(self, judges: Integers) -> JudgeModel:
        """The same model of these judges alone."""
        return replace(self, family=self.family[judges], lam_a=self.lam_a[judges], own_akl=self.own_akl[judges])

    @classmethod
    def fit(cls, votes: Annotations, family: Integers, posterior: Floats, *, rounds: int = _ROUNDS) -> tuple[JudgeModel, Floats]:
        """The model by EM from `posterior`, [N, K], and the posterior that it ends with; gold labels stay.

        Parameters
        ----------
        family : [A]
            Code of every judge's family, from 0; those who stand alone have one of their own.
        """
        cells, known = Cells.of(answers_of(votes), family), votes.gold if votes.gold is not None else np.empty(0, np.int16)
        model, before = cls._start(votes, cells, family, posterior), posterior
        for _ in range(rounds):
            after, within_mkc = model._expect(cells, votes.n_items, known)
            moved = np.abs(after - before).max(initial=0.0)
            model, before = model._update(cells, after, within_mkc), after
            if moved < _STILL:
                break
        return model, before

    @classmethod
    def _start(cls, votes: Annotations, cells: Cells, family: Integers, posterior: Floats) -> JudgeModel:
        """Independent judges by the posterior, and copying by how often members of a family agree (`fusion.fidelity`)."""
        n_families, size = int(family.max()) + 1, np.bincount(family)
        alone = size[family] < 2
        lam_a = np.nan_to_num(fidelity(votes, np.where(alone, -1, family)), nan=0.0) * ~alone
        model = cls(posterior.mean(axis=0), family, lam_a, np.zeros((n_families, 0, 0)), np.zeros((len(family), 0, 0)))
        own_akl = model._rows(cells.counts(posterior), cells.labels_al)
        shared = np.zeros((n_families, *own_akl.shape[1:]))
        np.add.at(shared, family, own_akl)
        return replace(model, shared_fkc=shared / size[:, None, None], own_akl=own_akl)

    def probability(self, cells: Cells) -> Floats:
        """Of every answer given the class and the family's answer, [E, K, K]."""
        lam_e, who = self.lam_a[cells.annotator][:, None], cells.annotator
        own_ek = np.einsum("el,ekl->ek", cells.share_el, self.own_akl[who])
        return np.asarray((lam_e * cells.share_el)[:, None, :] + ((1 - lam_e) * own_ek)[:, :, None])

    def messages(self, cells: Cells, p_ekc: Floats) -> Floats:
        """log P(answers of a family, its hidden answer c | k) of every cell of item and family, [M, K, K]."""
        total = cells.summed(log_floored(p_ekc))
        return np.asarray(total + log_floored(self.shared_fkc)[cells.family_m])

    def scores(self, cells: Cells, log_mk: Floats, n_items: int) -> Floats:
        """log P(k, all answers) of every item, [N, K], from log P(answers of a family | k), [M, K]."""
        columns = [segment_sum(cells.item_m, log_mk[:, k], n_items) for k in range(self.n_classes)]
        return np.asarray(np.column_stack(columns) + log_floored(self.prior_k))

    def posterior(self, votes: Annotations) -> Floats:
        """P(k | answers) of every item, [N, K]; gold labels stay."""
        cells = Cells.of(answers_of(votes), self.family)
        known = votes.gold if votes.gold is not None else np.empty(0, np.int16)
        return self._expect(cells, votes.n_items, known)[0]

    def _expect(self, cells: Cells, n_items: int, known: Integers) -> tuple[Floats, Floats]:
        """The posterior, [N, K], and P(c | k, answers) of every cell, [M, K, K]."""
        log_mkc = self.messages(cells, self.probability(cells))
        log_mk = log_sum(log_mkc)
        posterior = softmax(self.scores(cells, log_mk, n_items))
        if len(known):
            clamp(posterior, known)
        return posterior, np.exp(log_mkc - log_mk[:, :, None])

    def _update(self, cells: Cells, posterior: Floats, within_mkc: Floats) -> JudgeModel:
        """Class shares, families and judges that fit best to expected answers, with a pseudo-vote per row."""
        r_mkc = posterior[cells.item_m][:, :, None] * within_mkc
        shared = self._rows(_summed(r_mkc, cells.family_m, len(self.shared_fkc)), cells.family_labels(self.family))
        p_ekc, lam_e = self.probability(cells), self.lam_a[cells.annotator]
        # How much of each answer was the family's, by class and family's answer.
        copied_ekc = r_mkc[cells.cell] * ((lam_e[:, None] * cells.share_el)[:, None, :] / np.maximum(p_ekc, 1e-300))
        copied_ek = copied_ekc.sum(axis=2)
        n_votes = segment_sum(cells.annotator, None, self.n_judges)
        lam_a = segment_sum(cells.annotator, copied_ek.sum(axis=1), self.n_judges) / np.maximum(n_votes, 1)
        # The rest was the judge's own, in the fractions of a soft vote.
        own_ekl = cells.share_el[:, None, :] * self.own_akl[cells.annotator]
        own_ekl /= np.maximum(own_ekl.sum(axis=2, keepdims=True), 1e-300)
        own_ekl *= np.maximum(posterior[cells.item] - copied_ek, 0.0)[:, :, None]
        own = self._rows(_summed(own_ekl, cells.annotator, self.n_judges), cells.labels_al)
        return replace(self, prior_k=posterior.mean(axis=0), lam_a=lam_a, shared_fkc=shared, own_akl=own)

    def _rows(self, counts: Floats, labels: Floats) -> Floats:
        """Counts as conditional probabilities, [.., K, K], with one pseudo-vote per row, spread as the labels are, [.., K]."""
        raised = counts + labels[:, None, :]
        return np.asarray(raised / raised.sum(axis=2, keepdims=True))


@dataclass(frozen=True, eq=False)
class Cells:
    """Answers of judges, [E], and the cells of item and family that they are in, [M]."""

    item: Integers
    annotator: Integers
    share_el: Floats
    cell: Integers
    item_m: Integers
    family_m: Integers
    n_annotators: int

    @classmethod
    def of(cls, answers: Answers, family: Integers) -> Cells:
        """The cells of these answers."""
        n_families = int(family.max(initial=0)) + 1
        key, cell = np.unique(answers.item * n_families + family[answers.annotator], return_inverse=True)
        parts = answers.item, answers.annotator, answers.share_cl, cell
        return cls(*parts, key // n_families, key % n_families, answers.n_annotators)

    @cached_property
    def labels_al(self) -> Floats:
        """Shares of every judge's labels, [A, K]; all judges' where one has no votes."""
        return self._shares(np.arange(self.n_annotators), self.n_annotators)

    def family_labels(self, family: Integers) -> Floats:
        """The same of every family, [F, K]."""
        return self._shares(family, int(family.max()) + 1)

    def _shares(self, group: Integers, size: int) -> Floats:
        total = _summed(self.share_el, group[self.annotator], size)
        everybody = self.share_el.mean(axis=0) if len(self.share_el) else np.full(total.shape[1], 1 / total.shape[1])
        raised = total + everybody
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def counts(self, posterior: Floats) -> Floats:
        """Expected answers of every judge by class and label, [A, K, K]."""
        return _summed(posterior[self.item][:, :, None] * self.share_el[:, None, :], self.annotator, self.n_annotators)

    def summed(self, values: Floats) -> Floats:
        """Sums over the answers of every cell, [M, ..]."""
        return _summed(values, self.cell, len(self.item_m))


def _summed(values: Floats, index: Integers, size: int) -> Floats:
    """Sums of rows with equal `index`, [size, ..]."""
    flat = values.reshape(len(values), -1)
    columns = [segment_sum(index, np.ascontiguousarray(column), size) for column in flat.T]
    return np.asarray(np.stack(columns, axis=1).reshape(size, *values.shape[1:]))


def log_sum(values: Floats) -> Floats:
    """log of the sum of exponentials along the last axis."""
    top = values.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(values - top).sum(axis=-1)) + top[..., 0])


def softmax(scores: Floats) -> Floats:
    """Rows of probabilities."""
    return np.asarray(np.exp(scores - log_sum(scores)[..., None]))
