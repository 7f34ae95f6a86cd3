from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import gold, triples, write, write_json

from crowdwise.errors import InputError
from crowdwise.io import detect, read


def result(**by_question: Any) -> list[dict[str, Any]]:
    def value(label: Any) -> dict[str, Any]:
        return {"rating": label} if isinstance(label, int) else {"choices": label if isinstance(label, list) else [label]}

    return [
        {"from_name": name, "to_name": "text", "type": "choices", "value": value(label)} for name, label in by_question.items()
    ]


TASKS = [
    {"id": 1, "data": {"text": "a"}, "annotations": [
        {"completed_by": 5, "result": result(mood="Pos"), "was_cancelled": False, "ground_truth": False},
        {"completed_by": {"id": 6, "email": "bob@example.org"}, "result": result(mood="Neg")},
        {"completed_by": 7, "result": result(mood="Neg"), "was_cancelled": True},
        {"completed_by": 8, "result": result(mood="Neutral"), "ground_truth": True},
    ], "predictions": [{"model_version": "v2", "result": result(mood="Pos"), "score": 0.9}]},
    {"id": 2, "data": {"text": "b"}, "annotations": [], "predictions": []},
    {"id": 3, "data": {"text": "c"}, "annotations": [{"completed_by": 5, "result": []}]},
]  # fmt: skip


def test_the_full_export(tmp_path: Path) -> None:
    path = write_json(tmp_path / "ls.json", TASKS)
    votes = read(path)
    assert detect(path) == "label-studio"
    assert triples(votes) == [(1, "5", "Pos"), (1, "bob@example.org", "Neg")]
    assert gold(votes) == {1: "Neutral"}
    assert votes.classes.tolist() == ["Neg", "Neutral", "Pos"]
    assert votes.items.tolist() == [1, 2, 3]
    assert votes.n_missing == 2


def test_predictions_vote_on_request(tmp_path: Path) -> None:
    votes = read(write_json(tmp_path / "ls.json", TASKS), predictions=True)
    assert (1, "model:v2", "Pos") in triples(votes)


def test_several_questions_and_result_types(tmp_path: Path) -> None:
    region = {"from_name": "box", "value": {"rectanglelabels": ["Car"], "x": 1}}
    annotations = [{"completed_by": 1, "result": [*result(mood="Pos", stars=4), region]}]
    path = write_json(tmp_path / "ls.json", [{"id": 1, "data": {}, "annotations": annotations}])
    named = r"'mood' \(choices\), 'stars' \(choices\), 'box' \(boxes\)"
    with pytest.raises(InputError, match=rf"ls\.json: several questions: {named}"):
        read(path)
    assert triples(read(path, question="stars")) == [(1, 1, 4)]
    assert triples(read(path, question="box")) == [(1, 1, "Car")]


def test_several_choices_are_refused(tmp_path: Path) -> None:
    task = {"id": 1, "data": {}, "annotations": [{"completed_by": 1, "result": result(mood=["Pos", "Neg"])}]}
    with pytest.raises(InputError, match=r"ls\.json record 1: several labels in one cell.*--type multilabel"):
        read(write_json(tmp_path / "ls.json", [task]))


def test_columns_cannot_be_renamed_in_json(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no column for the item; leave item= out"):
        read(write_json(tmp_path / "ls.json", TASKS), item="text")


def test_the_short_exports(tmp_path: Path) -> None:
    header = "text,id,mood,annotator,annotation_id,created_at,updated_at,lead_time\n"
    csv = write(tmp_path / "ls.csv", header + "a,1,Pos,5,1,,,2.5\na,1,Neg,6,2,,,1.5\nb,2,,5,3,,,1\n")
    assert detect(csv) == "label-studio-min"
    assert triples(read(csv)) == [(1, 5, "Pos"), (1, 6, "Neg")]
    keys = header.strip().split(",")
    records = [dict(zip(keys, ["a", 1, mood, who, 1, "", "", 1.0], strict=True)) for mood, who in [("Pos", 5), ("Neg", 6)]]
    assert triples(read(write_json(tmp_path / "min.json", records))) == [(1, 5, "Pos"), (1, 6, "Neg")]
    several = write(tmp_path / "many.csv", header + 'a,1,"{""choices"": [""x"", ""y""]}",5,1,,,1\n')
    with pytest.raises(InputError, match=r"many\.csv row 2: several labels"):
        read(several)
