"""How an annotator turns a preference into an answer: by reliability (CrowdBT) or by attention and a side (noisy BT).

An annotator is one or two probabilities with Beta priors. The expected number of times that each event did and did not happen
gives both the EM update and, by Fisher's identity, the gradient of the log-likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, log_expit, logit

from crowdwise.methods.rank.games import Floats, sums

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = ["Ballots", "Expectation", "Looking", "People", "Reliability"]


@dataclass(frozen=True, eq=False)
class Ballots:
    """Decisive votes: ties are split into two halves of opposite direction.

    Attributes
    ----------
    first, second, annotator, pair : [B]
        Codes of the items, of who voted, and of the pair.
    chose_first : [B]
        Whether the first was preferred.
    weight : [B]
        Weight of the vote.
    n_annotators : int
        Number of annotators, A.
    """

    first: Integers
    second: Integers
    annotator: Integers
    pair: Integers
    chose_first: Flags
    weight: Floats
    n_annotators: int

    def per_annotator(self, values: Floats) -> Floats:
        """Sums over the votes of each annotator, [A]."""
        return sums(self.annotator, self.weight * values, self.n_annotators)


@dataclass(frozen=True, eq=False)
class Expectation:
    """What a vote says under the present scores and annotators.

    Attributes
    ----------
    log_lik : [B]
        Log-probability of the vote.
    for_first, for_second : [B]
        Probability that behind the vote stood a comparison that the first (second) item won.
    happened, failed : [P, A]
        Expected number of times that each of the P events of an annotator did and did not happen.
    """

    log_lik: Floats
    for_first: Floats
    for_second: Floats
    happened: Floats
    failed: Floats


@dataclass(frozen=True, eq=False)
class People:
    """Annotators as probabilities, [P, A], with the parameters of their Beta priors, [P, 2]."""

    probability: Floats
    prior: Floats

    def expect(self, ballots: Ballots, lead: Floats) -> Expectation:
        """Evaluate every vote, given the lead of its first item, [B]."""
        raise NotImplementedError

    def response(self, ballots: Ballots, lead: Floats) -> tuple[Floats, Floats]:
        """Probability of choosing the first, [B], and its derivative in the lead."""
        intercept, gain = self.line()[:, ballots.annotator]
        chance = expit(lead)
        return intercept + gain * chance, gain * chance * expit(-lead)

    def line(self) -> Floats:
        """Intercept and gain of every annotator, [2, A]: P(first) = intercept + gain s(lead)."""
        raise NotImplementedError

    def update(self, expected: Expectation) -> Self:
        """The modes of the Beta posteriors."""
        right, wrong = self.prior[:, :1] - 1, self.prior[:, 1:] - 1
        total = expected.happened + expected.failed + right + wrong
        mode = (expected.happened + right) / np.where(total > 0, total, 1.0)
        return replace(self, probability=np.where(total > 0, mode, self.probability))

    def log_prior(self) -> float:
        """Log-density of the Beta priors, up to a constant."""
        right, wrong = self.prior[:, :1] - 1, self.prior[:, 1:] - 1
        logits = self.logits()
        return float(np.sum(right * log_expit(logits) + wrong * log_expit(-logits)))

    def logits(self) -> Floats:
        """Log-odds of the probabilities, [P, A]."""
        found: Floats = logit(self.inside())
        return found

    def inside(self) -> Floats:
        """The probabilities, [P, A], off 0 and 1 by 1e-12: no vote is impossible, so products need no logarithms."""
        found: Floats = np.clip(self.probability, 1e-12, 1 - 1e-12)
        return found

    def with_logits(self, logits: Floats) -> Self:
        """The same annotators with other probabilities."""
        return replace(self, probability=expit(logits.reshape(self.probability.shape)))

    def gradient(self, expected: Expectation) -> Floats:
        """Derivative of log-likelihood and log-prior in the log-odds, [P, A]."""
        happened, failed = expected.happened + self.prior[:, :1] - 1, expected.failed + self.prior[:, 1:] - 1
        found: Floats = happened - self.probability * (happened + failed)
        return found


@dataclass(frozen=True, eq=False)
class Reliability(People):
    """P(first) = w s(lead) + (1 - w) s(-lead), s the logistic function: an answer is turned round with probability 1 - w."""

    def expect(self, ballots: Ballots, lead: Floats) -> Expectation:
        """Whether the answer was right, for every vote."""
        chance = expit(np.where(ballots.chose_first, lead, -lead))
        reliable = self.inside()[0][ballots.annotator]
        right = reliable * chance
        likelihood = right + (1 - reliable) * (1 - chance)
        log_lik, share = np.log(likelihood), right / likelihood
        first = np.where(ballots.chose_first, share, 1 - share)
        happened, failed = ballots.per_annotator(share), ballots.per_annotator(1 - share)
        return Expectation(log_lik, first, 1 - first, happened[None], failed[None])

    def line(self) -> Floats:
        """See `People`."""
        reliable = self.inside()[0]
        return np.stack([1 - reliable, 2 * reliable - 1])

    def standard_error(self, ballots: Ballots, lead: Floats) -> Floats:
        """Standard error of each reliability given the scores, [A]: expected information of the votes and the prior."""
        chance, _ = self.response(ballots, lead)
        variance = np.maximum(chance * (1 - chance), 1e-12)
        information = ballots.per_annotator((expit(lead) - expit(-lead)) ** 2 / variance)
        right, wrong = self.prior[0] - 1
        reliable = np.clip(self.probability[0], 1e-6, 1 - 1e-6)
        information += right / reliable**2 + wrong / (1 - reliable) ** 2
        # Never above what a probability that could be anything has.
        found: Floats = 1 / np.sqrt(np.maximum(information, 12.0))
        return found


@dataclass(frozen=True, eq=False)
class Looking(People):
    """P(first) = g s(lead) + (1 - g) c: looks with probability g, and else says "first" with probability c, by habit."""

    def expect(self, ballots: Ballots, lead: Floats) -> Expectation:
        """Whether the annotator looked, for every vote, and which side a habit chose."""
        chose = ballots.chose_first
        look, side = self.inside()[:, ballots.annotator]
        looked = look * expit(np.where(chose, lead, -lead))
        likelihood = looked + (1 - look) * np.where(chose, side, 1 - side)
        log_lik, share = np.log(likelihood), looked / likelihood
        happened = np.stack([ballots.per_annotator(share), ballots.per_annotator((1 - share) * chose)])
        failed = np.stack([ballots.per_annotator(1 - share), ballots.per_annotator((1 - share) * ~chose)])
        return Expectation(log_lik, share * chose, share * ~chose, happened, failed)

    def line(self) -> Floats:
        """See `People`."""
        look, side = self.inside()
        return np.stack([(1 - look) * side, look])
