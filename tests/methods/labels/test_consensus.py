"""The default method: equal to its prototype, and what every fit of it promises."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.methods.labels.helpers import crowd, diagonal_crowd, quiet, random_votes

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.data.datasets import dawid_skene_1979, demo
from crowdwise.errors import DataWarning
from crowdwise.methods.labels.consensus import Consensus
from crowdwise.methods.labels.hierarchical_dawid_skene import HierarchicalDawidSkene
from crowdwise.scale import Local

SMALL = ["dawid_skene_1979", "wsd", "cf", "labelme"]
# Of the larger sets those that differ most: many or few annotators, two to five classes, many items.
LARGE = ["bluebird", "dog", "possent", "product", "web"]


@pytest.fixture(scope="module")
def prototype(shared_data: Path) -> ModuleType:
    """The prototype that the equations were measured with; it shares no code with the package."""
    path = shared_data.parent / "methods" / "consensus_prototype.py"
    if not path.is_file():
        pytest.skip(f"no prototype at {path}")
    spec = importlib.util.spec_from_file_location("consensus_prototype", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its compiled loops are kept in a cache, which finds them by the name of their module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_real_sets_equal_the_prototype(name: str, shared_data: Path, prototype: ModuleType) -> None:
    votes = crowdwise.read(next((shared_data / name).glob("annotations.csv*")))
    model = Consensus().fit(votes)
    sizes = votes.n_items, votes.n_annotators, votes.n_classes
    codes = (column.astype(np.int64) for column in (votes.item, votes.annotator, votes.label))
    calibrated, mean, members = prototype.consensus(*codes, *sizes)
    np.testing.assert_allclose(model.result_.model_posterior, mean, atol=1e-8)
    np.testing.assert_allclose(model.posterior_, calibrated, atol=1e-8)
    np.testing.assert_allclose(model.attention_, members[2].th, atol=1e-8)
    np.testing.assert_allclose(model.habit_, members[2].xi, atol=1e-8)
    np.testing.assert_allclose(model.task_confusion_, members[2].B, atol=1e-8)
    assert (model.labels_ == votes.classes[mean.argmax(axis=1)]).all()


def fit(votes: Any, *, engine: Any = None, gold: Any = None, history: Any = None, **settings: Any) -> Any:
    with quiet():
        return Consensus(**settings).fit(votes, gold=gold, history=history, engine=engine)


def some(seed: int = 0, n_items: int = 60) -> tuple[Annotations, np.ndarray]:
    tables = np.concatenate([diagonal_crowd(4, 3, 0.8), diagonal_crowd(3, 3, 0.5)])
    return crowd(seed, n_items, tables, votes_per_item=4)


# -- what it tells ---------------------------------------------------------------------------------


def test_members_are_fitted_with_the_shares_of_votes_as_an_anchor() -> None:
    votes, _ = some()
    shares = np.zeros((60, 3))
    np.add.at(shares, (votes.item, votes.label), 1)
    shares /= shares.sum(axis=1, keepdims=True)
    anchored, free = fit(votes), fit(votes, class_prior="learn")
    assert np.abs(anchored.prior_ - shares.mean(axis=0)).max() <= np.abs(free.prior_ - shares.mean(axis=0)).max()
    np.testing.assert_allclose(fit(votes, class_prior=[0.5, 0.3, 0.2]).prior_, [0.5, 0.3, 0.2])


@pytest.mark.slow
def test_its_third_member_is_a_method_of_its_own() -> None:
    votes, _ = some(n_items=40)
    rounds = {"tol": 1e-13, "max_iter": 1000}
    together, alone = fit(votes, **rounds), HierarchicalDawidSkene(**rounds).fit(votes)
    np.testing.assert_allclose(together.confusion_, alone.confusion_, atol=1e-5)
    np.testing.assert_allclose(together.concentration_, alone.concentration_, atol=1e-3)
    np.testing.assert_allclose(together.attention_, alone.result_.annotators.attention, atol=1e-5)


def test_items_differ_in_how_much_they_tell() -> None:
    votes, _ = some(1, 200)
    found = fit(votes).discrimination_
    assert found.shape == (200,)
    assert (found >= 0).all()
    assert (found <= 3).all()
    most = np.array([np.bincount(votes.label[votes.item == n]).max() for n in range(200)])
    assert found[most == 4].mean() > found[most == 2].mean()


def test_good_annotators_attend_and_the_task_has_its_confusion() -> None:
    # Whoever attends takes class 0 for class 1 in a third of the cases; the last two of eight always answer 2.
    table = np.array([[2 / 3, 1 / 3, 0], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96]])
    tables = np.concatenate([np.repeat(table[None], 6, axis=0), np.tile([0.0, 0, 1], (2, 3, 1))])
    model = fit(crowd(3, 300, tables)[0])
    assert model.attention_[:6].min() > model.attention_[6:].max() + 0.3
    assert (model.habit_[6:, 2] > 0.8).all()
    confusion = model.task_confusion_
    np.testing.assert_allclose(confusion.sum(axis=1), 1)
    assert confusion[0, 1] == pytest.approx(1 / 3, abs=0.1)
    assert np.delete(confusion - np.diag(np.diag(confusion)), 0, axis=0).max() < 0.1


def test_one_random_vote_each_is_never_certain() -> None:
    rng = np.random.default_rng(0)
    votes = Annotations.from_arrays(np.arange(200), rng.integers(0, 10, 200), rng.integers(0, 2, 200))
    assert fit(votes).result_.confidence.max() < 0.95


@pytest.mark.parametrize("gold", [None, {"0": 1}])
def test_explanations_add_up_to_the_reported_posterior(gold: Any) -> None:
    votes, _ = some(2)
    model = fit(votes, gold=gold)
    for n in range(60):
        why = model.explain(n)
        index = np.flatnonzero(votes.item == n)
        source = why.rows["source"].to_list()
        assert source[: 1 + len(index)] == ["class prior", *(str(a) for a in votes.annotators[votes.annotator[index]])]
        if why.known:
            assert n == 0
            assert len(source) == 1 + len(index)
            continue
        assert source[1 + len(index) :] in (["models", "caution"], ["caution"])
        label, against = (int(np.flatnonzero(votes.classes == c)[0]) for c in (why.label, why.against))
        odds = np.log(model.posterior_[n, label] / model.posterior_[n, against])
        assert why.total == pytest.approx(odds, rel=1e-12, abs=1e-12)
        assert why.rows["contribution"].sum() == pytest.approx(odds, rel=1e-12, abs=1e-12)
        plain = np.log(model.result_.model_posterior[n, label] / model.result_.model_posterior[n, against])
        # T = 4^.55: caution takes 1 - 1 / T of the odds.
        assert why.rows["contribution"][-1] == pytest.approx(plain * (4**-0.55 - 1), rel=1e-9, abs=1e-9)


# -- what may be given -----------------------------------------------------------------------------


def test_gold_clamps_and_teaches() -> None:
    votes, truth = some(4)
    wrong = {n: int(2 - truth[n]) for n in range(20) if truth[n] != 1}
    model = fit(votes, gold=wrong)
    for n, label in wrong.items():
        assert model.posterior_[n].tolist() == np.eye(3)[label].tolist()
        assert model.result_.model_posterior[n].tolist() == np.eye(3)[label].tolist()
    assert model.result_.accuracy.mean() < fit(votes).result_.accuracy.mean()


def test_a_weight_of_two_is_a_vote_given_twice() -> None:
    rng = np.random.default_rng(5)
    votes, _ = some(5)
    weight = rng.integers(0, 4, votes.n_votes)
    names = {"items": votes.items, "annotators": votes.annotators, "classes": votes.classes}
    columns = votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label]
    weighted = Annotations.from_arrays(*columns, weight.astype(float), **names)
    repeated = Annotations.from_arrays(*(np.repeat(column, weight) for column in columns), **names)
    # A few rounds show that every step agrees; later, rounding decides when a member stops.
    first, second = (fit(each, max_iter=8) for each in (weighted, repeated))
    np.testing.assert_allclose(first.posterior_, second.posterior_, atol=1e-9)
    np.testing.assert_allclose(first.confusion_, second.confusion_, atol=1e-9)
    np.testing.assert_allclose(first.discrimination_, second.discrimination_, atol=1e-8)


def test_history_counts_like_votes_of_known_items() -> None:
    votes, _ = some(6)
    # Thirty more items of known class, all by annotator 0, who is always wrong there.
    record = np.zeros((3, 3))
    record[[0, 1, 2], [1, 2, 0]] = 10
    trusting, warned = fit(votes), fit(votes, history={0: record})
    assert warned.result_.accuracy[0] < trusting.result_.accuracy[0] - 0.1
    none = fit(votes, history={0: np.zeros((3, 3))})
    np.testing.assert_allclose(none.posterior_, trusting.posterior_, atol=1e-12)


# -- order, repetition, shards, updates ------------------------------------------------------------


def test_the_order_of_rows_and_the_names_of_classes_do_not_matter() -> None:
    votes, _ = some(7)
    order = np.random.default_rng(0).permutation(votes.n_votes)
    model = fit(votes)
    shuffled = fit(Annotations.from_arrays(votes.item[order], votes.annotator[order], votes.label[order]))
    np.testing.assert_allclose(shuffled.posterior_, model.posterior_, atol=1e-9)
    renamed = fit(Annotations.from_arrays(votes.item, votes.annotator, np.array([2, 0, 1])[votes.label]))
    np.testing.assert_allclose(renamed.posterior_[:, [2, 0, 1]], model.posterior_, atol=1e-9)


def test_the_same_votes_give_the_same_bits() -> None:
    votes, _ = some(8)
    first, second = fit(votes), fit(votes)
    assert first.posterior_.tobytes() == second.posterior_.tobytes()
    assert first.confusion_.tobytes() == second.confusion_.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("given", [False, True])
def test_shards_give_what_memory_gives(given: bool) -> None:
    campaign = demo()
    votes = campaign.votes
    more: dict[str, Any] = {}
    if given:
        more = {"gold": dict(list(campaign.gold.items())[:9]), "history": {votes.annotators[0]: (3, 9)}}
        columns = votes.items[votes.item], votes.annotators[votes.annotator], votes.classes[votes.label]
        votes = Annotations.from_arrays(*columns, np.random.default_rng(0).uniform(0.2, 2, votes.n_votes))
    expected = fit(votes, **more)
    with Local(shards=4) as engine:
        found = fit(votes, engine=engine, **more)
        np.testing.assert_allclose(found.posterior_, expected.posterior_, atol=1e-10)
        np.testing.assert_allclose(found.result_.model_posterior, expected.result_.model_posterior, atol=1e-10)
        np.testing.assert_allclose(found.confusion_, expected.confusion_, atol=1e-10)
        np.testing.assert_allclose(found.attention_, expected.attention_, atol=1e-10)
    assert found.labels_.tolist() == expected.labels_.tolist()
    assert found.result_.confidence_source == "experience"


class Stop(Exception):
    pass


def in_shards(folder: Path, work: str, progress: Any) -> pl.DataFrame:
    if not (folder / "votes.csv").exists():
        demo().votes[:50].to_frame().write_csv(folder / "votes.csv")
    with Local(shards=3, work_dir=folder / work) as engine:
        result = Consensus().fit(folder / "votes.csv", engine=engine, progress=progress).result_
        result.write_labels(folder / f"{work}.parquet")  # type: ignore[attr-defined]
    return pl.read_parquet(folder / f"{work}.parquet")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, int]:
    """Labels of a fit, and how many rounds it took."""
    total: list[int] = []
    return in_shards(tmp_path_factory.mktemp("whole"), "whole", lambda *_: total.append(1)), len(total)


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 12])
def test_an_interrupted_fit_resumes_to_the_same_bits(
    at: int, uninterrupted: tuple[pl.DataFrame, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a file may take longer than what counts as cheap.
    monkeypatch.setattr("crowdwise.scale.checkpoint._CHEAP", 1e9)
    calls: list[int] = []

    def stop(*_: object) -> None:
        calls.append(1)
        if len(calls) == at:
            raise Stop

    expected, total = uninterrupted
    with pytest.raises(Stop):
        in_shards(tmp_path, "cut", stop)
    rest: list[int] = []
    assert in_shards(tmp_path, "cut", lambda *_: rest.append(1)).equals(expected)
    # Rounds that were done are not done again.
    assert len(rest) == total - at


def test_an_update_is_the_fit_to_all_votes() -> None:
    votes, _ = some(9)
    model = fit(votes[:40])
    with quiet():
        model.update(votes[40:])
    whole = fit(votes)
    np.testing.assert_allclose(model.posterior_, whole.posterior_, atol=1e-12)
    np.testing.assert_allclose(model.confusion_, whole.confusion_, atol=1e-12)


def test_prediction_of_the_votes_of_the_fit_is_its_posterior() -> None:
    votes, _ = some(10)
    model = fit(votes)
    np.testing.assert_allclose(model.predict_proba(votes), model.posterior_, atol=1e-12)
    assert model.predict(votes).tolist() == model.labels_.tolist()
    stranger = Annotations.from_arrays(["new"], ["nobody"], [2], classes=range(3))
    unknown = model.predict_proba(stranger)
    assert unknown.sum() == pytest.approx(1)
    assert unknown.argmax() == 2
    assert unknown.max() < 0.95


def test_a_saved_fit_is_the_same(tmp_path: Path) -> None:
    votes, _ = some(11)
    model = fit(votes, gold={0: 1})
    model.save(tmp_path)
    loaded: Any = crowdwise.load(tmp_path)
    assert loaded.posterior_.tobytes() == model.posterior_.tobytes()
    assert loaded.result_.model_posterior.tobytes() == model.result_.model_posterior.tobytes()
    assert loaded.predict_proba(votes).tobytes() == model.predict_proba(votes).tobytes()
    assert loaded.discrimination_.tobytes() == model.discrimination_.tobytes()
    assert loaded.explain(3).rows.equals(model.explain(3).rows)


# -- the smallest and the oddest votes --------------------------------------------------------------


@pytest.mark.parametrize(
    "votes",
    [([0], [0], [1]), ([0, 0, 0], [0, 1, 2], [0, 1, 1]), ([0, 1, 2], [0, 0, 0], [0, 1, 1]), ([0] * 4, [0] * 4, [0, 0, 1, 0])],
    ids=["one vote", "one item", "one annotator", "repeats"],
)
def test_the_smallest_votes(votes: Any) -> None:
    model = fit(Annotations.from_arrays(*votes, classes=[0, 1, 2]))
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)
    assert np.isfinite(model.confusion_).all()
    assert np.isfinite(model.discrimination_).all()
    assert model.result_.confidence.max() < 0.999
    majority = np.bincount(votes[2]).argmax() if len(set(votes[0])) == 1 else None
    assert majority is None or model.labels_.tolist() == [majority]


def test_one_class_and_no_votes() -> None:
    with pytest.warns(DataWarning, match="only one class"):
        model = Consensus().fit(Annotations.from_arrays([0, 1], ["x", "y"], ["yes", "yes"]))
    assert model.posterior_.tolist() == [[1.0], [1.0]]
    nothing = Annotations.from_arrays([], [], [], items=["a", "b"], annotators=["x"], classes=["p", "q"])
    empty = fit(nothing)
    np.testing.assert_allclose(empty.posterior_, 0.5)
    frame = empty.result_.items_frame()
    assert frame["label"].to_list() == [None, None]
    assert frame["confidence"].to_list() == [None, None]
    assert frame["note"].to_list() == ["no votes", "no votes"]


def test_ids_of_any_script() -> None:
    table = {
        "item": ["日本", "日本", "👩‍🔬", "👩‍🔬", "عين", "عين"],
        "annotator": ["žluť", "ny"] * 3,
        "label": ["да", "да", "нет", "нет", "да", "нет"],
    }
    model = fit(Annotations.from_frame(table))
    labels = dict(zip(model.items_, model.labels_, strict=True))
    assert labels["日本"] == "да"
    assert labels["👩‍🔬"] == "нет"
    assert sorted(model.explain("日本").rows["source"].to_list()[1:3]) == ["ny", "žluť"]


def test_a_hundred_classes() -> None:
    votes, truth = crowd(12, 150, diagonal_crowd(7, 100, 0.8))
    model = fit(votes)
    assert (model.labels_ == truth).mean() > 0.95
    np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)


@pytest.mark.slow
def test_votes_without_any_signal_end_and_are_sound() -> None:
    for seed in range(5):
        model = fit(random_votes(np.random.default_rng(seed), 20, 6, 3, 60))
        assert np.isfinite(model.posterior_).all()
        np.testing.assert_allclose(model.posterior_.sum(axis=1), 1)


def test_members_stop_after_the_rounds_that_they_are_given() -> None:
    # Stopped early on purpose: no warning, which would be an error here.
    assert Consensus(max_iter=2).fit(dawid_skene_1979()).n_iter_ == 4 * 2
    # Seven rounds each at least, however little moves.
    assert Consensus(tol=0.9).fit(dawid_skene_1979()).n_iter_ == 4 * 7
