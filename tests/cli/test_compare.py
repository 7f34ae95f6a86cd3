"""The command `compare`: what it refuses, what it prints, and the files it writes."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.cli.conftest import Run
from tests.trust.compare.test_table import FOLD, VOTES, made, outcome
from tests.trust.compare.test_table import TRUTH as KNOWN

from crowdwise.report.comparison import document, markdown, page, write_comparison
from crowdwise.trust.compare.collect import Collector
from crowdwise.trust.compare.fitting import Outcome, Task
from crowdwise.trust.compare.table import Comparison

TWO = ["-m", "dawid-skene,majority"]
HOSTILE = "<script>alert(1)</script> | =cmd() *x* [a](b) `c`\nnext"


@pytest.mark.slow
def test_a_table_on_stdout_and_in_a_file(run: Run, folder: Path) -> None:
    given = ["compare", "votes.csv", "--truth", "truth.csv", *TWO]
    table = pl.read_csv(run(*given).stdout.encode())
    assert table["method"].to_list() == ["majority", "dawid-skene"]
    assert table["accuracy"].to_list() == [1.0, 1.0]
    # Nothing but the right labels can be drawn.
    assert table["accuracy_low"].to_list() == [1.0, 1.0]
    assert table["error"].to_list() == [None, None]
    run(*given, "-o", "table.csv", "--jobs", "1", "--quiet")
    again = pl.read_csv(folder / "table.csv")
    assert_frame_equal(again.drop("seconds", "memory_mb"), table.drop("seconds", "memory_mb"), abs_tol=1e-6)


@pytest.mark.slow
def test_gold_among_the_votes_is_truth(run: Run, folder: Path) -> None:
    truth = dict(line.split(",") for line in (folder / "truth.csv").read_text().split()[1:])
    header, *rows = (folder / "votes.csv").read_text().split()
    (folder / "with_gold.csv").write_text("\n".join([f"{header},gold", *(f"{row},{truth[row[0]]}" for row in rows)]))
    one = json.loads(run("compare", "with_gold.csv", "--methods", "majority", "--json").stdout)
    other = json.loads(run("compare", "votes.csv", "--truth", "truth.csv", "--methods", "majority", "--json").stdout)
    assert one["methods"][0]["log_loss"] == other["methods"][0]["log_loss"] > 0
    assert one["reference"] == "majority"


@pytest.mark.slow
def test_without_truth(run: Run) -> None:
    found = json.loads(run("compare", "votes.csv", *TWO, "--json", "--folds", "3").stdout)
    assert [row["method"] for row in found["methods"]] == found["agreement"]["methods"] == ["majority", "dawid-skene"]
    assert found["agreement"]["shares"] == [[1, 1], [1, 1]]
    assert "accuracy" not in found["methods"][0]
    assert found["methods"][0]["held_out"] < 0
    assert (found["folds"], found["n_known"], found["n_held_out"]) == (3, 0, 12)


@pytest.mark.slow
def test_classifiers_and_a_time_limit(run: Run, folder: Path) -> None:
    np.savez(folder / "X.npz", X=[[1.0], [-1.0], [1.1], [-0.9]], items=np.array(["a", "b", "c", "d"]))
    given = ["compare", "votes.csv", "--features", "X.npz", "--truth", "truth.csv", "--folds", "0", "--json"]
    found = json.loads(run(*given, "--methods", "raykar,majority").stdout)["methods"]
    assert [(row["method"], row["accuracy"], row["error"]) for row in found] == [("majority", 1, None), ("raykar", 1, None)]
    # On so many votes this method takes seconds, also where nobody looks at the clock for one; a comparison of nothing fails.
    run("simulate", "--items", "2000", "--annotators", "50", "--classes", "4", "-o", "many.csv", "--truth", "known.csv")
    slow = ["compare", "many.csv", "--truth", "known.csv", "--folds", "0", "--json", "--methods", "minimax-entropy"]
    late = json.loads(run(*slow, "--time-limit", "0.001", code=1).stdout)["methods"]
    assert late[0]["error"] == "stopped at the time limit of 0.001 s"
    assert late[0]["accuracy"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "glda"], "did you mean 'glad'"),
        (["--methods", "raykar"], "--features"),
        (["--methods", "majority", "--reference", "glad"], "not among"),
        (["-o", "table.xlsx"], ".md, .html, .csv"),
        (["-o", "votes.csv"], "is also the input"),
        (["-o", "-", "--json"], "choose one"),
        (["--time-limit", "-1"], "at least 0"),
        (["--jobs", "0"], "at least 1"),
        (["--folds", "1"], "at least 2"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(run: Run, options: list[str], message: str) -> None:
    assert message in run("compare", "votes.csv", *options, code=2).stderr


def hostile() -> Comparison:
    """A comparison in which a method failed with words that a stranger chose."""
    collector = Collector(Task(VOTES, FOLD), KNOWN)
    collector.add(outcome("a", [0.8, 0.6, 0.3, 0.1]))
    collector.add(Outcome("b", error=HOSTILE))
    collector.add(Outcome("c", error="=cmd()"))
    return collector.comparison(["a", "b", "c"], n_resamples=20, facts=made(KNOWN).facts)


class Text(HTMLParser):
    """Cells and tags of a page."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_strangers_words_come_out_as_text(tmp_path: Path) -> None:
    shown = Text(page(hostile()))
    assert "script" not in shown.tags
    assert any("<script>alert(1)</script>" in words for words in shown.words)
    written = markdown(hostile())
    row = next(line for line in written.splitlines() if "alert" in line)
    assert "&lt;script&gt;" in row
    # Cells are cut by bars that no backslash precedes: as many as in the head.
    head = next(line for line in written.splitlines() if line.startswith("| Method"))
    assert len(re.findall(r"(?<!\\)\|", row)) == head.count("|")
    assert r"\*x\* \[a\](b) \`c\`" in row
    assert json.loads(json.dumps(document(hostile())))["methods"][1]["error"] == HOSTILE
    write_comparison(hostile(), tmp_path / "table.csv")
    rows = list(csv.DictReader(StringIO((tmp_path / "table.csv").read_text(encoding="utf-8"), newline="")))
    assert [row["error"] for row in rows] == ["", HOSTILE, "'=cmd()"]


@pytest.mark.parametrize("suffix", [".csv", ".md", ".html", ".json", ".parquet", ".jsonl"])
def test_every_format_names_every_method(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"table{suffix}"
    write_comparison(made(KNOWN), path)
    content = path.read_bytes()
    if suffix == ".parquet":
        assert pl.read_parquet(path)["method"].to_list() == ["a", "b", "c"]
    elif suffix == ".json":
        assert [row["method"] for row in json.loads(content)["methods"]] == ["a", "b", "c"]
    else:
        assert all(word in content.decode() for word in ("broken", "-2"))


def test_a_page_says_what_was_compared_and_how_sure_it_is() -> None:
    words = " ".join(Text(page(made(KNOWN))).words)
    assert "12 votes by 3 annotators on 4 items, 2 classes; 3 items with a known label; 8 votes held out in 2 folds" in words
    assert "Difference to a With 90 % intervals over items" in words
    # The reference has none, and a difference that never changes is sure.
    assert "-1.000 (-1.000, -1.000)*" in words
    assert "-1.000 (-1.000, -1.000)\\*" in markdown(made(KNOWN))
    assert "Share of items with the same label" in words


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such signals there")
def test_ctrl_c_leaves_the_old_file_and_no_process(folder: Path) -> None:
    (folder / "table.csv").write_text("old")
    command = [sys.executable, "-m", "crowdwise", "compare", "votes.csv", "--methods", "all", "--jobs", "2", "-o", "table.csv"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(folder)}, text=True)
    end = time.monotonic() + 60
    while not list(folder.glob("crowdwise-*/*/stderr")) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert (folder / "table.csv").read_text() == "old"
    assert list(folder.glob("crowdwise-*")) == []
    marks = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _content(path)]
    assert marks == []


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
