from __future__ import annotations

import pytest

from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError


def test_given_classes_are_kept_and_checked():
    tags = TokenVotes.from_arrays([1], [1], ["a"], ["O"], classes=["O", "B-X"])
    assert tags.votes.classes.tolist() == ["O", "B-X"]
    with pytest.raises(InputError, match="'B-Y' is not among the classes"):
        TokenVotes.from_arrays([1], [1], ["a"], ["B-Y"], classes=["O", "B-X"])


def test_a_type_with_inside_tags_only_gets_its_beginning():
    assert TokenVotes.from_arrays([1], [1], ["a"], ["I-X"]).votes.classes.tolist() == ["O", "B-X", "I-X"]
