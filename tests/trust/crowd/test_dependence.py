"""Which reading of the votes is right: known labels and trusted annotators choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.registry import make
from crowdwise.trust.crowd.dependence import find, settled_by_gold, settled_by_trust


def test_known_labels_choose_between_the_readings() -> None:
    votes, truth = judges()
    result = make("dawid-skene").fit(votes).result_
    found = find(votes)
    assert len(found.readings) > 1
    gold = np.where(np.arange(votes.n_items) < 60, truth, -1)
    known = replace(votes, gold=gold.astype(np.int16))
    settled = settled_by_gold(make("dawid-skene").fit(known).result_, found)
    assert [group.names(votes) for group in settled.groups] == [["judge-0", "judge-1", "judge-2"]]
    assert len(settled.readings) == 1
    # Known labels that agree with both readings decide nothing.
    assert settled_by_gold(result, found) is found


def judges() -> tuple[Annotations, np.ndarray]:
    """Three judges who share errors, four who do not; two classes."""
    rng = np.random.default_rng(1)
    truth = rng.integers(2, size=600)

    def seen(right: float, what: np.ndarray) -> np.ndarray:
        return np.where(rng.random(len(what)) < right, what, 1 - what)

    shared = seen(0.75, truth)
    columns = [seen(0.97, shared) for _ in range(3)] + [seen(0.85, truth) for _ in range(4)]
    names = [f"judge-{j}" for j in range(7)]
    return Annotations.from_matrix(np.column_stack(columns), annotators=names), truth


def test_a_trusted_annotator_chooses_between_the_readings() -> None:
    votes, _ = judges()
    found = find(votes)
    assert len(found.readings) == 2
    (family,), (others,) = (reading.groups for reading in found.readings)
    for group, left in ((others, family), (family, others)):
        settled = settled_by_trust(votes, found, [group.names(votes)[0]])
        assert [one.names(votes) for one in settled.groups] == [left.names(votes)]
    # Somebody of each side cannot both be right: then both readings stay.
    both = [family.names(votes)[0], others.names(votes)[0]]
    assert settled_by_trust(votes, found, both).readings == found.readings
    with pytest.raises(SettingError, match="no annotator is called 'nobody'"):
        settled_by_trust(votes, found, ["nobody"])
