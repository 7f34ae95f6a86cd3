"""Confidence that can be believed: how far it is off, ways to correct it, label sets with coverage, and what to review."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise.calibration.calibrating import Calibrated as Calibrated
    from crowdwise.calibration.calibrating import calibrate as calibrate
    from crowdwise.calibration.conformal import ConformalSets as ConformalSets
    from crowdwise.calibration.crossfit import cross_fitted as cross_fitted
    from crowdwise.calibration.curves import Reliability as Reliability
    from crowdwise.calibration.curves import reliability as reliability
    from crowdwise.calibration.dirichlet import Dirichlet as Dirichlet
    from crowdwise.calibration.effective_votes import EffectiveVotes as EffectiveVotes
    from crowdwise.calibration.foretold_votes import VotesTemperature as VotesTemperature
    from crowdwise.calibration.foretold_votes import temperature_by_votes as temperature_by_votes
    from crowdwise.calibration.isotonic import Isotonic as Isotonic
    from crowdwise.calibration.selection import Selection as Selection
    from crowdwise.calibration.selection import select as select
    from crowdwise.calibration.temperature import Temperature as Temperature

# Public name -> module, loaded on first use.
_LAZY = {
    "Calibrated": "calibrating",
    "ConformalSets": "conformal",
    "Dirichlet": "dirichlet",
    "EffectiveVotes": "effective_votes",
    "Isotonic": "isotonic",
    "Reliability": "curves",
    "Selection": "selection",
    "Temperature": "temperature",
    "VotesTemperature": "foretold_votes",
    "calibrate": "calibrating",
    "cross_fitted": "crossfit",
    "reliability": "curves",
    "select": "selection",
    "temperature_by_votes": "foretold_votes",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise.calibration' has no attribute {name!r}")
    return getattr(import_module(f"crowdwise.calibration.{_LAZY[name]}"), name)
