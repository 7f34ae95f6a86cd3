"""Which meetings and which pairs of annotators are worth a look: bounds on the work of the check for shared errors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from crowdwise.data.meetings import Pairs, SingleAnswers, agreements
from crowdwise.kernels.types import Integers

__all__ = ["enough_meetings", "of_the_busiest"]


def enough_meetings(n_annotators: int, level: float, excess: float) -> int:
    """Meetings after which more of them would show nothing new, of all pairs together.

    The hardest to see is a pair alone whose excess is the least that counts, a share e of what is possible. On n meetings of
    annotators who agree with probability E it stands z = e sqrt(n (1 - E) / E) above its expectation. It is reported from z_0
    on, P(Z > z_0) <= exp(-z_0^2 / 2) = level / (A (A - 1)), and chance takes three off less than once in seven hundred times.
    With E = 0.9 that takes n = 9 (z_0 + 3)^2 / e^2 meetings of every pair.
    """
    ordered = max(n_annotators * (n_annotators - 1), 2)
    standing = math.sqrt(2 * math.log(ordered / level)) + 3
    return int(ordered / 2 * 9 * standing**2 / excess**2)


def of_the_busiest(answers: SingleAnswers, most: int) -> Pairs:
    """Pairs that met of the annotators with most answers, of as many of them as `most` pairs allow."""
    count = np.bincount(answers.annotator, minlength=answers.n_annotators)
    order = np.argsort(-count, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    meetings, share = np.bincount(answers.item), np.cumsum(count[order]) / max(len(answers.item), 1)
    expected = float((meetings * (meetings - 1)).sum()) / 2
    # So few annotators have no more pairs than that.
    few = int((2 * most) ** 0.5) + 2
    while True:
        # Of a share of the answers that is drawn at random its square of the meetings remains; most meetings are first ones.
        enough = int(np.searchsorted(share, min(1.5 * most / max(expected, 1.0), 1.0) ** 0.5)) + 1
        tried = len(order) if expected <= most else max(enough, few)
        met = agreements(answers) if tried >= len(order) else _among(answers, np.sort(order[:tried]))
        later = np.maximum(rank[met.first], rank[met.second])
        if tried >= len(order) or len(later) > most:
            kept = later < np.searchsorted(np.cumsum(np.bincount(later)), most, side="right")
            return met if len(later) <= most else Pairs(met.first[kept], met.second[kept], met.n_items[kept], met.sums[kept])
        expected /= 2


def _among(answers: SingleAnswers, who: Integers) -> Pairs:
    """Pairs that met of these annotators, whose codes are sorted; counted by their places, which small tables hold."""
    place = np.full(answers.n_annotators, -1)
    place[who] = np.arange(len(who))
    theirs = answers.at(place[answers.annotator] >= 0)
    met = agreements(replace(theirs, annotator=place[theirs.annotator], n_annotators=len(who)))
    return Pairs(who[met.first], who[met.second], met.n_items, met.sums)
