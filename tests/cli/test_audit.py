from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.data.simulate import simulate


@pytest.fixture
def crowd(folder: Path) -> Path:
    """Three hundred items in crowd.csv and their truth in all.csv."""
    drawn = simulate(300, 12, 2, 5, "one-coin", options={"one-coin": {"a": 9, "b": 2}}, random_state=0)
    drawn.votes.to_frame().write_csv(folder / "crowd.csv")
    pl.DataFrame({"item": list(drawn.gold), "label": list(drawn.gold.values())}).write_csv(folder / "all.csv")
    return folder


def fill(folder: Path, name: str, blank: tuple[int, ...] = ()) -> None:
    truth = dict(pl.read_csv(folder / "all.csv").rows())
    table = pl.read_csv(folder / name)
    labels = [None if row in blank else truth[item] for row, item in enumerate(table["item"])]
    table.with_columns(pl.Series("true label", labels)).write_csv(folder / name)


@pytest.mark.slow
def test_draw_check_and_certify(run: Run, crowd: Path) -> None:
    done = run("audit", "crowd.csv", "--check", "100", "-o", "check.csv")
    assert "drew 100 items of 300" in done.stderr
    table = pl.read_csv(crowd / "check.csv")
    # Those who check are not shown what the votes say.
    assert table.columns == ["item", "true label", "draw", "stratum", "weight", "design"]
    assert table["true label"].null_count() == 100
    assert table["item"].n_unique() == 100
    fill(crowd, "check.csv")
    done = run("audit", "crowd.csv", "--checked", "check.csv", "-o", "labels.csv", "--page", "found.html")
    accepted = int(re.search(r"accept (\d+) of 300 labels", done.stderr)[1])  # type: ignore[index]
    assert accepted >= 150
    assert "right labels among all 300 that could be drawn" in done.stderr
    assert "at most 5% of them are wrong, with probability 95%" in done.stderr
    labels = pl.read_csv(crowd / "labels.csv")
    assert labels.columns == ["item", "label", "confidence", "confidence_source", "decision", "note"]
    checked = labels.filter(pl.col("note") == "checked")
    assert checked.height == 100
    assert set(checked["confidence_source"]) == {"gold"}
    assert set(labels.filter(pl.col("note") != "checked")["confidence_source"]) == {"audit"}
    truth = dict(pl.read_csv(crowd / "all.csv").rows())
    assert all(truth[item] == label for item, label in checked.select("item", "label").rows())
    marked = labels.filter(pl.col("decision") == "accept").height
    assert marked > accepted
    words = f"decision accept: {marked} labels, the {accepted} certified and {marked - accepted} more that are checked or known"
    assert words in done.stderr
    # The column of the file is updated by the checks; the threshold is of the confidence before.
    assert re.search(r"those with a confidence from [0-9.>]+ before the audit", done.stderr)
    page = (crowd / "found.html").read_text()
    assert "Audit of labels" in page
    assert "Labels in all" in page


@pytest.mark.slow
def test_a_draw_never_replaces_true_labels(run: Run, crowd: Path) -> None:
    run("audit", "crowd.csv", "--check", "30", "-o", "check.csv")
    run("audit", "crowd.csv", "--check", "20", "-o", "check.csv")
    fill(crowd, "check.csv", blank=(3, 4))
    before = (crowd / "check.csv").read_bytes()
    message = "check.csv has 18 true labels filled in; certify it with --checked, add draws with --more, or name another file"
    assert message in run("audit", "crowd.csv", "--check", "5", "-o", "check.csv", code=2).stderr
    assert (crowd / "check.csv").read_bytes() == before
    # Nor where the columns that say how it was drawn are lost.
    pl.read_csv(crowd / "check.csv").select("item", pl.col("true label").alias("True_Label")).write_csv(crowd / "check.csv")
    assert "has 18 true labels" in run("audit", "crowd.csv", "--check", "5", "-o", "check.csv", code=2).stderr
    for text in ("item,label\na,cat\n", "", "no table \0"):
        (crowd / "other.csv").write_text(text)
        run("audit", "crowd.csv", "--check", "5", "-o", "other.csv")
        assert pl.read_csv(crowd / "other.csv").height == 5


@pytest.mark.slow
def test_too_few_checks_are_named_when_they_are_drawn(run: Run, crowd: Path) -> None:
    said = run("audit", "crowd.csv", "--check", "30", "-o", "few.csv").stderr
    needed = int(re.search(r"30 checks cannot certify anything at 5%, even if .*: that takes (\d+)", said)[1])  # type: ignore[index]
    # With all labels right, so many checks certify something, and one fewer nothing.
    for n, certified in ((needed, True), (needed - 1, False)):
        said = run("audit", "crowd.csv", "--check", str(n), "--show-labels", "-o", f"{n}.csv").stderr
        assert ("cannot certify" in said) is not certified
        table = pl.read_csv(crowd / f"{n}.csv")
        table.with_columns(pl.col("label").alias("true label")).write_csv(crowd / f"{n}.csv")
        facts = json.loads(run("audit", "crowd.csv", "--checked", f"{n}.csv", "--json").stdout)
        assert (facts["n_certified"] > 0) is certified


@pytest.mark.slow
def test_a_missing_row_is_called_missing(run: Run, crowd: Path) -> None:
    run("audit", "crowd.csv", "--check", "30", "-o", "check.csv")
    fill(crowd, "check.csv")
    table = pl.read_csv(crowd / "check.csv")
    table.filter(pl.col("draw") != 4).write_csv(crowd / "check.csv")
    said = run("audit", "crowd.csv", "--checked", "check.csv", "-o", "labels.csv").stderr
    assert re.search(r"draw 4 \(item [^)]*\) is missing from the table: only the 3 draws before it count", said)
    # An interval that leaves nearly everything possible is not printed.
    assert "that could be drawn: too few checks count to say (3)" in said
    run("audit", "crowd.csv", "--more", "check.csv", "--check", "1", "-o", "more.csv")
    assert pl.read_csv(crowd / "more.csv")["draw"].to_list() == list(range(1, 32))


@pytest.mark.slow
def test_more_draws_continue_the_same_sequence(run: Run, crowd: Path) -> None:
    run("audit", "crowd.csv", "--check", "30", "--seed", "5", "-o", "check.csv")
    fill(crowd, "check.csv", blank=(29,))
    done = run("audit", "crowd.csv", "--more", "check.csv", "--check", "20", "-o", "more.csv")
    assert "drew 20 items after 30 earlier ones" in done.stderr
    run("audit", "crowd.csv", "--check", "50", "--seed", "5", "-o", "all-at-once.csv")
    more, once = pl.read_csv(crowd / "more.csv"), pl.read_csv(crowd / "all-at-once.csv")
    assert more.drop("true label").equals(once.drop("true label"))
    assert more["true label"][:30].to_list() == pl.read_csv(crowd / "check.csv")["true label"].to_list()
    assert more["true label"].null_count() == 21
    fill(crowd, "more.csv")
    facts = json.loads(run("audit", "crowd.csv", "--checked", "more.csv", "--json").stdout)
    assert facts["n_used"] == facts["n_checked"] == 50
    assert len(facts["labels"]) == 300
    assert facts["accuracy"]["low"] <= facts["accuracy"]["share"] <= facts["accuracy"]["high"]


def test_draws_after_an_empty_cell_do_not_count_for_the_certificate(run: Run, crowd: Path) -> None:
    run("audit", "crowd.csv", "--check", "100", "-o", "check.csv")
    fill(crowd, "check.csv", blank=(10, 20))
    done = run("audit", "crowd.csv", "--checked", "check.csv", "-o", "labels.csv")
    assert "draw 11 (item" in done.stderr
    assert "only the 10 draws before it count" in done.stderr
    assert "no labels are certified yet" in done.stderr
    # They are known all the same.
    assert pl.read_csv(crowd / "labels.csv").filter(pl.col("note") == "checked").height == 98


@pytest.mark.slow
def test_what_nobody_can_tell_counts_as_wrong_and_stays_for_review(run: Run, crowd: Path) -> None:
    run("audit", "crowd.csv", "--check", "40", "-o", "check.csv")
    fill(crowd, "check.csv")
    table = pl.read_csv(crowd / "check.csv")
    before = json.loads(run("audit", "crowd.csv", "--checked", "check.csv", "--json").stdout)
    table.with_columns(pl.Series("true label", ["?", *table["true label"][1:]])).write_csv(crowd / "check.csv")
    after = json.loads(run("audit", "crowd.csv", "--checked", "check.csv", "--json").stdout)
    assert after["accuracy"]["n_wrong"] == before["accuracy"]["n_wrong"] + 1
    unclear = [row for row in after["labels"] if row["note"] == "unclear"]
    assert [row["decision"] for row in unclear] == ["review"]
    assert "decision accept: 39 labels, those checked or known" in run("audit", "crowd.csv", "--checked", "check.csv").stderr


@pytest.mark.slow
def test_the_page_shows_items_as_text_and_keeps_votes_to_itself(run: Run, crowd: Path) -> None:
    items = pl.read_csv(crowd / "all.csv")["item"].to_list()
    pl.DataFrame(
        {
            "item": items,
            "text": ["<script>alert(1)</script> & more"] * 300,
            "url": ["https://example.org/a?b=1"] * 299 + ["javascript:alert(1)"],
            "picture": ["pictures/a.png"] * 300,
        }
    ).write_csv(crowd / "items.csv")
    done = run("audit", "crowd.csv", "--check", "20", "--page", "check.html", "--show", "items.csv")
    assert "download the answers" in done.stderr
    assert done.stdout == ""
    page = (crowd / "check.html").read_text()
    assert "<script>alert" not in page
    data = json.loads(re.search(r'id="table-data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
    assert len(data["rows"]) == 20
    assert data["rows"][0]["proposed"] is None
    shown = {key: (kind, value) for key, kind, value in data["rows"][0]["shown"]}
    assert shown["text"] == ("text", "<script>alert(1)</script> & more")
    assert shown["url"][0] == "link"
    assert shown["picture"] == ("image", "pictures/a.png")
    assert not any(kind != "text" and "javascript" in value for row in data["rows"] for _, kind, value in row["shown"])
    assert "--show items.csv" not in page
    run("audit", "crowd.csv", "--check", "20", "--page", "bare.html")
    assert "give <code>--show items.csv</code>" in (crowd / "bare.html").read_text()
    shown_labels = run("audit", "crowd.csv", "--check", "20", "--show-labels").stdout
    assert shown_labels.splitlines()[0] == "item,label,confidence,true label,draw,stratum,weight,design"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--check N draws items to check, --checked FILE certifies"),
        (["--check", "0"], "--check must be at least 1"),
        (["--checked", "check.csv", "--check", "5"], "one after the other"),
        (["--checked", "check.csv", "--show-labels"], "--show-labels is for drawing"),
        (["--check", "5", "--show", "all.csv"], "--page FILE"),
        (["--check", "5", "--error", "1.5"], "--error must lie between"),
        (["--check", "5", "--page", "check.txt"], "a page ends in .html"),
    ],
)
def test_wrong_usage_of_audit_is_named(run: Run, crowd: Path, arguments: list[str], message: str) -> None:
    assert message in run("audit", "crowd.csv", *arguments, code=2).stderr


@pytest.mark.slow
def test_tables_that_do_not_fit_are_named_with_their_row(run: Run, crowd: Path) -> None:
    run("audit", "crowd.csv", "--check", "30", "-o", "check.csv")
    fill(crowd, "check.csv")
    good = pl.read_csv(crowd / "check.csv")

    def refused(table: pl.DataFrame) -> str:
        table.write_csv(crowd / "bad.csv")
        return run("audit", "crowd.csv", "--checked", "bad.csv", code=1).stderr

    labels, items = good["true label"].to_list(), good["item"].to_list()
    problem = refused(good.with_columns(pl.Series("true label", [*labels[:3], "class-7", *labels[4:]])))
    assert "bad.csv row 5: true label 'class-7' is not among the classes" in problem
    assert "bad.csv row 2: item 'nobody' is not among the votes" in refused(
        good.with_columns(pl.Series("item", ["nobody", *items[1:]]))
    )
    assert "bad.csv row 2: draw '1' is of another item" in refused(
        good.with_columns(pl.Series("item", [items[1], items[0], *items[2:]]))
    )
    other = {"class-0": "class-1", "class-1": "class-0"}
    twice = pl.concat([good, good[:1].with_columns(pl.col("true label").replace(other))])
    assert "bad.csv row 32: item" in refused(twice)
    assert "no column 'design'" in refused(good.drop("design"))
    assert "draw again" in refused(good.with_columns(pl.lit("mine").alias("design")))
    assert "no label is checked yet" in refused(good.with_columns(pl.lit(None, pl.String).alias("true label")))
    problem = run("audit", "crowd.csv", "--checked", "check.csv", "-m", "majority", code=1).stderr
    assert "by another method or other options" in problem
    assert "is not among the votes" in run("audit", "votes.csv", "--checked", "check.csv", code=1).stderr
    # Sorted in a spreadsheet, with an equal row twice: still the same checks.
    pl.concat([good.sort("item"), good[:1]]).write_csv(crowd / "sorted.csv")
    sorted_rows = run("audit", "crowd.csv", "--checked", "sorted.csv").stdout
    assert sorted_rows == run("audit", "crowd.csv", "--checked", "check.csv").stdout


@pytest.mark.slow
def test_fewer_items_than_asked_for_and_all_checked(run: Run, folder: Path) -> None:
    done = run("audit", "votes.csv", "--check", "50", "-o", "check.csv")
    assert "drew 4 items of 4" in done.stderr
    table = pl.read_csv(folder / "check.csv")
    truth = {"a": "cat", "b": "dog", "c": "cat", "d": "dog"}
    table.with_columns(pl.Series("true label", [truth[item] for item in table["item"]])).write_csv(folder / "check.csv")
    done = run("audit", "votes.csv", "--checked", "check.csv", "-o", "labels.csv")
    assert "accept 4 of 4 labels (100%" in done.stderr
    assert "are drawn already" in run("audit", "votes.csv", "--more", "check.csv", "-o", "more.csv", code=1).stderr


def test_formulas_are_escaped_for_the_spreadsheet_and_come_back(run: Run, folder: Path) -> None:
    rows = [f'"=cmd{n}",{who},"=yes"' for n in range(3) for who in "xyz"] + ["b,x,no", "b,y,no"]
    (folder / "odd.csv").write_text("item,annotator,label\n" + "\n".join(rows) + "\n")
    run("audit", "odd.csv", "--check", "9", "--show-labels", "-o", "check.csv")
    table = pl.read_csv(folder / "check.csv")
    assert not any(str(cell).startswith("=") for row in table.rows() for cell in row)
    table.with_columns(pl.Series("true label", table["label"].to_list())).write_csv(folder / "check.csv")
    labels = pl.read_csv(run("audit", "odd.csv", "--checked", "check.csv", "--raw").stdout.encode())
    assert labels["note"].to_list() == ["checked"] * 4
    assert set(labels["label"]) == {"=yes", "no"}


def test_one_item_and_one_class(run: Run, folder: Path) -> None:
    (folder / "one.csv").write_text("item,annotator,label\na,x,cat\na,y,cat\n")
    run("audit", "one.csv", "--check", "5", "-o", "check.csv")
    table = pl.read_csv(folder / "check.csv")
    assert table.height == 1
    table.with_columns(pl.lit("cat").alias("true label")).write_csv(folder / "check.csv")
    assert "none wrong" in run("audit", "one.csv", "--checked", "check.csv", "-o", "labels.csv").stderr
