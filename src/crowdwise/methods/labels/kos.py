"""KOS: iterative learning of Karger, Oh and Shah, messages of signed votes between items and annotators.

Two classes, votes Y_na = +1 or -1:

    x_{n -> a} = sum over other annotators b of n of Y_nb y_{b -> n}
    y_{a -> n} = sum over other items m of a of Y_ma x_{m -> a}
    label of n = sign of sum_a Y_na y_{a -> n}

from y ~ N(1, 1), ten rounds. More classes: one such problem per class against the rest, in which a vote
for l says sign(l, k) = 1 if l = k else -1 / (K - 1) of class k, so that random votes cancel; an annotator's
message is the sum of those of the K problems, and the class with the highest score is the label.

Notes
-----
It assumes a sparse random graph, balanced classes and annotators better than chance on average, and it
gives scores, not probabilities: the posterior is the softmax of scores scaled so that the average vote
counts as much as the log-odds of the crowd's agreement with the labels (`crowdwise.parts.annotators.signed`).
With r votes per annotator, l per item and mean squared skill q = E[(2 p - 1)^2] it needs
(l - 1)(r - 1) q^2 > 1; below, ten rounds amplify noise, and majority vote is better.
Where we depart from the paper: messages are rescaled to unit root mean square every round (they grow
geometrically, and only their ratios matter); K problems that share each annotator's message instead of K
separate ones, which fall behind majority vote as classes grow; annotators with a single item, whom the
paper gives the message zero, get the average message of the crowd, as do annotators never seen; messages
whose average is below zero are all turned unless something is known, since annotators are better than
chance on average; all votes of an annotator on an item make one edge. Known labels send their exact sign,
with the size of an average item's message; earlier answers count as answers to such items. `update` starts
afresh. First messages are drawn in the order of items and annotators, so other names give other draws;
`noise=0` does without. Cost per round: O(E).

References
----------
Karger, Oh and Shah (2011), Iterative learning for reliable crowdsourcing systems, NIPS; (2014),
Budget-optimal task allocation for reliable crowdsourcing systems, Operations Research 62(1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.estimator.aggregator import Aggregator, Problem
from crowdwise.estimator.estimator import random_state_setting, setting
from crowdwise.kernels.numerics import best_class, segment_sum
from crowdwise.kernels.pairs import Pairs, pairs_of
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.annotators.signed import SignedVotes

__all__ = ["KOS"]


# However little the crowd agrees, a score keeps its direction.
_LEAST_SCALE = 0.1


@dataclass(eq=False, repr=False, kw_only=True)
class KOS(Aggregator):
    """Karger, Oh and Shah's messages of signed votes."""

    class_prior: Any = setting("uniform", 'Class shares: "uniform", "learn", or K probabilities.', free=True)
    rounds: int = setting(10, "Rounds of messages (the paper's 10).", low=1, whole=True)
    noise: float = setting(1.0, "Spread of the first messages around one (the paper's 1); 0 starts from ones.", low=0)
    random_state: int | None = random_state_setting("Seed of the first messages.")

    name: ClassVar[str] = "kos"

    def _fit(self, problem: Problem) -> Fit:
        votes = problem.votes
        weight = votes.weights
        # Votes without weight are no edges: they must not shift the random start of the others.
        kept = np.flatnonzero(weight > 0)
        item, label, weight = votes.item[kept], votes.label[kept], weight[kept]
        pairs = pairs_of(item, votes.annotator[kept], label, weight, votes.n_classes, by_class=False)
        weight_p, weight_a = self._pass(problem, pairs, label, weight)
        earlier = 0 if problem.history is None else problem.history.sum(axis=(1, 2))
        lonely = (np.bincount(pairs.annotator, minlength=votes.n_annotators) <= 1) & (earlier == 0)
        heard = ~lonely[pairs.annotator]
        typical = float(weight_p[heard].mean()) if heard.any() else 1.0
        part = SignedVotes(
            item=pairs.item,
            annotator=pairs.annotator,
            weight_p=np.where(heard, weight_p, typical),
            weight_a=np.where(lonely, typical, weight_a),
            typical=typical,
            scale=1.0,
            who=np.arange(votes.n_annotators),
            what=np.arange(votes.n_items),
        )
        return self._read(problem, part)

    def _pass(self, problem: Problem, pairs: Pairs, label: Array, weight: Floats) -> tuple[Floats, Floats]:
        """Run the rounds; return messages by pair, [P], and without leaving an item out, [A].

        What an item tells an annotator enters only through its product with the annotator's own votes there,
        `sent`: with c_pk the weight of the votes of pair p for k and C_p their sum, it is
        (K sum_k c_pk S_nk - C_p sum_k S_nk) / (K - 1) with S_nk the sum of y c over the item's other pairs.
        """
        votes = problem.votes
        n_items, n_pairs, n_classes = votes.n_items, len(pairs.item), votes.n_classes
        of_vote = pairs.of_vote
        cell = pairs.item[of_vote] * n_classes + label
        own_label = of_vote * n_classes + label.astype(np.int64)
        _, same = np.unique(own_label, return_inverse=True)
        square_p = segment_sum(of_vote, weight * np.bincount(same, weights=weight)[same], n_pairs)
        total_p = segment_sum(of_vote, weight, n_pairs)

        def signed(matches_p: Floats, all_p: Floats) -> Floats:
            return np.asarray((n_classes * matches_p - all_p) / max(n_classes - 1, 1))

        earlier = np.zeros(votes.n_annotators)
        if problem.history is not None:
            earlier = signed(np.einsum("akk->a", problem.history), problem.history.sum(axis=(1, 2)))
        known = problem.known[pairs.item] if len(problem.known) else np.full(n_pairs, -1)
        right_p = segment_sum(of_vote, weight * (known[of_vote] == label), n_pairs)
        y, total = problem.rng.normal(1.0, self.noise, n_pairs), np.zeros(votes.n_annotators)
        for _ in range(self.rounds):
            sums = segment_sum(cell, weight * y[of_vote], n_items * n_classes)
            matches = segment_sum(of_vote, weight * sums[cell], n_pairs) - square_p * y
            others = sums.reshape(n_items, n_classes).sum(axis=1)[pairs.item] - total_p * y
            sent = _rounded(signed(matches, total_p * others), np.abs(sums))
            sent = np.where(known >= 0, signed(right_p, total_p), sent / _rms(sent))
            total = segment_sum(pairs.annotator, sent, votes.n_annotators) + earlier
            y = _rounded(total[pairs.annotator] - sent, np.abs(sent))
            size = _rms(y)
            y, total = y / size, total / size
        # Where nothing is known, annotators must be better than chance on average; an unlucky start on a small graph
        # can turn all signs at once.
        anchored = bool((known >= 0).any() or earlier.any())
        turn = -1.0 if y.sum() < -1e-9 * len(y) and not anchored else 1.0
        return turn * y, turn * total

    def _read(self, problem: Problem, part: SignedVotes) -> Fit:
        """Scale the scores, learn class shares where asked, and turn both into a posterior."""
        votes, prior = problem.votes, problem.marginals()
        posterior = np.zeros((votes.n_items, votes.n_classes))
        part.infer(votes, prior.log_prob(), problem.known, posterior)
        labels = best_class(posterior, prior.probability)
        weight = votes.weights
        # One pseudo-vote each way: full agreement of a few is no certainty.
        agreed, total = float(weight[labels[votes.item] == votes.label].sum()) + 1, float(weight.sum()) + 2
        odds = max(votes.n_classes - 1, 1) * agreed / (total - agreed)
        # A vote moves the log-odds of its class against another by K / (K - 1) times its weight.
        gain = 1 + 1 / max(votes.n_classes - 1, 1)
        part = replace(part, scale=max(float(np.log(odds)), _LEAST_SCALE) / gain)
        part.infer(votes, prior.log_prob(), problem.known, posterior)
        prior = prior.update(posterior[segment_sum(votes.item, weight, votes.n_items) > 0])
        part.infer(votes, prior.log_prob(), problem.known, posterior)
        return Fit(posterior, prior, part, trace={}, n_iter=self.rounds, converged=True)


def _rounded(values: Floats, terms: Floats) -> Floats:
    """Set to zero what is left of terms that cancel: rescaling would blow rounding up to a message."""
    return np.where(np.abs(values) > 1e-10 * terms.max(initial=0.0), values, 0.0)


def _rms(values: Floats) -> float:
    """Root mean square; 1 where all are zero (or none there), so that dividing by it changes nothing."""
    size = float(np.sqrt(np.mean(values**2))) if len(values) else 0.0
    return size if size > 0 else 1.0
