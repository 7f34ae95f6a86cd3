"""Annotators who share errors: what the votes show (`crowdwise.engines.readings`), and which reading of them is right.

Votes give a tree without a root: which faction is the crowd cannot be seen in them. Two things from outside can choose:
labels that are known, and an annotator who is known to share no errors.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.readings import Dependence, Reading, SharedErrors, find
from crowdwise.errors import SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.trust.crowd.cautious import refitted

__all__ = ["Dependence", "Reading", "SharedErrors", "find", "settled_by_gold", "settled_by_trust"]


# Of the test by which known labels choose between readings.
_LEVEL = 0.05


def settled_by_gold(result: Result, found: Dependence) -> Dependence:
    """Leave out readings of the votes that known labels speak against; the best of the others comes first.

    Every reading is fitted without the known labels; one goes if it is wrong on so many more of them than the best that
    chance is no excuse (a sign test at 5 % over the known items in which the two differ).
    """
    gold = result.votes.gold
    if gold is None or len(found.readings) < 2 or not (gold >= 0).any():
        return found
    known = np.flatnonzero(gold >= 0)
    votes = replace(result.votes, gold=None)
    right = [refitted(result, votes, reading).result_.codes[known] == gold[known] for reading in found.readings]
    order = sorted(range(len(right)), key=lambda i: -int(right[i].sum()))
    best = right[order[0]]
    kept = [i for i in order if not _worse(int((best & ~right[i]).sum()), int((~best & right[i]).sum()))]
    return replace(found, readings=tuple(found.readings[i] for i in kept))


def settled_by_trust(votes: Annotations, found: Dependence, trusted: Collection[Any]) -> Dependence:
    """Leave out readings in which one of the `trusted` annotators shares errors, as long as another reading is left."""
    who = {str(name): code for code, name in enumerate(votes.annotators.tolist())}
    unknown = [name for name in trusted if str(name) not in who]
    if unknown:
        raise SettingError(f"no annotator is called {unknown[0]!r}, who is to be trusted")
    code = np.array([who[str(name)] for name in trusted], np.int64)
    kept = tuple(reading for reading in found.readings if (reading.code[code] < 0).all())
    return replace(found, readings=kept or found.readings)


def _worse(only_best: int, only_other: int) -> bool:
    from scipy.stats import binomtest

    differ = only_best + only_other
    return differ > 0 and binomtest(only_best, differ, alternative="greater").pvalue <= _LEVEL
