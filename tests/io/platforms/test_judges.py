"""Votes of judges as evaluation harnesses write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crowdwise.errors import InputError
from crowdwise.io import read


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    return path


def triples(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    votes = read(path, **options)
    names = zip(votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label], strict=True)
    return sorted(tuple(map(str, row)) for row in names)


def test_a_judge_of_two_parts_has_both_in_its_name(tmp_path: Path) -> None:
    # MT-Bench's ratings of single answers: model and prompt of the judge in a list.
    records = [
        {"question_id": n, "model": "m", "judge": [who, "single-v1"], "score": 7, "turn": 1} for n in (1, 2) for who in "xy"
    ]
    assert triples(lines(tmp_path / "single.jsonl", records)) == [
        ("1", "x single-v1", "7"), ("1", "y single-v1", "7"), ("2", "x single-v1", "7"), ("2", "y single-v1", "7"),
    ]  # fmt: skip
    # An object: its parts are those of a family by name.
    objects = [{"id": 1, "grader": {"model": who, "prompt": "strict"}, "passed": who == "x"} for who in "xy"]
    assert triples(lines(tmp_path / "object.jsonl", objects)) == [("1", "x/strict", "True"), ("1", "y/strict", "False")]
    below = [{"id": 1, "judgments": [{"judge": {"model": who, "temperature": 0.7}, "label": "a"} for who in "xy"]}]
    assert triples(lines(tmp_path / "below.jsonl", below)) == [("1", "x/0.7", "a"), ("1", "y/0.7", "a")]


def test_scores_by_judge_are_asked_about_and_criteria_are_none(tmp_path: Path) -> None:
    records = [{"id": n, "prompt": "p", "scores": {"x": n % 2, "y": 1, "z": 1}} for n in range(4)]
    path = lines(tmp_path / "scores.jsonl", records)
    with pytest.raises(
        InputError, match=r"labels of annotators, or counts .* --format judges; if they are counts: .*--format counts"
    ):
        read(path)
    assert triples(path, format="judges")[:3] == [("0", "x", "0"), ("0", "y", "1"), ("0", "z", "1")]
    # Beside a judge and its verdict they are scores of criteria.
    said = [{"id": 1, "judge": who, "verdict": "good", "scores": {"clear": 1, "right": 2}} for who in "xy"]
    assert triples(lines(tmp_path / "criteria.jsonl", said)) == [("1", "x", "good"), ("1", "y", "good")]


@pytest.mark.parametrize(
    ("name", "of_a", "of_b", "what"), [("prob", 0.2, 0.8, "probab"), ("logprob", -1.6094, -0.2231, "log-probab")]
)
def test_a_record_per_class_is_no_vote_of_its_own(tmp_path: Path, name: str, of_a: float, of_b: float, what: str) -> None:
    records = [
        {"id": n, "judge": who, "choice": c, name: p} for n in range(3) for who in "xy" for c, p in (("A", of_a), ("B", of_b))
    ]
    path = lines(tmp_path / "rows.jsonl", records)
    message = rf"'{name}' holds {what}ilities of the classes, a row for each class. Read them: .*--probabilities {name}"
    with pytest.raises(InputError, match=message):
        read(path)
    table = f"item,judge,choice,{name}\n" + "".join(f"{r['id']},{r['judge']},{r['choice']},{r[name]}\n" for r in records)
    (tmp_path / "rows.csv").write_text(table, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read(tmp_path / "rows.csv")
    votes = read(path, probabilities=name)
    assert votes.weights.round(3).tolist() == [0.2, 0.8] * 6
    # How sure each of several labels was is another matter: these add up to nothing in particular.
    sure = [{"id": n, "judge": who, "choice": c, "confidence": 0.9} for n in range(3) for who in "xy" for c in "AB"]
    assert read(lines(tmp_path / "sure.jsonl", sure)).n_votes == 12


def test_columns_of_log_probabilities_are_named(tmp_path: Path) -> None:
    (tmp_path / "logs.csv").write_text("id,judge,logprob_A,logprob_B\n1,x,-0.1,-2.4\n1,y,-0.7,-0.7\n2,x,-3,-0.05\n")
    with pytest.raises(
        InputError, match=r"hold log-probabilities of the classes. Read them: .*--probabilities logprob_A,logprob_B"
    ):
        read(tmp_path / "logs.csv")
    assert read(tmp_path / "logs.csv", probabilities="logprob_*").classes.tolist() == ["A", "B"]
    # A score that is never above zero is no logarithm because of that.
    (tmp_path / "scores.csv").write_text("id,judge,clear_A,clear_B\n1,x,-1,-2\n1,y,-1,-3\n2,x,-3,-5\n")
    with pytest.raises(InputError, match=r"no .*label") as problem:
        read(tmp_path / "scores.csv")
    assert "log-prob" not in str(problem.value)
