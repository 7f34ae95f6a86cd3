"""Confidence that can be believed: how far it is off, ways to correct it, label sets with coverage, and what to review."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdwise.trust.calibration.calibrating import Calibrated as Calibrated
    from crowdwise.trust.calibration.calibrating import calibrate as calibrate
    from crowdwise.trust.calibration.conformal import ConformalSets as ConformalSets
    from crowdwise.trust.calibration.crossfit import cross_fitted as cross_fitted
    from crowdwise.trust.calibration.curves import Reliability as Reliability
    from crowdwise.trust.calibration.curves import reliability as reliability
    from crowdwise.trust.calibration.dirichlet import Dirichlet as Dirichlet
    from crowdwise.trust.calibration.effective_votes import EffectiveVotes as EffectiveVotes
    from crowdwise.trust.calibration.isotonic import Isotonic as Isotonic
    from crowdwise.trust.calibration.selection import Selection as Selection
    from crowdwise.trust.calibration.selection import select as select
    from crowdwise.trust.calibration.temperature import Temperature as Temperature

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
    "calibrate": "calibrating",
    "cross_fitted": "crossfit",
    "reliability": "curves",
    "select": "selection",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise.trust.calibration' has no attribute {name!r}")
    return getattr(import_module(f"crowdwise.trust.calibration.{_LAZY[name]}"), name)
