"""Where rows come from: every source gives the same numbers, and files are read slice by slice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

from crowdwise.engines.gradient.rows import as_numbers, rows_of
from crowdwise.errors import InputError

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(20, 6)) * (RNG.random((20, 6)) < 0.5)
INDEX = [3, 0, 19, 3]


class Plain(Dataset):  # type: ignore[type-arg]
    """A dataset that is asked row by row, with a label that training ignores."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> tuple[Any, str]:
        self.asked.append(index)
        return self.table[index], "a label"


class Batched(Plain):
    """A dataset that is asked for many rows at once."""

    def __getitems__(self, index: list[int]) -> list[Any]:
        self.asked.append(index)
        return [(self.table[i], "a label") for i in index]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.setflags(write=False)
    return array


def mapped(folder: Path, array: np.ndarray, mode: Any = "r") -> np.memmap:
    np.save(folder / "rows.npy", array)
    opened = np.load(folder / "rows.npy", mmap_mode=mode)
    assert isinstance(opened, np.memmap)
    return opened


SOURCES: dict[str, Any] = {
    "float64": lambda folder: TABLE,
    "float32": lambda folder: TABLE.astype(np.float32),
    "fortran order": lambda folder: np.asfortranarray(TABLE),
    "every second column": lambda folder: np.repeat(TABLE, 2, axis=1)[:, ::2],
    "read-only": lambda folder: read_only(TABLE),
    "mapped": lambda folder: mapped(folder, TABLE),
    "mapped to write": lambda folder: mapped(folder, TABLE, "r+"),
    "view of a mapped": lambda folder: np.asarray(mapped(folder, np.vstack([TABLE, TABLE])))[:20],
    "tensor": lambda folder: torch.tensor(TABLE),
    "tensor with a gradient": lambda folder: torch.tensor(TABLE, requires_grad=True),
    "tensor dataset": lambda folder: TensorDataset(torch.tensor(TABLE), torch.zeros(20)),
    "dataset": lambda folder: Plain(TABLE),
    "dataset of tensors": lambda folder: Plain(torch.tensor(TABLE)),
    "dataset in batches": lambda folder: Batched(TABLE),
    "subset": lambda folder: Subset(Plain(np.vstack([TABLE, TABLE])), list(range(20))),
    "csr": lambda folder: sp.csr_matrix(TABLE),
    "csr array": lambda folder: sp.csr_array(TABLE),
    "coo": lambda folder: sp.coo_matrix(TABLE),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_rows_asked_for(source: str, dtype: torch.dtype, tmp_path: Path) -> None:
    rows = rows_of(SOURCES[source](tmp_path), dtype)
    taken = rows.take(torch.tensor(INDEX))
    assert taken.dtype == dtype
    assert not taken.requires_grad
    np.testing.assert_allclose(taken.numpy(), TABLE[INDEX], rtol=1e-6)
    assert len(rows) == 20
    assert tuple(rows.shape) == (6,)


@pytest.mark.parametrize("source", ["float64", "fortran order", "mapped to write", "tensor", "dataset in batches"])
def test_what_is_taken_is_a_copy(source: str, tmp_path: Path) -> None:
    """A network whose first layer works in place must not change the user's data."""
    features = SOURCES[source](tmp_path)
    rows = rows_of(features, torch.float64)
    rows.take(torch.arange(20)).fill_(77.0)
    np.testing.assert_array_equal(rows.take(torch.arange(20)).numpy(), TABLE)


def test_a_read_only_array_is_not_copied_whole() -> None:
    rows: Any = rows_of(read_only(TABLE), torch.float64)
    assert rows.run == 1
    assert not rows.array.flags.owndata or not rows.array.flags.writeable


@pytest.mark.parametrize("name", ["mapped", "mapped to write", "view of a mapped"])
def test_rows_on_disk_keep_neighbours_together_when_shuffled(name: str, tmp_path: Path) -> None:
    assert rows_of(SOURCES[name](tmp_path), torch.float32).run > 1
    assert rows_of(TABLE, torch.float32).run == 1


def test_a_dataset_with_getitems_is_asked_once_per_batch() -> None:
    dataset = Batched(TABLE)
    rows_of(dataset, torch.float32).take(torch.tensor(INDEX))
    assert dataset.asked == [INDEX]


# -- images and tokens ----------------------------------------------------------------------------

IMAGES = RNG.integers(0, 256, (5, 8, 10, 3), dtype=np.uint8)


@pytest.mark.parametrize("kind", ["array", "read-only", "mapped", "tensor", "dataset"])
def test_byte_images_become_channels_first_between_zero_and_one(kind: str, tmp_path: Path) -> None:
    make: dict[str, Any] = {
        "array": lambda: IMAGES,
        "read-only": lambda: read_only(IMAGES),
        "mapped": lambda: mapped(tmp_path, IMAGES),
        "tensor": lambda: torch.tensor(IMAGES),
        "dataset": lambda: Plain(IMAGES),
    }
    rows = rows_of(make[kind](), torch.float32)
    assert tuple(rows.shape) == (3, 8, 10)
    taken = rows.take(torch.tensor([4, 1]))
    assert taken.dtype == torch.float32
    for place, n in enumerate([4, 1]):
        for channel in range(3):
            np.testing.assert_allclose(taken[place, channel], IMAGES[n, :, :, channel] / 255, rtol=1e-6)


def test_grey_byte_images_get_a_channel() -> None:
    rows = rows_of(IMAGES[:, :, :, 0], torch.float32)
    assert tuple(rows.shape) == (1, 8, 10)
    np.testing.assert_allclose(rows.take(torch.tensor([2]))[0, 0], IMAGES[2, :, :, 0] / 255, rtol=1e-6)


def test_byte_images_that_have_channels_first_stay() -> None:
    channels_first = np.ascontiguousarray(IMAGES.transpose(0, 3, 1, 2))
    assert tuple(rows_of(channels_first, torch.float32).shape) == (3, 8, 10)


@pytest.mark.parametrize("kind", ["array", "mapped", "tensor", "dataset"])
def test_whole_numbers_stay_whole(kind: str, tmp_path: Path) -> None:
    tokens = RNG.integers(0, 1000, (20, 7))
    make: dict[str, Any] = {
        "array": lambda: tokens,
        "mapped": lambda: mapped(tmp_path, tokens),
        "tensor": lambda: torch.tensor(tokens),
        "dataset": lambda: Plain(tokens),
    }
    rows = rows_of(make[kind](), torch.float32)
    taken = rows.take(torch.tensor(INDEX))
    assert taken.dtype == torch.int64
    np.testing.assert_array_equal(taken, tokens[INDEX])
    numbers = as_numbers(rows, torch.float64)
    assert numbers.take(torch.tensor(INDEX)).dtype == torch.float64
    assert (len(numbers), tuple(numbers.shape), numbers.run) == (20, (7,), rows.run)


# -- refusals -------------------------------------------------------------------------------------


def test_what_holds_no_rows_is_refused() -> None:
    with pytest.raises(InputError, match="an array, a sparse matrix, a tensor or a torch Dataset; got generator"):
        rows_of((row for row in TABLE), torch.float32)


def test_a_dataset_of_text_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"must be \(or begin with\) a tensor or array; got str"):
        rows_of(Plain(["one", "two"]), torch.float32).take(torch.tensor([0]))


# -- larger than memory ---------------------------------------------------------------------------

# The file is 400 MB of zeros and takes no room on the disk. The process may allocate 250 MB beyond what torch
# took when imported; pages of the mapped file do not count.
LARGER_THAN_MEMORY = """
import os, resource, sys
import numpy as np, torch
torch.set_num_threads(1)
import crowdwise.methods.classify.ccem
from crowdwise.data.annotations import Annotations

rows, width = 300, 1_000_000 // 4

class Corner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(5, 2)
    def forward(self, rows):
        return self.last(rows.flatten(1)[:, :5])

item = np.repeat(np.arange(rows), 2)
label = np.arange(rows) % 2
votes = Annotations.from_arrays(item, np.tile([0, 1], rows), label[item], items=range(rows))
for kind in ("table", "view", "images"):
    shape = (rows, 3, 250, 333) if kind == "images" else (rows, width)
    if kind != "view":
        features = np.memmap(sys.argv[1], np.float32, "w+", shape=shape)
        features[::2, ..., :5] = 1.0
        features.flush()
    features = np.memmap(sys.argv[1], np.float32, "r", shape=shape)
    if kind == "view":
        features = np.asarray(features)[:, :]
    used = int(open("/proc/self/statm").read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (used + 250_000_000, resource.RLIM_INFINITY))
    network = "linear" if kind == "table" else Corner
    model = crowdwise.CCEM(network=network, epochs=1, batch_size=32, learning_rate=0.1, init="majority", refit=False)
    model.fit(features, votes)
    assert (model.predict(features[:100]) == label[:100]).all() or kind == "table"
    print(kind)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="RLIMIT_DATA is enforced on Linux only")
def test_arrays_larger_than_memory_are_trained_on_slice_by_slice(tmp_path: Path) -> None:
    # glibc keeps freed blocks of this size in its heap, where they would count; mapped ones go back at once.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000", "OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-c", LARGER_THAN_MEMORY, str(tmp_path / "rows.bin")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=600, check=False, env=environment)
    assert done.stdout.split() == ["table", "view", "images"], done.stderr[-2000:]


class Watched(np.memmap):
    """A memory-mapped array that notes how many rows each access reads."""

    largest = 0

    def __getitem__(self, key: Any) -> Any:
        got = super().__getitem__(key)
        if isinstance(got, np.ndarray) and got.ndim > 1:
            Watched.largest = max(Watched.largest, len(got))
        return got


def test_only_the_rows_of_a_batch_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((5000, 4), np.float32))
    watched = np.load(tmp_path / "rows.npy", mmap_mode="r").view(Watched)
    rows = rows_of(watched, torch.float32)
    Watched.largest = 0
    for part in torch.split(torch.arange(5000), 128):
        rows.take(part)
    assert Watched.largest == 128
