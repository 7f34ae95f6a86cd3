"""Real exports that are kept beside the project, not in it; votes are counted here by a few lines on the raw file."""

from __future__ import annotations

import ast
import csv
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import triples

from crowdwise import LabelSets
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read

EXPORTS = Path(os.environ.get("CROWDWISE_EXPORTS", Path(__file__).resolve().parents[3] / "shared" / "exports"))
pytestmark = pytest.mark.skipif(not EXPORTS.is_dir(), reason=f"no exports at {EXPORTS}; CROWDWISE_EXPORTS names the folder")


def rows_of(name: str) -> list[dict[str, str]]:
    csv.field_size_limit(2**30)
    with (EXPORTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def said(votes: Any) -> Counter[tuple[str, str, str]]:
    return Counter((str(item), str(who), str(label)) for item, who, label in triples(votes))


def chosen(sets: Any) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for item, who, text in sets.to_frame(separator="\n").rows():
        for label in (json.loads(text) if text.startswith("[") else text.split("\n")) if text != "none" else ():
            found[str(item), str(who), label] += 1
    return found


@pytest.mark.parametrize(
    ("name", "question", "split"),
    [
        ("appen_newsgroups.csv", "category", lambda cell: cell.split("\n")),
        ("appen_relations.csv", "output_relations", lambda cell: cell.split("\n")),
        ("appen_video_tags.csv", "selected_answer", json.loads),
    ],
)
@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
def test_several_labels_of_appen(name: str, question: str, split: Any) -> None:
    with pytest.raises(InputError, match=rf"{name} row \d+: several labels in one cell.*--type multilabel"):
        read(EXPORTS / name, question=question)
    raw: Counter[tuple[str, str, str]] = Counter()
    for row in rows_of(name):
        if row["_tainted"] != "true" and row[question]:
            for label in split(row[question]):
                raw[row["_unit_id"], row["_worker_id"], label.strip()] = 1
    found = chosen(read(EXPORTS / name, LabelSets, question=question, none="no such word"))
    assert found == raw


def test_the_newsgroups_are_twenty() -> None:
    with pytest.warns(DataWarning, match="spellings unified"):
        assert len(read(EXPORTS / "appen_newsgroups.csv", LabelSets, fold_case=True).labels) == 20


def test_lists_in_cells() -> None:
    raw: Counter[tuple[str, str, str]] = Counter()
    for row in rows_of("list_cells.csv"):
        pairs = zip(ast.literal_eval(row["anon_annotators"]), ast.literal_eval(row["annotations"]), strict=True)
        raw.update((row[""], who, label[0]) for who, label in pairs if label)
    assert said(read(EXPORTS / "list_cells.csv")) == raw


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_a_wide_table_with_extras() -> None:
    raw, gold = Counter[tuple[str, str, str]](), {}
    for row in rows_of("wide_with_extras.csv"):
        raw.update((row["case_id"], f"label_{k}", row[f"label_{k}"]) for k in range(1, 11) if row[f"label_{k}"])
        gold[int(row["case_id"])] = row["label_gold"]
    for options in (
        {},
        {"annotators": [f"label_{k}" for k in range(1, 11)]},
        {"annotators": "label_*", "exclude": "label_gold,label_annot_maj"},
    ):
        votes = read(EXPORTS / "wide_with_extras.csv", **options)  # type: ignore[arg-type]
        assert said(votes) == raw
        assert votes.gold is not None
        assert {i: votes.classes[k] for i, k in zip(votes.items.tolist(), votes.gold, strict=True)} == gold


def test_a_matrix_without_a_header() -> None:
    with (EXPORTS / "matrix_without_header.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    raw = Counter((str(n), f"column {k}", cell) for n, row in enumerate(rows, 1) for k, cell in enumerate(row, 1) if cell)
    assert said(read(EXPORTS / "matrix_without_header.csv", header=False)) == raw
    with pytest.raises(InputError, match="--no-header"):
        read(EXPORTS / "matrix_without_header.csv")


def test_json_keyed_by_id() -> None:
    raw: Counter[tuple[str, str, str]] = Counter()
    for key, entry in json.loads((EXPORTS / "keyed_by_id.json").read_text()).items():
        raw.update(zip([key] * 99, entry["annotators"].split(","), entry["annotations"].split(","), strict=False))
    assert said(read(EXPORTS / "keyed_by_id.json")) == raw


def test_counts_per_class() -> None:
    classes = ("hate_speech", "offensive_language", "neither")
    raw = Counter(
        {(row[""], name): int(row[name]) for row in rows_of("counts_per_class.csv") for name in classes if row[name] != "0"}
    )
    votes = read(EXPORTS / "counts_per_class.csv")
    assert Counter((str(item), str(label)) for item, _, label in triples(votes)) == raw
    assert votes.anonymous
    lines = [json.loads(line) for line in (EXPORTS / "label_counter.jsonl").read_text().splitlines()]
    raw = Counter({(line["uid"], label): n for line in lines for label, n in line["label_counter"].items() if n})
    votes = read(EXPORTS / "label_counter.jsonl")
    assert Counter((str(item), str(label)) for item, _, label in triples(votes)) == raw


def test_versions_of_a_workflow_are_never_pooled() -> None:
    path = EXPORTS / "zooniverse_versions.csv"
    for task in ("T0", "T1", "T2"):
        with pytest.raises(InputError, match=f"task '{task}' asks different things"):
            read(path, question=task)
    text = "What time of day was this photo taken?"
    raw: Counter[tuple[str, str, str]] = Counter()
    for row in rows_of("zooniverse_versions.csv"):
        for task in json.loads(row["annotations"]):
            if task.get("task_label") == text and task["value"]:
                raw[row["subject_ids"], row["user_name"], task["value"]] += 1
    with pytest.warns(DataWarning, match=r"was asked in 136 of 251 classifications"):
        votes = read(path, question=text)
    assert said(votes) == raw


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_gold_and_another_column_called_task() -> None:
    path = EXPORTS / "snow_rte_gold_inside.csv"
    with pytest.raises(InputError, match=r"'task' was taken as the item.*--item orig_id"):
        read(path)
    raw = Counter((row["orig_id"], row["!amt_worker_ids"], row["response"]) for row in rows_of("snow_rte_gold_inside.csv"))
    notes: list[str] = []
    votes = read(path, item="orig_id", notes=notes)
    assert said(votes) == raw
    assert "annotator = '!amt_worker_ids', label = 'response', gold = 'gold'" in notes[0]
    assert votes.n_gold == votes.n_items
