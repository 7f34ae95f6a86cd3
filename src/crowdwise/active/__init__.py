"""Which item to send to whom next, and when to stop.

`ActiveLoop` runs a campaign; `suggest` is one step of it, `Pool` and `State` are what a policy reads, `race` compares policies
on a `RecordedCrowd` or a `SimulatedCrowd`, and `plan` says how many more votes a target takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module, loaded on first use as those of `crowdwise` are.
_LAZY = {
    "ActiveLoop": "crowdwise.active.loop",
    "Assignments": "crowdwise.active.assign",
    "Oracle": "crowdwise.active.oracle",
    "Plan": "crowdwise.active.stopping",
    "Policy": "crowdwise.active.policies",
    "Pool": "crowdwise.active.pool",
    "RecordedCrowd": "crowdwise.active.oracle",
    "SimulatedCrowd": "crowdwise.active.oracle",
    "State": "crowdwise.active.state",
    "chance_of": "crowdwise.active.stopping",
    "expected_accuracy": "crowdwise.active.stopping",
    "extended": "crowdwise.active.pool",
    "plan": "crowdwise.active.stopping",
    "policy_of": "crowdwise.active.policies",
    "race": "crowdwise.active.campaign",
    "reached": "crowdwise.active.stopping",
    "suggest": "crowdwise.active.assign",
    "summary": "crowdwise.active.campaign",
    "write_curves": "crowdwise.active.campaign",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from crowdwise.active.assign import Assignments as Assignments
    from crowdwise.active.assign import suggest as suggest
    from crowdwise.active.campaign import race as race
    from crowdwise.active.campaign import summary as summary
    from crowdwise.active.campaign import write_curves as write_curves
    from crowdwise.active.loop import ActiveLoop as ActiveLoop
    from crowdwise.active.oracle import Oracle as Oracle
    from crowdwise.active.oracle import RecordedCrowd as RecordedCrowd
    from crowdwise.active.oracle import SimulatedCrowd as SimulatedCrowd
    from crowdwise.active.policies import Policy as Policy
    from crowdwise.active.policies import policy_of as policy_of
    from crowdwise.active.pool import Pool as Pool
    from crowdwise.active.pool import extended as extended
    from crowdwise.active.state import State as State
    from crowdwise.active.stopping import Plan as Plan
    from crowdwise.active.stopping import chance_of as chance_of
    from crowdwise.active.stopping import expected_accuracy as expected_accuracy
    from crowdwise.active.stopping import plan as plan
    from crowdwise.active.stopping import reached as reached


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise.active' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
