"""Fits of rankings, ratings, clusters, tags and sets: saved, loaded, and refused when damaged."""

from __future__ import annotations

import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.label_sets import LabelSets
from crowdwise.data.ratings import Ratings
from crowdwise.data.similarities import Similarities
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import CrowdwiseWarning, InputError, SettingError
from crowdwise.estimator.storage import FILE_NAME, npy_bytes

X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.5]])
RATINGS = Ratings.from_arrays(list("aabbccdd"), ["x", "y"] * 4, [1, 2, 2, 3, 3, 4, 4, 5.5])
COMPARISONS = Comparisons.from_arrays(list("aabc"), list("bccd"), ["x", "y"] * 2, ["left", "right", "left", "right"])
SIMILARITIES = Similarities.from_arrays(list("aaabbc"), list("bcdcdd"), list("xyxyxy"), [1, 0, 0, 0, 0, 1])
TAGS = TokenVotes.from_arrays([1] * 4, [1, 2] * 2, list("xxyy"), ["B-P", "I-P", "B-P", "O"], token=["Ada", "L."] * 2)
SETS = LabelSets.from_arrays(list("aab"), list("xyx"), ["cat|dog", "cat", "none"])
# Method, settings, and what is given to fit.
FITS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "weighted-mean": ({}, (RATINGS,)),
    "gaussian-crowd-bayes": ({}, (RATINGS,)),
    "covariance-crowd": ({}, (RATINGS,)),
    "gp-crowd-regression": ({"max_iter": 2}, (X, RATINGS)),
    "crowd-layer-regression": ({"epochs": 2}, (X, RATINGS)),
    "bradley-terry": ({"ties": "davidson"}, (COMPARISONS,)),
    "noisy-bt": ({}, (COMPARISONS,)),
    "rank-network": ({"epochs": 2}, (X, COMPARISONS)),
    "similarity-nmf": ({"clusters": 2}, (SIMILARITIES,)),
    "crowd-clustering": ({"clusters": 2, "epochs": 2}, (X, SIMILARITIES)),
    "bsc": ({}, (TAGS,)),
    "label-wise": ({}, (SETS,)),
    "consensus-sets": ({}, (SETS.with_gold(SETS.take_votes([0])),)),
}
NETWORKS = ("crowd-layer-regression", "rank-network", "crowd-clustering")


def fitted(name: str) -> Any:
    if name in NETWORKS:
        pytest.importorskip("torch")
    settings, given = FITS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return crowdwise.make(name, **settings).fit(*given)


@pytest.mark.parametrize("name", FITS)
def test_a_loaded_fit_says_the_same(name: str, tmp_path: Path) -> None:
    model = fitted(name)
    model.save(tmp_path)
    loaded = crowdwise.load(tmp_path)
    assert (type(loaded), loaded.name, loaded.get_params()) == (type(model), name, model.get_params())
    assert loaded.items_frame().equals(model.items_frame())
    assert loaded.annotators_frame().equals(model.annotators_frame())
    assert loaded.trace_.tolist() == model.trace_.tolist()
    for ask in ("predict", "predict_proba"):
        if hasattr(model, ask):
            assert getattr(loaded, ask)(X).tolist() == getattr(model, ask)(X).tolist()
    with pytest.raises(SettingError, match="network"):
        crowdwise.load(tmp_path, network=object())


def members(folder: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(folder / FILE_NAME) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(folder: Path, content: dict[str, bytes]) -> None:
    with zipfile.ZipFile(folder / FILE_NAME, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


@pytest.mark.parametrize("name", FITS)
def test_any_member_missing_or_garbled_is_refused_with_the_file(name: str, tmp_path: Path) -> None:
    fitted(name).save(tmp_path)
    whole = members(tmp_path)
    for member in whole:
        for content in (None, b"", b"garbage" * 9):
            changed = {key: data for key, data in whole.items() if key != member}
            rewritten(tmp_path, changed if content is None else changed | {member: content})
            with pytest.raises(InputError, match=FILE_NAME):
                crowdwise.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "member", "array"),
    [
        ("noisy-bt", "votes/first", np.full(4, 99, np.int32)),
        ("noisy-bt", "score", np.zeros(3)),
        ("noisy-bt", "component", np.full(4, -9)),
        ("gaussian-crowd-bayes", "votes/item_ptr", np.array([0, 9, 4, 6, 8])),
        ("gaussian-crowd-bayes", "estimate", np.zeros((3, 1))),
        ("similarity-nmf", "hit", np.zeros(5)),
        ("bsc", "path", np.array([0, 99])),
        ("bsc", "votes/sequence_ptr", np.array([0, 7])),
        ("label-wise", "votes/label", np.array([7, 0, 0], np.int32)),
        ("label-wise", "probability", np.zeros((1, 1))),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(name: str, member: str, array: Any, tmp_path: Path) -> None:
    fitted(name).save(tmp_path)
    whole = members(tmp_path)
    assert f"{member}.npy" in whole
    rewritten(tmp_path, whole | {f"{member}.npy": npy_bytes(array)})
    with pytest.raises(InputError, match=f"{FILE_NAME}: not a result"):
        crowdwise.load(tmp_path)


def test_an_outcome_of_another_kind_is_refused(tmp_path: Path) -> None:
    fitted("noisy-bt").save(tmp_path)
    with pytest.raises(InputError, match="holds a Ranking, not a Result"):
        crowdwise.Result.load(tmp_path)
    whole = members(tmp_path)
    meta = json.loads(whole["meta.json"])
    meta["fields"]["method"] = "mean"
    rewritten(tmp_path, whole | {"meta.json": json.dumps(meta).encode()})
    with pytest.raises(InputError, match="settings that mean does not have"):
        crowdwise.load(tmp_path)
