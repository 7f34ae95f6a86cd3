"""What is typed: values of options; and commands in messages, the user's own with what is to change, ready to paste."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

from crowdwise.errors import SettingError

__all__ = ["TYPED", "adapted", "instead", "parse_list", "parse_settings", "parse_shares"]

# What was typed after the name of the program; nothing in Python.
TYPED: ContextVar[tuple[str, ...]] = ContextVar("typed", default=())
# Commands that do not have the options of reading votes.
_OTHERS = {"rank", "regress", "cluster", "spans"}
_REPEATED = {"--missing"}
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")


def adapted(name: str, wanted: Mapping[str, list[str] | bool], *more: str) -> str:
    """The command with these options: values by name, none for an option to leave out, or whether a flag is set; and `more`.

    Options that are not named here stay as they were typed. Where the command does not know `--type`, it is `aggregate`.
    """
    verb, *words = TYPED.get() or ("",)
    if not verb or verb in _OTHERS or ("--type" in more and verb != "aggregate"):
        # A report is the page of `aggregate`.
        page = _values(words, "-o", "--output")[-1:] if verb == "report" else []
        verb, words, more = "aggregate", [name], (*more, *(word for path in page for word in ("--page", path)))
    new: list[str] = []
    for option, value in wanted.items():
        typed: list[str] | bool = option in words if isinstance(value, bool) else _values(words, option)
        if typed != value:
            words = _without(words, option, flag=isinstance(value, bool))
            new += [word for each in value for word in (option, each)] if isinstance(value, list) else [option] * value
    for option, after in zip(more, (*more[1:], "--"), strict=False):
        if option.startswith("--") and option.partition("=")[0] not in _REPEATED:
            words = _without(words, option.partition("=")[0], flag="=" not in option and after.startswith("--"))
    end = words.index("--") if "--" in words else len(words)
    return shlex.join(["crowdwise", verb, *words[:end], *new, *more, *words[end:]])


def instead(verb: str, name: str, *more: str) -> str:
    """Another command for the same file, with the file that was to be written where both write tables."""
    typed, *words = TYPED.get() or ("",)
    output = [word for path in _values(words, "-o", "--output")[-1:] for word in ("-o", path)]
    return shlex.join(["crowdwise", verb, name, *more, *(output if typed == "aggregate" else [])])


def _values(words: Sequence[str], *options: str) -> list[str]:
    """The values that were typed for an option."""
    apart = [value for word, value in pairwise(words) if word in options]
    return apart + [word.partition("=")[2] for word in words if word.partition("=")[0] in options and "=" in word]


def _without(words: Sequence[str], option: str, flag: bool) -> list[str]:
    """The words without an option and, unless it is a flag, its value."""
    kept = [k for k, word in enumerate(words) if word.partition("=")[0] != option]
    after = {k + 1 for k, word in enumerate(words) if word == option and not flag}
    return [words[k] for k in kept if k not in after]


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


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Read NAME=VALUE; a value that is JSON becomes what it says."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"--set needs NAME=VALUE, such as --set tol=1e-8; got {pair!r}")
        name = name.strip().replace("-", "_")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def parse_shares(text: str) -> Any:
    """Read --class-prior: a word, or a share per class."""
    if text in ("learn", "anchored", "uniform"):
        return text
    try:
        return json.loads(text if text.lstrip()[:1] in ("[", "{") else f"[{text}]")
    except ValueError:
        raise SettingError(f"--class-prior must be learn, anchored, uniform or shares such as 0.2,0.8; got {text!r}") from None
