"""Which classifiers are tried by default, from simple to rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crowdwise.errors import SettingError, did_you_mean
from crowdwise.estimator.registry import METHODS, classifiers

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
    Candidate("ccem", "ccem", rank=3),
    Candidate("geocrowdnet-f", "geocrowdnet-f", rank=3),
)


def check_methods(methods: Any) -> tuple[Candidate, ...]:
    """The candidates by name; refuses unknown ones, none at all, and a choice among choices."""
    if methods is None:
        return CANDIDATES
    if isinstance(methods, str):
        methods = [name.strip() for name in methods.split(",")]
    if not isinstance(methods, Sequence) or not methods or not all(isinstance(name, str) for name in methods):
        raise SettingError(f"methods must be names of classifiers, simplest first; got {methods!r}")
    known = [name for name, method in classifiers().items() if method.family != "choice"]
    for name in methods:
        if name not in known:
            raise SettingError(f"methods: no classifier {name!r}{did_you_mean(name, known)} (there are {', '.join(known)})")
    return tuple(Candidate(name, name, rank=rank) for rank, name in enumerate(dict.fromkeys(methods)))
