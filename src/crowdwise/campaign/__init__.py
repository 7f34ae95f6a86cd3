"""Which item to send to whom next, and when to stop.

`ActiveLoop` runs a campaign; `suggest` is one step of it, `Pool` and `State` are what a policy reads, `race` compares policies
on a `RecordedCrowd` or a `SimulatedCrowd`, and `plan` says how many more votes a target takes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
