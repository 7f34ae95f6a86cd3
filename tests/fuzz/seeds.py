"""Small valid files of every format, all made here: what the fuzzer damages.

A seed's name decides what is done with it (see `tests.fuzz.targets`); files of the shared exports join where they are present.
"""

from __future__ import annotations

import io
import json
import random
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl

import crowdwise
from crowdwise.campaign.loop import ActiveLoop
from crowdwise.data.annotations import Annotations
from crowdwise.io.format_writers import DESTINATIONS

EXPORTS = Path(__file__).resolve().parents[3] / "shared" / "exports"
_SUFFIXES = {
    "wide": "csv", "answers": "txt", "label-studio": "json", "prodigy": "jsonl", "toloka": "tsv", "mturk": "csv",
    "appen": "csv",
    "zooniverse": "csv", "argilla": "json", "labelbox": "ndjson", "sagemaker": "manifest", "peerannot": "json",
}  # fmt: skip
_XML = (
    '<?xml version="1.0" encoding="UTF-8"?><QuestionFormAnswers xmlns="http://mechanicalturk.amazonaws.com/'
    'AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd"><Answer><QuestionIdentifier>label</QuestionIdentifier>'
    "<FreeText>{}</FreeText></Answer></QuestionFormAnswers>"
)
# Kinds of models: counts, one-coin, confusion by EM and by variational Bayes, difficulty, a state of its own, an ensemble.
MODELS = ("majority", "dawid-skene", "bayes-gc", "glad", "mace", "online-em", "consensus", "kos", "wawa", "cumulative-link")


def votes_and_rows() -> tuple[Annotations, list[tuple[str, str, str]]]:
    """A few votes with names that need quotes, and the rows they were made of."""
    rng = random.Random(0)
    items, people = [f"i{n}" for n in range(10)], ["ann", "bob", "zoé", "O'N", "x,y"]
    rows = [(i, p, rng.choice(["cat", "dog", "fox"])) for i in items for p in people if rng.random() < 0.7]
    votes = Annotations.from_arrays(*zip(*rows, strict=True))
    return votes.with_gold({"item": items[:3], "label": ["cat", "dog", "fox"]}), rows


def make_seeds() -> dict[str, bytes]:
    """Name -> content; "folder/name" is a file of a saved model or campaign."""
    votes, rows = votes_and_rows()
    seeds: dict[str, bytes] = {}
    with TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        for to, suffix in _SUFFIXES.items():
            DESTINATIONS[to][1](votes, folder / f"{to}.{suffix}", False)
        for suffix in ("csv", "tsv", "jsonl", "json", "parquet", "arrow", "csv.gz", "jsonl.gz"):
            DESTINATIONS["tidy"][1](votes, folder / f"tidy-{suffix.replace('.', '-')}.{suffix}", False)
        seeds |= {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    seeds |= _by_hand(rows) | _binary(votes) | _other_answers(rows) | _features() | _saved(votes)
    if EXPORTS.is_dir():
        seeds |= {f"export-{path.name}": path.read_bytes() for path in sorted(EXPORTS.iterdir()) if path.suffix != ".md"}
    return seeds


def _by_hand(rows: list[tuple[str, str, str]]) -> dict[str, bytes]:
    """Files that no writer of crowdwise makes."""
    objects = [dict(zip(("item", "annotator", "label"), row, strict=True)) for row in rows]
    assignments = [
        {"AssignmentId": f"a{n}", "HITId": i, "WorkerId": a, "AssignmentStatus": "Approved", "Answer": _XML.format(label)}
        for n, (i, a, label) in enumerate(rows)
    ]
    judged = [
        {"id": i, "judgments": [{"judge": a, "label": b} for j, a, b in rows if j == i]} for i in {row[0] for row in rows}
    ]
    texts = {
        "semicolon.csv": "item;annotator;label\n" + "".join(f"{i};{a};{b}\n" for i, a, b in rows),
        "pipe.csv": "item|annotator|label|weight\n"
        + "".join(f"{i}|{a}|{b}|{n % 7 / 7:.3f}\n" for n, (i, a, b) in enumerate(rows)),
        "extra.csv": "id,text,item,annotator,label,gold\n"
        + "".join(f'{n},"a ""text"", of words",{i},"{a}",{b},\n' for n, (i, a, b) in enumerate(rows)),
        "numbers.csv": "item,annotator,label\n" + "".join(f"{n % 9},{n % 4},{n % 3}\n" for n in range(30)),
        "tidy-keys.json": json.dumps({"votes": objects}),
        "tidy-columns.json": json.dumps({name: [each[name] for each in objects] for name in objects[0]}),
        "tidy-frame.json": json.dumps({name: {str(n): each[name] for n, each in enumerate(objects)} for name in objects[0]}),
        "tidy-split.json": json.dumps({"columns": list(objects[0]), "data": [list(each.values()) for each in objects]}),
        "answers.jsonl": "\n".join(
            json.dumps({"id": i, "annotations": [{"user": a, "label": b} for j, a, b in rows if j == i]})
            for i in sorted({row[0] for row in rows})
        ),
        "unnamed.jsonl": "\n".join(json.dumps({"id": n, "annotator_labels": ["cat", "dog"]}) for n in range(5)),
        "form.csv": "Timestamp,Email,Is image 1 a cat?,Is image 2 a cat?,Is image 3 a cat?\n"
        + "".join(f"2024/01/0{n},p{n}@x.org,{'Yes' if n % 2 else 'No'},Yes,No\n" for n in range(1, 7)),
        "grid.csv": "id,q_1,q_2,r_1,r_2\n" + "".join(f"{n},{n % 2},{n % 2},{n % 3 % 2},0\n" for n in range(9)),
        "signs.csv": "id,r1,r2,r3\n" + "".join(f"{n},{n % 3 - 1},{n % 3 - 1},0\n" for n in range(9)),
        "counted.csv": "id,cat,dog,total\n" + "".join(f"{n},{n % 4},{5 - n % 4},5\n" for n in range(9)),
        "mturk-api.json": json.dumps(assignments),
        "mturk-api-below.json": json.dumps({"Assignments": assignments}),
        "judges.jsonl": "\n".join(map(json.dumps, judged)),
        "objects.csv": "item,judge,response\n"
        + "".join(f'{i},"{a}","{{""label"": ""{b}"", ""confidence"": 0.{n % 9 + 1}}}"\n' for n, (i, a, b) in enumerate(rows)),
        "objects.jsonl": "\n".join(
            json.dumps({"item": i, "judge": a, "response": f'I say\n```json\n{{"verdict": "{b}", "why": null}}\n```'})
            for i, a, b in rows
        ),
        "label-studio-min.json": json.dumps(
            [{"id": n, "annotator": a, "annotation_id": n, "mood": b, "text": i} for n, (i, a, b) in enumerate(rows)]
        ),
        "doccano.jsonl": "\n".join(json.dumps({"id": n, "text": i, "label": [b]}) for n, (i, _, b) in enumerate(rows)),
    }
    marked = {"utf16.txt": texts["semicolon.csv"].encode("utf-16")}
    return {name: text.encode() for name, text in texts.items()} | marked


def _binary(votes: Annotations) -> dict[str, bytes]:
    """Parquet and Arrow with the encodings that others use: dictionaries, compression, lists, odd types."""
    frame = votes.to_frame()
    odd = frame.with_columns(pl.col("label").cast(pl.Categorical), pl.int_range(pl.len()).alias("weight"))
    lists = frame.group_by("item", maintain_order=True).agg("annotator", "label")
    answers = frame.select("item", answer=pl.struct("annotator", "label")).group_by("item", maintain_order=True)
    nested = answers.agg(pl.col("answer").alias("annotations"))
    seeds = {}
    for name, table in {"odd": odd, "lists": lists, "nested": nested}.items():
        for kind, compression in (("parquet", "zstd"), ("parquet", "snappy"), ("arrow", "lz4"), ("arrow", "uncompressed")):
            buffer = io.BytesIO()
            write = table.write_parquet if kind == "parquet" else table.write_ipc
            write(buffer, compression=compression)  # type: ignore[arg-type]
            seeds[f"{name}-{compression}.{kind}"] = buffer.getvalue()
    return seeds


def _other_answers(rows: list[tuple[str, str, str]]) -> dict[str, bytes]:
    """Answers that are not one class; the word before the dash names the kind."""
    texts = {
        "comparisons-plain.csv": "first,second,annotator,winner\n"
        + "".join(f"{i},{j},{a},{i}\n" for (i, a, _), (j, _, _) in zip(rows, rows[5:], strict=False) if i != j),
        "similarities-plain.csv": "first,second,annotator,same\n"
        + "".join(f"{i},{j},{a},yes\n" for (i, a, _), (j, _, _) in zip(rows, rows[5:], strict=False) if i != j),
        "ratings-plain.csv": "item,annotator,value\n" + "".join(f'{i},"{a}",{n / 3:.2f}\n' for n, (i, a, _) in enumerate(rows)),
        "sets-plain.csv": "item,annotator,label\n" + "".join(f'{i},"{a}",{b}|new\n' for i, a, b in rows),
        "tags-plain.conll": "".join(f"word{n}\tO\tB-PER\n" + ("\n" if n % 4 == 3 else "") for n in range(20)),
        "tags-table.csv": "sequence,position,annotator,label\n" + "".join(f"s{n % 3},{n},a{n % 2},O\n" for n in range(20)),
    }
    return {name: text.encode() for name, text in texts.items()}


def _features() -> dict[str, bytes]:
    X = np.arange(20.0).reshape(10, 2)
    ids = np.array([f"i{n}" for n in range(10)])
    plain, packed, single = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez(plain, X=X, items=ids)
    np.savez_compressed(packed, X=X.astype(np.float32), items=ids)
    np.save(single, X)
    table = "item,x,y\n" + "".join(f"i{n},{n},{n * n}\n" for n in range(10))
    return {
        "features-plain.npz": plain.getvalue(), "features-packed.npz": packed.getvalue(),
        "features-single.npy": single.getvalue(), "features-table.csv": table.encode(),
    }  # fmt: skip


def _saved(votes: Annotations) -> dict[str, bytes]:
    """Saved models and a campaign, as what they are made of."""
    seeds = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        for method in MODELS:
            crowdwise.make(method).fit(votes).save(folder / method)
            seeds[f"model-{method}/result.zip"] = (folder / method / "result.zip").read_bytes()
        X = np.random.default_rng(0).normal(size=(votes.n_items, 2))
        for method in ("raykar", "yan"):
            crowdwise.make(method).fit(X, votes).save(folder / method)
            seeds[f"classifier-{method}/result.zip"] = (folder / method / "result.zip").read_bytes()
        loop = ActiveLoop(crowdwise.make("dawid-skene"), votes=votes, path=folder / "campaign")
        loop.tell({"item": ["i1", "i2"], "annotator": ["new", "new"], "label": ["cat", "dog"]})
        seeds["campaign/campaign.zip"] = (folder / "campaign" / "campaign.zip").read_bytes()
        seeds["campaign/journal.txt"] = (folder / "campaign" / "journal.txt").read_bytes()
    return seeds
