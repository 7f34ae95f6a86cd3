"""How sure labels may be: what experience with real crowds makes of a model's posterior.

    q_n proportional to p_n^(1 / T_n),   T_n = (votes on n)^gamma

p is the posterior of the model. People who vote on the same item share mistakes, so that votes say less than models of
independent annotators believe, and the more votes, the less each. gamma, the *exponent* of a method, minimises the mean
log-loss over real sets with known labels. It is a statement about crowds in general: of this crowd only checked labels can
tell (`crowdwise audit`). On truly independent votes it is too cautious; `confidence="model"` leaves the posterior as it is.

Votes that are counted (`majority` and its relatives) know hard zeros, which no temperature can move; there one more vote is
counted first, divided by the class shares. Models that judge each annotator alone believe a single vote, and learn from it that
it was right; there an item that one annotator alone voted on is no surer than that annotator is right elsewhere. Where no votes
meet at all and no label is known, nothing says how often anybody is right, nor how frequent classes are: then every model is
held to what is thought of annotators beforehand, with even shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.numerics import NO_WEIGHT, segment_sum, tempered, voted_sums
from crowdwise.kernels.types import Flags, Floats, Integers

__all__ = [
    "ANONYMOUS",
    "CONFIDENCES",
    "EXPONENTS",
    "EXPONENT_SD",
    "EXPONENT_SD_ABOVE",
    "OTHER_EXPONENT",
    "calibrated",
    "exponent_of",
]
__all__ += ["in_company", "reliability_of", "untested", "vote_mass"]

CONFIDENCES = ("experience", "model")

# The exponent of `consensus` comes from 35 real sets, of which 17 can be had here; these alone would say .46. The others were
# estimated on the 17 by `benchmarks/experience.py`, the mean log-loss over sets minimised, and .10 was added: crowds elsewhere
# are more dependent than these. Left out one at a time, sets move most exponents by .03 or less.
EXPONENTS: dict[str, float] = {
    "consensus": 0.55,
    "hierarchical-dawid-skene": 0.81,
    "majority": 0.00,
    "wawa": 0.00,
    "zbs": 0.00,
    "dawid-skene": 0.77,
    "one-coin": 0.79,
    "confusion-vector": 0.75,
    "glad": 0.91,
    "mace": 0.76,
    "bayes-gc": 0.83,
    "group-dawid-skene": 0.79,
    "group-vote": 0.00,
    "belief-propagation": 0.78,
    "mean-field": 0.80,
    "kos": 0.69,
    "ebcc": 0.79,
    "spectral-ds": 0.77,
    "tensor-admm": 0.79,
    "multi-spa": 0.77,
    "cnmf": 0.77,
    "sym-nmf": 0.80,
    "eigen": 0.74,
    "pgd": 0.79,
    "m-msr": 0.82,
    "minimax-entropy": 0.63,
    "m3v": 0.75,
    "cbcc": 0.94,
    "worker-cluster": 0.73,
    "ordinal-binary": 0.70,
    "cumulative-link": 0.55,
    "online-em": 0.63,
    "streaming-ds": 0.62,
}
# Where nobody knows who voted, votes of people who are often wrong count as much as others, and what people share on an item
# is all that a model could learn. By `benchmarks/anonymous.py`, on 14 of the 17 sets without their names. Nothing is added:
# CIFAR-10H, whose votes really are counts and which is not among the 14, asks for .60 to .67 from three votes per item on.
ANONYMOUS: dict[str, float] = {"consensus": 0.68}
# For methods that are not in the table: the median of those in it that are models.
OTHER_EXPONENT = 0.77
# Spread of the best exponent over sets, all in all, and of the half above the shipped one: crowds that are less dependent than
# most differ more from it than those that are more so. The 90th percentile of the 17 sets lies .135 above the common exponent,
# which is where a normal distribution with the second spread has it.
EXPONENT_SD, EXPONENT_SD_ABOVE = 0.2, 0.105
# What is thought of annotators before anything is known of them, and how many votes that is worth: by judgement, not by data.
_SINGLE, _PSEUDO_VOTES = 0.7, 5.0


def exponent_of(method: str, anonymous: bool = False) -> float:
    """How fast votes lose weight by experience with a method ("auto: mace" is mace's), or with one on anonymous votes."""
    name = method.rpartition(": ")[2]
    named = EXPONENTS.get(name, OTHER_EXPONENT)
    return ANONYMOUS.get(name, named) if anonymous else named


def calibrated(
    posterior: Floats,
    votes: Annotations,
    annotators: Any,
    class_shares: Floats,
    exponent: float,
    reliability: Floats | None = None,
    history: Floats | None = None,
    informed: Flags | None = None,
) -> Floats:
    """The posterior of a fit as experience has it, [N, K]; known labels stay known.

    `reliability` is that of the annotators by all votes (see `reliability_of`), where these are others or a part of them;
    `history` holds their earlier answers. Items that are `informed` by more than their votes are not held to what a lone
    annotator knows.
    """
    mass, believed = vote_mass(votes), posterior
    counts, pools = getattr(annotators, "additive_in", "") == "share", getattr(annotators, "pools", False)
    if reliability is None and (not (counts or pools) or (_lone_voter(votes)[mass > 0] >= 0).all()):
        reliability = reliability_of(in_company(votes, posterior), history)[:-1]
    nothing_known = reliability is not None and untested(reliability)
    shares = np.full(len(class_shares), 1 / max(len(class_shares), 1)) if nothing_known else class_shares
    if counts:
        believed = (posterior * mass[:, None] + np.where(mass[:, None] > 0, shares, class_shares)) / (mass[:, None] + 1)
    elif reliability is not None and (nothing_known or not pools):
        believed = _as_sure_as_one(posterior, votes, shares, reliability, informed)
    believed = tempered(believed, np.maximum(mass, 1) ** exponent)
    return believed if votes.gold is None else np.where((votes.gold >= 0)[:, None], posterior, believed)


def in_company(votes: Annotations, posterior: Floats, known: Integers | None = None) -> Floats:
    """Weight of an annotator's votes on items that others voted on too: of those that were right, and of all, [2, A].

    Items whose label is `known`, a class code (default: the votes' gold; -1 elsewhere), have company in it.
    """
    known = votes.gold if known is None or not len(known) else known
    alone = _lone_voter(votes) >= 0
    if known is not None:
        alone &= known < 0
    if alone.any():
        votes, posterior = votes.take_items(np.flatnonzero(~alone)), posterior[~alone]
    weight = NO_WEIGHT if votes.weight is None else votes.weight
    right = voted_sums(votes.item_ptr, votes.label, votes.annotator, weight, posterior, votes.n_annotators)
    return np.stack([right, segment_sum(votes.annotator, votes.weight, votes.n_annotators)])


def reliability_of(company: Floats, history: Floats | None = None) -> Floats:
    """How often annotators are right in company and were earlier, with some votes like all; last, one never seen, [A + 1]."""
    right, given = company
    if history is not None:
        right, given = right + np.einsum("akk->a", history), given + history.sum(axis=(1, 2))
    typical = (right.sum() + _PSEUDO_VOTES * _SINGLE) / (given.sum() + _PSEUDO_VOTES)
    return np.append((right + _PSEUDO_VOTES * typical) / (given + _PSEUDO_VOTES), typical)


def untested(reliability: Floats) -> bool:
    """Whether reliabilities are what is thought of everybody beforehand: no votes met."""
    return bool((reliability == _SINGLE).all())


def _lone_voter(votes: Annotations) -> Integers:
    """Who alone voted on an item, [N]; -1 where nobody or several did. A vote without weight is none."""
    if votes.weight is not None and not (votes.weight > 0).all():
        votes = votes.take_votes(votes.weight > 0)
    who = np.full(votes.n_items, -1, np.int64)
    voted = np.flatnonzero(votes.votes_per_item)
    if len(voted):
        # Votes are sorted by item: from the first vote of one to that of the next.
        start = votes.item_ptr[voted]
        lowest, highest = (of.reduceat(votes.annotator, start) for of in (np.minimum, np.maximum))
        who[voted] = np.where(lowest == highest, lowest, -1)
    return who


def _as_sure_as_one(
    posterior: Floats, votes: Annotations, class_shares: Floats, reliability: Floats, informed: Flags | None
) -> Floats:
    """Items that one annotator alone voted on are no surer than that annotator is right elsewhere, as far as known, [N, K]."""
    who = _lone_voter(votes)
    items = np.flatnonzero(who >= 0 if informed is None else (who >= 0) & ~informed)
    if not len(items):
        return posterior
    # Somebody who is mostly wrong tells as much as somebody who is mostly right.
    most = np.maximum(reliability, 1 - reliability)[who[items]]
    label = posterior[items].argmax(axis=1)
    surest, share = posterior[items, label], class_shares[label]
    kept = np.where(surest > most, (most - share) / np.maximum(surest - share, 1e-12), 1.0)
    kept = np.clip(kept, 0.0, 1.0)[:, None]
    capped = posterior.copy()
    capped[items] = kept * posterior[items] + (1 - kept) * class_shares
    return capped


def vote_mass(votes: Annotations) -> Floats:
    """Number of votes on every item, or their weight, [N]."""
    return segment_sum(votes.item, votes.weight, votes.n_items)
