"""Save and load what a fit left: one zip of arrays and JSON, replaced whole or not at all.

``FOLDER/result.zip`` holds ``meta.json``, one ``.npy`` per array of numbers and one JSON list per array of text. What belongs
to the outcome (a trained classifier, the state of an online method) lies in the same file as members of its own. Nothing is
pickled and nothing compressed: opening a saved fit never runs code from it, and its arrays take no more memory than the file is
long. Types, shapes and numbers are checked before anything uses them, see `crowdwise.estimator.saved`.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from io import BytesIO
from os import PathLike
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from crowdwise.data.storable import storable_class
from crowdwise.errors import InputError, MissingExtraError, SettingError
from crowdwise.estimator.codec import Unsavable, pack, unpack
from crowdwise.estimator.registry import METHODS
from crowdwise.io.limits import check_archive, npy_of
from crowdwise.io.writer import replacing

__all__ = [
    "FILE_NAME",
    "check_folder",
    "load",
    "load_with_extra",
    "members_of",
    "npy_bytes",
    "save",
    "value_of",
]

FILE_NAME = "result.zip"
_VERSION = 3


def check_folder(folder: str | PathLike[str]) -> None:
    """Refuse a folder that `save` could not write into, before hours of work; nothing is left behind."""
    folder = Path(folder)
    # A link to nothing is there, though it does not exist.
    if os.path.lexists(folder) and not folder.is_dir():
        raise SettingError(f"{folder} is a file; name a folder")
    if (folder / FILE_NAME).is_dir():
        raise SettingError(f"{folder / FILE_NAME} is a folder; name another folder to save into")
    above = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        if not above.is_dir():
            raise NotADirectoryError(f"{above} is a file")
        TemporaryFile(dir=above).close()
    except OSError as problem:
        raise SettingError(f"cannot save into {folder} ({problem.strerror or problem}); name another folder") from None


def save(outcome: Any, folder: str | PathLike[str], extra: Mapping[str, bytes] | None = None) -> None:
    """Write `outcome` into `folder`, which is made if needed; an older save there is replaced in one step.

    Parameters
    ----------
    outcome : Outcome
        Any storable value with `method` and `settings`. Settings that are functions, modules or estimators are left out;
        ``meta.json`` notes what they were.
    extra : mapping, optional
        Members that lie beside the outcome in the same file, by name: see `load_with_extra`.
    """
    arrays: dict[str, Any] = {}
    settings, left_out = _plain_settings(outcome.settings, arrays)
    values = {f.name: getattr(outcome, f.name) for f in fields(outcome) if f.init and f.name != "settings"}
    meta: dict[str, Any] = {
        "crowdwise": _VERSION,
        "class": type(outcome).__name__,
        "fields": {"settings": settings} | {name: pack(value, name, arrays) for name, value in values.items()},
        "settings_left_out": left_out,
        "arrays": [name for name, array in arrays.items() if array.dtype != object],
        "texts": [name for name, array in arrays.items() if array.dtype == object],
        "extra": list(extra or {}),
    }
    check_folder(folder)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / FILE_NAME) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr("meta.json", json.dumps(meta, indent=1))
        for name in meta["arrays"]:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                # Not by `ascontiguousarray`, which gives an array without axes one.
                np.lib.format.write_array(file, np.asarray(arrays[name], order="C"), allow_pickle=False)
        for name in meta["texts"]:
            archive.writestr(f"{name}.json", json.dumps([str(text) for text in arrays[name]]))
        for name, content in (extra or {}).items():
            archive.writestr(name, content)


def load(folder: str | PathLike[str]) -> Any:
    """Read an outcome that `save` wrote."""
    return load_with_extra(folder)[0]


def load_with_extra(folder: str | PathLike[str]) -> tuple[Any, dict[str, bytes]]:
    """Read an outcome and the members beside it, all of the same save."""
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        raise InputError(f"{folder}: no saved result here (expected {FILE_NAME}); make one with --save or result.save(...)")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path.stat().st_size, str(path), stored=True)
            outcome, meta = _read(archive)
            return outcome, {name: archive.read(name) for name in meta["extra"]}
    except MissingExtraError:
        raise
    except Exception as problem:  # whatever a damaged or foreign file does to the readers below is its fault, not theirs
        raise InputError(f"{path}: not a result that this version of crowdwise can read ({problem!s:.300})") from problem


def members_of(value: Any, name: str) -> dict[str, bytes]:
    """A storable value as members that lie beside an outcome, under `name`."""
    arrays: dict[str, Any] = {}
    plain = pack(value, name, arrays)
    document = json.dumps({"value": plain, "arrays": list(arrays)}).encode()
    return {f"{name}.json": document} | {f"{key}.npy": npy_bytes(array) for key, array in arrays.items()}


def value_of(members: Mapping[str, bytes], name: str) -> Any:
    """The value that `members_of` took apart."""
    document = json.loads(members[f"{name}.json"])
    return unpack(document["value"], {key: npy_of(members[f"{key}.npy"]) for key in document["arrays"]})


def npy_bytes(array: Any) -> bytes:
    """An array as the content of a ``.npy`` file."""
    buffer = BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def _read(archive: zipfile.ZipFile) -> tuple[Any, dict[str, Any]]:
    meta = json.loads(archive.read("meta.json"))
    if meta["crowdwise"] != _VERSION:
        raise ValueError(f"format {meta['crowdwise']}, expected {_VERSION}; fit again with this version")
    # The module of a method brings its parts. A choice adds what it chose: "auto: dawid-skene".
    names = meta["fields"]["method"].split(": ")
    for name in names:
        if name in METHODS:
            METHODS[name].cls  # noqa: B018
    if names[0] not in METHODS and storable_class(meta["class"]) is None:
        raise ValueError(f"fitted by {names[0]!r}, which is not registered here; import the package that registers it")
    arrays = {name: npy_of(archive.read(f"{name}.npy")) for name in meta["arrays"]}
    arrays |= {name: _text_of(archive.read(f"{name}.json")) for name in meta["texts"]}
    outcome = unpack({"class": meta["class"], "fields": meta["fields"]}, arrays)
    return outcome, meta


def _text_of(content: bytes) -> Any:
    """An array of texts, which can be written as UTF-8."""
    texts = json.loads(content)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError("an array of texts that is no list of texts")
    "".join(texts).encode()
    return np.array([*texts, None], dtype=object)[:-1]


def _plain_settings(settings: Mapping[str, Any], arrays: dict[str, Any]) -> tuple[Any, dict[str, str]]:
    """Settings that a file can hold, and what the others were."""
    kept, left_out = {}, {}
    for name, value in settings.items():
        own: dict[str, Any] = {}
        try:
            pack(value, f"settings/{name}", own)
        except Unsavable:
            left_out[name] = repr(value)
        else:
            kept[name] = value
    return pack(kept, "settings", arrays), left_out
