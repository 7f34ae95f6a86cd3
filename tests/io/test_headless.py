"""Tables without names of columns, and tables between blanks; expected votes are written down by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.io.helpers import gold, triples, write

from crowdwise.errors import InputError
from crowdwise.io import read

# 12 votes of three people on four items; the first row is one of them.
PEOPLE, ITEMS = ("ann", "bob", "cem"), ("i1", "i2", "i3", "i4")
VOTES = [(who, item, "dog" if item in ("i2", "i4") else "cat") for item in ITEMS for who in PEOPLE]
EXPECTED = sorted((item, who, said) for who, item, said in VOTES)
NAMED = {"header": False, "item": "column 2", "annotator": "column 1", "label": "column 3"}


def test_a_first_row_that_is_a_vote_is_not_lost(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "".join(",".join(vote) + "\n" for vote in VOTES))
    with pytest.raises(InputError, match="first row looks like the rows below it") as caught:
        read(path)
    assert "--item 'column 2' --annotator 'column 1' --label 'column 3' --no-header" in str(caught.value)
    assert triples(read(path, **NAMED)) == EXPECTED
    # Without names for the columns each would be an annotator.
    with pytest.raises(InputError, match="a row looks like one vote"):
        read(path, header=False)


def test_a_first_row_of_a_matrix_is_not_taken_for_names_of_annotators(tmp_path: Path) -> None:
    rows = ["p1,cat,dog,fox", "p2,cat,dog,cat", "p3,dog,dog,fox", "p4,cat,fox,fox"]
    files = write(tmp_path / "f.csv", "\n".join(row.replace(",", ".jpg,", 1) for row in rows) + "\n")
    with pytest.raises(InputError, match="first row looks like the rows below it"):
        read(files)
    path = write(tmp_path / "v.csv", "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=r"'cat', 'dog', 'fox' stand below too. Read it without names: .*--no-header"):
        read(path)
    votes = read(path, header=False)
    assert (votes.n_items, votes.n_votes) == (4, 12)
    # What is named is taken at its word, and a ticked box holds the name of its column alone.
    assert (
        read(write(tmp_path / "w.csv", "id,cat,dog,fox\na,cat,cat,dog\nb,fox,dog,dog\n"), annotators="cat,dog").n_annotators
        == 2
    )


def test_numbers_of_votes_are_no_matrix(tmp_path: Path) -> None:
    rows = [(7 + "abc".index(who[0]), int(item[1:]) + 100, len(said) - 2) for who, item, said in VOTES]
    path = write(tmp_path / "v.txt", "".join(" ".join(map(str, row)) + "\n" for row in rows))
    many = [(who + 3 * part, item, said + (who + item + part) % 2) for part in range(3) for who, item, said in rows]
    path = write(tmp_path / "v.txt", "".join(" ".join(map(str, row)) + "\n" for row in many))
    with pytest.raises(InputError, match="a row looks like one vote"):
        read(path)
    assert triples(read(path, **NAMED)) == sorted((item, who, said) for who, item, said in many)
    assert read(path, format="answers").n_annotators == 3


def test_cells_between_blanks(tmp_path: Path) -> None:
    text = 'topicID workerID docID gold label\n20  w1 d-1 1 0\n20  w2 d-1 1 1\n21  w1 d-2 "" 0\n21 w3 d-3 "" 1\n'
    votes = read(write(tmp_path / "v.txt", text))
    assert triples(votes) == [("d-1", "w1", 0), ("d-1", "w2", 1), ("d-2", "w1", 0), ("d-3", "w3", 1)]
    assert gold(votes) == {"d-1": 1}
    quoted = 'item rater rating\n"a b" "x" "very good"\n"a b" "y" "poor"\n'
    assert triples(read(write(tmp_path / "q.dat", quoted))) == [("a b", "x", "very good"), ("a b", "y", "poor")]
    # R numbers the rows, and gives the numbers no name.
    with pytest.raises(InputError, match=r"row\.names = FALSE"):
        read(write(tmp_path / "r.txt", 'item rater rating\n"1" a x good\n"2" a y poor\n'))
    with pytest.raises(InputError, match=r"cannot tell what \.txt holds"):
        read(write(tmp_path / "prose.txt", "It was a dark night.\nNobody was there, and nothing moved at all.\n"))


def test_annotators_whose_names_are_numbers_are_names(tmp_path: Path) -> None:
    rows = [(n, 1 + n % 3, 1 + n % 2, 1 + (n + 1) % 3) for n in range(12)]
    for head in ("id,1,2,3", ",1,2,3", "Unnamed: 0,3,1,2"):
        votes = read(write(tmp_path / "v.csv", head + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)))
        assert (votes.n_items, votes.annotators.tolist()) == (12, [1, 2, 3])
    # A data frame without names writes their numbers.
    counted = "".join(f"{a},{b},{c}\n" for _, a, b, c in rows)
    votes = read(write(tmp_path / "w.csv", "1,2,3\n" + counted), format="wide")
    assert (votes.n_items, votes.annotators.tolist()) == (12, [1, 2, 3])
