"""Answers of every kind from files, through `crowdwise.read`."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.io.helpers import write, write_json

import crowdwise
from crowdwise import Annotations, Comparisons, LabelSets, Ratings, Similarities, TokenVotes
from crowdwise.errors import InputError

FILES = {
    Annotations: "item,annotator,label\na,x,cat\nb,x,dog\n",
    Comparisons: "item_a,item_b,annotator,winner\na,b,x,a\na,c,x,tie\n",
    Similarities: "item_a,item_b,annotator,same\na,b,x,1\na,c,x,0\n",
    Ratings: "item,annotator,score\na,x,1.5\nb,x,2\n",
    LabelSets: "item,annotator,label\na,x,cat|dog\nb,x,none\n",
    TokenVotes: "sequence,position,annotator,label\n1,1,x,O\n1,2,x,B-X\n",
}


@pytest.mark.parametrize("kind", FILES, ids=lambda kind: kind.__name__)
def test_one_call_reads_every_kind(tmp_path: Path, kind: type) -> None:
    path = write(tmp_path / "v.csv", FILES[kind])
    found = crowdwise.read(path, kind)
    assert type(found) is kind
    assert found.n_votes == 2
    frame = pl.read_csv(path)
    frame.write_parquet(tmp_path / "v.parquet")
    frame.write_ndjson(tmp_path / "v.jsonl")
    for name in ("v.parquet", "v.jsonl"):
        assert crowdwise.read(tmp_path / name, kind).to_frame().equals(found.to_frame())


@pytest.mark.parametrize("kind", [Comparisons, Similarities, Ratings, LabelSets])
def test_what_is_no_table_is_refused_with_the_columns_it_should_have(tmp_path: Path, kind: type) -> None:
    with pytest.raises(InputError, match=r"expected a table with a header and columns .*annotator"):
        crowdwise.read(write(tmp_path / "m.txt", "1 2\n3 4\n"), kind)


def test_a_column_plays_one_role(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", FILES[Comparisons])
    with pytest.raises(InputError, match="'item_a' cannot be both first and second; name one with --second"):
        crowdwise.read(path, Comparisons, second="item_a")


def test_lists_of_labels_are_read_from_json_alone_where_sets_are_asked_for(tmp_path: Path) -> None:
    path = write_json(tmp_path / "v.json", [{"item": 1, "annotator": "x", "label": ["cat", "dog"]}])
    assert crowdwise.read(path, LabelSets).to_frame().rows() == [(1, "x", "cat|dog")]
    with pytest.raises(InputError, match="is no finite number"):
        crowdwise.read(path, Ratings, value="label")
    with pytest.raises(InputError, match="record 1: several labels"):
        crowdwise.read(path)


def test_only_kinds_of_answers_are_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a kind of answers"):
        crowdwise.read(write(tmp_path / "v.csv", FILES[Annotations]), dict)  # type: ignore[type-var]
