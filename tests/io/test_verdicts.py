"""Verdicts between two answers, with the order in which they stood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.exports import export

from crowdwise.errors import InputError
from crowdwise.io.verdicts import are_verdicts, read_verdicts


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, content)), encoding="utf-8")
    return path


def test_battles_with_questions_and_lengths(tmp_path: Path) -> None:
    rows = [
        {"question_id": 1, "model_a": "x", "model_b": "y", "judge": "j", "winner": "model_a", "length_a": 10, "length_b": 40},
        {"question_id": 1, "model_a": "y", "model_b": "x", "judge": "j", "winner": "tie", "length_a": 40, "length_b": 10},
        {"question_id": 2, "model_a": "x", "model_b": "y", "judge": "k", "winner": None, "length_a": 1, "length_b": 1},
    ]
    path = write(tmp_path / "b.jsonl", rows)
    assert are_verdicts(path)
    found = read_verdicts(path)
    assert found.n_missing == 1
    assert found.chose_first.tolist() == [1, 0.5]
    assert found.in_order.tolist() == [True, False]
    assert found.pair.tolist() == ["1: x | y"] * 2
    assert found.doublings is not None
    np.testing.assert_allclose(found.doublings, [-2, 2])
    votes = found.votes()
    # x won once and drew once: three quarters of one soft vote.
    assert votes.classes.tolist() == ["x", "y"]
    np.testing.assert_allclose(votes.weights, [0.75, 0.25])


def test_mt_bench_turns_the_second_game(tmp_path: Path) -> None:
    row = {
        "question_id": 1,
        "turn": 2,
        "model_1": "x",
        "model_2": "y",
        "g1_winner": "model_1",
        "g2_winner": "model_1",
        "judge": "j",
    }
    found = read_verdicts(write(tmp_path / "p.jsonl", [row | {"length_1": 8, "length_2": 2}]))
    assert found.first.tolist() == ["x", "y"]
    assert found.chose_first.tolist() == [1, 0]
    assert found.pair.tolist() == ["1 turn 2: x | y"] * 2
    assert found.doublings is not None
    assert found.doublings.tolist() == [2, -2]


def test_a_column_says_what_was_swapped(tmp_path: Path) -> None:
    rows = ["q1,m,a,0,10,20,A", "q1,m,a,1,10,20,A", "q2,m,B,no,10,20,b", "q3,m,tie,yes,5,0,"]
    text = "\n".join(["id,judge,winner,swapped,length_a,length_b,truth", *rows]) + "\n"
    path = write(tmp_path / "s.csv", text)
    assert are_verdicts(path)
    found = read_verdicts(path)
    # The verdict is a place, lengths and truth belong to the answers.
    assert found.chose_first.tolist() == [1, 1, 0, 0.5]
    assert found.first.tolist() == ["answer a", "answer b", "answer a", "answer b"]
    np.testing.assert_allclose(found.doublings, [-1, 1, -1, np.nan])
    np.testing.assert_array_equal(found.truth, [1, 0, 0, np.nan])


def test_texts_have_lengths_and_many_models_two_classes(tmp_path: Path) -> None:
    rows = [
        {
            "instruction": "é?",
            "generator_1": a,
            "generator_2": b,
            "annotator": "j",
            "preference": p,
            "output_1": "aaaa",
            "output_2": "b",
        }
        for a, b, p in (("x", "y", 1.25), ("z", "x", 2.0), ("y", "z", 1.5))
    ]
    found = read_verdicts(write(tmp_path / "a.json", json.dumps(rows)))
    assert found.chose_first.tolist() == [0.75, 0, 0.5]
    assert found.doublings is not None
    assert found.doublings.tolist() == [2, 2, 2]
    votes = found.votes()
    assert votes.classes.tolist() == ["left", "right"]
    assert votes.items.tolist() == ["é?: x | y", "é?: x | z", "é?: y | z"]


def test_a_plain_table_and_what_is_none(tmp_path: Path) -> None:
    found = read_verdicts(write(tmp_path / "t.csv", "first,second,annotator,winner\nx,y,j,x\ny,x,j,second\n"))
    assert found.question is None
    assert found.chose_first.tolist() == [1, 0]
    assert found.truth is None
    assert found.doublings is None
    assert not are_verdicts(write(tmp_path / "v.csv", "item,annotator,label\na,x,1\n"))
    assert not are_verdicts(write(tmp_path / "u.csv", "id,judge,verdict,swapped\na,x,good,0\n"))
    assert are_verdicts(write(tmp_path / "u.csv", "id,judge,verdict,swapped\na,x,A,0\n"))
    with pytest.raises(InputError, match="row 2: the winner 'z' is neither"):
        read_verdicts(write(tmp_path / "w.csv", "first,second,annotator,winner\nx,y,j,z\n"))


def test_real_preferences() -> None:
    path = export("llm_judge_preferences.json")
    found = read_verdicts(path)
    assert len(found.judge) == 120
    assert set(found.judge) == {"weighted_alpaca_eval_gpt4_turbo"}
    rows = json.loads(path.read_text(encoding="utf-8"))
    np.testing.assert_allclose(found.chose_first, [2 - row["preference"] for row in rows])
    assert found.votes().n_items == 120


ORDERS = {
    "a flag": ("winner", "AB", "swapped", [False, True]),
    "other names": ("choice", "ab", "is_flipped", ["no", "yes"]),
    "labels": ("label", "AB", "reversed", [0, 1]),
    "as MT-Bench's prompts ask": ("verdict", ["[[A]]", "[[B]]"], "swapped", [False, True]),
    "with a word": ("verdict", ["Assistant A", "Assistant B"], "swapped", [False, True]),
    "the order": ("winner", "AB", "order", ["AB", "BA"]),
    "the order in words": ("judgement", ["response_a", "response_b"], "presentation_order", ["original", "swapped"]),
    "numbers": ("preferred", [1, 2], "order", ["A, B", "B, A"]),
}


@pytest.mark.parametrize(("verdict", "places", "swap", "ways"), ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_both_orders_as_files_say_them(tmp_path: Path, verdict: str, places: Any, swap: str, ways: Any, suffix: str) -> None:
    # The first answer stood first and won; then it stood second and won again.
    rows = [
        {"id": "q", "judge": "j", verdict: places[0], swap: ways[0]},
        {"id": "q", "judge": "j", verdict: places[1], swap: ways[1]},
    ]
    table = "\n".join([",".join(rows[0]), *(",".join(f'"{cell}"' for cell in row.values()) for row in rows)]) + "\n"
    path = write(tmp_path / f"s.{suffix}", rows if suffix == "jsonl" else table)
    assert are_verdicts(path)
    found = read_verdicts(path)
    assert found.first.tolist() == ["answer a", "answer b"]
    assert found.chose_first.tolist() == [1, 0]
    # Both say that answer a is better.
    assert found.votes().weights.tolist() == [1]


def test_a_third_mark_is_a_tie_where_judges_write_it_so(tmp_path: Path) -> None:
    rows = [{"id": "q", "judge": "j", "verdict": "[[C]]", "swapped": True}]
    assert read_verdicts(write(tmp_path / "t.jsonl", rows)).chose_first.tolist() == [0.5]
    assert not are_verdicts(write(tmp_path / "c.csv", "id,judge,verdict,swapped\nq,j,C,0\n"))


def test_an_order_that_is_a_number_says_nothing_of_places(tmp_path: Path) -> None:
    assert not are_verdicts(write(tmp_path / "o.csv", "id,judge,verdict,order\nq,j,A,1\nq,j,B,2\n"))
    assert not are_verdicts(write(tmp_path / "p.csv", "id,judge,verdict,order\nq,j,A,AB\nq,j,B,random\n"))


def test_the_column_of_verdicts_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "n.csv", "id,judge,said,swapped\nq,j,A,0\nq,j,A,1\n")
    assert not are_verdicts(path)
    assert are_verdicts(path, label="said")
    assert read_verdicts(path, label="said").chose_first.tolist() == [1, 1]
