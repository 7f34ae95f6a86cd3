"""Annotators and items with a confusion of their own each: minimax conditional entropy.

P(observed l | true k) of annotator a on item n is proportional to exp(sigma_a[k, l] + tau_n[k, l]): the
distribution of greatest conditional entropy that keeps the confusion counts of every annotator
and of every item. Penalties 1/2 lambda_a |sigma - centre|^2 + 1/2 lambda_n |tau|^2 let counts be kept only about.

The M-step is a damped Newton step, all annotators at once and then all items at once. For a row with votes C, expected ones
s = sum_n q_nk p_na[k] and m = sum C, the Hessian of the log-likelihood is at most B = diag(s) - s s' / m, and

    step = (B + lambda I)^-1 (C - s - lambda (sigma_a[k] - centre[k])),     in closed form: B is diagonal but for one product
    sigma_a[k] += log(1 + r) / r step,     r = largest entry of the step less its smallest

never lowers the bound: a variable of range r has |third central moment| <= r variance, so along the step the curvature grows
at most by exp(r t), and log(1 + r) / r is where the lower bound that follows has its top. The first twenty rounds take the
shorter steps of Böhning's bound, slope / (m / 2 + lambda), which never lower it either: while labels are still on their way,
long steps can commit them to a lower optimum (on two of seventeen real sets, with which in view the twenty were chosen). Rows
are then centred: adding a constant to a row changes no probability and only costs penalty. Many votes run in compiled loops
(`crowdwise.kernels.maxent_loops`), few in numpy.

Symbols
-------
sigma_alk : [A, L, K]   confusion of annotators
tau_nlk : [N, L, K]     confusion of items
centre_lk : [L, K]      where sigma is without votes; its columns sum to zero
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.storable import storable
from crowdwise.kernels.numerics import COMPILED_FROM, in_ranges, softmax_into
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.model import WithoutMatrices, counts_of, taken, weight_of, weighted

__all__ = ["MaxEntConfusion"]


# Numbers held at once: votes x labels x classes are walked in pieces of this size.
_PIECE = 4_000_000
# Products of exponentials stay far from the ends of a double where scores differ by less than this.
_WIDEST = 200.0
# Rounds with Böhning's steps before the first Newton step.
_GENTLE_ROUNDS = 20
# Rows with less mass of votes than this have none.
_NOTHING = 1e-16


@storable
@dataclass(frozen=True, eq=False)
class MaxEntConfusion(WithoutMatrices):
    """Penalised confusions of annotators and of items; `earlier_alk` are earlier answers, on items without confusion."""

    earlier_alk: Floats
    centre_lk: Floats
    sigma_alk: Floats
    tau_nlk: Floats
    population_lk: Floats
    annotator_penalty: float
    item_penalty: float
    steps: int
    rounds: int = 0

    @classmethod
    def start(
        cls, earlier_alk: Floats, n_items: int, honesty: float, annotator_penalty: float, item_penalty: float, steps: int
    ) -> MaxEntConfusion:
        """Before any data: the right answer exp(honesty) times as likely as each wrong one."""
        n_annotators, n_classes, _ = earlier_alk.shape
        centre = honesty * (np.eye(n_classes) - 1 / n_classes)
        sigma = np.repeat(centre[None], n_annotators, axis=0)
        tau = np.zeros((n_items, n_classes, n_classes))
        return cls(earlier_alk, centre, sigma, tau, centre, annotator_penalty, item_penalty, steps)

    def update(self, votes: Annotations, posterior: Floats) -> MaxEntConfusion:
        """Steps up the penalised expected log-likelihood: annotators, then items, `steps` times."""
        model = self
        for _ in range(self.steps):
            model = replace(model, sigma_alk=model._climb_annotators(votes, posterior), rounds=model.rounds + 1)
            model = replace(model, tau_nlk=model._climb_items(votes, posterior))
        weight = votes.weight_per_annotator
        share = weight / max(weight.sum(), 1e-300)
        population = np.einsum("alk,a->lk", model.sigma_alk, share) if weight.any() else self.centre_lk
        return replace(model, population_lk=population)

    def infer(self, votes: Annotations, log_prior: Floats, known: Integers, posterior: Floats) -> tuple[float, float]:
        """E-step."""
        if self._compiled(votes):
            from crowdwise.kernels.maxent_loops import infer_maxent

            scores = np.array(np.broadcast_to(log_prior, posterior.shape))
            arrays = (*_columns(votes), _factors(self.sigma_alk), self.tau_nlk, scores)
            in_ranges(votes.item_ptr, lambda start, stop: infer_maxent(start, stop, *arrays))
            return softmax_into(scores, known, posterior)
        rows = self.log_lik(votes, np.arange(votes.n_votes))
        return softmax_into(_add_up(votes.item, rows, votes.n_items) + log_prior, known, posterior)

    def log_lik(self, votes: Annotations, index: Integers) -> Floats:
        """log P(vote | class), [len(index), K]."""
        rows = np.empty((len(index), votes.n_classes))
        for piece in _pieces(len(index), votes.n_classes):
            at = index[piece]
            log_p = self._scores(votes, at)
            voted = log_p[np.arange(len(at)), votes.label[at]]
            rows[piece] = voted - _log_total(log_p)
        return weighted(votes, index, rows)

    def penalty(self) -> float:
        """The quadratic penalties, and minus the log-likelihood of earlier answers."""
        squares = 0.5 * self.annotator_penalty * ((self.sigma_alk - self.centre_lk) ** 2).sum()
        squares += 0.5 * self.item_penalty * float(np.vdot(self.tau_nlk, self.tau_nlk))
        log_p = self.sigma_alk - _log_total(self.sigma_alk)[:, None, :]
        return float(squares - (self.earlier_alk * log_p).sum())

    def aligned(self, index: Integers, item_index: Integers) -> MaxEntConfusion:
        """Reorder; an annotator never seen has the mean confusion by votes, a new item none."""
        return replace(
            self,
            earlier_alk=taken(self.earlier_alk, index, 0.0),
            sigma_alk=taken(self.sigma_alk, index, self.population_lk),
            tau_nlk=taken(self.tau_nlk, item_index, 0.0),
        )

    def _scores(self, votes: Annotations, at: Integers) -> Floats:
        """sigma + tau of these votes, [len(at), L, K]."""
        return np.asarray(self.sigma_alk[votes.annotator[at]] + self.tau_nlk[votes.item[at]])

    @property
    def _gentle(self) -> bool:
        return self.rounds <= _GENTLE_ROUNDS

    def _compiled(self, votes: Annotations) -> bool:
        """Whether compiled loops pay, and products of exponentials are safe."""
        if votes.n_votes * votes.n_classes < COMPILED_FROM:
            return False
        return 2 * sum(float(np.abs(table).max(initial=0.0)) for table in (self.sigma_alk, self.tau_nlk)) < _WIDEST

    def _climb_annotators(self, votes: Annotations, posterior: Floats) -> Floats:
        p_alk = np.exp(self.sigma_alk - _log_total(self.sigma_alk)[:, None, :])
        voted, expected = np.array(self.earlier_alk), self.earlier_alk.sum(axis=1, keepdims=True) * p_alk
        if self._compiled(votes):
            for own_voted, own_expected in self._expected_in_ranges(votes, posterior):
                voted += own_voted
                expected += own_expected
        else:
            voted += counts_of(votes, posterior)
            for at, chance in self._chances(votes, posterior):
                expected += _add_up(votes.annotator[at], chance, votes.n_annotators)
        return _climbed(self.sigma_alk, self.sigma_alk - self.centre_lk, voted, expected, self.annotator_penalty, self._gentle)

    def _climb_items(self, votes: Annotations, posterior: Floats) -> Floats:
        if self._compiled(votes):
            from crowdwise.kernels.maxent_loops import climb_items

            climbed = np.zeros(self.tau_nlk.shape)
            arrays = (*_columns(votes), _factors(self.sigma_alk), self.tau_nlk, np.ascontiguousarray(posterior))
            rule = self.item_penalty, self._gentle
            in_ranges(votes.item_ptr, lambda start, stop: climb_items(start, stop, *arrays, *rule, climbed))
            return climbed
        expected = np.zeros(self.tau_nlk.shape)
        for at, chance in self._chances(votes, posterior):
            expected += _add_up(votes.item[at], chance, votes.n_items)
        voted = votes.by_class(votes.weight)[:, :, None] * posterior[:, None, :]
        return _climbed(self.tau_nlk, self.tau_nlk, voted, expected, self.item_penalty, self._gentle)

    def _chances(self, votes: Annotations, posterior: Floats) -> Iterator[tuple[Integers, Floats]]:
        """For pieces of votes: their positions, and q_nk p_l, weighted, [E, L, K]."""
        for piece in _pieces(votes.n_votes, votes.n_classes):
            at = np.arange(votes.n_votes)[piece]
            mass = posterior[votes.item[at]]
            if votes.weight is not None:
                mass = mass * votes.weight[at, None]
            scores = self._scores(votes, at)
            scores -= _log_total(scores)[:, None, :]
            np.exp(scores, out=scores)
            scores *= mass[:, None, :]
            yield at, scores

    def _expected_in_ranges(self, votes: Annotations, posterior: Floats) -> list[tuple[Floats, Floats]]:
        """Votes and expected votes of every annotator, [A, L, K] each, by ranges of items."""
        from crowdwise.kernels.maxent_loops import add_expected

        arrays = (*_columns(votes), _factors(self.sigma_alk), self.tau_nlk, np.ascontiguousarray(posterior))

        def add(start: int, stop: int) -> tuple[Floats, Floats]:
            voted, expected = np.zeros(self.sigma_alk.shape), np.zeros(self.sigma_alk.shape)
            add_expected(start, stop, *arrays, voted, expected)
            return voted, expected

        return in_ranges(votes.item_ptr, add)


def _climbed(table: Floats, pull: Floats, voted: Floats, expected: Floats, penalty: float, gentle: bool) -> Floats:
    """The step of the module's docstring on every row of a table [..., L, K]; rows without votes lose their pull."""
    slope = voted - expected - penalty * pull
    if gentle:
        after = table + slope / (0.5 * expected.sum(axis=1, keepdims=True) + penalty)
        return np.asarray(after - after.mean(axis=1, keepdims=True))
    curve = expected + penalty
    step = slope / curve
    share = expected / curve
    room = penalty * share.sum(axis=1, keepdims=True)
    step += share * (expected * step).sum(axis=1, keepdims=True) / np.where(room > 0, room, 1.0)
    width = np.ptp(step, axis=1, keepdims=True)
    length = np.where(width > 0, np.log1p(width) / np.where(width > 0, width, 1.0), 1.0)
    moved = np.where(expected.sum(axis=1, keepdims=True) > _NOTHING, length * step, -pull)
    return np.asarray(table + moved - (table + moved).mean(axis=1, keepdims=True))


def _columns(votes: Annotations) -> tuple[Integers, Integers, Integers, Floats]:
    return votes.item_ptr, votes.annotator, votes.label, weight_of(votes)


def _factors(sigma_alk: Floats) -> Floats:
    """exp(sigma - its largest entry over the observed label), [A, L, K]."""
    return np.asarray(np.exp(sigma_alk - sigma_alk.max(axis=1, keepdims=True, initial=-np.inf)))


def _pieces(n_votes: int, n_classes: int) -> list[slice]:
    size = max(_PIECE // n_classes**2, 1)
    return [slice(start, start + size) for start in range(0, n_votes, size)]


def _log_total(scores: Floats) -> Floats:
    """log sum over the observed label of exp(scores), [..., K]."""
    top = scores.max(axis=-2, keepdims=True)
    return np.asarray(top[..., 0, :] + np.log(np.exp(scores - top).sum(axis=-2)))


def _add_up(index: Integers, values: Floats, size: int) -> Floats:
    """Sum of rows of any shape over equal entries of `index`."""
    from scipy.sparse import csr_array

    n, width = len(index), int(np.prod(values.shape[1:]))
    member = csr_array((np.ones(n), index, np.arange(n + 1)), shape=(n, size))
    return np.asarray(member.T @ values.reshape(n, width)).reshape(size, *values.shape[1:])
