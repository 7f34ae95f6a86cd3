"""Which method made a result, and with which settings it would be fitted again to other votes."""

from __future__ import annotations

from typing import Any

from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import label_methods, make

__all__ = ["method_of", "settings_of"]


def method_of(result: Result) -> str:
    """Name of the method that was run; a choice says what it chose ("auto: dawid-skene"), if it chose one."""
    choice, _, chosen = result.method.partition(": ")
    return chosen if chosen in label_methods() else choice


def settings_of(result: Result) -> dict[str, Any]:
    """Settings of that method. One that was chosen is fitted as the choice does: with its defaults, and two of the choice's."""
    name = method_of(result)
    if not result.method.endswith(f": {name}"):
        return dict(result.settings)
    own = make(name).get_params()
    settings: dict[str, Any] = {
        key: result.settings[key] for key in ("class_prior", "random_state") if key in own and key in result.settings
    }
    # "learn" means: as each method does by itself.
    if isinstance(settings.get("class_prior"), str) and settings["class_prior"] == "learn":
        del settings["class_prior"]
    return settings
