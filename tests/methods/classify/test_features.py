"""Features are checked before anything is trained: numbers, finite, of the shape that was fitted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator
from torch.utils.data import Dataset, TensorDataset

from crowdwise.errors import InputError
from crowdwise.methods.classify import features as module
from crowdwise.methods.classify.features import checked_features


class Shell(BaseEstimator):  # type: ignore[misc]
    name, takes_any_rows = "shell", False


def checked(features: Any, images: bool = True, estimator: Any = None) -> Any:
    return checked_features(estimator or Shell(), features, fitting=True, images=images)


TABLE = np.arange(12.0).reshape(4, 3)


class Rows(Dataset):  # type: ignore[type-arg]
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        return self.rows[index], 0


def mapped(folder: Path, array: np.ndarray) -> Any:
    np.save(folder / "rows.npy", array)
    return np.load(folder / "rows.npy", mmap_mode="r")


# -- what passes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("kind", ["array", "list", "pandas", "polars", "csr", "csc", "float32", "mapped"])
def test_tables_pass_for_every_method(kind: str, images: bool, tmp_path: Path) -> None:
    make: dict[str, Any] = {
        "array": lambda: TABLE,
        "list": lambda: TABLE.tolist(),
        "pandas": lambda: pd.DataFrame(TABLE, columns=["a", "b", "c"]),
        "polars": lambda: pl.DataFrame(TABLE, schema=["a", "b", "c"]),
        "csr": lambda: sp.csr_matrix(TABLE),
        "csc": lambda: sp.csc_matrix(TABLE),
        "float32": lambda: TABLE.astype(np.float32),
        "mapped": lambda: mapped(tmp_path, TABLE),
    }
    estimator = Shell()
    got = checked(make[kind](), images, estimator)
    got = got.toarray() if sp.issparse(got) else got
    np.testing.assert_array_equal(np.asarray(got), TABLE)
    assert estimator.row_shape_ == (3,)


def test_a_mapped_array_stays_in_its_file(tmp_path: Path) -> None:
    features = mapped(tmp_path, TABLE)
    assert checked(features) is features
    view = np.asarray(features)
    assert np.shares_memory(checked(view), features)


@pytest.mark.parametrize("features", [np.zeros((4, 3, 5, 5)), np.zeros((4, 5, 5, 3), np.uint8), torch.zeros(4, 3), Rows(TABLE)])
def test_images_tensors_and_datasets_pass_for_networks_only(features: Any) -> None:
    assert checked(features) is features
    with pytest.raises(InputError, match="shell takes a table of features"):
        checked(features, images=False)


def test_a_tensor_dataset_is_its_first_tensor() -> None:
    rows = torch.zeros(4, 3)
    assert checked(TensorDataset(rows, torch.zeros(4))) is rows


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_whole_numbers_stay_whole_for_networks(dtype: Any) -> None:
    tokens = np.arange(12, dtype=dtype).reshape(4, 3)
    assert checked(tokens).dtype == dtype
    assert checked(tokens, images=False).dtype == np.float64


def test_input_is_not_changed() -> None:
    features = TABLE.copy()
    features.setflags(write=False)
    checked(features)
    np.testing.assert_array_equal(features, np.arange(12.0).reshape(4, 3))


# -- what is refused ------------------------------------------------------------------------------


def with_value(value: float, row: int = 2) -> np.ndarray:
    features = TABLE.copy()
    features[row, 1] = value
    return features


@pytest.mark.parametrize("images", [True, False])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["array", "list", "pandas", "csr", "csc"])
def test_a_table_with_nan_or_infinity_is_refused_by_its_row(kind: str, value: float, images: bool) -> None:
    make: dict[str, Any] = {
        "array": lambda x: x,
        "list": lambda x: x.tolist(),
        "pandas": lambda x: pd.DataFrame(x, columns=["a", "b", "c"], index=[9, 8, 7, 6]),
        "csr": sp.csr_matrix,
        "csc": sp.csc_matrix,
    }
    with pytest.raises(InputError, match=r"X contains NaN or infinity in row 2 \(counted from 0\)"):
        checked(make[kind](with_value(value)), images)


@pytest.mark.parametrize("chunk", [1, 6, 2**22])
@pytest.mark.parametrize("kind", ["mapped", "tensor", "tensor dataset", "images"])
def test_rows_beyond_the_first_chunk_are_counted_right(
    kind: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)
    bad = with_value(np.nan, 3)
    make: dict[str, Any] = {
        "mapped": lambda: mapped(tmp_path, bad),
        "tensor": lambda: torch.tensor(bad),
        "tensor dataset": lambda: TensorDataset(torch.tensor(bad)),
        "images": lambda: bad.reshape(4, 3, 1, 1),
    }
    with pytest.raises(InputError, match="in row 3"):
        checked(make[kind]())


def test_large_rows_are_looked_at_a_few_at_a_time(tmp_path: Path) -> None:
    """A chunk is counted in entries: 65,536 images would be gigabytes."""
    largest = 0

    class Watched(np.memmap):
        def __getitem__(self, key: Any) -> Any:
            nonlocal largest
            got = super().__getitem__(key)
            largest = max(largest, np.asarray(got).size)
            return got

    np.save(tmp_path / "rows.npy", np.zeros((40, 3, 300, 300), np.float32))
    checked(np.load(tmp_path / "rows.npy", mmap_mode="r").view(Watched))
    assert 0 < largest <= 2**22


def test_objects_are_refused() -> None:
    with pytest.raises(InputError, match="features must be numbers; got an array of object"):
        checked(np.full((4, 2, 2), "a", dtype=object))
    with pytest.raises(ValueError, match="could not convert string to float"):
        checked(np.full((4, 2), "a", dtype=object))


@pytest.mark.parametrize("features", [iter([1, 2]), 5, SimpleNamespace(a=1)])
def test_what_holds_no_rows_is_refused(features: Any) -> None:
    with pytest.raises(InputError, match="features must be an array, frame, sparse matrix, tensor or dataset"):
        checked(features)


# -- the shape that was fitted --------------------------------------------------------------------

FITTED: dict[str, Any] = {
    "array": TABLE,
    "tensor": torch.tensor(TABLE),
    "dataset": Rows(TABLE),
    "csr": sp.csr_matrix(TABLE),
}


@pytest.mark.parametrize("new", FITTED)
@pytest.mark.parametrize("first", FITTED)
def test_another_width_is_refused_whatever_was_fitted_and_whatever_is_new(first: str, new: str) -> None:
    estimator = Shell()
    checked_features(estimator, FITTED[first], fitting=True, images=True)
    checked_features(estimator, FITTED[new], fitting=False, images=True)
    wider: dict[str, Any] = {
        "array": np.zeros((4, 5)),
        "tensor": torch.zeros(4, 5),
        "dataset": Rows(np.zeros((4, 5))),
        "csr": sp.csr_matrix((4, 5)),
    }
    with pytest.raises(
        ValueError, match=r"rows of shape \(5,\), but the model was fitted|5 features, but Shell is expecting 3"
    ):
        checked_features(estimator, wider[new], fitting=False, images=True)


def test_a_table_is_refused_where_images_were_fitted() -> None:
    estimator = Shell()
    checked_features(estimator, np.zeros((4, 3, 8, 8)), fitting=True, images=True)
    with pytest.raises(InputError, match=r"rows of shape \(3,\), but the model was fitted to rows of shape \(3, 8, 8\)"):
        checked_features(estimator, TABLE, fitting=False, images=True)
    with pytest.raises(InputError, match=r"rows of shape \(3, 9, 9\)"):
        checked_features(estimator, np.zeros((4, 3, 9, 9)), fitting=False, images=True)


def test_names_of_columns_are_checked_by_scikit_learn() -> None:
    estimator = Shell()
    frame = pd.DataFrame(TABLE, columns=["a", "b", "c"])
    checked_features(estimator, frame, fitting=True, images=True)
    with pytest.raises(ValueError, match="feature names should match"):
        checked_features(estimator, frame[["b", "a", "c"]], fitting=False, images=True)


def test_a_new_fit_forgets_the_table_before() -> None:
    estimator = Shell()
    checked_features(estimator, pd.DataFrame(TABLE, columns=["a", "b", "c"]), fitting=True, images=True)
    checked_features(estimator, torch.zeros(4, 7), fitting=True, images=True)
    assert not hasattr(estimator, "feature_names_in_")
    checked_features(estimator, torch.zeros(2, 7), fitting=False, images=True)
