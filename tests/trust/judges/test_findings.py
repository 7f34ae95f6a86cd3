"""The table of judges."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.registry import make
from crowdwise.trust.judges import Families, examine


def test_a_judge_without_a_family_adds_what_its_family_adds() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=120)
    columns = np.column_stack([np.where(rng.random(120) < right, truth, 1 - truth) for right in (0.9, 0.8, 0.8, 0.75, 0.7)])
    votes = Annotations.from_matrix(columns, annotators=list("abcde"))
    families = Families.of(votes, {"a": "one", "b": "one"})
    table = examine(votes, families, make("dawid-skene").fit(votes).result_.posterior, resamples=0).table
    single = table.filter(table["family"] == "")
    assert single.height == 3
    assert single["family_bits_added"].to_list() == single["bits_added"].to_list()
    # Two who err on their own add more together than either does to the other and the rest.
    pair = table.filter(table["family"] == "one")
    assert pair["family_bits_added"].n_unique() == 1
    assert (pair["family_bits_added"] > pair["bits_added"]).all()
