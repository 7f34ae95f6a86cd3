from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.io import read
from crowdwise.io.votes import Request
from crowdwise.scale import batches, text
from crowdwise.scale.encoding import encode
from crowdwise.scale.store import Store

VOTES = "item,annotator,label\na,x,cat\na,y,dog\nb,x,cat\n"


def write(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


def assert_same(store: Store, votes: Annotations) -> None:
    """Every shard holds exactly the votes that `votes` has on its items, and every item is in one shard."""
    assert store.annotators.tolist() == votes.annotators.tolist()
    assert store.classes.tolist() == votes.classes.tolist()
    assert store.n_missing == votes.n_missing
    assert (store.n_items, store.n_votes) == (votes.n_items, votes.n_votes)
    assert store.weighted == (votes.weight is not None)
    np.testing.assert_array_equal(store.votes_per_annotator, votes.votes_per_annotator)
    position = {item: n for n, item in enumerate(votes.items.tolist())}
    seen: list[Any] = []
    for index, sizes in enumerate(store.shards):
        folder = store.shard_folder(index)
        items = pl.read_ipc(folder / "items.arrow")["item"]
        assert str(items.dtype) == store.item_type
        expected = votes[np.array([position[item] for item in items.to_list()], np.int64)]
        for name in ("item_ptr", "annotator", "label", "weight", "gold"):
            array, file = getattr(expected, name), folder / f"{name}.npy"
            assert file.exists() == (array is not None), name
            if array is not None:
                np.testing.assert_array_equal(np.load(file), array, strict=True)
        assert (sizes.n_items, sizes.n_votes) == (expected.n_items, expected.n_votes)
        assert sizes.n_gold == (0 if expected.gold is None else (expected.gold >= 0).sum())
        assert items.to_list() == sorted(items.to_list())
        seen += items.to_list()
    assert sorted(seen) == votes.items.tolist()


def random_ids(rng: np.random.Generator, kind: str, size: int, n: int) -> list[Any]:
    codes = rng.integers(0, size, n)
    spell: dict[str, Callable[[int], Any]] = {
        "names": lambda i: f'{"äß中𝄞, "[i % 6]}{i}"',
        "zeros": lambda i: f"{i:03d}",
        "digits": lambda i: str(i - 3),
        "integers": lambda i: i - 3,
        "large": lambda i: 2**63 - 2 + i,
        "whole": lambda i: float(i),
        "floats": lambda i: i / 2,
        "flags": lambda i: bool(i % 2),
    }
    return [spell[kind](int(i)) for i in codes]


def random_table(rng: np.random.Generator) -> pl.DataFrame:
    """Draw votes in one of many combinations of types, with repeats, missing labels, weights and gold."""
    n = int(rng.choice([1, 2, 9, 40]))
    kinds = ["names", "zeros", "digits", "integers", "large", "whole", "floats"]
    item, annotator = rng.choice(kinds, 2)
    label = rng.choice([*kinds, "flags"])
    types = {"large": pl.UInt64, "integers": rng.choice([pl.Int64, pl.Int16])}
    size = int(rng.choice([1, 3, 12]))
    truth = dict(zip(range(size), random_ids(rng, label, 3, size), strict=True))
    codes = rng.integers(0, size, n)
    ids = dict(zip(range(size), random_ids(np.random.default_rng(0), item, size, size), strict=True))
    frame = pl.DataFrame(
        {
            "item": pl.Series([ids[int(i)] for i in codes], dtype=types.get(item)),
            "annotator": pl.Series(random_ids(rng, annotator, 4, n), dtype=types.get(annotator)),
            "label": pl.Series(random_ids(rng, label, 3, n), dtype=types.get(label)),
        }
    )
    if rng.random() < 0.5:
        frame = frame.with_columns(label=pl.when(pl.Series(rng.random(n) < 0.7)).then("label"))
    if rng.random() < 0.3 and frame["label"].dtype == pl.String:
        frame = frame.with_columns(label=pl.when(pl.Series(rng.random(n) < 0.7)).then("label").otherwise(pl.lit("?")))
    if rng.random() < 0.4:
        frame = frame.with_columns(weight=pl.Series(rng.integers(0, 3, n) / 2))
    if rng.random() < 0.4:
        # By id, for two codes may have one id.
        known = {ids[code]: value for code, value in truth.items()}
        gold = [known[value] if known[value] is not None and rng.random() < 0.5 else None for value in frame["item"].to_list()]
        frame = frame.with_columns(gold=pl.Series(gold, dtype=types.get(label) or frame["label"].dtype, strict=False))
    return frame


def in_memory(path: Path, frame: pl.DataFrame, **options: Any) -> Annotations:
    """Read everything from one file by the reader that holds it all, the independent path."""
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return read(path, format="tidy", **options)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::crowdwise.errors.DataWarning")
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("seed", range(16))
def test_shards_hold_what_one_concatenated_file_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(batches, "ROWS", int(rng.choice([3, 1000])))
    monkeypatch.setattr(text, "BLOCK", int(rng.choice([7, 50, 1000])))
    frame = random_table(rng)
    missing: tuple[Any, ...] = [(), ("?",), ("?", 1)][rng.integers(3)]
    weight = None
    if "weight" in frame.columns and rng.random() < 0.7:
        weight = "weight"
    try:
        votes = in_memory(tmp_path / f"all{suffix}", frame, missing=missing, weight=weight)
        expected = None
    except InputError as error:
        expected = str(error).split(": ", 1)[1]
    cuts = [0, *sorted(rng.integers(0, frame.height + 1, rng.integers(0, 5))), frame.height]
    for index, (start, end) in enumerate(pairwise(cuts)):
        part = frame[int(start) : int(end)]
        path = tmp_path / "parts" / f"{index}{suffix}"
        path.parent.mkdir(exist_ok=True)
        part.write_csv(path) if suffix == ".csv" else part.write_parquet(path)

    def run() -> Store:
        return encode(
            tmp_path / "parts", tmp_path / "work", request=Request(weight=weight), missing=missing, n_shards=int(seed % 7) + 1
        )

    if expected is not None:
        with pytest.raises(InputError) as caught:
            run()
        assert str(caught.value).split(": ", 1)[1][:20] == expected[:20]
    else:
        assert_same(run(), votes)
        assert not (tmp_path / "work" / "spill").exists()


def test_votes_on_one_item_come_together_from_many_files(tmp_path: Path) -> None:
    for index in range(5):
        write(tmp_path / "parts" / f"{index}.csv", f"item,annotator,label\nsame,worker {index},yes\n")
    store = encode(tmp_path / "parts", tmp_path / "work", n_shards=3)
    assert sorted(sizes.n_votes for sizes in store.shards) == [0, 0, 5]


def test_integers_in_text_are_integers_only_if_they_are_in_every_file(tmp_path: Path) -> None:
    first = write(tmp_path / "1.csv", "item,annotator,label\n1,7,0\n2,7,1\n")
    store = encode(first, tmp_path / "one", n_shards=2)
    assert (store.item_type, store.annotators.tolist(), store.classes.tolist()) == ("Int64", [7], [0, 1])
    second = write(tmp_path / "2.csv", "item,annotator,label\n007,x,unsure\n008,x,unsure\n")
    with pytest.warns(DataWarning, match=r"'unsure' \(2\) counts as a class"):
        store = encode([first, second], tmp_path / "two", n_shards=2)
    assert (store.item_type, store.annotators.tolist(), store.classes.tolist()) == ("String", ["7", "x"], ["0", "1", "unsure"])
    store = encode([first, second], tmp_path / "three", n_shards=2, missing="unsure")
    assert (store.classes.tolist(), store.n_missing, store.n_items) == ([0, 1], 2, 4)


def test_whole_floats_join_the_integers_of_other_files_and_fractions_do_not(tmp_path: Path) -> None:
    def part(name: str, labels: list[Any]) -> None:
        pl.DataFrame({"item": ["a"] * len(labels), "annotator": ["x"] * len(labels), "label": labels}).write_parquet(
            tmp_path / name
        )

    part("1.parquet", [0, 1])
    part("2.parquet", [2.0, None])
    store = encode(f"{tmp_path}/*.parquet", tmp_path / "work")
    assert (store.classes.tolist(), store.n_missing) == ([0, 1, 2], 1)
    part("3.parquet", [1.0, 0.5])
    with pytest.raises(InputError, match=r"3\.parquet row 2: the label 0\.5 is not a whole number"):
        encode(f"{tmp_path}/*.parquet", tmp_path / "other")


def test_zipped_files_and_folder_names_are_read(tmp_path: Path) -> None:
    for worker, labels in ((3, "01"), (11, "10")):
        folder = tmp_path / "votes" / f"annotator={worker}"
        folder.mkdir(parents=True)
        content = "item,label\n" + "".join(f"i{n},{label}\n" for n, label in enumerate(labels))
        (folder / "part.csv.gz").write_bytes(gzip.compress(content.encode()))
    store = encode(tmp_path / "votes", tmp_path / "work", n_shards=2)
    expected = Annotations.from_arrays(["i0", "i1", "i0", "i1"], [3, 3, 11, 11], [0, 1, 1, 0])
    assert_same(store, expected)


def test_quotes_line_breaks_and_blank_lines_pass_the_ends_of_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = 'note,item,annotator,label\n"one\ntwo, three",a,x,"ca""t"\n\n,b,x,dog\n"",b,"y\nz",dog\n\n'
    expected = read(write(tmp_path / "v.csv", content))
    for block in (1, 5, 16, 1000):
        monkeypatch.setattr(text, "BLOCK", block)
        assert_same(encode(tmp_path / "v.csv", tmp_path / str(block), n_shards=2), expected)


@pytest.mark.parametrize("content", ["\ufeff" + VOTES, VOTES.replace("\n", "\r\n"), VOTES.replace("\n", "\r"), VOTES[:-1]])
def test_other_line_ends_and_marks_are_understood(tmp_path: Path, content: str) -> None:
    (tmp_path / "v.csv").write_bytes(content.encode())
    assert_same(encode(tmp_path / "v.csv", tmp_path / "work", n_shards=2), read(write(tmp_path / "plain.csv", VOTES)))


def test_repeated_votes_are_kept_or_made_one(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label,weight\na,x,c,2\na,x,c,1\na,x,d,1\nb,x,d,3\nc,y,d,3\n")
    votes = read(path, weight="weight")
    assert_same(encode(path, tmp_path / "all", request=Request(weight="weight")), votes)
    store = encode(path, tmp_path / "once", request=Request(weight="weight"), deduplicate=True, n_shards=1)
    assert store.n_votes == 4
    assert np.load(store.shard_folder(0) / "weight.npy").tolist() == [1, 1, 3, 3]


def test_classes_keep_the_order_given(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", VOTES)
    assert_same(encode(path, tmp_path / "work", classes=["dog", "cow", "cat"]), read(path, classes=["dog", "cow", "cat"]))


@pytest.mark.slow
def test_given_gold_is_attached_and_that_of_unknown_items_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", "item,annotator,label\n1,x,cat\n2,y,dog\n3,x,cat\n")
    gold = pl.DataFrame({"item": ["1", "3"], "label": ["dog", "cat"]})
    store = encode(path, tmp_path / "work", gold=gold, n_shards=2)
    assert store.n_gold == 2
    assert_same(store, read(path).with_gold(gold))
    with pytest.warns(DataWarning, match="1 gold labels are of items without votes"):
        encode(path, tmp_path / "more", gold=pl.DataFrame({"item": [1, 4], "label": ["dog", "cat"]}))
    with pytest.raises(InputError, match="gold label 'cow' of item 1 is not among the classes cat, dog"):
        encode(path, tmp_path / "outside", gold=pl.DataFrame({"item": [1], "label": ["cow"]}))
    with pytest.raises(InputError, match="gold gives item 1 two different labels"):
        encode(path, tmp_path / "both", gold=pl.DataFrame({"item": [1, 1], "label": ["cat", "dog"]}))


def test_gold_of_two_kinds_in_two_files_is_refused(tmp_path: Path) -> None:
    for index, known in enumerate(("cat", "dog")):
        write(tmp_path / "parts" / f"{index}.csv", f"item,annotator,label,gold\na,x,cat,{known}\n")
    with pytest.raises(InputError, match="gold gives item 'a' two different labels"):
        encode(tmp_path / "parts", tmp_path / "work")


def test_a_file_without_gold_among_others_says_nothing_about_it(tmp_path: Path) -> None:
    write(tmp_path / "parts" / "0.csv", "item,annotator,label\na,x,cat\n")
    write(tmp_path / "parts" / "1.csv", "gold,item,annotator,label\ndog,b,x,cat\n")
    store = encode(tmp_path / "parts", tmp_path / "work", n_shards=1)
    assert (store.classes.tolist(), store.n_gold) == (["cat", "dog"], 1)
    assert np.load(store.shard_folder(0) / "gold.npy").tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        (",x,cat", {}, r"2\.csv row 4: the item id is missing"),
        ("c,,cat", {}, r"2\.csv row 4: the annotator id is missing"),
        ("c,x,cow", {"classes": ["cat", "dog"]}, r"2\.csv row 4: label 'cow' is not among the classes cat, dog"),
        ("c,x,cat,more", {}, r"2\.csv row 4: 4 fields where the header has 3"),
        ('c,"x,cat', {}, r"2\.csv row 4: cannot be read"),
        ("c,x,ca\udcfft", {}, r"2\.csv row 4: byte 0xff is not UTF-8"),
    ],
)
@pytest.mark.parametrize("block", [1, 1000])
def test_the_file_and_the_row_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, options: dict[str, Any], message: str, block: int
) -> None:
    monkeypatch.setattr(text, "BLOCK", block)
    write(tmp_path / "parts" / "1.csv", VOTES)
    content = f"item,annotator,label\na,x,cat\na,y,dog\n{row}\nd,x,dog\n"
    (tmp_path / "parts" / "2.csv").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match=message):
        encode(tmp_path / "parts", tmp_path / "work", **options)


def test_rows_of_binary_files_count_from_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "ROWS", 2)
    good = pl.DataFrame({"item": [1, 2, 3], "annotator": ["x"] * 3, "label": [0.0, 1.0, 1.0], "weight": [1.0, 1.0, 1.0]})
    good.write_parquet(tmp_path / "1.parquet")
    paths, request = f"{tmp_path}/*.parquet", Request(weight="weight")
    good.with_columns(weight=pl.Series([1.0, 1.0, -1.0])).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"2\.parquet row 3: weight -1\.0 is not a finite number >= 0"):
        encode(paths, tmp_path / "work", request=request)
    good.with_columns(label=pl.Series([0.0, 1.0, 2.5])).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"1\.parquet row 1: label '0\.0' is not among the classes 0, 1"):
        encode(paths, tmp_path / "work", request=request, classes=[0, 1])
    good.with_columns(item=pl.Series([1, 2, None])).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"2\.parquet row 3: the item id is missing"):
        encode(paths, tmp_path / "work", request=request)


def test_votes_without_rows_or_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"v\.csv: no rows; expected one row per vote"):
        encode(write(tmp_path / "v.csv", "item,annotator,label\n"), tmp_path / "work")
    with pytest.raises(InputError, match=r"w\.csv: every label is missing, so no class is known"):
        encode(write(tmp_path / "w.csv", "item,annotator,label\na,x,\n"), tmp_path / "work")


def test_a_finished_folder_of_the_same_votes_is_used_again(tmp_path: Path) -> None:
    path, calls = write(tmp_path / "v.csv", VOTES), []

    def watched(function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
        calls.append(function.__name__)
        return [function(*each) for each in arguments]

    first = encode(path, tmp_path / "work", n_shards=2, map=watched)
    again = encode(path, tmp_path / "work", map=watched)
    assert calls == ["spill", "build_shard"]
    assert (again.shards, again.annotators.tolist()) == (first.shards, first.annotators.tolist())
    for options, different in (
        ({"n_shards": 3}, "2 shards instead of 3"),
        ({"missing": "?"}, "missing"),
        ({"deduplicate": True}, "dedup"),
    ):
        with pytest.raises(SettingError, match=f"work: holds an encoding of other votes or with other options.*{different}"):
            encode(path, tmp_path / "work", **options)  # type: ignore[arg-type]
    write(path, VOTES + "c,x,dog\n")
    with pytest.raises(SettingError, match=r"different: .*v\.csv is changed\); name another work folder, or delete"):
        encode(path, tmp_path / "work")


def test_an_unfinished_folder_is_begun_anew(tmp_path: Path) -> None:
    path = write(tmp_path / "v.csv", VOTES)

    def stops(function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
        if function.__name__ == "build_shard":
            function(*arguments[0])
            raise KeyboardInterrupt
        return [function(*each) for each in arguments]

    with pytest.raises(KeyboardInterrupt):
        encode(path, tmp_path / "work", n_shards=5, map=stops)
    with pytest.raises(InputError, match=r"work: no store\.json"):
        Store.open(tmp_path / "work")
    assert_same(encode(path, tmp_path / "work", n_shards=2), read(path))
    assert len(list((tmp_path / "work").glob("shard-*"))) == 2


def test_a_folder_in_other_use_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "mine" / "v.csv", VOTES)
    with pytest.raises(SettingError, match="mine: not empty, and not a work folder"):
        encode(path, tmp_path / "mine")
    with pytest.raises(SettingError, match=r"lies within .*mine, so its files would count as votes"):
        encode(tmp_path / "mine", tmp_path / "mine" / "work")
    with pytest.raises(SettingError, match="a file, but the work folder must be a folder"):
        encode(path, path)
    write(tmp_path / "old" / "store.json", json.dumps({"version": 0}))
    with pytest.raises(SettingError, match="not written by this version"):
        encode(path, tmp_path / "old")
    with pytest.raises(SettingError, match="n_shards must lie between 1 and 65535, got 0"):
        encode(path, tmp_path / "new", n_shards=0)


def test_progress_is_reported(tmp_path: Path) -> None:
    steps: list[tuple[str, int, int]] = []
    encode(write(tmp_path / "v.csv", VOTES), tmp_path / "work", n_shards=2, progress=lambda *step: steps.append(step))
    assert steps == [("reading", 1, 1), ("sorting", 1, 2), ("sorting", 2, 2)]


def test_a_file_per_annotator_is_read_from_folders_that_name_them(tmp_path: Path) -> None:
    rows = {"anna": "1,cat\n2,dog\n", "bob": "1,cat\n2,cat\n"}
    for who, votes in rows.items():
        write(tmp_path / "people" / f"{who}.csv", "item,label\n" + votes)
        write(tmp_path / "named" / f"annotator={who}" / "votes.csv", "item,label\n" + votes)
    with pytest.raises(InputError, match=r"no annotator column.*put each into a folder annotator=NAME"):
        encode(tmp_path / "people", tmp_path / "refused", n_shards=2)
    store = encode(tmp_path / "named", tmp_path / "work", n_shards=2)
    assert (store.n_votes, store.annotators.tolist(), store.classes.tolist()) == (4, ["anna", "bob"], ["cat", "dog"])
