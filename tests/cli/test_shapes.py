"""Texts and links that travel along, votes that are distributions, and files that need an option to be opened."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from tests.cli.conftest import Run

VOTES = """item,annotator,label,text,url,confidence
a,x,cat,"A <b>cat</b>, maybe",https://example.org/a,9
a,y,dog,,https://example.org/a,9
b,x,dog,=1+1,,8
b,y,dog,,https://example.org/b,8
"""
SOFT = "item,annotator,p_cat,p_dog\na,x,0.9,0.1\na,y,0.4,0.6\nb,x,0.2,0.8\nb,y,0.3,0.7\n"


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_texts_and_links_stand_beside_the_labels(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text(VOTES)
    found = rows(run("aggregate", "v.csv", "--keep", "text,url", "--page", "p.html").stdout)
    assert [(row["item"], row["text"], row["url"]) for row in found] == [
        ("a", "A <b>cat</b>, maybe", "https://example.org/a"),
        # What a spreadsheet would run as a formula is escaped, as in every cell.
        ("b", "'=1+1", "https://example.org/b"),
    ]
    page = (folder / "p.html").read_text()
    assert "A &lt;b&gt;cat&lt;/b&gt;, maybe" in page
    assert "<b>cat</b>" not in page


def test_a_name_that_is_taken_stays_apart(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text(VOTES)
    found = rows(run("aggregate", "v.csv", "--keep", "confidence", "-q").stdout)
    assert [row["kept_confidence"] for row in found] == ["9", "8"]
    assert float(found[0]["confidence"]) < 1


def test_texts_on_the_pages_of_report_and_audit(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text(VOTES)
    run("report", "v.csv", "--keep", "te*", "-o", "r.html", "--labels", "l.csv")
    data = (folder / "r.html").read_text().partition('id="table-data"')[2].partition(">")[2].partition("</script>")[0]
    items = json.loads(data)["items"]
    assert items["about"]["names"] == ["text"]
    shown = {row[0]: cells for row, cells in zip(items["rows"], items["about"]["rows"], strict=True)}
    assert shown == {"a": ["A <b>cat</b>, maybe"], "b": ["=1+1"]}
    assert rows((folder / "l.csv").read_text())[0]["text"] == "A <b>cat</b>, maybe"
    run("audit", "v.csv", "--check", "2", "--keep", "url", "--page", "c.html")
    assert "https://example.org/b" in (folder / "c.html").read_text()
    assert "--page" in run("audit", "v.csv", "--check", "2", "--keep", "url", code=2).stderr


def test_what_cannot_be_kept_is_named(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text(VOTES)
    assert "no column 'txt' to keep; found" in run("aggregate", "v.csv", "--keep", "txt", code=1).stderr
    run("aggregate", "v.csv", "--save", "model", "-o", "l.csv")
    assert "--keep reads a column of the file of votes" in run("report", "model", "--keep", "text", code=2).stderr
    assert "--keep needs one file" in run("aggregate", "v.csv", "--type", "multilabel", "--keep", "text", code=2).stderr


def test_texts_of_exports(run: Run, folder: Path) -> None:
    task = {"id": 7, "data": {"text": "Ada"}, "annotations": [
        {"completed_by": who, "result": [{"from_name": "m", "type": "choices", "value": {"choices": [said]}}]}
        for who, said in ((1, "yes"), (2, "no"))]}  # fmt: skip
    (folder / "ls.json").write_text(json.dumps([task]))
    assert rows(run("aggregate", "ls.json", "--keep", "text", "-q").stdout)[0]["text"] == "Ada"


def test_votes_that_are_distributions(run: Run, folder: Path) -> None:
    (folder / "s.csv").write_text(SOFT)
    result = run("aggregate", "s.csv", "--probabilities", "p_*", "-m", "majority")
    found = rows(result.stdout)
    assert [(row["item"], row["label"], row["n_votes"]) for row in found] == [("a", "cat", "2"), ("b", "dog", "2")]
    assert "4 votes on 2 items by 2 annotators, 2 classes" in result.stderr
    for command in ("summary", "annotators", "report"):
        run(command, "s.csv", "--probabilities", "p_*", *(["-o", "r.html"] if command == "report" else []))
    assert "does not apply" in run("aggregate", "s.csv", "s.csv", "--probabilities", "p_*", code=2).stderr


def test_how_sure_votes_are(run: Run, folder: Path) -> None:
    (folder / "s.csv").write_text("item,annotator,label,sure\na,x,cat,95%\na,y,dog,55%\nb,x,dog,60%\n")
    found = rows(run("aggregate", "s.csv", "--sure", "sure", "-m", "majority", "-q").stdout)
    assert [row["label"] for row in found] == ["cat", "dog"]


def test_encodings_and_titles_by_every_command(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_bytes(VOTES.replace("dog", "größer").encode("cp1252"))
    assert "--encoding cp1252" in run("aggregate", "v.csv", code=1).stderr
    assert "größer" in run("aggregate", "v.csv", "--encoding", "cp1252").stdout
    values = "Title; of June\nitem;annotator;value\na;x;1\na;y;2\n"
    (folder / "n.csv").write_bytes(values.encode("utf-16"))
    found = rows(run("regress", "n.csv", "--encoding", "utf-16", "--skip-rows", "1", "-m", "mean").stdout)
    assert float(found[0]["estimate"]) == 1.5
    assert "--skip-rows must be at least 0" in run("regress", "n.csv", "--skip-rows", "-1", code=2).stderr
