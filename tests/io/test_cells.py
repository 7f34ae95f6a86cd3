from __future__ import annotations

import json
import shlex
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.helpers import triples, write, write_lines

from crowdwise import LabelSets
from crowdwise.errors import InputError
from crowdwise.io import read
from crowdwise.io.cells import as_list, find_joined, split_cell

HEAD = "item,annotator,label\n"
SETS = [("x", "a", "cat|dog"), ("x", "b", "cat"), ("y", "a", "dog"), ("y", "b", "bird|cat")]


def sets(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    return read(path, LabelSets, **options).to_frame().rows()


@pytest.mark.parametrize(
    ("join", "alone"),
    [
        ("{0}\n{1}", "{0}"),
        ("{0};{1}", "{0}"),
        ("{0} | {1}", "{0}"),
        ("{0}, {1}", "{0}"),
        ("[{0}] [{1}]", "[{0}]"),
        ('["{0}", "{1}"]', '["{0}"]'),
        ("['{0}', '{1}']", "['{0}']"),
        ("['{0}' '{1}']", "['{0}']"),
    ],
)
def test_several_answers_in_a_cell_are_refused_and_split(tmp_path: Path, join: str, alone: str) -> None:
    cells = [join.format("cat", "dog"), alone.format("cat"), alone.format("dog"), join.format("bird", "cat")]
    rows = [(item, who, cell) for (item, who, _), cell in zip(SETS, cells, strict=True)]
    path = tmp_path / "v.csv"
    pl.DataFrame(rows, schema=["item", "annotator", "label"], orient="row").write_csv(path)
    with pytest.raises(InputError, match=r"v\.csv row 2: several labels in one cell, .* in 2 of 4 votes"):
        read(path)
    assert sets(path) == SETS
    assert len(read(path, several="keep").classes) == 4


def test_the_command_of_the_refusal_is_the_one_that_reads_it(tmp_path: Path) -> None:
    path = write(tmp_path / "it's here.csv", "a b,who,what\nx,a,cat;dog\nx,b,cat\ny,a,dog\n")
    with pytest.raises(InputError) as refusal:
        read(path, item="a b", annotator="who", label="what")
    text = str(refusal.value).split("several labels: ")[1].split(" (in Python")[0]
    words = shlex.split(text)
    assert words[:3] == ["crowdwise", "aggregate", str(path)]
    assert words[3:] == ["--item", "a b", "--annotator", "who", "--label", "what", "--type", "multilabel"]


@pytest.mark.parametrize(
    "labels",
    [
        ["yes, surely", "no, surely", "yes, maybe", "no, maybe"],
        ["animal;cat", "animal;dog", "plant;tree", "plant;moss"],
        ["1,5", "2,5", "3,5"],
        ["a|b", "c"],
        ["New York, NY", "Boston, MA", "Austin, TX"],
    ],
)
def test_grades_paths_and_places_are_classes(labels: list[str]) -> None:
    assert find_joined(labels) is None


def test_pairs_that_never_stand_alone_are_seen_where_parts_change_places() -> None:
    found = find_joined(["a,b", "b,c", "a,c", "c,d"])
    assert found is not None
    assert found.mark == ","


def test_lists_of_one_are_one_label(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + '1,a,"[""cat""]"\n1,b,[]\n2,a,"[""dog""]"\n')
    notes: list[str] = []
    votes = read(path, notes=notes)
    assert triples(votes) == [(1, "a", "cat"), (2, "a", "dog")]
    assert votes.n_missing == 1
    assert "lists of one" in notes[0]


@pytest.mark.parametrize(("cell", "parts"), [("", None), ("[a] b", None), ("(1, 2)", [1, 2]), ("{'b', 'a'}", ["a", "b"])])
def test_what_is_a_list(cell: str, parts: list[Any] | None) -> None:
    assert as_list(cell) == parts


def test_parts_are_kept_once_and_trimmed() -> None:
    assert split_cell(" a; b ;a;;", ";") == ["a", "b"]


# -- lists of annotators and of labels -----------------------------------------------------------


VOTES = [(1, "ann", "x"), (1, "bob", "y"), (2, "ann", "x")]
RECORDS = [{"id": 1, "annotators": ["ann", "bob"], "labels": ["x", "y"]}, {"id": 2, "annotators": ["ann"], "labels": ["x"]}]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json", "parquet"])
@pytest.mark.parametrize("names", [("id", "annotators", "labels"), ("item", "annotator", "label")])
def test_lists_in_cells_become_votes(tmp_path: Path, suffix: str, names: tuple[str, str, str]) -> None:
    records = [dict(zip(names, record.values(), strict=True)) for record in RECORDS]
    path = tmp_path / f"v.{suffix}"
    if suffix == "parquet":
        pl.DataFrame(records).write_parquet(path)
    elif suffix == "csv":
        texts = [{name: str(cell) for name, cell in record.items()} for record in records]
        pl.DataFrame(texts).write_csv(path)
    elif suffix == "json":
        write(path, json.dumps(records))
    else:
        write_lines(path, records)
    assert triples(read(path)) == VOTES


def test_lists_of_different_lengths_are_refused_with_their_row(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", 'id,annotators,labels\n1,"[""a""]","[""x""]"\n2,"[""a"",""b""]","[""x""]"\n')
    with pytest.raises(InputError, match=r"v\.csv row 3: 2 annotators and 1 labels"):
        read(path)


def test_columns_of_items_and_votes_of_other_lengths_are_not_one_row_of_lists(tmp_path: Path) -> None:
    path = tmp_path / "v.json"
    path.write_text('{"item": ["i", "i", "j"], "annotator": ["a", "b"], "label": ["x", "y"]}')
    with pytest.raises(InputError, match="3 items beside 2 votes in the lists of one row"):
        read(path)


def test_nested_lists_are_several_labels(tmp_path: Path) -> None:
    rows = [{"id": 1, "annotators": ["a", "b"], "labels": [["x", "y"], []]}, {"id": 2, "annotators": ["a"], "labels": [["x"]]}]
    path = write_lines(tmp_path / "v.jsonl", rows)
    with pytest.raises(InputError, match=r"v\.jsonl row 1: several labels"):
        read(path)
    assert sets(path) == [(1, "a", "x|y"), (2, "a", "x")]
    rows[0]["labels"] = [["y"], []]  # type: ignore[index]
    votes = read(write_lines(tmp_path / "w.jsonl", rows))
    assert triples(votes) == [(1, "a", "y"), (2, "a", "x")]
    assert votes.n_missing == 1


# -- platforms -----------------------------------------------------------------------------------


def test_two_ticked_buttons_are_two_labels(tmp_path: Path) -> None:
    text = "HITId,WorkerId,Answer.q.cat,Answer.q.dog\nh,a,true,true\nh,b,true,false\nh,c,false,false\n"
    path = write(tmp_path / "batch.csv", text)
    with pytest.raises(InputError, match=r"batch\.csv row 2: several labels in one cell"):
        read(path)
    assert sets(path, question="q") == [("h", "a", "cat|dog"), ("h", "b", "cat")]


def test_several_labels_are_read_from_every_platform(tmp_path: Path) -> None:
    tasks = [{"id": 1, "annotations": [{"completed_by": 5, "result": [
        {"from_name": "mood", "value": {"choices": ["x", "y"]}}]}, {"completed_by": 6, "result": [
        {"from_name": "mood", "value": {"choices": ["x"]}}]}]}]  # fmt: skip
    path = write(tmp_path / "ls.json", json.dumps(tasks))
    assert sets(path) == [(1, "5", "x|y"), (1, "6", "x")] or sets(path) == [(1, 5, "x|y"), (1, 6, "x")]
    appen = '_unit_id,_worker_id,tags,tags_gold\n1,a,"x\ny",\n1,b,x,\n2,a,y,\n'
    assert sets(write(tmp_path / "f.csv", appen), question="tags") == [(1, "a", "x|y"), (1, "b", "x"), (2, "a", "y")]
    prodigy = [{"_input_hash": 1, "_annotator_id": "a", "answer": "accept", "accept": ["x", "y"], "options": []}]
    assert sets(write_lines(tmp_path / "p.jsonl", prodigy)) == [(1, "a", "x|y")]


def test_rows_of_one_answer_are_put_together_and_said(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "x,a,cat;dog\nx,a,bird\nx,b,cat\ny,b,dog\n")
    notes: list[str] = []
    assert sets(path, notes=notes) == [("x", "a", "bird|cat|dog"), ("x", "b", "cat"), ("y", "b", "dog")]
    assert "2 rows share item and annotator; together they are one answer" in notes[-1]


def test_a_separator_that_is_given_stands(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "x,a,cat/dog\nx,b,cat;dog\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sets(path, separator="/") == [("x", "a", "cat|dog"), ("x", "b", "cat;dog")]


@pytest.mark.parametrize("cell", ["{[1]}", "[" * 5000 + "]", '["a\\ud800"]', "['\\d', 'a'", "(" * 300 + ")" * 300])
def test_what_only_looks_like_a_list_is_text(cell: str) -> None:
    assert as_list(cell) is None
