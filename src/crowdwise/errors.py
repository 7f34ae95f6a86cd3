"""Every exception and warning of crowdwise; nothing below the CLI prints."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "ArgumentError",
    "ConvergenceWarning",
    "CostWarning",
    "CrowdwiseError",
    "CrowdwiseWarning",
    "DataWarning",
    "DivergedError",
    "InputError",
    "MissingExtraError",
    "NotFittedError",
    "SettingError",
    "did_you_mean",
    "listed",
    "shortened",
]


# A message is read by a person: a file may hold a hundred thousand columns, or an id of a megabyte.
LONGEST = 1000


def shortened(text: object, most: int = LONGEST) -> str:
    """Return the text; of a long one its beginning, which names the place, and its end, which names the fix."""
    text = str(text)
    return text if len(text) <= most else f"{text[: most * 2 // 3]} ... {text[5 - most // 3 :]}"


class CrowdwiseError(Exception):
    """Base of every error that crowdwise raises on purpose."""

    def __init__(self, message: object = "", *more: object) -> None:
        super().__init__(shortened(message) if isinstance(message, str) else message, *more)


class InputError(CrowdwiseError, ValueError):
    """The data cannot be used; the message names the place and the fix."""


class SettingError(CrowdwiseError, ValueError):
    """A setting of a method or command is outside its range."""


class ArgumentError(CrowdwiseError, TypeError):
    """An argument that there is not; the message names the nearest that there is, or the way without it."""


class NotFittedError(CrowdwiseError, ValueError, AttributeError):
    """A fitted attribute was asked of an estimator that has not been fitted."""


class MissingExtraError(CrowdwiseError, ImportError):
    """An optional dependency is absent; the message names the extra to install."""


class DivergedError(CrowdwiseError, ArithmeticError):
    """Training left the finite numbers; the message says what to change."""


class CrowdwiseWarning(UserWarning):
    """Base of every warning that crowdwise issues."""

    def __init__(self, message: object = "", *more: object) -> None:
        super().__init__(shortened(message) if isinstance(message, str) else message, *more)


class CostWarning(CrowdwiseWarning):
    """A fit may take minutes; the message says up to how many and what to do instead."""


class DataWarning(CrowdwiseWarning):
    """The data were used, but something about them deserves a look."""


class ConvergenceWarning(CrowdwiseWarning):
    """The iteration cap was reached before the stopping rule was met."""


def check_share(name: str, value: float) -> None:
    """Refuse a share, chance or level that is not strictly between 0 and 1."""
    if not 0 < value < 1:
        raise SettingError(f"{name} must be between 0 and 1; got {value!r}")


def listed(names: Iterable[object], most: int = 20) -> str:
    """Return the names, comma-separated; of many the first, and how many more there are; of a long one its beginning."""
    every = list(names)
    shown = ", ".join(shortened(name, 60) for name in every[:most])
    return shown + (f", ... ({len(every) - most:,} more)" if len(every) > most else "")


def did_you_mean(word: str, known: list[str], alike: float = 0.6) -> str:
    """Return "; did you mean 'x'?" for the closest known word, or an empty string."""
    # Likeness takes the product of the lengths to find out, for every known word; none is alike beyond 7 to 3.
    near = [name for name in known if max(len(name), len(word)) * 3 <= min(len(name), len(word)) * 7]
    close = get_close_matches(word, near[:2000], n=1, cutoff=alike) if len(word) <= 100 else []
    return f"; did you mean {close[0]!r}?" if close else ""
