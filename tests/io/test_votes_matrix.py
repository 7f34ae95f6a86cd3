from __future__ import annotations

from pathlib import Path

import pytest
from tests.io.helpers import triples, write

from crowdwise.errors import InputError
from crowdwise.io import detect, read


def test_a_wide_table_with_numbered_annotators_is_recognised(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,rater_1,rater_2,rater_3\na,cat,,dog\nb,,,\n")
    votes = read(path)
    assert detect(path) == "wide"
    assert triples(votes) == [("a", "rater_1", "cat"), ("a", "rater_3", "dog")]
    assert votes.items.tolist() == ["a", "b"]
    assert votes.n_annotators == 3


def test_a_sparse_table_of_few_labels_is_recognised(tmp_path: Path) -> None:
    rows = "".join(f"{n},{'yes' if n % 2 else ''},{'no' if n % 3 else ''},\n" for n in range(12))
    assert detect(write(tmp_path / "v.csv", f"id,ann,bob,cem\n{rows}")) == "wide"


def test_feature_tables_and_tidy_ones_are_not_wide(tmp_path: Path) -> None:
    assert detect(write(tmp_path / "v.csv", "item,length,height\na,1.5,2.5\nb,1.7,2.1\n")) == "csv"
    assert detect(write(tmp_path / "w.csv", "item,annotator,label\na,x,1\n")) == "csv"


def test_minus_one_is_absent_only_where_it_must_be(tmp_path: Path) -> None:
    absent = read(write(tmp_path / "a.csv", "item,w1,w2\n1,0,-1\n2,1,2\n"))
    assert absent.classes.tolist() == [0, 1, 2]
    assert absent.n_votes == 3
    with pytest.raises(InputError, match="may be a class or no vote"):
        read(write(tmp_path / "d.csv", "item,w1,w2\n1,0,-1\n2,1,1\n"))
    signs = read(write(tmp_path / "b.csv", "item,w1,w2\n1,1,-1\n2,1,1\n"))
    assert signs.classes.tolist() == [-1, 1]
    beside_empty = read(write(tmp_path / "c.csv", "item,w1,w2\n1,0,-1\n2,1,\n"))
    assert beside_empty.classes.tolist() == [-1, 0, 1]


def test_wide_errors_name_the_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.csv row 3: item 'a' occurs twice"):
        read(write(tmp_path / "v.csv", "item,w1,w2\na,1,2\na,1,2\n"))
    with pytest.raises(InputError, match=r"w\.csv row 3: label 'x' is not among the classes"):
        read(write(tmp_path / "w.csv", "item,w1,w2\na,1,2\nb,1,x\n"), classes=[1, 2])
    with pytest.raises(InputError, match="one column per annotator"):
        read(write(tmp_path / "u.csv", "item\na\n"), format="wide")


def test_answers_files(tmp_path: Path) -> None:
    path = write(tmp_path / "answers.txt", "0 -1 2\n-1 -1 -1\n1 1 -1\n")
    votes = read(path)
    assert detect(path) == "answers"
    assert triples(votes) == [(0, 0, 0), (0, 2, 2), (2, 0, 1), (2, 1, 1)]
    assert votes.items.tolist() == [0, 1, 2]
    assert read(write(tmp_path / "floats.txt", "0.0 -1.0\n1.0 1.0\n"), format="answers").classes.tolist() == [0, 1]


def test_ragged_answers_name_the_row(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"answers\.txt row 2: 1 numbers where row 1 has 3"):
        read(write(tmp_path / "answers.txt", "0 -1 2\n-1\n"))
    with pytest.raises(InputError, match=r"answers\.txt row 2: 'x' is not a number"):
        read(write(tmp_path / "answers.txt", "0 -1\n-1 x\n"))
