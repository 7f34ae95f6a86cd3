from __future__ import annotations

import json
import math
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.cli.job import number
from crowdwise.estimator.registry import METHODS as EVERY_METHOD
from crowdwise.estimator.registry import label_methods

METHODS = label_methods()


def test_annotators_best_first(run: Run, folder: Path) -> None:
    rows = json.loads(run("annotators", "votes.csv", "--json").stdout)
    assert [row["annotator"] for row in rows][-1] == "z"
    assert rows[-1]["agreement"] == 0.25
    run("annotators", "votes.csv", "-o", "annotators.csv")
    assert pl.read_csv(folder / "annotators.csv").height == 3


def test_annotators_of_a_saved_model(run: Run) -> None:
    run("aggregate", "votes.csv", "-m", "dawid-skene", "--save", "model")
    assert run("annotators", "model").stdout == run("annotators", "votes.csv", "-m", "dawid-skene").stdout
    assert "saved result" in run("annotators", "model", "--method", "glad", code=2).stderr


def test_explain_adds_up(run: Run) -> None:
    why = json.loads(run("explain", "a", "votes.csv", "--json").stdout)
    assert (why["item"], why["label"], why["against"], why["known"]) == ("a", "cat", "dog", False)
    assert [row["source"] for row in why["rows"]] == ["class prior", "x", "y", "z", "models", "caution"]
    assert sum(row["contribution"] for row in why["rows"]) == pytest.approx(why["total"])
    assert why["total"] == pytest.approx(math.log(why["confidence"] / (1 - why["confidence"])))
    plain = json.loads(run("explain", "a", "votes.csv", "-m", "dawid-skene", "--set", "confidence=model", "--json").stdout)
    assert [row["source"] for row in plain["rows"]] == ["class prior", "x", "y", "z"]


def test_explain_as_text_and_from_a_folder(run: Run) -> None:
    run("aggregate", "votes.csv", "--save", "model")
    text = run("explain", "a", "votes.csv").stdout
    assert text.startswith("a: cat, probability")
    assert "▇" in text
    assert run("explain", "a", "model").stdout == text


def test_a_folder_is_no_output(run: Run, folder: Path) -> None:
    (folder / "there").mkdir()
    assert "-o: there is a folder; name a file in it" in run("aggregate", "votes.csv", "-o", "there", code=2).stderr


def test_a_file_is_no_folder_for_the_demo(run: Run, folder: Path) -> None:
    before = (folder / "votes.csv").read_text()
    assert "-o: votes.csv is a file; name a folder" in run("demo", "-o", "votes.csv", code=2).stderr
    assert (folder / "votes.csv").read_text() == before


def test_weights_that_nobody_named_are_pointed_out(run: Run, folder: Path) -> None:
    (folder / "weighted.csv").write_text("item,annotator,label,weight\na,x,p,1\na,y,q,3\nb,x,p,1\n")
    assert "'weight' (not used; --weight weight does)" in run("aggregate", "weighted.csv", "-m", "majority").stderr
    used = run("aggregate", "weighted.csv", "-m", "majority", "--weight", "weight")
    assert "not used" not in used.stderr
    # Three votes of four are for q.
    assert used.stdout.splitlines()[1].startswith("a,q,")


def test_explain_needs_votes_and_a_known_item(run: Run) -> None:
    run("explain", "a", code=2)
    assert "no item 'q'" in run("explain", "q", "votes.csv", code=1).stderr


def test_simulate_round_trip(run: Run, folder: Path) -> None:
    sizes = ["--items", "30", "--annotators", "8", "--classes", "a,b", "--votes-per-item", "3-4"]
    run("simulate", "-o", "v.csv", "--truth", "t.csv", *sizes, "--kind", "one-coin=0.5,constant-spammer=0.5", "--seed", "3")
    votes, truth = pl.read_csv(folder / "v.csv"), pl.read_csv(folder / "t.csv")
    assert votes.columns == ["item", "annotator", "label"]
    assert votes.group_by("item").len()["len"].is_in([3, 4]).all()
    assert truth.height == 30
    assert set(truth["label"]) <= {"a", "b"}
    run("aggregate", "v.csv", "--gold", "t.csv")


def test_simulate_is_repeatable(run: Run) -> None:
    assert run("simulate", "--items", "9", "--seed", "1").stdout == run("simulate", "--items", "9", "--seed", "1").stdout
    assert run("simulate", "--items", "9", "--seed", "1").stdout != run("simulate", "--items", "9", "--seed", "2").stdout


@pytest.mark.parametrize(
    "wrong", [["--kind", "one-coni"], ["--kind", "one-coin=x"], ["--votes-per-item", "few"], ["--items", "0"]]
)
def test_simulate_refuses(run: Run, wrong: list[str]) -> None:
    assert run("simulate", *wrong, code=2).stderr.startswith("error: ")


def test_convert_there_and_back(run: Run, folder: Path) -> None:
    run("convert", "votes.csv", "-o", "tasks.json", "--to", "label-studio")
    run("convert", "tasks.json", "-o", "back.csv")
    run("convert", "votes.csv", "-o", "votes.parquet")
    again = pl.read_csv(folder / "back.csv").sort("item", "annotator")
    assert again.equals(pl.read_csv(folder / "votes.csv").sort("item", "annotator"))
    assert pl.read_parquet(folder / "votes.parquet").height == 12


def test_convert_refuses(run: Run, folder: Path) -> None:
    assert "did you mean 'toloka'" in run("convert", "votes.csv", "-o", "x.tsv", "--to", "tolka", code=2).stderr
    run("convert", "votes.csv", "-o", "votes.csv", code=2)
    run("convert", "votes.csv", "-o", "-", code=2)
    assert sorted(path.name for path in folder.iterdir()) == ["truth.csv", "votes.csv"]


def test_methods_as_json(run: Run) -> None:
    rows = json.loads(run("methods", "--json").stdout)
    assert [row["name"] for row in rows] == list(EVERY_METHOD)
    assert {"name", "family", "summary", "needs", "on_shards", "reference", "settings"} == set(rows[0])
    assert {"name", "default", "about"} <= set(rows[0]["settings"][0])


def test_methods_as_text(run: Run) -> None:
    text = run("methods").stdout
    assert all(name in text for name in METHODS)
    assert "\x1b" not in text
    assert "smoothing" in run("methods", "dawid-skene").stdout
    assert "did you mean 'mace'" in run("methods", "mcae", code=2).stderr


def test_summary(run: Run) -> None:
    found = json.loads(run("summary", "votes.csv", "--json").stdout)
    assert (found["n_items"], found["n_votes"], found["pairwise_agreement"]) == (4, 12, 0.5)
    assert "pairwise_agreement" in run("summary", "votes.csv").stdout


def test_numbers_that_json_lacks_are_null(run: Run, folder: Path) -> None:
    (folder / "alone.csv").write_text("item,annotator,label\n1,x,a\n2,x,b\n")
    assert json.loads(run("summary", "alone.csv", "--json").stdout)["pairwise_agreement"] is None


def test_demo(run: Run, folder: Path) -> None:
    text = run("demo", "-o", "out").stdout
    written = {path.name for path in (folder / "out").iterdir()}
    assert written == {"votes.csv", "truth.csv", "labels.csv", "annotators.csv", "page.html"}
    assert "page.html" in text
    assert "annotator-12" in text
    again = run("aggregate", "out/votes.csv", "-o", "labels.csv")
    assert again.stdout == ""
    assert (folder / "labels.csv").read_bytes() == (folder / "out" / "labels.csv").read_bytes()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("aggregate", "(consensus)"),
        ("plan", "(consensus)"),
        ("annotators", "(consensus)"),
        ("suggest", "(dawid-skene; raykar with features)"),
        ("simulate-campaign", "(dawid-skene; raykar with features)"),
    ],
)
def test_help_names_the_method_that_a_command_runs_by_default(run: Run, command: str, said: str) -> None:
    shown = " ".join(run(command, "--help", env={"COLUMNS": "250"}).stdout.replace("│", " ").split())
    assert f"[default: {said}]" in shown


def test_what_is_left_of_a_difference_of_equal_numbers_is_nothing() -> None:
    assert [number(value) for value in (5.6e-17, 0.0, 2e-9, 0.25)] == ["0", "0", "2e-09", "0.25"]
