"""MTurk, Toloka, Appen and Zooniverse: platforms that export tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.io.helpers import gold, triples, write

from crowdwise.data.label_sets import LabelSets
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import detect, read

MTURK = """"HITId","AssignmentId","WorkerId","AssignmentStatus","Input.url","Answer.sentiment"
"H1","A1","W1","Approved","u1","pos"
"H1","A2","W2","Approved","u1","neg"
"H2","A3","W1","Submitted","u2","pos"
"H3","A4","W3","Rejected","u3","neg"
"""


def test_mturk_leaves_rejected_assignments_out(tmp_path: Path) -> None:
    path = write(tmp_path / "batch.csv", MTURK)
    assert detect(path) == "mturk"
    with pytest.warns(DataWarning, match=r"batch\.csv: 1 rejected assignments were left out"):
        votes = read(path)
    assert triples(votes) == [("H1", "W1", "pos"), ("H1", "W2", "neg"), ("H2", "W1", "pos")]
    assert votes.items.tolist() == ["H1", "H2", "H3"]
    # Left out and said so: not missing as well.
    assert votes.n_missing == 0
    with pytest.warns(DataWarning):
        assert read(path, item="Input.url", label="Answer.sentiment").items.tolist() == ["u1", "u2", "u3"]


def test_mturk_questions_and_radio_buttons(tmp_path: Path) -> None:
    header = "HITId,WorkerId,Answer.mood.sad,Answer.mood.glad,Answer.age\n"
    path = write(tmp_path / "batch.csv", header + "H1,W1,true,false,20\nH1,W2,false,true,30\nH2,W1,false,false,20\n")
    with pytest.raises(InputError, match=r"several questions: 'mood', 'age'\. Pick one, for example: .*--question mood"):
        read(path)
    votes = read(path, question="mood")
    assert triples(votes) == [("H1", "W1", "sad"), ("H1", "W2", "glad")]
    assert votes.items.tolist() == ["H1", "H2"]
    assert read(path, question="Answer.age").classes.tolist() == [20, 30]
    with pytest.raises(InputError, match=r"no question 'mod'; found .*did you mean 'mood'"):
        read(path, question="mod")
    with pytest.raises(InputError, match=r"no column 'Input\.x'; found"):
        read(path, question="mood", item="Input.x")


def test_mturk_single_boxes_are_yes_or_no(tmp_path: Path) -> None:
    rows = "H1,W1,true,false\nH1,W2,false,true\nH2,W1,False,\n"
    path = write(tmp_path / "on.csv", "HITId,WorkerId,Answer.toxic.on,Input.u\n" + rows.replace(",true\n", ",u\n"))
    # An unticked box is a vote; it was a missing label, so that every item was "on".
    assert triples(read(path)) == [("H1", "W1", "true"), ("H1", "W2", "false"), ("H2", "W1", "false")]

    path = write(tmp_path / "boxes.csv", "HITId,WorkerId,Answer.cat.cat,Answer.dog.dog\n" + rows)
    with pytest.raises(InputError, match=r"boxes to tick: 'cat', 'dog'\..*--type multilabel; .*--question cat"):
        read(path)
    assert triples(read(path, question="cat")) == [("H1", "W1", "cat"), ("H1", "W2", "not cat"), ("H2", "W1", "not cat")]
    dogs = read(path, question="dog")
    assert triples(dogs) == [("H1", "W1", "not dog"), ("H1", "W2", "dog")]
    assert dogs.n_missing == 1


def test_mturk_boxes_together_are_sets(tmp_path: Path) -> None:
    header = "HITId,WorkerId,AssignmentStatus,Answer.cat.cat,Answer.dog.on\n"
    rows = "H1,W1,Approved,true,true\nH1,W2,Approved,false,false\nH2,W1,Rejected,false,false\nH2,W2,Approved,false,true\n"
    with pytest.warns(DataWarning, match="1 rejected"):
        sets = read(write(tmp_path / "b.csv", header + rows), LabelSets)
    assert sets.labels.tolist() == ["cat", "dog"]
    who = zip(sets.items[sets.item], sets.annotators[sets.annotator], strict=True)
    said = {pair: set(sets.labels[sets.label[(sets.answer == k) & sets.chosen]]) for k, pair in enumerate(who)}
    # What stands in the rejected assignment is no empty set.
    assert said == {("H1", "W1"): {"cat", "dog"}, ("H1", "W2"): set(), ("H2", "W2"): {"dog"}}


def test_mturk_crowd_forms(tmp_path: Path) -> None:
    def cell(label: str) -> str:
        return '"' + json.dumps([{"mood": {"label": label}, "sure": {"yes": True, "no": False}}]).replace('"', '""') + '"'

    path = write(tmp_path / "b.csv", f"HITId,WorkerId,Answer.taskAnswers\nH1,W1,{cell('pos')}\nH1,W2,{cell('neg')}\nH2,W1,\n")
    votes = read(path, question="mood")
    assert triples(votes) == [("H1", "W1", "pos"), ("H1", "W2", "neg")]
    assert votes.items.tolist() == ["H1", "H2"]
    assert read(path, question="sure").classes.tolist() == ["yes"]
    box = '"[{""toxic"":{""on"":%s}}]"'
    text = f"HITId,WorkerId,Answer.taskAnswers\nH1,W1,{box % 'true'}\nH1,W2,{box % 'false'}\n"
    assert triples(read(write(tmp_path / "box.csv", text))) == [("H1", "W1", "true"), ("H1", "W2", "false")]


def test_mturk_row_numbers_count_rejected_rows(tmp_path: Path) -> None:
    text = "HITId,WorkerId,AssignmentStatus,Answer.q\nH1,W1,Rejected,a\nH1,W2,Approved,b\nH1,W3,Approved,z\n"
    path = write(tmp_path / "b.csv", text)
    with pytest.warns(DataWarning), pytest.raises(InputError, match=r"b\.csv row 4: label 'z'"):
        read(path, classes=["a", "b"])


def test_toloka_golden_becomes_gold(tmp_path: Path) -> None:
    text = (
        "INPUT:image\tOUTPUT:result\tGOLDEN:result\tHINT:text\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\n"
        "i1\tcat\tbird\t\tt1\tw1\tAPPROVED\ni2\tdog\t\t\tt2\tw1\tAPPROVED\n\ni1\tcat\tbird\t\tt1\tw2\tAPPROVED\ni2\tdog\t\t\tt2\tw2\tREJECTED\n"
    )
    path = write(tmp_path / "pool.tsv", text)
    assert detect(path) == "toloka"
    with pytest.warns(DataWarning, match="1 rejected"):
        votes = read(path)
    assert triples(votes) == [("t1", "w1", "cat"), ("t1", "w2", "cat"), ("t2", "w1", "dog")]
    assert gold(votes) == {"t1": "bird"}
    assert votes.classes.tolist() == ["bird", "cat", "dog"]


def test_toloka_assignments_that_nobody_handed_in_do_not_vote(tmp_path: Path) -> None:
    header = "INPUT:image\tOUTPUT:result\tASSIGNMENT:task_id\tASSIGNMENT:worker_id\tASSIGNMENT:status\n"
    states = ("APPROVED", "SUBMITTED", "SKIPPED", "EXPIRED", "REJECTED")
    path = write(tmp_path / "p.tsv", header + "".join(f"i1\tcat\tt1\t{state}\t{state}\n" for state in states))
    with pytest.warns(DataWarning, match="3 rejected, skipped or expired assignments were left out"):
        votes = read(path)
    assert triples(votes) == [("t1", "APPROVED", "cat"), ("t1", "SUBMITTED", "cat")]
    assert votes.n_missing == 0


def test_toloka_without_task_ids_joins_the_inputs(tmp_path: Path) -> None:
    text = "INPUT:a\tINPUT:b\tOUTPUT:x\tASSIGNMENT:worker_id\n1\t2\tyes\tw\n1\t3\tno\tw\n"
    assert read(write(tmp_path / "pool.tsv", text)).items.tolist() == ["1 | 2", "1 | 3"]


APPEN = """_unit_id,_golden,_worker_id,_trust,_tainted,color,color_gold,text
1,true,10,0.9,false,red,blue,a
1,true,11,0.5,false,blue,blue,a
2,false,10,0.9,false,red,,b
2,false,12,0.1,true,blue,,b
3,true,10,0.9,false,red,"red
blue",c
"""


def test_appen_gold_trust_and_taint(tmp_path: Path) -> None:
    path = write(tmp_path / "full.csv", APPEN)
    assert detect(path) == "appen"
    with pytest.warns(DataWarning, match="1 tainted judgments"):
        votes = read(path, weight="_trust")
    assert triples(votes) == [(1, 10, "red"), (1, 11, "blue"), (2, 10, "red"), (3, 10, "red")]
    assert votes.weight is not None
    assert votes.weight.tolist() == [0.9, 0.5, 0.9, 0.9]
    # Item 3 accepts two answers, so it has no single true class.
    assert gold(votes) == {1: "blue"}


def test_appen_without_test_questions_asks_for_the_column(tmp_path: Path) -> None:
    path = write(tmp_path / "full.csv", "_unit_id,_worker_id,color,text\n1,10,red,a\n")
    with pytest.raises(InputError, match="several questions: 'color', 'text'"):
        read(path)
    assert triples(read(path, question="color")) == [(1, 10, "red")]


def zooniverse(rows: list[tuple[str, str, str, object]]) -> str:
    lines = ["classification_id,user_name,user_id,gold_standard,annotations,subject_ids"]
    for number, (user, subject, standard, tasks) in enumerate(rows):
        quoted = json.dumps(tasks).replace('"', '""')
        lines.append(f'{number},{user},,{standard},"{quoted}",{subject}')
    return "\n".join(lines) + "\n"


def test_zooniverse(tmp_path: Path) -> None:
    rows: list[tuple[str, str, str, object]] = [
        ("ann", "7", "", [{"task": "T0", "task_label": "Galaxy?", "value": "Yes"}]),
        ("not-logged-in-ab12", "7", "", [{"task": "T0", "value": "No"}]),
        ("not-logged-in-cd34", "8", "", [{"task": "T0", "value": None}]),
        ("expert", "7", "true", [{"task": "T0", "value": "Maybe"}]),
    ]
    path = write(tmp_path / "classifications.csv", zooniverse(rows))
    votes = read(path)
    assert detect(path) == "zooniverse"
    assert triples(votes) == [(7, "ann", "Yes"), (7, "not-logged-in-ab12", "No")]
    assert gold(votes) == {7: "Maybe"}
    assert votes.items.tolist() == [7, 8]


def test_zooniverse_has_no_weights(tmp_path: Path) -> None:
    path = write(tmp_path / "z.csv", zooniverse([("ann", "7", "", [{"task": "T0", "value": "Yes"}])]))
    with pytest.raises(InputError, match="no column for the weight"):
        read(path, weight="user_id")


def test_zooniverse_tasks_and_errors(tmp_path: Path) -> None:
    combo = [{"task": "T9", "value": [{"task": "T0", "value": "Yes"}, {"task": "T1", "value": ["a", "b"]}]}]
    path = write(tmp_path / "z.csv", zooniverse([("ann", "7", "", combo)]))
    with pytest.raises(InputError, match="several questions: 'T0', 'T1'"):
        read(path)
    assert triples(read(path, question="T0")) == [(7, "ann", "Yes")]
    with pytest.raises(InputError, match=r"z\.csv row 2: several labels.*--type multilabel"):
        read(path, question="T1")
    broken = write(tmp_path / "b.csv", "subject_ids,user_name,annotations\n1,ann,[{\n")
    with pytest.raises(InputError, match=r"b\.csv row 2, annotations: broken JSON"):
        read(broken)
