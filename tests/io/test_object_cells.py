"""Answers that are objects, as language models write them: one field is the label, and never is each text a class."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.helpers import triples, write, write_lines

from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read

# Twelve votes by three judges; the right reading, made before any file is.
RIGHT = [(f"q{n}", f"j{m}", "yes" if (n + m) % 3 else "no") for n in range(4) for m in range(3)]


def answers(of: Callable[[str, int], Any]) -> list[dict[str, Any]]:
    return [{"item": item, "judge_name": who, "response": of(label, k)} for k, (item, who, label) in enumerate(RIGHT)]


SPELT: dict[str, Callable[[str, int], Any]] = {
    "json": lambda label, k: json.dumps({"label": label, "confidence": 0.5 + k / 100}),
    "spaces": lambda label, k: json.dumps({"reason": f"because {k}", "verdict": label}, indent=1),
    "python": lambda label, k: str({"label": label, "why": f"it's {k}"}),
    "fenced": lambda label, k: f"```json\n{json.dumps({'label': label, 'reason': str(k)})}\n```",
    "sentence": lambda label, k: f'Sure! Here it is: {{"answer": "{label}", "steps": ["a {k}", "b"]}} Ask me more.',
    # No usual name: the only short field that recurs, and that is no confidence by its name.
    "unusual": lambda label, k: json.dumps({"toxic": label, "confidence": k % 2, "explanation": f"because of {k}"}),
}


@pytest.mark.parametrize("spelt", SPELT)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_the_one_short_field_is_the_label(tmp_path: Path, spelt: str, suffix: str) -> None:
    path, records = tmp_path / f"votes.{suffix}", answers(SPELT[spelt])
    if suffix == "jsonl":
        write_lines(path, records)
    else:
        frame = pl.DataFrame(records)
        (frame.write_csv if suffix == "csv" else frame.write_parquet)(path)
    notes: list[str] = []
    assert triples(read(path, annotator="judge_name", notes=notes)) == RIGHT
    assert any("answers are objects, of which" in line for line in notes)


def test_objects_that_are_no_text_are_read_too(tmp_path: Path) -> None:
    records = answers(lambda label, k: {"label": label, "confidence": k / 100})
    assert triples(read(write_lines(tmp_path / "v.jsonl", records), format="jsonl", annotator="judge_name")) == RIGHT
    pl.DataFrame(records).write_parquet(tmp_path / "v.parquet")
    assert triples(read(tmp_path / "v.parquet", annotator="judge_name")) == RIGHT


def test_numbers_are_classes_in_their_order_and_gold_stays_beside_them(tmp_path: Path) -> None:
    rows = [
        (f"q{n}", f"j{m}", json.dumps({"score": 9 + (n + m) % 2, "text": f"{n} {m}"}), 10) for n in range(8) for m in range(3)
    ]
    frame = pl.DataFrame(rows, schema=["item", "annotator", "response", "gold"], orient="row")
    frame.head(9).write_csv(tmp_path / "v.csv")
    with pytest.warns(DataWarning, match="gold in the file decides 3 of 3 labels"):
        votes = read(tmp_path / "v.csv")
    assert votes.classes.tolist() == [9, 10]
    assert votes.gold_labels() == [10, 10, 10]


def test_several_fields_that_may_be_the_label_are_asked_about(tmp_path: Path) -> None:
    records = answers(lambda label, k: json.dumps({"safe": label, "polite": "yes", "text": f"long {k}"}))
    path = write_lines(tmp_path / "v.jsonl", records)
    with pytest.raises(InputError, match=r"an object with 'safe', 'polite', 'text'; .*aggregate \S+ .*--question safe"):
        read(path, annotator="judge_name")
    assert triples(read(path, annotator="judge_name", question="safe")) == RIGHT
    with pytest.raises(InputError, match="no column 'rude'"):
        read(path, annotator="judge_name", question="rude")


def test_what_is_no_object_is_a_label_or_counted_as_missing(tmp_path: Path) -> None:
    def one(label: str, k: int) -> str:
        return "I cannot say" if k == 4 else label if k == 5 else json.dumps({"label": label, "reason": f"because {k}"})

    path = write_lines(tmp_path / "v.jsonl", answers(one))
    with pytest.warns(
        DataWarning, match=r"1 of 12 answers have no field 'label' and count as missing: \S+ row 5, 'I cannot say'"
    ):
        votes = read(path, annotator="judge_name")
    assert triples(votes) == [vote for k, vote in enumerate(RIGHT) if k != 4]
    assert votes.n_missing == 1


def test_lists_in_objects_are_several_labels(tmp_path: Path) -> None:
    records = answers(lambda label, k: json.dumps({"labels": [label, "other"] if k % 2 else [label], "reason": f"because {k}"}))
    path = write_lines(tmp_path / "v.jsonl", records)
    with pytest.raises(InputError, match="several labels in one cell"):
        read(path, annotator="judge_name")
    assert read(path, LabelSets, annotator="judge_name").labels.tolist() == ["no", "other", "yes"]


def test_probabilities_in_objects_name_their_option(tmp_path: Path) -> None:
    records = answers(lambda label, k: json.dumps({"no": k / 20, "yes": 1 - k / 20}))
    path = write_lines(tmp_path / "v.jsonl", records)
    with pytest.raises(InputError, match="probabilities='response'"):
        read(path, annotator="judge_name")


def test_given_classes_are_those_of_the_field(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "v.jsonl", answers(SPELT["json"]))
    assert read(path, annotator="judge_name", classes=["yes", "no", "maybe"]).n_classes == 3


def test_braces_in_labels_are_no_objects(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\n1,a,{x}\n1,b,f{x: y}\n2,a,{x}\n")
    assert read(path).classes.tolist() == ["f{x: y}", "{x}"]


@pytest.mark.parametrize("text", [True, False])
def test_verdicts_of_judges_are_read_too(tmp_path: Path, text: bool) -> None:
    verdicts = [{"safe": label, "polite": "yes", "text": f"long {k}"} for k, (_, _, label) in enumerate(RIGHT)]
    records = [
        {"id": item, "judge": who, "verdict": json.dumps(verdict) if text else verdict}
        for (item, who, _), verdict in zip(RIGHT, verdicts, strict=True)
    ]
    path = write_lines(tmp_path / "v.jsonl", records)
    with pytest.raises(InputError, match="an object with 'safe', 'polite', 'text'"):
        read(path)
    assert triples(read(path, question="safe")) == RIGHT


def test_objects_that_no_reader_takes_apart_are_refused(tmp_path: Path) -> None:
    cells = [json.dumps({"label": label, "reason": f"because {k}"}) for k, (_, _, label) in enumerate(RIGHT)]
    pl.DataFrame({"id": range(4), **{f"label_{m}": cells[m::3] for m in range(3)}}).write_csv(tmp_path / "v.csv")
    with pytest.raises(InputError, match="are objects, and each would be a class of its own"):
        read(tmp_path / "v.csv", format="wide", annotators="label_*")


def odd(tmp_path: Path, cell: str) -> Path:
    return write_lines(tmp_path / "v.jsonl", [{"item": n, "annotator": who, "response": cell} for n in (1, 2) for who in "ab"])


@pytest.mark.parametrize("cell", ["{{}}", "{}", '{"a":' * 200, "{1: 2}", "{[]: 1}"])
def test_braces_without_an_object_are_a_label(tmp_path: Path, cell: str) -> None:
    assert read(odd(tmp_path, cell), classes=[cell, "other"]).n_votes == 4


def test_an_object_of_numbers_alone_has_no_label(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.jsonl row 1: the answer is an object with 'a', 'b'"):
        read(odd(tmp_path, '{"a": NaN, "b": 1e999}'))
