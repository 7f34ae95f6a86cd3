"""What commands say about what they read, and that the commands they suggest work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

TICKS = 'item,who,what\nx,a,"cat\ndog"\nx,b,cat\ny,a,dog\ny,b,cat\n'
GOLD = "item,annotator,label,gold\n" + "".join(
    f"i{n},w{m},{'cat' if (n + (m == 2 and n % 3 == 0)) % 2 else 'dog'},{'cat' if n % 2 else 'dog'}\n"
    for n in range(12)
    for m in range(3)
)
WIDE = "id,text,ann,bob,cem\n1,a b,cat,cat,dog\n2,c d,dog,dog,dog\n3,e f,cat,,dog\n"


def suggested(stderr: str, start: str) -> list[str]:
    """The words of the suggested command that follows `start`."""
    found = re.search(rf"{re.escape(start)}crowdwise (.*?)(?: \(|;|$)", stderr, re.MULTILINE)
    assert found is not None, stderr
    return shlex.split(found[1])


def test_the_commands_of_a_refusal_work(run: Run, folder: Path) -> None:
    (folder / "ticks.csv").write_text(TICKS)
    refused = run("aggregate", "ticks.csv", "--annotator", "who", "--label", "what", code=1).stderr
    assert "error: ticks.csv row 2: several labels in one cell" in refused
    sets = run(*suggested(refused, "as several labels: "), "-o", "sets.csv")
    assert "labels of one answer are separated by a line break" in sets.stderr
    assert set(pl.read_csv(folder / "sets.csv")["item"]) == {"x", "y"}
    run(*suggested(refused, "class of its own: "), "-o", "classes.csv")
    assert "p(cat\ndog)" in pl.read_csv(folder / "classes.csv").columns


def test_the_commands_of_stdin_name_stdin(run: Run) -> None:
    refused = run("summary", "-", "--annotator", "who", "--label", "what", code=1, input=TICKS).stderr
    assert "crowdwise aggregate - --annotator who --label what --type multilabel" in refused


def test_columns_taken_are_said_unless_quiet(run: Run, folder: Path) -> None:
    (folder / "long.csv").write_text("task,worker,answer,text\n1,a,x,t\n1,b,x,t\n")
    line = "long.csv: item = 'task', annotator = 'worker', label = 'answer'; other columns: 'text'"
    for command in (["aggregate"], ["summary"], ["report", "-o", "page.html"]):
        assert line in run(command[0], "long.csv", *command[1:]).stderr
    assert line not in run("aggregate", "long.csv", "--quiet").stderr


@pytest.mark.slow
def test_repeats_are_said_by_every_command_that_fits(run: Run, folder: Path) -> None:
    (folder / "again.csv").write_text("item,annotator,label\n1,a,x\n1,a,y\n1,b,x\n2,a,x\n2,b,y\n")
    commands = [
        "aggregate again.csv",
        "annotators again.csv",
        "explain 1 again.csv",
        "review again.csv",
        "report again.csv -o p.html",
    ]
    for command in commands:
        said = run(*command.split()).stderr
        assert "1 of 5 votes repeat an annotator's vote on the same item, 1 of them with another label" in said
    assert "4 votes on 2 items" in run("aggregate", "again.csv", "--repeats", "last").stderr
    assert "repeats must be one of" in run("aggregate", "again.csv", "--repeats", "latest", code=2).stderr


@pytest.mark.slow
def test_gold_that_decides_most_labels_is_said_first_and_can_be_measured(run: Run, folder: Path) -> None:
    (folder / "gold.csv").write_text(GOLD)
    said = run("aggregate", "gold.csv").stderr
    assert said.startswith(
        "gold in the file decides 12 of 12 labels; to measure the votes against it instead, add --gold-is truth"
    )
    assert "12 known labels kept fixed" in said
    assert run("aggregate", "gold.csv").stderr.count("decides") == 1
    assert "decides" not in run("summary", "gold.csv").stderr
    assert "decides" not in run("aggregate", "gold.csv", "--gold-is", "known").stderr
    measured = run("aggregate", "gold.csv", "--gold-is", "truth").stderr
    assert "compared with gold, which the fit did not see: 12 of 12 labels are right (100.0%)" in measured
    assert "kept fixed" not in measured
    (folder / "some.csv").write_text("item,label\ni0,cat\ni1,cat\n")
    other = run("aggregate", "gold.csv", "--gold", "some.csv", "--gold-is", "truth").stderr
    assert "1 of 2 labels are right (50.0%)" in other
    (folder / "bare.csv").write_text("item,annotator,label\n1,a,x\n1,b,x\n")
    assert "there is no gold" in run("aggregate", "bare.csv", "--gold-is", "truth", code=2).stderr
    assert "no 'silver'" in run("aggregate", "gold.csv", "--gold-is", "silver", code=2).stderr


def test_columns_that_vote_and_the_table_of_annotators_have_names_of_their_own(run: Run, folder: Path) -> None:
    (folder / "wide.csv").write_text(WIDE)
    found = run("aggregate", "wide.csv", "--annotator-columns", "ann,bob", "-o", "labels.csv").stderr
    assert "2 columns of annotators: 'ann', 'bob'; not voting: 'text', 'cem'" in found
    run("aggregate", "wide.csv", "--annotator-columns", "ann", "--annotator-columns", "bob", "--annotators", "people.csv")
    assert sorted(pl.read_csv(folder / "people.csv")["annotator"]) == ["ann", "bob"]
    assert "2 annotators" in run("aggregate", "wide.csv", "--not", "cem").stderr
    assert "n_annotators              2" in run("summary", "wide.csv", "--annotator-columns", "[ab]*").stdout
    assert "no column 'people'" in run("aggregate", "wide.csv", "--annotator-columns", "people", code=1).stderr
    said = run("aggregate", "wide.csv", "--annotators", "[ab]*", code=2).stderr
    assert said.endswith("; columns that vote are named by --annotator-columns\n")
    assert "--annotator-columns" in run("summary", "wide.csv", "--annotators", "[ab]*", code=2).stderr


def test_counts_give_labels_and_no_annotators(run: Run, folder: Path) -> None:
    (folder / "counts.csv").write_text("id,total,cat,dog\na,5,5,0\nb,4,1,3\nc,3,0,3\n")
    found = run("aggregate", "counts.csv", "-o", "labels.csv")
    assert "12 anonymous votes on 3 items, 2 classes; pairwise agreement" in found.stderr
    assert pl.read_csv(folder / "labels.csv")["label"].to_list() == ["cat", "dog", "dog"]
    run("aggregate", "counts.csv", "-m", "majority")
    refused = run("aggregate", "counts.csv", "-m", "one-coin", code=2).stderr
    assert refused.splitlines()[-1].startswith("error: one-coin learns about annotators, and nobody knows who gave these votes")
    assert "is about annotators" in run("aggregate", "counts.csv", "--annotators", "people.csv", code=2).stderr
    assert "is about annotators" in run("annotators", "counts.csv", code=2).stderr


def test_spellings_are_unified_by_option_and_table(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text("item,annotator,label\n1,a,cat\n1,b,Cat\n2,a,dog\n2,b,dog \n")
    said = run("aggregate", "v.csv").stderr
    assert (
        "warning: v.csv: labels that differ in case, punctuation or number format count as different: 'Cat' (1), 'cat' (1)"
        in said
    )
    assert "warning: v.csv: spellings unified (white space, Unicode form): 1 label ('dog ' is 'dog')" in said
    assert "2 classes" in run("aggregate", "v.csv", "--fold-case").stderr
    (folder / "s.csv").write_text("from,to\nCat,cat\n")
    assert "2 classes" in run("aggregate", "v.csv", "--spelling", "s.csv").stderr


def test_layouts_that_cannot_be_known_are_refused_with_commands_that_work(run: Run, folder: Path) -> None:
    (folder / "t.csv").write_text("id,cat,dog\na,5,0\nb,1,3\n")
    refused = run("aggregate", "t.csv", code=1).stderr
    assert "9 anonymous votes" in run(*suggested(refused, "counted per class: ")).stderr
    assert "4 votes on 2 items by 2 annotators" in run(*suggested(refused, "column per annotator: ")).stderr


@pytest.mark.parametrize("option", [["--repeats", "last"], ["--fold-case"], ["--not", "x"], ["--no-header"], ["--transposed"]])
def test_options_that_need_the_file_in_memory_are_refused_out_of_core(run: Run, folder: Path, option: list[str]) -> None:
    (folder / "v.csv").write_text("item,annotator,label\n1,a,x\n1,b,x\n")
    refused = run("aggregate", "v.csv", "--engine", "local", "-o", "labels.csv", *option, code=2).stderr
    assert "does not apply" in refused


def test_several_answers_are_refused_out_of_core_too(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text("item,annotator,label\nx,a,cat;dog\nx,b,cat\ny,a,dog\n")
    refused = run("aggregate", "v.csv", "--engine", "local", "-m", "majority", "-o", "labels.csv", code=1).stderr
    assert "v.csv row 2: several labels in one cell, 'cat;dog', separated by ';'. A vote has one class here" in refused
    run("aggregate", "v.csv", "--engine", "local", "-m", "majority", "-o", "labels.csv", "--one-label")
    assert pl.read_csv(folder / "labels.csv").height == 2


@pytest.mark.slow
def test_anonymous_votes_are_saved_opened_and_reported(run: Run, folder: Path) -> None:
    rows = "".join(f"i{n},{3 + n % 3},{n % 3},3\n" for n in range(30))
    (folder / "counts.csv").write_text(f"id,total,cat,dog\n{rows}")
    run("aggregate", "counts.csv", "--save", "model", "-o", "labels.csv")
    assert "i3: dog" in run("explain", "i3", "model").stdout
    run("report", "counts.csv", "-o", "page.html")
    run("review", "counts.csv")


def test_columns_and_repeats_of_several_files_are_said(run: Run, folder: Path) -> None:
    for name, row in (("a.csv", "1,w,x\n1,w,y\n"), ("b.csv", "1,v,x\n2,v,y\n")):
        (folder / name).write_text(f"task,worker,answer\n{row}")
    said = run("aggregate", "a.csv", "b.csv").stderr
    assert "item = 'task', annotator = 'worker', label = 'answer'" in said
    assert "1 of 4 votes repeat an annotator's vote on the same item" in said


def test_advised_commands_keep_what_was_typed_and_work(run: Run, folder: Path) -> None:
    ticks = TICKS.replace("who,what", "annotator,label")
    (folder / "my ticks.csv").write_text(ticks)
    refused = run("aggregate", "my ticks.csv", "-o", "my labels.csv", "--seed", "3", "--item=item", code=1).stderr
    words = suggested(refused, "to read them as several labels: ")
    assert words == ["aggregate", "my ticks.csv", "-o", "my labels.csv", "--seed", "3", "--item=item", "--type", "multilabel"]
    run(*words)
    assert (folder / "my labels.csv").exists()
    page = suggested(run("report", "my ticks.csv", "-o", "page.html", code=1).stderr, "to read them as several labels: ")
    assert page == ["aggregate", "my ticks.csv", "--type", "multilabel", "--page", "page.html"]
    run(*page)
    assert (folder / "page.html").exists()
    piped = run("aggregate", "-", "-q", code=1, input=ticks).stderr
    assert suggested(piped, "to read them as several labels: ") == ["aggregate", "-", "-q", "--type", "multilabel"]


def test_all_missing_columns_are_named_at_once_with_a_command_that_works(run: Run, folder: Path) -> None:
    rows = "".join(f"{n},{who},{'cat' if n % 2 else 'dog'}\n" for n in range(10) for who in "abc")
    (folder / "v.csv").write_text(f"foo,annotator,baz\n{rows}")
    refused = run("aggregate", "v.csv", "-o", "out.csv", code=1).stderr
    assert "v.csv: no item and no label column; found 'foo', 'annotator', 'baz'. Name them: --item and --label" in refused
    words = suggested(refused, "for example: ")
    assert words == ["aggregate", "v.csv", "-o", "out.csv", "--item", "foo", "--label", "baz"]
    run(*words)
    absent = run("aggregate", "v.csv", "--item", "fo", "--label", "bz", code=1).stderr
    assert "no column 'fo' (did you mean 'foo'?), no column 'bz' (did you mean 'baz'?); found" in absent
    (folder / "w.csv").write_text(f"foo,bar,baz\n{rows}")
    for engine in ("memory", "local"):
        refused = run("aggregate", "w.csv", "-o", "out.csv", "--engine", engine, code=1).stderr
        assert "no item, no annotator and no label column; found 'foo', 'bar', 'baz'. Name them: --item, --annotator" in refused


@pytest.mark.parametrize("command", [("explain", "x"), ("report",), ("annotators",)])
def test_a_type_of_votes_belongs_to_aggregate(run: Run, folder: Path, command: tuple[str, ...]) -> None:
    for words in (["--type", "multilabel"], ["--type=multilabel"]):
        said = " ".join(run(*command, "votes.csv", *words, code=2).stderr.replace("│", " ").split())
        assert "--type is an option of aggregate: crowdwise aggregate VOTES --type TYPE -o labels.csv --page page.html" in said


def test_one_class_alone_has_no_expected_accuracy(run: Run, folder: Path) -> None:
    (folder / "v.csv").write_text("item,annotator,label\n1,a,wow\n2,b,wow\n")
    said = run("aggregate", "v.csv").stderr
    assert "expected accuracy of the labels: unknown, because only one class occurs" in said
    assert "100%" not in said
