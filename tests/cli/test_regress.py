from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

VALUES = """item,annotator,score
a,ann,3.1
a,bob,3.4
a,cy,9
b,ann,7.0
b,bob,7.3
b,cy,2
c,ann,5.2
c,bob,5.1
c,cy,5
d,ann,1
d,bob,1.2
d,cy,
"""
BOXES = "photo,worker,x1,x2\np,ann,1,5\np,bob,2,5\nq,ann,4,9\nq,bob,5,8\n"


@pytest.fixture
def values(folder: Path) -> Path:
    (folder / "values.csv").write_text(VALUES)
    (folder / "boxes.csv").write_text(BOXES)
    return folder


def test_estimates_and_annotators_are_written(run: Run, values: Path) -> None:
    said = run("regress", "values.csv", "-o", "estimates.csv", "--annotators", "people.csv").stderr
    assert "gaussian-crowd-bayes: 11 values, 4 items, 3 annotators; 1 missing answer left out" in said
    assert "least reliable annotator: cy" in said
    frame = pl.read_csv(values / "estimates.csv")
    assert frame.columns == ["item", "estimate", "sd", "low", "high", "n_votes"]
    assert ((frame["low"] < frame["estimate"]) & (frame["estimate"] < frame["high"])).all()
    people = pl.read_csv(values / "people.csv")
    assert people["annotator"].to_list()[-1] == "cy"
    assert {"bias", "noise", "weight", "reliability"} <= set(people.columns)


def test_a_pipe_gets_csv_and_json_has_it_all(run: Run, values: Path) -> None:
    assert run("regress", "-", "-q", input=VALUES).stdout.startswith("item,estimate,sd,low,high,n_votes\na,")
    assert "without bias, all annotators being equally precise" in run("regress", "values.csv", "-m", "mean").stderr
    document = json.loads(run("regress", "values.csv", "-m", "mean", "--json", "-q").stdout)
    assert document["method"] == "mean"
    assert [row["item"] for row in document["estimates"]] == ["a", "b", "c", "d"]
    assert document["estimates"][3]["estimate"] == pytest.approx(1.1)


def test_a_wider_level_gives_wider_intervals_and_gold_is_kept(run: Run, values: Path) -> None:
    (values / "gold.csv").write_text("item,value\na,3\n")
    for level in ("0.5", "0.99"):
        run("regress", "values.csv", "--gold", "gold.csv", "--level", level, "-o", f"{level}.csv")
    narrow, wide = (pl.read_csv(values / f"{level}.csv") for level in ("0.5", "0.99"))
    assert ((wide["high"] - wide["low"]).to_numpy()[1:] > (narrow["high"] - narrow["low"]).to_numpy()[1:]).all()
    assert narrow.row(0) == ("a", 3.0, 0.0, 3.0, 3.0, 3)


def test_boxes_have_a_column_for_each_side(run: Run, values: Path) -> None:
    run("regress", "boxes.csv", "--item", "photo", "--value", "x1,x2", "-m", "gaussian-crowd", "-o", "found.csv")
    columns = pl.read_csv(values / "found.csv").columns
    assert columns == ["item", "x1", "x1_sd", "x1_low", "x1_high", "x2", "x2_sd", "x2_low", "x2_high", "n_votes"]


def test_features_go_to_methods_that_take_them(run: Run, values: Path) -> None:
    np.savez(values / "X.npz", X=np.array([[1.0], [2.0], [3.0], [0.0], [2.5]]), items=np.array(list("abcde")))
    run("regress", "values.csv", "-m", "gp-crowd-regression", "--features", "X.npz", "-o", "found.csv")
    assert pl.read_csv(values / "found.csv")["item"].to_list() == list("abcde")
    assert (
        "learns from features: add --features FILE" in run("regress", "values.csv", "-m", "gp-crowd-regression", code=2).stderr
    )
    assert "takes answers alone" in run("regress", "values.csv", "--features", "X.npz", code=2).stderr


def test_a_plot_is_drawn(run: Run, values: Path) -> None:
    pytest.importorskip("matplotlib")
    run("regress", "boxes.csv", "--item", "photo", "--value", "x1,x2", "-m", "mean", "--plot", "p.png", "-q")
    assert (values / "p.png").read_bytes().startswith(b"\x89PNG")


def test_errors_name_file_row_and_fix_and_leave_nothing_behind(run: Run, values: Path) -> None:
    (values / "bad.csv").write_text("item,annotator,value\na,x,1\nb,x,tall\n")
    said = run("regress", "bad.csv", "-o", "out.csv", code=1).stderr
    assert "bad.csv row 3: the value 'tall' is no finite number" in said
    assert not (values / "out.csv").exists()
    assert "no such file" in run("regress", "valuess.csv", code=1).stderr
    assert "did you mean 'student-crowd'" in run("regress", "values.csv", "-m", "studentcrowd", code=2).stderr
    assert "--level must lie between" in run("regress", "values.csv", "--level", "95", code=2).stderr
    assert "a plot ends in" in run("regress", "values.csv", "--plot", "p.doc", code=2).stderr
    assert "both ask for stdout" in run("regress", "values.csv", "--json", "-o", "-", code=2).stderr


def test_cells_that_a_spreadsheet_would_run_are_escaped(run: Run, values: Path) -> None:
    (values / "evil.csv").write_text("item,annotator,value\n=1+1,x,1\n=1+1,y,2\n")
    run("regress", "evil.csv", "-m", "mean", "-o", "safe.csv")
    assert "\n'=1+1," in (values / "safe.csv").read_text()


def test_known_values_of_unknown_items_are_said_and_the_others_counted(run: Run, folder: Path) -> None:
    (folder / "in.csv").write_text("item,annotator,value\n0,a,1\n0,b,2\n1,a,3\n1,b,5\n2,a,4\n2,b,4.5\n")
    (folder / "gold.csv").write_text("item,value\nzzz,3\n0,1.5\n")
    found = run("regress", "in.csv", "--gold", "gold.csv", "-o", "out.csv").stderr
    assert "1 gold values are of items without values" in found
    assert "1 known value kept" in found
