"""Every platform and shape that `crowdwise.read` meets: recognised, needs options, or refused; read from small files here.

``python -m tools.shapes`` prints the table of docs/howto/read-data.md; a test compares the two.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crowdwise.data.annotations import Annotations
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.ratings import Ratings
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import CrowdwiseError
from crowdwise.io import read

COMMANDS = {Annotations: "aggregate", Comparisons: "rank", Ratings: "regress", TokenVotes: "spans"}
# Options of `read` and what they are called on the command line.
_FLAGS = {"annotators": "annotator-columns", "answer": "winner", "skip_rows": "skip-rows"}


@dataclass(frozen=True)
class Shape:
    """A shape with the files that show it; `options` are those it needs, if any."""

    name: str
    files: Mapping[str, str | bytes]
    kind: type[Any] = Annotations
    options: Mapping[str, Any] = field(default_factory=dict)
    # What is lost without the options, where the file is read without them too.
    without: str = ""


def _lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def _labelled(*results: dict[str, Any]) -> str:
    people = [{"completed_by": who, "result": list(results)} for who in (1, 2)]
    return json.dumps([{"id": 1, "data": {"text": "Ada met Bob"}, "annotations": people}])


def _result(name: str, kind: str, **value: Any) -> dict[str, Any]:
    return {"id": name, "from_name": name, "to_name": "x", "type": kind, "value": value}


def _zooniverse(*tasks: Any) -> str:
    cell = json.dumps(list(tasks)).replace('"', '""')
    return f'subject_ids,user_name,annotations\n7,ann,"{cell}"\n7,bob,"{cell}"\n'


def _zip(**members: str) -> bytes:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        file.seek(0)
        return file.read()


LONG = "item,annotator,label\na,x,cat\na,y,dog\nb,x,cat\nb,y,cat\n"
VOTE = {"item": "a", "annotator": "x", "label": "cat"}
UNEVEN = "".join(f"p{n},{n % 3 * 2},{(n + 1) % 3},{(n + 2) % 3 * 3}\n" for n in range(12))
QUESTIONS = "item,annotator,question,answer\na,x,animal,cat\na,x,sharp,yes\na,y,animal,cat\na,y,sharp,no\n"
HEADLESS = "".join(f"{who},photo {n},{'yn'[n % 2]}\n" for n in range(4) for who in ("ann", "bob", "cem"))
TICKS = "item,annotator,cat,dog\na,x,1,0\na,y,0,1\nb,x,1,0\n"
JUDGED = [{"id": n, "gpt": "yn"[n % 2], "claude": "yn"[n % 3 % 2], "gemini": "y"} for n in range(6)]
ITEMS = "id,q1,q2,q3\n" + "".join(f"{n},{n % 2},{n % 3 % 2},{(n + 1) % 2}\n" for n in range(8))
PAIRS = "photo,annotator_1,label_1,annotator_2,label_2\na,x,cat,y,dog\nb,y,cat,z,cat\n"
GRID = "id,ann_a,ann_b,bob_a,bob_b\n" + "".join(f"{n},x,x,x,y\n{n}0,y,y,y,x\n" for n in range(1, 5))
MEASURED = "item,annotator,label\n" + "".join(f"{n // 2},{'xy'[n % 2]},{n / 7:.2f}\n" for n in range(30))
SURE = "item,annotator,label\na,x,cat (80%)\na,y,cat (60%)\n"
NAMED = "id,ann,bob,cem,eve\n1,yes,no,no,yes\n2,yes,yes,no,yes\n3,no,no,yes,no\n"
FORM = "Timestamp,Email,Is image 1 a cat?,Is image 2 a cat?,Is image 3 a cat?\n" + "".join(
    f"2024/01/0{n},{n}@example.org,{'Yes' if n % 2 else 'No'},Yes,No\n" for n in (1, 2, 3)
)
BY_COLUMN = {"item": {"0": "a"}, "annotator": {"0": "x"}, "label": {"0": "cat"}}
ANSWERS = [{"user": "x", "label": "cat"}, {"user": "y", "label": "dog"}]
CHOICE = _result("mood", "choices", choices=["glad"])
BOX = _result("car", "rectanglelabels", x=1, y=2, width=3, height=4, rectanglelabels=["Car"])
SPAN = _result("ner", "labels", start=0, end=3, text="Ada", labels=["PER"])
RANKER = _result("order", "ranker", ranker={"_": ["b", "a"]})
ANIMAL = {"task": "T0", "value": [{"choice": "FOX", "answers": {"HOWMANY": "2"}, "filters": {}}]}
TWO = {"task": "T0", "value": [{"choice": "FOX", "answers": {}}, {"choice": "DOG", "answers": {}}]}
TSV3 = (
    "#FORMAT=WebAnno TSV 3.3\n#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|value\n\n#Text=Ada met\n"
    "1-1\t0-3\tAda\tPER\t\n1-2\t4-7\tmet\t_\t\n"
)
MARKED = {"id": 1, "text": "Ada met", "label": [[0, 3, "PER"]]}
PRODIGY = {"text": "Ada met", "spans": [{"start": 0, "end": 3, "label": "PER"}], "_input_hash": 5, "_task_hash": 6,
           "answer": "accept"}  # fmt: skip
POTATO = {"id": "i", "displayed_text": "Ada met", "label_annotations": {"mood": {"glad": "true"}},
          "span_annotations": [{"start": 0, "end": 3, "span": "Ada", "annotation": "PER"}]}  # fmt: skip
CVAT = '<?xml version="1.0"?><annotations><version>1.1</version><image name="i">{}</image></annotations>'

SHAPES = (
    Shape("A row per vote, usual column names (CSV, TSV, JSON, Parquet, Arrow)", {"v.csv": LONG}),
    Shape(
        "A row per vote, other column names",
        {"v.csv": LONG.replace("item,annotator,label", "picture,who,said")},
        options={"item": "picture", "annotator": "who", "label": "said"},
    ),
    Shape("Cells between blanks", {"v.txt": LONG.replace(",", " ")}),
    Shape(
        "A row per vote without a row of names",
        {"v.csv": HEADLESS},
        options={"header": False, "item": "column 2", "annotator": "column 1", "label": "column 3"},
    ),
    Shape("A column per label, ticked or not", {"v.csv": TICKS}, options={"label": "cat,dog"}),
    Shape("A first line `sep=;`", {"v.csv": "sep=;\n" + LONG.replace(",", ";")}),
    Shape("A title above the header", {"v.csv": "Export of June\n\n" + LONG}),
    Shape(
        "A title with commas above a header of other names",
        {"v.csv": "Export, June\n" + LONG.replace("item,annotator,label", "picture,who,said")},
        options={"skip_rows": 1, "item": "picture", "annotator": "who", "label": "said"},
    ),
    Shape("Text that is not UTF-8", {"v.csv": LONG.replace("dog", "größer").encode("cp1252")}, options={"encoding": "cp1252"}),
    Shape("UTF-16 with a byte-order mark", {"v.csv": LONG.encode("utf-16")}),
    Shape("JSON by column, as pandas writes it", {"v.json": json.dumps(BY_COLUMN)}),
    Shape("Records with answers that name their annotators", {"v.jsonl": _lines({"id": 1, "labels": ANSWERS})}),
    Shape("A column per annotator, by names of people", {"v.csv": NAMED}),
    Shape("Answers to a form, a row per person", {"v.csv": FORM}),
    Shape("Records with a field per annotator", {"v.jsonl": _lines(*JUDGED)}),
    Shape("A row per person, columns called like items", {"v.csv": ITEMS}, options={"transposed": True}),
    Shape("Columns called like questions, and nobody who answered", {"v.csv": ITEMS.replace("q1,q2,q3", "joy,anger,fear")}),
    Shape(
        "A column per question and annotator",
        {"v.csv": NAMED.replace("ann,bob,cem,eve", "hate_1,hate_2,rude_1,rude_2")},
        options={"annotators": "hate_*"},
    ),
    Shape(
        "A column per annotator, with -1, 0 and 1", {"v.csv": "id,ann,bob,cem\n1,-1,0,0\n2,1,1,-1\n"}, options={"missing": "-1"}
    ),
    Shape("Counts per class", {"v.csv": "id,cat,dog\n1,3,2\n2,5,0\n3,1,4\n"}),
    Shape("Percents per class, without the number of votes", {"v.csv": "id,pct_cat,pct_dog\n1,60,40\n2,100,0\n3,20,80\n"}),
    Shape("A zip with one table", {"v.zip": _zip(**{"v.csv": LONG, "README": "x"})}),
    Shape("A zip with several tables", {"v.zip": _zip(**{"v.csv": LONG, "w.csv": LONG})}),
    Shape(
        "A probability per class in columns",
        {"v.csv": "item,annotator,p_cat,p_dog\na,x,0.8,0.2\na,y,0.4,0.6\n"},
        options={"probabilities": "p_*"},
    ),
    Shape(
        "A list or mapping of probabilities in a cell",
        {"v.jsonl": _lines({"item": 1, "annotator": "x", "label": {"cat": 0.8, "dog": 0.2}})},
        options={"probabilities": "label"},
    ),
    Shape(
        'A label and how sure it is ("80%")',
        {"v.csv": "item,annotator,label,certainty\na,x,cat,80%\na,y,dog,60%\n"},
        options={"sure": "certainty"},
        without="without it, every label counts as certain",
    ),
    Shape("Counts per class, as many votes in every row", {"v.csv": "photo,cat,dog\na,3,1\nb,0,4\nc,2,2\n"}),
    Shape("Counts per class that may be labels", {"v.csv": "photo,cat,dog,fox\n" + UNEVEN}, options={"format": "counts"}),
    Shape(
        "Shares per class",
        {"v.csv": "photo,cat,dog\na,0.8,0.2\nb,0.0,1.0\nc,0.4,0.6\n"},
        options={"format": "counts", "annotators": "cat,dog"},
    ),
    Shape("Item, label and count", {"v.csv": "item,label,count\na,cat,4\na,dog,1\nb,dog,5\n"}),
    Shape("Item and label, nobody who voted", {"v.csv": "item,label\na,cat\na,dog\nb,dog\n"}),
    Shape("Lists of labels without names", {"v.jsonl": _lines({"id": 1, "labels": ["cat", "cat", "dog"]})}),
    Shape("Pairs of columns, who and what", {"v.csv": PAIRS}),
    Shape("One object around one list of records", {"v.json": json.dumps({"votes": [VOTE], "meta": {"round": 3}})}),
    Shape("One object around several lists of records", {"v.json": json.dumps({"votes": [VOTE], "items": [{"id": 1}]})}),
    Shape("JSON, annotators first", {"v.json": json.dumps({"x": {"a": "cat", "b": "dog", "c": "dog"}, "y": {"a": "cat"}})},
          options={"transposed": True}),
    Shape("Several questions in a column", {"v.csv": QUESTIONS}, options={"question": "animal"}),
    Shape("Several questions in the names of columns", {"v.csv": GRID},
          options={"annotators": "ann_a,bob_a"}),
    Shape("Measured numbers as labels", {"v.csv": MEASURED}),
    Shape('Labels with percents, "cat (80%)"', {"v.csv": SURE}, options={"sure": "label"}),
    Shape("Zooniverse, survey task with follow-ups", {"z.csv": _zooniverse(ANIMAL)}, options={"question": "T0"}),
    Shape("Zooniverse, survey with several choices at once", {"z.csv": _zooniverse(TWO)}),
    Shape("Label Studio, one control", {"ls.json": _labelled(CHOICE)}),
    Shape("Label Studio, several controls", {"ls.json": _labelled(CHOICE, BOX)}, options={"question": "mood"}),
    Shape("Label Studio, boxes, as votes", {"ls.json": _labelled(BOX)}),
    Shape("Label Studio, boxes", {"ls.json": _labelled(BOX)}, Ratings),
    Shape("Label Studio, ratings", {"ls.json": _labelled(_result("stars", "rating", rating=4))}, Ratings),
    Shape("Label Studio, spans of text", {"ls.json": _labelled(SPAN)}, TokenVotes),
    Shape("Label Studio, rankings", {"ls.json": _labelled(RANKER)}, Comparisons),
    Shape("Potato, labels", {f"{who}/annotated_instances.jsonl": _lines(POTATO) for who in "xy"}),
    Shape("Potato, spans", {f"{who}/annotated_instances.jsonl": _lines(POTATO) for who in "xy"}, TokenVotes),
    Shape("Prodigy, spans", {"p.jsonl": _lines(*(PRODIGY | {"_annotator_id": a} for a in "xy"))}, TokenVotes),
    Shape("doccano, spans", {f"{who}.jsonl": _lines(MARKED) for who in "xy"}, TokenVotes),
    Shape(
        "JSON lines with offsets `[start, end, label]`",
        {"o.jsonl": _lines(*(MARKED | {"annotator": a} for a in "xy"))},
        TokenVotes,
    ),
    Shape("INCEpTION / WebAnno TSV 3", {f"doc/{who}.tsv": TSV3 for who in "xy"}, TokenVotes),
    Shape("CVAT, tags of images", {f"{who}.xml": CVAT.format('<tag label="cat"/>') for who in "xy"}),
    Shape(
        "CVAT, boxes",
        {f"{a}.xml": CVAT.format('<box label="car" xtl="0" ytl="0" xbr="9" ybr="9"/>') for a in "xy"},
        Ratings,
    ),
    Shape("Chatbot Arena battles", {"b.csv": "model_a,model_b,winner,judge\nx,y,model_a,u\nx,z,tie,v\n"}, Comparisons),
    Shape(
        "MT-Bench pair judgments",
        {"m.jsonl": _lines({"model_1": "x", "model_2": "y", "g1_winner": "tie", "g2_winner": "model_2", "judge": ["gpt-4"]})},
        Comparisons,
    ),
    Shape(
        "AlpacaEval preferences from 1 to 2",
        {"a.json": json.dumps([{"generator_1": "x", "generator_2": "y", "annotator": "gpt4", "preference": 1.2}])},
        Comparisons,
    ),
    Shape("Mechanical Turk, a single box", {"b.csv": "HITId,WorkerId,Answer.rude.on\nH1,W1,true\nH1,W2,false\n"}),
    Shape(
        "Mechanical Turk, boxes with a name each, one of them",
        {"b.csv": "HITId,WorkerId,Answer.cat.cat,Answer.dog.dog\nH1,W1,true,false\nH1,W2,false,true\n"},
        options={"question": "cat"},
    ),
    Shape(
        "All votes on an item in a cell",
        {"v.csv": "id;votes\n1;cat,cat,dog\n2;dog,dog\n"},
        options={"format": "counts"},
    ),
    Shape("Lists of labels of a judge", {"v.jsonl": _lines({"id": 1, "judge": "x", "votes": ["cat", "cat", "dog"]})}),
    Shape("Pickles, .npy", {"v.pkl": b"\x80\x04"}),
)  # fmt: skip


def outcome(shape: Shape) -> tuple[str, str]:
    """What becomes of a shape: the word, and the options or the reason."""
    plain, why = _attempt(shape, {})
    if not shape.options:
        return ("recognised", "") if plain else ("refused", why)
    found, problem = _attempt(shape, shape.options)
    if plain != bool(shape.without) or not found:
        raise SystemExit(f"{shape.name}: {problem or 'read without options' if plain else 'not read without options'}")
    flags = " ".join(f"`{shlex.join(words)}`" for words in flags_of(shape))
    return "needs options", f"{flags}; {shape.without}" if shape.without else flags


def flags_of(shape: Shape) -> list[list[str]]:
    """The options of a shape as words of the command line, each with its value."""
    if shape.options.get("header") is False:
        rest = {name: value for name, value in shape.options.items() if name != "header"}
        return [["--no-header"], *flags_of(replace(shape, options=rest))]
    named = {f"--{_FLAGS.get(name, name)}": value for name, value in shape.options.items()}
    return [[flag] if value is True else [flag, str(value)] for flag, value in named.items()]


def write_files(shape: Shape, folder: Path) -> Path:
    """Write the files of a shape, and return what to read."""
    for name, content in shape.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path if len(shape.files) == 1 else folder


def _attempt(shape: Shape, options: Mapping[str, Any]) -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = write_files(shape, Path(folder) / "in")
        try:
            read(path, shape.kind, **options)
        except CrowdwiseError as error:
            return False, re.sub(r"\s+", " ", str(error).replace(str(path), "FILE"))
    return True, ""


def table() -> str:
    """The table as Markdown."""
    lines = ["| Shape | `crowdwise` | Reading | Options, or why not |", "|---|---|---|---|"]
    for shape in SHAPES:
        word, more = outcome(shape)
        lines.append(f"| {shape.name} | `{COMMANDS[shape.kind]}` | {word} | {more.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table())
