"""A sample of shards, and what shards make of doubts that were found in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import crowdwise
import crowdwise.scale
from crowdwise.scale.collecting import collected
from crowdwise.scale.doubts import believed, doubts_of, found_in


def _store(folder: Path, n_shards: int) -> crowdwise.scale.Store:
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=400)
    shared = np.where(rng.random(400) < 0.7, truth, 1 - truth)
    seen = [shared] * 3 + [truth] * 4
    label = [np.where(rng.random(400) < (0.97 if who < 3 else 0.8), own, 1 - own) for who, own in enumerate(seen)]
    frame = pl.DataFrame(
        {"item": np.tile(np.arange(400), 7), "annotator": np.repeat(list("abcdefg"), 400), "label": np.concatenate(label)}
    )
    frame.write_csv(folder / "votes.csv")
    return crowdwise.scale.encode(folder / "votes.csv", folder / "store", n_shards=n_shards)


def test_a_sample_is_made_of_whole_items_of_some_shards(tmp_path: Path) -> None:
    store = _store(tmp_path, 5)
    sample = collected(store, 1000)
    assert 1000 <= sample.n_votes < 2800
    assert set(sample.votes_per_item.tolist()) == {7}
    assert collected(store, 1).n_votes == store.shards[0].n_votes
    assert collected(store, 10**9).n_votes == collected(store).n_votes == 2800


def test_a_doubt_found_in_all_votes_is_that_of_memory(tmp_path: Path) -> None:
    from crowdwise.trust.crowd.cautious import cautious

    store = _store(tmp_path, 1)
    method = crowdwise.make("dawid-skene")
    found, sample = found_in(store)
    assert [group.names(sample) for group in found.groups] == [["a", "b", "c"]]
    found, doubts = doubts_of(found, sample, method)
    result = method.fit(sample).result_
    lowered = believed(result, doubts)
    assert (lowered.codes == result.codes).all()
    assert lowered.confidence.mean() < result.confidence.mean() - 0.05
    np.testing.assert_allclose(lowered.posterior, cautious(result, found), atol=1e-4)


def test_independent_annotators_leave_no_doubt(tmp_path: Path) -> None:
    votes = crowdwise.simulate.simulate(n_items=400, n_annotators=7, votes_per_item=7, random_state=0).votes
    votes.to_frame().write_csv(tmp_path / "votes.csv")
    found, sample = found_in(crowdwise.scale.encode(tmp_path / "votes.csv", tmp_path / "store", n_shards=2))
    assert doubts_of(found, sample, crowdwise.make("majority"))[1] == []
