"""The BIO scheme: what a tag means, which tag may follow which, and the spans of a tagged sequence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from crowdwise.data.answers import ReadOnly
from crowdwise.data.storable import storable
from crowdwise.errors import InputError
from crowdwise.kernels.types import Array, Flags, Integers

__all__ = ["Spans", "Tags"]

_OUTSIDE, _BEGIN, _INSIDE = 0, 1, 2


@storable
@dataclass(frozen=True, eq=False)
class Spans(ReadOnly):
    """Runs of tokens of one type.

    Attributes
    ----------
    start, end : [M]
        First and last token of every span, as positions among all tokens.
    kind : [M]
        Code of its type.
    """

    start: Integers
    end: Integers
    kind: Integers

    def __len__(self) -> int:
        return len(self.start)


@storable
@dataclass(frozen=True, eq=False)
class Tags(ReadOnly):
    """The tags of a vocabulary: O is outside, B-X begins a span of type X, I-X goes on with it; any other is outside.

    Attributes
    ----------
    role : [K]
        0 outside, 1 begin, 2 inside.
    kind : [K]
        Code of the type, -1 outside.
    types
        Names of the types.
    """

    role: Integers
    kind: Integers
    types: list[str]

    @classmethod
    def of(cls, classes: Array, *, bio: bool) -> Tags:
        """Understand the classes; with `bio`, others than O, B-X and I-X are an error."""
        names = [str(name) for name in classes.tolist()]
        strange = [name for name in names if name != "O" and name[:2] not in ("B-", "I-")]
        if bio and strange:
            raise InputError(
                f"the tag {strange[0]!r} is none of O, B-TYPE and I-TYPE; for other tags set bio=False (--set bio=false)"
            )
        headless = sorted(name for name in names if name[:2] == "I-" and f"B-{name[2:]}" not in names)
        if bio and headless:
            raise InputError(
                f"the classes have {headless[0]!r} and no {'B-' + headless[0][2:]!r} to begin it; add it, or set bio=False "
                "(--set bio=false)"
            )
        types = sorted({name[2:] for name in names if name[:2] in ("B-", "I-")})
        role = np.array([{"B-": _BEGIN, "I-": _INSIDE}.get(name[:2], _OUTSIDE) for name in names])
        kind = np.array([types.index(name[2:]) if name[:2] in ("B-", "I-") else -1 for name in names])
        return cls(role, kind, types)

    @cached_property
    def allowed(self) -> Flags:
        """Whether tag k may follow tag j, and in the last row whether it may come first, [K + 1, K]."""
        inside = self.role == _INSIDE
        follows = ~inside | (self.kind[:, None] == self.kind)
        return np.vstack([follows, ~inside])

    def spans(self, tags: Integers, first: Flags) -> Spans:
        """Spans of tags, [N]; `first` marks the first token of every sequence.

        I-X after anything but B-X or I-X begins a span, as usual in scoring.
        """
        role, kind = self.role[tags], self.kind[tags]
        goes_on = (role == _INSIDE) & ~first
        goes_on[1:] &= kind[1:] == kind[:-1]
        start = np.flatnonzero((role != _OUTSIDE) & ~goes_on)
        stops = np.append(np.flatnonzero(~goes_on), len(tags))
        end = stops[np.searchsorted(stops, start, side="right")] - 1
        return Spans(start, end, kind[start])

    def beginning(self, kind: Integers) -> Integers:
        """Tag that begins each of these types, -1 where there is none."""
        return self._tag(_BEGIN)[kind]

    def following(self, kind: Integers) -> Integers:
        """Tag that goes on with each of these types, -1 where there is none."""
        return self._tag(_INSIDE)[kind]

    def _tag(self, role: int) -> Integers:
        found = np.full(len(self.types), -1)
        here = np.flatnonzero(self.role == role)
        found[self.kind[here]] = here
        return found
