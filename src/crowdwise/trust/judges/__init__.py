"""Judges as a crowd: families that share errors, what each adds, what panels cost and are worth, and what judges favour."""

from crowdwise.trust.judges.biases import with_biases
from crowdwise.trust.judges.families import Families, by_name, decided, one_vote_each
from crowdwise.trust.judges.findings import Findings, examine
from crowdwise.trust.judges.information import added_bits
from crowdwise.trust.judges.model import JudgeModel
from crowdwise.trust.judges.panels import Panel, Panels, in_human_votes
from crowdwise.trust.judges.position import Position, position_bias
from crowdwise.trust.judges.verbosity import length_slopes

__all__ = [
    "Families",
    "Findings",
    "JudgeModel",
    "Panel",
    "Panels",
    "Position",
    "added_bits",
    "by_name",
    "decided",
    "examine",
    "in_human_votes",
    "length_slopes",
    "one_vote_each",
    "position_bias",
    "with_biases",
]
