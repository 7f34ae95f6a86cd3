"""A grade for each annotator, from accuracy and its uncertainty: whom to look at first.

Three numbers of an annotator are compared with the interval of accuracy +- 2 sd, cut to [0, 1]:

    chance   = sum_k prior_k usage_k     what the same labels would score if given blindly
    usage_l  = sum_k prior_k confusion_kl
    halfway  = (chance + median accuracy of the crowd) / 2

Chance is the annotator's own: where nine items of ten are of one class, always naming it is right
nine times of ten and says nothing. An annotator is called unreliable only when the whole interval
says so; one with few votes is not judged. Intervals lean on what the crowd is like, so that of one
vote may be narrow: above chance is only who has votes enough for it, had all of them been right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from crowdwise.estimator.experience import in_company
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Array, Flags, Floats, Integers

__all__ = [
    "ABOVE",
    "CHANCE",
    "GRADES",
    "ONE_LABEL",
    "UNJUDGED",
    "WEAK",
    "Crowd",
    "answered",
    "can_tell",
    "crowd_of",
    "told_from_chance",
]


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
        grade = np.full(votes.n_annotators, ABOVE)
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


def told_from_chance(crowd: Crowd, result: Result, level: float = 0.05) -> Crowd:
    """The crowd, with those above chance whose interval is, or whose answers depend on the class by a test, on votes enough.

    Only of the others does `crowdwise annotators` say "unknown" too.
    """
    from crowdwise.trust.crowd.draws import depends_on_class

    if result.votes.n_classes < 2:
        return crowd
    clear = depends_on_class(result, level) | (crowd.low > crowd.chance)
    standing = np.where(clear & can_tell(answered(result), crowd.chance), ABOVE, UNJUDGED)
    return replace(crowd, grade=np.where(crowd.grade >= UNJUDGED, standing, crowd.grade))


def _favourites(result: Result) -> tuple[Integers, Floats, Floats]:
    """Most used label of each annotator, its share, and the share of their votes where it is the consensus."""
    votes = result.votes
    used: Array = np.bincount(votes.row, minlength=votes.n_annotators * votes.n_classes)
    used = used.reshape(votes.n_annotators, votes.n_classes)
    top = used.argmax(axis=1)
    n_votes = np.maximum(votes.votes_per_annotator, 1)
    right = np.bincount(votes.annotator, result.codes[votes.item] == top[votes.annotator], minlength=votes.n_annotators)
    return top, used.max(axis=1) / n_votes, right / n_votes
