from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import gold, triples, write, write_json, write_lines

from crowdwise import DawidSkene, MajorityVote
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io import detect, read

PEOPLE = (
    "id,text,ann,bob,Cem Y.,gold,majority,n\n"
    "1,a b,cat,cat,dog,cat,cat,3\n2,c d,dog,dog,dog,dog,dog,3\n3,e f,cat,,dog,cat,cat,2\n"
)
VOTES = [(1, "Cem Y.", "dog"), (1, "ann", "cat"), (1, "bob", "cat"), (2, "Cem Y.", "dog"), (2, "ann", "dog"), (2, "bob", "dog")]
VOTES += [(3, "Cem Y.", "dog"), (3, "ann", "cat")]


def noted(path: Path, **options: Any) -> tuple[Any, str]:
    notes: list[str] = []
    return read(path, notes=notes, **options), "\n".join(notes)


# -- a column per annotator ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_columns_that_share_labels_vote_and_others_never_do(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", PEOPLE)
    assert detect(path) == "wide"
    votes, notes = noted(path)
    assert triples(votes) == VOTES
    assert gold(votes) == {1: "cat", 2: "dog", 3: "cat"}
    assert "item = 'id', 3 columns of annotators: 'ann', 'bob', 'Cem Y.'" in notes
    assert "not voting: 'text', 'gold', 'majority', 'n'" in notes


@pytest.mark.parametrize(
    ("options", "people"),
    [
        ({"annotators": "ann,bob"}, ["ann", "bob"]),
        ({"annotators": ["ann", "bob"]}, ["ann", "bob"]),
        ({"annotators": "?o?"}, ["bob"]),
        ({"exclude": "Cem*"}, ["ann", "bob"]),
        ({"annotators": "*", "exclude": "text,gold,maj*,n"}, ["Cem Y.", "ann", "bob"]),
        ({"annotators": "ann,majority"}, ["ann", "majority"]),
    ],
)
@pytest.mark.filterwarnings("ignore::crowdwise.data.gold.GoldDecides")
def test_columns_that_vote_are_chosen_by_names_and_patterns(tmp_path: Path, options: dict[str, Any], people: list[str]) -> None:
    assert read(write(tmp_path / "v.csv", PEOPLE), **options).annotators.tolist() == people


def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.csv: no column 'anne' \(--annotator-columns\).*did you mean 'ann'"):
        read(write(tmp_path / "v.csv", PEOPLE), annotators="anne")


def test_a_matrix_without_a_header(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "1,0,,1\n0,0,1,\n1,1,1,\n")
    votes = read(path, header=False)
    assert triples(votes) == [
        (1, "column 1", 1), (1, "column 2", 0), (1, "column 4", 1),
        (2, "column 1", 0), (2, "column 2", 0), (2, "column 3", 1),
        (3, "column 1", 1), (3, "column 2", 1), (3, "column 3", 1),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"n\.csv row 2: item '0' occurs twice"):
        read(write(tmp_path / "n.csv", "0,a,b\n0,b,b\n"), header=False, item="column 1")
    with pytest.raises(InputError, match=r"o\.csv row 1: column '0' occurs more than once.*--no-header"):
        read(write(tmp_path / "o.csv", "1,0,0\n0,0,1\n"))


@pytest.mark.parametrize("name", ["annotator", "worker_id", "Email address", "user"])
def test_rows_that_people_name_are_asked_about(tmp_path: Path, name: str) -> None:
    rows = {"ann": "cat,dog,cat,cat", "bob": "cat,dog,dog,cat", "cem": "dog,dog,cat,cat"}
    path = write(tmp_path / "v.csv", f"{name},p1,p2,p3,p4\n" + "".join(f"{who},{said}\n" for who, said in rows.items()))
    with pytest.raises(InputError, match=rf"{name!r} names the rows.*--transposed; .*--item"):
        read(path)
    right = {(f"p{k + 1}", who, label) for who, said in rows.items() for k, label in enumerate(said.split(","))}
    assert set(triples(read(path, transposed=True))) == right
    assert set(triples(read(path, item=name))) == {(who, item, label) for item, who, label in right}


def test_a_transposed_table_has_a_row_per_annotator(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", "coder,u1,u2,u3\nA,1,2,\nB,1,1,3\n"), transposed=True)
    assert triples(votes) == [("u1", "A", 1), ("u1", "B", 1), ("u2", "A", 2), ("u2", "B", 1), ("u3", "B", 3)]


FORM = (
    "Timestamp,Email Address,Is it a cat? [1],Is it a cat? [2],Comments\n"
    "2024/01/01 10:00:00,a@x.org,Yes,No,nice\n2024/01/01 10:05:00,b@x.org,Yes,Yes,\n"
    "2024/01/01 09:00:00,a@x.org,No,No,first try\n"
)


def test_answers_to_a_form_have_a_row_per_person(tmp_path: Path) -> None:
    path = write(tmp_path / "form.csv", FORM)
    votes, notes = noted(path)
    assert votes.n_votes == 6
    assert votes.annotators.tolist() == ["a@x.org", "b@x.org"]
    assert votes.items.tolist() == ["Is it a cat? [1]", "Is it a cat? [2]"]
    assert "a row per annotator; annotator = 'Email Address'" in notes
    last, notes = noted(path, repeats="last")
    assert triples(last)[0] == ("Is it a cat? [1]", "a@x.org", "Yes")
    assert "by the times of the file" in notes


def test_columns_of_several_questions_are_refused_with_a_choice_that_works(tmp_path: Path) -> None:
    rows = "".join(f"{n},{'pn'[n % 2]},{'xy'[n % 3 > 0]},{'pn'[n % 3 > 0]},{'xy'[n % 2]}\n" for n in range(9))
    path = write(tmp_path / "v.csv", f"id,ann_mood,ann_topic,bob_mood,bob_topic\n{rows}")
    with pytest.raises(InputError, match=r"several questions to each annotator: .*--annotator-columns ann_mood,bob_mood"):
        read(path)
    with pytest.raises(InputError, match=r"as if they answered several questions: .*--annotator-columns ann_mood,bob_mood"):
        read(path, format="wide")
    assert read(path, annotators="ann_mood,bob_mood").n_votes == 18


def test_one_item_and_a_table_without_ids(tmp_path: Path) -> None:
    one = read(write(tmp_path / "v.csv", "item,ann,bob,cem\n1,x,x,y\n"), format="wide")
    assert triples(one) == [(1, "ann", "x"), (1, "bob", "x"), (1, "cem", "y")]
    rows = "".join(f"{n % 2},{n % 3 % 2},{n % 2}\n" for n in range(6))
    bare, notes = noted(write(tmp_path / "w.csv", f"ann,bob,cem\n{rows}"), format="wide")
    assert (bare.n_items, bare.n_votes) == (6, 18)
    assert "item = the number of the row" in notes


def test_classes_as_zeros_and_ones_are_not_annotators(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--format counts"):
        read(write(tmp_path / "v.csv", "id,cat,dog\n1,1,0\n2,0,1\n3,1,0\n"))


def test_comma_separated_annotators_and_labels(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", 'id,annotators,labels\n1,"a,b","x,y"\n2,a,x\n'))
    assert triples(votes) == [(1, "a", "x"), (1, "b", "y"), (2, "a", "x")]
    lines = [{"id": 1, "annotators": "a|b", "labels": "x|y"}, {"id": 2, "annotators": "a", "labels": "y"}]
    assert triples(read(write_lines(tmp_path / "v.jsonl", lines))) == [(1, "a", "x"), (1, "b", "y"), (2, "a", "y")]


# -- counts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("id,n,cat,dog,class\na,3,3,0,0\nb,2,1,1,0\nc,4,0,4,1\n", {}),
        ("id,cat,dog\na,3,0\nb,1,1\nc,0,4\n", {"format": "counts"}),
        ("id,v_cat,v_dog,age\na,3,0,7\nb,1,1,8\nc,0,4,9\n", {"format": "counts", "annotators": "v_*"}),
    ],
)
def test_counts_in_columns_are_anonymous_votes(tmp_path: Path, text: str, options: dict[str, Any]) -> None:
    path = write(tmp_path / "v.csv", text)
    votes, notes = noted(path, **options)
    said = [(item, str(label).removeprefix("v_")) for item, _, label in triples(votes)]
    assert said == [*[("a", "cat")] * 3, ("b", "cat"), ("b", "dog"), *[("c", "dog")] * 4]
    assert votes.anonymous
    assert repr(votes) == "AnonymousVotes(9 votes: 3 items, 2 classes)"
    assert "counts of anonymous votes per class" in notes


def test_counts_in_a_mapping_per_record(tmp_path: Path) -> None:
    rows = [{"uid": "p", "label_counter": {"n": 2, "e": 1}, "majority_label": "n"}, {"uid": "q", "label_counter": {"c": 1}}]
    votes = read(write_lines(tmp_path / "v.jsonl", rows))
    assert sorted((item, label) for item, _, label in triples(votes)) == [("p", "e"), ("p", "n"), ("p", "n"), ("q", "c")]
    assert votes.n_annotators == 4
    assert votes.anonymous


def test_methods_that_learn_about_annotators_refuse_anonymous_votes(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", "id,cat,dog\na,3,0\nb,1,1\nc,0,4\n"), format="counts")
    assert MajorityVote().fit(votes).labels_.tolist()[::2] == ["cat", "dog"]
    with pytest.raises(SettingError, match="dawid-skene learns about annotators, and nobody knows who gave these votes"):
        DawidSkene().fit(votes)
    assert votes[[0, 2]].anonymous


def test_a_count_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.csv row 3: '-1' in column 'cat' is no count"):
        read(write(tmp_path / "v.csv", "id,cat,dog\na,3,0\nb,-1,1\n"), format="counts", annotators="cat,dog")


# -- an entry per item ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entries",
    [
        {"p": {"annotators": "a, b", "annotations": "1,0", "hard_label": "1"}, "q": {"annotators": "a", "annotations": "1"}},
        {"p": {"annotators": ["a", "b"], "labels": [1, 0]}, "q": {"annotators": ["a"], "labels": [1]}},
        {"p": {"annotations": {"a": "1", "b": "0"}, "n": 2}, "q": {"annotations": {"a": "1"}, "n": 1}},
        {"p": {"annotators": [{"annotator_id": "a", "label": 1}, {"annotator_id": "b", "label": 0}]},
         "q": {"annotators": [{"annotator_id": "a", "label": 1}]}},
    ],
)  # fmt: skip
def test_json_keyed_by_id(tmp_path: Path, entries: dict[str, Any]) -> None:
    path = write_json(tmp_path / "v.json", entries)
    assert detect(path) == "keyed"
    assert triples(read(path)) == [("p", "a", 1), ("p", "b", 0), ("q", "a", 1)]


def test_an_entry_with_lists_of_different_lengths_is_named(tmp_path: Path) -> None:
    path = write_json(tmp_path / "v.json", {"p": {"annotators": "a,b,c", "annotations": "1,0"}})
    with pytest.raises(InputError, match=r"v\.json record 1 \(key 'p'\): 3 annotators and 2 labels"):
        read(path)


def test_other_fields_of_an_entry_are_reached_by_their_names(tmp_path: Path) -> None:
    entry = {"annotators": "a,b", "annotations": "1,0", "more": {"target.self": "0,1"}}
    votes = read(write_json(tmp_path / "v.json", {"p": entry}), label="more.target.self")
    assert triples(votes) == [("p", "a", 0), ("p", "b", 1)]


def test_answers_of_peerannot_are_still_its_own(tmp_path: Path) -> None:
    assert detect(write_json(tmp_path / "a.json", {"0": {"7": 1, "8": 0}})) == "peerannot"


def test_many_keys_are_not_listed(tmp_path: Path) -> None:
    path = write_json(tmp_path / "v.json", {str(n): [n] for n in range(500)})
    with pytest.raises(InputError) as refusal:
        read(path)
    assert len(str(refusal.value)) < 500


# -- columns of a long table ---------------------------------------------------------------------


def test_the_columns_taken_are_said_with_the_others(tmp_path: Path) -> None:
    _, notes = noted(write(tmp_path / "v.csv", "task,worker,answer,comment\n1,a,x,hm\n2,a,y,\n"))
    assert "item = 'task', annotator = 'worker', label = 'answer'; other columns: 'comment'" in notes
    assert noted(write(tmp_path / "w.csv", "item,annotator,label\n1,a,x\n"))[1] == ""


def test_an_item_column_in_which_annotators_repeat_themselves_is_refused(tmp_path: Path) -> None:
    rows = "".join(f"{'IR' if n % 2 else 'QA'},doc{n},w{m},{(n + m) % 2}\n" for n in range(20) for m in range(4))
    path = write(tmp_path / "v.csv", f"task,orig_id,worker,answer\n{rows}")
    with pytest.raises(InputError, match=r"'task' was taken as the item.* 2 values.*'orig_id' has 20: .* --item orig_id"):
        read(path)
    assert read(path, item="orig_id").n_items == 20
    assert read(path, item="task").n_items == 2


def test_repeated_measures_without_another_id_are_read(tmp_path: Path) -> None:
    rows = "".join(f"{n},w1,{k % 2}\n" for n in range(4) for k in range(3))
    votes, notes = noted(write(tmp_path / "v.csv", f"task,worker,answer\n{rows}"))
    assert votes.n_votes == 12
    assert "8 of 12 votes repeat an annotator's vote on the same item" in notes


# -- repeats -------------------------------------------------------------------------------------

REPEATS = (
    "item,annotator,label,when\n1,a,x,2024-01-02 10:00\n1,a,y,2024-01-01 10:00\n1,b,y,2024-01-01 10:00\n1,b,,2024-01-03 10:00\n"
)


@pytest.mark.parametrize(
    ("options", "votes"),
    [
        ({"repeats": "last"}, [(1, "a", "y"), (1, "b", "y")]),
        ({"repeats": "first"}, [(1, "a", "x"), (1, "b", "y")]),
        ({"repeats": "last", "time": "when"}, [(1, "a", "x"), (1, "b", "y")]),
        ({"repeats": "first", "time": "when"}, [(1, "a", "y"), (1, "b", "y")]),
    ],
)
def test_the_last_and_the_first_vote_count(tmp_path: Path, options: dict[str, Any], votes: list[Any]) -> None:
    found = read(write(tmp_path / "v.csv", REPEATS), **options)
    assert triples(found) == votes
    assert found.n_missing == 1


def test_repeated_votes_share_one_weight(tmp_path: Path) -> None:
    votes = read(write(tmp_path / "v.csv", REPEATS), repeats="weight")
    assert votes.to_frame()["weight"].to_list() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    "times",
    [
        ("1/2/2024 10:00", "1/3/2024 9:00"),
        ("Mon Jan 01 10:00:00 PDT 2024", "Tue Jan 02 09:00:00 PDT 2024"),
        ("2024-01-01 10:00:00 UTC", "2024-01-02 09:00:00 UTC"),
        ("2024-01-01T10:00:00Z", "2024-01-01T11:00:00+00:00"),
        ("9", "10"),
        ("31.12.2023", "01.01.2024"),
    ],
)
def test_times_are_understood(tmp_path: Path, times: tuple[str, str]) -> None:
    rows = f"1,a,new,{times[1]}\n1,a,old,{times[0]}\n"
    path = write(tmp_path / "v.csv", f"item,annotator,label,time\n{rows}")
    assert triples(read(path, repeats="last")) == [(1, "a", "new")]


def test_what_is_no_time_and_no_rule_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label,time\n1,a,x,noon\n1,a,y,night\n")
    with pytest.raises(InputError, match=r"v\.csv row 2: 'noon' and the others are not all times"):
        read(path, repeats="last")
    with pytest.raises(InputError, match="no column 'hour' of times"):
        read(path, repeats="last", time="hour")
    with pytest.raises(SettingError, match="repeats must be one of all, last, first, weight"):
        read(path, repeats="latest")


# -- Zooniverse ----------------------------------------------------------------------------------


def zooniverse(path: Path, rows: list[tuple[str, str, str, dict[str, Any]]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["classification_id", "user_name", "workflow_id", "workflow_version", "annotations", "subject_ids"])
        for n, (user, workflow, version, task) in enumerate(rows):
            writer.writerow([n, user, workflow, version, json.dumps([task]), "7"])
    return path


def test_one_task_key_that_asks_two_things_is_never_pooled(tmp_path: Path) -> None:
    rows = [
        ("a", "1", "3.1", {"task": "T1", "task_label": "Which animal?", "value": "cat"}),
        ("b", "1", "4.1", {"task": "T1", "task_label": "What time of day?", "value": "noon"}),
        ("c", "1", "4.2", {"task": "T1", "task_label": "What time of day?", "value": "dawn"}),
    ]
    path = zooniverse(tmp_path / "z.csv", rows)
    with pytest.raises(
        InputError, match=r"'T1' asks different things: 'Which animal\?' \(1 answers, versions 3\.1\)"
    ) as refusal:
        read(path, question="T1")
    assert "--question 'What time of day?'" in str(refusal.value)
    with pytest.raises(InputError, match="asks different things"):
        read(path)
    with pytest.warns(DataWarning, match="was asked in 2 of 3 classifications"):
        assert triples(read(path, question="what time  of day?")) == [(7, "b", "noon"), (7, "c", "dawn")]
    assert triples(read(path, question="T1", workflow_version="4")) == [(7, "b", "noon"), (7, "c", "dawn")]
    assert triples(read(path, workflow_version="4.2")) == [(7, "c", "dawn")]
    with pytest.raises(InputError, match=r"no workflow version '5'; there are 3\.1, 4\.1, 4\.2"):
        read(path, workflow_version="5")


def test_tasks_of_two_workflows_without_texts_are_not_pooled(tmp_path: Path) -> None:
    rows = [("a", "1", "3.1", {"task": "T1", "value": "cat"}), ("b", "2", "3.1", {"task": "T1", "value": "dog"})]
    with pytest.raises(InputError, match="asks different things: 'a task without a text of workflow 1'"):
        read(zooniverse(tmp_path / "z.csv", rows), question="T1")
