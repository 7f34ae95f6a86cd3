from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

CONLL = (
    "token\tann\tbob\tcleo\nAda\tB-PER\tB-PER\tB-PER\nLovelace\tI-PER\tI-PER\tO\nwrote\tO\tO\tO\n\n"
    "Bonn\tB-LOC\tB-LOC\tB-PER\nis\tO\tO\t?\n"
)


@pytest.fixture
def conll(folder: Path) -> Path:
    (folder / "tags.conll").write_text(CONLL)
    return folder


@pytest.mark.parametrize("method", ["bsc", "hmm-crowd", "token-dawid-skene", "token-majority"])
def test_spans_tokens_and_annotators(run: Run, conll: Path, method: str) -> None:
    outputs = ["-o", "spans.csv", "--tokens", "tags.csv", "--annotators", "people.csv"]
    assert "2 spans in 5 tokens of 2 sequences" in run("spans", "tags.conll", "-m", method, *outputs).stderr
    spans = pl.read_csv(conll / "spans.csv")
    assert spans.drop("confidence").rows() == [(1, 1, 2, "PER", "Ada Lovelace"), (2, 1, 1, "LOC", "Bonn")]
    assert spans["confidence"].is_between(0.2, 1).all()
    assert pl.read_csv(conll / "tags.csv")["tag"].to_list() == ["B-PER", "I-PER", "O", "B-LOC", "O"]
    assert pl.read_csv(conll / "people.csv")["annotator"].to_list()[-1] == "cleo"


def test_tags_written_as_conll_can_be_read_again(run: Run, conll: Path) -> None:
    run("spans", "tags.conll", "--tokens", "out.conll", "-o", "spans.csv", "-q")
    assert (conll / "out.conll").read_text() == "Ada\tB-PER\nLovelace\tI-PER\nwrote\tO\n\nBonn\tB-LOC\nis\tO\n"
    run("spans", "out.conll", "-m", "token-majority")


def test_json_and_stdin(run: Run, conll: Path) -> None:
    rows = json.loads(run("spans", "-", "--json", "-q", input=CONLL).stdout)
    assert [(row["type"], row["text"]) for row in rows] == [("PER", "Ada Lovelace"), ("LOC", "Bonn")]


def test_a_long_table_by_column_names(run: Run, folder: Path) -> None:
    (folder / "long.csv").write_text("s,t,who,tag\n7,1,a,B-X\n7,2,a,O\n7,1,b,B-X\n7,2,b,O\n")
    named = ["--sequence", "s", "--position", "t", "--annotator", "who", "--label", "tag"]
    found = run("spans", "long.csv", *named, "-q").stdout
    assert found.startswith("sequence,start,end,type,confidence\n7,1,1,X,0.")


def test_failures_name_the_place_and_change_nothing(run: Run, conll: Path) -> None:
    (conll / "bad.conll").write_text("x O O\ny O\n")
    (conll / "spans.csv").write_text("before")
    assert "bad.conll line 2" in run("spans", "bad.conll", "-o", "spans.csv", code=1).stderr
    assert (conll / "spans.csv").read_text() == "before"
    assert "did you mean 'bsc'" in run("spans", "tags.conll", "-m", "bcs", code=2).stderr
    assert "is also the input" in run("spans", "tags.conll", "--tokens", "tags.conll", code=2).stderr
    assert "--format" in run("spans", "tags.conll", "--format", "xml", code=2).stderr
    assert "cannot write" in run("spans", "tags.conll", "--tokens", "x.zzz", code=2).stderr
