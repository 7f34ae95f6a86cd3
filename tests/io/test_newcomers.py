"""Files as people keep them: what is read, what is asked about, and that the commands given do read the file.

The right reading of every file is written down here by hand, or made before the file is.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.io.helpers import gold, triples, write, write_json, write_lines

from crowdwise.data.annotations import Annotations
from crowdwise.data.ratings import Ratings
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import detect, read

_OPTIONS = {
    "--item": "item", "--annotator": "annotator", "--label": "label", "--format": "format", "--question": "question",
    "--annotator-columns": "annotators", "--not": "exclude", "--probabilities": "probabilities", "--sure": "sure",
    "--value": "value", "--type": "type",
}  # fmt: skip
_FLAGS = {"--transposed": {"transposed": True}, "--one-label": {"several": "keep"}, "--no-header": {"header": False}}


def noted(path: Path, **options: Any) -> tuple[Annotations, str]:
    notes: list[str] = []
    return read(path, notes=notes, **options), "\n".join(notes)


def commands(message: str, path: Path) -> list[dict[str, Any]]:
    """The commands in a message, as options of `read`, in their order."""
    found = []
    for part in message.split(f"crowdwise aggregate {path}")[1:]:
        words, given = shlex.split(part.split(";")[0].split(" (")[0].rstrip(" .")), {}
        while words and words[0].startswith("--"):
            word = words.pop(0)
            given |= _FLAGS[word] if word in _FLAGS else {_OPTIONS[word]: words.pop(0)}
        found.append(given)
    return found


def refused(path: Path, match: str, **options: Any) -> list[dict[str, Any]]:
    with pytest.raises(InputError, match=match) as caught:
        read(path, **options)
    return commands(str(caught.value), path)


def tallies(votes: Annotations) -> dict[tuple[Any, Any], int]:
    """How many votes an item has for a label."""
    found: dict[tuple[Any, Any], int] = {}
    for item, _, label in triples(votes):
        found[item, label] = found.get((item, label), 0) + 1
    return found


def table(rows: Iterable[Iterable[Any]]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


# -- counts, shares and labels -------------------------------------------------------------------

CLASSES = ("bird", "cat", "dog")
# Uneven totals, as where some votes were lost.
ROWS = ((0, 6, 1), (1, 5, 0), (0, 0, 5), (4, 0, 1), (0, 3, 0), (5, 1, 1), (0, 1, 6), (3, 0, 0))
COUNTS = {f"p{k}": ROWS[k % 8] for k in range(24)}


def test_uneven_counts_or_labels_are_asked_about(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", table([("photo", *CLASSES), *((item, *row) for item, row in COUNTS.items())]))
    counts, people = refused(path, "may be labels of annotators, or counts")
    right = {(item, CLASSES[k]): n for item, row in COUNTS.items() for k, n in enumerate(row) if n}
    votes = read(path, **counts)
    assert votes.anonymous
    assert tallies(votes) == right
    assert triples(read(path, **people)) == sorted(
        (item, CLASSES[k], n) for item, row in COUNTS.items() for k, n in enumerate(row)
    )


def test_grades_on_which_annotators_agree_are_read(tmp_path: Path) -> None:
    grades = {f"e{k}": (k % 4, k % 4, min(k % 4 + k % 2, 3)) for k in range(12)}
    path = write(tmp_path / "v.csv", table([("essay", "Ann", "Bob", "Cem"), *((e, *row) for e, row in grades.items())]))
    votes, _ = noted(path)
    assert triples(votes) == sorted(
        (e, who, row[k]) for e, row in grades.items() for k, who in enumerate(("Ann", "Bob", "Cem"))
    )


def test_shares_are_asked_about_and_read_both_ways(tmp_path: Path) -> None:
    counts = {"a": (4, 1, 0), "b": (0, 5, 0), "c": (2, 2, 1), "d": (0, 3, 2)}
    path = write(tmp_path / "v.csv", table([("photo", *CLASSES), *((i, *(n / 5 for n in row)) for i, row in counts.items())]))
    shares, model = refused(path, "add up to 1 in every row")
    votes, notes = noted(path, **shares)
    assert tallies(votes) == {(i, CLASSES[k]): n for i, row in counts.items() for k, n in enumerate(row) if n}
    assert "shares, taken as those of 5 votes each" in notes
    soft, notes = noted(path, **model)
    assert soft.annotators.tolist() == ["model"]
    assert soft.items.tolist() == list("abcd")
    assert "no annotator is named" in notes


def test_shares_that_no_number_of_votes_gives_are_refused_as_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "photo,cat,dog\na,0.12345,0.87655\nb,0.5,0.5\nc,0.98765,0.01235\n")
    with pytest.raises(InputError, match="is no count of votes"):
        read(path, format="counts", annotators="cat,dog")


@pytest.mark.parametrize("header", ["item,model,p_cat,p_dog", "item,model,cat,dog"])
def test_probabilities_of_several_models_name_their_option(tmp_path: Path, header: str) -> None:
    path = write(tmp_path / "v.csv", f"{header}\np1,m1,0.9,0.1\np1,m2,0.7,0.3\np2,m1,0.2,0.8\np2,m2,0.4,0.6\n")
    (way,) = refused(path, "probabilities of the classes")
    votes = read(path, **way)
    assert votes.classes.tolist() == ["cat", "dog"]
    assert votes.annotators.tolist() == ["m1", "m2"]


def test_the_column_that_names_rows_is_the_item_of_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "photo,bird,cat,dog\np1,3,1,0\np2,0,2,2\np3,1,0,3\np4,0,4,0\n")
    votes, notes = noted(path)
    assert tallies(votes)["p3", "dog"] == 3
    assert "item = 'photo'" in notes
    records = [{"image": f"p{k}", "counts": {"cat": k, "dog": 3 - k}} for k in range(4)]
    assert tallies(read(write_json(tmp_path / "v.json", records)))["p2", "cat"] == 2


def test_texts_do_not_name_items(tmp_path: Path) -> None:
    rows = [(f"{'long text ' * 20}{k}", k, 4 - k) for k in range(4)]
    votes, notes = noted(write(tmp_path / "v.csv", table([("story", "cat", "dog"), *rows])))
    assert "item = the number of the row" in notes
    assert votes.items.tolist() == [1, 2, 3, 4]


def test_rows_of_item_label_and_count_are_anonymous_votes(tmp_path: Path) -> None:
    votes, notes = noted(write(tmp_path / "v.csv", "item,label,count\np1,cat,4\np1,dog,1\np2,dog,5\n"))
    assert votes.anonymous
    assert tallies(votes) == {("p1", "cat"): 4, ("p1", "dog"): 1, ("p2", "dog"): 5}
    assert "votes = 'count'" in notes


def test_rows_of_item_and_label_are_anonymous_votes_where_items_recur(tmp_path: Path) -> None:
    votes, notes = noted(write(tmp_path / "v.csv", "item,label\np1,cat\np1,cat\np1,dog\np2,dog\n"))
    assert tallies(votes) == {("p1", "cat"): 2, ("p1", "dog"): 1, ("p2", "dog"): 1}
    assert "votes of unknown people" in notes
    (way,) = refused(write(tmp_path / "w.csv", "item,label,day\np1,cat,Mon\np1,cat,Tue\np2,dog,Mon\n"), "no annotator column")
    assert tallies(read(tmp_path / "w.csv", **way)) == {("p1", "cat"): 2, ("p2", "dog"): 1}


def test_lists_in_which_a_label_recurs_are_anonymous_votes(tmp_path: Path) -> None:
    said = {"p1": ["cat", "dog"], "p2": ["dog", "dog", "cat"]}
    right = {("p1", "cat"): 1, ("p1", "dog"): 1, ("p2", "dog"): 2, ("p2", "cat"): 1}
    lines = write_lines(tmp_path / "v.jsonl", [{"id": item, "text": "t", "labels": labels} for item, labels in said.items()])
    assert tallies(read(lines)) == right
    assert tallies(read(write_json(tmp_path / "v.json", said))) == right
    (way,) = refused(write_json(tmp_path / "w.json", {"p1": ["cat", "dog"], "p2": ["dog"]}), "a list for every key")
    assert tallies(read(tmp_path / "w.json", **way)) == {("p1", "cat"): 1, ("p1", "dog"): 1, ("p2", "dog"): 1}


# -- JSON ----------------------------------------------------------------------------------------

VOTES = [{"item": "p1", "annotator": "a", "label": "cat"}, {"item": "p1", "annotator": "b", "label": "dog"}]


@pytest.mark.parametrize("document", [{"votes": VOTES, "meta": {"round": 3}}, {"data": VOTES}, {"anything": VOTES, "n": 2}])
def test_one_list_of_records_in_an_object_is_the_table(tmp_path: Path, document: dict[str, Any]) -> None:
    assert triples(read(write_json(tmp_path / "v.json", document))) == [("p1", "a", "cat"), ("p1", "b", "dog")]


def test_several_lists_of_records_are_refused_by_name(tmp_path: Path) -> None:
    refused(
        write_json(tmp_path / "v.json", {"votes": VOTES, "items": [{"id": 1}]}), "several lists of records: 'votes', 'items'"
    )


def test_one_object_of_facts_is_no_count(tmp_path: Path) -> None:
    refused(write_json(tmp_path / "v.json", {"meta": {"round": 3}, "by": "me"}), "no annotator and no label column")


def test_annotators_first_are_asked_about(tmp_path: Path) -> None:
    said = {"anna": {"p1": "cat", "p2": "dog", "p3": "cat"}, "bernd": {"p1": "cat", "p2": "cat", "p3": "cat"}}
    path = write_json(tmp_path / "v.json", said)
    people, items = refused(path, "which are the annotators")
    assert triples(read(path, **people)) == sorted((item, who, label) for who, of in said.items() for item, label in of.items())
    assert triples(read(path, **items)) == sorted((who, item, label) for who, of in said.items() for item, label in of.items())
    other = {item: {who: of[item] for who, of in said.items()} for item in said["anna"]}
    votes, notes = noted(write_json(tmp_path / "w.json", other))
    assert votes.annotators.tolist() == ["anna", "bernd"]
    assert "item = the outer key, annotator = the inner key" in notes


def test_counts_by_id_are_asked_about(tmp_path: Path) -> None:
    path = write_json(tmp_path / "v.json", {"p1": {"cat": 3, "dog": 0}, "p2": {"cat": 1, "dog": 2}, "p3": {"cat": 0, "dog": 5}})
    counts, labels = refused(path, "counts of votes per class, or labels")
    assert tallies(read(path, **counts)) == {("p1", "cat"): 3, ("p2", "cat"): 1, ("p2", "dog"): 2, ("p3", "dog"): 5}
    assert read(path, **labels).annotators.tolist() == ["cat", "dog"]


def test_votes_by_annotator_in_every_record_are_read(tmp_path: Path) -> None:
    path = write_json(
        tmp_path / "v.json", [{"image": "p1", "votes": {"Anna": "cat", "Bo": "dog"}}, {"image": "p2", "votes": {}}]
    )
    assert triples(read(path)) == [("p1", "Anna", "cat"), ("p1", "Bo", "dog")]


def test_numbers_by_annotator_in_every_record_are_asked_about(tmp_path: Path) -> None:
    path = write_json(tmp_path / "v.json", [{"image": f"p{k}", "votes": {"Ann": k % 3 + 1, "Bo": k % 3 + 1}} for k in range(6)])
    labels, counts = refused(path, "labels of annotators, or counts")
    assert triples(read(path, **labels))[:2] == [("p0", "Ann", 1), ("p0", "Bo", 1)]
    assert read(path, **counts).classes.tolist() == ["Ann", "Bo"]
    judged = write_json(tmp_path / "w.json", [{"id": k, "votes": {"cat": k, "dog": 4 - k}} for k in range(5)])
    labels, counts = refused(judged, "labels of annotators, or counts")
    assert tallies(read(judged, **counts))[3, "cat"] == 3
    assert read(judged, **labels).annotators.tolist() == ["cat", "dog"]


# -- several questions ---------------------------------------------------------------------------

SAID = {("p1", "a"): ("cat", "yes"), ("p1", "b"): ("cat", "yes"), ("p2", "a"): ("dog", "no"), ("p2", "b"): ("dog", "yes")}
ASKED = [(*pair, q, label) for pair, of in SAID.items() for q, label in zip(("animal", "sharp"), of, strict=True)]


@pytest.mark.parametrize("name", ["question", "x"])
def test_a_column_of_questions_is_asked_about(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "v.csv", table([("item", "annotator", name, "answer"), *ASKED]))
    one, every = refused(path, f"several questions, in the column '{name}': 'animal', 'sharp'")
    assert triples(read(path, **one)) == sorted((i, w, label) for i, w, q, label in ASKED if q == "animal")
    assert triples(read(path, question="sharp")) == sorted((i, w, label) for i, w, q, label in ASKED if q == "sharp")
    assert read(path, **every).n_votes == 8
    with pytest.raises(InputError, match="no column 'blurred'"):
        read(path, question="blurred")


def test_repeats_in_rounds_are_no_questions(tmp_path: Path) -> None:
    rows = [(f"p{k}", who, turn, "cat" if k % 2 else "dog") for k in range(4) for who in "ab" for turn in (1, 2)]
    votes, notes = noted(write(tmp_path / "v.csv", table([("item", "annotator", "round", "label"), *rows])))
    assert votes.n_votes == 16
    assert "repeat an annotator's vote" in notes


@pytest.mark.parametrize("second", ["yes,no", "good,bad"])
def test_names_and_questions_in_column_names_are_asked_about(tmp_path: Path, second: str) -> None:
    good, bad = second.split(",")
    header = ["Photo", *(f"{who} {q}" for who in ("Ann", "Bob", "Cem") for q in ("animal?", "sharp?"))]
    rows = [[f"p{k}", *(("yes", good) if (k + j) % 3 else ("no", bad))] for k in range(8) for j in [0]]
    rows = [[row[0], *row[1:] * 3] for row in rows]
    path = write(tmp_path / "v.csv", table([header, *rows]))
    one, other, every = refused(path, "several questions to each annotator: 'animal\\?', 'sharp\\?' to 'Ann', 'Bob', 'Cem'")
    votes = read(path, **one)
    assert votes.annotators.tolist() == ["Ann animal?", "Bob animal?", "Cem animal?"]
    assert set(votes.classes.tolist()) == {"yes", "no"}
    assert read(path, **other).annotators.tolist() == ["Ann animal?", "Ann sharp?"]
    assert read(path, **every).n_annotators == 6


# -- what labels say -----------------------------------------------------------------------------


def test_words_for_no_answer_are_counted_with_the_options_that_leave_them_out(tmp_path: Path) -> None:
    said = ["skip", "don't know", "skip", "dog", "dog", "?", "cat", "-", "cat", "not_sure"]
    path = write(
        tmp_path / "v.csv", table([("item", "annotator", "label"), *((f"p{k // 3}", f"a{k}", s) for k, s in enumerate(said))])
    )
    with pytest.warns(DataWarning) as caught:
        assert read(path).n_votes == 10
    text = str(caught[0].message)
    assert "'skip' (2)" in text
    words = shlex.split(text.split(", add ")[1].split(" (missing")[0])
    assert words[::2] == ["--missing"] * 5
    assert sorted(words[1::2]) == sorted(["skip", "don't know", "?", "-", "not_sure"])
    assert read(path, missing=words[1::2]).n_votes == 4


def test_percents_in_labels_say_how_sure_they_are(tmp_path: Path) -> None:
    rows = [("p1", "a", "cat (80%)"), ("p1", "b", "dog (60%)"), ("p2", "a", "cat (70%)"), ("p2", "b", "cat (90%)")]
    path = write(tmp_path / "v.csv", table([("item", "annotator", "label"), *rows]))
    sure, kept = refused(path, "say how sure they are")
    soft = read(path, **sure)
    assert soft.classes.tolist() == ["cat", "dog"]
    assert soft.n_answers == 4
    assert {(i, w, c): round(p, 6) for i, w, c, p in soft.to_frame().select("item", "annotator", "label", "weight").rows()}[
        "p1", "b", "cat"
    ] == pytest.approx(0.4)
    assert read(path, **kept).n_classes == 4


def test_measured_numbers_are_sent_to_regress(tmp_path: Path) -> None:
    rows = [(f"e{k}", who, round(k * 0.37 + j * 0.11, 2)) for k in range(10) for j, who in enumerate("abc")]
    path = write(tmp_path / "v.csv", table([("item", "rater", "rating"), *rows]))
    with pytest.raises(InputError, match=r"different numbers.*each would be a class") as caught:
        read(path)
    words = shlex.split(str(caught.value).split(f"crowdwise regress {path}")[1].split(";")[0])
    given = {_OPTIONS[words[k]]: words[k + 1] for k in range(0, len(words), 2)}
    assert len(read(path, Ratings, **given).value) == 30
    assert read(path, several="keep").n_classes > 20


def test_many_whole_numbers_are_said_to_be_classes(tmp_path: Path) -> None:
    rows = [(f"e{k}", who, 3 * k + j) for k in range(10) for j, who in enumerate("abc")]
    votes, notes = noted(write(tmp_path / "v.csv", table([("item", "annotator", "label"), *rows])))
    assert votes.n_classes == 30
    assert "30 different numbers" in notes
    assert "--type ordinal" in notes


def test_a_list_of_two_equal_answers_is_not_a_list_of_one(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.csv", 'item,annotator,label\np1,a,"[""1"", ""1""]"\np1,b,"[""1""]"\np2,a,"[""2""]"\np2,b,"[""2""]"\n'
    )
    refused(path, "several labels in one cell")


def test_decimal_commas_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item;annotator;label;conf\np1;a;cat;0,75\np1;b;dog;0,5\n")
    assert sorted(read(path, weight="conf").weights.tolist()) == [0.5, 0.75]
    assert read(path, sure="conf").classes.tolist() == ["cat", "dog"]
    ratings = read(write(tmp_path / "r.csv", "item;annotator;value\np1;a;2,5\np1;b;3,0\n"), Ratings)
    assert sorted(ratings.value.ravel().tolist()) == [2.5, 3.0]
    with pytest.raises(InputError, match="weight '1,500'"):
        read(write(tmp_path / "t.csv", "item;annotator;label;w\np1;a;cat;1,500\np1;b;dog;2,250\n"), weight="w")


# -- rows and columns that are not votes ---------------------------------------------------------


def test_the_header_in_the_middle_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\np1,a,cat\np1,b,cat\nitem,annotator,label\np2,a,dog\n")
    with pytest.warns(DataWarning, match="a row that repeats the header is left out"):
        assert triples(read(path)) == [("p1", "a", "cat"), ("p1", "b", "cat"), ("p2", "a", "dog")]


def test_rows_below_a_repeated_header_keep_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\np1,a,cat\nitem,annotator,label\n,b,cat\n")
    with pytest.warns(DataWarning, match="repeats the header"), pytest.raises(InputError, match="row 4"):
        read(path)


@pytest.mark.parametrize("last", ["Total", "SUM", "Mean"])
def test_a_row_that_sums_up_is_warned_about(tmp_path: Path, last: str) -> None:
    rows = [(f"p{k}", k % 3 + 1, k % 3 + 1, k % 3 + 1) for k in range(9)]
    path = write(tmp_path / "v.csv", table([("id", "Ann", "Bob", "Cem"), *rows, (last, 3, 3, 3)]))
    with pytest.warns(DataWarning, match=f"row 11: '{last}' counts as an item"):
        read(path)


def test_columns_that_may_matter_are_named_beside_usual_names(tmp_path: Path) -> None:
    rows = [("p1", "a", "cat", "rejected", 3, "dog", "cat", "x"), ("p1", "b", "dog", "approved", 2, "cat", "cat", "y")]
    header = ("item", "annotator", "label", "status", "confidence", "label2", "correct_label", "browser")
    votes, notes = noted(write(tmp_path / "v.csv", table([header, *rows])))
    assert votes.n_votes == 2
    assert len(notes.splitlines()) == 1
    assert "'status' (rejected, approved: all rows count)" in notes
    assert "--sure confidence" in notes
    assert "'label2'" in notes
    assert "'correct_label' (not used" in notes
    assert "browser" not in notes
    assert noted(write(tmp_path / "w.csv", "item,annotator,label,browser\np1,a,cat,x\n"))[1] == ""


@pytest.mark.parametrize("name", ["Expert", "Our model", "ChatGPT"])
def test_experts_and_models_that_vote_are_named(tmp_path: Path, name: str) -> None:
    rows = [(f"p{k}", *["cat" if k % 2 else "dog"] * 6) for k in range(6)]
    path = write(tmp_path / "v.csv", table([("Photo", "Ann", "Bob", "Cem", "Dan", "Eve", name), *rows]))
    votes, notes = noted(path)
    assert votes.n_annotators == 6
    assert f"{name!r} votes like everybody ({shlex.join(['--not', name])}" in notes
    assert read(path, exclude=name).n_annotators == 5


# -- which column is what ------------------------------------------------------------------------


def test_annotators_beside_their_labels_are_pairs(tmp_path: Path) -> None:
    text = "Photo,annotator_1,label_1,annotator_2,label_2\np1,Anna,cat,Bo,cat\np2,Bo,dog,Cem,cat\np3,Cem,dog,,\n"
    votes, notes = noted(write(tmp_path / "v.csv", text))
    assert triples(votes) == [
        ("p1", "Anna", "cat"),
        ("p1", "Bo", "cat"),
        ("p2", "Bo", "dog"),
        ("p2", "Cem", "cat"),
        ("p3", "Cem", "dog"),
    ]
    assert detect(tmp_path / "v.csv") == "pairs"
    assert "2 pairs of columns" in notes


@pytest.mark.parametrize("name", ["photo", "image", "text_id", "tweet id", "Photo ID"])
def test_an_item_is_known_by_its_word_and_by_recurring(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "v.csv", f"id,{name},worker,answer\n1,p1,a,cat\n2,p1,b,cat\n3,p2,a,dog\n4,p2,b,cat\n")
    votes, notes = noted(path)
    assert triples(votes) == [("p1", "a", "cat"), ("p1", "b", "cat"), ("p2", "a", "dog"), ("p2", "b", "cat")]
    assert f"item = {name!r}" in notes


def test_an_id_that_numbers_rows_is_not_advised_as_the_item(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "id,thing,worker,answer\n1,p1,a,cat\n2,p1,b,cat\n3,p2,a,dog\n4,p2,b,cat\n")
    (way,) = refused(path, "no item column")
    assert way == {"item": "thing"}


def test_names_in_another_language_come_with_a_command(tmp_path: Path) -> None:
    rows = [(f"b{k}", who, "ja" if k % 2 else "nein") for k in range(5) for who in ("Anna", "Bo", "Cem")]
    path = write(tmp_path / "v.csv", table([("Bild", "Prüfer", "Antwort"), *rows]))
    (way,) = refused(path, "no item, no annotator and no label column")
    assert triples(read(path, **way)) == sorted(rows)


def test_a_form_about_images_has_items(tmp_path: Path) -> None:
    text = "Timestamp,Your name,Age,Image 1,Image 2,Image 3\n"
    text += "3/5/2024 10:00,Anna,30,cat,dog,cat\n3/5/2024 10:01,Bo,31,cat,dog,dog\n"
    assert triples(read(write(tmp_path / "v.csv", text + "3/5/2024 10:02,Cem,32,cat,cat,cat\n"))) == sorted(
        (f"Image {k}", who, label)
        for who, of in (("Anna", "cat dog cat"), ("Bo", "cat dog dog"), ("Cem", "cat cat cat"))
        for k, label in enumerate(of.split(), start=1)
    )


def test_rows_of_qualtrics_that_describe_columns_do_not_vote(tmp_path: Path) -> None:
    text = "ResponseId,Q1,Q2\nResponse ID,What is it?,And this?\n"
    text += '"{""ImportId"":""_r""}","{""ImportId"":""Q1""}","{""ImportId"":""Q2""}"\n'
    votes, notes = noted(write(tmp_path / "v.csv", text + "R_1,cat,dog\nR_2,cat,cat\n"), transposed=True)
    assert triples(votes) == [("Q1", "R_1", "cat"), ("Q1", "R_2", "cat"), ("Q2", "R_1", "dog"), ("Q2", "R_2", "cat")]
    assert "2 rows below the header" in notes


@pytest.mark.parametrize("options", [{}, {"skip_rows": 1}, {"skip_rows": 2}])
def test_a_title_with_commas_and_an_empty_row_stand_above_the_header(tmp_path: Path, options: dict[str, Any]) -> None:
    path = write(tmp_path / "v.csv", "Results, Team A, v2\n\nItem,Coder,Answer\np1,a,cat\np1,b,dog\n")
    if options:
        assert triples(read(path, **options)) == [("p1", "a", "cat"), ("p1", "b", "dog")]
        return
    with pytest.warns(DataWarning, match="2 rows above the header are left out"):
        assert triples(read(path)) == [("p1", "a", "cat"), ("p1", "b", "dog")]


# -- platforms -----------------------------------------------------------------------------------


def test_inputs_of_appen_are_no_questions(tmp_path: Path) -> None:
    rows = [
        (k, who, "once upon", "http://x", "yes" if (k + j) % 2 else "no", "a" if j else "b")
        for k in (1, 2)
        for j, who in enumerate("uv")
    ]
    path = write(tmp_path / "v.csv", table([("_unit_id", "_worker_id", "sentence", "link", "right", "kind"), *rows]))
    (way,) = refused(path, "several questions: 'right', 'kind'")
    assert read(path, **way).classes.tolist() == ["no", "yes"]
    assert read(path, question="sentence").classes.tolist() == ["once upon"]


def test_a_hit_with_several_images_says_how_to_have_them_as_items(tmp_path: Path) -> None:
    header = "HITId,WorkerId,Input.image1,Input.image2,Answer.label1,Answer.label2"
    path = write(tmp_path / "v.csv", f"{header}\nH1,a,x,y,cat,dog\nH1,b,x,y,cat,cat\n")
    (way,) = refused(path, "several questions: 'label1', 'label2'")
    votes, notes = noted(path, **way)
    assert votes.items.tolist() == ["H1"]
    (better,) = commands(notes, path)
    assert triples(read(path, **better)) == [("x", "a", "cat"), ("x", "b", "cat")]


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_gold_in_a_wide_table_stays_gold(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.csv", "Photo,Ann,Bob,Cem,Gold\np1,cat,cat,dog,cat\np2,dog,dog,dog,dog\np3,,,,cat\np4,cat,cat,,cat\n"
    )
    assert gold(read(path)) == {"p1": "cat", "p2": "dog", "p3": "cat", "p4": "cat"}


def test_a_record_whose_votes_are_no_mapping_is_refused_by_its_row(tmp_path: Path) -> None:
    records = [{"id": 1, "votes": {"ann": "cat", "bob": "dog"}}, {"id": 2, "votes": "cat"}, {"id": 3, "votes": ["dog"]}]
    with pytest.raises(InputError, match=r"r\.jsonl"):
        read(write_lines(tmp_path / "r.jsonl", records))


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["cat", "dog", "ann", "bob", "1", "2"])])
def test_categories_are_text(tmp_path: Path, kind: Any) -> None:
    votes = pl.DataFrame({"item": ["1", "1", "2"], "annotator": ["ann", "bob", "ann"], "label": ["cat", "dog", "dog"]})
    votes.cast(kind).write_parquet(tmp_path / "v.parquet")
    assert triples(read(tmp_path / "v.parquet")) == [("1", "ann", "cat"), ("1", "bob", "dog"), ("2", "ann", "dog")]
    counts = pl.DataFrame({"photo": ["a", "b"], "cat": ["3", "1"], "dog": ["0", "2"]}).with_columns(
        pl.col("photo").cast(pl.Categorical)
    )
    counts.write_parquet(tmp_path / "c.parquet")
    assert tallies(read(tmp_path / "c.parquet", format="counts")) == {("a", "cat"): 3, ("b", "cat"): 1, ("b", "dog"): 2}


@pytest.mark.parametrize("judge", [["bob"], {"name": "bob"}])
def test_an_annotator_is_named_by_one_value(tmp_path: Path, judge: Any) -> None:
    records = [{"id": n, "judgments": [{"judge": "ann", "label": "cat"}, {"judge": "bob", "label": "dog"}]} for n in range(3)]
    records[1]["judgments"][1]["judge"] = judge
    with pytest.raises(InputError, match=r"r\.jsonl row 2: the annotator .* is no id"):
        read(write_lines(tmp_path / "r.jsonl", records))


@pytest.mark.filterwarnings("ignore:.*repeats the header")
@pytest.mark.parametrize("rows", ["id,r1,r2\n", ",,\n"])
def test_a_table_of_nothing_but_headers_is_refused(tmp_path: Path, rows: str) -> None:
    path = write(tmp_path / "v.csv", "id,r1,r2\n" + rows)
    with pytest.raises(InputError, match=r"v\.csv"):
        read(path, format="wide")


# -- gold in entries, and texts that are no labels -----------------------------------------------


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
@pytest.mark.parametrize("shape", ["mapping", "lists", "answers", "judgments"])
def test_gold_of_an_entry_stays_gold(tmp_path: Path, shape: str) -> None:
    right = {
        "p1": ("cat", {"ann": "cat", "bob": "dog"}),
        "p2": ("dog", {"ann": "dog", "bob": "dog"}),
        "p3": (None, {"ann": "cat"}),
    }
    made: dict[str, Any] = {
        "mapping": lambda said: {"annotations": said},
        "lists": lambda said: {"annotators": list(said), "labels": list(said.values())},
        "answers": lambda said: {"answers": [{"annotator": who, "label": label} for who, label in said.items()]},
        "judgments": lambda said: {"judgments": [{"judge": who, "label": label} for who, label in said.items()]},
    }
    entries = {item: {"gold": true, **made[shape](said)} for item, (true, said) in right.items()}
    document: Any = [{"id": item, **entry} for item, entry in entries.items()] if shape == "judgments" else entries
    votes = read(write_json(tmp_path / "v.json", document))
    assert triples(votes) == [(item, who, label) for item, (_, said) in right.items() for who, label in said.items()]
    assert gold(votes) == {"p1": "cat", "p2": "dog"}


def test_texts_taken_for_labels_are_said(tmp_path: Path) -> None:
    rows = [(f"p{n}", who, f"a text on {n} by {who}") for n in range(12) for who in ("ann", "bob")]
    votes, notes = noted(write(tmp_path / "v.csv", table([("item", "annotator", "label"), *rows])))
    assert votes.n_classes == 24
    assert "24 different labels in 24 votes, such as 'a text on 0 by ann', each a class of its own" in notes
    recurring = [(f"p{n}", who, f"class {n % 21}") for n in range(42) for who in ("ann", "bob")]
    assert "different labels" not in noted(write(tmp_path / "w.csv", table([("item", "annotator", "label"), *recurring])))[1]


@pytest.mark.parametrize("field", ["responses", "judgments"])
def test_answers_that_were_taken_back_do_not_vote(tmp_path: Path, field: str) -> None:
    def answers(*given: tuple[str, str, str]) -> list[dict[str, str]]:
        return [{"annotator": who, "label": label, "status": status} for who, label, status in given]

    path = write_lines(
        tmp_path / "v.jsonl",
        [
            {"id": "1", field: answers(("u1", "pos", "submitted"), ("u2", "neg", "discarded"))},
            {"id": "2", field: answers(("u1", "neg", "submitted"), ("u2", "neg", "Draft"))},
            {"id": "3", field: answers(("u2", "neg", "discarded"))},
        ],
    )
    with pytest.warns(DataWarning, match="3 answers whose status is 'discarded', 'Draft' were left out"):
        votes = read(path)
    assert [(str(item), who, label) for item, who, label in triples(votes)] == [("1", "u1", "pos"), ("2", "u1", "neg")]
    assert (votes.n_items, votes.n_missing) == (3, 0)


@pytest.mark.parametrize("name", ["post", "Nr"])
def test_whole_numbers_that_name_the_rows_are_no_class(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "v.csv", f"{name},upvotes,downvotes\n11,30,2\n12,0,4\n15,5,1\n")
    votes, note = noted(path, format="counts")
    assert votes.items.tolist() == [11, 12, 15]
    assert votes.classes.tolist() == ["downvotes", "upvotes"]
    assert votes.n_votes == 42
    assert f"in 'upvotes', 'downvotes', all columns of whole numbers; item = '{name}'" in note


def test_counts_that_happen_to_differ_stay_counts(tmp_path: Path) -> None:
    votes, _ = noted(write(tmp_path / "v.csv", "cat,dog,fox\n3,2,2\n5,1,0\n1,4,7\n"), format="counts")
    assert votes.classes.tolist() == ["cat", "dog", "fox"]
    assert votes.items.tolist() == [1, 2, 3]


def test_the_advice_for_numbered_counts_works(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,n0,n1,n2\n7,0,3,1\n8,4,0,0\n9,1,1,5\n")
    with pytest.raises(InputError, match="--format counts") as refused:
        read(path)
    assert {"format": "counts"} in commands(str(refused.value), path)
    votes = read(path, format="counts")
    assert (votes.items.tolist(), votes.classes.tolist(), votes.n_votes) == ([7, 8, 9], ["n0", "n1", "n2"], 15)


def test_percents_per_class_are_shares(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "image,cat,dog\ni1,80%,20%\ni2,40%,60%\n")
    with pytest.raises(InputError, match="add up to 1 in every row") as refused:
        read(path)
    counts, soft = commands(str(refused.value), path)
    # Five votes are the fewest of which 80% and 40% are whole numbers.
    for options in (counts, {"format": "counts"}):
        votes = read(path, **options)
        assert [label for _, _, label in triples(votes)] == ["cat"] * 4 + ["dog"] + ["cat"] * 2 + ["dog"] * 3
    assert read(path, **soft).n_annotators == 1
