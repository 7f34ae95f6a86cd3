"""What is to be thought of a fit: how sure labels may be by experience with real crowds, and whom to look at first.

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

Annotators get a grade. Three numbers of an annotator are compared with the interval of accuracy +- 2 sd, cut to [0, 1]:

    chance   = sum_k prior_k usage_k     what the same labels would score if given blindly
    usage_l  = sum_k prior_k confusion_kl
    halfway  = (chance + median accuracy of the crowd) / 2

Chance is the annotator's own: where nine items of ten are of one class, always naming it is right
nine times of ten and says nothing. An annotator is called unreliable only when the whole interval
says so; one with few votes is not judged. Intervals lean on what the crowd is like, so that of one
vote may be narrow: above chance is only who has votes enough for it, had all of them been right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.experience import ANONYMOUS, EXPONENTS, FEATURES_EXPONENT, OTHER_EXPONENT
from crowdwise.estimator.registry import METHODS
from crowdwise.kernels.numerics import NO_WEIGHT, tempered, voted_sums
from crowdwise.kernels.types import Array, Flags, Floats, Integers

if TYPE_CHECKING:
    from crowdwise.estimator.outcome import Result

__all__ = ["ABOVE", "CHANCE", "GRADES", "ONE_LABEL", "UNJUDGED", "WEAK", "Crowd", "answered", "by_features", "calibrated"]
__all__ += ["can_tell", "crowd_of", "exponent_of", "in_company", "reliability_of", "untested", "without_company"]

# What is thought of annotators before anything is known of them, and how many votes that is worth: by judgement, not by data.
_SINGLE, _PSEUDO_VOTES = 0.7, 5.0


def exponent_of(method: str, anonymous: bool = False) -> float:
    """How fast votes lose weight by experience with a method, or with one on anonymous votes.

    "auto: mace" is mace's, "auto-classifier: raykar (classifier=gaussian)" raykar's.
    """
    name = _chosen(method)
    named = EXPONENTS.get(name, FEATURES_EXPONENT if by_features(method) else OTHER_EXPONENT)
    return ANONYMOUS.get(name, named) if anonymous else named


def by_features(method: str) -> bool:
    """Whether the labels of a method come from features too, about which experience has an exponent of its own."""
    name = _chosen(method)
    return name not in EXPONENTS and name in METHODS and METHODS[name].features != ""


def _chosen(method: str) -> str:
    return method.rpartition(": ")[2].partition(" (")[0]


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
    mass, believed = votes.weight_per_item, posterior
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
    return np.where(votes.is_known[:, None], posterior, believed)


def in_company(votes: Annotations, posterior: Floats, known: Integers | None = None) -> Floats:
    """Weight of an annotator's votes on items that others voted on too: of those that were right, and of all, [2, A].

    Items whose label is `known`, a class code (default: the votes' gold; -1 elsewhere), have company in it.
    """
    alone = without_company(votes, known)
    if alone.any():
        votes, posterior = votes.take_items(np.flatnonzero(~alone)), posterior[~alone]
    weight = NO_WEIGHT if votes.weight is None else votes.weight
    right = voted_sums(votes.item_ptr, votes.label, votes.annotator, weight, posterior, votes.n_annotators)
    return np.stack([right, votes.weight_per_annotator])


def without_company(votes: Annotations, known: Integers | None = None) -> Flags:
    """Items that one annotator alone voted on, and whose label is not `known` (as in `in_company`), [N].

    Nothing there says whether the vote was right.
    """
    known = votes.gold if known is None or not len(known) else known
    alone = _lone_voter(votes) >= 0
    return alone if known is None else np.asarray(alone & (known < 0))


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


# A rare slip among votes for one class does not make it a judgement; ten votes for one class may be luck of the draw.
ONE_LABEL_SHARE, ONE_LABEL_VOTES, ONE_LABEL_DESERVED = 0.95, 10, 0.8


# With fewer votes nobody is above chance, nor where so many right answers come by luck with more than this probability.
# By judgement, not by data.
FEWEST_VOTES, LUCK = 5, 0.025


class Grade(NamedTuple):
    """What is said of an annotator, and the colour it is said in."""

    name: str
    paint: str


GRADES = (
    Grade("worse than chance", "bad"),
    Grade("no better than chance", "bad"),
    Grade("always the same label", "bad"),
    Grade("nearer to chance than to the crowd", "weak"),
    Grade("too few votes to tell", "unsure"),
    Grade("clearly above chance", "good"),
)
WORSE, CHANCE, ONE_LABEL, WEAK, UNJUDGED, ABOVE = range(6)


@dataclass(frozen=True, eq=False)
class Crowd:
    """Annotators as a page shows them; arrays are [A], by annotator code.

    Attributes
    ----------
    order
        Annotators with votes, worst first: the unreliable, then all others; each by accuracy.
    accuracy, low, high, chance
        Estimate, the ends of its interval, and the level of blind answers.
    grade
        Index into `GRADES`; meaningless without votes.
    top_label, top_share
        The label given most often, as a class code, and its share of the annotator's votes.
    """

    order: Integers
    accuracy: Floats
    low: Floats
    high: Floats
    chance: Floats
    grade: Integers
    top_label: Integers
    top_share: Floats

    @property
    def unreliable(self) -> Integers:
        """Annotators to look at first, worst first."""
        return np.asarray(self.order[self.grade[self.order] < UNJUDGED])


def crowd_of(result: Result) -> Crowd:
    """Judge every annotator of a result."""
    votes, prior_k = result.votes, result.class_prior
    n_votes = votes.votes_per_annotator
    voted = n_votes > 0
    accuracy = result.accuracy
    sd = result.accuracy_sd
    low, high = np.clip(accuracy - 2 * sd, 0, 1), np.clip(accuracy + 2 * sd, 0, 1)
    chance = np.einsum("akl,k,l->a", result.confusion, prior_k, prior_k)
    halfway = (chance + (np.median(accuracy[voted]) if voted.any() else 1)) / 2
    top_label, top_share, deserved = _favourites(result)
    if votes.n_classes < 2:
        # With one class there is nothing to be right or wrong about.
        grade = np.full(votes.n_annotators, UNJUDGED)
    else:
        one_label = (top_share >= ONE_LABEL_SHARE) & (n_votes >= ONE_LABEL_VOTES) & (deserved < ONE_LABEL_DESERVED)
        grade = np.select(
            [
                one_label,
                high < chance,
                (low <= chance) & (high >= halfway),
                low <= chance,
                high < halfway,
                ~can_tell(answered(result), chance),
            ],
            [ONE_LABEL, WORSE, UNJUDGED, CHANCE, WEAK, UNJUDGED],
            default=ABOVE,
        )
    order = np.lexsort((accuracy, grade >= UNJUDGED))
    return Crowd(order[voted[order]], accuracy, low, high, chance, grade, top_label, top_share)


def can_tell(n_votes: Array, chance: Floats) -> Flags:
    """Whether so many votes, had all of them been right, would be more than luck, [A]."""
    return np.asarray((n_votes >= FEWEST_VOTES) & (chance**n_votes <= LUCK))


def answered(result: Result) -> Floats:
    """Votes of every annotator, with the answers of earlier that are known of them, [A]; none of who never met anybody."""
    met = in_company(result.votes, result.model_posterior)[1] > 0
    n_votes = np.where(met, np.asarray(result.votes.votes_per_annotator, float), 0.0)
    return n_votes if result.history is None else n_votes + result.history.sum(axis=(1, 2))


def _favourites(result: Result) -> tuple[Integers, Floats, Floats]:
    """Most used label of each annotator, its share, and the share of their votes where it is the consensus."""
    votes = result.votes
    used: Array = np.bincount(votes.row, minlength=votes.n_annotators * votes.n_classes)
    used = used.reshape(votes.n_annotators, votes.n_classes)
    top = used.argmax(axis=1)
    n_votes = np.maximum(votes.votes_per_annotator, 1)
    right = np.bincount(votes.annotator, result.codes[votes.item] == top[votes.annotator], minlength=votes.n_annotators)
    return top, used.max(axis=1) / n_votes, right / n_votes
