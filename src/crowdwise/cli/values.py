"""What was typed as Python's own values.

Later versions of typer convert through pydantic and build a schema for each option at every start, also for those that are not
given: half as long as polars takes to start. What Python converts without a doubt is converted here; the rest, and what is
wrong, goes to typer and its messages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

__all__ = ["convert_plainly"]

_TYPERS = object()


def convert_plainly(parameter: Any) -> None:
    """Let a parameter of a command convert what is simple without typer."""
    typers = getattr(parameter, "get_runtime_param", None)
    if typers is not None:  # earlier versions convert by the types of click
        vars(parameter)["get_runtime_param"] = lambda: _Converter(typers)


class _Converter:
    """Stands for typer's own, which it asks where it must."""

    def __init__(self, typers: Any) -> None:
        self._typers = typers

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a value, a default or nothing."""
        several = param.multiple or param.nargs == -1
        found = (() if several else None) if value is None else _plain(value, param.type_descriptor.annotation)
        return self._typers().coerce(value, param=param, ctx=ctx) if found is _TYPERS else found


def _plain(value: Any, kind: Any) -> Any:
    if kind == list[str] and isinstance(value, list | tuple) and all(type(one) is str for one in value):
        return list(value)
    if type(value) is kind and kind in (str, int, float):
        return value
    # typer refuses files that may not be read.
    if kind is Path and isinstance(value, str | Path) and (os.access(value, os.R_OK) or not os.path.lexists(value)):
        return Path(value)
    if not isinstance(value, str):
        return _TYPERS
    if kind is int and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    if kind is float and re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", value):
        return float(value)
    return _TYPERS
