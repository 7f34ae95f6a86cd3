"""Saved results: equal after a round trip, refused when damaged or hostile, whole whenever the writer dies."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import warnings
import zipfile
from dataclasses import fields, is_dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import crowdwise
from crowdwise.data.annotations import Annotations
from crowdwise.errors import CrowdwiseWarning, InputError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import label_methods, make
from crowdwise.estimator.storage import FILE_NAME, load, save


def fitted(
    name: str = "dawid-skene", votes: Annotations | None = None, fit: dict[str, Any] | None = None, **options: Any
) -> Any:
    if votes is None:
        rng = np.random.default_rng(0)
        votes = Annotations.from_arrays(
            [f"i{n}" for n in np.repeat(np.arange(8), 3)], np.tile(np.arange(3), 8), rng.integers(0, 2, 24)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        return make(name, **options).fit(votes, **(fit or {}))


def assert_equal(first: Result, second: Result) -> None:
    """Every field, down to types and bits."""
    for name in ("method", "seed", "n_iter", "converged"):
        assert getattr(first, name) == getattr(second, name)
    assert list(first.trace) == list(second.trace)
    for term in first.trace:
        assert_same(first.trace[term], second.trace[term])
    for part in ("posterior", "inferred", "confidence_source", "history", "prior", "annotators", "votes"):
        assert_same(getattr(first, part), getattr(second, part))


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if is_dataclass(ours):
        for each in fields(ours):
            assert_same(getattr(ours, each.name), getattr(theirs, each.name))
    elif isinstance(ours, tuple):
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        assert ours.tolist() == theirs.tolist()
    else:
        assert ours == theirs


VOCABULARIES = {
    "text": (["a", "b", "c"], ["x", "y"], ["no", "yes"]),
    "unicode": (["日本", "é", "👩‍🔬 \n,\"'"], ["žluť", "عين"], ["да", "нет"]),
    "integers": ([-5, 7, 2**40], [0, 10**12], [3, 11]),
    "booleans": ([0, 1, 2], ["x", "y"], [False, True]),
    "boolean items": ([False, True], [False, True], ["p", "q"]),
}


# Every method's parts, and every kind of ids with the three ways of keeping a model: counts, EM, a state of its own.
ROUND_TRIPS = [(name, "text") for name in label_methods()]
ROUND_TRIPS += [(name, kind) for name in ("majority", "dawid-skene", "online-em") for kind in VOCABULARIES if kind != "text"]


@pytest.mark.parametrize(("name", "kind"), ROUND_TRIPS)
def test_round_trip(name: str, kind: str, tmp_path: Path) -> None:
    items, annotators, classes = VOCABULARIES[kind]
    n, a = (part.ravel() for part in np.indices((len(items), len(annotators))))
    label = [classes[(i * j) % 2] for i, j in zip(n, a, strict=True)]
    votes = Annotations.from_arrays(
        [items[i] for i in n], [annotators[j] for j in a], label, np.arange(len(n)) + 0.1, classes=classes
    )
    options = {"gold": {items[0]: classes[1]}, "history": {annotators[0]: (3, 1)}}
    for given in ({}, options):
        # Class shares by name: JSON would turn the keys True and 3 into text.
        model = fitted(name, votes, given, class_prior=dict(zip(classes, [0.25, 0.75], strict=True)))
        # Online methods go on to the bit from their state, which their result alone does not have.
        (model if label_methods()[name].online else model.result_).save(tmp_path)
        loaded = crowdwise.load(tmp_path)
        assert_equal(model.result_, loaded.result_)
        assert loaded.get_params() == model.get_params()
        assert loaded.result_.votes.items.tolist() == sorted(items)
        assert loaded.result_.items_frame().equals(model.result_.items_frame())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CrowdwiseWarning)
            assert loaded.update(votes).posterior_.tolist() == model.update(votes).posterior_.tolist()


def test_settings_of_every_kind_come_back(tmp_path: Path) -> None:
    start = np.full((8, 2), 0.5)
    model = fitted(
        init=start, class_prior={np.int64(0): 0.5, np.int64(1): np.float64(0.5)}, max_iter=np.int64(7), random_state=None
    )
    model.result_.save(tmp_path)
    settings = crowdwise.load(tmp_path).get_params()
    assert settings["class_prior"] == {0: 0.5, 1: 0.5}
    assert settings["max_iter"] == 7
    assert settings["random_state"] is None
    assert np.array_equal(settings["init"], start)


def test_a_folder_is_made_and_an_older_save_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    fitted().result_.save(folder)
    newer = fitted("majority")
    newer.result_.save(folder)
    assert_equal(newer.result_, Result.load(folder))
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]


def test_a_failed_save_leaves_the_older_one(tmp_path: Path) -> None:
    model = fitted()
    model.result_.save(tmp_path)
    model.result_.settings["init"] = object()
    with pytest.raises(TypeError, match="cannot be saved"):
        save(model.result_, tmp_path)
    assert load(tmp_path).settings["init"] == "votes"
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


# -- refusals -------------------------------------------------------------------------------------


def rewrite(folder: Path, **replaced: bytes | None) -> None:
    """Replace (or, with None, drop) members of a saved archive; `/` and `.` in names are written as `__` and `_`."""
    path = folder / FILE_NAME
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for key, content in replaced.items():
        name = next(n for n in members if n.replace("/", "__").replace(".", "_") == key)
        members.pop(name)
        if content is not None:
            members[name] = content
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def changed_meta(folder: Path, change: Any) -> None:
    with zipfile.ZipFile(folder / FILE_NAME) as archive:
        meta = json.loads(archive.read("meta.json"))
    change(meta)
    rewrite(folder, meta_json=json.dumps(meta).encode())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    fitted().result_.save(tmp_path)
    return tmp_path


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no saved result here.*--save"):
        load(tmp_path)
    with pytest.raises(InputError, match="no saved result"):
        load(tmp_path / "absent")


@pytest.mark.parametrize("where", ["prior", "annotators"])
@pytest.mark.parametrize("name", ["Popen", "subprocess.Popen", "Result", "Aggregator", "__class__", ""])
def test_an_unknown_part_is_refused(saved: Path, where: str, name: str) -> None:
    changed_meta(saved, lambda meta: meta["fields"][where].update({"class": name}))
    with pytest.raises(InputError, match=FILE_NAME):
        load(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta: meta.update(crowdwise=99),
        lambda meta: meta.pop("crowdwise"),
        lambda meta: meta["fields"].pop("method"),
        lambda meta: meta["fields"].update(method=None),
        lambda meta: meta.pop("class"),
        lambda meta: meta.update({"class": "Annotations"}),
        lambda meta: meta.update({"class": "Popen"}),
        lambda meta: meta["fields"].update(trace={"mapping": [["term", {"array": "no such term"}]]}),
        lambda meta: meta["fields"].update(posterior={"text": "no such kind"}),
        lambda meta: meta["fields"].pop("settings"),
        lambda meta: meta["fields"].update(settings=[]),
        lambda meta: meta["fields"].update(settings={"mapping": {"other": 1}}),
        lambda meta: meta["fields"]["annotators"]["fields"].update(extra=1),
        lambda meta: meta["fields"]["annotators"].pop("fields"),
        lambda meta: meta["fields"].update(prior="Marginals"),
        lambda meta: meta["fields"].update(prior=meta["fields"]["votes"]),
        lambda meta: meta["fields"].update(votes=meta["fields"]["prior"]),
    ],
)
def test_a_changed_description_is_refused(saved: Path, change: Any) -> None:
    changed_meta(saved, change)
    with pytest.raises(InputError, match="not a result"):
        load(saved)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"7", b"{", b"\xff\xfe"])
def test_a_description_that_is_no_object_is_refused(saved: Path, text: bytes) -> None:
    rewrite(saved, meta_json=text)
    with pytest.raises(InputError, match="not a result"):
        load(saved)


def npy(array: Any, **options: Any) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


class Bomb:
    """Would leave a trace if it were ever unpickled."""

    def __reduce__(self) -> Any:
        return eval, ("__import__('os').environ.__setitem__('CROWDWISE_BOMB', 'exploded')",)


@pytest.mark.parametrize("member", ["posterior_npy", "votes__label_npy", "annotators__pi_alk_npy"])
def test_pickled_arrays_are_refused_unopened(saved: Path, member: str) -> None:
    rewrite(saved, **{member: npy(np.array([Bomb()], dtype=object), allow_pickle=True)})
    with pytest.raises(InputError, match="pickle"):
        load(saved)
    assert "CROWDWISE_BOMB" not in os.environ


@pytest.mark.parametrize(
    "member",
    ["posterior_npy", "votes__item_ptr_npy", "trace__votes_npy", "prior__probability_npy", "votes__items_json", "meta_json"],
)
@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY\x01\x00", b"garbage" * 50])
def test_missing_and_garbled_members_are_refused(saved: Path, member: str, content: bytes | None) -> None:
    rewrite(saved, **{member: content})
    with pytest.raises(InputError, match="not a result"):
        load(saved)


@pytest.mark.parametrize(
    ("member", "array"),
    [
        ("votes__item_ptr_npy", np.array([0, 24])),  # fewer items than names
        ("votes__item_ptr_npy", np.array([0, 3, 6, 9, 12, 15, 18, 21, 10**6])),  # votes beyond the end
        ("votes__item_ptr_npy", np.array([0, 3, 6, 9, 12, 3, 18, 21, 24])),  # going back
        ("votes__annotator_npy", np.full(24, 99, np.int32)),
        ("votes__annotator_npy", np.zeros(23, np.int32)),
        ("votes__label_npy", np.full(24, -1, np.int16)),
        ("votes__label_npy", np.full(24, 2, np.int16)),
        ("posterior_npy", np.full((3, 2), 0.5)),
        ("posterior_npy", np.full(8, 0.5)),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(saved: Path, member: str, array: Any) -> None:
    # Compiled loops do not check their indices: such a file would read memory that is not its own.
    rewrite(saved, **{member: npy(array)})
    with pytest.raises(InputError, match="not a result"):
        load(saved)


def test_truncated_files_are_refused_at_every_length(saved: Path) -> None:
    whole = (saved / FILE_NAME).read_bytes()
    for length in [*range(0, len(whole), 211), len(whole) - 1]:
        (saved / FILE_NAME).write_bytes(whole[:length])
        with pytest.raises(InputError, match="not a result"):
            load(saved)


@pytest.mark.slow
def test_flipped_bytes_are_refused_or_harmless(saved: Path) -> None:
    # Members carry checksums; a flip outside them may hit a field that nobody reads.
    before = load(saved)
    whole = (saved / FILE_NAME).read_bytes()
    rng = random.Random(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        (saved / FILE_NAME).write_bytes(damaged)
        try:
            after = load(saved)
        except InputError:
            refused += 1
        else:
            assert_equal(before, after)
    assert refused > 150


def test_compressed_members_are_refused_unopened(saved: Path) -> None:
    # A few kilobytes of zip can hold gigabytes of zeros.
    with zipfile.ZipFile(saved / FILE_NAME) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(saved / FILE_NAME, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match=r"not a result.*compressed"):
        load(saved)


def test_a_result_from_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("item,annotator,label\n1,x,cat\n")
    with pytest.raises(InputError, match="not a result"):
        load(tmp_path)


# -- crashes --------------------------------------------------------------------------------------

# Runs in an interpreter of its own that has imported everything but never touched polars, whose threads do not
# survive a fork. A trial is a fork: it checks what the last one left behind, then saves the other result until killed.
TRIALS = """
import os, random, signal, sys, time
import numpy as np
import polars
from crowdwise.estimator.storage import load, save
from dataclasses import fields


target, *folders = sys.argv[1:4]
trials = int(sys.argv[4])
rng = random.Random(1)

def content(result):
    parts = [(f.name, getattr(part, f.name)) for part in (result.votes, result.prior, result.annotators) for f in fields(part)]
    parts += [("posterior", result.posterior), *result.trace.items()]
    plain = [(name, value.tolist() if isinstance(value, np.ndarray) else value) for name, value in parts]
    return repr((result.method, result.settings, result.n_iter, plain))

def trial(report):
    found, known = load(target), [load(folder) for folder in folders]
    states = [content(result) for result in known]
    now = states.index(content(found))  # a mixture is in neither, and ends the trial with an error
    os.write(report, bytes([now]))
    save(known[1 - now], target)

killed, states, duration = 0, [], 0.02
for number in range(trials + 1):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trial(writer)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    state = os.read(reader, 1)
    if not state:
        sys.exit(f"trial {number} found neither the old nor the new result")
    states.append(state[0])
    if number < 5:  # how long a whole save takes here
        started = time.perf_counter()
        os.waitpid(child, 0)
        duration = time.perf_counter() - started
    else:
        time.sleep(rng.random() * 1.2 * duration)
        os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    os.close(reader)
print(killed, sum(first != second for first, second in zip(states[5:], states[6:])))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_save_leaves_the_old_result_or_the_new_one(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second", tmp_path / "target"]
    for folder, name in zip(folders, ("majority", "bayes-gc", "majority"), strict=True):
        fitted(name).result_.save(folder)
    done = subprocess.run(
        [sys.executable, "-c", TRIALS, *map(str, (folders[2], folders[0], folders[1])), "60"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    killed, replaced = map(int, done.stdout.split())
    # The trials mean something only if kills came before and after the moment of replacement.
    assert killed > 5, done.stdout
    assert 3 < replaced < 57, done.stdout


def test_a_file_is_no_folder_to_save_into(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("mine")
    with pytest.raises(SettingError, match="model is a file; name a folder"):
        fitted().save(tmp_path / "model")
    assert (tmp_path / "model").read_text() == "mine"
