"""How far a fit can be believed: audits, held-out votes, choice, calibration, comparison, who cheats, fairness, metrics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["audit", "calibration", "choice", "compare", "crowd", "fairness", "heldout", "metrics"]
)
