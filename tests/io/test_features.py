"""Features from files: every layout gives the same rows, and every fault its file, row and column."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse

from crowdwise.errors import InputError
from crowdwise.io.feature_rows import rows_of, truth_of_rows
from crowdwise.io.features import Features, names_in, read_features

X = np.array([[1.0, 2.5], [0.0, -3.0], [4.0, 1e-3]])
IDS = ["b", "日本", "a c"]


def dense(matrix: Any) -> list[list[float]]:
    return [list(map(float, row)) for row in (matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix))]


# -- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["X", "features", "images", "arr_0", "anything"])
@pytest.mark.parametrize("ids", [None, "item", "items", "ids", "Items"])
def test_an_archive_of_arrays(key: str, ids: str | None, tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", **{key: X} | ({} if ids is None else {ids: np.array(IDS)}))
    found = read_features(tmp_path / "f.npz")
    assert dense(found.X) == X.tolist()
    assert (None if found.items is None else found.items.tolist()) == (None if ids is None else IDS)
    assert found.names is None
    assert len(found) == 3


def test_a_known_name_wins_over_others_and_a_key_over_both(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "f.npz", X=X, other=X + 1, id=np.array([3, 1, 2]))
    assert dense(read_features(tmp_path / "f.npz").X) == X.tolist()
    assert dense(read_features(tmp_path / "f.npz", key="other").X) == (X + 1).tolist()
    assert read_features(tmp_path / "f.npz").items.tolist() == [3, 1, 2]
    assert names_in(tmp_path / "f.npz") == ["X", "other", "id"]


def test_ids_of_another_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", X=X, photo=np.array([b"x", b"y", b"z"]))
    assert read_features(tmp_path / "f.npz", item="photo").items.tolist() == ["x", "y", "z"]


def test_whole_numbers_that_were_saved_as_floats_are_ids(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", X=X, ids=np.array([7.0, 8.0, 9.0]))
    assert read_features(tmp_path / "f.npz").items.tolist() == [7, 8, 9]


def test_an_array_is_mapped_and_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", X.astype(np.float32))
    found = read_features(tmp_path / "f.npy")
    assert isinstance(found.X, np.memmap)
    assert dense(found.X) == X.astype(np.float32).tolist()
    assert found.items is None
    assert names_in(tmp_path / "f.npy") == []


def test_images_keep_their_axes_and_type(tmp_path: Path) -> None:
    images = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    np.savez(tmp_path / "f.npz", images=images, items=np.array(IDS))
    found = read_features(tmp_path / "f.npz").X
    assert found.dtype == np.uint8
    assert found.tolist() == images.tolist()


# -- sparse matrices ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("flavour", ["matrix", "array"])
def test_scipys_own_layout(kind: str, flavour: str, tmp_path: Path) -> None:
    made = getattr(scipy.sparse, f"csr_{flavour}")(X).asformat(kind)
    scipy.sparse.save_npz(tmp_path / "f.npz", made)
    found = read_features(tmp_path / "f.npz").X
    assert found.format == "csr"
    assert dense(found) == X.tolist()


def test_bare_arrays_of_a_sparse_matrix_with_ids(tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_matrix(X)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    np.savez(tmp_path / "f.npz", **parts, items=np.array(IDS))
    found = read_features(tmp_path / "f.npz")
    assert dense(found.X) == X.tolist()
    assert found.items.tolist() == IDS


@pytest.mark.parametrize(
    "wrong",
    [
        {"indices": np.array([0, 99, 1, 0, 1])},  # a column that is not there: compiled code would read past the end
        {"indices": np.array([0, -1, 1, 0, 1])},
        {"indptr": np.array([0, 2, 3, 500])},
        {"indptr": np.array([0, 3, 2, 5])},
        {"shape": np.array([3])},
        {"data": np.array(["a"] * 5)},
    ],
)
def test_a_sparse_matrix_that_contradicts_itself_is_refused(wrong: dict[str, Any], tmp_path: Path) -> None:
    matrix = scipy.sparse.csr_matrix(X)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    np.savez(tmp_path / "f.npz", **(parts | wrong))
    with pytest.raises(InputError, match=r"f\.npz"):
        read_features(tmp_path / "f.npz")


def test_nan_in_a_sparse_matrix(tmp_path: Path) -> None:
    bad = X.copy()
    bad[2, 1] = np.nan
    scipy.sparse.save_npz(tmp_path / "f.npz", scipy.sparse.csr_matrix(bad))
    with pytest.raises(InputError, match=r"f\.npz row 2, column 1 \(counted from 0\): NaN or infinity"):
        read_features(tmp_path / "f.npz")


# -- tables ---------------------------------------------------------------------------------------


def write_table(path: Path, frame: pl.DataFrame) -> None:
    writers: dict[str, Callable[..., Any]] = {
        ".csv": frame.write_csv,
        ".tsv": lambda p: frame.write_csv(p, separator="\t"),
        ".parquet": frame.write_parquet,
        ".arrow": frame.write_ipc,
    }
    writers[path.suffix](path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow"])
@pytest.mark.parametrize("name", ["item", "Task ID", "id", None])
def test_a_table(suffix: str, name: str | None, tmp_path: Path) -> None:
    columns = {"height": X[:, 0], "größe": X[:, 1]}
    frame = pl.DataFrame(columns | ({} if name is None else {name: IDS}))
    write_table(tmp_path / f"f{suffix}", frame)
    found = read_features(tmp_path / f"f{suffix}")
    assert dense(found.X) == X.tolist()
    assert found.names == ["height", "größe"]
    assert (None if found.items is None else found.items.tolist()) == (None if name is None else IDS)


def test_ids_of_a_table_are_typed_as_those_of_votes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,x\n10,1\n9,2\n")
    (tmp_path / "b.csv").write_text("item,x\n010,1\n9,2\n")
    assert read_features(tmp_path / "a.csv").items.tolist() == [10, 9]
    assert read_features(tmp_path / "b.csv").items.tolist() == ["010", "9"]


def test_the_index_of_a_data_frame_is_its_id(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(",x,y\nu,1,2\nv,3,4\n")
    found = read_features(tmp_path / "f.csv")
    assert found.items.tolist() == ["u", "v"]
    assert found.names == ["x", "y"]
    (tmp_path / "g.csv").write_text(",item,x\n0,u,2\n1,v,4\n")
    with pytest.raises(InputError, match=r"first column has no name.*index=False"):
        read_features(tmp_path / "g.csv")


def test_a_named_id_column(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("photo,item,x\nu,1,2\nv,3,4\n")
    found = read_features(tmp_path / "f.csv", item="photo")
    assert (found.items.tolist(), found.names) == (["u", "v"], ["item", "x"])
    with pytest.raises(InputError, match=r"no column 'phto'; found 'photo', 'item', 'x'; did you mean 'photo'"):
        read_features(tmp_path / "f.csv", item="phto")


def test_numbers_of_every_type(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "item": [1, 2],
            "a": [True, False],
            "b": pl.Series([1, 2], dtype=pl.UInt8),
            "c": pl.Series([0.5, 1.5], dtype=pl.Float32),
        }
    )
    frame.write_parquet(tmp_path / "f.parquet")
    assert dense(read_features(tmp_path / "f.parquet").X) == [[1.0, 1.0, 0.5], [0.0, 2.0, 1.5]]
    frame.select("item", "c").write_parquet(tmp_path / "f.parquet")
    assert read_features(tmp_path / "f.parquet").X.dtype == np.float32
    (tmp_path / "f.csv").write_text("item,a,b\n1, 1e3 ,-.5\n2,+7,0x1\n")
    with pytest.raises(InputError, match=r"f\.csv row 3: '0x1' in column 'b' is not a number"):
        read_features(tmp_path / "f.csv")
    (tmp_path / "f.csv").write_text("item,a,b\n1, 1e3 ,-.5\n2,+7,0\n")
    assert dense(read_features(tmp_path / "f.csv").X) == [[1000.0, -0.5], [7.0, 0.0]]


@pytest.mark.parametrize("dtype", [pl.List(pl.Float32), pl.Array(pl.Float32, 2)])
def test_a_column_of_embeddings(dtype: Any, tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": IDS, "e": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=dtype), "x": [7.0, 8.0, 9.0]})
    frame.write_parquet(tmp_path / "f.parquet")
    found = read_features(tmp_path / "f.parquet")
    assert dense(found.X) == [[1, 2, 7], [3, 4, 8], [5, 6, 9]]
    assert found.names == ["e[0]", "e[1]", "x"]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ([[1.0, 2.0], [3.0], [5.0, 6.0]], "row 2: 1 numbers in column 'e'; every row needs the 2 of the first"),
        ([[1.0, 2.0], None, [5.0, 6.0]], "row 2: 0 numbers in column 'e'"),
        ([[1.0, 2.0], [3.0, None], [5.0, 6.0]], "row 2: column 'e' has an empty entry"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0, np.inf]], "row 3, column 'e': NaN or infinity"),
        ([["a"], ["b"], ["c"]], "column 'e' holds List"),
    ],
)
def test_embeddings_that_are_none(lists: Any, message: str, tmp_path: Path) -> None:
    pl.DataFrame({"item": IDS, "e": lists}).write_parquet(tmp_path / "f.parquet")
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "f.parquet")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.0, None, 3.0], "row {second}: column 'x' is empty"),
        ([1.0, float("nan"), 3.0], "row {second}, column 'x': NaN or infinity"),
        ([1.0, 2.0, float("inf")], "row {third}, column 'x': NaN or infinity"),
        (["1", "2", "tall"], "row {third}: 'tall' in column 'x' is not a number"),
    ],
)
def test_a_cell_that_is_no_number_is_named(suffix: str, column: Any, message: str, tmp_path: Path) -> None:
    write_table(tmp_path / f"f{suffix}", pl.DataFrame({"item": IDS, "x": column}, strict=False))
    # The header of a spreadsheet is its row 1; a Parquet file has none.
    first = 2 if suffix == ".csv" else 1
    with pytest.raises(InputError, match=f"f{suffix} {message.format(second=first + 1, third=first + 2)}"):
        read_features(tmp_path / f"f{suffix}")


def test_a_column_of_dates_is_refused_by_name(tmp_path: Path) -> None:
    frame = pl.DataFrame({"item": ["a"], "day": [0]}).with_columns(pl.col("day").cast(pl.Date))
    frame.write_parquet(tmp_path / "f.parquet")
    with pytest.raises(InputError, match="column 'day' holds Date, not numbers"):
        read_features(tmp_path / "f.parquet")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("item,x\na,1\na,2\n", r"f\.csv row 3: the id in column 'item' occurs for the second time, 'a'"),
        ("item,x\na,1\n,2\n", r"f\.csv row 3: the id in column 'item' is missing"),
        ("item\na\n", r"f\.csv: no column of features beside 'item'"),
        ("task,unit,x\n1,2,3\n", r"several columns could be the item: 'task', 'unit'.*--features-item"),
    ],
)
def test_ids_that_are_none(rows: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(rows)
    with pytest.raises(InputError, match=message):
        read_features(tmp_path / "f.csv")


# -- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": X, "b": X}, r"which array holds the features\? Found 'a', 'b'; name it: key=.*--key NAME"),
        ({"X": X, "features": X}, "which array holds the features"),
        ({"item": np.array(IDS)}, r"which array holds the features\? Found none"),
        ({"X": X, "item": np.array(IDS), "ids": np.array(IDS)}, "several arrays could be the ids: 'item', 'ids'"),
        ({"X": X, "item": np.array(IDS[:2])}, r"'item' has shape \(2,\), and there are 3 rows"),
        ({"X": X, "item": np.array(["a", "b", "a"])}, r"row 2: the id occurs for the second time, 'a'"),
        ({"X": X, "item": np.array(["a", "", "b"])}, r"row 1: the id is missing"),
        ({"X": X[:, 0]}, r"array 'X': an array of shape \(3,\); features have a row per item"),
        ({"X": X.astype(str)}, r"array 'X': an array of <U\d+; features must be numbers"),
        ({"X": X.astype(complex)}, "features must be numbers"),
        ({"X": X[:0]}, "no rows"),
        ({"X": np.where(X == 4, np.nan, X)}, r"array 'X' row 2, column 0 \(counted from 0\): NaN or infinity"),
    ],
)
def test_archives_that_cannot_be_used(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", **arrays)
    with pytest.raises(InputError, match=message) as caught:
        read_features(tmp_path / "f.npz")
    assert str(tmp_path / "f.npz") in str(caught.value)


def test_a_key_or_id_that_is_not_there(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", train=X, test=X)
    with pytest.raises(InputError, match=r"no array 'trian'; found 'train', 'test'; did you mean 'train'"):
        read_features(tmp_path / "f.npz", key="trian")
    with pytest.raises(InputError, match="no array 'ids'"):
        read_features(tmp_path / "f.npz", item="ids")
    np.save(tmp_path / "f.npy", X)
    with pytest.raises(InputError, match=r"only \.npz files hold several arrays"):
        read_features(tmp_path / "f.npy", key="train")
    with pytest.raises(InputError, match=r"a \.npy file has no ids"):
        read_features(tmp_path / "f.npy", item="ids")


def test_infinity_late_in_a_large_array_is_found(tmp_path: Path) -> None:
    large = np.zeros((70_000, 2, 2), np.float32)
    large[69_999, 1, 0] = np.inf
    np.save(tmp_path / "f.npy", large)
    with pytest.raises(InputError, match=r"f\.npy row 69999, column 1, 0 \(counted from 0\)"):
        read_features(tmp_path / "f.npy")


class Bomb:
    """Would leave a trace if it were ever unpickled."""

    def __reduce__(self) -> Any:
        return eval, ("__import__('os').environ.__setitem__('CROWDWISE_BOMB', 'exploded')",)


@pytest.mark.parametrize("name", ["f.npy", "f.npz", "ids.npz", "sparse.npz", "f.pkl", "f.pt"])
def test_objects_are_refused_unopened(name: str, tmp_path: Path) -> None:
    bombs = np.array([Bomb(), Bomb(), Bomb()], dtype=object)
    path = tmp_path / name
    if name == "f.npy":
        np.save(path, bombs, allow_pickle=True)
    elif name == "f.npz":
        np.savez(path, X=bombs)
    elif name == "ids.npz":
        np.savez(path, X=X, items=bombs)
    elif name == "sparse.npz":
        np.savez(path, data=bombs, indices=[0], indptr=[0, 1], shape=[1, 1])
    else:
        path.write_bytes(b"\x80\x04")
    with pytest.raises(InputError, match=r"could run code"):
        read_features(path)
    assert "CROWDWISE_BOMB" not in os.environ


@pytest.mark.parametrize("name", ["f.npy", "f.npz", "f.parquet", "f.arrow"])
def test_damaged_files_are_refused_by_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name == "f.npy":
        np.save(path, X)
    elif name == "f.npz":
        np.savez(path, X=X)
    else:
        write_table(path, pl.DataFrame({"item": IDS, "x": [1.0, 2.0, 3.0]}))
    whole = path.read_bytes()
    for size in (1, 7, len(whole) // 2, len(whole) - 9):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=f"f{path.suffix}"):
            read_features(path)


def test_files_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('[{"item": 1, "x": 2}]')
    (tmp_path / "features.csv").write_text("item,x\n1,2\n")
    with pytest.raises(InputError, match=r"features are read from \.npz \.npy"):
        read_features(tmp_path / "f.json")
    with pytest.raises(InputError, match=r"feature\.csv: no such file; did you mean 'features\.csv'"):
        read_features(tmp_path / "feature.csv")
    with pytest.raises(InputError, match="a folder; features are one file"):
        read_features(tmp_path)


def test_rows_of_items_and_their_true_classes() -> None:
    rows = Features(np.arange(6.0).reshape(3, 2), np.array([7, 5, 9]), None, "X.npz")
    assert rows_of(rows, np.array([9, 7])).tolist() == [[4, 5], [0, 1]]
    assert rows_of(rows, np.array([9, 8])) is None
    assert rows_of(Features(rows.X, None, None, "X.npy"), np.array([0])) is None
    gold = pl.DataFrame({"item": [9, 5, 1], "label": ["b", "a", "b"]})
    assert truth_of_rows(rows, ["a", "b"], gold, "truth.csv").tolist() == [-1, 0, 1]
    with pytest.raises(InputError, match=r"truth\.csv: names no item of X\.npz"):
        truth_of_rows(rows, ["a", "b"], gold[2:], "truth.csv")
