"""The setting `groups`: which annotators depend on each other, given or found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.independence import find
from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers
from crowdwise.parts.annotators.group_votes import GroupVotes

__all__ = ["ABOUT_GROUPS", "ABOUT_LEVEL", "given_groups", "groups_of", "shares_of_groups"]

ABOUT_GROUPS = 'Groups that share their errors: "auto" finds them, or a mapping annotator -> group; others stand alone.'
ABOUT_LEVEL = "With groups=auto, the chance that any group of independent annotators is found."


def groups_of(votes: Annotations, groups: Any, level: float) -> Integers:
    """Group of every annotator, [A]; -1 for those who stand alone.

    "auto" looks in the votes alone, before any fit, and takes the preferred reading (`crowdwise.engines.readings`).
    """
    if groups != "auto":
        return given_groups(votes, groups)[0]
    found = find(votes, level=level)
    return found.readings[0].code if found else np.full(votes.n_annotators, -1)


def shares_of_groups(votes: Annotations, group_a: Integers) -> Floats:
    """Shares of the groups' voices, [N, K], one voice each: a start in which the largest group is not the crowd."""
    even = np.full(votes.n_classes, 1 / votes.n_classes)
    return GroupVotes.start(group_a, np.ones(votes.n_annotators), 1.0).shares(votes, even)


def given_groups(votes: Annotations, groups: Any) -> tuple[Integers, list[str]]:
    """Group of every annotator, [A], -1 for those who stand alone, and the groups' names, from annotator -> group."""
    if not isinstance(groups, Mapping):
        raise SettingError(f'groups must be "auto" or a mapping annotator -> group; got {groups!r}')
    given = {str(name): str(group) for name, group in groups.items()}
    names = [given.get(str(name)) for name in votes.annotators]
    if given and votes.n_annotators and not any(names):
        raise SettingError(f"groups names no annotator of these votes; it has {', '.join(list(given)[:5])}, ...")
    members: dict[str, list[int]] = {}
    for a, name in enumerate(names):
        if name is not None:
            members.setdefault(name, []).append(a)
    several = sorted(name for name, who in members.items() if len(who) > 1)
    codes = np.full(votes.n_annotators, -1)
    for code, group in enumerate(several):
        codes[members[group]] = code
    return codes, several
