"""How many more votes a target takes: campaigns simulated from what is known.

Labels and confusion matrices are drawn from their posteriors. Every step asks about the least certain items; who answers is
drawn by the activity so far. The answers are weighed as the model would weigh them, which learns from them in turn: counts of
true x observed classes grow, and with them all earlier votes are weighed again, q_nk ~ base_nk prod_e R[a_e, k, y_e] with
R = the mean of the counts. `base` is what makes this the model's own posterior before the first new vote. How sure the labels
are is what experience makes of it (`crowdwise.estimator.judgement`), with the votes that have come: a vote more brings less
than a model of independent annotators believes. A campaign ends where `crowdwise.campaign.stopping` would end it: when at least
the target is right with the stated probability, over crowds and the luck of the items (`crowdwise.campaign.right_labels`).

Of m campaigns the i-th smallest exceeds the true number with probability i / (m + 1) if the campaigns are like it: the ends of
the interval are ranked by this. Large sets are simulated by a part of M of N items, whose numbers vary more than those of
the whole: by sqrt(N / M), as far as items make them differ. How far, some campaigns with the same matrices and other items say,
and the excess is taken out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from crowdwise.campaign.right_labels import assured, chance_of, given_up, overlapping
from crowdwise.errors import InputError, SettingError, check_share
from crowdwise.estimator.judgement import exponent_of
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import expected_log, softmax, tempered
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["Plan", "plan", "plans"]

# Item, annotator, label and weight of some votes.
Columns = tuple[Array, Array, Array, Array]

# Items simulated. A step asks about at least and at most these shares of them, and in between adds so much to the votes asked:
# the end is found that exactly, and a campaign of fifty votes per item takes hundreds of steps instead of thousands.
_SIMULATED = 2_000
# Of these, in the order of their certainty at the start, so many say how crowds may differ.
_JUDGED = 500
_STEP, _WIDEST, _GROWTH = 0.02, 0.1, 0.02
# Votes per item after which a campaign gives up.
_MOST = 50
# Share of the votes asked after which the model learns from them.
_LEARN = 0.1
# Rounds in which counts and posteriors follow each other then.
_ROUNDS = 2
# Campaigns run again with other items, to know their part in the variance.
_AGAIN = 6
_FLOOR = 1e-12
# Of what is known of an annotator, new votes leave at least this share of every entry.
_LEAST_LEFT = 0.5


@dataclass(frozen=True)
class Plan:
    """Votes still to ask until `target` is reached with a probability: the mean of simulated campaigns, and a 90% interval.

    `now` is the expected accuracy; `out_of_reach` is the share of the campaigns that did not get there with 50 more votes
    per item.
    """

    target: float
    now: float
    votes: float
    low: float
    high: float
    out_of_reach: float
    probability: float = 0.95


def plan(
    result: Result,
    target: float = 0.95,
    probability: float = 0.95,
    *,
    repeats: int = 20,
    random_state: int = 0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Plan:
    """Simulate campaigns from what is known; see the module. The interval needs 19 `repeats` to be one of 90%."""
    return plans(result, [target], probability, repeats=repeats, random_state=random_state, progress=progress)[0]


def plans(
    result: Result,
    targets: Sequence[float],
    probability: float = 0.95,
    *,
    repeats: int = 20,
    random_state: int = 0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> list[Plan]:
    """A plan for every target, from the same simulated campaigns; `progress` is called with what runs, how many of how many."""
    for name, value in [*(("target", target) for target in targets), ("probability", probability)]:
        check_share(name, value)
    votes = result.votes
    if votes.n_classes < 2:
        raise InputError(
            "one class only occurs in the votes, so nothing says how many more are needed; name all, such as --classes yes,no"
        )
    now = float(result.confidence.mean()) if votes.n_items else float("nan")
    ahead = sorted({target for target in targets if votes.n_items and chance_of(result, target) < probability})
    if ahead and votes.n_annotators == 0:
        raise SettingError("a plan needs votes of at least one annotator: nothing is known of who will answer")
    seeds = np.random.default_rng(random_state).integers(2**62, size=(repeats, 2)).tolist()
    asked, again = np.empty((repeats, len(ahead))), np.empty((0, len(ahead)))
    # A model that is sure for having given up a class takes new votes for errors, too.
    if overlapping(result, slice(None)) and given_up(result, np.arange(votes.n_items)):
        asked[:] = np.inf
    elif ahead:
        known = _Known(result, probability)
        more = _AGAIN if votes.n_items > _SIMULATED and repeats > 2 else 0
        for done, pair in enumerate(seeds):
            if progress is not None:
                progress("simulating campaigns", done, repeats + more)
            asked[done] = _campaign(known, ahead, *pair)
        if more and np.isfinite(asked).any():
            again = np.array([_campaign(known, ahead, crowd, items + 1) for crowd, items in seeds[:_AGAIN]])
    made = {
        target: _plan_of(target, now, column, other, votes.n_items)
        for target, column, other in zip(ahead, asked.T, again.T, strict=True)
    }
    found = [made.get(target, Plan(target, now, 0.0, 0.0, 0.0, 0.0)) for target in targets]
    return [replace(one, probability=probability) for one in found]


def _plan_of(target: float, now: float, asked: Floats, again: Floats, n_items: int) -> Plan:
    """Mean and interval of the votes that campaigns asked, [R]; some were run again with other items."""
    done = np.isfinite(asked)
    if not done.any():
        return Plan(target, now, np.inf, np.inf, np.inf, 1.0)
    if len(again):
        with np.errstate(invalid="ignore"):
            differences = asked[: len(again)] - again
        asked = np.where(done, asked, np.inf)
        asked[done] = _of_the_whole(asked[done], differences, _SIMULATED / n_items)
    # By rank: between finite and infinite numbers nothing can be interpolated.
    rank = max(int(0.05 * (len(asked) + 1)), 1) - 1
    ranked = np.sort(asked)
    low, high = float(ranked[rank]), float(ranked[len(asked) - 1 - rank])
    return Plan(target, now, float(asked[done].mean()), low, high, 1 - float(done.mean()))


def _of_the_whole(asked: Floats, differences: Floats, share: float) -> Floats:
    """Numbers of campaigns with a share of the items, scaled up, with the variance shrunk to that of whole ones."""
    known = differences[np.isfinite(differences)]
    variance = asked.var()
    if not len(known) or variance == 0:
        return asked
    # Two campaigns of the same crowd differ by twice the variance that items make.
    by_items = min(float((known**2).mean()) / 2, variance)
    shrunk = np.sqrt((variance - by_items * (1 - share)) / variance)
    return np.asarray(asked.mean() + shrunk * (asked - asked.mean()))


class _Known:
    """What all campaigns start from, computed once: a result makes some of it again whenever it is asked."""

    def __init__(self, result: Result, probability: float = 0.95) -> None:
        self.result, self.concentration, self.probability = result, result.concentration, probability
        posterior = result.posterior
        self.by_experience = result.confidence_source == "experience"
        self.posterior = result.model_posterior if self.by_experience else posterior
        sure = posterior.max(axis=1)
        self.by_certainty = np.argsort(sure, kind="stable") if result.votes.n_items > _SIMULATED else np.arange(len(sure))
        self.mass = result.votes.weight_per_item
        self.method = result.method if self.by_experience else None
        self.assured = assured(posterior, self.mass, len(posterior), probability, self.method)
        # What features or an earlier history say of who is right needs no votes that meet.
        self.needs_company = self.by_experience and result.history is None and not hasattr(result.prior, "informed")
        self.given = result.votes.is_known
        activity = result.votes.votes_per_annotator + 1e-9
        # Who answers is drawn as `Generator.choice` does it, which sums the chances again at every call.
        self.activity = (activity / activity.sum()).cumsum()
        self.activity /= self.activity[-1]


def _campaign(known: _Known, targets: list[float], crowd_seed: int, item_seed: int) -> Floats:
    """Votes asked until each of the ascending targets, infinite if it was not reached."""
    drawn = np.random.default_rng(crowd_seed).standard_gamma(known.concentration)
    drawn /= np.maximum(drawn.sum(axis=2, keepdims=True), 1e-300)
    drawn = drawn.cumsum(axis=2)[:, :, :-1]
    rng = np.random.default_rng(item_seed)
    n_items = known.result.votes.n_items
    learner = _Learner(known, _part_of(known, rng))
    believed = learner.believed(slice(None))
    truth = (rng.random((len(believed), 1)) > believed.cumsum(axis=1)[:, :-1]).sum(axis=1)
    # A part drawn by chance may start elsewhere than the whole: it aims at as much more as the whole has to.
    sure, assured_now = believed.max(axis=1), learner.assured()
    needed_share = (np.ceil(np.array(targets) * n_items - 1e-9) - 0.5) / n_items
    aims = np.minimum(assured_now + needed_share - known.assured, 1 - 1e-6)
    needed = np.full(len(targets), np.inf)
    fewest, most = max(1, int(_STEP * len(sure))), max(1, int(_WIDEST * len(sure)))
    n_asked = n_learnt = n_reached = 0
    # By how much what is assured lies below what is expected changes slowly: it is computed when the model learns.
    doubt = sure.mean() - assured_now
    while n_reached < len(aims) and n_asked <= _MOST * len(sure):
        n_step = min(max(fewest, int(_GROWTH * n_asked)), most)
        items = np.argpartition(sure, n_step - 1)[:n_step]
        who = known.activity.searchsorted(rng.random(n_step), side="right")
        said = (rng.random((n_step, 1)) > drawn[who, truth[items]]).sum(axis=1)
        learner.tell(items, who, said)
        sure[items] = learner.believed(items).max(axis=1)
        n_asked += n_step
        if sure.mean() - doubt >= aims[n_reached] or n_asked - n_learnt > _LEARN * n_asked:
            learner.learn()
            sure, n_learnt = learner.believed(slice(None)).max(axis=1), n_asked
            assured_now = learner.assured()
            doubt = sure.mean() - assured_now
            reached = (aims <= assured_now) & learner.overlapping
            needed[reached] = np.minimum(needed[reached], n_asked * n_items / len(sure))
            n_reached = int(np.isfinite(needed).sum())
    return needed


def _part_of(known: _Known, rng: np.random.Generator) -> Integers:
    """Items to simulate: all, or every so many in the order of their certainty, so that parts differ little."""
    n_items = known.result.votes.n_items
    if n_items <= _SIMULATED:
        return known.by_certainty
    return np.asarray(known.by_certainty[((np.arange(_SIMULATED) + rng.random()) * n_items / _SIMULATED).astype(np.int64)])


class _Learner:
    """Counts and posteriors of some items, which grow by simulated votes."""

    def __init__(self, known: _Known, chosen: Integers) -> None:
        result, votes = known.result, known.result.votes
        place = np.full(votes.n_items, -1)
        place[chosen] = np.arange(len(chosen))
        of_votes = place[votes.item]
        inside = np.flatnonzero(of_votes >= 0)
        weight = votes.weights[inside]
        self._votes: list[Columns] = [(of_votes[inside], votes.annotator[inside], votes.label[inside], weight)]
        # What a part learns, the whole learns so many times.
        self._times = votes.n_items / max(len(chosen), 1)
        # The mean of several models is no fixed point of the one whose matrices describe annotators: what new votes say of
        # annotators is left out there, and votes count as predicted, by the mean matrices.
        self._learns = not getattr(result.annotators, "averages", False)
        self._bayesian = self._learns and result.annotators.concentration() is not None
        self.q = known.posterior[chosen].copy()
        self._exponent = exponent_of(result.method, votes.anonymous) if known.by_experience else 0.0
        self._known, self._mass, self._given = known, known.mass[chosen], known.given[chosen]
        self._first = known.concentration
        self._log_mean = _log_mean(self._first, self._bayesian)
        item, who, said, weight = self._votes[0]
        self._fixed = known.concentration - self._times * self._counts(item, who, said, weight)
        self._base = np.log(np.maximum(self.q, _FLOOR)) - self._evidence(item, who, said, weight)

    def believed(self, item: Integers | slice) -> Floats:
        """Posteriors of some items as far as they can be believed, [n, K]."""
        return tempered(self.q[item], np.maximum(self._mass[item], 1) ** self._exponent)

    def assured(self) -> float:
        """The share of right labels that is reached with the stated probability."""
        known, believed = self._known, self.believed(slice(None))
        some = slice(None, None, -(-len(believed) // _JUDGED))
        n_items = known.result.votes.n_items
        least = assured(believed[some], self._mass[some], n_items, known.probability, known.method)
        # How far what is assured lies below what is expected differs less between items than either of the two.
        return float(least + believed.max(axis=1).mean() - believed[some].max(axis=1).mean())

    @property
    def overlapping(self) -> bool:
        """Whether votes can tell who is right: see `crowdwise.campaign.right_labels`."""
        return not self._known.needs_company or float((self._given | (self._mass >= 2)).mean()) >= 0.5

    def tell(self, item: Integers, who: Integers, said: Integers) -> None:
        """New votes on different items, weighed with what is known."""
        self._votes.append((item, who, said, np.ones(len(item))))
        self._mass[item] += 1
        scores = np.log(np.maximum(self.q[item], 1e-300)) + self._log_mean[who, :, said]
        self.q[item] = softmax(scores)

    def learn(self) -> None:
        """Weigh all votes again, after what they say of the annotators."""
        if not self._learns:
            return
        item, who, said, weight = (np.concatenate(column) for column in zip(*self._votes, strict=True))
        self._votes = [(item, who, said, weight)]
        for _ in range(_ROUNDS):
            # Counts under another posterior than the annotators were fitted with may take more away than there is.
            counts = np.maximum(self._fixed + self._times * self._counts(*self._votes[0]), _LEAST_LEFT * self._first)
            self._log_mean = _log_mean(counts, self._bayesian)
            self.q[:] = softmax(self._base + self._evidence(*self._votes[0]))

    def _counts(self, item: Array, who: Array, said: Array, weight: Array) -> Floats:
        """Expected answers of every annotator, [A, K, L]."""
        n_annotators, n_classes, n_labels = self._log_mean.shape
        cell = who.astype(np.int64) * n_labels + said
        columns = [
            np.bincount(cell, weights=weight * self.q[item, k], minlength=n_annotators * n_labels) for k in range(n_classes)
        ]
        return np.asarray(np.stack(columns, axis=1), float).reshape(n_annotators, n_labels, n_classes).transpose(0, 2, 1)

    def _evidence(self, item: Array, who: Array, said: Array, weight: Array) -> Floats:
        """Log-likelihood of the votes on every item, [M, K]."""
        terms = weight[:, None] * self._log_mean[who, :, said]
        columns = [np.bincount(item, weights=terms[:, k], minlength=len(self.q)) for k in range(self.q.shape[1])]
        return np.asarray(np.stack(columns, axis=1), float)


def _log_mean(concentration: Floats, bayesian: bool) -> Floats:
    counts = np.maximum(concentration, _FLOOR)
    if bayesian:
        return expected_log(counts, axis=2)
    return np.asarray(np.log(counts / counts.sum(axis=2, keepdims=True)))
