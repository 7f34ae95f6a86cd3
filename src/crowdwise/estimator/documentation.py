"""`help(DawidSkene)` lists the settings: a section of the docstring, written from the fields when somebody reads it."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from textwrap import fill, indent
from typing import Any

__all__ = ["document"]

_SECTION = re.compile(r"^(?:Parameters|Attributes|See Also|Symbols|Notes|References|Examples)\n-+$", re.MULTILINE)


def document(cls: type[Any]) -> None:
    """Give a class of settings a docstring with a section "Parameters"; call it as the class is made.

    Its fields are known later, once `dataclass` has been at work, so the section is written whenever the docstring is read.
    """
    text = cls.__dict__.get("__doc__")
    if isinstance(text, str):
        cls.__doc__ = _Docstring(text)  # type: ignore[assignment]


class _Docstring:
    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, instance: object, owner: type[Any]) -> str:
        return _with_parameters(owner, inspect.cleandoc(self._text))


def _with_parameters(cls: type[Any], text: str) -> str:
    described = [f for f in fields(cls) if "about" in f.metadata] if is_dataclass(cls) else []
    if not described:
        return text
    lines = ["Parameters", "----------"]
    for f in described:
        kind = f.type if isinstance(f.type, str) else getattr(f.type, "__name__", str(f.type))
        lines += [f"{f.name} : {kind}, default {f.default!r}", indent(fill(f.metadata["about"], 84), "    ")]
    later = _SECTION.search(text)
    end = len(text) if later is None else later.start()
    return "\n\n".join(part for part in (text[:end].rstrip(), "\n".join(lines), text[end:]) if part)
