"""From any format that is read to tidy tables, matrices and the exports of some platforms."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import fspath
from typing import Any

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning, InputError, did_you_mean
from crowdwise.io.format_writers import DESTINATIONS
from crowdwise.io.reader import read
from crowdwise.io.source import AnyPath
from crowdwise.io.writer import table_suffix

__all__ = ["convert"]

_SUFFIX_OF = {
    "answers": (".txt",), "label-studio": (".json",), "prodigy": (".jsonl",), "argilla": (".json",), "peerannot": (".json",),
    "toloka": (".tsv",), "mturk": (".csv",), "appen": (".csv",), "zooniverse": (".csv",), "wide": (".csv", ".tsv"),
    "labelbox": (".ndjson", ".jsonl"), "sagemaker": (".jsonl", ".manifest"),
}  # fmt: skip
_KEEPS_GOLD = ("tidy", "toloka", "appen", "label-studio", "zooniverse")
_KEEPS_ITEMS = ("wide", "answers", "label-studio", "argilla", "peerannot", "labelbox")


def convert(
    source: AnyPath | Sequence[AnyPath] | Annotations,
    destination: AnyPath,
    *,
    to: str | None = None,
    spreadsheet_safe: bool = False,
    **read_options: Any,
) -> Annotations:
    """Read votes and write them in another format; return them.

    Parameters
    ----------
    source : path, sequence of paths or Annotations
        Anything that `read` accepts, or votes read already.
    destination : path
        The file to write, whole or not at all.
    to : str, optional
        A name from `DESTINATIONS`; a tidy table in the format of the suffix when left out.
    spreadsheet_safe : bool
        See `write_table`.
    **read_options
        Options of `read`.
    """
    to = to or "tidy"
    if to not in DESTINATIONS:
        raise InputError(f"cannot convert to {to!r}{did_you_mean(to, list(DESTINATIONS))}; known are {', '.join(DESTINATIONS)}")
    if to in _SUFFIX_OF and not fspath(destination).lower().removesuffix(".gz").endswith(_SUFFIX_OF[to]):
        raise InputError(f"{fspath(destination)}: {to} files end in {' or '.join(_SUFFIX_OF[to])}; rename the destination")
    if to == "tidy":
        table_suffix(destination)
    votes = source if isinstance(source, Annotations) else read(source, **read_options)
    _warn_of_losses(votes, to)
    DESTINATIONS[to][1](votes, destination, spreadsheet_safe)
    return votes


def _warn_of_losses(votes: Annotations, to: str) -> None:
    silent = int((votes.votes_per_item == 0).sum())
    if silent and to not in _KEEPS_ITEMS:
        warnings.warn(f"{silent} item{'s' * (silent != 1)} without votes: not in the {to} output", DataWarning, stacklevel=3)
    if votes.weight is not None and to not in ("tidy", "appen"):
        warnings.warn(f"the {to} format has no place for weights; they are left out", DataWarning, stacklevel=3)
    if votes.gold is not None and to not in _KEEPS_GOLD:
        warnings.warn(f"the {to} format has no place for gold labels; they are left out", DataWarning, stacklevel=3)
