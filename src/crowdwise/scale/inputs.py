"""Which files hold the votes, and whether they fit together: known from names and headers alone.

Nothing is read but headers, so that a wrong type in the last of a thousand files stops a run
before it has cost an hour.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from crowdwise.data.columns import lost_columns, plays_role
from crowdwise.data.encode import find_column, integers, vocabulary_series
from crowdwise.errors import InputError, did_you_mean, listed
from crowdwise.io.binary import readable
from crowdwise.io.source import KINDS, AnyPath, Places, refuse_known_binary, sniff_kind
from crowdwise.io.votes import Request
from crowdwise.scale.text import columns_of_text, start_of

__all__ = ["Column", "Input", "Plan", "check_inputs", "columns_line", "files_at", "find_inputs"]

_NULL_KEY = "__HIVE_DEFAULT_PARTITION__"
_IN_MEMORY = "Several files are read only as tables with a row per vote; other formats are read in memory, one file at a time"


@dataclass(frozen=True)
class Input:
    """One file of votes: where it is, what it holds, and the columns that its folders' names give (Hive)."""

    path: str
    kind: str
    size: int
    modified: int
    keys: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True)
class Column:
    """A column and what its values are: text (of delimited files), string, integer, wide, boolean, a float or other type."""

    name: str
    kind: str


@dataclass(frozen=True)
class Plan:
    """Which columns play which role, and how labels are to be understood.

    `columns` has item, annotator and label, and weight and gold where there are any. `several` is that of `Request`.
    """

    source: str
    columns: dict[str, Column]
    classes: tuple[Any, ...] | None = None
    missing: tuple[Any, ...] = ()
    several: str = "distinct"


def find_inputs(paths: AnyPath | Sequence[AnyPath]) -> list[Input]:
    """Return the files at these paths, sorted by name: files, folders and patterns such as "votes/*.parquet".

    Folders are searched to any depth; names that begin with a dot or an underscore are left out
    there. Folders named ``key=value`` below a given folder, or matched by a pattern, give columns.
    """
    found: dict[str, Input] = {}
    named = [paths] if isinstance(paths, str | PathLike) else list(paths)
    if not named:
        raise InputError("no file was named; give at least one file, folder or pattern")
    for path in [fspath(each) for each in named]:
        for file, root in _expand(path):
            # A file that a folder and a pattern both name is one file.
            found.setdefault(os.path.realpath(file), _input(file, root))
    inputs = sorted(found.values(), key=lambda each: each.path)
    kinds = {each.kind: each.path for each in reversed(inputs)}
    if len(kinds) > 1:
        examples = ", ".join(f"{path} ({kind})" for kind, path in sorted(kinds.items()))
        raise InputError(f"files of several kinds: {examples}; give files of one kind, or convert them")
    return inputs


def files_at(paths: Iterable[AnyPath]) -> list[str]:
    """Return the names of the files at these paths, which are not opened; see `find_inputs`."""
    return [file for path in paths for file, _ in _expand(fspath(path))]


def check_inputs(
    inputs: Sequence[Input], request: Request, *, classes: Sequence[Any] | None = None, missing: Iterable[Any] = ()
) -> Plan:
    """Find the columns in the first file, and check by their headers that all files have them in one type."""
    if classes is not None:
        vocabulary_series(classes, "classes")
    first, keys = inputs[0], _key_kinds(inputs)
    roles: dict[str, str] = {}
    kinds: dict[str, tuple[str, str, str]] = {}
    for each in inputs:
        types = _types(each, keys)
        if not roles:
            roles = _roles(first, list(types), request)
        if "gold" not in roles and "gold" in types and "gold" not in roles.values():
            roles["gold"] = "gold"
        for role, name in roles.items():
            if name not in types:
                if role == "gold":
                    continue
                raise InputError(
                    f"{each.path}: no column {name!r}, which is the {role} in {first.path}; found "
                    f"{listed(map(repr, types))}{did_you_mean(name, list(types))}; name it alike in all files"
                )
            kind, shown = ("number" if role == "weight" and _is_number(types[name][0]) else types[name][0]), types[name][1]
            before = kinds.setdefault(role, (kind, shown, each.path))
            both = _common(before[0], kind)
            if both is None:
                raise InputError(
                    f"{each.path}: column {name!r} holds {shown}, but {before[1]} in {before[2]}; "
                    "give the column one type in all files"
                )
            kinds[role] = before if before[0] == both else (both, shown, each.path)
    columns = {role: Column(name, "string" if kinds[role][0] == "null" else kinds[role][0]) for role, name in roles.items()}
    source = first.path if len(inputs) == 1 else f"{first.path} and {len(inputs) - 1} more"
    markers = (missing,) if isinstance(missing, str) else tuple(missing)
    several = "keep" if request.several == "keep" or classes is not None else "distinct"
    return Plan(source, columns, None if classes is None else tuple(classes), markers, several)


def columns_line(paths: Sequence[AnyPath], request: Request) -> str:
    """Which columns are taken as what; nothing where the user or the very names say so."""
    columns = {role: column.name for role, column in check_inputs(find_inputs(paths), request).columns.items()}
    given = {"item": request.item, "annotator": request.annotator, "label": request.label or request.question}
    guessed = [role for role, name in given.items() if name is None and columns[role] != role]
    taken = ", ".join(f"{role} = {name!r}" for role, name in columns.items())
    return f"{taken} (--{', --'.join(guessed)} choose{'s' * (len(guessed) == 1)} otherwise)" if guessed else ""


def _expand(path: str) -> Iterator[tuple[str, str]]:
    """Yield every file that a path names, and the folder below which names of folders count as columns."""
    if os.path.isdir(path):
        files = list(_walk(path))
        if not files:
            raise InputError(f"{path}: no files in this folder; expected .parquet, .csv, .tsv or .arrow files")
        kinds = {_kind_by_name(file) for file in files}
        if len(kinds) > 1 or None in kinds:
            counts = Counter(_suffix(file) or "no suffix" for file in files)
            shown = ", ".join(f"{number} {suffix}" for suffix, number in sorted(counts.items()))
            pattern = os.path.join(path, "**", f"*{next(s for s in sorted(counts, key=lambda s: KINDS.get(s) is None))}")
            raise InputError(f"{path}: files of several or unknown kinds: {shown}; choose with a pattern, such as {pattern!r}")
        yield from ((file, path) for file in files)
    elif os.path.exists(path):
        yield path, os.path.dirname(path)
    elif glob.has_magic(path):
        files = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
        if not files:
            raise InputError(f"{path}: no file matches this pattern; check the folder and the suffix")
        fixed = path[: next(i for i, letter in enumerate(path) if letter in "*?[")]
        yield from ((file, os.path.dirname(fixed)) for file in files)
    else:
        folder = Path(path).parent
        beside = [other.name for other in folder.iterdir()] if folder.is_dir() else []
        raise InputError(f"{path}: no such file{did_you_mean(Path(path).name, beside, 0.8)}")


def _walk(folder: str) -> Iterator[str]:
    seen = {os.path.realpath(folder)}
    for here, folders, files in os.walk(folder, followlinks=True):
        named = sorted(name for name in folders if not name.startswith((".", "_")))
        real = [os.path.realpath(os.path.join(here, name)) for name in named]
        # A link may lead back to a folder above, and so on without end.
        folders[:] = [name for name, place in zip(named, real, strict=True) if place not in seen]
        seen.update(real)
        yield from (os.path.join(here, name) for name in sorted(files) if not name.startswith((".", "_")))


def _input(file: str, root: str) -> Input:
    refuse_known_binary(Path(file), file)
    kind = sniff_kind(Path(file), lambda: start_of(file), file)
    if kind in ("json", "jsonl"):
        raise InputError(f"{file}: JSON is read only as a whole; convert it to Parquet first, or read it in memory")
    if kind == "matrix":
        raise InputError(f"{file}: a matrix of numbers. {_IN_MEMORY}")
    pairs = [part.split("=", 1) for part in Path(os.path.relpath(file, root or ".")).parts[:-1] if "=" in part]
    keys = tuple((unquote(key), None if value == _NULL_KEY else unquote(value)) for key, value in pairs)
    facts = os.stat(file)
    return Input(file, kind, facts.st_size, facts.st_mtime_ns, keys)


def _suffix(file: str) -> str:
    return Path(os.path.basename(file).lower().removesuffix(".gz")).suffix


def _kind_by_name(file: str) -> str | None:
    return KINDS.get(_suffix(file))


def _roles(first: Input, names: list[str], request: Request) -> dict[str, str]:
    known, where = pl.DataFrame(schema=dict.fromkeys(names, pl.String)), Places(first.path)
    given = {"item": request.item, "annotator": request.annotator, "label": request.label or request.question}
    lost = [role for role, name in given.items() if name is None and not plays_role(names, role)]
    try:
        problem = lost_columns(names, given, lost, first.path)
        if problem:
            raise InputError(problem)
        roles = {role: find_column(known, role, name, where) for role, name in given.items()}
    except InputError as error:
        own = " If every file is one annotator's, put each into a folder annotator=NAME: folders name columns."
        nobody = "annotator" in lost
        raise InputError(f"{error}. {_IN_MEMORY}.{own if nobody else ''}") from None
    if len(set(roles.values())) < 3:
        raise InputError(f"{first.path}: item, annotator and label must be three different columns, got {list(roles.values())}")
    if request.weight is not None:
        roles["weight"] = find_column(known, "weight", request.weight, where)
    return roles


def _types(each: Input, keys: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Kind of every column, and its type as a user knows it."""
    types = {name: (keys[name], f"{keys[name]}s in folder names") for name, _ in each.keys}
    if each.kind == "delimited":
        return types | dict.fromkeys(columns_of_text(each.path), ("text", "text"))
    with readable(each.path, each.kind):
        schema = pl.read_parquet_schema(each.path) if each.kind == "parquet" else pl.read_ipc_schema(each.path)
    return types | {name: (_kind(dtype), str(dtype)) for name, dtype in schema.items()}


def _key_kinds(inputs: Sequence[Input]) -> dict[str, str]:
    """Columns that folder names give: integers where every value of every file is one."""
    values: dict[str, list[str | None]] = {}
    for each in inputs:
        for name, value in each.keys:
            values.setdefault(name, []).append(value)
    types = {name: integers(pl.Series(column, dtype=pl.String)).dtype for name, column in values.items()}
    return {name: "integer" if dtype == pl.Int64 else "string" for name, dtype in types.items()}


def _kind(dtype: Any) -> str:
    if dtype.is_integer():
        # Values beyond 64 signed bits make the whole column text, in whatever file they are.
        return "integer" if dtype in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32) else "wide"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "string"
    return "null" if dtype == pl.Null else str(dtype)


def _common(one: str, other: str) -> str | None:
    """Return the kind that holds both, or None. Whole floats may join integers: pandas makes them of missing cells."""
    if one == other or other == "null":
        return one
    if one == "null":
        return other
    pair = {one, other}
    if pair == {"integer", "wide"}:
        return "wide"
    return "integer" if pair in ({"integer", "Float64"}, {"integer", "Float32"}) else None


def _is_number(kind: str) -> bool:
    return kind in ("integer", "wide") or kind.startswith(("Float", "Decimal"))
