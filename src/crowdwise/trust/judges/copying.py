"""Where a fit of judges in groups starts: which groups have several members, and how often these give the group's answer."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.crowd.fusion import fidelity, joined

__all__ = ["copying", "several"]


def several(codes: Integers) -> list[Flags]:
    """Of every level above the judges, which groups have several members: judges, or groups of the level below."""
    below, found = np.arange(codes.shape[1]), []
    for code in codes:
        first = np.unique(below, return_index=True)[1]
        found.append(np.bincount(code[first], minlength=int(code.max(initial=-1)) + 1) > 1)
        below = code
    return found


def copying(votes: Annotations, codes: Integers) -> list[Floats]:
    """lam of every level by how often members agree, once members of smaller groups have been made one."""
    groups, place, below = several(codes), np.arange(votes.n_annotators), np.arange(votes.n_annotators)
    lams: list[Floats] = []
    group = np.full(votes.n_annotators, -1)
    for code, is_several in zip(codes, groups, strict=True):
        if lams:
            votes, moved = joined(votes, group)
            place, group = moved[place], np.full(votes.n_annotators, -1)
        group[place] = np.where(is_several[code], code, -1)
        lam = np.zeros(int(below.max(initial=-1)) + 1)
        lam[below] = np.nan_to_num(fidelity(votes, group), nan=0.0)[place]
        lams.append(lam)
        below = code
    lams.append(np.zeros(len(groups[-1])))
    # Who is alone in a group takes its place, and the group then answers as its member.
    for d in reversed(range(len(codes))):
        node = np.arange(codes.shape[1]) if d == 0 else codes[d - 1]
        alone = ~groups[d][codes[d]]
        lams[d][node[alone]] = lams[d + 1][codes[d][alone]]
        if d + 1 < len(codes):
            lams[d + 1][~groups[d]] = 1.0
    return lams
