"""Tables with a column per label that is ticked or not; expected votes are written down by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.io.helpers import triples, write, write_lines

from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import InputError
from crowdwise.io import read

ONE = [("p1", "ann", "cat"), ("p1", "bob", "dog"), ("p2", "ann", "dog"), ("p2", "bob", None), ("p3", "cem", "fox")]
LABELS = ("cat", "dog", "fox")


def ticked(yes: str, no: str) -> str:
    rows = [(item, who, *(yes if label == said else no for label in LABELS)) for item, who, said in ONE]
    return "item,annotator,cat,dog,fox\n" + "".join(",".join(row) + "\n" for row in rows)


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("1.0", "0.0"), ("TRUE", "FALSE"), ("x", ""), ("yes", "no"), ("1", "")])
def test_one_tick_is_a_vote_and_none_is_missing(yes: str, no: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", ticked(yes, no))
    expected = [row for row in ONE if row[2] is not None]
    for names in ("cat,dog,fox", "fox, c*,dog"):
        votes = read(path, label=names)
        assert triples(votes) == expected
        assert votes.n_missing == 1
    # A column without such a tick is none of them.
    assert read(path, label="cat,fox").classes.tolist() == ["cat", "fox"]


def test_records_and_boxes_that_hold_their_own_names(tmp_path: Path) -> None:
    rows = [{"item": i, "annotator": who, **{label: label == said for label in LABELS}} for i, who, said in ONE]
    expected = [row for row in ONE if row[2] is not None]
    assert triples(read(write_lines(tmp_path / "v.jsonl", rows), label="cat,dog,fox")) == expected
    text = ticked("?", "").splitlines()
    text[1:] = [line.replace("?", said or "") for line, (_, _, said) in zip(text[1:], ONE, strict=True)]
    assert triples(read(write(tmp_path / "v.csv", "\n".join(text) + "\n"), label="cat,dog,fox")) == expected


def test_several_ticks_are_a_set(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,joy,fear\na,x,1,1\na,y,1,0\nb,x,0,0\nb,y,0,1\n")
    with pytest.raises(InputError, match=r"row 2: several columns are ticked, 'joy', 'fear'.*--type multilabel"):
        read(path, label="joy,fear")
    rows = read(path, LabelSets, label="joy,fear").to_frame().rows()
    assert rows == [("a", "x", "fear|joy"), ("a", "y", "joy"), ("b", "x", "none"), ("b", "y", "fear")]


def test_what_is_no_tick_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,cat,dog\na,x,1,0\na,y,2,0\n")
    with pytest.raises(InputError, match="row 3: '2' in column 'cat' says not whether it is ticked"):
        read(path, label="cat,dog")
    with pytest.raises(InputError, match="no column 'cat,owl'"):
        read(path, label="cat,owl")
    # One column that is called so is that column.
    assert read(write(tmp_path / "w.csv", 'item,annotator,"a,b",a,b\nx,y,1,0,1\n'), label="a,b").classes.tolist() == [1]


def test_a_table_without_labels_names_the_command(tmp_path: Path) -> None:
    names = tmp_path / "v.csv"
    with pytest.raises(InputError, match="if each of 'cat', 'dog', 'fox' is a label that was ticked: ") as caught:
        read(write(names, ticked("1", "0")))
    assert str(caught.value).endswith("--label cat,dog,fox --type multilabel")
    whole = "".join(line + "\n" for line in ticked("1", "0").splitlines() if "0,0,0" not in line)
    with pytest.raises(InputError, match=r"was ticked: crowdwise aggregate \S+ --label cat,dog,fox$"):
        read(write(names, whole))
