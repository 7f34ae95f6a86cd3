"""Where no column has a usual name: what the message offers."""

from __future__ import annotations

from pathlib import Path

import pytest

import crowdwise
from crowdwise import LabelSets
from crowdwise.errors import InputError


def test_a_column_of_tags_is_offered_as_several_labels(tmp_path: Path) -> None:
    path = tmp_path / "tags.csv"
    path.write_text('item,annotator,tags\na,x,"cat, dog"\na,y,cat\nb,x,dog\nb,y,"dog, fox"\n')
    with pytest.raises(InputError) as caught:
        crowdwise.read(path)
    assert f"; if 'tags' holds several labels: crowdwise aggregate {path} --type multilabel" in str(caught.value)
    # What that command reads.
    assert crowdwise.read(path, LabelSets).to_frame()["label"].to_list() == ["cat|dog", "cat", "dog", "dog|fox"]
    path.write_text("item,annotator,colour\na,x,red\na,y,blue\n")
    with pytest.raises(InputError) as caught:
        crowdwise.read(path)
    assert "multilabel" not in str(caught.value)
