from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.io.helpers import triples, write

from crowdwise.errors import InputError
from crowdwise.io import read

CSV = "item,annotator,label\na,x,1\na,y,2\n"
VOTES = [("a", "x", 1), ("a", "y", 2)]


@pytest.mark.parametrize(
    "data",
    [
        CSV.encode(),
        b"\xef\xbb\xbf" + CSV.encode(),
        CSV.replace("\n", "\r\n").encode(),
        CSV.replace("\n", "\r").encode(),
        gzip.compress(CSV.encode(), mtime=0),
    ],
    ids=["plain", "bom", "crlf", "cr", "gzip"],
)
def test_the_usual_dialects_of_text_are_accepted(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / ("votes.csv.gz" if data.startswith(b"\x1f\x8b") else "votes.csv")
    path.write_bytes(data)
    assert triples(read(path)) == VOTES


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("v.csv", b"", "is empty; expected a header"),
        ("v.csv", b"\n \n", "is empty"),
        ("v.csv", b"item,annotator,label\n", "a header and no rows"),
        ("v.csv", CSV.encode("utf-16") + b"\x00\xd8", "not utf-16"),
        ("v.csv", CSV.encode("utf-16-le"), "UTF-16.*re-save it as UTF-8"),
        ("v.csv", b"item,annotator,label\na,x,caf\xe9\n", r"row 2: byte 0xe9 is not UTF-8; re-save it as UTF-8"),
        ("v.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:-9], "gzip data are damaged"),
        ("v.numbers", b"PK\x03\x04", "save as CSV"),
        ("v.zip", b"PK\x03\x04", "unpack it"),
        ("v.pkl", b"\x80\x04", "could run code.*export"),
        ("v.npz", b"PK\x03\x04", "arrays, such as the features.*export the votes"),
        ("v.parquet", b"item,annotator,label\n", "not parquet"),
        ("v.parquet", b"PAR1 and no more", "not a readable parquet file"),
        ("v.arrow", b"ARROW1 and no more", "not a readable arrow file"),
        ("v.dat", b"hello", r"cannot tell what \.dat holds; known are .*\.csv"),
        ("v.json", b"hello", "broken JSON at column 1"),
        ("v.json", b"[" * 100_000, "nested too deeply"),
        ("v.jsonl", b'{"a":' * 100_000, "row 1: nested too deeply"),
        ("v.json", b"[]", "no records"),
        ("v.json", b"[1]", "record 1: expected an object"),
        ("v.jsonl", b'{"item": 1, "annotator": 2, "label": 3}\n\n{"item": 1,\n', "row 3: broken JSON at column"),
        ("v.jsonl", b'{"item": 1}\n[2]\n', "row 2: expected an object"),
        ("v.json", b'[{"item": "\\ud800", "annotator": 1, "label": 1}]', "surrogate"),
        ("v.json", b'[{"item": ' + b"9" * 5000 + b', "annotator": 1, "label": 1}]', "broken JSON"),
    ],
)
def test_unreadable_files_name_themselves_and_the_fix(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    write(tmp_path / "votes.csv", CSV)
    with pytest.raises(InputError, match=r"vote\.csv: no such file; did you mean 'votes.csv'"):
        read(tmp_path / "vote.csv")
    with pytest.raises(InputError, match="folder without"):
        read(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nowhere" / "votes.csv")
    with pytest.raises(InputError, match="no file was named"):
        read([])


def test_unknown_suffixes_are_sniffed(tmp_path: Path) -> None:
    assert triples(read(write(tmp_path / "votes.dat", CSV.replace(",", "\t")))) == VOTES
    lines = '{"item":"a","annotator":"x","label":1}\n{"item":"a","annotator":"y","label":2}\n'
    assert triples(read(write(tmp_path / "votes.out", lines))) == VOTES
    assert triples(read(write(tmp_path / "lines.json", lines))) == VOTES
    whole = "[" + lines.strip().replace("\n", ",\n") + "]"
    assert triples(read(write(tmp_path / "list.jsonl", whole))) == VOTES
