"""Files that are not read as they are: the message says what they are, and the command in it reads them rightly."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.io.helpers import triples, write, write_lines

from crowdwise.data.comparisons import Comparisons
from crowdwise.errors import InputError
from crowdwise.io import read


def refused(path: Path) -> str:
    with pytest.raises(InputError) as error:
        read(path)
    return str(error.value)


def test_long_tables_are_not_called_transposed(tmp_path: Path) -> None:
    rows = [f"c{n},{who},{n % 2},{(n + 1) % 2},{20 + n}" for n in range(6) for who in ("ann", "bob", "cem")]
    message = refused(write(tmp_path / "v.csv", "comment_id,worker,toxic,insult,age\n" + "\n".join(rows) + "\n"))
    assert "--transposed" not in message
    assert "it may be 'toxic', 'insult'" in message

    few = "comment_id,worker,toxic,insult,age\nc1,ann,1,0,30\nc1,bob,1,1,31\nc2,ann,0,0,30\nc2,bob,1,0,31\n"
    assert "it may be 'toxic', 'insult'" in refused(write(tmp_path / "few.csv", few))

    rated = "Text,Reviewer,Rating (1-5),Reviewed at\nx,ann,4,2024-01-01\nx,bob,5,2024-01-02\ny,ann,1,2024-01-03\n"
    path = write(tmp_path / "w.csv", rated)
    message = refused(path)
    assert "--transposed" not in message
    assert f"crowdwise aggregate {path} --label 'Rating (1-5)'" in message
    assert triples(read(path, label="Rating (1-5)")) == [("x", "ann", 4), ("x", "bob", 5), ("y", "ann", 1)]


def test_comparisons_of_items_are_ranked(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item_a,item_b,annotator,winner\nx,y,ann,x\nx,y,bob,x\ny,z,ann,z\n")
    message = refused(path)
    assert "--transposed" not in message
    assert f"These are comparisons: crowdwise rank {path}" in message
    assert read(path, Comparisons).n_votes == 3


def test_labels_of_a_judge_that_was_asked_several_times(tmp_path: Path) -> None:
    records = [
        {"id": "q1", "model": "gpt", "votes": ["A", "A", "B"]},
        {"id": "q1", "model": "claude", "votes": ["B", "B", "A"]},
    ]
    found = triples(read(write_lines(tmp_path / "v.jsonl", records)))
    assert sorted(found) == sorted([("q1", "gpt", each) for each in "AAB"] + [("q1", "claude", each) for each in "BBA"])


def test_lists_of_votes_without_a_judge_are_anonymous(tmp_path: Path) -> None:
    votes = read(write_lines(tmp_path / "v.jsonl", [{"id": "q1", "votes": ["A", "A", "B"]}, {"id": "q2", "votes": ["B", "A"]}]))
    assert votes.anonymous
    assert [(item, label) for item, _, label in triples(votes)] == [
        ("q1", "A"),
        ("q1", "A"),
        ("q1", "B"),
        ("q2", "B"),
        ("q2", "A"),
    ]


@pytest.mark.parametrize("mark", [",", "|", ", "])
def test_all_votes_on_an_item_in_a_cell(tmp_path: Path, mark: str) -> None:
    rows = [("1", ["cat", "cat", "dog"]), ("2", ["dog", "dog"]), ("3", ["cat"]), ("4", [])]
    path = write(tmp_path / "v.csv", "id;votes\n" + "".join(f"{item};{mark.join(cell)}\n" for item, cell in rows))
    assert "if nobody knows who voted" in refused(path)
    votes = read(path, format="counts")
    assert votes.anonymous
    right = [(1, "cat"), (1, "cat"), (1, "dog"), (2, "dog"), (2, "dog"), (3, "cat")]
    assert [(item, label) for item, _, label in triples(votes)] == right
    assert votes.items.tolist() == [1, 2, 3, 4]


def test_probabilities_of_judges(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "v.jsonl", [{"id": "q1", "judge": who, "probs": {"A": 0.8, "B": 0.2}} for who in "xy"])
    message = refused(path)
    assert f"'probs' holds probabilities of the classes. Read them: crowdwise aggregate {path} --probabilities probs" in message
    assert read(path, probabilities="probs").items.tolist() == ["q1"]


def test_log_probabilities_of_judges(tmp_path: Path) -> None:
    # Judge by judge, so that no id recurs among the first records.
    rows = [{"id": f"q{n}", "judge": who, "logprobs": {"A": -0.25, "B": -1.8}} for who in "xy" for n in range(300)]
    path = write_lines(tmp_path / "v.jsonl", rows)
    message = refused(path)
    wanted = (
        f"'logprobs' holds log-probabilities of the classes. Read them: crowdwise aggregate {path} --probabilities logprobs"
    )
    assert wanted in message
    assert read(path, probabilities="logprobs").n_items == 300


def test_an_id_that_recurs_with_other_judges_is_the_item(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.csv", "id,judge,label,confidence\nq1,gpt,A,0.9\nq1,claude,A,0.8\nq2,gpt,B,0.7\nq2,claude,A,0.6\n"
    )
    assert triples(read(path)) == [("q1", "claude", "A"), ("q1", "gpt", "A"), ("q2", "claude", "A"), ("q2", "gpt", "B")]
    # An id that never recurs numbers the rows, and names no item.
    assert "no item column" in refused(write(tmp_path / "w.csv", "id,judge,label\n1,gpt,A\n2,claude,A\n3,gpt,B\n"))


def test_a_name_twice_may_be_no_name(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "a,cat,cat\nb,cat,dog\n")
    assert "if there is no row of names, add --no-header" in refused(path)
    assert read(path, header=False).n_votes == 4


def test_the_example_of_appen_is_a_column_that_was_answered(tmp_path: Path) -> None:
    header = "_unit_id,_worker_id,comment,input_text,frame,mood\n"
    rows = "1,w1,,hi,f1,glad\n1,w2,,hi,f1,glad\n2,w1,,yo,f2,sad\n"
    path = write(tmp_path / "v.csv", header.replace("frame,", "") + re.sub(r"f\d,", "", rows))
    assert f"crowdwise aggregate {path} --question mood" in refused(path)
    # A word for labels tells more than the order.
    path = write(tmp_path / "w.csv", header.replace("mood", "selected_answer") + rows)
    assert f"crowdwise aggregate {path} --question selected_answer" in refused(path)
