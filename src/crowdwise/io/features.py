"""Features from files: numpy arrays and archives, sparse matrices, and tables with a row per item.

Nothing is ever unpickled. A fault is named with its file, row and column, before anything is trained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from crowdwise.data.encode import series_of, tidy
from crowdwise.errors import CrowdwiseError, InputError, did_you_mean, listed
from crowdwise.io.feature_tables import checked_ids, not_finite, read_feature_table
from crowdwise.io.limits import check_archive, check_npy, limited
from crowdwise.io.source import Places, open_source
from crowdwise.kernels.types import Array

__all__ = ["Features", "names_in", "read_features"]

# Arrays of an .npz file that are features or ids without being named, and columns that are ids.
_FEATURES = ("X", "features", "images")
_IDS = ("item", "items", "ids", "id", "item_ids")
_SPARSE = {"data", "indices", "indptr", "shape"}
# Keys that scipy.sparse.save_npz writes beside these.
_SPARSE_MORE = {"format", "_is_array", "row", "col", "offsets", "coords"}
_KNOWN = ".npz .npy .csv .tsv .parquet .arrow"
# Rows of a large array that are looked at together.
_CHUNK = 65_536


@dataclass(frozen=True, eq=False)
class Features:
    """Rows of features as they were read.

    Attributes
    ----------
    X : [N, ...]
        An array (memory-mapped from ``.npy``) or a scipy CSR matrix.
    items : [N] or None
        Ids of the rows, where the file has them.
    names : list or None
        Names of the columns, where the file has them.
    source : str
        The file.
    """

    X: Any
    items: Array | None
    names: list[str] | None
    source: str

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def table(self) -> Any:
        """The features under the names of their columns, where they have any."""
        import polars as pl

        return self.X if self.names is None else pl.DataFrame(self.X, schema=self.names, orient="row")


def read_features(
    path: str | PathLike[str], *, item: str | None = None, key: str | None = None, max_bytes: int | None = None
) -> Features:
    """Read one row of features per item.

    Parameters
    ----------
    path : path
        ``.npz`` with an array X, features or images and, if possible, one of ids (item, items, ids), or a scipy sparse
        matrix; ``.npy``, which is memory-mapped; or a table (CSV, TSV, Parquet, Arrow) whose columns other than the
        id are numbers, or lists of numbers of one length.
    item : str, optional
        Column or array of the ids; found by the usual names when left out.
    key : str, optional
        Which array of an ``.npz`` file holds the features.
    max_bytes : int, optional
        Most bytes that a compressed file may unfold to; 1 GiB when left out.

    Raises
    ------
    InputError
        Names the file, the row, the column and the fix.
    """
    with limited(max_bytes):
        return _read_features(path, item, key)


def _read_features(path: str | PathLike[str], item: str | None, key: str | None) -> Features:
    kind = _kind(path)
    if key is not None and kind != "npz":
        raise InputError(f"{fspath(path)}: only .npz files hold several arrays by name; leave the key out")
    if kind == "npy":
        if item is not None:
            raise InputError(f"{fspath(path)}: a .npy file has no ids; save an .npz with the arrays X and items")
        with _readable(path, kind):
            # Mapped, so that a size that the file does not have is refused and takes no memory.
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        _check_array(array, fspath(path), "")
        return Features(array, None, None, fspath(path))
    if kind == "npz":
        return _of_archive(path, item, key)
    return Features(*read_feature_table(open_source(path), item), fspath(path))


def names_in(path: str | PathLike[str]) -> list[str]:
    """Names of the columns of a table, or of the arrays of an ``.npz`` file; empty for ``.npy``."""
    kind = _kind(path)
    if kind == "npz":
        with _archive(path) as archive:
            return list(archive.files)
    return list(open_source(path).columns) if kind == "table" else []


def _kind(path: str | PathLike[str]) -> str:
    """One of npy, npz and table, by the first bytes."""
    name, where = fspath(path), Path(path)
    if where.is_dir():
        raise InputError(f"{name}: a folder; features are one file ({_KNOWN})")
    if not where.exists():
        open_source(path)  # says so, and names a file of a similar name
    suffix = where.suffix.lower()
    if suffix in (".pkl", ".pickle", ".joblib", ".pt", ".pth"):
        raise InputError(f"{name}: opening a {suffix} file could run code, so it is never read; save the array with np.savez")
    with where.open("rb") as file:
        head = file.read(6)
    if head == b"\x93NUMPY":
        return "npy"
    if head.startswith(b"PK") and suffix == ".npz":
        return "npz"
    if suffix in (".npy", ".npz"):
        raise InputError(f"{name}: named {suffix}, but the content is not; save it again with np.save or np.savez")
    if open_source(path).kind not in ("delimited", "parquet", "arrow"):
        raise InputError(f"{name}: features are read from {_KNOWN} files")
    return "table"


@contextmanager
def _readable(path: Any, kind: str) -> Iterator[None]:
    try:
        yield
    except CrowdwiseError:
        raise
    except Exception as problem:  # numpy, zip, zlib and the parser of numpy's headers have a word each for a damaged file
        if "object" in str(problem).lower():
            raise InputError(
                f"{fspath(path)}: holds Python objects, and opening those could run code; "
                "save numbers as numbers and ids as text: np.asarray(values, dtype=str)"
            ) from None
        raise InputError(f"{fspath(path)}: not a readable .{kind} file ({problem!s:.200}); save it again") from None


# -- archives of arrays ------------------------------------------------------------------------


@contextmanager
def _archive(path: Any) -> Iterator[Any]:
    # Opened here because numpy forgets to close a file that is no archive.
    with _readable(path, "npz"), open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        check_archive(archive.zip, os.fstat(file.fileno()).st_size, fspath(path))
        for member in (each for each in archive.zip.infolist() if each.filename.endswith(".npy")):
            with archive.zip.open(member) as content:
                check_npy(content, member.file_size)
        yield archive


def _of_archive(path: Any, item: str | None, key: str | None) -> Features:
    name = fspath(path)
    with _archive(path) as archive:
        keys = list(archive.files)
        id_key = _id_key(keys, item, name)
        others = [entry for entry in keys if entry != id_key]
        if key is None and set(others) >= {"data", "shape"} and (set(others) >= _SPARSE or "format" in others):
            X, here = _sparse(path, archive, others, name), ""
        else:
            found = _feature_key(others, key, name)
            X, here = archive[found], f" array {found!r}"
            _check_array(X, name, here)
        items = None if id_key is None else _ids(archive[id_key], X.shape[0], name, id_key)
    return Features(X, items, None, name)


def _id_key(keys: list[str], item: str | None, name: str) -> str | None:
    if item is not None:
        if item not in keys:
            raise InputError(f"{name}: no array {item!r}; found {listed(map(repr, keys))}{did_you_mean(item, keys)}")
        return item
    found = [key for key in keys if key.lower() in _IDS]
    if len(found) > 1:
        raise InputError(f"{name}: several arrays could be the ids: {listed(map(repr, found))}; keep one of them")
    return found[0] if found else None


def _feature_key(keys: list[str], key: str | None, name: str) -> str:
    every = listed(map(repr, keys)) or "none"
    if key is not None:
        if key not in keys:
            raise InputError(f"{name}: no array {key!r}; found {every}{did_you_mean(key, keys)}")
        return key
    found = [entry for entry in keys if entry in _FEATURES] or keys
    if len(found) != 1:
        raise InputError(
            f"{name}: which array holds the features? Found {every}; name it: key=... in Python, --key NAME on the command line"
        )
    return found[0]


def _sparse(path: Any, archive: Any, keys: list[str], name: str) -> Any:
    """A matrix as scipy.sparse.save_npz, or as its bare CSR arrays, in CSR form with its indices checked."""
    import scipy.sparse

    unknown = sorted(set(keys) - _SPARSE - _SPARSE_MORE)
    if unknown:
        raise InputError(f"{name}: a sparse matrix beside {listed(map(repr, unknown))}; say which with --key or key=...")
    if "format" in keys:
        matrix = scipy.sparse.load_npz(path)
    else:
        matrix = scipy.sparse.csr_matrix(
            (archive["data"], archive["indices"], archive["indptr"]), shape=tuple(archive["shape"])
        )
    # Compiled code trusts these indices.
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)
    matrix = matrix.tocsr()
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"{name}: a sparse matrix of {matrix.dtype}; features must be numbers")
    if not matrix.shape[0]:
        raise InputError(f"{name}: no rows; expected one per item")
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise not_finite(f"{name} row {row}, column {int(matrix.indices[bad[0]])}", "counted from 0")
    return matrix


def _ids(values: Any, n_rows: int, name: str, key: str) -> Array:
    if values.ndim != 1 or len(values) != n_rows:
        raise InputError(f"{name}: {key!r} has shape {values.shape}, and there are {n_rows:,} rows; give one id per row")
    if values.dtype.kind not in "biufUS" or values.dtype == np.float16:
        raise InputError(f"{name}: {key!r} is an array of {values.dtype}; ids are text or whole numbers")
    if values.dtype.kind == "U":
        # An array may hold numbers that are no characters, which Python takes and nothing else does.
        points = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="))).view(np.uint32)
        if ((points > 0x10FFFF) | ((points >= 0xD800) & (points < 0xE000))).any():
            raise InputError(f"{name}: {key!r} holds numbers that are no characters; save the ids again")
    return checked_ids(tidy(series_of(values)), Places(name, 0), "id")


def _check_array(array: Any, name: str, here: str) -> None:
    """Numbers, at least two axes, all finite."""
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name}{here}: an array of {array.dtype}; features must be numbers")
    if array.ndim < 2:
        raise InputError(f"{name}{here}: an array of shape {array.shape}; features have a row per item, [N, D]")
    if not len(array):
        raise InputError(f"{name}{here}: no rows; expected one per item")
    if array.dtype.kind == "f":
        for start in range(0, len(array), _CHUNK):
            fine = np.isfinite(array[start : start + _CHUNK])
            if not fine.all():
                row, *column = np.argwhere(~fine)[0].tolist()
                place = f"{name}{here} row {start + row}, column {', '.join(map(str, column))}"
                raise not_finite(place, "counted from 0")
