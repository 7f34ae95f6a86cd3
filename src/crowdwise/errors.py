"""Every exception and warning of crowdwise; nothing below the CLI prints."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
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
]


class CrowdwiseError(Exception):
    """Base of every error that crowdwise raises on purpose."""


class InputError(CrowdwiseError, ValueError):
    """The data cannot be used; the message names the place and the fix."""


class SettingError(CrowdwiseError, ValueError):
    """A setting of a method or command is outside its range."""


class NotFittedError(CrowdwiseError, ValueError, AttributeError):
    """A fitted attribute was asked of an estimator that has not been fitted."""


class MissingExtraError(CrowdwiseError, ImportError):
    """An optional dependency is absent; the message names the extra to install."""


class DivergedError(CrowdwiseError, ArithmeticError):
    """Training left the finite numbers; the message says what to change."""


class CrowdwiseWarning(UserWarning):
    """Base of every warning that crowdwise issues."""


class CostWarning(CrowdwiseWarning):
    """A fit will take minutes; the message says about how many and what to do instead."""


class DataWarning(CrowdwiseWarning):
    """The data were used, but something about them deserves a look."""


class ConvergenceWarning(CrowdwiseWarning):
    """The iteration cap was reached before the stopping rule was met."""


def listed(names: Iterable[object], most: int = 20) -> str:
    """Return the names, comma-separated; of many the first, and how many more there are."""
    every = [str(name) for name in names]
    return ", ".join(every[:most]) + (f", ... ({len(every) - most:,} more)" if len(every) > most else "")


def did_you_mean(word: str, known: list[str]) -> str:
    """Return "; did you mean 'x'?" for the closest known word, or an empty string."""
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
