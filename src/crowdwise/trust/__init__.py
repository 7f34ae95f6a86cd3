"""How far a fit can be believed: audits, held-out votes, choice, calibration, comparison, who cheats, fairness, metrics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
