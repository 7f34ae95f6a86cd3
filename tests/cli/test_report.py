from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run


@pytest.mark.slow
def test_a_page_from_votes(run: Run, folder: Path) -> None:
    told = run(
        "report", "votes.csv", "--truth", "truth.csv", "-o", "r.html", "--method", "dawid-skene", "--title", "Cats & dogs"
    )
    assert "wrote r.html" in told.stderr
    page = (folder / "r.html").read_text()
    assert "<h1>Cats &amp; dogs</h1>" in page
    command = "crowdwise report votes.csv --truth truth.csv -o r.html --method dawid-skene --title &#x27;Cats &amp; dogs&#x27;"
    assert command in page
    # The file can be told from another: its digest, as sha256sum prints it.
    assert "votes.csv (SHA-256 " in page
    assert "On <strong>" not in page
    assert "On 4 items of known class" in page


@pytest.mark.slow
def test_a_page_from_a_saved_model(run: Run, folder: Path) -> None:
    run("aggregate", "votes.csv", "--method", "one-coin", "--save", "model", "-o", "l.csv", "-q")
    assert run("report", "model", "-q").stderr == ""
    assert "one-coin" in (folder / "report.html").read_text()


def test_a_page_that_cannot_be_written_is_named_and_the_old_one_stays(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "r.html").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    said = run("report", "votes.csv", "-o", "r.html", "--method", "majority", code=1).stderr
    assert "r.html: cannot be written (No space left on device)" in said
    assert ".tmp" not in said
    assert (folder / "r.html").read_text() == "old"
    assert not list(folder.glob(".*tmp*"))


def test_formulas_in_the_labels_file_are_escaped(run: Run, folder: Path) -> None:
    (folder / "evil.csv").write_text("item,annotator,label\n=cmd(),x,=1+1\n=cmd(),y,=1+1\nb,x,cat\nb,y,cat\n")
    run("report", "evil.csv", "-o", "r.html", "--labels", "labels.csv", "--method", "majority", "-q")
    assert pl.read_csv(folder / "labels.csv").rows()[0][:2] == ("'=cmd()", "'=1+1")
    assert "=cmd()" in (folder / "r.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "r.txt"], "a page ends in .html"),
        (["-o", "no/r.html"], "does not exist"),
        (["--price", "-1"], "--price must be at least 0"),
        (["--fdr", "2"], "fdr must lie"),
        (["--labels", "votes.csv"], "is also the input"),
        (["--labels", "l.xyz"], "cannot write"),
    ],
)
def test_what_cannot_work_is_refused_before_any_work(run: Run, folder: Path, options: list[str], said: str) -> None:
    assert said in run("report", "votes.csv", *options, code=2).stderr
    assert not (folder / "report.html").exists()


def page_of(folder: Path) -> str:
    return (folder / "r.html").read_text().replace("\u202f", " ").replace("\xa0", " ")


def test_gold_that_the_fit_did_not_see_is_measured_on_the_page(run: Run, folder: Path) -> None:
    rows = [f"i{n},{who},{'cat' if n % 2 else 'dog'},{'cat' if n % 2 or n == 0 else 'dog'}" for n in range(8) for who in "xyz"]
    (folder / "known.csv").write_text("\n".join(["item,annotator,label,gold", *rows]) + "\n")
    told = run("report", "known.csv", "--gold-is", "truth", "-o", "r.html", "--method", "majority").stderr
    assert "7 of 8 labels are right (87.5%)" in told
    assert "On 8 items of known class, <strong>87.5 %</strong>" in page_of(folder)
    assert "No true labels were given" not in page_of(folder)
    run("report", "known.csv", "--gold-is", "known", "-o", "r.html", "--method", "majority", "-q")
    assert "The 0 least certain" not in page_of(folder)
    assert "No label is uncertain" in page_of(folder)


def test_labels_that_differ_from_the_majority_are_counted_once_and_ties_are_said(run: Run, folder: Path) -> None:
    votes = {"a": "cat cat dog", "b": "cat dog", "c": "dog dog dog", "d": "dog cat"}
    rows = [f"{item},{'xyz'[k]},{label}" for item, said in votes.items() for k, label in enumerate(said.split())]
    (folder / "tied.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    run("report", "tied.csv", "-o", "r.html", "--method", "majority", "-q")
    assert "<strong>0 labels</strong> (0 %) came out differently. On 2 more items votes are tied" in page_of(folder)


def test_anonymous_votes_are_never_shown_as_annotators(run: Run, folder: Path) -> None:
    (folder / "counts.csv").write_text("id,total,cat,dog\n" + "".join(f"i{n},{8 + n % 3},{5 + n % 3},3\n" for n in range(30)))
    run("report", "counts.csv", "-o", "r.html", "--method", "majority", "-q")
    page = page_of(folder)
    assert "nothing can be said of annotators" in page
    assert "less reliable annotators" not in page
    assert 'id="annotators-table"' not in page
    why = run("explain", "i0", "counts.csv").stdout
    assert [line.split()[:3] for line in why.splitlines() if " votes " in line[:10]] == [
        ["5", "votes", "cat"],
        ["3", "votes", "dog"],
    ]
