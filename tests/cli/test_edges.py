"""``crowdwise aggregate --edges``: neighbours in a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run
from tests.methods.labels.test_graph_dawid_skene import grid, stripes, votes_on
from tests.scale.test_graph_shards import chains

from crowdwise import GraphDawidSkene


@pytest.fixture
def smooth(folder: Path) -> Path:
    """Votes on a grid of 12 x 12 items in bands, and its edges."""
    votes_on(stripes(12), 0, right=0.8, votes_per_item=3).to_frame().write_csv(folder / "votes.csv")
    pl.DataFrame(grid(12), schema=["source", "target"]).write_csv(folder / "edges.csv")
    return folder


def test_edges_choose_the_method_that_takes_them_and_say_what_they_found(run: Run, smooth: Path) -> None:
    result = run("aggregate", "votes.csv", "--edges", "edges.csv", "-o", "labels.csv", "--save", "model")
    assert "graph-dawid-skene: converged" in result.stderr
    assert "standard deviations more alike than any two items; an edge adds" in result.stderr
    labels = pl.read_csv(smooth / "labels.csv")["label"].to_numpy()
    expected = GraphDawidSkene(edges=grid(12)).fit(votes_on(stripes(12), 0, right=0.8, votes_per_item=3)).labels_
    np.testing.assert_array_equal(labels, expected)
    facts = json.loads(run("aggregate", "votes.csv", "--edges", "edges.csv", "--json", "-q").stdout)
    assert facts["coupling"] > 0
    # A saved model has its edges, and may get others.
    again = run("aggregate", "votes.csv", "--warm-from", "model", "-o", "again.csv", "--edges", "edges.csv")
    assert "graph-dawid-skene: converged" in again.stderr


def test_edges_that_mean_nothing_are_left_aside(run: Run, smooth: Path) -> None:
    chance = np.random.default_rng(0).permutation(144)[grid(12)]
    pl.DataFrame(chance, schema=["a", "b"]).write_csv(smooth / "edges.csv")
    assert "so edges were left aside" in run("aggregate", "votes.csv", "--edges", "edges.csv", "-o", "labels.csv").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "graph-dawid-skene"], "needs the edges between items: crowdwise aggregate VOTES --edges edges.csv"),
        (["--edges", "edges.csv", "-m", "mace"], "mace takes no edges"),
        (["--edges", "edges.csv", "--type", "ordinal"], "does not go with this --type"),
    ],
)
def test_what_does_not_go_together_is_refused(run: Run, folder: Path, arguments: list[str], message: str) -> None:
    (folder / "edges.csv").write_text("source,target\na,b\n")
    (folder / "votes.csv").write_text("item,annotator,label\na,x,1\na,y,1\nb,x,2\nb,y,1\n")
    assert message in run("aggregate", "votes.csv", *arguments, code=2).stderr


def test_a_missing_file_of_edges_is_named(run: Run, smooth: Path) -> None:
    assert "--edges: none.csv: no such file" in run("aggregate", "votes.csv", "--edges", "none.csv", code=1).stderr


def test_edges_of_other_items_are_refused(run: Run, folder: Path) -> None:
    (folder / "edges.csv").write_text("source,target\np,q\n")
    refused = run("aggregate", "votes.csv", "--edges", "edges.csv", code=1).stderr
    assert "the first is 'p', 'q', and items are such as 'a', 'b', 'c'" in refused


def test_a_first_row_that_joins_two_items_is_no_row_of_names(run: Run, smooth: Path) -> None:
    run("aggregate", "votes.csv", "--edges", "edges.csv", "-o", "named.csv")
    pl.DataFrame(grid(12)).with_columns(weight=pl.lit(1.0)).write_csv(smooth / "bare.csv", include_header=False)
    said = run("aggregate", "votes.csv", "--edges", "bare.csv", "-o", "bare-labels.csv").stderr
    assert "bare.csv: the first row joins two items, so it is read as an edge" in said
    assert (smooth / "bare-labels.csv").read_bytes() == (smooth / "named.csv").read_bytes()


def test_it_is_said_which_items_without_votes_neighbours_label(run: Run, smooth: Path) -> None:
    votes = pl.read_csv(smooth / "votes.csv")
    # Of the first item every label is missing; the last is in the edges alone.
    blank = votes.filter(pl.col("item") != 143).with_columns(label=pl.when(pl.col("item") != 0).then(pl.col("label")))
    blank.write_csv(smooth / "votes.csv")
    said = run("aggregate", "votes.csv", "--edges", "edges.csv", "-o", "labels.csv").stderr
    assert "1 item without votes: labelled by its neighbours" in said
    assert "--fill-unvoted" not in said
    assert "2 of 264 edges join an item that is not among those of the votes; they are left out, and such items (143)" in said
    labels = pl.read_csv(smooth / "labels.csv")
    assert labels.filter(item=0)["label"].null_count() == 0
    assert 143 not in labels["item"].to_list()
    # What the warning advises.
    with (smooth / "votes.csv").open("a") as file:
        file.write("143,annotator-1,\n")
    assert "2 items without votes: labelled" in run("aggregate", "votes.csv", "--edges", "edges.csv", "-o", "labels.csv").stderr


@pytest.mark.slow
def test_edges_take_part_in_a_comparison(run: Run, smooth: Path) -> None:
    pl.DataFrame({"item": range(144), "label": stripes(12).ravel()}).write_csv(smooth / "truth.csv")
    methods = ("--methods", "dawid-skene,graph-dawid-skene", "--folds", "0", "--truth", "truth.csv")
    run("compare", "votes.csv", *methods, "--edges", "edges.csv", "-o", "table.csv")
    alone, coupled = pl.read_csv(smooth / "table.csv").sort("method")["accuracy"]
    assert coupled > alone
    refused = run("compare", "votes.csv", *methods, code=2).stderr
    assert "graph-dawid-skene needs the edges between items: give them with --edges FILE" in refused


def test_the_command_takes_edges_out_of_core(run: Run, folder: Path) -> None:
    votes, edges = chains()
    votes.to_frame().write_csv(folder / "votes.csv")
    pl.DataFrame(edges, schema=["source", "target", "weight"], orient="row").write_csv(folder / "edges.csv")
    common = ("aggregate", "votes.csv", "--edges", "edges.csv", "--set", "tol=1e-3")
    memory = run(*common, "-o", "memory.csv")
    done = run(*common, "-o", "labels.csv", "--engine", "local", "--shards", "2")
    line = next(line for line in done.stderr.splitlines() if "standard deviations" in line)
    assert line in memory.stderr
    assert pl.read_csv(folder / "labels.csv").sort("item")["label"].equals(pl.read_csv(folder / "memory.csv")["label"])


def test_a_first_row_that_joins_two_items_is_an_edge_out_of_core_too(run: Run, folder: Path) -> None:
    """Two items, one vote on each, and one edge: without it, the items are as they are alone."""
    (folder / "one.csv").write_text("item,annotator,label\nx,ann,0\n")
    (folder / "two.csv").write_text("item,annotator,label\ny,ann,0\ny,bob,1\nz,bob,1\n")
    (folder / "bare.csv").write_text("x,y\nz,y\n")
    files = ("aggregate", "one.csv", "two.csv", "--set", "coupling=2", "--edges")
    said = {}
    for name in ("bare", "named"):
        (folder / "named.csv").write_text("source,target\nx,y\nz,y\n")
        done = run(*files, f"{name}.csv", "-o", f"{name}-labels.csv", "--engine", "local", "--shards", "2")
        said[name] = "bare.csv: the first row joins two items, so it is read as an edge" in done.stderr
    assert said == {"bare": True, "named": False}
    assert (folder / "bare-labels.csv").read_bytes() == (folder / "named-labels.csv").read_bytes()
    # One name that is no item: a row of names, and the other edge is all there is.
    (folder / "bare.csv").write_text("x,other\nz,y\n")
    done = run(*files, "bare.csv", "-o", "other.csv", "--engine", "local", "--shards", "2")
    assert "first row" not in done.stderr
