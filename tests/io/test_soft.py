"""Votes that are distributions, from tables."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import write, write_lines

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io import read

COLUMNS = "item,annotator,p_cat,p_dog\na,x,0.8,0.2\na,y,0.4,0.6\nb,x,,\n"
EXPECTED = {("a", "x", "cat"): 0.8, ("a", "x", "dog"): 0.2, ("a", "y", "cat"): 0.4, ("a", "y", "dog"): 0.6}


def shares(votes: Annotations) -> dict[tuple[Any, Any, Any], float]:
    assert votes.soft
    return {(item, who, label): round(weight, 6) for item, who, label, weight in votes.to_frame().rows()}


def test_a_column_per_class(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", COLUMNS)
    for names in ("p_*", "p_cat,p_dog", ["p_dog", "p_cat"]):
        votes = read(path, probabilities=names)
        assert shares(votes) == EXPECTED
        assert (votes.n_answers, votes.n_missing, votes.classes.tolist()) == (2, 1, ["cat", "dog"])
        assert votes.answers_per_item.tolist() == [2, 0]
    assert read(path, probabilities="p_*", classes=["dog", "cat"]).classes.tolist() == ["dog", "cat"]
    assert shares(read(path, probabilities="p_*", classes=["dog", "cat"])) == EXPECTED
    assert read(path, probabilities="p_*", classes=["no", "yes"]).classes.tolist() == ["no", "yes"]


def test_percents_and_logarithms(tmp_path: Path) -> None:
    assert shares(read(write(tmp_path / "p.csv", COLUMNS.replace("0.8,0.2", "80,20").replace("0.4,0.6", "40,60")),
                       probabilities="p_*")) == EXPECTED  # fmt: skip
    text = "item,annotator,p_cat,p_dog\na,x,-0.2231436,-1.6094379\na,y,-0.9162907,-0.5108256\n"
    assert shares(read(write(tmp_path / "l.csv", text), probabilities="p_*")) == EXPECTED
    # Of a language model's answers only the most probable ones may be known.
    few = "item,annotator,p_cat,p_dog\na,x,-1,-1\n"
    assert set(shares(read(write(tmp_path / "f.csv", few), probabilities="p_*")).values()) == {0.5}


@pytest.mark.parametrize("cell", ['"[0.8, 0.2]"', '"{""cat"": 0.8, ""dog"": 0.2}"', "\"{'cat': 0.8, 'dog': 0.2}\""])
def test_lists_and_mappings_in_cells(tmp_path: Path, cell: str) -> None:
    path = write(tmp_path / "v.csv", f"item,annotator,label\na,x,{cell}\n")
    votes = read(path, probabilities="label", classes=["cat", "dog"])
    assert shares(votes) == {("a", "x", "cat"): 0.8, ("a", "x", "dog"): 0.2}
    with pytest.raises(InputError, match=r"are probabilities of the classes; read them with .*--probabilities label"):
        read(path)


def test_lists_and_mappings_in_json(tmp_path: Path) -> None:
    records = [{"item": "a", "annotator": "x", "label": {"cat": 0.8, "dog": 0.2}},
               {"item": "a", "annotator": "y", "label": {"dog": 0.6, "cat": 0.4}}]  # fmt: skip
    path = write_lines(tmp_path / "v.jsonl", records)
    assert shares(read(path, probabilities="label")) == EXPECTED
    with pytest.raises(InputError, match="--probabilities label on the command line"):
        read(path)
    lists = [{"item": 1, "annotator": "x", "label": [0.25, 0.75]}, {"item": 2, "annotator": "x", "label": None}]
    votes = read(write_lines(tmp_path / "w.jsonl", lists), probabilities="label")
    assert shares(votes) == {(1, "x", 0): 0.25, (1, "x", 1): 0.75}
    assert votes.n_missing == 1


def test_judges_with_probabilities(tmp_path: Path) -> None:
    records = [{"id": "a", "judge": who, "verdict": {"cat": 0.8, "dog": 0.2}} for who in ("x", "y")]
    path = write_lines(tmp_path / "v.jsonl", records)
    with pytest.raises(InputError, match="--probabilities verdict on the command line"):
        read(path)
    assert shares(read(path, probabilities="verdict"))["a", "y", "cat"] == 0.8


def test_a_row_per_class(tmp_path: Path) -> None:
    rows = "".join(f"{item},{who},{label},{p}\n" for (item, who, label), p in EXPECTED.items())
    path = write(tmp_path / "v.csv", "item,annotator,label,p\n" + rows)
    assert shares(read(path, probabilities="p")) == EXPECTED
    with pytest.warns(DataWarning, match="sum to one, as the probabilities of one vote do.*--probabilities p"):
        assert not read(path, weight="p").soft


def test_how_sure_a_label_is(tmp_path: Path) -> None:
    text = "item,annotator,label,sure\na,x,cat,80%\na,y,dog,60\nb,x,fox,\nb,y,,50\n"
    votes = read(write(tmp_path / "v.csv", text.replace("60", "60%").replace(",50", ",50%")), sure="sure")
    assert shares(votes)["a", "x", "cat"] == 0.8
    assert shares(votes)["a", "x", "fox"] == 0.1
    # Nothing said about it: the label for certain.
    assert shares(votes)["b", "x", "fox"] == 1
    assert votes.n_missing == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("item,annotator,p_cat,p_dog\na,x,0.8,0.2\na,y,0.9,0.9\n", {"probabilities": "p_*"}, r"row 3: 0\.9, 0\.9 are no prob"),
        ("item,annotator,p_cat,p_dog\na,x,1.2,-0.2\n", {"probabilities": "p_*"}, "row 2: .* are no probabilities"),
        ("item,annotator,p_cat,p_dog\na,x,0.8,much\n", {"probabilities": "p_*"}, "row 2: 'much' is no probability"),
        (COLUMNS, {"probabilities": "q_*"}, r"no column 'q_\*'; found 'item'"),
        (COLUMNS, {"probabilities": "p_*", "classes": ["a"]}, "2 columns of probabilities and 1 classes"),
        ("item,annotator,label\na,x,\"[0.8, 0.1, 0.1]\"\n", {"probabilities": "label", "classes": ["a", "b"]}, "no list of 2"),
        ("item,annotator,label,sure\na,x,cat,-1\na,y,dog,0.5\n", {"sure": "sure"}, "row 2: sure '-1' is neither"),
    ],
)  # fmt: skip
def test_what_is_no_distribution_is_named(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / "v.csv", text), **options)


def test_two_ways_at_once_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", COLUMNS)
    with pytest.raises(SettingError, match="two ways"):
        read(path, probabilities="p_*", sure="p_cat")
    with pytest.raises(SettingError, match="no other weight"):
        read(path, probabilities="p_*", weight="p_cat")


def test_the_most_probable_tokens_are_a_vote(tmp_path: Path) -> None:
    # What is no class, and what is not listed, has no part in the vote; " good" and "good" are one.
    top = [{"token": " good", "logprob": -1.2}, {"token": "good", "logprob": -1.2}, {"token": "The", "logprob": -2.5}]
    records = [
        {"id": "q", "judge": "a", "logprobs": {"good": -0.1}},
        {"id": "q", "judge": "b", "logprobs": {"good": -0.5, "bad": -1.5}},
        {"id": "r", "judge": "a", "logprobs": [*top, {"token": "bad", "logprob": -1.2}]},
    ]
    notes: list[str] = []
    path = write_lines(tmp_path / "v.jsonl", records)
    votes = read(path, probabilities="logprobs", classes=["good", "bad"], notes=notes)
    first = 1 / (1 + 2.718281828459045**-1)
    assert votes.weights.tolist() == pytest.approx([1, first, 1 - first, 2 / 3, 1 / 3])
    assert "log-probabilities of 3 of 3 votes leave" in notes[-1]


def test_tokens_that_differ_in_case_are_one_class(tmp_path: Path) -> None:
    # The token that says yes would be left out, and a vote of 0.8 for yes be one of 1 for no.
    tokens = [{"token": " Yes", "logprob": -0.5}, {"token": "YES", "logprob": -1.5}, {"token": "no", "logprob": -2.0}]
    path = write_lines(tmp_path / "v.jsonl", [{"id": "q", "judge": "a", "top": tokens}])
    yes, no = math.exp(-0.5) + math.exp(-1.5), math.exp(-2.0)
    expected = pytest.approx([yes / (yes + no), no / (yes + no)])
    assert read(path, probabilities="top", classes=["yes", "no"]).weights.tolist() == expected
    # Without classes only where it is asked for, and not between classes that differ in case alone.
    assert read(path, probabilities="top").classes.tolist() == ["YES", "Yes", "no"]
    folded = read(path, probabilities="top", fold_case=True)
    assert (folded.classes.tolist(), folded.weights.tolist()) == (["YES", "no"], expected)
    apart = read(path, probabilities="top", classes=["Yes", "YES", "no"])
    assert apart.weights.tolist() == pytest.approx([math.exp(-0.5) / (yes + no), math.exp(-1.5) / (yes + no), no / (yes + no)])


def test_logarithms_that_sum_to_one_need_no_note(tmp_path: Path) -> None:
    notes: list[str] = []
    records = [{"id": "q", "judge": "a", "p": {"x": -0.2231, "y": -1.6094}}, {"id": "r", "judge": "a", "p": {"x": 0.0}}]
    votes = read(write_lines(tmp_path / "v.jsonl", records), probabilities="p", notes=notes)
    assert votes.weights.tolist() == pytest.approx([0.8, 0.2, 1], abs=1e-4)
    assert not any("log-prob" in line for line in notes)
