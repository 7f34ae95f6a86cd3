"""Spans of text as tools export them: offsets, Prodigy, doccano, Potato and WebAnno."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.io.helpers import triples, write, write_lines

from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import DataWarning, InputError
from crowdwise.io import detect, read

TEXT = "Ada met Bob Ray."
BOTH = {"x": ["B-PER", "O", "B-PER", "I-PER", "O"], "y": ["B-PER", "O", "O", "O", "O"]}


def tags(votes: TokenVotes) -> dict[Any, list[str]]:
    """The tags of every annotator, in reading order."""
    found: dict[Any, list[str]] = {}
    for row in votes.to_frame().rows(named=True):
        found.setdefault(row["annotator"], []).append(row["label"])
    return found


def words(votes: TokenVotes) -> list[str]:
    assert votes.tokens is not None
    return [str(word) for word in votes.tokens.tolist()]


def offsets(annotator: str, *spans: Any, id: Any = 1, key: str = "label", **more: Any) -> dict[str, Any]:
    return {"id": id, "text": TEXT, key: list(spans), "annotator": annotator} | more


@pytest.mark.parametrize("key", ["label", "labels", "entities", "spans"])
def test_offsets(tmp_path: Path, key: str) -> None:
    records = [offsets("x", [0, 3, "PER"], [8, 15, "PER"], key=key), offsets("y", [0, 3, "PER"], key=key)]
    votes = read(write_lines(tmp_path / "o.jsonl", records), TokenVotes)
    assert words(votes) == ["Ada", "met", "Bob", "Ray", "."]
    assert tags(votes) == BOTH


def test_offsets_as_objects_and_a_named_annotator(tmp_path: Path) -> None:
    record = {"text": TEXT, "entities": [{"start_offset": 0, "end_offset": 3, "label": "PER"}], "who": "y"}
    votes = read(write_lines(tmp_path / "o.jsonl", [record]), TokenVotes, annotator="who")
    assert tags(votes) == {"y": BOTH["y"]}


def test_a_span_inside_a_word_cuts_it(tmp_path: Path) -> None:
    records = [offsets("x", [0, 2, "PER"]), offsets("y", [0, 3, "PER"])]
    votes = read(write_lines(tmp_path / "o.jsonl", records), TokenVotes)
    assert words(votes)[:3] == ["Ad", "a", "met"]
    assert {who: found[:2] for who, found in tags(votes).items()} == {"x": ["B-PER", "O"], "y": ["B-PER", "I-PER"]}


def test_spaces_at_the_ends_of_a_span_do_not_count(tmp_path: Path) -> None:
    votes = read(write_lines(tmp_path / "o.jsonl", [offsets("x", [3, 8, "V"])]), TokenVotes)
    assert tags(votes) == {"x": ["O", "B-V", "O", "O", "O"]}


def test_neighbours_are_two_spans(tmp_path: Path) -> None:
    votes = read(write_lines(tmp_path / "o.jsonl", [offsets("x", [8, 11, "PER"], [12, 15, "PER"])]), TokenVotes)
    assert tags(votes)["x"][2:4] == ["B-PER", "B-PER"]


def test_of_overlapping_spans_the_longer_counts(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "o.jsonl", [offsets("x", [12, 15, "ORG"], [8, 15, "PER"])])
    with pytest.warns(DataWarning, match="1 spans overlap"):
        assert tags(read(path, TokenVotes))["x"] == ["O", "O", "B-PER", "I-PER", "O"]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([offsets("x", [0, 99, "PER"])], r"row 1: the span 0 to 99 is not inside the text of 16 characters"),
        ([offsets("x", [5, 2, "PER"])], "the span 5 to 2 is not inside"),
        ([offsets("x", [0, 3])], r"row 1: \[0, 3\] is no span"),
        ([offsets("x"), offsets("x", [0, 3, "PER"])], "row 2: annotator 'x' marked 1 before"),
        ([offsets("x"), {**offsets("y"), "text": "else"}], "row 2: the text of 1 differs"),
        ([{"id": 1, "text": TEXT, "spans": [[0, 3, "PER"]]}], "nothing says who marked the text.*--annotator"),
    ],
)
def test_broken_offsets_are_named(tmp_path: Path, records: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write_lines(tmp_path / "o.jsonl", records), TokenVotes, format="offsets")


def test_prodigy(tmp_path: Path) -> None:
    tokens = [{"text": "Ada", "start": 0, "end": 3}, {"text": "met", "start": 4, "end": 7},
              {"text": "Bob Ray", "start": 8, "end": 15}, {"text": ".", "start": 15, "end": 16}]  # fmt: skip
    spans = [{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 15, "label": "PER"}]
    base = {"text": TEXT, "tokens": tokens, "_input_hash": 5, "_task_hash": 6, "answer": "accept", "_view_id": "ner_manual"}
    records = [
        base | {"spans": spans, "_annotator_id": "x"},
        base | {"spans": [], "_annotator_id": "y"},
        base | {"spans": spans, "answer": "ignore", "_annotator_id": "z"},
    ]
    path = write_lines(tmp_path / "p.jsonl", records)
    votes = read(path, TokenVotes)
    # The tool's own tokens are kept.
    assert words(votes) == ["Ada", "met", "Bob Ray", "."]
    assert tags(votes) == {"x": ["B-PER", "O", "B-PER", "O"], "y": ["O"] * 4}
    with pytest.raises(InputError, match=r"spans of text, no labels of whole items; crowdwise spans .*p\.jsonl"):
        read(path)


def test_doccano(tmp_path: Path) -> None:
    for who, spans in {"x": [[0, 3, "PER"], [8, 15, "PER"]], "y": [[0, 3, "PER"]]}.items():
        write_lines(tmp_path / f"{who}.jsonl", [{"id": 1, "text": TEXT, "label": spans}])
    assert tags(read(tmp_path, TokenVotes)) == BOTH
    with pytest.raises(InputError, match="spans of text, no labels of whole items; crowdwise spans"):
        read(tmp_path)


def potato(spans: Any, **labels: Any) -> dict[str, Any]:
    shown = {"id": "i1", "displayed_text": f"<b>{TEXT}</b>"}
    return shown | {"label_annotations": labels, "span_annotations": spans, "behavioral_data": {}}


def marked(start: int, end: int) -> dict[str, Any]:
    return {"start": start, "end": end, "span": TEXT[start:end], "annotation": "PER"}


def test_potato(tmp_path: Path) -> None:
    for who, spans in {"x": [marked(0, 3), marked(8, 15)], "y": {"ner": [marked(0, 3)]}}.items():
        (tmp_path / who).mkdir()
        labels = {"mood": {"glad" if who == "x" else "sad": "true"}, "sure": {"scale_4": "4"}}
        write_lines(tmp_path / who / "annotated_instances.jsonl", [potato(spans, **labels)])
    assert detect(tmp_path) == "potato"
    assert tags(read(tmp_path, TokenVotes)) == BOTH
    assert triples(read(tmp_path, question="mood")) == [("i1", "x", "glad"), ("i1", "y", "sad")]
    assert triples(read(tmp_path, question="sure")) == [("i1", "x", 4), ("i1", "y", 4)]


def test_potato_in_one_file(tmp_path: Path) -> None:
    records = [potato([], mood={"glad": "true"}) | {"user_id": who} for who in ("x", "y")]
    path = write_lines(tmp_path / "annotated_instances.jsonl", records)
    assert triples(read(path)) == [("i1", "x", "glad"), ("i1", "y", "glad")]


def test_potato_with_words_elsewhere(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [potato([marked(0, 3) | {"span": "Bob"}])])
    with pytest.raises(InputError, match=r"a\.jsonl row 1: the marked words are not where the offsets say"):
        read(path, TokenVotes)


HEADER = "#FORMAT=WebAnno TSV 3.3\n#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value\n"
MORE = "#T_SP=webanno.custom.Mood|\n#T_RL=webanno.custom.Link|kind|BT_webanno.custom.Mood\n"


def webanno(path: Path, lines: list[str], header: str = HEADER) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return write(path, header + "\n\n#Text=Ada met Bob Ray.\n" + "\n".join(lines) + "\n")


X = ["1-1\t0-3\tAda\t_\tPER\t", "1-2\t4-7\tmet\t_\t_\t", "1-3\t8-11\tBob\t*[1]\tPER[1]\t", "1-4\t12-15\tRay\t*[1]\tPER[1]\t",
     "1-5\t15-16\t.\t_\t_\t"]  # fmt: skip
Y = [X[0], X[1], "1-3\t8-11\tBob\t_\t_\t", "1-4\t12-15\tRay\t_\t_\t", X[4]]


def test_webanno(tmp_path: Path) -> None:
    webanno(tmp_path / "annotation" / "one.txt" / "x.tsv", X)
    webanno(tmp_path / "annotation" / "one.txt" / "y.tsv", Y)
    webanno(tmp_path / "annotation" / "one.txt" / "INITIAL_CAS.tsv", Y)
    votes = read(tmp_path, TokenVotes)
    assert tags(votes) == BOTH
    assert words(votes) == ["Ada", "met", "Bob", "Ray", "."]
    webanno(tmp_path / "annotation" / "two.txt" / "x.tsv", X)
    assert read(tmp_path, TokenVotes).sequences.tolist() == ["one.txt:1", "two.txt:1"]


def test_webanno_layers_parts_and_several_spans(tmp_path: Path) -> None:
    lines = [
        "1-1\t0-3\tAda\t_\tPER[2]\t*\t_\t_\t",
        "1-2\t4-7\tmet\t_\tLOC[3]|PER[2]\t_\t_\t_\t",
        "1-3\t8-11\tBob\t_\t_\t_\tagrees\t1-1\t",
        "1-3.1\t8-10\tBo\t_\tPER\t_\t_\t_\t",
    ]
    path = webanno(tmp_path / "x.tsv", lines, HEADER + MORE)
    with pytest.raises(InputError, match=r"no feature 'Moon'; found NamedEntity.identifier, NamedEntity.value, Mood\."):
        read(path, TokenVotes, question="Moon")
    with pytest.warns(DataWarning, match="1 tokens stand in several spans|one annotator"):
        votes = read(path, TokenVotes)
    assert tags(votes) == {"x": ["B-PER", "I-PER", "B-PER"]}
    with pytest.warns(DataWarning, match="one annotator"):
        assert tags(read(path, TokenVotes, question="Mood")) == {"x": ["B-span", "O", "O"]}


def test_a_table_of_tags_stays_one(tmp_path: Path) -> None:
    text = "sequence,position,token,annotator,label\n1,1,Ada,x,B-PER\n1,2,met,x,O\n"
    assert tags(read(write(tmp_path / "t.csv", text), TokenVotes)) == {"x": ["B-PER", "O"]}
    records = [{"sequence": 1, "position": 1, "annotator": "x", "label": "O"}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(records))
    assert tags(read(path, TokenVotes)) == {"x": ["O"]}


def test_records_of_another_shape_are_named(tmp_path: Path) -> None:
    record = {"text": TEXT, "spans": [{"begin": 0}], "_input_hash": 5, "answer": "accept", "_annotator_id": "x"}
    with pytest.raises(InputError, match=r"p\.jsonl row 1: recognised as prodigy, but this record is not shaped like it"):
        read(write_lines(tmp_path / "p.jsonl", [record]), TokenVotes)
    with pytest.raises(InputError, match="line 6: part of a token that is not there"):
        read(webanno(tmp_path / "x.tsv", ["1-1.1\t0-1\tA\t_\t_\t"]), TokenVotes)


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="format must be one of conll, table, label-studio"):
        read(tmp_path, TokenVotes, format="brat")
