from __future__ import annotations

from typing import Any

import pytest

from crowdwise.campaign.names import mapping_of, pairs_of
from crowdwise.errors import InputError


@pytest.mark.parametrize("given", [{"ann": 3, 7: 2.5}, {}, 4, None])
def test_a_mapping_comes_back_from_its_pairs(given: Any) -> None:
    assert mapping_of(pairs_of(given)) == given


@pytest.mark.parametrize("saved", [[1], ["ab"], [["ann"]], [["ann", 1, 2]], [[["ann"], 1]], [["ann", 1], None]])
def test_what_are_no_pairs_is_refused(saved: Any) -> None:
    with pytest.raises(InputError, match="the campaign is damaged"):
        mapping_of(saved)
