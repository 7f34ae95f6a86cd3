"""Known labels that nobody knows, labels that are texts, items of several columns; expected votes are written down by hand."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest
from tests.io.helpers import gold, triples, write

from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read

HEAD = "item,annotator,label,gold\n"


@pytest.mark.parametrize("nobody", ["-1", "-", "n/a", "?", "NaN"])
def test_gold_that_no_vote_says_and_that_means_unknown_is_left_out(nobody: str, tmp_path: Path) -> None:
    rows = f"a,x,0,{nobody}\na,y,1,{nobody}\nb,x,2,2\nc,x,0,{nobody}\n"
    with pytest.warns(DataWarning, match=rf"'{re.escape(nobody)}' \(2 of 3 items\) occurs in no vote") as caught:
        votes = read(write(tmp_path / "v.csv", HEAD + rows))
    assert gold(votes) == {"b": 2 if nobody == "-1" else "2"}
    assert votes.n_classes == 3
    assert len(caught) == 1


def test_gold_that_votes_say_or_that_is_named_stays(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "a,x,0,-1\na,y,-1,-1\nb,x,1,\nc,x,1,\nd,x,0,\ne,x,0,\n")
    assert gold(read(path)) == {"a": -1}
    path = write(tmp_path / "w.csv", HEAD + "a,x,0,-1\na,y,1,-1\nb,x,1,\nc,x,1,\nd,x,0,\n")
    assert gold(read(path, classes=[-1, 0, 1])) == {"a": -1}


def test_codes_of_votes_are_warned_of_beside_gold(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "a,x,1,1\nb,x,99,\nc,x,2,\nd,x,3,\ne,x,99,\n")
    with pytest.warns(DataWarning, match=r"'99' \(2\) counts as a class"):
        read(path)


def texts(label: str = "response", people: int = 2) -> str:
    rows = [f"{n},p{who},text {n},{'yes' if (n + who) % 3 else 'no'},g{n % 2}\n" for n in range(12) for who in range(people)]
    return f"item_id,rater_id,{label},Q_overall,group_of_item\n" + "".join(rows)


def test_a_text_of_the_items_is_no_label(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", texts())
    with pytest.raises(InputError, match="'response' was taken as the label, and is the same in all votes") as caught:
        read(path)
    # What differs among the votes on an item and among those of a person is what was answered.
    assert "may be in 'Q_overall': " in str(caught.value)
    assert str(caught.value).endswith("--label response")
    assert read(path, label="Q_overall").classes.tolist() == ["no", "yes"]
    assert read(path, label="response").n_classes == 12
    # With one vote each nobody can tell; people who agree on few labels are a crowd.
    assert read(write(tmp_path / "w.csv", texts(people=1))).n_classes == 12
    agreed = "".join(f"i{n},p{who},{'abc'[n % 3]}\n" for n in range(12) for who in (1, 2))
    assert read(write(tmp_path / "x.csv", "item,rater,response\n" + agreed)).n_classes == 3


def test_an_item_that_two_columns_name(tmp_path: Path) -> None:
    rows = [(f"d{n // 4}", n % 4, who) for n in range(16) for who in ("a", "b")]
    text = "doc_id,seg_no,rater,label\n" + "".join(f"{d},{s},{who},{'xy'[s % 2]}\n" for d, s, who in rows)
    path = write(tmp_path / "v.csv", text)
    with pytest.raises(InputError, match="'doc_id' and 'seg_no' together tell 16 items apart: join them in one column"):
        read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert read(path, item="doc_id").n_items == 4


def test_an_id_that_recurs_is_the_item(tmp_path: Path) -> None:
    rows = [(text, n, who) for n, text in enumerate("abcd") for who in ("ann", "bob")]
    path = write(tmp_path / "v.csv", "text,id,rater_id,label\n" + "".join(f"{t},{n},{who},{n % 2}\n" for t, n, who in rows))
    assert triples(read(path)) == [(n, who, n % 2) for _, n, who in rows]
