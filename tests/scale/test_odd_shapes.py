"""Votes of odd shapes and kinds in several files: shards give what one file in memory gives."""

from __future__ import annotations

import datetime
import errno
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import crowdwise
from crowdwise import DawidSkene
from crowdwise.errors import CrowdwiseWarning, DataWarning
from crowdwise.estimator.registry import make
from crowdwise.scale import Local
from crowdwise.scale import labels as labels_module
from crowdwise.scale.inputs import files_at
from crowdwise.scale.store import full_disk_named

Rows = list[tuple[Any, ...]]
COLUMNS = ["item", "annotator", "label"]
RNG = np.random.default_rng(0)


def many(n_votes: int, n_classes: int) -> Rows:
    item, annotator, label = (RNG.integers(0, size, n_votes).tolist() for size in (n_votes // 4, 7, n_classes))
    return [(f"i{i}", f"a{a}", f"k{k:03d}") for i, a, k in zip(item, annotator, label, strict=True)]


DAY, HOUR = datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 3)
PLAIN: Rows = [("x", "p", "c"), ("x", "q", "d"), ("y", "p", "c")]
# Rows of the first file and of the second.
SHAPES: dict[str, tuple[Rows, Rows]] = {
    "one vote": ([("x", "p", "c")], []),
    "one item": ([("x", "p", "c"), ("x", "q", "d")], [("x", "r", "c")]),
    "one annotator": ([("x", "p", "c"), ("y", "p", "d")], [("z", "p", "c")]),
    "repeated votes": (PLAIN + PLAIN, PLAIN),
    "labels missing": ([("x", "p", None), ("w", "p", None), *PLAIN], [("z", "q", "d")]),
    "two classes": (many(200, 2), many(200, 2)),
    "a hundred classes": (many(400, 100), many(400, 100)),
    "unicode": ([("é😀", "ß", "猫"), ("e\u0301", "q", "d")], [("\u00e9", "ß", "猫"), ("é😀", "q", "d")]),
    "punctuation": ([("a,b", 'q"u', "d;e"), ("new\nline", "ß", "d;e")], [("a,b", "x\ty", "f")]),
    "zeros in front": ([("007", "p", "c"), ("7", "q", "d")], [("007", "q", "c")]),
    "numbers and names": ([("1", "2", "0"), ("2", "3", "1")], [("x", "y", "maybe")]),
    "beyond 64 bits": ([("9223372036854775807", "p", "c"), ("1", "q", "d")], [("9223372036854775808", "p", "c")]),
}
TYPED: dict[str, tuple[Rows, Rows]] = {
    "booleans": ([(True, False, True), (False, True, False)], [(True, True, True)]),
    "dates": ([(DAY, "p", "c"), (DAY.replace(day=2), "q", "d")], [(DAY, "r", "c")]),
    "times": ([(HOUR, "p", "c"), (HOUR.replace(hour=0), "q", "d")], [(HOUR, "r", "c")]),
    "fractions": ([(1.5, "p", 0.5), (2.0, "q", 1.0)], [(1.5, "r", 0.5)]),
    "whole floats": ([(1.0, "p", 1.0), (2.0, "q", 0.0)], [(1.0, "r", float("nan"))]),
    "integers": ([(-1, 2, 0), (3, 4, 1)], [(-1, 4, 0)]),
}


def frame_of(rows: Rows, schema: Any = None) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema or COLUMNS, orient="row")


def check(first: pl.DataFrame, second: pl.DataFrame, suffix: str, tmp_path: Path, n_shards: int, name: str) -> None:
    """Fit to two files by shards and to both in one file in memory."""
    settings = {"max_iter": 6} if "max_iter" in make(name).get_params() else {}
    write = pl.DataFrame.write_csv if suffix == "csv" else pl.DataFrame.write_parquet
    files = tmp_path / "files"
    files.mkdir()
    for name_of_file, frame in (("files/a", first), ("files/b", second), ("whole", pl.concat([first, second]))):
        write(frame, tmp_path / f"{name_of_file}.{suffix}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        expected = make(name, **settings).fit(crowdwise.read(tmp_path / f"whole.{suffix}")).result_.items_frame()
        with Local(shards=n_shards, threads=2) as engine:
            result: Any = make(name, **settings).fit(files, engine=engine).result_
            assert result.write_labels(tmp_path / "labels.parquet") == len(expected)
    found, expected = pl.read_parquet(tmp_path / "labels.parquet").sort("item"), expected.sort("item")
    assert found.schema == expected.schema
    for column, dtype in expected.schema.items():
        if dtype.is_float():
            np.testing.assert_allclose(found[column], expected[column], atol=1e-6)
        elif column != "label":
            # Rounding may decide between labels that are equally probable.
            assert found[column].to_list() == expected[column].to_list()


@pytest.mark.parametrize(("suffix", "n_shards"), [("csv", 1), ("csv", 4), ("parquet", 4)])
@pytest.mark.parametrize("shape", SHAPES)
def test_votes_of_any_shape(shape: str, suffix: str, n_shards: int, tmp_path: Path) -> None:
    first, second = (frame_of(rows, dict.fromkeys(COLUMNS, pl.String)) for rows in SHAPES[shape])
    check(first, second, suffix, tmp_path, n_shards, "dawid-skene")


@pytest.mark.parametrize("kind", TYPED)
def test_ids_and_labels_of_any_type(kind: str, tmp_path: Path) -> None:
    first, second = map(frame_of, TYPED[kind])
    check(first, second, "parquet", tmp_path, 3, "dawid-skene")


@pytest.mark.parametrize("name", ["majority", "wawa", "one-coin", "confusion-vector", "bayes-gc", "mace"])
def test_more_shards_than_items_for_every_method(name: str, tmp_path: Path) -> None:
    check(frame_of(PLAIN), frame_of([("z", "q", "d")]), "parquet", tmp_path, 9, name)


def test_a_single_class_is_pointed_out(tmp_path: Path) -> None:
    frame_of([("x", "p", "c"), ("y", "q", "c")]).write_parquet(tmp_path / "a.parquet")
    for name in ("dawid-skene", "streaming-ds"):
        with Local() as engine, pytest.warns(DataWarning, match=r"only one class occurs \(c\)"):
            make(name).fit(tmp_path / "a.parquet", engine=engine)


def test_names_of_files_are_found_without_opening_them(tmp_path: Path) -> None:
    (tmp_path / "votes").mkdir()
    for name in ("a.csv", "b.csv", ".hidden"):
        (tmp_path / "votes" / name).write_bytes(b"")
    assert [Path(file).name for file in files_at([tmp_path / "votes"])] == ["a.csv", "b.csv"]
    assert [Path(file).name for file in files_at([f"{tmp_path}/votes/b*", tmp_path / "votes" / "a.csv"])] == ["b.csv", "a.csv"]


# -- a full disk -------------------------------------------------------------------------------

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "problem",
    [
        FULL,
        OSError("1000 requested and 12 written"),
        pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)"),
    ],
)
def test_whatever_a_full_disk_says_names_the_place(problem: Exception) -> None:
    with pytest.raises(OSError, match=r"^here: the disk is full; make room there"), full_disk_named("here"):
        raise problem


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(FileNotFoundError, match="gone"), full_disk_named("here"):
        raise FileNotFoundError("gone")
    with pytest.raises(pl.exceptions.ComputeError, match="os error 280"), full_disk_named("here"):
        raise pl.exceptions.ComputeError("os error 280")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system takes room when it is written to")
def test_room_for_posteriors_is_taken_before_they_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame_of(PLAIN).write_parquet(tmp_path / "a.parquet")

    def refuse(*_: int) -> None:
        raise FULL

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with Local(shards=1, work_dir=tmp_path / "work") as engine:
        with pytest.raises(OSError, match="work: the disk is full"):
            DawidSkene().fit(tmp_path / "a.parquet", engine=engine)
        # Else the next run would find a file with holes, and be killed when it fills them.
        assert not (tmp_path / "work" / "shard-00000" / "posterior.npy").exists()
        monkeypatch.undo()
        DawidSkene().fit(tmp_path / "a.parquet", engine=engine)


@pytest.mark.slow
def test_labels_on_a_full_disk_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame_of(PLAIN).write_parquet(tmp_path / "a.parquet")
    (tmp_path / "out").mkdir()

    def refuse(*_: Any) -> None:
        raise FULL

    monkeypatch.setitem(labels_module._SINKS, ".csv", refuse)
    with Local(shards=2) as engine:
        result: Any = DawidSkene().fit(tmp_path / "a.parquet", engine=engine).result_
        with pytest.raises(OSError, match="out: the disk is full"):
            result.write_labels(tmp_path / "out" / "labels.csv")
    assert list((tmp_path / "out").iterdir()) == []
