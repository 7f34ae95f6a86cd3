"""Tables whose columns are questions, classes or items, not annotators; expected votes are written down by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import triples, write

from crowdwise.errors import InputError
from crowdwise.io import read
from crowdwise.io.question_grid import questions_of
from crowdwise.io.voting_columns import numbered_alike


def table(head: str, *columns: str) -> str:
    """A table with these columns, a cell per letter, below a column of ids."""
    rows = [",".join(cells) for cells in zip(map(str, range(1, len(columns[0]) + 1)), *columns, strict=True)]
    return "\n".join([head, *rows]) + "\n"


# Twelve rows each.
A, B, C = "011010110100", "011010010100", "111010110000"


@pytest.mark.parametrize(
    "head",
    [
        "id,toxic,severe_toxic,insult",
        "id,anger,joy,surprise",
        "id,coherence,fluency,relevance",
        "id,is_hateful,obscene,attack",
    ],
)
def test_columns_called_like_questions_are_no_annotators(head: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", table(head, A, B, C))
    with pytest.raises(InputError, match="called like questions or classes") as caught:
        read(path)
    names = head.removeprefix("id,")
    assert str(caught.value).endswith(f"--annotator-columns {names}")
    assert read(path, annotators=names).n_annotators == 3


@pytest.mark.parametrize(
    "head", ["id,Anna,Bert,Cem", "id,gpt-4,claude-3,gemini", "id,Joy,Grace,Tom", "id,r1,r2,r3", "id,A,B,C"]
)
def test_columns_called_like_people_vote(head: str, tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", table(head, A, B, C)))
    assert (votes.n_items, votes.n_annotators, votes.n_votes) == (12, 3, 36)


@pytest.mark.parametrize("head", ["id,q1,q2,q3", "subject,stim1,stim2,stim3", "Response ID,Is it a dog?,Is it big?,Is it old?"])
def test_columns_called_like_items_are_asked_about(head: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", table(head, A, B, C))
    with pytest.raises(InputError, match=r"called like items or questions.*--transposed; if they are annotators: "):
        read(path)
    votes = read(path, transposed=True)
    assert (votes.n_items, votes.n_annotators) == (3, 12)
    assert votes.items.tolist() == sorted(head.split(",")[1:])


def test_annotators_crossed_with_questions_that_some_never_answered(tmp_path: Path) -> None:
    head = "essay,rater1_domain1,rater2_domain1,rater3_domain1,rater1_domain2,rater2_domain2"
    path = write(tmp_path / "v.csv", table(head, A, B, C, A, B))
    with pytest.raises(InputError, match="several questions to each annotator") as caught:
        read(path)
    assert "--annotator-columns rater1_domain1,rater2_domain1,rater3_domain1;" in str(caught.value)
    assert questions_of(["expert1_a", "expert2_a"]) is None
    assert questions_of(["ann 1 - toxic", "ann 2 - toxic", "ann 2 - rude"]) == (
        {"toxic": ["ann 1 - toxic", "ann 2 - toxic"], "rude": ["ann 2 - rude"]},
        {"ann 1": ["ann 1 - toxic"], "ann 2": ["ann 2 - toxic", "ann 2 - rude"]},
    )


def test_a_class_per_column_and_annotator_is_no_vote(tmp_path: Path) -> None:
    head = "id," + ",".join(f"Annotator{who}_is_abuse.{label}" for who in (1, 2) for label in ("1", "0", "-1"))
    cells = ["1,0,0,0,1,0", "0,1,0,0,1,0", "0,0,1,,,", "0,1,0,1,0,0", "1,0,0,1,0,0"] * 2
    path = write(tmp_path / "v.csv", head + "\n" + "".join(f"{n},{row}\n" for n, row in enumerate(cells)))
    with pytest.raises(InputError, match="'Annotator1_is_abuse', 'Annotator2_is_abuse' each ticked one of several columns"):
        read(path)


def test_a_column_called_label_is_nobody(tmp_path: Path) -> None:
    notes: list[str] = []
    votes = read(write(tmp_path / "v.csv", table("id,lf_a,lf_b,label", A, B, C)), notes=notes)
    assert votes.annotators.tolist() == ["lf_a", "lf_b"]
    assert "not voting: 'label'" in notes[0]
    # Neither is a column that says which part of the data a row is of, however its values are spelt.
    assert read(write(tmp_path / "v.csv", table("id,essay_set,ann,bob", A, B, C))).annotators.tolist() == ["ann", "bob"]


def test_two_columns_with_numbers_are_annotators(tmp_path: Path) -> None:
    rows = [("a", "a"), ("b", "a"), ("b", "b"), ("a", "a")]
    votes = read(write(tmp_path / "v.csv", "rater1,rater2\n" + "".join(f"{x},{y}\n" for x, y in rows)))
    assert triples(votes) == [(n, f"rater{k}", row[k - 1]) for n, row in enumerate(rows, start=1) for k in (1, 2)]


SURVEY = "Respondent ID,Email,Is comment 1 rude?,Is comment 2 rude?,Is comment 3 rude?\n"
ANSWERS = [("Yes", "No", "Yes"), ("Yes", "Yes", "No"), ("No", "No", "Yes"), ("Yes", "No", "Yes")]


@pytest.mark.parametrize("second", [",,Response,Response,Response", "ID,Mail,Rude? 1,Rude? 2,Rude? 3", None])
def test_a_second_header_does_not_vote(second: str | None, tmp_path: Path) -> None:
    rows = "".join(f"{n},anonymous,{','.join(row)}\n" for n, row in enumerate(ANSWERS, start=10))
    path, notes = write(tmp_path / "v.csv", SURVEY + (f"{second}\n" if second else "") + rows), list[str]()
    with pytest.raises(InputError, match=r"a row per person, and a column per item: .*--transposed"):
        read(path)
    votes = read(path, transposed=True, notes=notes)
    # Nobody is told apart by an address that all share.
    expected: list[tuple[Any, ...]] = [
        (f"Is comment {k} rude?", n, row[k - 1]) for k in (1, 2, 3) for n, row in enumerate(ANSWERS, start=10)
    ]
    assert triples(votes) == expected
    assert ("1 row below the header that describes the columns" in notes[0]) == (second is not None)


def test_a_person_who_says_what_nobody_says_stays_where_others_do_not_repeat_themselves(tmp_path: Path) -> None:
    rows = [("x", "y", "z"), ("Yes", "No", "Yes"), ("Yes", "No", "No"), ("No", "No", "Yes")]
    path = write(tmp_path / "v.csv", "person,q1,q2,q3\n" + "".join(f"p{n},{','.join(row)}\n" for n, row in enumerate(rows)))
    assert read(path, transposed=True).n_annotators == 4


def test_names_that_differ_by_their_numbers_alone() -> None:
    names = ["Is comment 1 rude?", "Is comment 2 rude?", "Is comment 10 rude?", "Is comment 1 true?", "Age", "Image 3"]
    assert numbered_alike(names) == set(names[:3])


def test_readers_with_letters_vote_alone(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", table("Patient,Reader A,Reader B,Biopsy", A, B, C)))
    assert votes.annotators.tolist() == ["Reader A", "Reader B"]
    # Texts are no votes, whatever their columns are called.
    rows = "".join(f"p{n},one says {n},two say {n},{n % 2}\n" for n in range(12))
    with pytest.raises(InputError, match="no annotator column"):
        read(write(tmp_path / "w.csv", "pair_id,a1,a2,label\n" + rows))


def test_what_never_changes_is_no_count(tmp_path: Path) -> None:
    rows = "".join(f"u{n % 3},c{n},{n % 2},1,2013\n" for n in range(12))
    with pytest.raises(InputError, match="no item, no annotator and no label column"):
        read(write(tmp_path / "v.csv", "SRC,TGT,VOT,RES,YEA\n" + rows))
