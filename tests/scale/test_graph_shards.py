"""Edges over shards: connected items lie in one shard, and all is as in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdwise import Annotations, GraphDawidSkene
from crowdwise.data.edges import Edges
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.scale import Local
from crowdwise.scale.components import packed

CHAINS, LENGTH = 40, 7


def chains(seed: int = 0, right: float = 0.7) -> tuple[Annotations, list[tuple[str, str, float]]]:
    """Chains of items, mostly of one class each, with edges of two weights; two items have no edges."""
    rng = np.random.default_rng(seed)
    n = CHAINS * LENGTH + 2
    truth = np.append(np.repeat(rng.integers(0, 3, CHAINS), LENGTH), [0, 1])
    item = np.repeat(np.arange(n), 2)
    wrong = (truth[item] + rng.integers(1, 3, len(item))) % 3
    label = np.where(rng.random(len(item)) < right, truth[item], wrong)
    names = np.array([f"i{k:04d}" for k in rng.permutation(n)])
    votes = Annotations.from_arrays(names[item], rng.integers(0, 8, len(item)), label)
    pairs = [(c * LENGTH + k, c * LENGTH + k + 1) for c in range(CHAINS) for k in range(LENGTH - 1)]
    return votes, [(str(names[a]), str(names[b]), 1.0 + (a % 2)) for a, b in pairs]


def frames(votes: Annotations, folder: Path, engine: Local, model: GraphDawidSkene, gold: Any = None) -> pl.DataFrame:
    """The labels by files, in the order of the items."""
    frame = votes.to_frame()
    for part in range(2):
        frame[part::2].write_csv(folder / f"votes-{part}.csv")
    files = [str(folder / f"votes-{part}.csv") for part in range(2)]
    model.fit(files, gold=gold, engine=engine)
    model.result_.write_labels(folder / "labels.parquet")
    return pl.read_parquet(folder / "labels.parquet").sort("item")


@pytest.mark.parametrize("inference", ["bp", "mean-field"])
@pytest.mark.parametrize("coupling", ["learned", 0.8])
def test_shards_give_what_memory_gives(tmp_path: Path, inference: str, coupling: Any) -> None:
    votes, edges = chains()
    gold = {str(votes.items[5]): 1} if coupling == "learned" else None
    settings: dict[str, Any] = {"edges": edges, "inference": inference, "coupling": coupling, "tol": 1e-4}
    memory = GraphDawidSkene(**settings).fit(votes, gold=gold)
    assert memory.coupling_ > 0
    model = GraphDawidSkene(**settings)
    with Local(shards=3, threads=2) as engine:
        found = frames(votes, tmp_path, engine, model, gold)
    expected = memory.result_.items_frame()
    assert found["item"].to_list() == expected["item"].to_list()
    assert found["label"].to_list() == expected["label"].to_list()
    numbers = [name for name in expected.columns if expected[name].dtype == pl.Float64]
    np.testing.assert_allclose(found.select(numbers).to_numpy(), expected.select(numbers).to_numpy(), atol=1e-12)
    assert model.coupling_ == pytest.approx(memory.coupling_, abs=1e-12)
    assert model.association_ == pytest.approx(memory.association_, abs=1e-9)
    assert model.result_.n_iter == memory.result_.n_iter
    np.testing.assert_allclose(model.result_.confusion, memory.confusion_, atol=1e-12)


def test_edges_that_mean_nothing_leave_the_labels_of_single_items(tmp_path: Path) -> None:
    votes, _ = chains(right=0.9)
    rng = np.random.default_rng(0)
    # Pairs by chance: most components are small.
    chosen = [(str(a), str(b)) for a, b in rng.permutation(votes.items)[:200].reshape(-1, 2)]
    model = GraphDawidSkene(edges=chosen)
    with Local(shards=3) as engine:
        found = frames(votes, tmp_path, engine, model)
    memory = GraphDawidSkene(edges=chosen).fit(votes)
    assert model.coupling_ == memory.coupling_ == 0
    np.testing.assert_allclose(found["confidence"], memory.result_.items_frame()["confidence"], atol=1e-9)


def test_components_are_whole_and_shards_about_equal(tmp_path: Path) -> None:
    votes, edges = chains()
    with Local(shards=4, work_dir=tmp_path / "work") as engine:
        frames(votes, tmp_path, engine, GraphDawidSkene(edges=edges, coupling=1, tol=1e-2))
        places = {}
        sizes = []
        for index in range(4):
            ids = pl.read_ipc(tmp_path / "work" / f"shard-{index:05d}" / "items.arrow")["item"].to_list()
            sizes.append(len(ids))
            places.update(dict.fromkeys(ids, index))
    assert all(places[a] == places[b] for a, b, _ in edges)
    # 10 chains of 7 each, and two items that may be anywhere.
    assert max(sizes) - min(sizes) <= 2


def test_the_largest_is_packed_first_into_the_emptiest() -> None:
    assert packed(np.array([1, 9, 2, 4, 3]), 2).tolist() == [0, 0, 1, 1, 1]


def test_edges_to_other_items_are_counted_over_all_shards(tmp_path: Path) -> None:
    votes, edges = chains()
    more = [*edges, ("nobody", str(votes.items[0]), 1.0), (str(votes.items[1]), str(votes.items[1]), 1.0)]
    with Local(shards=3) as engine, pytest.warns(DataWarning, match="join an item") as said:
        frames(votes, tmp_path, engine, GraphDawidSkene(edges=more, coupling=1, tol=1e-2))
    told = [str(each.message) for each in said]
    assert any(text.startswith("1 of 242 edges join an item that is not among") for text in told)
    assert any(text.startswith("1 of 242 edges join an item to itself") for text in told)
    words = "no edge joins two items of these votes: the first is 'x', 'y'"
    with Local(shards=3) as engine, pytest.raises(InputError, match=words):
        frames(votes, tmp_path, engine, GraphDawidSkene(edges=[("x", "y")]))


def test_shards_that_were_not_cut_along_edges_are_refused(tmp_path: Path) -> None:
    votes, edges = chains()
    votes.to_frame().write_csv(tmp_path / "votes.csv")
    with Local(shards=3) as engine:
        store = engine.encode(str(tmp_path / "votes.csv"))
        for data in (store, votes):
            with pytest.raises(SettingError, match="must lie in one shard"):
                GraphDawidSkene(edges=edges).fit(data, engine=engine)
        store = engine.encode(str(tmp_path / "votes.csv"), edges=Edges.of(edges))
        assert GraphDawidSkene(edges=edges, tol=1e-2).fit(store, engine=engine).coupling_ > 0


def test_a_component_that_memory_cannot_hold_is_refused_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    votes, edges = chains()
    # Less than 4 chains of 3 classes take.
    monkeypatch.setattr("crowdwise.estimator.estimator._memory", lambda: 5e3)
    words = r"largest shard has \d+ items and 24 edges, and connected items cannot be cut"
    with Local(shards=CHAINS // 4) as engine, pytest.raises(InputError, match=words):
        frames(votes, tmp_path, engine, GraphDawidSkene(edges=edges))
