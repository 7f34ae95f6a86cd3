"""Files that looked right and were read wrong, or not at all; expected votes are written down by hand."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read
from crowdwise.io.question_grid import questions_of

ROWS = [("a", "x", "cat"), ("a", "y", "dog"), ("b", "x", "cat")]
NAMES = ("item", "annotator", "label")
RECORDS = [dict(zip(NAMES, row, strict=True)) for row in ROWS]


def votes_of(path: Path, **options: Any) -> list[tuple[Any, ...]]:
    return sorted(read(path, **options).to_frame().rows())


def write(path: Path, content: Any) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "document",
    [
        {name: {str(n): row[k] for n, row in enumerate(ROWS)} for k, name in enumerate(NAMES)},
        {name: [row[k] for row in ROWS] for k, name in enumerate(NAMES)},
        {"columns": list(NAMES), "index": [0, 1, 2], "data": [list(row) for row in ROWS]},
        {"schema": {"fields": []}, "data": RECORDS},
        {"count": 3, "results": RECORDS},
    ],
    ids=["pandas columns", "lists", "pandas split", "pandas table", "wrapped"],
)
def test_tables_in_json_are_tables(document: Any, tmp_path: Path) -> None:
    assert votes_of(write(tmp_path / "v.json", document)) == ROWS


def test_other_documents_are_not_taken_for_columns(tmp_path: Path) -> None:
    by_item = {"item": {"x": 1, "y": 0}, "other": {"x": 1, "y": 1}}
    assert votes_of(write(tmp_path / "v.json", by_item)) == [
        ("item", "x", 1),
        ("item", "y", 0),
        ("other", "x", 1),
        ("other", "y", 1),
    ]


def test_battles_are_no_verdicts_on_questions(tmp_path: Path) -> None:
    rows = [{"question_id": 81, "model_a": "m", "model_b": other, "winner": "model_a", "judge": "j"} for other in ("n", "o")]
    path = write(tmp_path / "v.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(InputError, match="These are comparisons: crowdwise rank"):
        read(path)


def test_answers_that_name_their_annotators(tmp_path: Path) -> None:
    records = [
        {"id": n, "text": "t", "annotations": [{"user": "ann", "label": "A"}, {"user": "bob", "label": "B"}]} for n in (1, 2)
    ]
    expected = [(n, who, said) for n in (1, 2) for who, said in (("ann", "A"), ("bob", "B"))]
    assert votes_of(write(tmp_path / "v.json", records)) == expected
    assert votes_of(write(tmp_path / "v.jsonl", "\n".join(map(json.dumps, records)))) == expected
    pl.DataFrame(records).write_parquet(tmp_path / "v.parquet")
    assert votes_of(tmp_path / "v.parquet") == expected
    # Spans have a label too, and more: that is not one label of the item.
    spans = [{"id": 1, "annotations": [{"start": 0, "end": 3, "label": "PER"}]}]
    with pytest.raises(InputError):
        read(write(tmp_path / "spans.json", spans))


def test_lists_without_names_are_anonymous_votes_only_if_they_say_so(tmp_path: Path) -> None:
    records = [{"pairID": f"p{n}", "annotator_labels": ["yes", "no", "yes"], "gold_label": "yes"} for n in range(3)]
    votes = read(write(tmp_path / "v.jsonl", "\n".join(map(json.dumps, records))))
    assert votes.anonymous
    assert (votes.n_votes, votes.votes_per_item.tolist()) == (9, [3, 3, 3])
    pl.DataFrame({"id": ["x", "y"], "labels": [[0, 1], [1]]}).write_parquet(tmp_path / "v.parquet")
    with pytest.raises(InputError, match="no annotator column"):
        read(tmp_path / "v.parquet")


def test_percents_are_no_counts_of_votes(tmp_path: Path) -> None:
    rows = "".join(f"{n},t,{20 * n},{100 - 20 * n}\n" for n in range(5))
    for names in ("cat_pct,dog_pct", "cat %,dog %", "share_cat,share_dog", "p_percent,q_percent"):
        with pytest.raises(InputError, match="no annotator and no label"):
            read(write(tmp_path / "v.csv", f"id,text,{names}\n{rows}"))
    assert read(write(tmp_path / "v.csv", f"id,text,cat,dog\n{rows}")).n_votes == 500


@pytest.mark.parametrize(
    "head", ["toxic_1,toxic_2,hate_1,hate_2", "ann1_toxic,ann1_hate,ann2_toxic,ann2_hate", "q1.ann,q1.bob,q2.ann,q2.bob"]
)
def test_questions_crossed_with_annotators_are_refused(head: str, tmp_path: Path) -> None:
    text = f"id,{head}\n" + "".join(f"d{n},{n % 2},{n % 2},{n % 3 % 2},0\n" for n in range(12))
    path = write(tmp_path / "v.csv", text)
    with pytest.raises(InputError, match="several questions to each annotator") as caught:
        read(path)
    first = str(caught.value).partition("--annotator-columns ")[2].partition(";")[0]
    assert read(path, annotators=first).n_annotators == 2
    assert read(path, annotators=head).n_annotators == 4


def test_groups_of_annotators_are_annotators() -> None:
    assert questions_of(["expert_1", "expert_2", "crowd_1", "crowd_2"]) is None
    assert questions_of(["label1", "label2", "label3", "label4"]) is None
    assert questions_of(["Ann", "Bob", "Cem", "Dan"]) is None
    assert questions_of(["label_ann", "label_bob", "sure_ann", "sure_bob"]) == (
        {"label": ["label_ann", "label_bob"], "sure": ["sure_ann", "sure_bob"]},
        {"ann": ["label_ann", "sure_ann"], "bob": ["label_bob", "sure_bob"]},
    )


def test_how_sure_and_how_long_do_not_vote(tmp_path: Path) -> None:
    text = "id,Ann,Bob,Cem,length,conf\n" + "".join(f"d{n},{n % 3},{n % 3},{n % 2},{n % 3},{n % 3}\n" for n in range(12))
    assert read(write(tmp_path / "v.csv", text)).annotators.tolist() == ["Ann", "Bob", "Cem"]


def test_a_row_with_an_annotator_is_a_vote_whatever_its_other_columns(tmp_path: Path) -> None:
    head = "text,id,author,created,rater_id,joy,anger,neutral\n"
    text = head + "".join(f"t,e{n // 3},u{n % 2},1548381039,{n % 5},{int(n % 3 == 0)},{int(n % 3 == 1)},0\n" for n in range(30))
    path = write(tmp_path / "v.csv", text)
    for options in ({}, {"exclude": "created"}):
        with pytest.raises(InputError, match="no label column"):
            read(path, **options)
    assert read(path, item="id", label="joy").n_votes == 30


def test_questions_of_a_form_may_hold_any_word(tmp_path: Path) -> None:
    questions = [f"How do you feel about image {n}?" for n in (1, 2, 3)]
    head = f"Timestamp,Email Address,{','.join(questions)}\n"
    text = head + "".join(f"2024/01/0{n} 3:04:05 PM,p{n}@x.org,{'Happy' if n % 2 else 'Sad'},Happy,Sad\n" for n in range(1, 7))
    votes = read(write(tmp_path / "v.csv", text))
    assert votes.items.tolist() == questions
    assert (votes.n_annotators, votes.n_votes) == (6, 18)


def test_rows_that_describe_the_columns_do_not_vote(tmp_path: Path) -> None:
    head = "StartDate,ResponseId,Q1,Q2,Q3\nStart,Response ID,Is it a cat?,Is it a dog?,Is it?\n"
    mark = ",".join(f'"{{""ImportId"":""{name}""}}"' for name in ("start", "_recordId", "QID1", "QID2", "QID3"))
    rows = "".join(f"2024-01-0{n},R_{n},{'Yes' if n % 2 else 'No'},Yes,No\n" for n in range(1, 7))
    for above in (head + mark + "\n", head.partition("\n")[0] + "\n"):
        votes = read(write(tmp_path / "v.csv", above + rows), transposed=True)
        assert votes.annotators.tolist() == [f"R_{n}" for n in range(1, 7)]
    monkey = "Respondent ID,IP Address,Is image 1 a cat?,Is image 2 a cat?,Is image 3 a cat?\n,,Response,Response,Response\n"
    rows = "".join(f"11{n},1.2.3.{n},{'Yes' if n % 2 else 'No'},Yes,No\n" for n in range(6))
    path = write(tmp_path / "v.csv", monkey + rows)
    with pytest.raises(InputError, match=r"if there is a row per person, and a column per item: .*--transposed"):
        read(path)
    assert read(path, transposed=True).annotators.tolist() == list(range(110, 116))


def test_the_separator_is_the_one_that_cuts_header_and_rows_alike(tmp_path: Path) -> None:
    rows = "".join(";".join(row) + ";well, yes\n" for row in ROWS)
    assert votes_of(write(tmp_path / "v.csv", "item;annotator;label;comment, if any\n" + rows)) == ROWS
    rows = "".join(",".join(row) + ',"a;b;c;d;e"\n' for row in ROWS)
    assert votes_of(write(tmp_path / "w.csv", 'item,annotator,label,"p;q;r;s;t"\n' + rows)) == ROWS


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_with_a_mark_needs_no_option(encoding: str, tmp_path: Path) -> None:
    text = "item\tannotator\tlabel\r\n" + "".join("\t".join(row) + "\r\n" for row in ROWS)
    mark = "" if encoding == "utf-16" else "\ufeff"
    (tmp_path / "v.txt").write_bytes((mark + text).encode(encoding))
    assert votes_of(tmp_path / "v.txt") == ROWS


def test_zeros_before_a_label_are_said(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\n007,x,01\n7,x,1\n007,y,1\n")
    with pytest.warns(DataWarning, match=r"'1' \(2\), '01' \(1\)"):
        votes = read(path)
    # Ids stay apart: 007 and 7 may be two things.
    assert votes.items.tolist() == ["007", "7"]
    with pytest.warns(DataWarning, match="'01' is '1'"):
        assert read(path, fold_case=True).classes.tolist() == [1]


@pytest.mark.parametrize("word", ["-", "--", "?", ".", "#N/A", "NaN"])
def test_words_for_nothing_are_said(word: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", f"item,annotator,label\na,x,cat\na,y,{word}\n")
    with pytest.warns(DataWarning, match="counts as a class; if it means a missing answer"):
        read(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(path, missing=word, classes=["cat"]).n_votes == 1


def test_nested_columns_never_stop_with_a_foreign_error(tmp_path: Path) -> None:
    pl.DataFrame({"id": [1, 2], "spans": [[{"s": 1}], []], "n": [[1, 2], [3]], "m": [{"a": 1}, {"a": 2}]}).write_parquet(
        tmp_path / "v.parquet"
    )
    for options in ({}, {"format": "wide"}, {"format": "counts"}, {"format": "lists"}, {"format": "keyed"}):
        with pytest.raises(InputError):
            read(tmp_path / "v.parquet", **options)
    with pytest.raises(InputError):
        read(tmp_path / "v.parquet", LabelSets)


def test_minus_one_beside_zero_and_one_is_asked_about(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.csv", "id,r1,r2,r3\n" + "".join(f"{n},{n % 3 - 1},{n % 3 - 1},{(n + 1) % 3 - 1}\n" for n in range(12))
    )
    with pytest.raises(InputError, match=r"may be a class or no vote.*--missing=-1.*--classes=-1,0,1"):
        read(path)
    assert read(path, missing=["-1"]).n_votes == 24
    assert read(path, classes=[-1, 0, 1]).n_votes == 36
    # Classes from 0 up, or mostly -1, as where everybody sees a few of the items: no vote, and it is said.
    notes: list[str] = []
    path = write(
        tmp_path / "w.csv", "id,r1,r2,r3\n" + "".join(f"{n},-1,{n % 2},-1\n" for n in range(6)) + "7,1,-1,0\n8,0,-1,-1\n"
    )
    votes = read(path, notes=notes)
    assert (votes.n_votes, votes.classes.tolist()) == (9, [0, 1])
    assert any("-1 is taken for no vote, in 15 of 24 cells" in note for note in notes)


def test_a_row_of_totals_is_no_item(tmp_path: Path) -> None:
    text = "id,Ann,Bob,Cem\n" + "".join(f"{n},{'AB'[n % 2]},{'AB'[n % 3 % 2]},A\n" for n in range(10))
    with pytest.raises(InputError, match="row 12: 'Total' sums up the rows above"):
        read(write(tmp_path / "v.csv", text + "Total,10,10,10\n"))
    with pytest.warns(DataWarning, match="'total' counts as an item"):
        assert read(write(tmp_path / "v.csv", text + "total,A,B,A\n")).n_items == 11


def test_what_was_judged_takes_all_that_names_it(tmp_path: Path) -> None:
    rows = [{"id": n // 4, "model": "mn"[n % 2], "judge": "jk"[n // 2 % 2], "verdict": "ok"} for n in range(8)]
    with pytest.raises(InputError, match=r"judged answers of several 'model' to one 'id'.*join 'id' and 'model'"):
        read(write(tmp_path / "v.jsonl", "\n".join(map(json.dumps, rows))))
    one = [row for row in rows if row["model"] == "m"]
    assert votes_of(write(tmp_path / "v.jsonl", "\n".join(map(json.dumps, one)))) == [
        (0, "j", "ok"), (0, "k", "ok"), (1, "j", "ok"), (1, "k", "ok"),
    ]  # fmt: skip
    path = write(tmp_path / "v.csv", "image_id,region_id,annotator,label\n1,1,x,a\n1,2,x,b\n")
    with pytest.raises(
        InputError, match="it may be 'image_id', 'region_id'; where it takes several to name an item, join them"
    ):
        read(path)


@pytest.mark.parametrize("name", ["gold", "Ground_Truth", "majority", "adjudicated"])
def test_an_annotator_called_gold_is_asked_about(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", f"item,annotator,label\na,ann,cat\na,{name},cat\n")
    with pytest.warns(DataWarning, match=f"'{name}' votes as an annotator; if these are known labels"):
        assert read(path).n_votes == 2


def test_columns_that_qualify_votes_are_named(tmp_path: Path) -> None:
    notes: list[str] = []
    path = write(tmp_path / "v.csv", "item,annotator,label,confidence,text\na,ann,cat,0.9,t\na,bob,cat,0.2,t\n")
    read(path, notes=notes)
    assert notes == [f"{path}: other columns that may matter: 'confidence' (not used; --sure confidence does)"]


def test_spans_of_webanno_are_no_wide_table(tmp_path: Path) -> None:
    head = "#FORMAT=WebAnno TSV 3.2\n#T_SP=webanno.custom.Sentiment|value\n\n\n#Text=Good day\n"
    text = head + "1-1\t0-4\tGood\tpos[1]\t\n1-2\t5-8\tday\tpos[1]\t\n"
    with pytest.raises(InputError, match="spans of text; read it with crowdwise spans"):
        read(write(tmp_path / "v.tsv", text))


def test_responses_of_argilla_1(tmp_path: Path) -> None:
    values = {"user_id": "u1", "status": "submitted", "values": {"mood": {"value": "good"}}}
    record = {
        "id": "r",
        "fields": {"text": "x"},
        "responses": [values, {"user_id": "u2", "status": "discarded", "values": None}],
    }
    assert votes_of(write(tmp_path / "v.jsonl", json.dumps(record))) == [("r", "u1", "good")]
