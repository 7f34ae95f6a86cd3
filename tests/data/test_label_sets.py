"""Sets of labels, as people write them down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import crowdwise
from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import DataWarning, InputError, SettingError


def texts(answers: LabelSets) -> list[tuple[Any, ...]]:
    return answers.to_frame().rows()


def test_one_row_per_answer_and_one_row_per_label_are_the_same() -> None:
    joined = LabelSets.from_arrays(["x", "x", "y"], ["ann", "bob", "ann"], ["dog|cat", "cat", "none"])
    apart = LabelSets.from_arrays(["x", "x", "x", "y"], ["ann", "bob", "ann", "ann"], ["dog", "cat", "cat", "none"])
    listed = LabelSets.from_arrays(["x", "x", "y"], ["ann", "bob", "ann"], [["cat", "dog"], {"cat"}, []])
    expected = [("x", "ann", "cat|dog"), ("x", "bob", "cat"), ("y", "ann", "none")]
    for answers in (joined, apart, listed):
        assert texts(answers) == expected
        assert answers.complete.all()
        assert answers.labels.tolist() == ["cat", "dog"]
    assert repr(joined) == "LabelSets(3 answers: 2 items, 2 annotators, 2 labels)"


def test_what_is_said_of_a_label_is_known_ruled_out_or_nothing() -> None:
    answers = LabelSets.from_arrays(["x"] * 4 + ["y"], list("abcda"), ["cat", "!dog", "not:cat|dog", "none", "abstain"])
    assert answers.complete.tolist() == [True, False, False, True]
    assert answers.n_missing == 1
    # y was answered by an abstention only: it stays, without an answer.
    assert answers.items.tolist() == ["x", "y"]
    assert answers.votes_per_item.tolist() == [4, 0]
    cat, dog = (answers.binary(k) for k in range(2))
    assert dict(zip(cat.annotator.tolist(), cat.label.tolist(), strict=True)) == {0: 1, 2: 0, 3: 0}
    assert dict(zip(dog.annotator.tolist(), dog.label.tolist(), strict=True)) == {0: 0, 1: 0, 2: 1, 3: 0}


def test_only_labels_that_were_shown_can_be_left_out() -> None:
    answers = LabelSets.from_arrays(["x", "x"], ["a", "b"], ["cat", "none"], shown=["cat|dog", "bird"])
    assert texts(answers) == [("x", "a", "cat|!dog"), ("x", "b", "!bird")]
    with pytest.raises(InputError, match=r"row 0: label 'cat' was not among the labels shown"):
        LabelSets.from_arrays(["x"], ["a"], ["cat"], shown=["dog|bird"])


def test_words_and_marks_can_be_chosen() -> None:
    answers = LabelSets.from_arrays(
        ["x", "y", "z"], ["a", "a", "a"], ["cat; dog", "nix", "-dog"], separator=";", none="nix", negations=("-",)
    )
    assert texts(answers) == [("x", "a", "cat|dog"), ("y", "a", "none"), ("z", "a", "!dog")]
    with pytest.raises(SettingError, match="separator"):
        LabelSets.from_arrays(["x"], ["a"], ["b"], separator="")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("x|!x", "row 3: label 'x' is both chosen and ruled out"),
        ("[x", "row 3: '\\[x' looks like a list but is not"),
    ],
)
def test_contradictions_are_named_by_file_and_row(tmp_path: Path, label: str, message: str) -> None:
    file = tmp_path / "answers.csv"
    file.write_text(f"item,annotator,label\n1,b,y\n1,a,{label}\n")
    with pytest.raises(InputError, match=f"answers.csv {message}"):
        crowdwise.read(file, LabelSets)


def test_none_ticked_beside_a_label_does_not_stop_a_file(tmp_path: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text('item,annotator,label\n1,b,Other\n1,a,"[""Other"",""None""]"\n2,a,None\n')
    with pytest.warns(DataWarning, match=r"1 answers are both 'none' and a label, the first in .*row 3; the labels count"):
        answers = crowdwise.read(file, LabelSets)
    assert texts(answers) == [(1, "a", "Other"), (1, "b", "Other"), (2, "a", "none")]


def test_files_of_every_kind(tmp_path: Path) -> None:
    rows = [{"item": 1, "annotator": "é", "label": ["a", "b"]}, {"item": 1, "annotator": "f", "label": []}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    (tmp_path / "a.csv").write_text("item,annotator,label\n1,é,a|b\n1,f,none\n2,f,\n")
    frame = pl.DataFrame(rows)
    frame.write_parquet(tmp_path / "a.parquet")
    expected = [(1, "f", "none"), (1, "é", "a|b")]
    for name in ("a.jsonl", "a.csv", "a.parquet"):
        answers = crowdwise.read(tmp_path / name, LabelSets)
        assert sorted(texts(answers)) == expected, name
    assert sorted(texts(LabelSets.from_frame(frame))) == expected
    assert (
        sorted(texts(LabelSets.from_frame(pd.DataFrame({**frame.to_dict(as_series=False), "label": ["a|b", "none"]}))))
        == expected
    )


def test_given_labels_keep_their_order_and_strangers_are_refused() -> None:
    answers = LabelSets.from_arrays([1], ["a"], ["x"], labels=["z", "x"])
    assert answers.labels.tolist() == ["z", "x"]
    with pytest.raises(InputError, match=r"row 0: label 'q' is not among the given labels"):
        LabelSets.from_arrays([1], ["a"], ["q"], labels=["z", "x"])


def test_no_answers_at_all_and_missing_ids() -> None:
    nothing = LabelSets.from_arrays([], [], [])
    assert (nothing.n_votes, nothing.n_items, nothing.n_labels) == (0, 0, 0)
    only_missing = LabelSets.from_arrays(["x"], ["a"], [None], labels=["cat"])
    assert (only_missing.n_votes, only_missing.n_items) == (0, 1)
    with pytest.raises(InputError, match="annotator id is missing"):
        LabelSets.from_arrays(["x"], [None], ["cat"])


def test_repeated_labels_count_once_and_row_order_does_not_matter() -> None:
    one = LabelSets.from_arrays(["x", "x", "y"], ["a", "a", "b"], ["cat|cat", "cat", "dog"])
    other = LabelSets.from_arrays(["y", "x"], ["b", "a"], ["dog", "cat"])
    assert texts(one) == texts(other)
    assert np.array_equal(one.answer, other.answer)
