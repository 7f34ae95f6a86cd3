"""Open any saved fit as the fitted estimator that made it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import CrowdwiseError, InputError, SettingError
from crowdwise.estimator.estimator import check_settings
from crowdwise.estimator.registry import METHODS, make
from crowdwise.estimator.storage import FILE_NAME, load_with_extra

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.estimator.estimator import AnyEstimator
    from crowdwise.estimator.outcome import Outcome

__all__ = ["load"]


def load(folder: str | PathLike[str], network: Any = None) -> AnyEstimator:
    """Return the fitted estimator saved in `folder`: predict or explain with it, or `update` a label-only one.

    Parameters
    ----------
    folder
        What `save`, or ``--save`` on the command line, wrote. No code from it is run.
    network : torch module or function that makes one, optional
        For a model that was trained with a network of your own: the same architecture, whose weights are then
        replaced by the saved ones.
    """
    outcome, members = load_with_extra(folder)
    path = Path(folder) / FILE_NAME
    estimator = _unfitted(outcome, path)
    if network is not None and not METHODS[_registered(outcome)].features:
        raise SettingError(f"{folder} was fitted by {outcome.method}, which has no network; leave network= out")
    vars(estimator)["result_"] = outcome
    try:
        estimator._restore(outcome, members, network)
    except InputError as problem:
        raise InputError(f"{path}: {problem}") from problem
    except CrowdwiseError:
        raise
    except Exception as problem:  # whatever a damaged or foreign file does to the readers above is its fault, not theirs
        raise InputError(f"{path}: not a fit that this version of crowdwise can read ({problem!s:.300})") from problem
    return estimator


def _registered(outcome: Outcome) -> str:
    """Name of the method in the registry; a choice adds what it chose: "auto: dawid-skene"."""
    return outcome.method.partition(":")[0]


def _unfitted(outcome: Outcome, path: Path) -> AnyEstimator:
    """The estimator with its settings."""
    name = _registered(outcome)
    if name not in METHODS:
        raise InputError(f"{path}: fitted by {outcome.method!r}, which this version of crowdwise does not have")
    try:
        estimator = make(name, **outcome.settings)
        check_settings(estimator)
        return estimator
    except (SettingError, ValueError, TypeError) as problem:
        raise InputError(f"{path}: settings that {outcome.method} does not have ({problem!s:.300})") from problem
