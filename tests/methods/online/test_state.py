"""The state of online methods: growth, cost, odd votes, gold, saving."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, random_votes
from tests.methods.online.helpers import nothing, reopened

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, NotFittedError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.methods.online.online_em import OnlineEM
from crowdwise.methods.online.state import State
from crowdwise.methods.online.streaming import StreamingDawidSkene
from crowdwise.methods.online.vocabulary import Vocabulary

both = pytest.mark.parametrize("cls", [StreamingDawidSkene, OnlineEM])


def easy(n_items: int = 40) -> Annotations:
    return crowd(7, n_items, diagonal_crowd(5, 3, 0.85))[0]


# -- the cost of an update ------------------------------------------------------------------------


@both
def test_the_work_of_an_update_does_not_grow_with_the_state(cls: Any) -> None:
    arriving = Annotations.from_arrays([f"new {n}" for n in range(50)] * 2, [0, 1] * 50, [0, 1, 2, 0] * 25, classes=range(3))
    work = {}
    for n_items in (200, 4000):
        # No change can be below this, so that every item is visited as often as the sweeps allow.
        model = cls(sweeps=3, tol=1e-300).fit(easy(n_items))
        model.update(arriving)
        work[n_items] = model.work_
    # Three visits to a hundred new votes, and one to three times fifty older items of five votes.
    assert work == {200: 3 * 100 + 150 * 5, 4000: 3 * 100 + 150 * 5}


@both
def test_an_update_within_the_room_moves_nothing(cls: Any) -> None:
    model = cls().fit(easy(100))
    before = model._state.arrays
    model.update(easy(5))
    after = model._state.arrays
    assert all(old is new for old, new in zip(before, after, strict=True))


def test_room_grows_by_a_share_and_one_array_at_a_time() -> None:
    state, votes = State(np.array([0, 1])), Annotations.from_arrays([0] * 50, ["x"] * 50, [0, 1] * 25)
    moves, together, last = 0, [], state.arrays
    for n in range(400):
        state.add(votes)
        moved = [now is not then for now, then in zip(state.arrays, last, strict=True)]
        moves, last = moves + (state.arrays.turn is not last.turn), state.arrays
        if n > 100:
            together.append(sum(moved))
    # Doubled from 100 on, up to 8192; from there on longer by a sixteenth at least.
    assert moves <= 8 + np.log(20_000 / 8192) / np.log(17 / 16) + 1
    assert max(together) == 1


@both
def test_a_result_is_made_when_asked_for_and_kept(cls: Any) -> None:
    model = cls().fit(easy())
    model.update(easy(3))
    assert "result_" not in vars(model)
    first = model.result_
    assert model.result_ is first
    model.update(easy(3))
    assert model.result_ is not first
    assert first.votes.n_votes == 215
    assert model.result_.votes.n_votes == 230


# -- odd votes ------------------------------------------------------------------------------------


@both
def test_a_model_without_votes_says_so(cls: Any) -> None:
    with pytest.raises(NotFittedError, match="update"):
        _ = cls().result_
    assert not hasattr(cls(), "labels_")


@both
@pytest.mark.parametrize(
    "votes",
    [([0], [0], [1]), ([0, 0, 0], [0, 1, 2], [0, 1, 1]), ([0, 1, 2], [0, 0, 0], [0, 1, 1]), ([0] * 4, [0] * 4, [0, 0, 1, 0])],
    ids=["one vote", "one item", "one annotator", "repeats"],
)
def test_tiny_votes_at_once_and_one_by_one(cls: Any, votes: Any) -> None:
    whole = cls().fit(Annotations.from_arrays(*votes, classes=[0, 1]))
    model = cls().fit(nothing([0, 1]))
    for n, a, l in zip(*votes, strict=True):
        model.update(Annotations.from_arrays([n], [a], [l], classes=[0, 1]))
    assert model.posterior_.shape == whole.posterior_.shape
    assert model.result_.votes.n_votes == len(votes[0])
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)
    assert model.labels_.tolist() == whole.labels_.tolist()


@both
def test_updates_without_votes_change_nothing(cls: Any) -> None:
    model = cls().fit(easy())
    before = model._state.used("counts").copy()
    kinds = {"item": pl.Int64, "annotator": pl.Int64, "label": pl.Int64}
    for empty in (nothing(range(3)), pl.DataFrame(schema=kinds), pd.DataFrame({"item": [], "annotator": [], "label": []})):
        model.update(empty)
        assert model.work_ == 0
    np.testing.assert_array_equal(model._state.used("counts"), before)
    assert model.result_.votes.n_votes == 200


@both
def test_a_vote_that_weighs_nothing_changes_nothing(cls: Any) -> None:
    model = cls().fit(easy())
    before = [model._state.used(name).copy() for name in ("counts", "turns", "posterior")]
    model.update(Annotations.from_arrays([0, "new"], [0, 1], [1, 2], [0.0, 0.0], classes=range(3)))
    assert model.work_ == 0
    for old, name in zip(before, ("counts", "turns", "posterior"), strict=True):
        np.testing.assert_array_equal(model._state.used(name)[: len(old)], old)
    # Nor does it when the item is visited later.
    model.update(Annotations.from_arrays([0], [2], [1], classes=range(3)))
    assert model._state.used("turns").tolist() == [40, 40, 41, 40, 40]


@both
def test_items_and_annotators_without_votes_stay_in_the_vocabularies(cls: Any) -> None:
    model = cls().fit(easy())
    model.update(Annotations.from_arrays([], [], [], items=["waiting"], annotators=["idle"], classes=range(3)))
    assert model.result_.items_frame().filter(pl.col("item") == "waiting")["note"].to_list() == ["no votes"]
    assert "idle" in model.result_.votes.annotators
    waiting = model.opinion(["waiting"])[0]
    assert waiting.sum() == pytest.approx(1)
    position = model.result_.votes.items.tolist().index("waiting")
    np.testing.assert_allclose(waiting, model.posterior_[position], atol=1e-12)


@both
def test_new_classes_find_a_place_behind_the_others(cls: Any) -> None:
    model = cls().fit(Annotations.from_arrays([0, 0, 1, 1], ["x", "y"] * 2, ["b", "b", "c", "c"]))
    with pytest.warns(DataWarning, match="did not have: a"):
        model.update(Annotations.from_arrays([2, 2, 0], ["x", "y", "z"], ["a", "a", "b"]))
    assert model.classes_.tolist() == ["b", "c", "a"]
    assert model.labels_.tolist() == ["b", "c", "a"]
    assert model.confusion_.shape == (3, 3, 3)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1)


def test_classes_named_before_or_met_later_end_with_the_same_counts() -> None:
    # Without extra sweeps the posteriors of the first items differ (the prior knows fewer classes); settled, they do not.
    settled = {"sweeps": 3000, "tol": 1e-13, "revisit": 100.0}
    votes = crowd(3, 30, diagonal_crowd(5, 3, 0.9))[0]
    old = np.isin(votes.item, np.flatnonzero(np.bincount(votes.item, weights=votes.label == 2, minlength=30) == 0))
    parts = [Annotations.from_arrays(votes.item[s], votes.annotator[s], votes.label[s]) for s in (old, ~old)]
    assert parts[0].classes.tolist() == [0, 1]
    model = StreamingDawidSkene(**settled).fit(parts[0])
    with pytest.warns(DataWarning, match="did not have"):
        model.update(parts[1])
    for _ in range(60):
        # A vote that weighs next to nothing: all items are visited again.
        model.update(Annotations.from_arrays([0], ["nobody"], [0], [1e-12], classes=range(3)))
    whole = StreamingDawidSkene(**settled).fit(votes)
    np.testing.assert_allclose(model.result_.model_posterior, whole.result_.model_posterior, atol=1e-6)


@both
def test_ids_of_any_script_and_kind(cls: Any) -> None:
    model = cls().fit(nothing(["да", "нет"]))
    model.update({"item": ["日本", "日本"], "annotator": ["žluť", "عين"], "label": ["да", "да"]})
    model.update({"item": ["👩‍🔬", "日本"], "annotator": ["žluť", "ny"], "label": ["нет", "да"]})
    assert dict(zip(model.items_, model.labels_, strict=True)) == {"日本": "да", "👩‍🔬": "нет"}
    # Numbers and text are compared as text.
    model = cls().fit(Annotations.from_arrays([7, 8], [1, 2], [0, 1]))
    model.update(Annotations.from_arrays(["7", "x"], ["1", "new"], [0, 1]))
    assert model.items_.tolist() == ["7", "8", "x"]
    assert model.result_.votes.votes_per_item.tolist() == [2, 1, 1]
    np.testing.assert_allclose(model.opinion([7]), model.result_.model_posterior[:1], atol=1e-12)
    with pytest.raises(InputError, match="nowhere"):
        model.opinion(["nowhere"])


def test_a_vocabulary_finds_what_it_was_given() -> None:
    ids = Vocabulary()
    assert ids.add(np.array([5, 3])).tolist() == [0, 1]
    assert ids.add(np.array([3, 9])).tolist() == [1, 2]
    assert ids.find(np.array(["9", "09", "x", "-5"], dtype=object)).tolist() == [2, -1, -1, -1]
    assert ids.order().tolist() == [1, 0, 2]
    assert ids.add(np.array(["9", "b"], dtype=object)).tolist() == [2, 3]
    assert ids.array().tolist() == ["5", "3", "9", "b"]
    truths = Vocabulary()
    assert truths.add(np.array([True])).tolist() == [0]
    assert truths.find(np.array([1, 0])).tolist() == [-1, -1]
    assert truths.find(np.array(["True"], dtype=object)).tolist() == [0]
    # The rows of a bootstrap sample stay apart.
    sample = Vocabulary()
    assert sample.add(np.array([4, 4, 2])).tolist() == [0, 1, 2]
    assert sample.find(np.array([4])).tolist() == [0]


# -- gold, weights, priors ------------------------------------------------------------------------


@both
def test_gold_in_every_form_and_of_old_items(cls: Any) -> None:
    model = cls().fit(easy(), gold={0: 2})
    model.update(easy(3), gold={5: 1})
    model.update(nothing(range(3)), gold=pl.DataFrame({"item": [6], "label": [0]}))
    model.update(nothing(range(3)), gold=pd.Series([1], index=[7]))
    assert model.labels_[[0, 5, 6, 7]].tolist() == [2, 1, 0, 1]
    assert model.posterior_[[0, 5, 6, 7]].max(axis=1).tolist() == [1, 1, 1, 1]
    model.update(nothing(range(3)), gold={7: 2})
    assert model.labels_[7] == 2
    with pytest.warns(DataWarning, match="1 gold labels are of items without votes"):
        model.update(easy(3), gold={"nowhere": 1})


@both
def test_refused_votes_leave_the_model_as_it_was(cls: Any) -> None:
    model = cls(class_prior=[0.5, 0.25, 0.25]).fit(easy())
    before = model.posterior_.copy()
    refused: list[tuple[Any, Any, Any, str]] = [
        (7, None, InputError, "expected Annotations"),
        (easy(3), {0: "no such class"}, InputError, "not among the classes"),
        (easy(3), [0, 1, 2], InputError, "must name its items"),
        (Annotations.from_arrays([0], [0], ["a fourth"]), None, SettingError, "class_prior"),
    ]
    for votes, gold, error, message in refused:
        with pytest.raises(error, match=message):
            model.update(votes, gold=gold)
    assert model._state.n_votes == 200
    assert model.posterior_.tobytes() == before.tobytes()


@both
def test_history_of_annotators_stays_through_updates(cls: Any) -> None:
    tied = Annotations.from_arrays([0, 0], ["x", "y"], ["p", "q"])
    model = cls(class_prior="uniform").fit(tied, history={"x": (1, 40), "y": (40, 1)})
    assert model.labels_.tolist() == ["q"]
    model.update(Annotations.from_arrays([1, 1, 2], ["x", "y", "newcomer"], ["q", "p", "p"]))
    assert model.labels_.tolist() == ["q", "p", "p"]
    assert model.result_.history.shape == (3, 2, 2)
    names = model.result_.votes.annotators.tolist()
    assert model.result_.history[names.index("newcomer")].sum() == 0
    assert model.result_.history[names.index("y")].sum() == pytest.approx(41)


def test_settings_that_what_was_counted_depends_on_cannot_change() -> None:
    for model, setting in ((StreamingDawidSkene(), "forget"), (OnlineEM(), "power")):
        model.fit(easy())
        model.set_params(**{setting: 0.9})
        with pytest.raises(SettingError, match=f"{setting} cannot change"):
            model.update(easy(2))
        model.fit(easy()).update(easy(2))


@pytest.mark.parametrize(
    "model", [StreamingDawidSkene(forget=1), OnlineEM(power=1.1), OnlineEM(step=1.0), OnlineEM(start=1.0), OnlineEM(power=0.5)]
)
def test_settings_out_of_range_are_named(model: Any) -> None:
    with pytest.raises(SettingError, match=r"forget|power|step|start"):
        model.fit(easy())
    assert not hasattr(model, "labels_")


# -- saving ---------------------------------------------------------------------------------------


@both
def test_a_saved_model_goes_on_to_the_bit(cls: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = cls().fit(random_votes(rng, 30, 5, 3, 100, weight=rng.random(100)), history={0: (3, 1)})
    model.update(Annotations.from_arrays(["日本", 3], ["new", 1], [0, 2], classes=range(3)), gold={4: 1})
    model.save(tmp_path)
    loaded = reopened(cls, tmp_path)
    assert loaded.result_.posterior.tobytes() == model.posterior_.tobytes()
    for _ in range(3):
        more = random_votes(rng, 40, 6, 3, 25)
        model.update(more)
        loaded.update(more)
    assert loaded.result_.model_posterior.tobytes() == model.result_.model_posterior.tobytes()
    assert loaded.confusion_.tobytes() == model.confusion_.tobytes()
    assert loaded._state.used("counts").tobytes() == model._state.used("counts").tobytes()
    assert loaded.items_.tolist() == model.items_.tolist()


@both
def test_a_saved_result_alone_can_be_updated_too(cls: Any, tmp_path: Path) -> None:
    model = cls().fit(easy())
    model.result_.save(tmp_path)
    loaded = reopened(cls, tmp_path)
    loaded.update(easy(5))
    assert loaded.result_.votes.n_votes == 225
    model.update(easy(5))
    # The turns of the votes are not in a result, so online EM may weigh them in another order.
    assert np.abs(loaded.result_.model_posterior - model.result_.model_posterior).mean() < 0.01
    assert (loaded.labels_ == model.labels_).mean() > 0.95


@both
def test_a_damaged_state_is_refused(cls: Any, tmp_path: Path) -> None:
    model = cls().fit(easy())
    model.save(tmp_path)
    with zipfile.ZipFile(tmp_path / "result.zip") as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name.startswith("online")}
    result = Result.load(tmp_path)

    from crowdwise.estimator.storage import npy_bytes
    from crowdwise.io.limits import npy_of

    assert State.from_members(result, {}) is None
    item = npy_of(members["online/item.npy"])
    for name, wrong in (
        ("online/item.npy", npy_bytes(item + 1)),
        ("online/turn.npy", npy_bytes(np.full(200, 999, np.int32))),
        ("online/label.npy", npy_bytes(item[:-1])),
        ("online.json", json.dumps(json.loads(members["online.json"]) | {"crowdwise": 9}).encode()),
    ):
        with pytest.raises(ValueError, match=r"contradict|format"):
            State.from_members(result, members | {name: wrong})
