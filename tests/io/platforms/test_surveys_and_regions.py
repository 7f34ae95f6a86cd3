"""Zooniverse surveys; Label Studio's controls, boxes, spans and rankings."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.io.exports import export
from tests.io.helpers import triples, write, write_json

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.ratings import Ratings
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import read


def survey(rows: list[tuple[str, str, Any]]) -> str:
    lines = ["classification_id,user_name,annotations,subject_ids"]
    for number, (user, subject, tasks) in enumerate(rows):
        quoted = json.dumps(tasks).replace('"', '""')
        lines.append(f'{number},{user},"{quoted}",{subject}')
    return "\n".join(lines) + "\n"


def animal(choice: str, **answers: Any) -> dict[str, Any]:
    return {"choice": choice, "answers": answers, "filters": {}}


FOX = [{"task": "T0", "value": [animal("FOX", HOWMANY="2", DOING=["RUN", "EAT"])]}]
NOTHING = [{"task": "T0", "value": [animal("EMPTY")]}, {"task": "T1", "value": None}]


def test_a_survey_gives_choices_and_follow_ups(tmp_path: Path) -> None:
    path = write(tmp_path / "z.csv", survey([("ann", "7", FOX), ("bob", "7", NOTHING), ("bob", "8", NOTHING)]))
    with pytest.raises(InputError, match=r"several questions: 'T0', 'T0\.HOWMANY', 'T0\.DOING', 'T1'"):
        read(path)
    with pytest.warns(DataWarning, match="'T1' was asked in 2 of 3"):
        votes = read(path, question="T1", classes=["yes", "no"])
    assert votes.n_missing == 2
    assert triples(read(path, question="T0")) == [(7, "ann", "FOX"), (7, "bob", "EMPTY"), (8, "bob", "EMPTY")]


def test_a_follow_up_has_no_label_where_it_was_not_asked(tmp_path: Path) -> None:
    path = write(tmp_path / "z.csv", survey([("ann", "7", FOX), ("bob", "7", NOTHING), ("bob", "8", NOTHING)]))
    for question in ("T0.HOWMANY", "T0.FOX.HOWMANY"):
        with pytest.warns(DataWarning, match=r"was asked in 1 of 3 classifications; items of which it never was have no label"):
            votes = read(path, question=question)
        assert triples(votes) == [(7, "ann", 2)]
        assert votes.items.tolist() == [7, 8]
        # Not asked is not "answered with nothing".
        assert votes.n_missing == 0


def test_several_animals_are_several_labels(tmp_path: Path) -> None:
    both = [{"task": "T0", "value": [animal("FOX", HOWMANY="1"), animal("DOG", HOWMANY="3"), animal("DOG")]}]
    path = write(tmp_path / "z.csv", survey([("ann", "7", both)]))
    with pytest.raises(InputError, match=r'z\.csv row 2: several labels in one cell.*"FOX", "DOG"\]'):
        read(path, question="T0")
    assert triples(read(path, question="T0.DOG.HOWMANY")) == [(7, "ann", 3)]


def test_the_real_survey() -> None:
    path = export("zooniverse_survey.csv")
    csv.field_size_limit(2**30)
    counts: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            choices = json.loads(row["annotations"])[0]["value"]
            for choice in {entry["choice"]: entry for entry in choices if "CLCKSFTHDGSFFLSH" in entry["answers"]}.values():
                counts[choice["answers"]["CLCKSFTHDGSFFLSH"]] += 1
    with pytest.warns(DataWarning, match="was asked in"):
        votes = read(path, question="T0.CLCKSFTHDGSFFLSH")
    assert Counter(label for _, _, label in triples(votes)) == counts
    with pytest.raises(InputError, match=r'row 112.*"HMN", "DGDMSTC"'):
        read(path, question="T0")


def result(name: str, kind: str, value: dict[str, Any], id: str = "r") -> dict[str, Any]:
    return {"id": id, "from_name": name, "to_name": "x", "type": kind, "value": value}


def task(number: int, *annotations: list[dict[str, Any]], **data: Any) -> dict[str, Any]:
    by = [{"completed_by": person, "result": results} for person, results in enumerate(annotations, start=1)]
    return {"id": number, "data": data, "annotations": by}


def box(x: float, label: str = "Car", name: str = "car") -> dict[str, Any]:
    value = {"x": x, "y": 10, "width": 20, "height": 30, "rotation": 0, "rectanglelabels": [label]}
    return result(name, "rectanglelabels", value)


def test_every_control_is_named_with_what_reads_it(tmp_path: Path) -> None:
    place = {"start": 0, "end": 3, "text": "Ada"}
    results = [
        result("mood", "choices", {"choices": ["glad"]}),
        result("where", "taxonomy", {"taxonomy": [["Europe", "France"]]}),
        result("ner", "labels", place | {"labels": ["PER"]}),
        result("sure", "choices", place | {"choices": ["yes"]}),
        result("order", "ranker", {"ranker": {"_": ["b", "a"]}}),
        result("note", "textarea", {"text": ["odd"]}),
        box(5),
    ]
    path = write_json(tmp_path / "ls.json", [task(1, results, text="Ada went")])
    with pytest.raises(InputError, match="several questions") as caught:
        read(path)
    message = str(caught.value)
    named = "'mood' (choices), 'where' (taxonomy), 'ner' (spans), 'sure' (choices per region), 'order' (a ranking), 'note'"
    assert named in message
    assert "crowdwise spans ... --question ner" in message
    assert "crowdwise regress ... --question car" in message
    assert "crowdwise rank ... --question order" in message
    assert triples(read(path, question="where")) == [(1, 1, "Europe > France")]
    assert triples(read(path, question="note")) == [(1, 1, "odd")]
    # Named, the labels that occur; marked words are no label.
    assert triples(read(path, question="ner")) == [(1, 1, "PER")]
    with pytest.raises(InputError, match=r"marks a ranking, no label of a whole item.*crowdwise rank"):
        read(path, question="order")


def test_a_file_of_boxes_is_sent_to_regress(tmp_path: Path) -> None:
    path = write_json(tmp_path / "ls.json", [task(1, [box(5), box(60)], [box(6)])])
    with pytest.raises(InputError, match=r"'car' marks boxes, no label.*crowdwise regress .*ls\.json --question car"):
        read(path)
    # Two cars are one label that occurs.
    assert triples(read(path, question="car")) == [(1, 1, "Car"), (1, 2, "Car")]


def test_boxes_that_overlap_are_of_one_thing(tmp_path: Path) -> None:
    tasks = [task(1, [box(5), box(60)], [box(6), box(61, "Bus")]), task(2, [], [box(7)])]
    ratings = read(write_json(tmp_path / "ls.json", tasks), Ratings)
    assert ratings.names == ("x1", "y1", "x2", "y2")
    assert ratings.to_frame().rows() == [
        ("1/Bus/1", 2, 61.0, 10.0, 81.0, 40.0),
        ("1/Car/1", 1, 5.0, 10.0, 25.0, 40.0),
        ("1/Car/1", 2, 6.0, 10.0, 26.0, 40.0),
        ("1/Car/2", 1, 60.0, 10.0, 80.0, 40.0),
        ("2/Car/1", 2, 7.0, 10.0, 27.0, 40.0),
    ]


def test_one_annotator_has_no_two_boxes_of_one_thing(tmp_path: Path) -> None:
    ratings = read(write_json(tmp_path / "ls.json", [task(1, [box(5), box(6)], [box(5.4)])]), Ratings)
    # 5.4 is nearer to 5, and the other box of the same person is another thing.
    assert sorted(ratings.to_frame()["item"].to_list()) == ["1/Car/1", "1/Car/1", "1/Car/2"]
    assert dict(ratings.to_frame().filter(pl_item("1/Car/1"))["annotator"].value_counts().rows()) == {1: 1, 2: 1}


def pl_item(name: str) -> Any:
    import polars as pl

    return pl.col("item") == name


def test_ratings_are_numbers(tmp_path: Path) -> None:
    stars = [[result("stars", "rating", {"rating": n}), result("mood", "choices", {"choices": ["x"]})] for n in (4, 5)]
    path = write_json(tmp_path / "ls.json", [task(1, *stars)])
    assert read(path, Ratings, question="stars").to_frame().rows() == [(1, 1, 4.0), (1, 2, 5.0)]
    with pytest.raises(InputError, match="several questions"):
        read(path, Ratings)


def test_spans_of_text(tmp_path: Path) -> None:
    def span(start: int, end: int, label: str) -> dict[str, Any]:
        return result("ner", "labels", {"start": start, "end": end, "text": text[start:end], "labels": [label]})

    text = "Ada met Bob Ray."
    tasks = [task(1, [span(0, 3, "PER"), span(8, 15, "PER")], [span(8, 11, "PER")], [], title="x" * 40, text=text)]
    tags = read(write_json(tmp_path / "ls.json", tasks), TokenVotes)
    assert tags.tokens is not None
    assert tags.tokens.tolist() == ["Ada", "met", "Bob", "Ray", "."]
    by = {who: [t for _, _, _, a, t in tags.to_frame().rows() if a == who] for who in (1, 2, 3)}
    assert by == {
        1: ["B-PER", "O", "B-PER", "I-PER", "O"],
        2: ["O", "O", "B-PER", "O", "O"],
        3: ["O", "O", "O", "O", "O"],
    }


def test_rankings_are_comparisons(tmp_path: Path) -> None:
    results = [result("order", "ranker", {"ranker": {"good": ["c", "a", "b"], "bad": ["d"]}})]
    votes = read(write_json(tmp_path / "ls.json", [task(1, results)]), Comparisons)
    frame = votes.to_frame()
    assert sorted(frame.select("first", "second", "outcome").rows()) == [("a", "b", 1), ("c", "a", 1), ("c", "b", 1)]


def test_the_real_boxes() -> None:
    path = export("label_studio.json")
    boxes = [r["value"] for t in json.loads(path.read_text()) for a in t["annotations"] for r in a["result"]]
    with pytest.raises(InputError, match=r"'label' marks boxes.*crowdwise regress"):
        read(path)
    ratings = read(path, Ratings)
    assert ratings.n_votes == len(boxes)
    found = sorted(round(x, 6) for x in ratings.to_frame()["x2"].to_list())
    assert found == sorted(round(value["x"] + value["width"], 6) for value in boxes)
