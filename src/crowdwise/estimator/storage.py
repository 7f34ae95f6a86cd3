"""Save and load a `Result`: one zip of arrays and JSON, replaced whole or not at all.

``FOLDER/result.zip`` holds ``meta.json``, one ``.npy`` per array and one Arrow file per vocabulary.
What belongs to the result (a trained classifier) lies in the same file as members of its own.
Nothing is pickled: opening a saved result never runs code from it.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, vocabulary_array
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.result import Result
from crowdwise.io.atomic import replacing
from crowdwise.parts.annotators.accuracy import ClassAccuracy, OneAccuracy
from crowdwise.parts.annotators.atoms import AtomMixture
from crowdwise.parts.annotators.beta import BetaAccuracy
from crowdwise.parts.annotators.clusters import ClusterConfusion
from crowdwise.parts.annotators.communities import CommunityConfusion
from crowdwise.parts.annotators.confusion import Confusion, DirichletConfusion
from crowdwise.parts.annotators.cumulative import CumulativeLink
from crowdwise.parts.annotators.difficulty import AbilityDifficulty
from crowdwise.parts.annotators.expertise import Expertise
from crowdwise.parts.annotators.group_votes import GroupVotes
from crowdwise.parts.annotators.groups import GroupConfusion
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion
from crowdwise.parts.annotators.margin import MarginWeights
from crowdwise.parts.annotators.maxent import MaxEntConfusion
from crowdwise.parts.annotators.messages import BeliefMessages
from crowdwise.parts.annotators.reliability import ItemReliability
from crowdwise.parts.annotators.signed import SignedVotes
from crowdwise.parts.annotators.spammer import Spammer
from crowdwise.parts.annotators.subtypes import SubtypeConfusion
from crowdwise.parts.annotators.targets import BinaryTargets
from crowdwise.parts.annotators.weights import VoteWeights
from crowdwise.parts.priors.group_marginals import GroupMarginals
from crowdwise.parts.priors.marginals import DirichletMarginals, Marginals
from crowdwise.parts.priors.rows import RowPrior

if TYPE_CHECKING:
    from os import PathLike

__all__ = [
    "FILE_NAME",
    "check_folder",
    "load",
    "load_with_extra",
    "npy_bytes",
    "npy_of",
    "part_as_plain",
    "part_from_plain",
    "save",
]

FILE_NAME = "result.zip"
_VERSION = 1
_PAIRS = "pairs"
_VOCABULARIES = ("items", "annotators", "classes")
# A saved part names its class here; anything else in a file is refused.
_PARTS: dict[str, Any] = {
    part.__name__: part
    for part in (
        Marginals,
        DirichletMarginals,
        RowPrior,
        Confusion,
        DirichletConfusion,
        OneAccuracy,
        ClassAccuracy,
        AbilityDifficulty,
        Spammer,
        AtomMixture,
        BeliefMessages,
        BetaAccuracy,
        SignedVotes,
        ClusterConfusion,
        CommunityConfusion,
        MarginWeights,
        MaxEntConfusion,
        SubtypeConfusion,
        VoteWeights,
        GroupConfusion,
        GroupMarginals,
        GroupVotes,
        ItemGroupConfusion,
        BinaryTargets,
        CumulativeLink,
        Expertise,
        ItemReliability,
    )
}


class _Unsavable(Exception):
    """A setting that JSON cannot hold and that only the user's own code can make again."""


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


def save(result: Result, folder: str | PathLike[str], extra: Mapping[str, bytes] | None = None) -> None:
    """Write `result` into `folder`, which is made if needed; an older save there is replaced in one step.

    Parameters
    ----------
    extra : mapping, optional
        Members that lie beside the result in the same file, by name: see `load_with_extra`. Settings that are
        functions, modules or estimators are left out; ``meta.json`` notes what they were.
    """
    arrays: dict[str, Any] = {"posterior": result.posterior, "history": result.history}
    arrays |= {f"trace/{name}": values for name, values in result.trace.items()}
    votes = result.votes
    for name in ("item_ptr", "annotator", "label", "weight", "gold"):
        arrays[f"votes/{name}"] = getattr(votes, name)
    extra = extra or {}
    settings, left_out = _plain_settings(result.settings)
    meta: dict[str, Any] = {
        "crowdwise": _VERSION,
        "method": result.method,
        "settings": settings,
        "settings_left_out": left_out,
        "extra": list(extra),
        "seed": result.seed,
        "n_iter": result.n_iter,
        "converged": result.converged,
        "n_missing": votes.n_missing,
        "trace": list(result.trace),
    }
    for role in ("prior", "annotators"):
        meta[role], own = part_as_plain(getattr(result, role))
        arrays |= {f"{role}/{name}": array for name, array in own.items()}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    meta["arrays"] = list(arrays)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / FILE_NAME) as partial, zipfile.ZipFile(partial, "w") as archive:
        archive.writestr("meta.json", json.dumps(meta, default=_jsonable, indent=1))
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
        for name, content in extra.items():
            archive.writestr(name, content)
        for name in _VOCABULARIES:
            buffer = BytesIO()
            pl.DataFrame({name: series_of(getattr(votes, name))}).write_ipc(buffer)
            archive.writestr(f"{name}.arrow", buffer.getvalue())


def load(folder: str | PathLike[str]) -> Result:
    """Read a result that `save` wrote."""
    return load_with_extra(folder)[0]


def load_with_extra(folder: str | PathLike[str]) -> tuple[Result, dict[str, bytes]]:
    """Read a result and the members beside it, all of the same save."""
    path = Path(folder) / FILE_NAME
    if not path.is_file():
        raise InputError(f"{folder}: no saved result here (expected {FILE_NAME}); make one with --save or result.save(...)")
    try:
        with zipfile.ZipFile(path) as archive:
            result, meta = _read(archive)
            return result, {name: archive.read(name) for name in meta.get("extra", [])}
    except Exception as problem:  # whatever a damaged or foreign file does to the readers below is its fault, not theirs
        raise InputError(f"{path}: not a result that this version of crowdwise can read ({problem})") from problem


def part_as_plain(part: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A part of a model as JSON (its class and its plain values) and arrays by name."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in values.items() if name not in arrays}
    return {"class": type(part).__name__, "plain": plain}, arrays


def part_from_plain(meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> Any:
    """The part that `part_as_plain` took apart; classes that are no parts are refused."""
    return _PARTS[meta["class"]](**arrays, **meta["plain"])


def npy_bytes(array: Any) -> bytes:
    """An array as the content of a ``.npy`` file."""
    buffer = BytesIO()
    # Not by `ascontiguousarray`, which gives an array without axes one.
    np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
    return buffer.getvalue()


def npy_of(content: bytes) -> Any:
    """The array of a ``.npy`` file's content; one of objects is refused unopened."""
    return np.lib.format.read_array(BytesIO(content), allow_pickle=False)


def _read(archive: zipfile.ZipFile) -> tuple[Result, dict[str, Any]]:
    meta = json.loads(archive.read("meta.json"))
    if meta["crowdwise"] != _VERSION:
        raise ValueError(f"format {meta['crowdwise']}, expected {_VERSION}")
    arrays = {name: npy_of(archive.read(f"{name}.npy")) for name in meta["arrays"]}
    vocabularies = {name: vocabulary_array(pl.read_ipc(BytesIO(archive.read(f"{name}.arrow")))[name]) for name in _VOCABULARIES}
    votes = Annotations(
        **{name: arrays.get(f"votes/{name}") for name in ("item_ptr", "annotator", "label", "weight", "gold")},  # type: ignore[arg-type]
        **vocabularies,  # type: ignore[arg-type]
        n_missing=meta["n_missing"],
    )
    _check_codes(votes, arrays["posterior"])
    parts = {}
    for role in ("prior", "annotators"):
        own = {name.removeprefix(f"{role}/"): array for name, array in arrays.items() if name.startswith(f"{role}/")}
        parts[role] = part_from_plain(meta[role], own)
    if isinstance(parts["prior"], RowPrior) and parts["prior"].log_nk.shape != arrays["posterior"].shape:
        raise ValueError("its arrays contradict each other")
    result = Result(
        method=meta["method"],
        settings={name: _restored_mapping(value) for name, value in meta["settings"].items()},
        seed=meta["seed"],
        votes=votes,
        posterior=arrays["posterior"],
        history=arrays.get("history"),
        trace={name: arrays[f"trace/{name}"] for name in meta["trace"]},
        n_iter=meta["n_iter"],
        converged=meta["converged"],
        **parts,
    )
    return result, meta


def _check_codes(votes: Annotations, posterior: Any) -> None:
    """Compiled loops trust their indices, so those of a file are checked once here."""
    n_votes, ptr = len(votes.label), votes.item_ptr
    sound = (
        ptr.shape == (votes.n_items + 1,)
        and (ptr[0], ptr[-1]) == (0, n_votes)
        and bool((np.diff(ptr) >= 0).all())
        and votes.annotator.shape == votes.label.shape == (n_votes,)
        and _within(votes.annotator, 0, votes.n_annotators)
        and _within(votes.label, 0, votes.n_classes)
        and (votes.weight is None or votes.weight.shape == (n_votes,))
        and (votes.gold is None or (votes.gold.shape == (votes.n_items,) and _within(votes.gold, -1, votes.n_classes)))
        and posterior.shape == (votes.n_items, votes.n_classes)
    )
    if not sound:
        raise ValueError("its arrays contradict each other")


def _within(codes: Any, low: int, stop: int) -> bool:
    return bool(((codes >= low) & (codes < stop)).all())


def _plain_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings that JSON can hold, and what the others were."""
    plain, left_out = {}, {}
    for name, value in settings.items():
        try:
            json.dumps(_plain_mapping(value), default=_jsonable)
            plain[name] = _plain_mapping(value)
        except _Unsavable:
            left_out[name] = repr(value)
    return plain, left_out


def _plain_mapping(value: Any) -> Any:
    """JSON turns the keys of an object into text; class shares are keyed by integers and booleans too."""
    return {_PAIRS: [[key, share] for key, share in value.items()]} if isinstance(value, Mapping) else value


def _restored_mapping(value: Any) -> Any:
    return dict(value[_PAIRS]) if isinstance(value, dict) else value


def _jsonable(value: Any) -> Any:
    """Settings may hold numpy numbers, arrays, tensors and paths; JSON gets their plain form."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    if callable(value) or hasattr(value, "get_params"):
        raise _Unsavable
    raise TypeError(f"a setting of type {type(value).__name__} cannot be saved")
