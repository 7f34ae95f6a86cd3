from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.io.helpers import gold, triples, write, write_lines

from crowdwise import Annotations
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io import read, read_gold
from crowdwise.io.spelling import clean, key_of

HEAD = "item,annotator,label\n"


def test_white_space_and_unicode_form_are_unified_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "caf\u00e9,ann,cat\ncafe\u0301,bob ,cat \n x,bob,\u200bdog\n")
    with pytest.warns(DataWarning, match=r"2 labels .* 2 item ids .*, 1 annotator id \('bob ' is 'bob'\)") as found:
        votes = read(path)
    assert len(found) == 1
    assert triples(votes) == [("caf\u00e9", "ann", "cat"), ("caf\u00e9", "bob", "cat"), ("x", "bob", "dog")]


def test_integers_with_white_space_are_integers(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="spellings unified"):
        votes = read(write(tmp_path / "v.csv", HEAD + "1,a,0\n 2,a,1 \n"))
    assert triples(votes) == [(1, "a", 0), (2, "a", 1)]


def test_given_classes_meet_labels_with_white_space(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="1 label "):
        votes = read(write(tmp_path / "v.csv", HEAD + "1,a,cat \n2,a,dog\n"), classes=["dog", "cat"])
    assert votes.classes.tolist() == ["dog", "cat"]


@pytest.mark.parametrize(
    "pair", [("cat", "Cat"), ("1", "1.0"), ("TRUE", "True"), ("sci_med", "sci.med"), ("STRASSE", "stra\u00dfe")]
)
def test_variants_are_reported_with_counts_and_unified_on_request(tmp_path: Path, pair: tuple[str, str]) -> None:
    rows = "".join(f"{n},a,{pair[0]}\n" for n in range(3)) + f"3,a,{pair[1]}\n4,a,z\n"
    path = write(tmp_path / "v.csv", HEAD + rows)
    with pytest.warns(DataWarning, match=rf"labels that differ in case.*'{pair[0]}' \(3\), '{pair[1]}' \(1\).*--fold-case"):
        assert read(path).n_classes == 3
    with pytest.warns(DataWarning, match="1 label "):
        votes = read(path, fold_case=True)
    assert sorted(map(str, votes.classes)) == sorted([pair[0], "z"])
    table = write(tmp_path / "s.csv", f"from,to\n{pair[1]},{pair[0]}\n")
    with pytest.warns(DataWarning, match="1 label "):
        assert sorted(map(str, read(path, spelling=table).classes)) == sorted([pair[0], "z"])


def test_annotators_are_folded_and_items_only_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "p1,ann,x\nP1,Ann,x\n")
    with pytest.warns(DataWarning) as found:
        assert read(path).n_annotators == 2
    assert [str(each.message).split(": ")[1].split(" ids")[0] for each in found] == ["item", "annotator"]
    with pytest.warns(DataWarning) as found:
        votes = read(path, fold_case=True)
    assert (votes.n_annotators, votes.n_items) == (1, 2)
    table = write(tmp_path / "s.csv", "from,to,role\nP1,p1,item\nAnn,ann,annotator\n")
    with pytest.warns(DataWarning, match="1 annotator id"):
        votes = read(path, spelling=table)
    assert triples(votes) == [("p1", "ann", "x"), ("p1", "ann", "x")]


def test_a_table_of_spellings_is_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", HEAD + "1,a,x\n")
    with pytest.raises(InputError, match="columns from and to"):
        read(path, spelling=write(tmp_path / "s.csv", "old,new\na,b\n"))
    with pytest.raises(InputError, match=r"t\.csv row 2: expected from, to, and a role"):
        read(path, spelling=write(tmp_path / "t.csv", "from,to,role\na,b,colour\n"))
    with pytest.raises(SettingError, match="mapping of labels or a path"):
        read(path, spelling=3)


def test_joins_of_words_fold_and_numbers_do_not() -> None:
    assert key_of("Sci_Med") == key_of("sci.med") == key_of("sci med")
    assert len({key_of("1.5"), key_of("1-5"), key_of("15")}) == 3
    assert key_of("1.0") == key_of("1") != key_of("10")
    assert clean("\ufeff a  b\t", inner=True) == "a b"


# -- gold ----------------------------------------------------------------------------------------


def test_gold_spelt_otherwise_is_an_error_with_the_spelling_of_the_votes(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label,gold\n1,a,cat,Cat\n2,a,dog,\n")
    with pytest.raises(InputError, match=r"gold label 'Cat' never occurs among the votes, which say 'cat'.*--fold-case"):
        read(path)
    with pytest.warns(DataWarning, match="spellings unified"):
        assert gold(read(path, fold_case=True)) == {1: "cat"}


def test_gold_that_nobody_could_tell_is_no_label_unless_it_is_a_class(tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("item,label\n1,x\n2,?\n3,\n")
    (tmp_path / "gold.txt").write_text("x\n?\ny\n")
    votes = Annotations.from_arrays(["1", "2", "3"], ["a", "a", "a"], ["x", "y", "x"])
    assert read_gold(tmp_path / "gold.csv", votes).rows() == [(1, "x")]
    assert read_gold(tmp_path / "gold.txt", votes)["label"].to_list() == ["x", "y"]
    with pytest.warns(DataWarning, match="[?]"):
        with_mark = Annotations.from_arrays(["1", "2", "3"], ["a", "a", "a"], ["x", "?", "y"])
    assert read_gold(tmp_path / "gold.csv", with_mark)["label"].to_list() == ["x", "?"]


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_gold_that_never_matches_is_an_error_unless_the_classes_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label,gold\n1,a,cat,kitty\n2,a,dog,doggy\n")
    with pytest.raises(InputError, match="no gold label occurs among the votes: gold says 'kitty', the nearest vote 'cat'"):
        read(path)
    assert gold(read(path, classes=["cat", "dog", "kitty", "doggy"])) == {1: "kitty", 2: "doggy"}


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_gold_with_a_slip_is_warned_about(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label,gold\n1,a,elephant,elefant\n2,a,dog,dog\n")
    with pytest.warns(DataWarning, match="'elefant' never occurs among the votes; did you mean 'elephant'"):
        read(path)


# -- ids -----------------------------------------------------------------------------------------


def test_integers_beyond_64_bits_stay_apart(tmp_path: Path) -> None:
    ids = [2**63 + k for k in range(4)]
    path = write_lines(tmp_path / "v.jsonl", [{"item": i, "annotator": a, "label": 1} for i in ids for a in (1, 2)])
    votes = read(path)
    assert votes.items.tolist() == [str(i) for i in ids]


def test_integers_beside_floats_stay_apart(tmp_path: Path) -> None:
    ids = [2**53 + 1, 2**53, 2**53 + 2, 0.5]
    path = write_lines(tmp_path / "v.jsonl", [{"item": i, "annotator": "a", "label": k} for k, i in enumerate(ids)])
    assert sorted(read(path).items.tolist()) == sorted(map(str, ids))


def test_whole_floats_are_the_integers_that_they_were(tmp_path: Path) -> None:
    path = write(tmp_path / "v.json", json.dumps([{"item": i, "annotator": 1.0, "label": 2.0} for i in (1, 2.0, None)][:2]))
    assert triples(read(path)) == [(1, 1, 2), (2, 1, 2)]


@pytest.mark.parametrize("ids", [("1.23457E+18", "1.23458E+18"), ("1.23e+17", "1.24e+17")])
def test_ids_that_a_spreadsheet_shortened_are_warned_about(tmp_path: Path, ids: tuple[str, str]) -> None:
    path = write(tmp_path / "v.csv", HEAD + f"{ids[0]},a,x\n{ids[0]},b,y\n{ids[1]},a,x\n")
    with pytest.warns(DataWarning, match=r"2 item ids such as .* \(3 rows\) have lost digits"):
        assert read(path).items.tolist() == sorted(ids)


def test_long_numbers_that_end_in_zeros_are_warned_about(tmp_path: Path) -> None:
    rows = "".join(f"{n}0000,a,x\n" for n in range(123456789012345, 123456789012349))
    with pytest.warns(DataWarning, match="4 item ids"):
        read(write(tmp_path / "v.csv", HEAD + rows))
    whole = "".join(f"{n}1234,a,x\n" for n in range(123456789012345, 123456789012349))
    assert read(write(tmp_path / "w.csv", HEAD + whole)).n_items == 4


def test_floats_beyond_53_bits_are_warned_about(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": [1e18, 1e18 + 128, 5.0], "annotator": ["a", "b", "b"], "label": [1, 2, 1]})
    frame.write_parquet(tmp_path / "v.parquet")
    with pytest.warns(DataWarning, match="2 item ids"):
        assert read(tmp_path / "v.parquet").n_items == 3


def test_a_table_of_gold_is_spelt_as_the_votes(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", HEAD + "p1,a,cat\np2,a,dog\n"))
    table = write(tmp_path / "g.csv", "item,label\np1 ,CAT\np2,dog \n")
    with pytest.raises(InputError, match=r"g\.csv row 2: gold label 'CAT' is spelt 'cat' in the votes.*--fold-case"):
        read_gold(table, votes)
    assert read_gold(table, votes, fold_case=True).rows() == [("p1", "cat"), ("p2", "dog")]
