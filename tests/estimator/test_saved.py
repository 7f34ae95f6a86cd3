"""Saved models that somebody has changed: refused when they are opened, in our words, and never later in others'."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.fuzz.seeds import MODELS, votes_and_rows

import crowdwise
from crowdwise.errors import InputError
from crowdwise.estimator.storage import FILE_NAME, npy_bytes

Change = Callable[[Any], Any]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """Members of a saved model, by method."""
    folder, found = tmp_path_factory.mktemp("saved"), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in MODELS:
            crowdwise.make(method).fit(votes_and_rows()[0]).save(folder / method)
            with zipfile.ZipFile(folder / method / FILE_NAME) as archive:
                found[method] = {name: archive.read(name) for name in archive.namelist()}
    return found


def write(members: dict[str, bytes], folder: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / FILE_NAME, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return folder


def with_setting(members: dict[str, bytes], name: str, value: Any) -> dict[str, bytes]:
    meta = json.loads(members["meta.json"])
    pairs = meta["fields"]["settings"]["mapping"]
    meta["fields"]["settings"]["mapping"] = [[key, value if key == name else old] for key, old in pairs]
    return members | {"meta.json": json.dumps(meta).encode()}


def one(value: float) -> Change:
    def change(array: Any) -> Any:
        array = array.astype(float)
        array.flat[0] = value
        return array

    return change


CHANGES: dict[str, Change] = {
    "NaN": one(np.nan),
    "infinity": one(np.inf),
    "another type": lambda array: array.astype(complex),
    "half precision": lambda array: array.astype(np.float16),
    "another byte order": lambda array: (
        array.astype(array.dtype.newbyteorder("S")) if array.itemsize > 1 else array.astype("U3")
    ),
    "text": lambda array: array.astype("U5"),
    "an axis more": lambda array: array[None],
    "one row more": lambda array: np.concatenate([array, array[-1:]]) if array.ndim else array[None],
    "one row less": lambda array: array[:-1] if array.ndim else array[None],
    "no axis": lambda array: np.zeros((), array.dtype),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
@pytest.mark.parametrize("method", MODELS)
def test_every_changed_array_is_refused_or_harmless(
    saved: dict[str, dict[str, bytes]], method: str, change: Change, tmp_path: Path
) -> None:
    refused = 0
    members = saved[method]
    names = [name for name in members if name.endswith(".npy") and not name.startswith("trace/")]
    for name in names:
        array = np.lib.format.read_array(io.BytesIO(members[name]))
        if not array.size:
            continue
        write(members | {name: npy_bytes(change(array))}, tmp_path)
        try:
            estimator: Any = crowdwise.load(tmp_path)
        except InputError:
            refused += 1
            continue
        # Nothing depends on its size or content, or it is as good as before; then everything works.
        estimator.result_.items_frame()
        estimator.result_.annotators_frame()
        estimator.result_.confusion_frame()
        assert np.isfinite(estimator.result_.posterior).all()
    assert refused >= 0.6 * len(names), (refused, names)


@pytest.mark.parametrize(
    ("name", "value"),
    [("restarts", 10**12), ("max_iter", 10**12), ("max_iter", -1), ("tol", "small"), ("max_iter", 1.5), ("restarts", None)],
)
def test_settings_outside_their_range_are_refused(
    saved: dict[str, dict[str, bytes]], name: str, value: Any, tmp_path: Path
) -> None:
    write(with_setting(saved["dawid-skene"], name, value), tmp_path)
    with pytest.raises(InputError, match=rf"settings that dawid-skene does not have \(.*{name} must be"):
        crowdwise.load(tmp_path)


def test_restarts_are_bounded_for_everybody() -> None:
    with pytest.raises(crowdwise.errors.SettingError, match="restarts must be at most 1,000; got 1000000000000"):
        crowdwise.DawidSkene(restarts=10**12).fit(votes_and_rows()[0])


def test_an_array_that_claims_more_than_it_has_takes_no_memory(saved: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    whole = saved["dawid-skene"]["posterior.npy"]
    shape = np.lib.format.read_array(io.BytesIO(whole)).shape
    lie = whole.replace(repr(shape).encode(), f"({10**9}, 400)".encode())
    assert lie != whole
    write(saved["dawid-skene"] | {"posterior.npy": lie}, tmp_path)
    with pytest.raises(InputError, match=r"an array of shape \(1000000000, 400\) in [\d,]+ bytes"):
        crowdwise.load(tmp_path)


def test_compressed_members_and_members_that_overlap_are_refused(saved: dict[str, dict[str, bytes]], tmp_path: Path) -> None:
    members = saved["majority"]
    write(members | {"votes/label.npy": bytes(10_000_000)}, tmp_path, zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="a compressed member"):
        crowdwise.load(tmp_path)
    write(members, tmp_path)
    content = (tmp_path / FILE_NAME).read_bytes()
    start = content.rindex(b"PK\x01\x02")
    # The size of the last member, twice in the table of contents.
    claimed = (3 * 10**9).to_bytes(4, "little")
    (tmp_path / FILE_NAME).write_bytes(content[: start + 20] + claimed * 2 + content[start + 28 :])
    with pytest.raises(InputError, match="its members claim 3,000,"):
        crowdwise.load(tmp_path)


@pytest.mark.parametrize("names", [["a"] * 10, ["\ud800", *"bcdefghij"], [1, *"bcdefghij"], "abcdefghij"])
def test_names_are_texts_and_each_there_once(saved: dict[str, dict[str, bytes]], names: Any, tmp_path: Path) -> None:
    write(saved["majority"] | {"votes/items.json": json.dumps(names).encode()}, tmp_path)
    with pytest.raises(InputError, match="not a result that this version of crowdwise can read"):
        crowdwise.load(tmp_path)
