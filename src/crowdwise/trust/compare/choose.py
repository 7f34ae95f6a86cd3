"""Which methods take part, built with their settings before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from crowdwise.data.annotations import Annotations
from crowdwise.data.edges import Edges
from crowdwise.errors import MissingExtraError, SettingError, did_you_mean
from crowdwise.estimator.estimator import check_settings
from crowdwise.estimator.registry import METHODS, aggregators, classifiers, find, make

__all__ = ["ALL", "DEFAULT_CLASSIFIERS", "DEFAULT_METHODS", "build", "chosen", "with_edges"]

ALL = "all"
# One of every common kind, each of which fits thousands of votes in less than a second.
DEFAULT_METHODS = ("consensus", "majority", "wawa", "dawid-skene", "one-coin", "glad", "mace", "bayes-gc")
# Beside them where there are features.
DEFAULT_CLASSIFIERS = ("two-stage", "raykar", "ccem")


def chosen(
    methods: Sequence[str] | str | None, settings: Mapping[str, Any], n_classes: int, features: bool, edges: bool = False
) -> list[str]:
    """The methods to run, in registry order; every name given anywhere must be known.

    Parameters
    ----------
    methods
        Names; "all"; or None for `DEFAULT_METHODS` and, with features, `DEFAULT_CLASSIFIERS`, with edges those that take them.
    features, edges : bool
        Whether there are any, without which classifiers, and methods of dependent items, cannot take part.
    """
    known = {**aggregators(), **classifiers()}
    able = {name: method for name, method in known.items() if (features or not method.features) and (edges or not method.edges)}
    suited = [name for name, method in able.items() if method.suits(n_classes)]
    # Whether classes have an order, votes do not show: ordinal methods take part where they are named.
    every = [name for name in suited if not known[name].ordered]
    if methods is None:
        # A network that is not installed is not run unless it is named.
        extra = [name for name in DEFAULT_CLASSIFIERS if not known[name].extra or find_spec(known[name].extra)]
        asked = [name for name in suited if name in (*DEFAULT_METHODS, *extra) or known[name].edges]
    elif isinstance(methods, str):
        asked = every if methods == ALL else [methods]
    else:
        asked = every if list(methods) == [ALL] else list(methods)
    for name in (*asked, *settings):
        if find(name, known).features and not features:
            raise SettingError(f"{name} learns from features too: give them with --features FILE, or features=... in Python")
        if known[name].edges and not edges:
            raise SettingError(f"{name} needs the edges between items: give them with --edges FILE, or edges=... in Python")
    return [name for name in known if name in asked]


def with_edges(
    settings: Mapping[str, Mapping[str, Any]], names: Sequence[str], edges: Any, votes: Annotations
) -> dict[str, Mapping[str, Any]]:
    """Settings with the edges for the methods that need them, by positions, as the items that methods are run on."""
    placed = Edges(*Edges.of(edges).between(votes.items))
    needing = [name for name in names if METHODS[name].edges]
    return {**settings, **{name: {**settings.get(name, {}), "edges": placed} for name in needing}}


def build(name: str, settings: Mapping[str, Any], random_state: int | None) -> Any:
    """The estimator, checked; or the text of what must be installed first, which is a row of the table."""
    try:
        estimator = make(name)
    except MissingExtraError as problem:
        return str(problem)
    known = estimator.get_params(deep=False)
    if "random_state" in known:
        estimator.set_params(random_state=random_state)
    for setting in settings:
        # Settings of a part, such as classifier__C, are checked by the part.
        if "__" not in setting and setting not in known:
            hint = did_you_mean(setting, list(known))
            raise SettingError(f"{name} has no setting {setting!r}{hint} (it has {', '.join(known)})")
    try:
        estimator.set_params(**settings)
    except SettingError:
        raise
    except ValueError as problem:
        raise SettingError(f"{name}: {problem}") from problem
    check_settings(estimator)
    return estimator
