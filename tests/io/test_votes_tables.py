from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.io.helpers import gold, triples, write, write_json, write_lines

from crowdwise.errors import InputError
from crowdwise.io import read


def test_ids_with_leading_zeros_stay_text(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", "task,worker,label\n007,1,0\n8,1,1\n"))
    assert triples(votes) == [("007", 1, 0), ("8", 1, 1)]


@pytest.mark.parametrize(
    "names", ["task,worker,label", "example,annotator,value", "TaskID,WorkerID,WorkerLabel", "HITId,rater,answer"]
)
def test_the_columns_of_neighbours_are_found(tmp_path: Path, names: str) -> None:
    assert triples(read(write(tmp_path / "v.csv", f"{names}\na,x,no\nb,x,yes\n"))) == [("a", "x", "no"), ("b", "x", "yes")]


def test_columns_can_be_named_and_weights_are_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "doc,who,what,weight\na,x,no,0.5\nb,x,yes,2\n")
    votes = read(path, item="doc", annotator="who", label="what", weight="weight")
    assert votes.weight is not None
    assert votes.weight.tolist() == [0.5, 2.0]
    assert read(path, item="doc", annotator="who", label="what").weight is None


def test_missing_and_ambiguous_columns_list_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.csv: no annotator column; found 'item', 'x', 'label'.*annotator=.*--annotator"):
        read(write(tmp_path / "v.csv", "item,x,label\na,x,1\n"))
    with pytest.raises(InputError, match="several columns could be the annotator: 'worker', 'rater'"):
        read(write(tmp_path / "w.csv", "item,worker,rater,label\na,x,y,1\n"))
    with pytest.raises(InputError, match="three different columns"):
        read(write(tmp_path / "u.csv", "item,annotator,label\na,x,1\n"), label="item")


def test_rows_in_messages_are_those_of_a_spreadsheet(tmp_path: Path) -> None:
    text = "item,annotator,label\na,x,cat\n\nb,x,dog\nc,x,catt\n"
    with pytest.raises(InputError, match=r"v\.csv row 5: label 'catt' is not among the classes.*did you mean 'cat'"):
        read(write(tmp_path / "v.csv", text), classes=["cat", "dog"])
    with pytest.raises(InputError, match=r"w\.csv row 3: the annotator id is missing; remove the row or fill it in"):
        read(write(tmp_path / "w.csv", "item,annotator,label\na,x,cat\na,,dog\n"))
    lines = [{"item": 1, "annotator": 2, "label": label} for label in "ac"]
    with pytest.raises(InputError, match=r"v\.jsonl row 2: label 'c'"):
        read(write_lines(tmp_path / "v.jsonl", lines), classes=["a", "b"])


def test_missing_labels_are_dropped_and_their_items_kept(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", "item,annotator,label\na,x,1\nb,x,\nc,x,?\n"), missing=["?"])
    assert votes.n_missing == 2
    assert votes.items.tolist() == ["a", "b", "c"]
    assert votes.classes.tolist() == [1]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_json_tables(tmp_path: Path, suffix: str) -> None:
    records = [{"item": i, "annotator": a, "label": k} for i, a, k in [(1, "x", True), (2, "x", False), (2, "y", None)]]
    votes = read((write_json if suffix == ".json" else write_lines)(tmp_path / f"v{suffix}", records))
    assert triples(votes) == [(1, "x", True), (2, "x", False)]
    assert votes.n_missing == 1


def test_a_list_of_labels_in_json_is_refused_with_its_row(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "v.jsonl", [{"item": 1, "annotator": 2, "label": ["a", "b"]}])
    with pytest.raises(InputError, match=r"v\.jsonl row 1: several labels"):
        read(path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
def test_binary_tables(tmp_path: Path, suffix: str) -> None:
    frame = pl.DataFrame({"extra": [[1], [2]], "task": ["a", "b"], "worker": [1, 2], "label": ["u", "v"]})
    frame = frame.with_columns(pl.col("label").cast(pl.Categorical))
    path = tmp_path / f"v{suffix}"
    frame.write_parquet(path) if suffix == ".parquet" else frame.write_ipc(path)
    assert triples(read(path)) == [("a", 1, "u"), ("b", 2, "v")]
    with pytest.raises(InputError, match="row 2: label 'v'"):
        read(path, classes=["u", "w"])


def test_a_gold_column_becomes_gold_and_widens_the_classes(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", "item,annotator,label,gold\na,x,1,3\na,y,2,3\nb,x,1,\n"))
    assert gold(votes) == {"a": 3}
    assert votes.classes.tolist() == [1, 2, 3]
    with pytest.raises(InputError, match=r"w\.csv: gold gives item 'a' two different labels"):
        read(write(tmp_path / "w.csv", "item,annotator,label,gold\na,x,1,3\na,y,2,1\n"))
