"""``crowdwise rank``: files in, scores, annotators, preferences and pictures out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.data.simulate.comparisons import simulate_comparisons

GAMES = "item_a,item_b,annotator,winner\nx,y,ann,x\ny,z,ann,y\nx,z,bob,a\nz,y,bob,tie\nx,y,bob,\n"


@pytest.fixture
def games(folder: Path) -> Path:
    (folder / "games.csv").write_text(GAMES)
    return folder


def test_scores_go_to_stdout_best_first(run: Run, games: Path) -> None:
    result = run("rank", "games.csv")
    frame = pl.read_csv(result.stdout.encode())
    assert frame["item"].to_list() == ["x", "y", "z"]
    assert frame["rank"].to_list() == [1, 2, 3]
    assert "crowd-bt: 4 comparisons (1 row without an answer dropped), 3 items, 2 annotators" in result.stderr
    assert run("rank", "-", input=GAMES).stdout == result.stdout
    assert run("rank", "games.csv", "--quiet").stderr == ""


def test_everything_is_written_and_the_scores_last(run: Run, games: Path) -> None:
    arguments = ["--annotators", "a.csv", "--preferences", "p.jsonl", "--plot", "p.png", "-o", "s.parquet"]
    pytest.importorskip("matplotlib")
    said = run("rank", "games.csv", *arguments).stderr
    assert said.index("wrote p.jsonl: 3 pairs") < said.index("wrote s.parquet: 3 items")
    assert pl.read_parquet(games / "s.parquet").height == 3
    assert pl.read_csv(games / "a.csv")["action"].to_list() == ["keep", "keep"]
    lines = [json.loads(line) for line in (games / "p.jsonl").read_text().splitlines()]
    assert [(line["item_a"], line["item_b"], line["winner"]) for line in lines] == [
        ("x", "y", "x"),
        ("x", "z", "x"),
        ("y", "z", "y"),
    ]
    assert all(line["weight_winner"] + line["weight_loser"] == pytest.approx(1) for line in lines)
    assert (games / "p.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_the_run_the_items_and_the_annotators(run: Run, games: Path) -> None:
    document = json.loads(run("rank", "games.csv", "--json", "-m", "bradley-terry", "--set", "ties=davidson").stdout)
    assert (document["method"], document["n_components"], document["converged"]) == ("bradley-terry", 1, True)
    assert len(document["items"]) == 3
    assert document["tie"] is not None


def test_adversaries_are_named(run: Run, folder: Path) -> None:
    sim = simulate_comparisons(10, 2000, 6, adversaries=1 / 6, random_state=1).comparisons
    frame = sim.to_frame().with_columns(pl.col("outcome").replace_strict({1: "left", -1: "right"}))
    frame.rename({"first": "one", "second": "two", "outcome": "won"}).write_csv(folder / "many.csv")
    names = ["--first", "one", "--second", "two", "--winner", "won"]
    assert "annotators who answer in reverse (1): 0" in run("rank", "many.csv", *names).stderr


def test_features_rank_by_a_network(run: Run, games: Path) -> None:
    pytest.importorskip("torch")
    np.savez(games / "X.npz", X=np.array([[2.0], [1.0], [0.0], [5.0]]), items=np.array(["x", "y", "z", "new"]))
    arguments = ["--features", "X.npz", "--set", "network=linear", "--set", "epochs=20"]
    frame = pl.read_csv(run("rank", "games.csv", *arguments).stdout.encode())
    assert frame["item"].to_list() == ["x", "y", "z"]
    run("rank", "games.csv", "--method", "rank-network", code=2)
    run("rank", "games.csv", "--method", "crowd-bt", "--features", "X.npz", code=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "crowdbt"], "did you mean 'crowd-bt'?"),
        (["--method", "dawid-skene"], "no method 'dawid-skene' (there are bradley-terry"),
        (["--set", "right=0"], "right must be at least 1"),
        (["-o", "s.doc"], "-o"),
        (["-o", "games.csv"], "also the input"),
        (["--plot", "p.gif"], "a plot ends in"),
        (["--preferences", "-"], "only -o can go to stdout"),
        (["--evidence", "all"], "--evidence: there is no 'all'"),
        (["--evidence", "votes", "-m", "bradley-terry"], "does not model annotators"),
        (["--json", "-o", "-"], "both ask for stdout"),
    ],
)
def test_wrong_usage_ends_with_two(run: Run, games: Path, arguments: list[str], message: str) -> None:
    assert message in run("rank", "games.csv", *arguments, code=2).stderr


def test_faults_of_the_data_end_with_one(run: Run, games: Path) -> None:
    (games / "bad.csv").write_text("item_a,item_b,annotator,winner\nx,y,ann,w\n")
    assert "bad.csv row 2: the winner 'w' is neither" in run("rank", "bad.csv", code=1).stderr
    assert "no first and no second column" in run("rank", "votes.csv", code=1).stderr
    (games / "none.csv").write_text("item_a,item_b,annotator,winner\nx,y,ann,\n")
    assert "there are no comparisons" in run("rank", "none.csv", code=1).stderr
    assert "scores are infinite" in run("rank", "games.csv", "-m", "bradley-terry", "--set", "prior=0", code=1).stderr


def test_formulas_are_escaped(run: Run, games: Path) -> None:
    (games / "risky.csv").write_text("item_a,item_b,annotator,winner\n=1+1,y,ann,y\n")
    run("rank", "risky.csv", "-o", "s.csv")
    assert "'=1+1" in (games / "s.csv").read_text()
