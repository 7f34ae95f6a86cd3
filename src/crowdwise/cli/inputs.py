"""From paths and options to votes, features, known labels and what is known of annotators."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.cli.display import say
from crowdwise.cli.options import MaybeFeatures, ReadOptions
from crowdwise.errors import CrowdwiseError, InputError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.io.features import Features

__all__ = ["SAVED", "STDIN", "from_path", "gold_of", "is_saved", "parse_list", "read_answers", "read_features"]
__all__ += ["check_own_column", "read_gold", "read_history", "read_times", "read_votes"]

T = TypeVar("T")

STDIN = "-"
# What --save writes; a test compares it with the name that the storage uses, which loads all that can be stored.
SAVED = "result.zip"
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def read_votes(path: str, options: ReadOptions) -> Annotations:
    """Read votes from a file, a folder or stdin."""
    from crowdwise.io import FORMATS, read

    if options.format is not None and options.format not in FORMATS:
        hint = did_you_mean(options.format, list(FORMATS))
        raise SettingError(f"no format {options.format!r}{hint} (there are {', '.join(FORMATS)})")
    given: dict[str, Any] = {
        name: getattr(options, name) for name in ("format", "item", "annotator", "label", "weight", "question", "predictions")
    }
    given |= {"classes": options.classes and parse_list(options.classes, "--classes"), "missing": options.missing or ()}
    if is_saved(path):
        raise InputError(f"{path}: a saved model; this command reads votes, so name the file that holds them")
    votes = from_path(path, partial(read, **given))
    return votes.deduplicate() if options.deduplicate else votes


def from_path(path: str, read: Callable[[str | Path], T]) -> T:
    """What `read` makes of a path; - is stdin, which goes through a file."""
    if path != STDIN:
        return read(path)
    with TemporaryDirectory(prefix="crowdwise-") as folder:
        # Without a suffix the content decides, so JSON lines and Parquet can be piped in as well.
        file = Path(folder) / "stdin"
        file.write_bytes(sys.stdin.buffer.read())
        try:
            return read(file)
        except CrowdwiseError as problem:
            raise type(problem)(str(problem).replace(str(file), "stdin")) from problem


def read_answers(path: str, kind: Any, **columns: Any) -> Any:
    """Read answers of another kind than votes for classes, such as comparisons; `columns` are the users' names of them."""
    from crowdwise.io import read

    return from_path(path, lambda file: read(file, kind, **columns))


def is_saved(path: str | Path) -> bool:
    """Say whether a path is a folder that `--save` wrote; nothing is opened or imported for that."""
    return str(path) != STDIN and (Path(path) / SAVED).is_file()


def parse_list(text: str, option: str) -> list[Any]:
    """Read "a,b,c" or a JSON list; whole numbers become numbers, so that they equal those of the votes."""
    if text.lstrip().startswith("["):
        try:
            values = json.loads(text)
        except ValueError as problem:
            raise SettingError(f"{option} looks like JSON but is not: {problem}") from problem
        return list(values)
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise SettingError(f"{option} has an empty entry: {text!r}")
    return [int(part) for part in parts] if all(_WHOLE.fullmatch(part) for part in parts) else parts


# -- what is known beside the votes ------------------------------------------------------------


def read_gold(path: Path | None, votes: Annotations | None) -> Any:
    """Read known labels, or None without a path."""
    if path is None:
        return None
    from crowdwise.io import read_gold

    return read_gold(path, votes)


def gold_of(votes: Annotations) -> list[Any] | None:
    """The known labels that votes carry, one per item, or None without any."""
    if votes.gold is None or not (votes.gold >= 0).any():
        return None
    return [votes.classes[code] if code >= 0 else None for code in votes.gold]


def read_history(path: Path | None) -> Any:
    """Read annotators' earlier record: a saved result or a table."""
    if path is None:
        return None
    if is_saved(path):
        from crowdwise.estimator.outcome import Result

        return Result.load(path)
    import polars as pl

    from crowdwise.io.source import open_source
    from crowdwise.io.votes import read_columns

    source = open_source(path)
    frame = read_columns(source, source.columns).frame
    # Delimited text is read as text: ids stay as they are written, these four are numbers.
    measured = [name for name in ("right", "wrong", "accuracy", "n_votes") if name in frame.columns]
    try:
        return frame.with_columns(pl.col(measured).cast(pl.Float64))
    except pl.exceptions.PolarsError:
        raise InputError(f"{path}: {', '.join(measured)} must be numbers; correct the cells that are not") from None


def check_own_column(path: str, option: str, instead: str) -> None:
    """Refuse an option that names a column of the votes where there is no file of votes."""
    if path == STDIN or is_saved(path):
        raise SettingError(f"{option} reads a column of the file of votes; {instead}")


def read_times(path: str, options: ReadOptions, column: str | None) -> Any:
    """Read when each vote was given: item, annotator, label and time, from the table of votes; None without a column."""
    if column is None:
        return None
    from crowdwise.data.columns import columns_by_role
    from crowdwise.io.file_columns import FileColumns

    check_own_column(path, "--time", "name that file instead of stdin or a saved model")
    roles = {"item": options.item, "annotator": options.annotator, "label": options.label, "time": column}
    return columns_by_role(FileColumns(path), roles)[0]


# -- features ----------------------------------------------------------------------------------


def read_features(options: MaybeFeatures, votes_item: str | None = None) -> Features | None:
    """Read features, if any are named; the votes' own name for the item column serves where the file has it too."""
    if options.features is None:
        return None
    from crowdwise.io.features import names_in, read_features

    item = options.features_item
    if item is None and votes_item is not None and votes_item in names_in(options.features):
        item = votes_item
    return read_features(options.features, item=item, key=options.key)


def check_rows(rows: Features, votes: Annotations, quiet: bool, all_items: bool = False) -> None:
    """Refuse features that lack a row of an item with votes, or of any item, and say when order decides."""
    from crowdwise.io import feature_rows

    line = (feature_rows.check_all_rows if all_items else feature_rows.check_rows)(rows, votes)
    if line and not quiet:
        say(line)
