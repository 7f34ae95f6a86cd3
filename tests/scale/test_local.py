"""Shards on one machine give what memory gives, for every method that runs on them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import small_votes

from crowdwise import Annotations, DawidSkene, MajorityVote
from crowdwise.data.simulate import simulate
from crowdwise.engines.shards import Kept
from crowdwise.errors import ConvergenceWarning, CrowdwiseWarning, DataWarning, InputError, SettingError
from crowdwise.estimator.registry import label_methods, make, select
from crowdwise.scale import Local, Store
from crowdwise.scale.checkpoint import Checkpoints
from crowdwise.scale.collecting import collected

METHODS = label_methods()

ADDITIVE = list(select(shards=True))
OTHERS = [name for name in METHODS if name not in ADDITIVE]
CROWD = simulate(n_items=400, n_annotators=12, n_classes=4, votes_per_item=(1, 6), random_state=3)


def quietly(model: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return model.fit(*arguments, **options)


def assert_same(found: Any, expected: Any, atol: float = 1e-8) -> None:
    np.testing.assert_allclose(found.posterior_, expected.posterior_, atol=atol)
    assert found.labels_.tolist() == expected.labels_.tolist()
    np.testing.assert_allclose(found.confusion_, expected.confusion_, atol=atol)
    np.testing.assert_allclose(found.prior_, expected.prior_, atol=atol)
    assert found.result_.n_iter == expected.result_.n_iter
    assert found.result_.converged == expected.result_.converged


def test_all_methods_that_count_run_on_shards() -> None:
    wanted = {
        "consensus",
        "hierarchical-dawid-skene",
        "majority",
        "wawa",
        "dawid-skene",
        "one-coin",
        "confusion-vector",
        "bayes-gc",
        "mace",
        "online-em",
        "streaming-ds",
    }
    assert set(ADDITIVE) == wanted


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shards"), [*((name, 3) for name in ADDITIVE), ("dawid-skene", 1), ("dawid-skene", 8)])
def test_shards_give_what_memory_gives(name: str, shards: int) -> None:
    expected = make(name).fit(CROWD.votes)
    with Local(shards=shards, threads=2) as engine:
        assert_same(make(name).fit(CROWD.votes, engine=engine), expected)


# A vote, the loop, and a state that travels: the loop is the same code for all parts, whose counts are tested with them.
@pytest.mark.parametrize("name", ["wawa", "dawid-skene", "streaming-ds"])
@given(votes=small_votes(), shards=st.integers(1, 5), threads=st.integers(1, 3))
def test_any_votes_in_any_number_of_shards(name: str, votes: Annotations, shards: int, threads: int) -> None:
    settings = {"max_iter": 5} if "max_iter" in make(name).get_params() else {}
    expected = quietly(make(name, **settings), votes)
    with Local(shards=shards, threads=threads) as engine:
        found = quietly(make(name, **settings), votes, engine=engine)
    # Not labels: rounding may decide between classes that are equally probable.
    np.testing.assert_allclose(found.posterior_, expected.posterior_, atol=1e-7)


# One of each kind of parts: what is given goes through the loop, which is the same code for all.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["majority", "dawid-skene", "bayes-gc", "mace", "hierarchical-dawid-skene", "streaming-ds"])
def test_weights_gold_history_and_class_shares_count_on_shards_too(name: str) -> None:
    rng = np.random.default_rng(0)
    frame = CROWD.votes.to_frame().with_columns(weight=pl.Series(rng.random(CROWD.votes.n_votes)))
    votes = Annotations.from_frame(frame, weight="weight")
    gold = dict(list(CROWD.gold.items())[:50])
    history = {CROWD.votes.annotators[0]: (30, 2), CROWD.votes.annotators[3]: (1, 20)}
    options: dict[str, Any] = {"gold": gold, "history": history}
    settings = {"class_prior": [0.4, 0.3, 0.2, 0.1]}
    expected = make(name, **settings).fit(votes, **options)
    with Local(shards=3) as engine:
        assert_same(make(name, **settings).fit(votes, engine=engine, **options), expected)


@pytest.mark.parametrize("settings", [{"hard": True}, {"init": "hard-votes"}, {"init": "one-coin"}, {"smoothing": 0.0}])
def test_variants_of_dawid_skene_are_the_same(settings: dict[str, Any]) -> None:
    expected = quietly(DawidSkene(max_iter=30, **settings), CROWD.votes)
    with Local(shards=4) as engine:
        assert_same(quietly(DawidSkene(max_iter=30, **settings), CROWD.votes, engine=engine), expected)


@pytest.mark.slow
def test_items_without_votes_get_the_class_shares_of_all_shards() -> None:
    columns = {"item": [1, 1, 2, 3], "annotator": ["a", "b", "a", "b"], "label": ["x", "x", "y", "x"]}
    votes = Annotations.from_arrays(**columns, items=[1, 2, 3, 4, 5])
    for name in ("majority", "dawid-skene"):
        with Local(shards=4) as engine:
            assert_same(quietly(make(name), votes, engine=engine), quietly(make(name), votes))


@pytest.mark.parametrize("name", OTHERS)
def test_methods_that_need_all_votes_say_so(name: str) -> None:
    with Local(shards=2) as engine, pytest.raises(SettingError, match=f"{name} takes no engine.*dawid-skene"):
        make(name).fit(CROWD.votes, engine=engine)


@pytest.mark.parametrize("settings", [{"restarts": 2}, {"init": "random"}, {"init": "moments"}])
def test_starts_that_need_all_votes_say_so(settings: dict[str, Any]) -> None:
    with Local(shards=2) as engine, pytest.raises(SettingError, match="votes in shards start from votes"):
        DawidSkene(**settings).fit(CROWD.votes, engine=engine)


@pytest.mark.parametrize("settings", [{"shards": 0}, {"shards": 1.5}, {"threads": 0}])
def test_impossible_engines_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="must be a whole number >= 1"):
        Local(**settings)


# -- votes in files ----------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The crowd's votes in three files, an item's votes in any of them."""
    folder = tmp_path / "votes"
    folder.mkdir()
    frame = CROWD.votes.to_frame().sample(fraction=1.0, shuffle=True, seed=0)
    for i in range(3):
        frame[i::3].write_parquet(folder / f"{i}.parquet")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["consensus", "majority", "dawid-skene", "online-em"])
def test_labels_of_files_are_those_of_memory(name: str, files: Path, tmp_path: Path) -> None:
    expected = make(name).fit(CROWD.votes)
    with Local(shards=3, work_dir=tmp_path / "work") as engine:
        model = make(name).fit(files, engine=engine)
        result: Any = model.result_
        assert result.write_labels(tmp_path / "labels.parquet") == CROWD.votes.n_items
    rows, own = pl.read_parquet(tmp_path / "labels.parquet").sort("item"), expected.result_.items_frame()
    assert rows.columns == own.columns
    if name == "online-em":
        # Votes arrive in another order, which counts there.
        assert (rows["label"] == own["label"]).mean() > 0.9
        return
    atol = 1e-8 if name != "streaming-ds" else 0.05
    same = ("item", "confidence_source", "n_votes", "note")
    assert rows.select(same).equals(own.select(same))
    np.testing.assert_allclose(rows["confidence"].to_numpy(), own["confidence"].to_numpy(), atol=atol)
    shares = [column for column in own.columns if column.startswith("p(")]
    np.testing.assert_allclose(rows[shares].to_numpy(), own[shares].to_numpy(), atol=atol)
    if name != "streaming-ds":
        assert rows["label"].equals(own["label"])
        people, others = result.annotators_frame(), expected.result_.annotators_frame()
        assert people.select("annotator", "n_votes", "common_error").equals(
            others.select("annotator", "n_votes", "common_error")
        )
        for column in ("accuracy", "accuracy_sd", "agreement"):
            np.testing.assert_allclose(people[column].to_numpy(), others[column].to_numpy(), atol=1e-8)


def test_a_store_comes_back_into_memory_as_it_went_out(files: Path, tmp_path: Path) -> None:
    with Local(shards=5, work_dir=tmp_path / "work") as engine:
        votes = collected(engine.encode(files))
    for name in ("item_ptr", "annotator", "label", "items", "annotators", "classes"):
        assert getattr(votes, name).tolist() == getattr(CROWD.votes, name).tolist()


@pytest.mark.parametrize("target", ["labels.csv", "labels.tsv", "labels.arrow", "labels.jsonl", "labels.parquet", "labels"])
def test_labels_go_into_a_file_or_a_folder(target: str, files: Path, tmp_path: Path) -> None:
    readers: dict[str, Any] = {
        ".csv": pl.read_csv,
        ".tsv": lambda path: pl.read_csv(path, separator="\t"),
        ".arrow": pl.read_ipc,
        ".jsonl": pl.read_ndjson,
        ".parquet": pl.read_parquet,
        "": lambda path: pl.read_parquet(path / "*.parquet"),
    }
    path = tmp_path / target
    with Local(shards=3) as engine:
        result: Any = MajorityVote().fit(files, engine=engine).result_
        for _ in range(2):
            # A second time replaces the first.
            assert result.write_labels(path) == 400
    expected = MajorityVote().fit(CROWD.votes)
    assert readers[path.suffix](path).sort("item")["label"].to_list() == expected.labels_.tolist()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted({"votes", target})


def test_a_folder_with_other_files_is_not_overwritten(files: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with Local(shards=2) as engine:
        result: Any = MajorityVote().fit(files, engine=engine).result_
        with pytest.raises(SettingError, match="holds other files than labels"):
            result.write_labels(tmp_path / "mine")
        with pytest.raises(SettingError, match="labels go into a folder"):
            result.write_labels(tmp_path / "labels.xlsx")
        with pytest.raises(SettingError, match="does not exist"):
            result.write_labels(tmp_path / "nowhere" / "labels.csv")


def test_formulas_are_escaped_on_request(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": ["=1+1", "b"], "annotator": ["x", "x"], "label": ["@a", "c"]})
    frame.write_parquet(tmp_path / "votes.parquet")
    with Local(shards=2) as engine:
        result: Any = MajorityVote().fit(tmp_path / "votes.parquet", engine=engine).result_
        result.write_labels(tmp_path / "labels.csv", spreadsheet_safe=True)
    assert "'=1+1" in (tmp_path / "labels.csv").read_text()


def test_what_needs_all_posteriors_says_where_they_are(files: Path) -> None:
    with Local(shards=2) as engine:
        model = MajorityVote().fit(files, engine=engine)
        for ask in (lambda: model.labels_, lambda: model.posterior_, lambda: model.explain(1), lambda: model.save("x")):
            with pytest.raises(SettingError, match="write_labels"):
                ask()
        # What cannot be had is not there, instead of a method that only raises.
        assert not {"posterior", "labels", "items_frame", "explain"} & set(dir(model.result_))


def test_a_temporary_work_folder_goes_with_its_engine(files: Path) -> None:
    with Local(shards=2) as engine:
        MajorityVote().fit(files, engine=engine)
        folder = engine.work_dir
        assert (folder / "store.json").exists()
    assert not folder.parent.exists()


# -- interrupted fits --------------------------------------------------------------------------


class Stop(Exception):
    pass


def stop_at(iteration: int) -> Any:
    def progress(number: int, bound: float, change: float) -> None:
        if number == iteration:
            raise Stop

    return progress


@pytest.fixture
def every_round_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a file may take longer than what counts as cheap."""
    monkeypatch.setattr("crowdwise.scale.checkpoint._CHEAP", 1e9)


@pytest.mark.slow
@pytest.mark.usefixtures("every_round_is_kept")
@pytest.mark.parametrize(("name", "iteration"), [("dawid-skene", 1), ("bayes-gc", 4), ("mace", 4)])
def test_an_interrupted_fit_resumes_to_the_same_bits(name: str, iteration: int, files: Path, tmp_path: Path) -> None:
    with Local(shards=3, work_dir=tmp_path / "whole") as engine:
        expected = make(name).fit(files, engine=engine).result_
        expected.write_labels(tmp_path / "a.parquet")  # type: ignore[attr-defined]
    with Local(shards=3, work_dir=tmp_path / "cut") as engine, pytest.raises(Stop):
        make(name).fit(files, engine=engine, progress=stop_at(iteration))
    seen: list[int] = []
    with Local(shards=3, work_dir=tmp_path / "cut") as engine:
        result = make(name).fit(files, engine=engine, progress=lambda number, *_: seen.append(number)).result_
        result.write_labels(tmp_path / "b.parquet")  # type: ignore[attr-defined]
    assert seen[0] == iteration + 1
    assert pl.read_parquet(tmp_path / "a.parquet").equals(pl.read_parquet(tmp_path / "b.parquet"))
    for term, values in expected.trace.items():
        np.testing.assert_array_equal(result.trace[term], values)


@pytest.mark.slow
@pytest.mark.usefixtures("every_round_is_kept")
@pytest.mark.parametrize("iteration", [7, 12])
def test_a_fit_interrupted_while_items_stand_aside_resumes_to_the_same_bits(
    iteration: int, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crowdwise.engines.loop.FOCUS_FROM", 0)

    def fit(name: str, labels: str) -> Any:
        with Local(shards=3, work_dir=tmp_path / name) as engine:
            result = DawidSkene(tol=1e-9).fit(files, engine=engine).result_
            result.write_labels(tmp_path / labels)  # type: ignore[attr-defined]
        return result

    fit("whole", "0.parquet")
    with Local(shards=3, work_dir=tmp_path / "cut") as engine, pytest.raises(Stop):
        DawidSkene(tol=1e-9).fit(files, engine=engine, progress=stop_at(iteration))
    result = fit("cut", "2.parquet")
    assert list((tmp_path / "whole").rglob("moving.npy"))
    assert pl.read_parquet(tmp_path / "0.parquet").equals(pl.read_parquet(tmp_path / "2.parquet"))
    memory = DawidSkene(tol=1e-9).fit(CROWD.votes).result_
    assert memory.n_iter == result.n_iter
    for term, values in memory.trace.items():
        np.testing.assert_allclose(result.trace[term], values, rtol=1e-12)


@pytest.mark.slow
def test_a_finished_fit_is_not_repeated(files: Path, tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        seen: list[int] = []
        with Local(shards=3, work_dir=tmp_path / "work") as engine:
            results.append(DawidSkene().fit(files, engine=engine, progress=lambda n, *_, seen=seen: seen.append(n)).result_)
    assert not seen
    assert results[0].converged
    assert results[1].converged
    np.testing.assert_array_equal(results[0].confusion, results[1].confusion)


@pytest.mark.slow
def test_another_method_or_setting_starts_from_scratch(files: Path, tmp_path: Path) -> None:
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(Stop):
        DawidSkene().fit(files, engine=engine, progress=stop_at(3))
    seen: list[int] = []
    with Local(shards=2, work_dir=tmp_path / "work") as engine:
        DawidSkene(smoothing=0.1).fit(files, engine=engine, progress=lambda number, *_: seen.append(number))
    assert seen[0] == 1


@pytest.mark.slow
def test_another_history_starts_from_scratch(files: Path, tmp_path: Path) -> None:
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(Stop):
        DawidSkene().fit(files, engine=engine, progress=stop_at(3))
    seen: list[int] = []
    with Local(shards=2, work_dir=tmp_path / "work") as engine:
        history = {CROWD.votes.annotators[0]: (30, 2)}
        DawidSkene().fit(files, engine=engine, history=history, progress=lambda number, *_: seen.append(number))
    assert seen[0] == 1


@pytest.mark.slow
def test_a_larger_number_of_iterations_resumes(files: Path, tmp_path: Path) -> None:
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.warns(ConvergenceWarning):
        DawidSkene(max_iter=3).fit(files, engine=engine)
    seen: list[int] = []
    with Local(shards=2, work_dir=tmp_path / "work") as engine:
        result = DawidSkene().fit(files, engine=engine, progress=lambda number, *_: seen.append(number)).result_
    assert seen[0] == 4
    assert result.n_iter == DawidSkene().fit(CROWD.votes).result_.n_iter


def test_a_damaged_checkpoint_is_named(files: Path, tmp_path: Path) -> None:
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(Stop):
        DawidSkene().fit(files, engine=engine, progress=stop_at(3))
    (tmp_path / "work" / "fit-Confusion.zip").write_bytes(b"no zip")
    with (
        Local(shards=2, work_dir=tmp_path / "work") as engine,
        pytest.raises(InputError, match=r"fit-Confusion\.zip.*delete it"),
    ):
        DawidSkene().fit(files, engine=engine)


def test_checkpoints_hold_no_code(files: Path, tmp_path: Path) -> None:
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(Stop):
        DawidSkene().fit(files, engine=engine, progress=stop_at(3))
    path = tmp_path / "work" / "fit-Confusion.zip"
    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    meta = json.loads(members["meta.json"])
    meta["annotators"]["class"] = "Path"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (members | {"meta.json": json.dumps(meta).encode()}).items():
            archive.writestr(name, content)
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(InputError, match="cannot be read"):
        DawidSkene().fit(files, engine=engine)


@pytest.mark.slow
def test_gold_belongs_to_the_shards(files: Path, tmp_path: Path) -> None:
    gold = dict(list(CROWD.gold.items())[:80])
    expected = DawidSkene().fit(CROWD.votes, gold)
    frame = pl.DataFrame({"item": list(gold), "label": list(gold.values())})
    with Local(shards=3, work_dir=tmp_path / "work") as engine:
        model = DawidSkene().fit(files, frame, engine=engine)
        np.testing.assert_allclose(model.confusion_, expected.confusion_, atol=1e-8)
        with pytest.raises(SettingError, match="give them to encode"):
            DawidSkene().fit(Store.open(tmp_path / "work"), frame, engine=engine)


def test_two_runs_do_not_share_a_work_folder(files: Path, tmp_path: Path) -> None:
    with Local(work_dir=tmp_path / "work") as first:
        first.encode(files)
        with (
            Local(work_dir=tmp_path / "work") as second,
            pytest.raises(SettingError, match="another run is using this work folder"),
        ):
            second.encode(files)
    with Local(work_dir=tmp_path / "work") as third:
        third.encode(files)


# -- what a stranger stumbled over ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mapping", "frame", "series", "file"])
def test_gold_of_files_has_every_shape_that_gold_has(kind: str, files: Path, tmp_path: Path) -> None:
    known = dict(list(CROWD.gold.items())[:80])
    frame = pl.DataFrame({"item": list(known), "label": list(known.values())})
    frame.write_csv(tmp_path / "gold.csv")
    import pandas

    gold: Any = {
        "mapping": known,
        "frame": frame,
        "series": pandas.Series(known),
        "file": tmp_path / "gold.csv",
    }[kind]
    with Local(shards=2) as engine:
        model = DawidSkene().fit(files, gold=gold, engine=engine)
    np.testing.assert_allclose(model.confusion_, DawidSkene().fit(CROWD.votes, known).confusion_, atol=1e-8)


def test_gold_that_names_no_items_is_refused(files: Path) -> None:
    with Local(shards=2) as engine, pytest.raises(InputError, match="gold must name its items"):
        DawidSkene().fit(files, ["class-1"] * 400, engine=engine)


@pytest.mark.parametrize("view", ["labels_", "posterior_", "items_"])
def test_views_of_all_items_say_that_they_are_written_instead(view: str, files: Path) -> None:
    with Local(shards=2) as engine:
        model = MajorityVote().fit(files, engine=engine)
        with pytest.raises(SettingError, match="write_labels"):
            getattr(model, view)


def test_labels_are_written_before_the_engine_is_closed(files: Path, tmp_path: Path) -> None:
    with Local(shards=2) as engine:
        result: Any = MajorityVote().fit(files, engine=engine).result_
    with pytest.raises(SettingError, match="closed with their engine"):
        result.write_labels(tmp_path / "labels.csv")


def test_an_engine_without_a_folder_encodes_one_set_of_votes_after_another(files: Path) -> None:
    with Local(shards=2) as engine:
        first, second = engine.encode(files / "0.parquet"), engine.encode(files / "1.parquet")
        assert first.folder != second.folder
        for store in (first, second):
            assert MajorityVote().fit(store, engine=engine).result_.votes.n_votes == store.n_votes
        assert not list(second.folder.glob("fit-*"))


def test_paths_and_stores_need_an_engine(files: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got a path: .*engine=crowdwise\.scale\.Local"):
        MajorityVote().fit(str(files))
    with Local(shards=2, work_dir=tmp_path / "work") as engine:
        store = engine.encode(files)
    with pytest.raises(InputError, match="got votes in shards"):
        MajorityVote().fit(store)


def test_the_file_that_changed_is_named(files: Path, tmp_path: Path) -> None:
    with Local(shards=2, work_dir=tmp_path / "work") as engine:
        engine.encode(files)
    pl.read_parquet(files / "0.parquet").write_parquet(files / "3.parquet")
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(SettingError, match=r"3\.parquet is new"):
        engine.encode(files)
    (files / "3.parquet").unlink()
    pl.read_parquet(files / "0.parquet").head(5).write_parquet(files / "1.parquet")
    with Local(shards=2, work_dir=tmp_path / "work") as engine, pytest.raises(SettingError, match=r"1\.parquet is changed"):
        engine.encode(files)


@pytest.mark.slow
def test_very_small_shards_are_questioned(files: Path) -> None:
    with Local(shards=150) as engine, pytest.warns(DataWarning, match="150 shards for about 1,"):
        engine.encode(files)


def test_checkpoints_that_take_long_are_written_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 2.0, 11.5, 13.0])  # begun and ended, asked, asked, ended
    monkeypatch.setattr("crowdwise.scale.checkpoint.time.monotonic", lambda: next(clock))
    model = DawidSkene().fit(CROWD.votes).result_
    kept = Checkpoints(tmp_path, {"method": "dawid-skene"})
    for number in (1, 2, 3):
        kept.keep("Confusion", Kept(model.prior, model.annotators, np.zeros((number, 4))))
        # The first took a second, so that the next one has to wait for ten.
        found = kept.kept("Confusion")
        assert found is not None
        assert len(found.rows) == (1, 1, 3)[number - 1]
