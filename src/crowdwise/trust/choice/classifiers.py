"""Which classifiers are tried by default, from simple to rich."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crowdwise.estimator.registry import METHODS, classifiers
from crowdwise.trust.choice.candidates import named_methods

__all__ = ["CANDIDATES", "Candidate", "check_methods"]


@dataclass(frozen=True)
class Candidate:
    """A classifier with settings; `label` is what it is called in a choice, `rank` counts up from the simplest."""

    label: str
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    rank: int = 0

    @property
    def network(self) -> bool:
        """Whether it needs torch, and takes images."""
        return METHODS[self.method].extra == "torch" or self.settings.get("classifier") == "network"


CANDIDATES = (
    Candidate("two-stage (aggregator=majority)", "two-stage", {"aggregator": "majority"}),
    Candidate("two-stage", "two-stage", rank=1),
    Candidate("raykar", "raykar", rank=2),
    Candidate("raykar (classifier=gaussian)", "raykar", {"classifier": "gaussian"}, rank=2),
    Candidate("crowd-em", "crowd-em", rank=3),
    Candidate("ccem", "ccem", rank=4),
    Candidate("geocrowdnet-f", "geocrowdnet-f", rank=4),
    Candidate("bayes-dgc", "bayes-dgc", rank=4),
    Candidate("deep-mf", "deep-mf", rank=5),
    # The likelihood that holds on weak features as well, and need not be chosen by three fits instead of one.
    # Its own choices would take three more fits.
    Candidate("svgpcr (likelihood=softmax)", "svgpcr", {"likelihood": "softmax", "scaling": "columns"}, rank=5),
)


def check_methods(methods: Any) -> tuple[Candidate, ...]:
    """The candidates by name; refuses unknown ones, none at all, and a choice among choices."""
    if methods is None:
        return CANDIDATES
    names = named_methods(methods, classifiers(), "classifier")
    return tuple(Candidate(name, name, rank=rank) for rank, name in enumerate(names))
