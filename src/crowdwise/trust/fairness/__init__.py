"""Groups of items: who errs on whom, how far labels and classifiers differ between groups, and what parity costs."""

from typing import TYPE_CHECKING, Any

from crowdwise.data.groups import Groups, groups_of
from crowdwise.io import read_groups
from crowdwise.methods.labels.item_group_ds import ItemGroupDS
from crowdwise.trust.fairness.assignment import FairAssignment, fair_assignment
from crowdwise.trust.fairness.audit import Audit, audit
from crowdwise.trust.fairness.crosstab import flagged_by_group
from crowdwise.trust.fairness.gaps import disparity
from crowdwise.trust.fairness.parity import ParityLabels, parity_labels
from crowdwise.trust.fairness.scores import annotator_scores, matrices_given
from crowdwise.trust.fairness.weights import parity_weights

if TYPE_CHECKING:
    from crowdwise.trust.fairness.parity_classifier import ParityClassifier as ParityClassifier

__all__ = [
    "Audit",
    "FairAssignment",
    "Groups",
    "ItemGroupDS",
    "ParityClassifier",
    "ParityLabels",
    "annotator_scores",
    "audit",
    "disparity",
    "fair_assignment",
    "flagged_by_group",
    "groups_of",
    "matrices_given",
    "parity_labels",
    "parity_weights",
    "read_groups",
]


def __getattr__(name: str) -> Any:
    # The only part that needs torch.
    if name == "ParityClassifier":
        from crowdwise.trust.fairness.parity_classifier import ParityClassifier

        return ParityClassifier
    raise AttributeError(f"module 'crowdwise.trust.fairness' has no attribute {name!r}")
