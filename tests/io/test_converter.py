from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from tests.io.helpers import gold, triples, write

from crowdwise.errors import DataWarning, InputError
from crowdwise.io import DESTINATIONS, convert, detect, read

TEXT = "item,annotator,label\ni1,ann,cat\ni1,bob,dog\ni2,ann,dog\ni3,bob,'q\"\n"
NUMBERS = "item,annotator,label\n0,0,3\n0,1,0\n1,0,0\n2,1,1\n"
NAMES = {
    "tidy": "v.parquet", "wide": "v.csv", "answers": "v.txt", "label-studio": "v.json", "prodigy": "v.jsonl", "toloka": "v.tsv",
    "mturk": "v.csv", "appen": "v.csv", "zooniverse": "v.csv", "argilla": "v.json", "peerannot": "v.json",
    "labelbox": "v.ndjson", "sagemaker": "v.jsonl", "doccano": "users",
}  # fmt: skip


@pytest.mark.parametrize("to", [to for to in DESTINATIONS if to != "answers"])
@pytest.mark.parametrize("text", [TEXT, NUMBERS], ids=["text", "numbers"])
def test_round_trips_give_equal_votes(tmp_path: Path, to: str, text: str) -> None:
    votes = convert(write(tmp_path / "in.csv", text), tmp_path / NAMES[to], to=to)
    given = {"format": "wide"} if to == "wide" else {}
    again = read(tmp_path / NAMES[to], **given)
    # doccano keeps annotators as names of files, which are text.
    expected = [(item, str(who), label) for item, who, label in triples(votes)] if to == "doccano" else triples(votes)
    assert triples(again) == expected
    assert again.classes.tolist() == votes.classes.tolist()
    back = convert(tmp_path / NAMES[to], tmp_path / "back.csv", **given)
    if to != "doccano":
        assert triples(read(tmp_path / "back.csv")) == triples(back)


@pytest.mark.parametrize("to", [to for to in NAMES if to not in ("tidy", "wide", "answers")])
def test_what_is_written_is_recognised(tmp_path: Path, to: str) -> None:
    convert(write(tmp_path / "in.csv", TEXT), tmp_path / NAMES[to], to=to)
    assert detect(tmp_path / NAMES[to]) == to


@pytest.mark.parametrize("to", ["tidy", "toloka", "appen", "label-studio", "zooniverse"])
def test_gold_survives_where_there_is_a_place_for_it(tmp_path: Path, to: str) -> None:
    source = write(tmp_path / "in.csv", "item,annotator,label,gold\na,x,cat,dog\nb,x,cow,\n")
    convert(source, tmp_path / NAMES[to], to=to)
    votes = read(tmp_path / NAMES[to])
    assert gold(votes) == {"a": "dog"}
    assert votes.classes.tolist() == ["cat", "cow", "dog"]


def test_a_doccano_folder_is_new_and_whole(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "item,annotator,label\na,x,cat\na,../y,dog\n")
    with pytest.raises(InputError, match=r"'\.\./y' cannot be the name of a file"):
        convert(source, tmp_path / "users", to="doccano")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.csv"]
    (tmp_path / "users").mkdir()
    with pytest.raises(InputError, match="exists already"):
        convert(write(tmp_path / "in.csv", TEXT), tmp_path / "users", to="doccano")


def test_answers_files_hold_class_numbers(tmp_path: Path) -> None:
    votes = convert(write(tmp_path / "in.csv", NUMBERS), tmp_path / "v.txt", to="answers")
    assert (tmp_path / "v.txt").read_text() == "3 0\n0 -1\n-1 1\n"
    assert triples(read(tmp_path / "v.txt")) == triples(votes)
    with pytest.warns(DataWarning, match="0 = 'q\", 1 = cat, 2 = dog"):
        convert(write(tmp_path / "in.csv", TEXT), tmp_path / "v.txt", to="answers")


def test_losses_are_told(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", "item,annotator,label,weight\na,x,1,0.5\nb,x,,1\n")
    with pytest.warns(DataWarning, match="1 item without votes: not in the tidy output"):
        convert(source, tmp_path / "out.csv", weight="weight")
    assert read(tmp_path / "out.csv", weight="weight").weight == pytest.approx(np.array([0.5]))
    with pytest.warns(DataWarning, match="no place for weights"):
        convert(source, tmp_path / "out.json", to="label-studio", weight="weight")


def test_an_error_writes_nothing(tmp_path: Path) -> None:
    source = write(tmp_path / "in.csv", TEXT + "i1,ann,cow\n")
    before = sorted(os.listdir(tmp_path))
    for to, name, message in [
        ("wide", "out.csv", "more than once"),
        ("label-studio", "out.csv", "end in .json"),
        ("lable-studio", "out.json", "did you mean 'label-studio'"),
        (None, "out.xlsx", "cannot write .xlsx"),
    ]:
        with pytest.raises(InputError, match=message):
            convert(source, tmp_path / name, to=to)
    with pytest.raises(InputError, match="row 5"):
        convert(source, tmp_path / "out.csv", classes=["cat", "dog"])
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("to", "name"), [("wide", "out.csv"), ("answers", "out.txt")])
def test_matrices_too_large_for_memory_are_refused(tmp_path: Path, to: str, name: str) -> None:
    source = write(tmp_path / "in.csv", "item,annotator,label\n" + "".join(f"{n},{n},{n % 2}\n" for n in range(8000)))
    with pytest.raises(InputError, match=r"8000 items x 8000 annotators are too many cells.*tidy table"):
        convert(source, tmp_path / name, to=to)
