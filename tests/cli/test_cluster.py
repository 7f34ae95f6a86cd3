from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import Run

from crowdwise.data.simulate.similarities import simulate_pairs

TRUTH = np.arange(40) % 2


@pytest.fixture
def pairs(folder: Path) -> Path:
    votes, _, _ = simulate_pairs(TRUTH, 600, 4, random_state=0)
    frame = votes.to_frame().with_columns(same=pl.col("outcome") > 0).drop("outcome")
    frame.rename({"first": "item_a", "second": "item_b"}).write_csv(folder / "pairs.csv")
    return folder


def test_clusters_and_annotators(run: Run, pairs: Path) -> None:
    told = run("cluster", "pairs.csv", "--clusters", "2", "-o", "clusters.csv", "--annotators", "people.csv").stderr
    assert "similarity-nmf: 40 items in 2 clusters, from 600 answers by 4 annotators" in told
    frame = pl.read_csv(pairs / "clusters.csv")
    assert frame.columns == ["item", "cluster", "confidence", "n_votes", "p_1", "p_2"]
    found = frame.sort("item")["cluster"].to_numpy() - 1
    assert max(np.mean(found == TRUTH), np.mean(found != TRUTH)) == 1.0
    assert pl.read_csv(pairs / "people.csv")["skill"].is_sorted(descending=True)


def test_the_number_of_clusters_is_chosen_and_shown(run: Run, pairs: Path) -> None:
    result = run("cluster", "pairs.csv", "--set", "max_clusters=3", "--json")
    assert len(json.loads(result.stdout)) == 40
    assert "held-out answer by number of clusters: 2: " in result.stderr


@pytest.mark.slow
def test_features_by_id(run: Run, pairs: Path) -> None:
    pytest.importorskip("torch")
    order = np.random.default_rng(0).permutation(40)
    np.savez(pairs / "X.npz", X=np.stack([TRUTH, -TRUTH], axis=1)[order].astype(float), items=order)
    small = ["--set", "epochs=30", "--set", "restarts=1", "--set", "learning_rate=0.03", "--clusters", "2"]
    run("cluster", "pairs.csv", "--features", "X.npz", "-o", "clusters.csv", *small)
    found = pl.read_csv(pairs / "clusters.csv").sort("item")["cluster"].to_numpy() - 1
    assert max(np.mean(found == TRUTH), np.mean(found != TRUTH)) == 1.0
    np.savez(pairs / "X.npz", X=np.zeros((39, 2)), items=np.arange(39))
    assert (
        "no row for 1 of the 40 items, such as 39" in run("cluster", "pairs.csv", "--features", "X.npz", *small, code=1).stderr
    )
    np.savez(pairs / "X.npz", X=np.zeros((39, 2)))
    assert "39 rows and no ids" in run("cluster", "pairs.csv", "--features", "X.npz", *small, code=1).stderr


def test_failures_name_the_fix(run: Run, pairs: Path) -> None:
    assert "at least 2" in run("cluster", "pairs.csv", "--clusters", "1", code=2).stderr
    assert "leave --features out" in run("cluster", "pairs.csv", "--features", "X.npz", "-m", "similarity-nmf", code=2).stderr
    (pairs / "bad.csv").write_text("item_a,item_b,annotator,same\nx,y,a,1\nx,z,a,perhaps\n")
    assert "bad.csv row 3: the answer 'perhaps'" in run("cluster", "bad.csv", "-k", "2", code=1).stderr
    assert "is also the input" in run("cluster", "pairs.csv", "-o", "pairs.csv", code=2).stderr


def test_crowd_clustering_needs_features(run: Run, pairs: Path) -> None:
    pytest.importorskip("torch")
    assert "--features" in run("cluster", "pairs.csv", "-m", "crowd-clustering", "-k", "2", code=2).stderr
