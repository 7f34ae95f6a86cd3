"""Tables of annotators, what a table says of items, and what is written back."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError
from crowdwise.io.annotator_tables import read_families, read_family_tree, read_record
from crowdwise.io.conll import read_conll, write_conll
from crowdwise.io.kept import read_shown


def test_families_by_annotator(tmp_path: Path) -> None:
    path = tmp_path / "families.csv"
    path.write_text("worker,family,group\n01,x,a\nann,x,\nbob,y,b\nbob,y,b\n")
    assert read_families(path) == {"01": "a", "bob": "b"}
    path.write_text("annotator,group\nann,a\nann,b\n")
    with pytest.raises(InputError, match="annotator 'ann' is in 'a' and in 'b'; keep one row"):
        read_families(path)


def test_groups_within_families_by_annotator(tmp_path: Path) -> None:
    path = tmp_path / "families.csv"
    path.write_text("judge,prompt,Family,model\na1,p,f,a\na2,q,f,a\nb1,,,b\nc1,,g,\nd1,,,\n")
    tree = {"a1": ("f", "a", "p"), "a2": ("f", "a", "q"), "b1": ("", "b", ""), "c1": ("g", "", "")}
    assert read_family_tree(path) == tree
    assert read_families(path) == {"a1": "f", "a2": "f", "c1": "g"}
    path.write_text("judge,family,model\na1,f,a\na1,f,b\n")
    with pytest.raises(InputError, match="annotator 'a1' is in 'f > a' and in 'f > b'; keep one row"):
        read_family_tree(path)
    path.write_text("judge,model,prompt\na1,a,p\n")
    assert read_family_tree(path) == {"a1": ("a", "p")}
    # Where nothing else names them, models are the judges.
    path.write_text("model,family\na,f\nb,f\n")
    assert read_family_tree(path) == {"a": ("f",), "b": ("f",)}


def test_a_record_has_ids_as_text_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "record.csv"
    path.write_text("annotator,right,wrong\n007,3,1\n")
    assert read_record(path).rows() == [("007", 3.0, 1.0)]
    path.write_text("annotator,right,wrong\n007,many,1\n")
    with pytest.raises(InputError, match=r"record\.csv: right, wrong must be numbers"):
        read_record(path)


def test_what_a_table_shows_of_items(tmp_path: Path) -> None:
    votes = Annotations.from_arrays(["b", "a", "c"], ["x"] * 3, ["no", "yes", "no"])
    path = tmp_path / "items.csv"
    path.write_text("item,text,link\nc,first,\nc,last,u\nother,x,y\na,word,v\n")
    assert read_shown(path, votes).rows() == [("word", "v"), (None, None), ("last", "u")]
    path.write_text("item,text\nz,word\n")
    with pytest.raises(InputError, match="none of its items is among the votes"):
        read_shown(path, votes)
    path.write_text("item\na\n")
    with pytest.raises(InputError, match="nothing to show beside the column 'item'"):
        read_shown(path, votes)


def test_conll_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "tags.conll"
    path.write_text("token\tann\tbob\nThe\tO\tO\ncat\tB-X\tO\n\nEnd\tO\tO\n")
    tags = crowdwise.read(path, TokenVotes)
    write_conll(tags, pl.Series(["O", "B-X", "O"]).to_numpy(), tmp_path / "out.conll")
    assert (tmp_path / "out.conll").read_text() == "The\tO\ncat\tB-X\n\nEnd\tO\n"
    assert read_conll(tmp_path / "out.conll").frame.height == 3
