"""Bad files end in an error of ours that names the file, the row and the fix, in less than a thousand characters."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.helpers import triples, write

from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseError, DataWarning, InputError, did_you_mean, listed, shortened
from crowdwise.io import FORMATS, read, read_gold

TIDY = "item,annotator,label\na,x,cat\na,y,dog\nb,x,cat\n"


def message_of(path: Path, **options: Any) -> str:
    """What reading it says, if it is refused; any other exception fails the test."""
    try:
        read(path, **options)
    except CrowdwiseError as problem:
        return str(problem)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_damaged_binary_files_never_panic(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"v.{kind}"
    frame = pl.read_csv(TIDY.encode())
    (frame.write_parquet if kind == "parquet" else frame.write_ipc)(path)
    whole = path.read_bytes()
    refused = 0
    for at in range(8, len(whole), 7):
        broken = bytearray(whole)
        broken[at] ^= 0xFF
        path.write_bytes(broken)
        refused += message_of(path).startswith(str(path))
    assert refused > 20
    path.write_bytes(whole[: len(whole) // 2] + whole[-12:])
    with pytest.raises(InputError, match=f"not a readable {kind} file .*; export it again"):
        read(path)


def test_a_carriage_return_alone_is_text_in_quotes_and_refused_outside(tmp_path: Path) -> None:
    quoted = write(tmp_path / "q.csv", 'item,annotator,label\n"a\rb",x,cat\nc,x,dog\n')
    assert triples(read(quoted)) == [("a\rb", "x", "cat"), ("c", "x", "dog")]
    for name, text, row in (
        ("header.csv", "item,ann\rotator,label\na,x,cat\n", 1),
        ("row.csv", "item,annotator,label\na,x,cat\na\rb,y,cat\n", 3),
        ("ends.csv", "item,annotator,label\na,x,cat\rb,x,dog\n", 2),
    ):
        with pytest.raises(
            InputError, match=rf"{name} row {row}: a carriage return alone, which may be text or the end of a row"
        ):
            read(write(tmp_path / name, text))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
def test_one_kind_of_line_ends_is_read(end: str, tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    path.write_bytes(TIDY.replace("\n", end).encode())
    assert triples(read(path)) == [("a", "x", "cat"), ("a", "y", "dog"), ("b", "x", "cat")]


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("tidy", "csv", "tsv", "jsonl", "parquet", "arrow")])
@pytest.mark.parametrize("file", ["v.csv", "v.json", "v.jsonl", "v.parquet", "v.txt"])
def test_a_format_forced_on_another_file_is_refused(name: str, file: str, tmp_path: Path) -> None:
    frame = pl.read_csv(TIDY.encode())
    path = tmp_path / file
    if file == "v.csv":
        path.write_text(TIDY)
    elif file == "v.json":
        path.write_text(json.dumps(frame.to_dicts()))
    elif file == "v.jsonl":
        frame.write_ndjson(path)
    elif file == "v.parquet":
        frame.write_parquet(path)
    else:
        path.write_text("0 1 -1\n1 1 0\n")
    said = message_of(path, format=name)
    assert not said or str(path) in said


def test_the_error_of_a_forced_format_says_what_the_file_is(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", TIDY)
    with pytest.raises(
        InputError, match=r"v\.csv: delimited content, and label-studio exports are json or jsonl; leave format="
    ):
        read(path, format="label-studio")


@pytest.mark.parametrize(
    "text", ['[{"item": "a", "annotator": "x", "label": "l", "\\ud800": 1}]', '[{"item": "\\udc00\\ud800"}]']
)
def test_half_of_a_surrogate_pair_is_refused_wherever_it_is(text: str, tmp_path: Path) -> None:
    for name, content in (("v.json", text), ("v.jsonl", text[1:-1] + "\n")):
        with pytest.raises(InputError, match=r"half of a surrogate pair .*; correct that character"):
            read(write(tmp_path / name, content))


def test_a_whole_pair_is_one_character(tmp_path: Path) -> None:
    path = write(tmp_path / "v.json", '[{"item": "\\ud83d\\ude00", "annotator": "\\\\ud800", "label": "l"}]')
    assert triples(read(path)) == [("😀", "\\ud800", "l")]


def test_nul_bytes_are_refused_wherever_they_are(tmp_path: Path) -> None:
    rows = b"".join(b"i%d,x,cat\n" % n for n in range(500))
    path = tmp_path / "v.csv"
    path.write_bytes(b"item,annotator,label\n" + rows + b"last,x,c\x00at\n")
    with pytest.raises(InputError, match=r"v\.csv row 502: a NUL byte, which text does not have"):
        read(path)
    (tmp_path / "v.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match="row 502: a NUL byte"):
        read(tmp_path / "v.csv.gz")


@pytest.mark.slow
def test_forty_thousand_columns_are_no_problem(tmp_path: Path) -> None:
    names = [f"c{n}" for n in range(40_000)]
    path = write(tmp_path / "v.csv", ",".join(names) + "\n" + ",".join(names[::-1]) + "\n")
    started = time.process_time()
    with pytest.raises(InputError, match="39999 different labels") as caught:
        read(path)
    assert len(str(caught.value)) <= 1000
    with pytest.raises(InputError, match="no column 'c1x'") as caught:
        read(path, item="c1x", annotator="c2", label="c3")
    assert len(str(caught.value)) <= 1000
    names[-1] = "c7"
    with pytest.raises(InputError, match="row 1: column 'c7' occurs more than once"):
        read(write(path, ",".join(names) + "\n"))
    # Comparing every name with every other took minutes.
    assert time.process_time() - started < 60


def test_messages_are_cut_in_the_middle() -> None:
    text = "v.csv row 3: " + "x" * 5000 + "; name it"
    problem = InputError(text)
    assert len(str(problem)) <= 1000
    assert str(problem).startswith("v.csv row 3: xxx")
    assert str(problem).endswith("xxx; name it")
    assert len(str(DataWarning(text))) <= 1000
    assert str(InputError("short")) == "short"
    assert shortened("a" * 60, 60) == "a" * 60
    assert len(listed(["y" * 500] * 1000)) < 1500
    assert "(980 more)" in listed(["y" * 500] * 1000)
    started = time.monotonic()
    assert did_you_mean("z" * 10_000, ["z" * 9_999] * 1000) == ""
    assert did_you_mean("lable", ["label", "item"]) == "; did you mean 'label'?"
    assert did_you_mean("nofile.csv", ["one.csv"], 0.8) == ""
    assert did_you_mean("vote.csv", ["one.csv", "votes.csv"], 0.8) == "; did you mean 'votes.csv'?"
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("weight", "words"), [("1e300", "at most 1e\\+09"), ("inf", "finite"), ("-1", ">= 0"), ("nan", "finite")]
)
def test_weights_that_no_sum_can_hold_are_refused(weight: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", f"item,annotator,label,weight\na,x,cat,1\na,y,dog,{weight}\n")
    with pytest.raises(InputError, match=rf"v\.csv row 3: weight '{weight}' is not a finite number >= 0") as caught:
        read(path, weight="weight")
    assert words.replace("\\", "") in str(caught.value)


def test_a_column_of_lists_is_no_weight(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": ["a"], "annotator": ["x"], "label": ["l"], "weight": [[1.0]]})
    frame.write_parquet(tmp_path / "v.parquet")
    with pytest.raises(InputError, match="the weight column holds List"):
        read(tmp_path / "v.parquet", weight="weight")


def test_gold_of_another_shape_is_an_error_of_ours(tmp_path: Path) -> None:
    votes = Annotations.from_arrays(["a"], ["x"], ["cat"])
    for name, text in (("g.json", "[1, 2]"), ("g.csv", "a\n\n"), ("g.txt", "one two three"), ("g.jsonl", '{"\\ud800": 1}')):
        with pytest.raises(CrowdwiseError):
            read_gold(write(tmp_path / name, text), votes)
