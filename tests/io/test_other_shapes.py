"""Records with a field per annotator, counts of several questions, shares beside others; and exports without votes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import triples, write, write_json, write_lines

from crowdwise import Ratings
from crowdwise.errors import InputError
from crowdwise.io import detect, read

JUDGES = ("gpt-4o", "claude", "gemini")
SAID = ["AAB", "BBB", "ABA", "AAA", "BAB", "BBA"]


def test_records_with_a_field_per_annotator(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"id": n, "prompt": f"what is {n}?", **dict(zip(JUDGES, said, strict=True))} for n, said in enumerate(SAID)
    ]
    expected = sorted((n, judge, said[k]) for n, said in enumerate(SAID) for k, judge in enumerate(JUDGES))
    for path in (write_lines(tmp_path / "v.jsonl", records), write_json(tmp_path / "v.json", records)):
        assert detect(path) == "wide"
        assert sorted(triples(read(path))) == expected
        assert read(path, annotators="gpt-4o,claude").n_annotators == 2
    # Whoever a record names has said what is in it, and two models with a winner were compared.
    named = [{"id": n, "rater_id": "ann", "sharp": 1, "dark": n % 2, "old": 0} for n in range(6)]
    with pytest.raises(InputError, match="no label column"):
        read(write_lines(tmp_path / "w.jsonl", named))
    battles = [{"model_a": "xy"[n % 2], "model_b": "yx"[n % 2], "winner": "model_a"} for n in range(6)]
    with pytest.raises(InputError, match="These are comparisons: crowdwise rank"):
        read(write_lines(tmp_path / "b.jsonl", battles))


def test_counts_in_flat_records(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "v.jsonl", [{"id": n, "cat": n % 4, "dog": 3 - n % 4, "total": 3} for n in range(6)])
    votes = read(path)
    assert votes.anonymous
    assert (votes.n_votes, votes.classes.tolist()) == (18, ["cat", "dog"])


def test_counts_of_several_questions_are_asked_about(tmp_path: Path) -> None:
    rows = [(n, 5 + n, 5 - n % 5, 4, n % 3) for n in range(6)]
    lines = [f"{n},{a + b},{a + b + c + d},{a},{b},{c},{d}\n" for n, a, b, c, d in rows]
    head = "id,total_classifications,total_votes,smooth,disk,edge_yes,edge_no\n"
    path = write(tmp_path / "v.csv", head + "".join(lines))
    with pytest.raises(InputError, match=r"'smooth', 'disk' add up to 'total_classifications'; .* 'total_votes'") as caught:
        read(path)
    assert str(caught.value).endswith("--format counts --annotator-columns smooth,disk")
    votes = read(path, format="counts", annotators="smooth,disk")
    assert votes.n_votes == sum(a + b for _, a, b, _, _ in rows)


def test_numbers_of_votes_are_no_labels(tmp_path: Path) -> None:
    # The more votes for, the more against: as labels of people who agree would look.
    text = "path,up_votes,down_votes\n" + "".join(f"{n}.mp3,{n % 3},{n % 3}\n" for n in range(12))
    with pytest.raises(InputError, match="may be labels of annotators, or counts of votes per class"):
        read(write(tmp_path / "v.csv", text))


def test_shares_of_several_questions(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n / 20},{1 - n / 20},{n / 40},{n / 40}\n" for n in range(1, 13))
    path = write(tmp_path / "v.csv", "GalaxyID,Class1.1,Class1.2,Class2.1,Class2.2\n" + rows)
    with pytest.raises(InputError, match=r"'Class1\.1', 'Class1\.2' add up to 1 in every row") as caught:
        read(path)
    assert "--format counts --annotator-columns Class1.1,Class1.2;" in str(caught.value)
    assert read(path, format="counts", annotators="Class1.1,Class1.2").n_votes == 12 * 20


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("_unit_id,_trusted_judgments,mood,mood:confidence,text", "an aggregated report of Appen, .* download the full report"),
        ("INPUT:image,OUTPUT:mood,CONFIDENCE:mood,x,y", "aggregated results of Toloka, .* download the assignments"),
    ],
)
def test_exports_without_votes_say_which_has_them(head: str, message: str, tmp_path: Path) -> None:
    rows = "".join(f"{n},3,{'good' if n % 2 else 'bad'},0.{n + 1},text {n}\n" for n in range(6))
    with pytest.raises(InputError, match=message):
        read(write(tmp_path / "v.csv", f"{head}\n{rows}"))


def test_subjects_may_be_people(tmp_path: Path) -> None:
    rows = [(f"img{n}.png", "yn"[(n + who) % 2], f"s{who}") for n in range(8) for who in range(3)]
    text = "rt,stimulus,response,subject\n" + "".join(f"{300 + 7 * k},{','.join(row)}\n" for k, row in enumerate(rows))
    path = write(tmp_path / "v.csv", text)
    with pytest.raises(InputError, match=r"if 'subject' is who answered: .* --item stimulus --annotator subject$"):
        read(path)
    assert read(path, item="stimulus", annotator="subject").n_annotators == 3


def test_columns_that_may_as_well_be_the_label_are_named(tmp_path: Path) -> None:
    rows = [(n, who, (n + who) % 2, n * who % 2) for n in range(6) for who in range(3)]
    text = "rev_id,worker_id,attack,quoting\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    with pytest.raises(InputError, match=r"--item rev_id --label attack \(--label may as well be 'quoting'\)$"):
        read(write(tmp_path / "v.csv", text))
    # A number that only its name keeps from being a label is named where nothing else is left.
    text = "nr,item,rater,score\n" + "".join(f"{k},i{n},r{who},{said}\n" for k, (n, who, said, _) in enumerate(rows))
    with pytest.raises(InputError, match=r"for example crowdwise aggregate \S+ --label score$"):
        read(write(tmp_path / "w.csv", text))


def test_numbers_that_people_gave_name_the_command(tmp_path: Path) -> None:
    rows = "".join(f"{500 + n},w{who},{7 * n + who}\n" for n in range(6) for who in range(3))
    path = write(tmp_path / "v.csv", "orig_id,!amt_worker_ids,response\n" + rows)
    with pytest.raises(InputError, match=r"for example: crowdwise regress \S+ --item orig_id --annotator '!amt_worker_ids'$"):
        read(path, Ratings)
    assert read(path, Ratings, item="orig_id", annotator="!amt_worker_ids").n_items == 6
    with pytest.raises(InputError, match="no column 'x'") as caught:
        read(path, Ratings, item="x", annotator="!amt_worker_ids")
    assert "for example" not in str(caught.value)


def test_a_name_and_a_number_of_the_same_people(tmp_path: Path) -> None:
    rows = [
        (f"u{who}", who, n, "x" if (n + who) % 3 else "", "" if (n + who) % 3 else "x") for n in range(6) for who in range(3)
    ]
    text = "user_name,user_id,subject_id,data.cat,data.dog\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
    path = write(tmp_path / "v.csv", text)
    with pytest.raises(InputError, match=r"'data\.cat', 'data\.dog' is a label that was ticked"):
        read(path, annotator="user_name")
    assert read(path, annotator="user_name", label="data.*").classes.tolist() == ["cat", "dog"]
    # Columns called so that say different things are annotators.
    words = "".join(f"{n},{'ab'[n % 2]},{'ab'[n % 3 % 2]}\n" for n in range(8))
    assert read(write(tmp_path / "w.csv", "item,judge,coder\n" + words)).n_annotators == 2


def test_counts_with_empty_cells_for_nobody(tmp_path: Path) -> None:
    rows = [(5, "", ""), (4, 1, ""), ("", 3, 2), ("", "", 5), (2, 3, ""), (1, 1, 3)] * 2
    text = "subject_id,data.cat,data.dog,data.fox\n" + "".join(f"{n},{a},{b},{c}\n" for n, (a, b, c) in enumerate(rows))
    path = write(tmp_path / "v.csv", text)
    with pytest.raises(InputError, match="may be labels of annotators, or counts of votes per class"):
        read(path)
    assert read(path, format="counts", annotators="data.*").n_votes == 60
    # Some of the items for each, with grades: rows do not add up to the same.
    rated = "".join(f"{n},{1 + n % 5 if n % 3 else ''},{1 + n % 4 if n % 3 != 1 else ''},{1 + n % 5}\n" for n in range(12))
    assert read(write(tmp_path / "w.csv", "id,ann,bob,cem\n" + rated)).n_annotators == 3
