"""Agreements of pairs that met, which the detectors of copiers and colluders share.

Beyond `MOST_MEETINGS` pairs of answers on one item, they are counted on items drawn with a fixed seed, and a note says so.
With a share s of the meetings, a standardised excess is sqrt(s) of what it would be: what all meetings would just show has to
be 1 / sqrt(s) times as large. Beyond `MOST_PAIRS`, pairs among the annotators with most answers are compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.meetings import MOST_MEETINGS, SingleAnswers, n_meetings, sampled
from crowdwise.engines.independence import MOST_PAIRS, Agreement, agreement_of

__all__ = ["Met", "of_pairs", "sampling_notes"]


@dataclass(frozen=True, eq=False)
class Met:
    """The answers that were looked at, the agreement of their pairs, and the share of all meetings that they are."""

    answers: SingleAnswers
    pairs: Agreement
    share: float


def of_pairs(votes: Annotations) -> Met:
    """Agreements of the pairs that met."""
    answers, whole = sampled(votes, MOST_MEETINGS), n_meetings(votes)
    size = np.bincount(answers.item)
    share = 1.0 if whole <= MOST_MEETINGS else float((size * (size - 1)).sum()) / (2 * whole)
    return Met(answers, agreement_of(answers, MOST_PAIRS), share)


def sampling_notes(met: Met) -> tuple[str, ...]:
    """What the reader must know where not all meetings were looked at."""
    if met.share >= 1:
        return ()
    return (
        f"pairs of annotators were compared on {met.share:.0%} of their common items, drawn at random: an excess "
        f"of agreement is seen from {met.share**-0.5:.1f} times what all items would show",
    )
