"""Tags of tokens from CoNLL files: a line per token with a column per annotator."""

from __future__ import annotations

from itertools import pairwise
from os import fspath
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.columns import plays_role
from crowdwise.data.token_votes import TokenVotes
from crowdwise.errors import InputError
from crowdwise.io.source import AnyPath, Places, Table, open_source
from crowdwise.io.writer import open_replacing

__all__ = ["is_conll", "is_conll_name", "read_conll", "write_conll"]

_CONLL = (".conll", ".bio", ".iob", ".iob2", ".txt", ".conll.gz", ".bio.gz", ".iob.gz", ".txt.gz")
_TABLES = (".csv", ".csv.gz", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow", ".ipc", ".feather")
_HEADER = ("token", "tokens", "word", "words", "#token", "text")


def is_conll_name(path: AnyPath) -> bool:
    """Whether a suffix says that a file is CoNLL."""
    return fspath(path).lower().endswith(_CONLL)


def is_conll(path: AnyPath) -> bool:
    """Whether a file is CoNLL rather than a table: by its suffix, else by whether its first line names a table's columns."""
    name = fspath(path).lower()
    if is_conll_name(path) or name.endswith(_TABLES):
        return is_conll_name(path)
    source = open_source(path)
    try:
        return source.kind not in ("json", "jsonl", "parquet", "arrow") and not plays_role(source.names, "annotator")
    except InputError:
        # No table: lines of different widths, say.
        return True


def read_conll(path: AnyPath) -> Table:
    """Read one token per line with a tag per annotator; the rows of the table are tags, their places lines."""
    source = open_source(path)
    if source.parts is not None:
        raise InputError(f"{source.name}: a folder; name a file")
    # Not splitlines: tokens may hold characters that Unicode takes for ends of lines.
    lines = source.data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    separator = "\t" if any("\t" in line for line in lines) else None
    names: list[str] | None = None
    tokens: list[str] = []
    tags: list[str] = []
    line_of_token: list[int] = []
    sequence_of_token: list[int] = []
    position: list[int] = []
    sequence, place = 0, 0
    fresh = True
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("-DOCSTART-"):
            fresh = True
            continue
        cells = line.split(separator)
        if names is None:
            if len(cells) < 2:
                raise InputError(
                    f"{source.name} line {number}: a token and no tag; expected a token and one tag per annotator, "
                    "separated by tabs or spaces"
                )
            if cells[0].strip().lower() in _HEADER:
                names = _named([cell.strip() for cell in cells[1:]], source.name, number)
                continue
            names = [f"annotator-{index}" for index in range(1, len(cells))]
        if len(cells) != len(names) + 1:
            raise InputError(
                f"{source.name} line {number}: {len(cells) - 1} tags where the first line has {len(names)} annotators; "
                "write ? where an annotator did not label"
            )
        if fresh:
            sequence, fresh, place = sequence + 1, False, 0
        place += 1
        tokens.append(cells[0].strip())
        tags += cells[1:]
        line_of_token.append(number)
        sequence_of_token.append(sequence)
        position.append(place)
    if names is None or not tokens:
        raise InputError(f"{source.name}: no tokens; expected one token per line with one tag per annotator")
    times = len(names)
    frame = pl.DataFrame(
        {
            "sequence": np.repeat(sequence_of_token, times),
            "position": np.repeat(position, times),
            "token": pl.Series(tokens)[np.repeat(np.arange(len(tokens)), times)],
            "annotator": pl.Series(names)[np.tile(np.arange(times), len(tokens))],
            "label": pl.Series(tags, dtype=pl.String),
        }
    )
    return Table(frame, Places(source.name, rows=np.repeat(line_of_token, times), unit="line"))


def _named(names: list[str], source: str, number: int) -> list[str]:
    """Annotators of a header line, each with a name of its own."""
    twice = next((name for name in names if names.count(name) > 1 or not name), None)
    if twice is not None:
        what = f"the name {twice!r} stands twice" if twice else "an annotator has no name"
        raise InputError(f"{source} line {number}: {what}; give every column a name of its own")
    return names


def write_conll(tags: TokenVotes, labels: Any, path: AnyPath) -> None:
    """Write a token and its tag per line, an empty line after every sequence.

    Tokens lose blanks at their ends and whatever would end a cell or a line; an unknown one is _, and where there are none
    their positions stand instead.
    """
    if tags.tokens is None:
        words = [str(n) for n in tags.position.tolist()]
    else:
        words = ["_" if word is None else " ".join(word.split()) or "_" for word in tags.tokens.tolist()]
    lines = [f"{word}\t{tag}\n" for word, tag in zip(words, labels.tolist(), strict=True)]
    text = "\n".join("".join(lines[start:stop]) for start, stop in pairwise(tags.sequence_ptr.tolist()))
    with open_replacing(path) as file:
        file.write(text.encode())
