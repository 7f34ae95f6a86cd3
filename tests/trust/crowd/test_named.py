"""Detectors that are asked for by name."""

from __future__ import annotations

import numpy as np
import pytest

from crowdwise import Annotations, make
from crowdwise.errors import SettingError
from crowdwise.trust.crowd import eigen_scores, jaffe, named, spem
from crowdwise.trust.crowd.table import examine, for_terminal


@pytest.fixture(scope="module")
def votes() -> Annotations:
    """Two classes, 400 items: six who are right in four of five cases, two who guess."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=400)
    labels = [np.where(rng.random(400) < 0.8, truth, 1 - truth) for _ in range(6)]
    labels += [rng.integers(2, size=400) for _ in range(2)]
    return Annotations.from_matrix(np.column_stack(labels), annotators=list("abcdefxy"))


@pytest.mark.slow
def test_scores_are_columns_and_flags_are_flags(votes: Annotations) -> None:
    result = make("dawid-skene").fit(votes).result_
    found = examine(result, detectors=["spem", "eigen-ratio", "jaffe:2"])
    table = found.table.sort("annotator")
    np.testing.assert_array_equal(table["spem"], spem.score(result).frame["score"])
    np.testing.assert_array_equal(table["eigen-ratio"], eigen_scores.score(result, kind="eigen-ratio").frame["score"])
    assert (table["jaffe"] - 1).to_list() == list(jaffe.groups(votes, 2).values())
    flags = dict(table.select("annotator", "flags").rows())
    # One of those who guess is pruned by the paper's threshold; jaffe flags nobody.
    assert [name for name in flags if "spem" in flags[name]] == spem.score(result).flagged == ["y"]
    assert table.sort("eigen-ratio")["annotator"][:2].sort().to_list() == ["x", "y"]
    assert not any("jaffe" in text for text in flags.values())
    assert {"spem", "eigen-ratio", "jaffe"} <= set(for_terminal(found.table).columns)
    assert not {"spem", "ghosh", "jaffe"} & set(examine(result).table.columns)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("spam", "did you mean 'spem'"),
        ("jaffe", "such as jaffe:3"),
        ("jaffe:1", "2 or more"),
        ("spem:2", "no detector 'spem:2'"),
    ],
)
def test_unknown_names_are_refused(name: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        named.check_named(name)
