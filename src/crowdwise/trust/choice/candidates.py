"""Which methods are tried by default, in the order in which operations are spent on them.

Each errs in a way of its own: counting, one accuracy per annotator, habits of spammers, accuracies per class, confusion
matrices, a mean of models, subtypes of classes. All but the last are fast. Other methods of the registry can be named in
`methods`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crowdwise.errors import SettingError, did_you_mean
from crowdwise.estimator.registry import METHODS, Method, label_methods

__all__ = ["CANDIDATES", "FALLBACK", "check_methods", "named_methods", "rank_of"]

CANDIDATES = ("majority", "consensus", "one-coin", "confusion-vector", "dawid-skene", "mace", "ebcc")
# Taken where methods cannot be compared, and where it predicts votes about as well as the best.
FALLBACK = "consensus"


def rank_of(method: str, n_classes: int) -> int:
    """Numbers that a method learns of each annotator; the default comes before all others."""
    if method == FALLBACK:
        return -1
    if METHODS[method].per_class:
        return n_classes
    return {0: 0, 1: 1}.get(METHODS[method].level, n_classes * (n_classes - 1))


def check_methods(methods: Any) -> tuple[str, ...]:
    """The candidates by name; refuses unknown ones, none at all, and a choice among choices."""
    if methods is None:
        return CANDIDATES
    # Online methods have a fit of their own.
    return named_methods(methods, {name: m for name, m in label_methods().items() if not m.online}, "label-only method")


def named_methods(methods: Any, known: Mapping[str, Method], kind: str) -> tuple[str, ...]:
    """Different names of known methods, from a sequence or a comma-separated text; a choice among choices has no end."""
    if isinstance(methods, str):
        methods = [name.strip() for name in methods.split(",")]
    if not isinstance(methods, Sequence) or not methods or not all(isinstance(name, str) for name in methods):
        raise SettingError(f"methods must be names of {kind}s, simplest first; got {methods!r}")
    names = [name for name, method in known.items() if method.family != "choice"]
    for name in methods:
        if name not in names:
            raise SettingError(f"methods: no {kind} {name!r}{did_you_mean(name, names)} (there are {', '.join(names)})")
    return tuple(dict.fromkeys(methods))
