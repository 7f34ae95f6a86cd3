"""From options to votes, settings and fitted models."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from crowdwise.cli.options import FeatureOptions, MethodOptions, ReadOptions, TaskOptions
from crowdwise.errors import CrowdwiseError, DataWarning, InputError, SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.base import Aggregator
    from crowdwise.estimator.result import Result
    from crowdwise.io.features import Features

__all__ = [
    "STDIN",
    "build",
    "build_task",
    "check_rows",
    "fit",
    "fit_to",
    "from_path",
    "is_saved",
    "parse_list",
    "parse_settings",
    "read_features",
    "read_gold",
    "read_history",
    "read_times",
    "read_votes",
    "result_of",
    "seeded_settings",
    "settings_of",
    "unnamed",
]

T = TypeVar("T")

STDIN = "-"
DEFAULT_METHOD = "auto"
# Where no choice is made: campaigns fit again and again, and flags of annotators rest on confusion matrices.
STEADY_METHOD = "dawid-skene"
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
    if path != STDIN and is_saved(path):
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


def is_saved(path: str | Path) -> bool:
    """Say whether a path is a folder that `--save` wrote."""
    from crowdwise.estimator.storage import FILE_NAME

    return (Path(path) / FILE_NAME).is_file()


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


def parse_settings(pairs: list[str] | None) -> dict[str, Any]:
    """Read NAME=VALUE pairs; a value is JSON where it parses as such, else text."""
    settings: dict[str, Any] = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"--set needs NAME=VALUE, such as --set tol=1e-8; got {pair!r}")
        try:
            settings[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            settings[name.strip().replace("-", "_")] = value
    return settings


def settings_of(options: MethodOptions, fields: list[str]) -> dict[str, Any]:
    """Settings from --set, --seed and --class-prior."""
    settings = seeded_settings(options.set, options.seed, fields, options.worker_prior)
    if options.class_prior is not None:
        settings["class_prior"] = _class_prior(options.class_prior)
    return settings


def seeded_settings(
    pairs: list[str] | None, seed: int | None, fields: list[str], worker_prior: str | None = None
) -> dict[str, Any]:
    """Settings from --set, --worker-prior and --seed; a seed is nothing to methods that draw no numbers."""
    settings = parse_settings(pairs)
    if worker_prior is not None:
        from crowdwise.parts.priors.abilities import ability_prior

        if "worker_prior" not in fields:
            raise SettingError(f"--worker-prior: this method has no such prior; {', '.join(_WITH_WORKER_PRIOR)} have")
        try:
            with warnings.catch_warnings():
                # What it means for these votes, whose classes are not known yet, is said later.
                warnings.simplefilter("ignore", DataWarning)
                ability_prior(worker_prior, None, 2)
        except SettingError as problem:
            raise SettingError(f"--worker-prior: {problem}") from None
        if "worker_prior" in settings:
            raise SettingError("--worker-prior and --set worker_prior= say the same thing; give one of them")
        settings["worker_prior"] = worker_prior
    if seed is not None and "random_state" in fields:
        settings["random_state"] = seed
    return settings


# A test compares them with the settings of all methods.
_WITH_WORKER_PRIOR = (
    "belief-propagation",
    "mean-field",
    "bayes-dgc",
    "deep-mf",
    "deep-bp",
    "svgpcr",
    "svgp",
    "svgpcr-nf",
    "gpnetcr",
    "vgpcr",
    "rff",
    "vff",
    "rodr14",
)


def _class_prior(text: str) -> Any:
    if text in ("learn", "uniform"):
        return text
    try:
        return json.loads(text if text.lstrip()[:1] in ("[", "{") else f"[{text}]")
    except ValueError:
        raise SettingError(f"--class-prior must be learn, uniform or shares such as 0.2,0.8; got {text!r}") from None


def build(options: MethodOptions, default: str = DEFAULT_METHOD) -> Aggregator:
    """Make the chosen method with its settings, checked before any file is read."""
    from crowdwise.estimator.registry import classifiers, make_aggregator
    from crowdwise.estimator.settings import check_settings

    if options.method in classifiers():
        raise SettingError(
            f"{options.method} learns from features too: crowdwise train VOTES --features FILE --method {options.method}"
        )
    estimator = make_aggregator(options.method or default)
    try:
        estimator.set_params(**settings_of(options, list(estimator.get_params())))
    except SettingError as problem:
        if options.method is not None or default != DEFAULT_METHOD:
            raise
        raise unnamed(problem) from problem
    check_settings(estimator)
    return estimator


def build_task(options: TaskOptions, family: str, default: str) -> Any:
    """Make the chosen method for annotations that are no class votes, checked before any file is read."""
    from crowdwise.estimator.registry import make, select
    from crowdwise.estimator.settings import check_settings

    known = list(select(family=family))
    name = options.method or default
    if name not in known:
        raise SettingError(f"no method {name!r} for {family}{did_you_mean(name, known)} (there are {', '.join(known)})")
    estimator = make(name)
    estimator.set_params(**seeded_settings(options.set, options.seed, list(estimator.get_params())))
    check_settings(estimator)
    return estimator


def unnamed(problem: SettingError) -> SettingError:
    """A setting that `auto` does not know, given without a method, with a word on whose settings can be given."""
    return SettingError(f"{problem}; no method is named, and auto chooses one by itself: name it with --method to set it up")


def fit_to(votes: Annotations, estimator: Aggregator, options: MethodOptions, quiet: bool = False) -> Aggregator:
    """Fit with whatever is known beside the votes, and show how far it is."""
    from crowdwise.cli.progress import iterations

    gold, history = read_gold(options.gold, votes), read_history(options.history)
    with iterations(estimator, quiet) as progress:
        return estimator.fit(votes, gold=gold, history=history, progress=progress)


def fit(
    path: str,
    read: ReadOptions,
    options: MethodOptions,
    quiet: bool = False,
    default: str = DEFAULT_METHOD,
    check: Callable[[Annotations, ReadOptions], None] | None = None,
) -> Aggregator:
    """Read votes, `check` them, and fit the chosen method."""
    estimator = build(options, default)
    votes = read_votes(path, read)
    if check is not None:
        check(votes, read)
    return fit_to(votes, estimator, options, quiet)


def result_of(
    path: str, read: ReadOptions, options: MethodOptions, quiet: bool = False, default: str = DEFAULT_METHOD
) -> Result:
    """Open a saved result, or fit to votes."""
    if path == STDIN or not is_saved(path):
        return fit(path, read, options, quiet, default).result_
    if options != type(options)() or read != ReadOptions():
        raise SettingError(f"{path} is a saved result, so options of reading and of the method do not apply")
    from crowdwise.estimator.result import Result

    return Result.load(path)


def read_features(options: FeatureOptions, votes_item: str | None = None) -> Features:
    """Read features; the votes' own name for the items' column serves where the file has it too."""
    from crowdwise.io.features import names_in, read_features

    item = options.features_item
    if item is None and votes_item is not None and votes_item in names_in(options.features):
        item = votes_item
    return read_features(options.features, item=item, key=options.key)


def check_rows(features: Features, votes: Annotations, quiet: bool) -> None:
    """Refuse features and votes that do not line up, by id or else by length, and say when order decides."""
    import warnings

    import numpy as np

    from crowdwise.cli.text import one_line, say
    from crowdwise.data.encode import codes_of, series_of, tidy
    from crowdwise.errors import DataWarning

    name, n_rows = features.source, len(features)
    if features.items is None:
        if votes.n_items != n_rows:
            raise InputError(
                f"{name} has {n_rows:,} rows and no ids, and the votes are on {votes.n_items:,} items; "
                "add the ids: an array 'items' beside the features in .npz, or a column 'item' in a table "
                "(--features-item NAME if it is called otherwise)"
            )
        column = _id_column(features, votes)
        if column is not None:
            raise InputError(f"{name}: the column {column!r} holds the items' ids; say so with --features-item {column}")
        some = ", ".join(one_line(item) for item in votes.items[:3])
        line = f"{name} has no ids: its rows are taken for the items of the votes in sorted order ({some}, ...)"
        # Files are seldom in the alphabetical order of their ids; in the order of their numbers they often are.
        if votes.items.dtype == object:
            warnings.warn(f"{line}; add ids if they are in another", DataWarning, stacklevel=2)
        elif not quiet:
            say(line)
        return
    absent = (codes_of(tidy(series_of(votes.items)), tidy(series_of(features.items))) < 0) & (votes.votes_per_item > 0)
    lost = np.flatnonzero(absent)
    if len(lost):
        example, other = votes.items[lost[:1]].tolist()[0], features.items[:1].tolist()[0]
        raise InputError(
            f"{name}: no row for {len(lost):,} of the {int((votes.votes_per_item > 0).sum()):,} items with votes, such as "
            f"{example!r} (ids there are such as {other!r}); add their rows, or leave their votes out with --drop-unmatched"
        )


def _id_column(features: Features, votes: Annotations) -> str | None:
    """A column of a table whose numbers are exactly the ids of the votes: no feature, but the ids under another name."""
    import numpy as np

    if features.names is None or votes.items.dtype.kind not in "iu":
        return None
    ids = np.sort(votes.items)
    found = (name for k, name in enumerate(features.names) if np.array_equal(np.sort(features.X[:, k]), ids))
    return next(found, None)


def read_gold(path: Path | None, votes: Annotations | None) -> Any:
    """Read known labels, or None without a path."""
    from crowdwise.io import read_gold

    return None if path is None else read_gold(path, votes)


def read_history(path: Path | None) -> Any:
    """Read annotators' earlier record: a saved result or a table."""
    if path is None:
        return None
    if is_saved(path):
        from crowdwise.estimator.result import Result

        return Result.load(path)
    import polars as pl

    from crowdwise.io.source import open_source
    from crowdwise.io.tables import read_columns

    source = open_source(path)
    frame = read_columns(source, source.columns).frame
    # Delimited text is read as text: ids stay as they are written, these four are numbers.
    measured = [name for name in ("right", "wrong", "accuracy", "n_votes") if name in frame.columns]
    try:
        return frame.with_columns(pl.col(measured).cast(pl.Float64))
    except pl.exceptions.PolarsError:
        raise InputError(f"{path}: {', '.join(measured)} must be numbers; correct the cells that are not") from None


def read_times(path: str, options: ReadOptions, column: str) -> Any:
    """Read when each vote was given: item, annotator, label and time, from the table of votes."""
    import polars as pl

    from crowdwise.data.encode import Where, find_column
    from crowdwise.io.source import open_source
    from crowdwise.io.tables import read_columns

    if path == STDIN or is_saved(path):
        raise SettingError("--time reads a column of the file of votes; name that file instead of stdin or a saved model")
    source = open_source(path)
    if source.kind in ("folder", "matrix"):
        raise SettingError(f"--time needs a table with one row per vote; {path} is none")
    names = source.columns if source.kind not in ("json", "jsonl") else list(source.records[0][1]) if source.records else []
    known, where = pl.DataFrame(schema=dict.fromkeys(names, pl.String)), Where(source.name)
    wanted = {role: find_column(known, role, getattr(options, role), where) for role in ("item", "annotator", "label")}
    wanted["time"] = find_column(known, "time", column, where)
    frame = read_columns(source, list(dict.fromkeys(wanted.values()))).frame
    return pl.DataFrame({role: frame[name] for role, name in wanted.items()})
