from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.fuzz.readback import WAYS, compare

# What no table can hold, or what nobody can tell: both are said.
REFUSALS = ("id is missing", "every label is missing", "a carriage return alone", "several labels in one cell")


@pytest.mark.slow
def test_hostile_tables_come_back_as_they_were_written(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for index in range(450):
        way, outcome = compare(0, index, tmp_path)
        refused = outcome.startswith("refused") and any(words in outcome for words in REFUSALS)
        assert outcome == "equal" or refused, (index, way, outcome)
        outcomes[way] += outcome == "equal"
    # Most are read, in every way.
    assert set(outcomes) == set(WAYS)
    assert min(outcomes.values()) > 30, outcomes
