from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.io.helpers import gold, write, write_json

import crowdwise
from crowdwise.data.gold import GoldDecides
from crowdwise.errors import ArgumentError, InputError
from crowdwise.io import FORMATS, read, read_gold

VOTES = "item,annotator,label\na,x,cat\na,y,dog\nb,x,cat\n"


def test_every_format_has_a_name_and_a_line() -> None:
    assert {"csv", "jsonl", "parquet", "wide", "answers", "label-studio", "mturk"} <= FORMATS.keys()
    assert all(text and "\n" not in text for text in FORMATS.values())


def test_unknown_formats_and_questions_are_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown format 'mturc'; did you mean 'mturk'"):
        read(write(tmp_path / "v.csv", VOTES), format="mturc")


def test_an_option_that_there_is_not_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\na,x,p\n")
    with pytest.raises(ArgumentError, match="read takes no itm; did you mean 'item'"):
        read(path, itm="item")


def test_annotations_read_goes_through_here(tmp_path: Path) -> None:
    assert crowdwise.read(write(tmp_path / "v.csv", VOTES)).n_votes == 3


@pytest.mark.parametrize("header", ["item,label", "task,gold", "id,true_label", "item,truth"])
def test_gold_from_a_table(tmp_path: Path, header: str) -> None:
    votes = read(write(tmp_path / "v.csv", VOTES))
    frame = read_gold(write(tmp_path / "g.csv", f"{header}\na,cat\nb,\n"), votes)
    assert gold(votes.with_gold(frame)) == {"a": "cat"}


def test_gold_from_lines_in_the_order_of_the_items(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "answers.txt", "0 1\n1 -1\n"))
    assert gold(votes.with_gold(read_gold(write(tmp_path / "labels.txt", "1\n0\n"), votes))) == {0: 1, 1: 0}
    with pytest.raises(InputError, match=r"labels\.txt: 3 labels for 2 items"):
        read_gold(write(tmp_path / "labels.txt", "1\n0\n1\n"), votes)


def test_gold_from_an_export(tmp_path: Path) -> None:
    task = {"id": 1, "data": {}, "annotations": [
        {"completed_by": 1, "result": [{"from_name": "q", "value": {"choices": ["A"]}}]},
        {"completed_by": 2, "ground_truth": True, "result": [{"from_name": "q", "value": {"choices": ["B"]}}]},
    ]}  # fmt: skip
    assert read_gold(write_json(tmp_path / "ls.json", [task])).rows() == [(1, "B")]


def test_gold_errors_name_the_row_and_the_fix(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", VOTES))
    with pytest.raises(InputError, match=r"g\.csv row 3: gold label 'catt' is not among .*did you mean 'cat'.*--classes"):
        read_gold(write(tmp_path / "g.csv", "item,gold\na,cat\nb,catt\n"), votes)
    assert len(read_gold(write(tmp_path / "g.csv", "item,gold\na,cat\nunseen,cow\n"), votes)) == 2
    with pytest.raises(InputError, match=r"may hold the known labels: 'true label', 'truth'; keep one of them"):
        read_gold(write(tmp_path / "two.csv", "item,true label,truth\na,,cat\n"))
    with pytest.raises(InputError, match="found 'x', 'y'"):
        read_gold(write(tmp_path / "h.csv", "x,y\na,cat\n"))


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_ids_that_are_text_in_json_stay_text(tmp_path: Path) -> None:
    result = [{"from_name": "q", "value": {"choices": ["1"]}}]
    annotations = [{"completed_by": 1, "result": result}, {"completed_by": 2, "ground_truth": True, "result": result}]
    votes = read(write_json(tmp_path / "ls.json", [{"id": "7", "data": {}, "annotations": annotations}]))
    assert votes.items.tolist() == ["7"]
    assert votes.classes.tolist() == ["1"]


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_markers_do_not_become_classes_beside_gold(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label,gold\na,x,1,2\na,y,?,2\n")
    votes = read(path, missing="?")
    assert votes.classes.tolist() == [1, 2]
    assert gold(votes) == {"a": 2}


def test_a_record_of_another_shape_is_named(tmp_path: Path) -> None:
    tasks = [{"id": 1, "data": {}, "annotations": [{"result": []}]}, {"id": 2, "data": {}, "annotations": [5]}]
    with pytest.raises(InputError, match=r"ls\.json record 2: recognised as label-studio, but .*--format"):
        read(write_json(tmp_path / "ls.json", tasks))


FIELDS = [
    "id", "item", "data", "annotations", "result", "value", "choices", "from_name", "completed_by", "ground_truth",
    "_input_hash", "answer", "accept", "_session_id", "label", "fields", "responses", "suggestions", "q.responses",
    "q.responses.users", "user_id", "text", "job", "annotationsFromAllWorkers", "workerId", "annotationData",
    "content", "answers", "answerContent", "data_row", "projects", "labels", "label_details", "classifications",
    "radio_answer", "judge", "judgments", "HITId", "WorkerId", "Answer", "annotator", "annotation_id", "gold",
]  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)
BEGINNINGS: list[dict[str, object]] = [
    {},
    {"id": 1, "data": {}, "annotations": [{"result": []}]},
    {"_input_hash": 1, "answer": "accept", "_session_id": 1},
    {"fields": {}, "responses": {}},
    {"data_row": {"id": 1}, "projects": {}},
    {"id": 1, "judgments": []},
    {"HITId": 1, "WorkerId": 2, "Answer": ""},
    {"id": 1, "text": "x", "label": []},
    {"id": 1, "annotator": 1, "annotation_id": 2},
]
records = st.builds(
    lambda start, rest: {**start, **rest},
    st.sampled_from(BEGINNINGS),
    st.dictionaries(st.sampled_from(FIELDS), values, max_size=5),
)


def read_or_refuse(path: Path, **options: bool) -> str:
    """Return the message of the refusal, or nothing; any other exception is a failure."""
    try:
        read(path, **options)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.lists(records, min_size=1, max_size=3), predictions=st.booleans())
def test_any_json_is_read_or_refused_in_one_line(tmp_path: Path, document: object, predictions: bool) -> None:
    assert "\n" not in read_or_refuse(write_json(tmp_path / "any.json", document), predictions=predictions)


@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.sampled_from(
        [b"", b"item,annotator,label\n", b"HITId,WorkerId,Answer.q\n", b"subject_ids,user_name,annotations\n"]
    ),
    body=st.binary(max_size=40) | st.text("ab1-,;\t\n\"'{}[]: ", max_size=40).map(str.encode),
    suffix=st.sampled_from([".csv", ".tsv", ".txt", ".json", ".jsonl", ".parquet", ".arrow", ".gz", ""]),
)
def test_any_bytes_are_read_or_refused_in_one_line(tmp_path: Path, head: bytes, body: bytes, suffix: str) -> None:
    path = tmp_path / f"any{suffix}"
    path.write_bytes(head + body)
    assert "\n" not in read_or_refuse(path)


GOLDEN = "item,annotator,label,gold\n" + "".join(f"i{n},{who},cat,{{}}\n" for n in range(4) for who in "ab") + "i9,a,dog,\n"


def test_gold_that_decides_most_labels_is_warned_about_where_it_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", GOLDEN.replace("{}", "cat"))
    with pytest.warns(GoldDecides, match=r"decides 4 of 5 labels; .* fit votes\.with_gold\(None\) and compare") as caught:
        votes = read(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert votes.with_gold(None).n_gold == 0
    # Half of the labels are not most of them.
    half = GOLDEN.replace("i3,a,cat,{}\ni3,b,cat,{}\n", "").replace("{}", "cat", 4).replace("{}", "")
    assert (read(write(tmp_path / "w.csv", half)).n_gold, read(tmp_path / "w.csv").n_items) == (2, 4)
