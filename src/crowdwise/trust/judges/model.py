"""Judges in families: what they answer given the class, errors that a family shares and hard items included.

An item has a class k and is easy or, with probability h, hard; s stands for both. A family f has a hidden answer c on every
item. Member a gives that answer with probability lam_a, and else one of its own:

    P(votes of f | s) = sum_c B_f[s, c] prod_a [lam_a 1(v_a = c) + (1 - lam_a) D_a[s, v_a]]
    P(s | all votes)  proportional to p_s prod_f P(votes of f | s)

On easy items answers come from the class, B_f[k, c] and D_a[k, v]. On hard ones they do with probability t, and are else
guesses, as frequent as the labels of the family and of the judge. So families are independent of each other given the class
and whether it is a hard item: without hard items, judges who find the same items hard would seem to confirm each other.

With lam = 0 the members are independent, with lam = 1 they are one judge; a family of one has lam = 0, and D is its confusion
matrix. A vote in fractions w counts as a label that is not known: 1(v = c) is w_c, D_a[s, v] is D_a[s] @ w.

The fit is EM from a posterior of the labels. B and D get one pseudo-vote per row, spread as the family's and the judge's
own labels are, so that a judge who always says the same carries next to no evidence.

Symbols
-------
S = 2 K               states: the classes of easy items, then those of hard ones
lam_a : [A]           share of the votes that are the family's answer
shared_fsc : [F, S, K] B, the family's answer
own_asl : [A, S, K]   D, a judge's own answer
share_el : [E, K]     an answer of one judge to one item; rows sum to one
p_esc : [E, S, K]     its probability given state and family's answer

Cost: O(E K^2) per round, in time and memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.estimator.estimator import announce
from crowdwise.kernels.numerics import clamp, log_floored, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.crowd.fusion import fidelity
from crowdwise.trust.judges.cells import Cells, log_sum, row_sums

__all__ = ["JudgeModel"]

# Rounds of EM at most, and the mean change of an item's probabilities at which it ends: accuracies of panels then move by less
# than 0.001 more.
_ROUNDS, _STILL = 200, 3e-4
# Where the fit starts: shares of items that are hard, and of answers to them that come from the class.
_HARD, _SEEN = 0.2, 0.5


@dataclass(frozen=True, eq=False)
class JudgeModel:
    """What judges answer given the state of an item.

    Attributes
    ----------
    prior_s : [S]
        Shares of the states: of the classes of easy items, then of hard ones.
    family : [A]
        Code of every judge's family, from 0.
    lam_a, shared_fsc, own_asl
        See the head of the module.
    seen : float
        t, the probability that an answer to a hard item comes from the class.
    """

    prior_s: Floats
    family: Integers
    lam_a: Floats
    shared_fsc: Floats
    own_asl: Floats
    seen: float = 1.0

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.prior_s) // 2

    @property
    def n_judges(self) -> int:
        """Number of judges."""
        return len(self.family)

    @property
    def prior_k(self) -> Floats:
        """Class shares, [K]."""
        return self.by_class(self.prior_s)

    @property
    def hard(self) -> float:
        """h, the share of hard items."""
        return float(self.prior_s[self.n_classes :].sum())

    def by_class(self, values: Floats) -> Floats:
        """Sums over easy and hard along the last axis, [.., S] to [.., K]."""
        return np.asarray(values[..., : self.n_classes] + values[..., self.n_classes :])

    @cached_property
    def confusion(self) -> Floats:
        """P(observed | true) of every judge alone, [A, K, K]."""
        lam = self.lam_a[:, None, None]
        joint = self.prior_s[:, None] * (lam * self.shared_fsc[self.family] + (1 - lam) * self.own_asl)
        joint = self.by_class(joint.transpose(0, 2, 1)).transpose(0, 2, 1)
        return np.asarray(joint / np.maximum(joint.sum(axis=2, keepdims=True), 1e-300))

    def of(self, judges: Integers) -> JudgeModel:
        """The same model of these judges alone."""
        return replace(self, family=self.family[judges], lam_a=self.lam_a[judges], own_asl=self.own_asl[judges])

    # -- inference -----------------------------------------------------------------------------

    def probability(self, cells: Cells) -> Floats:
        """Of every answer given the state and the family's answer, [E, S, K]."""
        lam_e = self.lam_a[cells.annotator][:, None]
        own_es = np.einsum("el,esl->es", cells.share_el, self.own_asl[cells.annotator])
        return np.asarray((lam_e * cells.share_el)[:, None, :] + ((1 - lam_e) * own_es)[:, :, None])

    def messages(self, cells: Cells, p_esc: Floats) -> Floats:
        """log P(answers of a family, its hidden answer c | s) of every cell of item and family, [M, S, K]."""
        return np.asarray(cells.summed(log_floored(p_esc)) + log_floored(self.shared_fsc)[cells.family_m])

    def scores(self, cells: Cells, log_ms: Floats) -> Floats:
        """log P(s, all answers) of every item, [N, S], from log P(answers of a family | s), [M, S]."""
        return np.asarray(row_sums(log_ms, cells.item_m, cells.n_items) + log_floored(self.prior_s))

    def posterior(self, votes: Annotations) -> Floats:
        """P(k | answers) of every item, [N, K]; gold labels stay."""
        return self.by_class(self._expect(Cells.of(answers_of(votes), self.family, votes.n_items), _known(votes))[0])

    def _expect(self, cells: Cells, known: Integers) -> tuple[Floats, Floats]:
        """P(s | answers) of every item, [N, S], and P(c | s, answers) of every cell, [M, S, K]."""
        log_msc = self.messages(cells, self.probability(cells))
        log_ms = log_sum(log_msc)
        score_ns = self.scores(cells, log_ms)
        states = np.exp(score_ns - log_sum(score_ns)[:, None])
        if len(known):
            # Within the class that is known, hard or easy is as the answers say.
            classes = self.by_class(states)
            clamped = classes.copy()
            clamp(clamped, known)
            states *= np.tile(clamped / np.maximum(classes, 1e-300), 2)
        return states, np.exp(log_msc - log_ms[:, :, None])

    # -- the fit -------------------------------------------------------------------------------

    @classmethod
    def fit(
        cls, votes: Annotations, family: Integers, posterior: Floats, *, rounds: int = _ROUNDS
    ) -> tuple[JudgeModel, Floats]:
        """The model by EM from `posterior`, [N, K], and the posterior that it ends with; gold labels stay.

        Parameters
        ----------
        family : [A]
            Code of every judge's family, from 0; those who stand alone have one of their own.
        """
        cells, known = Cells.of(answers_of(votes), family, votes.n_items), _known(votes)
        size = float(len(cells.item)) * 2 * votes.n_classes**2
        announce("the model of judges", operations=20 * rounds * size, memory=8 * 6 * size, advice="select fewer items")
        model = cls._start(votes, cells, family, posterior)
        before, within_msc = model._expect(cells, known)
        for _ in range(rounds):
            model = model._update(cells, before, within_msc)
            after, within_msc = model._expect(cells, known)
            moved, before = np.abs(after - before).sum() / max(len(after), 1), after
            if moved < _STILL:
                break
        return model, model.by_class(before)

    @classmethod
    def _start(cls, votes: Annotations, cells: Cells, family: Integers, posterior: Floats) -> JudgeModel:
        """Independent judges by the posterior, and copying by how often members of a family agree (`fusion.fidelity`)."""
        size = np.bincount(family)
        alone = size[family] < 2
        lam_a = np.nan_to_num(fidelity(votes, np.where(alone, -1, family)), nan=0.0) * ~alone
        prior_k, own_akl = posterior.mean(axis=0), _rows(cells.counts(posterior), cells.labels_al)
        shared_fkc = row_sums(own_akl, family, len(size)) / size[:, None, None]
        prior_s = np.concatenate([(1 - _HARD) * prior_k, _HARD * prior_k])
        labels_fl = cells.family_labels(family)
        shared, own = _with_guesses(shared_fkc, labels_fl, _SEEN), _with_guesses(own_akl, cells.labels_al, _SEEN)
        return cls(prior_s, family, lam_a, shared, own, _SEEN)

    def _update(self, cells: Cells, states: Floats, within_msc: Floats) -> JudgeModel:
        """Shares of states, families and judges that fit best to expected answers, with a pseudo-vote per row."""
        r_msc = states[cells.item_m][:, :, None] * within_msc
        p_esc, lam_e = self.probability(cells), self.lam_a[cells.annotator]
        # How much of each answer was the family's, by state.
        copied_es = np.einsum("esc,ec->es", r_msc[cells.cell] / np.maximum(p_esc, 1e-300), lam_e[:, None] * cells.share_el)
        n_votes = segment_sum(cells.annotator, None, self.n_judges)
        lam_a = segment_sum(cells.annotator, copied_es.sum(axis=1), self.n_judges) / np.maximum(n_votes, 1)
        # The rest was the judge's own, in the fractions of a soft vote.
        own_esl = cells.share_el[:, None, :] * self.own_asl[cells.annotator]
        own_es = np.maximum(states[cells.item] - copied_es, 0.0) / np.maximum(np.einsum("esl->es", own_esl), 1e-300)
        own_esl *= own_es[:, :, None]
        # A family of one has no answer beside the judge's own.
        several = np.bincount(self.family)[cells.family_m] > 1
        shared_fsc = row_sums(r_msc * several[:, None, None], cells.family_m, len(self.shared_fsc))
        own_asl, labels_fl = row_sums(own_esl, cells.annotator, self.n_judges), cells.family_labels(self.family)
        shared, seen_f = self._told(shared_fsc, self.shared_fsc, labels_fl)
        own, seen_a = self._told(own_asl, self.own_asl, cells.labels_al)
        hard = shared_fsc[:, self.n_classes :].sum() + own_asl[:, self.n_classes :].sum()
        seen = min((seen_f + seen_a) / max(hard, 1e-300), 1.0)
        shared_fsc = _with_guesses(_rows(shared, labels_fl), labels_fl, seen)
        own_asl = _with_guesses(_rows(own, cells.labels_al), cells.labels_al, seen)
        return replace(self, prior_s=states.mean(axis=0), lam_a=lam_a, shared_fsc=shared_fsc, own_asl=own_asl, seen=seen)

    def _told(self, counts: Floats, table: Floats, labels: Floats) -> tuple[Floats, float]:
        """Answers that come from the class, [.., K, K], of those of all states, and how many of them are of hard items."""
        k = self.n_classes
        from_class = counts[:, k:] * np.clip(1 - (1 - self.seen) * labels[:, None, :] / np.maximum(table[:, k:], 1e-300), 0, 1)
        return np.asarray(counts[:, :k] + from_class), float(from_class.sum())


def _known(votes: Annotations) -> Integers:
    return np.empty(0, np.int16) if votes.gold is None else votes.gold


def _rows(counts: Floats, labels: Floats) -> Floats:
    """Counts as conditional probabilities, [.., K, K], with one pseudo-vote per row, spread as the labels are, [.., K]."""
    raised = counts + labels[:, None, :]
    return np.asarray(raised / raised.sum(axis=2, keepdims=True))


def _with_guesses(table: Floats, labels: Floats, seen: float) -> Floats:
    """The rows of easy items, and those of hard ones below them, [.., S, K]."""
    return np.concatenate([table, seen * table + (1 - seen) * labels[:, None, :]], axis=1)
