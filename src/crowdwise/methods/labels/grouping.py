"""The setting `groups`: which annotators depend on each other, given or found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.dependence import group_codes, residual_agreement
from crowdwise.engines.loop import alternate
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import Problem
from crowdwise.kernels.types import Integers
from crowdwise.parts.annotators.model import Confusion, row_smoothing

__all__ = ["ABOUT_GROUPS", "ABOUT_LEVEL", "given_groups", "groups_of"]

ABOUT_GROUPS = 'Groups that share their errors: "auto" finds them, or a mapping annotator -> group; others stand alone.'
ABOUT_LEVEL = "With groups=auto, the chance (Bonferroni) that any independent pair is put together."


def groups_of(problem: Problem, groups: Any, level: float) -> Integers:
    """Group of every annotator, [A]; -1 for those who stand alone.

    "auto" fits Dawid-Skene and clusters the agreement that it leaves unexplained.
    """
    votes = problem.votes
    if groups == "auto":
        if votes.n_classes < 2:
            return np.full(votes.n_annotators, -1)
        pseudo = row_smoothing(votes, 1 / votes.n_classes)
        if problem.history is not None:
            pseudo = pseudo + problem.history
        # Always from vote shares: an updated fit must find the groups that a fit to all votes finds.
        first = replace(problem, warm=None)
        model = Confusion.start(pseudo, votes.n_annotators)
        fit = alternate(votes, first.marginals(), model, start=first.shares, known=problem.known, max_iter=200, tol=1e-6)
        residuals = residual_agreement(votes, fit.posterior, fit.annotators.confusion())
        return group_codes(residuals, votes.n_annotators, level)
    return given_groups(votes, groups)[0]


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
