from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from crowdwise.errors import InputError
from crowdwise.io.votes import Request
from crowdwise.scale.batches import n_votes_of
from crowdwise.scale.inputs import check_inputs, find_inputs

VOTES = pl.DataFrame({"item": ["a", "a", "b"], "annotator": ["x", "y", "x"], "label": ["cat", "dog", "cat"]})


def parquet(path: Path, frame: pl.DataFrame = VOTES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path)
    return path


def table(path: Path, frame: pl.DataFrame = VOTES) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_csv(path)
    return path


def names(folder: Path, *paths: str | Path) -> list[str]:
    return [Path(each.path).relative_to(folder).as_posix() for each in find_inputs(paths)]


def test_folders_are_searched_to_any_depth_and_hidden_names_are_left_out(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", "deep/er/c.parquet", "_temporary/d.parquet", ".e.parquet"):
        parquet(tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    assert names(tmp_path, tmp_path) == ["a.parquet", "b.parquet", "deep/er/c.parquet"]


def test_patterns_are_expanded_and_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    for name in ("2.csv", "1.csv", "deep/3.csv", "notes.txt"):
        table(tmp_path / name)
    assert names(tmp_path, f"{tmp_path}/*.csv", tmp_path / "1.csv") == ["1.csv", "2.csv"]
    assert names(tmp_path, f"{tmp_path}/**/*.csv") == ["1.csv", "2.csv", "deep/3.csv"]


def test_a_file_whose_name_has_brackets_is_not_a_pattern(tmp_path: Path) -> None:
    assert names(tmp_path, parquet(tmp_path / "votes[1].parquet")) == ["votes[1].parquet"]
    assert n_votes_of(find_inputs(tmp_path / "votes[1].parquet")) == 3


def test_paths_that_name_nothing_say_so(tmp_path: Path) -> None:
    table(tmp_path / "votes.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"\*\.parquet: no file matches this pattern"):
        find_inputs(f"{tmp_path}/*.parquet")
    with pytest.raises(InputError, match="empty: no files in this folder"):
        find_inputs(tmp_path / "empty")
    with pytest.raises(InputError, match=r"no such file; did you mean 'votes\.csv'"):
        find_inputs(tmp_path / "vote.csv")
    with pytest.raises(InputError, match="no file was named"):
        find_inputs([])


def test_a_folder_of_several_kinds_says_what_was_found(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        parquet(tmp_path / name)
    table(tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"several or unknown kinds: 1 \.csv, 2 \.parquet; choose with a pattern, such as"):
        find_inputs(tmp_path)
    (tmp_path / "c.csv").rename(tmp_path / "c.txt")
    with pytest.raises(InputError, match=r"2 \.parquet, 1 \.txt.*\*\.parquet"):
        find_inputs(tmp_path)
    table(tmp_path / "c.csv")
    with pytest.raises(InputError, match=r"files of several kinds: .*c\.csv \(delimited\), .*a\.parquet \(parquet\)"):
        find_inputs([tmp_path / "a.parquet", tmp_path / "c.csv"])


def test_json_and_matrices_are_refused_with_a_fix(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"item": 1}\n')
    with pytest.raises(InputError, match=r"v\.jsonl: JSON is read only as a whole; convert it to Parquet"):
        find_inputs(tmp_path)
    (tmp_path / "answers.txt").write_text("0 1\n1 -1\n")
    with pytest.raises(InputError, match=r"answers\.txt: a matrix of numbers"):
        find_inputs(tmp_path / "answers.txt")


def test_roles_are_found_in_the_first_file_and_their_order_may_differ(tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet", VOTES.rename({"item": "task", "annotator": "worker"}))
    other = VOTES.rename({"item": "task", "annotator": "worker"}).select("label", "worker", "task", pl.lit(1).alias("extra"))
    parquet(tmp_path / "2.parquet", other)
    plan = check_inputs(find_inputs(tmp_path), Request())
    assert {role: column.name for role, column in plan.columns.items()} == {
        "item": "task", "annotator": "worker", "label": "label",
    }  # fmt: skip


def test_a_column_that_one_file_lacks_is_named_with_both_files(tmp_path: Path) -> None:
    table(tmp_path / "1.csv")
    table(tmp_path / "2.csv", VOTES.rename({"annotator": "annotators"}))
    message = r"2\.csv: no column 'annotator', which is the annotator in .*1\.csv; found .*did you mean 'annotators'"
    with pytest.raises(InputError, match=message):
        check_inputs(find_inputs(tmp_path), Request())


def test_a_type_that_differs_is_named_with_both_files(tmp_path: Path) -> None:
    parquet(tmp_path / "1.parquet")
    parquet(tmp_path / "2.parquet", VOTES.with_columns(label=pl.Series([0, 1, 0])))
    with pytest.raises(InputError, match=r"2\.parquet: column 'label' holds Int64, but String in .*1\.parquet"):
        check_inputs(find_inputs(tmp_path), Request())


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        ((pl.Int32, pl.Int64), "integer"),
        ((pl.Int64, pl.UInt64), "wide"),
        ((pl.Int64, pl.Float64), "integer"),
        ((pl.String, pl.Categorical), "string"),
        ((pl.Null, pl.Boolean), "Boolean"),
        ((pl.Null, pl.Null), "string"),
    ],
)
def test_types_that_hold_the_same_values_may_differ(tmp_path: Path, types: tuple[type[pl.DataType], ...], kind: str) -> None:
    for index, dtype in enumerate(types):
        empty = pl.DataFrame(schema={"item": pl.String, "annotator": pl.String, "label": dtype})
        parquet(tmp_path / f"{index}.parquet", empty)
    for inputs in (find_inputs(tmp_path), find_inputs(tmp_path)[::-1]):
        assert check_inputs(inputs, Request()).columns["label"].kind == kind


def test_folder_names_give_columns(tmp_path: Path) -> None:
    frame = VOTES.drop("annotator")
    parquet(tmp_path / "worker=7" / "date=2024-01-01" / "0.parquet", frame)
    parquet(tmp_path / "worker=12" / "date=2024-01-02" / "0.parquet", frame)
    for paths in (tmp_path, f"{tmp_path}/*/*/*.parquet"):
        inputs = find_inputs(paths)
        assert [dict(each.keys)["worker"] for each in inputs] == ["12", "7"]
        assert check_inputs(inputs, Request()).columns["annotator"].kind == "integer"
    parquet(tmp_path / "worker=a%20b" / "date=2024-01-02" / "0.parquet", frame)
    inputs = find_inputs(tmp_path)
    assert dict(inputs[-1].keys) == {"worker": "a b", "date": "2024-01-02"}
    assert check_inputs(inputs, Request()).columns["annotator"].kind == "string"


def test_other_formats_are_said_to_be_read_in_memory(tmp_path: Path) -> None:
    table(tmp_path / "wide.csv", pl.DataFrame({"item": ["a"], "x": ["cat"], "y": ["dog"]}))
    with pytest.raises(
        InputError, match=r"no annotator and no label column; found 'item', 'x', 'y'.*other formats are read in memory"
    ):
        check_inputs(find_inputs(tmp_path), Request())


def test_one_column_cannot_play_two_roles(tmp_path: Path) -> None:
    table(tmp_path / "v.csv")
    with pytest.raises(InputError, match="must be three different columns"):
        check_inputs(find_inputs(tmp_path), Request(item="label"))


def test_rows_are_counted_exactly_in_binary_files_and_nearly_in_text(tmp_path: Path) -> None:
    many = pl.DataFrame({"item": range(40_000), "annotator": [i % 97 for i in range(40_000)], "label": ["yes"] * 40_000})
    parquet(tmp_path / "v.parquet", many)
    many.write_ipc(tmp_path / "v.arrow")
    table(tmp_path / "v.csv", many)
    (tmp_path / "v.csv.gz").write_bytes(gzip.compress((tmp_path / "v.csv").read_bytes()))
    assert n_votes_of(find_inputs(tmp_path / "v.parquet")) == n_votes_of(find_inputs(tmp_path / "v.arrow")) == 40_000
    assert n_votes_of(find_inputs(tmp_path / "v.csv")) == pytest.approx(40_000, rel=0.1)
    assert n_votes_of(find_inputs(tmp_path / "v.csv.gz")) == pytest.approx(40_000, rel=0.3)
    assert n_votes_of(find_inputs(table(tmp_path / "short.csv"))) == 3


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "v.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(InputError, match=r"v\.parquet: not a readable parquet file"):
        check_inputs(find_inputs(tmp_path), Request())
    (tmp_path / "v.csv").touch()
    with pytest.raises(InputError, match=r"v\.csv: the file is empty"):
        check_inputs(find_inputs(tmp_path / "v.csv"), Request())
