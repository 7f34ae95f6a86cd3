"""Prodigy, Argilla, doccano, SageMaker, Labelbox, judges, peerannot and MTurk's API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.helpers import triples, write_json, write_lines

from crowdwise.errors import DataWarning, InputError
from crowdwise.io import detect, read


def test_prodigy_choices(tmp_path: Path) -> None:
    def line(item: int, who: str, accept: list[str], answer: str = "accept") -> dict[str, Any]:
        return {"_input_hash": item, "_task_hash": -item, "_session_id": who, "options": [], "accept": accept, "answer": answer}

    lines = [line(-7, "ann", ["A"]), line(-7, "bob", ["B"]), line(8, "ann", [], "ignore"), line(9, "ann", [], "reject")]
    path = write_lines(tmp_path / "p.jsonl", lines)
    votes = read(path)
    assert detect(path) == "prodigy"
    assert triples(votes) == [(-7, "ann", "A"), (-7, "bob", "B")]
    assert (votes.n_missing, votes.items.tolist()) == (2, [-7, 8, 9])
    with pytest.raises(InputError, match=r"p\.jsonl row 2: several labels"):
        read(write_lines(tmp_path / "p.jsonl", [lines[0], line(1, "ann", ["A", "B"])]))


def test_prodigy_yes_or_no(tmp_path: Path) -> None:
    def line(who: str, label: str, answer: str) -> dict[str, Any]:
        return {"_input_hash": 1, "_annotator_id": who, "label": label, "answer": answer}

    path = write_lines(tmp_path / "p.jsonl", [line("ann", "SPORT", "accept"), line("bob", "SPORT", "reject")])
    assert triples(read(path)) == [(1, "ann", "accept"), (1, "bob", "reject")]
    write_lines(path, [line("ann", "SPORT", "accept"), line("ann", "NEWS", "reject")])
    with pytest.raises(InputError, match="several questions: 'SPORT', 'NEWS'"):
        read(path)
    with pytest.raises(InputError, match=r"q\.jsonl row 1: neither _annotator_id nor _session_id"):
        read(write_lines(tmp_path / "q.jsonl", [{"_input_hash": 1, "answer": "accept"}]))


def test_argilla_nested(tmp_path: Path) -> None:
    def record(name: str, responses: Any) -> dict[str, Any]:
        suggestion = {"mood": {"value": "neg", "agent": "bert", "score": 0.7}}
        return {"id": name, "fields": {"text": "t"}, "responses": responses, "suggestions": suggestion}

    answers = [("u1", "pos", "submitted"), ("u2", "neg", "draft"), ("u3", "neg", "submitted")]
    moods = [{"user_id": who, "value": label, "status": status} for who, label, status in answers]
    path = write_json(tmp_path / "a.json", [record("r1", {"mood": moods}), record("r2", {})])
    votes = read(path)
    assert detect(path) == "argilla"
    assert triples(votes) == [("r1", "u1", "pos"), ("r1", "u3", "neg")]
    assert votes.items.tolist() == ["r1", "r2"]
    assert ("r2", "model:bert", "neg") in triples(read(path, predictions=True))
    other = [{"user_id": "u1", "value": 5, "status": "submitted"}]
    write_json(path, [record("r1", {"mood": moods, "stars": other})])
    with pytest.raises(InputError, match="several questions: 'mood', 'stars'"):
        read(path)
    assert triples(read(path, question="stars")) == [("r1", "u1", 5)]


def test_argilla_flattened_to_columns(tmp_path: Path) -> None:
    frame = pl.DataFrame({
        "id": ["r1", "r2"], "text": ["t", "t"], "mood.responses": [["pos", "neg"], ["pos"]],
        "mood.responses.users": [["u1", "u2"], ["u1"]], "mood.responses.status": [["submitted", "submitted"], ["discarded"]],
    })  # fmt: skip
    frame.write_parquet(tmp_path / "a.parquet")
    expected = [("r1", "u1", "pos"), ("r1", "u2", "neg")]
    assert triples(read(tmp_path / "a.parquet")) == expected
    assert triples(read(write_lines(tmp_path / "a.jsonl", frame.to_dicts()))) == expected


def test_doccano_takes_the_annotator_from_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    ann = write_lines(folder / "ann.jsonl", [{"id": 1, "text": "a", "label": ["pos"]}, {"id": 2, "text": "b", "label": []}])
    bob = write_lines(folder / "bob.jsonl", [{"id": 1, "text": "a", "label": ["neg"]}])
    assert detect(folder) == "doccano"
    for path in (folder, [ann, bob]):
        votes = read(path)
        assert triples(votes) == [(1, "ann", "pos"), (1, "bob", "neg")]
        assert votes.items.tolist() == [1, 2]
    write_lines(folder / "bob.jsonl", [{"id": 1, "text": "a", "label": ["neg", "pos"]}])
    with pytest.raises(InputError, match=r"row 1: several labels in one cell.*--type multilabel"):
        read(folder)
    with pytest.raises(InputError, match=r"loses who annotated.*one file per user"):
        read(write_lines(tmp_path / "all.jsonl", [{"id": 1, "text": "a", "label": ["pos"]}]))


def test_sagemaker_manifest_and_request(tmp_path: Path) -> None:
    def vote(who: str, content: Any) -> dict[str, Any]:
        return {"workerId": who, "annotationData": {"content": json.dumps(content)}}

    votes = [vote("w1", {"category": {"label": "cat"}}), vote("w2", {"category": {"label": "dog"}})]
    line = {
        "source-ref": "s3://b/1.png",
        "job": {"annotationsFromAllWorkers": votes},
        "job-metadata": {"type": "groundtruth/custom"},
    }
    path = write_lines(tmp_path / "output.manifest", [line])
    assert detect(path) == "sagemaker"
    assert triples(read(path)) == [("s3://b/1.png", "w1", "cat"), ("s3://b/1.png", "w2", "dog")]
    radio = [vote("w1", {"q": {"yes": True, "no": False}}), vote("w2", {"q": {"yes": False, "no": True}})]
    request = [{"datasetObjectId": "0", "dataObject": {"content": "x"}, "annotations": radio}]
    assert triples(read(write_json(tmp_path / "request.json", request))) == [("0", "w1", "yes"), ("0", "w2", "no")]


def test_sagemaker_worker_responses(tmp_path: Path) -> None:
    for item, labels in (("0", {"w1": "cat", "w2": "dog"}), ("1", {"w1": "cat"})):
        folder = tmp_path / "worker-response" / "iteration-1" / item
        folder.mkdir(parents=True)
        answers = [
            {"workerId": who, "answerContent": {"crowd-image-classifier": {"label": label}}} for who, label in labels.items()
        ]
        write_json(folder / "2026-01-01.json", {"answers": answers})
    assert triples(read(tmp_path / "worker-response")) == [("0", "w1", "cat"), ("0", "w2", "dog"), ("1", "w1", "cat")]


def test_labelbox(tmp_path: Path) -> None:
    def label(who: str, answer: str) -> dict[str, Any]:
        radio = {"name": "Mood", "value": "mood", "radio_answer": {"name": answer, "value": answer.lower()}}
        return {"label_details": {"created_by": who}, "annotations": {"objects": [], "classifications": [radio]}}

    labels = [label("ann@example.org", "Pos"), label("bob@example.org", "Neg")]
    lines = [
        {"data_row": {"id": "d1"}, "projects": {"p": {"labels": labels}}},
        {"data_row": {"id": "d2"}, "projects": {"p": {"labels": []}}},
    ]
    path = write_lines(tmp_path / "export.ndjson", lines)
    votes = read(path)
    assert detect(path) == "labelbox"
    assert triples(votes) == [("d1", "ann@example.org", "Pos"), ("d1", "bob@example.org", "Neg")]
    assert votes.items.tolist() == ["d1", "d2"]


def test_labelbox_checklists_are_several_labels(tmp_path: Path) -> None:
    checks = {"name": "Tags", "checklist_answers": [{"name": "a"}, {"name": "b"}]}
    label = {"label_details": {"created_by": "x"}, "annotations": {"classifications": [checks]}}
    with pytest.raises(InputError, match=r"e\.ndjson row 1: several labels"):
        read(write_lines(tmp_path / "e.ndjson", [{"data_row": {"id": "d"}, "projects": {"p": {"labels": [label]}}}]))


@pytest.mark.parametrize(
    "records",
    [
        [{"id": 1, "judge": "m1", "verdict": "A", "score": 3}, {"id": 1, "judge": "m2", "verdict": "B", "score": 4}],
        [{"id": 1, "model": "m1", "label": "A"}, {"id": 1, "model": "m2", "label": "B"}],
        [{"item": 1, "judgments": [{"judge": "m1", "label": "A"}, {"model": "m2", "verdict": "B"}]}],
        [{"prompt_id": 1, "verdicts": {"m1": "A", "m2": {"verdict": "B", "reason": "because"}}}],
    ],
    ids=["verdict", "model", "nested", "mapping"],
)
def test_judges(tmp_path: Path, records: list[Any]) -> None:
    path = write_lines(tmp_path / "votes.jsonl", records)
    assert detect(path) == "judges"
    assert triples(read(path)) == [(1, "m1", "A"), (1, "m2", "B")]


def test_judges_with_a_named_field(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "v.jsonl", [{"id": 1, "judge": "m1", "verdict": "A", "score": 3}])
    assert read(path, question="score").classes.tolist() == [3]
    with pytest.raises(InputError, match=r"w\.jsonl row 1: the annotator id is missing"):
        read(write_lines(tmp_path / "w.jsonl", [{"id": 1, "judgments": [{"label": "A"}]}]))


def test_peerannot(tmp_path: Path) -> None:
    path = write_json(tmp_path / "answers.json", {"0": {"12": 1, "7": 0}, "1": {}})
    assert detect(path) == "peerannot"
    votes = read(path)
    assert triples(votes) == [(0, 7, 0), (0, 12, 1)]
    assert votes.items.tolist() == [0, 1]


def test_mturk_api(tmp_path: Path) -> None:
    space = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"

    def assignment(who: str, label: str, status: str = "Approved", start: str = "") -> dict[str, str]:
        answer = f"<Answer><QuestionIdentifier>q</QuestionIdentifier><FreeText>{label}</FreeText></Answer>"
        xml = f'{start}<QuestionFormAnswers xmlns="{space}">{answer}</QuestionFormAnswers>'
        return {"HITId": "H", "WorkerId": who, "AssignmentStatus": status, "Answer": xml}

    path = write_json(tmp_path / "a.json", {"Assignments": [assignment("w1", "x"), assignment("w2", "y", "Rejected")]})
    assert detect(path) == "mturk-api"
    with pytest.warns(DataWarning, match="1 rejected"):
        assert triples(read(path)) == [("H", "w1", "x")]
    entity = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
    with pytest.raises(InputError, match="declares a document type"):
        read(write_json(path, [assignment("w1", "&e;", start=entity)]))
    with pytest.raises(InputError, match="record 1: the answer is broken XML"):
        read(write_json(path, [assignment("w1", "<")]))
