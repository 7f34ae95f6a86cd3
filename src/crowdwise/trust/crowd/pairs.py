"""Agreements of pairs beyond what confusion matrices explain, which the detectors of copiers, groups and colluders share.

Beyond `MOST_MEETINGS` pairs of answers on one item, they are counted on items drawn with a fixed seed, and a note says so.
With a share s of the meetings, a standardised excess is sqrt(s) of what it would be: what all meetings would just show has to
be 1 / sqrt(s) times as large.
"""

from __future__ import annotations

from crowdwise.data.annotations import Annotations
from crowdwise.engines.dependence import Residuals, residual_agreement
from crowdwise.engines.meetings import MOST_MEETINGS
from crowdwise.estimator.outcome import Result

__all__ = ["of_pairs", "sampling_notes"]


def of_pairs(result: Result, votes: Annotations) -> Residuals:
    """Agreements of the pairs that met, and what the fit expects of them."""
    return residual_agreement(votes, result.model_posterior, result.confusion, MOST_MEETINGS)


def sampling_notes(found: Residuals) -> tuple[str, ...]:
    """What the reader must know where not all meetings were looked at."""
    if found.share >= 1:
        return ()
    return (
        f"pairs of annotators were compared on {found.share:.0%} of their common items, drawn at random: an excess "
        f"of agreement is seen from {found.share**-0.5:.1f} times what all items would show",
    )
