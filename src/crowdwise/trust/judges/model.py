"""Judges in families: what they answer given the class, errors that a family shares and hard items included.

An item has a class k and is easy or, with probability h, hard; s stands for both. A family f has a hidden answer c on every
item. Member a gives that answer with probability lam_a, and else one of its own:

    P(votes of f | s) = sum_c B_f[s, c] prod_a [lam_a 1(v_a = c) + (1 - lam_a) D_a[s, v_a]]
    P(s | all votes)  proportional to p_s prod_f P(votes of f | s)

Members may be groups themselves, as a family's models with several prompts each: the hidden answer of a group is that of a
member of the group above. One step then takes every level to the next. With m_j(s, l) the probability of the votes below j if
j's answer is l (1(v = l) of a judge), and c the answer of the group g that j is a member of:

    p_j(s, c) = lam_j m_j(s, c) + (1 - lam_j) sum_l D_j[s, l] m_j(s, l)
    m_g(s, c) = prod over members j of p_j(s, c)

A family is a member of nothing: lam = 0, D_f is B_f, and p_f(s) is P(votes of f | s).

On easy items answers come from the class, B_f[k, c] and D_a[k, v]. On hard ones they do with probability t, and are else
guesses, as frequent as the labels of the family and of the judge. So families are independent of each other given the class
and whether it is a hard item: without hard items, judges who find the same items hard would seem to confirm each other.

With lam = 0 the members are independent, with lam = 1 they are one judge. Who is alone in a group takes its place: of a judge
alone in a family, lam = 0 and D is its confusion matrix; a model with one prompt answers as that prompt does. A vote in
fractions w counts as a label that is not known: 1(v = c) is w_c, D_a[s, v] is D_a[s] @ w.

The fit is EM from a posterior of the labels. B and D get one pseudo-vote per row, spread as the family's and the judge's
own labels are, so that a judge who always says the same carries next to no evidence.

Symbols
-------
S = 2 K               states: the classes of easy items, then those of hard ones
lam : [J]             of those of one level, the share of the answers that are those of the group above
own : [J, S, K]       D of judges and groups, B of families
share_el : [E, K]     an answer of one judge to one item; rows sum to one
m_msl, p_msc : [M, S, K]  m_j and p_j of every cell of item and group, of judges of every answer

Cost: O(E K^2) per round and level, in time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import answers_of
from crowdwise.estimator.estimator import announce
from crowdwise.kernels.numerics import clamp, log_floored, segment_sum
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.judges.cells import Cells, log_sum, row_sums
from crowdwise.trust.judges.copying import copying, several

__all__ = ["JudgeModel", "Level", "Upward"]

# Rounds of EM at most, and the mean change of an item's probabilities at which it ends: accuracies of panels then move by less
# than 0.001 more.
_ROUNDS, _STILL = 200, 3e-4
# Where the fit starts: shares of items that are hard, and of answers to them that come from the class.
_HARD, _SEEN = 0.2, 0.5


@dataclass(frozen=True, eq=False)
class Level:
    """Judges, or groups, or families: lam and own; see the head of the module."""

    lam: Floats
    own: Floats

    def given_above(self, node: Integers, m_msl: Floats) -> Floats:
        """p of cells of these nodes, [M, S, K]."""
        lam = self.lam[node][:, None, None]
        return np.asarray(lam * m_msl + (1 - lam) * np.einsum("msl,msl->ms", self.own[node], m_msl)[:, :, None])


@dataclass(frozen=True, eq=False)
class Upward:
    """What every level says to the next: m, scaled so that none underflows, and p of judges and groups; log m of groups and
    families; and log P(votes of a family | s), [M, S]."""

    m: list[Floats]
    p: list[Floats]
    log_m: list[Floats]
    log_ms: Floats


@dataclass(frozen=True, eq=False)
class JudgeModel:
    """What judges answer given the state of an item.

    Attributes
    ----------
    prior_s : [S]
        Shares of the states: of the classes of easy items, then of hard ones.
    codes : [L, A]
        Group of every judge at every level above the judges, from 0; groups within groups, families last.
    levels : tuple of L + 1
        The judges, and those of each row of `codes`.
    seen : float
        t, the probability that an answer to a hard item comes from the class.
    """

    prior_s: Floats
    codes: Integers
    levels: tuple[Level, ...]
    seen: float = 1.0

    @classmethod
    def in_families(
        cls, prior_s: Floats, family: Integers, lam_a: Floats, shared_fsc: Floats, own_asl: Floats, seen: float = 1.0
    ) -> JudgeModel:
        """Judges in families without groups between."""
        return cls(prior_s, family[None], (Level(lam_a, own_asl), Level(np.zeros(len(shared_fsc)), shared_fsc)), seen)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.prior_s) // 2

    @property
    def n_judges(self) -> int:
        """Number of judges."""
        return int(self.codes.shape[1])

    @property
    def family(self) -> Integers:
        """Code of every judge's family, [A]."""
        return np.asarray(self.codes[-1])

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
        table = self.levels[-1].own[self.family]
        for level, code in zip(self.levels[-2::-1], (*self.codes[-2::-1], np.arange(self.n_judges)), strict=True):
            lam = level.lam[code][:, None, None]
            table = lam * table + (1 - lam) * level.own[code]
        joint = self.by_class((self.prior_s[:, None] * table).transpose(0, 2, 1)).transpose(0, 2, 1)
        return np.asarray(joint / np.maximum(joint.sum(axis=2, keepdims=True), 1e-300))

    def of(self, judges: Integers) -> JudgeModel:
        """The same model of these judges alone."""
        first = self.levels[0]
        alone = Level(first.lam[judges], first.own[judges])
        return replace(self, codes=self.codes[:, judges], levels=(alone, *self.levels[1:]))

    # -- inference -----------------------------------------------------------------------------

    def upward(self, cells: Cells) -> Upward:
        """What the answers say of every group and family, level by level."""
        shape = (len(cells.item), 2 * self.n_classes, self.n_classes)
        m, p, log_m = [np.broadcast_to(cells.share_el[:, None, :], shape)], list[Floats](), list[Floats]()
        for level, node, above in zip(self.levels[:-1], cells.nodes, cells.above, strict=False):
            if log_m:
                m.append(np.exp(log_m[-1] - _peak(log_m[-1])))
            p.append(level.given_above(node, m[-1]))
            log_p = log_floored(p[-1]) + (_peak(log_m[-1]) if log_m else 0.0)
            log_m.append(row_sums(log_p, above, int(above.max(initial=-1)) + 1))
        log_ms = log_sum(log_m[-1] + log_floored(self.levels[-1].own)[cells.nodes[-1]])
        return Upward(m, p, log_m, log_ms)

    def downward(self, cells: Cells, said: Upward) -> Iterator[Floats]:
        """log P(answers of the family that are not below, own answer l | s) of all cells, [M, S, K]: families first."""
        log_out = log_floored(self.levels[-1].own)[cells.nodes[-1]]
        yield log_out
        for d in reversed(range(len(self.levels) - 1)):
            level, node = self.levels[d], cells.nodes[d]
            log_p = log_floored(said.p[d]) + (_peak(said.log_m[d - 1]) if d else 0.0)
            log_w = (log_out + said.log_m[d])[cells.above[d]] - log_p
            top, lam = _peak(log_w), level.lam[node][:, None, None]
            w_msc = np.exp(log_w - top)
            log_out = log_floored(lam * w_msc + (1 - lam) * level.own[node] * w_msc.sum(axis=2, keepdims=True)) + top
            yield log_out

    def scores(self, cells: Cells, log_ms: Floats) -> Floats:
        """log P(s, all answers) of every item, [N, S], from log P(answers of a family | s), [M, S]."""
        return np.asarray(row_sums(log_ms, cells.items[-1], cells.n_items) + log_floored(self.prior_s))

    def posterior(self, votes: Annotations) -> Floats:
        """P(k | answers) of every item, [N, K]; gold labels stay."""
        return self.by_class(self._expect(Cells.of(answers_of(votes), self.codes, votes.n_items), votes.known_codes)[0])

    def _expect(self, cells: Cells, known: Integers) -> tuple[Floats, Upward]:
        """P(s | answers) of every item, [N, S], and what it comes from."""
        said = self.upward(cells)
        score_ns = self.scores(cells, said.log_ms)
        states = np.exp(score_ns - log_sum(score_ns)[:, None])
        if len(known):
            # Within the class that is known, hard or easy is as the answers say.
            classes = self.by_class(states)
            clamped = classes.copy()
            clamp(clamped, known)
            states *= np.tile(clamped / np.maximum(classes, 1e-300), 2)
        return states, said

    # -- the fit -------------------------------------------------------------------------------

    @classmethod
    def fit(cls, votes: Annotations, codes: Integers, posterior: Floats, *, rounds: int = _ROUNDS) -> tuple[JudgeModel, Floats]:
        """The model by EM from `posterior`, [N, K], and the posterior that it ends with; gold labels stay.

        Parameters
        ----------
        codes : [A] or [L, A]
            Code of every judge's family, from 0; those who stand alone have one of their own. With groups within families, a
            row per level, the smallest groups first, families last.
        """
        codes = np.atleast_2d(codes)
        cells, known = Cells.of(answers_of(votes), codes, votes.n_items), votes.known_codes
        size = float(len(cells.item)) * 2 * votes.n_classes**2 * len(codes)
        announce("the model of judges", operations=20 * rounds * size, memory=8 * 6 * size, advice="select fewer items")
        model = cls._start(votes, cells, posterior)
        before, said = model._expect(cells, known)
        for _ in range(rounds):
            model = model._update(cells, before, said)
            after, said = model._expect(cells, known)
            moved, before = np.abs(after - before).sum() / max(len(after), 1), after
            if moved < _STILL:
                break
        return model, model.by_class(before)

    @classmethod
    def _start(cls, votes: Annotations, cells: Cells, posterior: Floats) -> JudgeModel:
        """Independent judges by the posterior, and copying by how often members of a group agree (`copying`)."""
        prior_k, own_akl = posterior.mean(axis=0), _rows(cells.counts(posterior), cells.labels[0])
        tables = [own_akl]
        for code in cells.codes:
            size = np.bincount(code)
            tables.append(row_sums(own_akl, code, len(size)) / np.maximum(size, 1)[:, None, None])
        prior_s = np.concatenate([(1 - _HARD) * prior_k, _HARD * prior_k])
        owns = [_with_guesses(table, labels, _SEEN) for table, labels in zip(tables, cells.labels, strict=True)]
        levels = tuple(Level(*parts) for parts in zip(copying(votes, cells.codes), owns, strict=True))
        return cls(prior_s, cells.codes, levels, _SEEN)

    def _update(self, cells: Cells, states: Floats, said: Upward) -> JudgeModel:
        """Shares of states, families and judges that fit best to expected answers, with a pseudo-vote per row."""
        log_r = said.log_m[-1] + log_floored(self.levels[-1].own)[cells.nodes[-1]] - said.log_ms[:, :, None]
        # Of every cell, the probability of the state and of the group's answer.
        r_msc = states[cells.items[-1]][:, :, None] * np.exp(log_r)
        lams, counts = [self.levels[-1].lam], [row_sums(r_msc, cells.nodes[-1], len(self.levels[-1].lam))]
        for d in reversed(range(len(self.levels) - 1)):
            level, node, item = self.levels[d], cells.nodes[d], cells.items[d]
            # How much of each answer was that of the group above; the rest was its own, in the fractions of a soft vote.
            copied = r_msc[cells.above[d]] / np.maximum(said.p[d], 1e-300) * level.lam[node][:, None, None] * said.m[d]
            copied_ms, own = np.einsum("msc->ms", copied), said.m[d] * level.own[node]
            rest = np.maximum(states[item] - copied_ms, 0.0) / np.maximum(np.einsum("msl->ms", own), 1e-300)
            own *= rest[:, :, None]
            r_msc = copied + own
            size = len(level.lam)
            lams.append(segment_sum(node, copied_ms.sum(axis=1), size) / np.maximum(segment_sum(node, None, size), 1))
            counts.append(row_sums(own, node, size))
        return self._counted(cells, states.mean(axis=0), lams[::-1], counts[::-1])

    def _counted(self, cells: Cells, prior_s: Floats, lams: list[Floats], counts: list[Floats]) -> JudgeModel:
        """The model of these shares and of expected answers of every level, [J, S, K]."""
        for has_several, count in zip(several(cells.codes), counts[1:], strict=True):
            # A group of one has no answer beside its member's own.
            count[~has_several] = 0.0
        from_class = [self._from_class(*parts) for parts in zip(counts, self.levels, cells.labels, strict=True)]
        hard = sum(float(count[:, self.n_classes :].sum()) for count in counts)
        seen = min(sum(part for _, part in from_class) / max(hard, 1e-300), 1.0)
        levels = [
            Level(lam, _with_guesses(_rows(table, labels), labels, seen))
            for lam, (table, _), labels in zip(lams, from_class, cells.labels, strict=True)
        ]
        return replace(self, prior_s=prior_s, levels=tuple(levels), seen=seen)

    def _from_class(self, counts: Floats, level: Level, labels: Floats) -> tuple[Floats, float]:
        """Answers that come from the class, [.., K, K], of those of all states, and how many of them are of hard items."""
        k = self.n_classes
        guessed = (1 - self.seen) * labels[:, None, :] / np.maximum(level.own[:, k:], 1e-300)
        from_class = counts[:, k:] * np.clip(1 - guessed, 0, 1)
        return np.asarray(counts[:, :k] + from_class), float(from_class.sum())


def _peak(log_msc: Floats) -> Floats:
    """The largest entry along the last axis, which is short, [M, S, 1]."""
    return np.asarray(reduce(np.maximum, np.moveaxis(log_msc, -1, 0)))[:, :, None]


def _rows(counts: Floats, labels: Floats) -> Floats:
    """Counts as conditional probabilities, [.., K, K], with one pseudo-vote per row, spread as the labels are, [.., K]."""
    raised = counts + labels[:, None, :]
    return np.asarray(raised / raised.sum(axis=2, keepdims=True))


def _with_guesses(table: Floats, labels: Floats, seen: float) -> Floats:
    """The rows of easy items, and those of hard ones below them, [.., S, K]."""
    return np.concatenate([table, seen * table + (1 - seen) * labels[:, None, :]], axis=1)
