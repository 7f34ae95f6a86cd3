"""Formats are recognised by their marks; readers of other platforms are not even loaded."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from tests.io.helpers import write, write_json

import crowdwise.io.platforms
from crowdwise.errors import InputError
from crowdwise.io import FORMATS, detect
from crowdwise.io.formats import TABLES
from crowdwise.io.reader import find_platform

PLATFORMS = [name for name in FORMATS if name not in TABLES]


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_platform_has_a_module_that_reads(name: str) -> None:
    platform = find_platform(name)
    module = importlib.import_module(f"crowdwise.io.platforms.{platform.module}")
    assert callable(module.read)
    assert hasattr(module, "matches") == platform.inspects


def test_every_reader_has_its_line() -> None:
    folder = Path(crowdwise.io.platforms.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "forms", "label_studio_regions"}
    assert modules == {find_platform(name).module for name in PLATFORMS}


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("item,annotator,label", "csv"),
        ("HITId,WorkerId,Answer.q", "mturk"),
        ("HITId,WorkerId,answer", "csv"),
        ("INPUT:x,OUTPUT:y,ASSIGNMENT:worker_id", "toloka"),
        ("INPUT:x,ASSIGNMENT:worker_id,label", "csv"),
        ("subject_ids,user_name,annotations", "zooniverse"),
        ("_unit_id,_worker_id,q", "appen"),
        ("id,q,annotator,annotation_id", "label-studio-min"),
    ],
)
def test_tables_are_recognised_by_their_columns(tmp_path: Path, header: str, name: str) -> None:
    assert detect(write(tmp_path / "v.csv", f"{header}\na,b,c,d\n"[: None if header.count(",") == 3 else -3] + "\n")) == name


@pytest.mark.parametrize(
    ("record", "name"),
    [
        ({"HITId": 1, "WorkerId": 2, "Answer": ""}, "mturk-api"),
        ({"Assignments": [{"HITId": 1, "WorkerId": 2, "Answer": ""}]}, "mturk-api"),
        ({"data_row": {}, "projects": {}}, "labelbox"),
        ({"id": 1, "data": {}, "annotations": []}, "label-studio"),
        ({"id": 1, "completions": [{"result": []}]}, "label-studio"),
        ({"fields": {}, "responses": []}, "argilla"),
        ({"id": 1, "q.responses": ["a"]}, "argilla"),
        ({"source": "x", "job": {"annotationsFromAllWorkers": [{"annotationData": {}}]}}, "sagemaker"),
        ({"answers": [{"answerContent": {}}]}, "sagemaker"),
        ({"_task_hash": 1, "answer": "accept"}, "prodigy"),
        ({"id": 1, "text": "x", "labels": []}, "doccano"),
        ({"uid": 1, "model": "m", "score": 2}, "judges"),
        ({"key": 1, "votes": {}}, "judges"),
        ({"item": 1, "annotator": 2, "label": 3}, "jsonl"),
        ({"item": 1, "annotations": 3}, "jsonl"),
    ],
)
def test_json_is_recognised_by_its_first_record(tmp_path: Path, record: dict[str, object], name: str) -> None:
    assert detect(write_json(tmp_path / "v.json", [record])) == name


def test_a_mapping_of_mappings_is_peerannot(tmp_path: Path) -> None:
    assert detect(write_json(tmp_path / "v.json", {"item": {"annotator": 1}})) == "peerannot"
    assert detect(write_json(tmp_path / "w.json", {"item": {"annotator": [1]}})) == "jsonl"


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a folder without"):
        detect(tmp_path)


@pytest.mark.slow
def test_a_plain_table_loads_no_platform(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\na,x,1\nb,x,0\n")
    code = (
        f"import sys, crowdwise; crowdwise.read({str(path)!r});"
        "print([name for name in sys.modules if name.startswith(('crowdwise.io.platforms.', 'crowdwise.io.converter'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
