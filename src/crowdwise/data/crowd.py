"""What is known of votes in one place, wherever they lie."""

from __future__ import annotations

from typing import Protocol

from crowdwise.kernels.types import Array, Floats

__all__ = ["Crowd", "Vocabularies"]


class Vocabularies(Protocol):
    """Who voted, for what."""

    @property
    def annotators(self) -> Array:
        """Their ids, [A]."""
        ...

    @property
    def classes(self) -> Array:
        """The classes, [K]."""
        ...

    @property
    def n_annotators(self) -> int: ...  # noqa: D102
    @property
    def n_classes(self) -> int: ...  # noqa: D102


class Crowd(Vocabularies, Protocol):
    """Who gave which label how often: all that is known of votes in one place, wherever they lie. `Annotations` are one."""

    @property
    def answers(self) -> Floats:
        """Weight of the votes of each annotator for each class, [A, K]."""
        ...

    @property
    def votes_per_annotator(self) -> Array: ...  # noqa: D102
    @property
    def n_items(self) -> int: ...  # noqa: D102
    @property
    def n_votes(self) -> int: ...  # noqa: D102
