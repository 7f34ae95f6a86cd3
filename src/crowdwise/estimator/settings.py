"""Settings of a method: declared once, checked when `fit` starts, shown by the CLI and the docs."""

from __future__ import annotations

import math
import secrets
from dataclasses import Field, field, fields
from numbers import Integral, Real
from typing import Any

from crowdwise.errors import SettingError, did_you_mean

__all__ = ["check_settings", "describe_settings", "random_state_setting", "seed_of", "setting"]


def setting(
    default: Any,
    about: str,
    *,
    low: float | None = None,
    above: float | None = None,
    whole: bool = False,
    choices: tuple[str, ...] | None = None,
    optional: bool = False,
    free: bool = False,
) -> Any:
    """Declare a setting: its default, one sentence about it, and what is allowed.

    Parameters
    ----------
    low, above : float, optional
        Numbers must be >= low, or > above.
    whole : bool
        Whole numbers only.
    choices : tuple of str, optional
        The allowed words.
    optional : bool
        None is allowed too; the method then chooses.
    free : bool
        Values that are no plain number or word (arrays, mappings, None) are checked by the method.
    """
    rule = {"about": about, "low": low, "above": above, "whole": whole, "choices": choices}
    rule |= {"optional": optional, "free": free}
    return field(default=default, metadata=rule)


def random_state_setting(about: str) -> Any:
    """Declare `random_state`, by one rule everywhere: a whole number, by default 0, or None for another run every time."""
    return setting(0, about, free=True)


def seed_of(random_state: Any) -> int:
    """The seed itself, or a fresh one; anything else than None and whole numbers from 0 is refused."""
    if random_state is None:
        return secrets.randbits(31)
    if isinstance(random_state, bool) or not isinstance(random_state, Integral) or random_state < 0:
        raise SettingError(f"random_state must be None or a whole number >= 0; got {random_state!r}")
    return int(random_state)


def describe_settings(cls: type) -> list[dict[str, Any]]:
    """Name, default and description of every setting of a method."""
    return [{"name": f.name, "default": f.default, "about": f.metadata["about"]} for f in fields(cls)]


def check_settings(estimator: Any) -> None:
    """Raise a `SettingError` that names the setting, its value and the allowed range."""
    for f in fields(estimator):
        _check(type(estimator).__name__, f, getattr(estimator, f.name))
        if f.name == "random_state":
            seed_of(estimator.random_state)  # refuses what is no seed, also where this fit draws nothing


def _check(owner: str, f: Field[Any], value: Any) -> None:
    rule = f.metadata
    here = f"{owner}: {f.name}"
    if isinstance(value, str) and rule["choices"]:
        if value not in rule["choices"]:
            hint = did_you_mean(value, list(rule["choices"]))
            raise SettingError(f"{here} must be one of {', '.join(rule['choices'])}; got {value!r}{hint}")
        return
    if rule["free"] or (rule["optional"] and value is None):
        return
    if rule["choices"]:
        raise SettingError(f"{here} must be one of {', '.join(rule['choices'])}; got {value!r}")
    if isinstance(f.default, bool):
        if not isinstance(value, bool):
            raise SettingError(f"{here} must be true or false; got {value!r}")
        return
    kind = Integral if rule["whole"] else Real
    if isinstance(value, bool) or not isinstance(value, kind) or not math.isfinite(value):
        wanted = ("None or " if rule["optional"] else "") + ("a whole number" if rule["whole"] else "a finite number")
        raise SettingError(f"{here} must be {wanted}; got {value!r}")
    if rule["low"] is not None and value < rule["low"]:
        raise SettingError(f"{here} must be at least {rule['low']}; got {value!r}")
    if rule["above"] is not None and value <= rule["above"]:
        raise SettingError(f"{here} must be above {rule['above']}; got {value!r}")
