"""Arrays of a work folder, as threads load them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest

from crowdwise.io.stored import load_array, map_array


def test_threads_parse_headers_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side, parsers of Python 3.11 now and then raise a SystemError."""
    path = tmp_path / "some.npy"
    np.save(path, np.arange(6.0))
    plain, inside, most = np.lib.format.open_memmap, 0, 0

    def watched(*args: Any) -> Any:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        sleep(0.001)
        found = plain(*args)
        inside -= 1
        return found

    monkeypatch.setattr(np.lib.format, "open_memmap", watched)
    with ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(lambda load: float(load(path).sum()), 10 * [load_array, map_array]))
    assert set(sums) == {15.0}
    assert most == 1


@pytest.mark.parametrize("array", [np.zeros((0, 3)), np.array(7), np.array([True, False]), np.asfortranarray(np.ones((2, 3)))])
def test_what_was_saved_is_loaded(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "some.npy", array)
    found = load_array(tmp_path / "some.npy")
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert type(found) is np.ndarray
    assert found.flags.writeable


def test_a_mapped_array_is_changed_in_its_file(tmp_path: Path) -> None:
    np.save(tmp_path / "some.npy", np.zeros(3))
    map_array(tmp_path / "some.npy", "r+")[1] = 5
    np.testing.assert_array_equal(np.load(tmp_path / "some.npy"), [0, 5, 0])


def test_a_file_cut_short_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "some.npy"
    np.save(path, np.zeros(1000))
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match="mmap"):
        load_array(path)
