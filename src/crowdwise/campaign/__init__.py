"""Which item to send to whom next, and when to stop.

`ActiveLoop` runs a campaign; `suggest` is one step of it, `Pool` and `State` are what a policy reads, `race` compares policies
on a `RecordedCrowd` or a `SimulatedCrowd`, and `plan` says how many more votes a target takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Public name -> module, loaded on first use as those of `crowdwise` are.
_LAZY = {
    "ActiveLoop": "crowdwise.campaign.loop",
    "Assignments": "crowdwise.campaign.assign",
    "Oracle": "crowdwise.campaign.oracle",
    "Plan": "crowdwise.campaign.stopping",
    "Policy": "crowdwise.campaign.policies",
    "Pool": "crowdwise.campaign.pool",
    "RecordedCrowd": "crowdwise.campaign.oracle",
    "SimulatedCrowd": "crowdwise.campaign.oracle",
    "State": "crowdwise.campaign.state",
    "chance_of": "crowdwise.campaign.stopping",
    "expected_accuracy": "crowdwise.campaign.stopping",
    "extended": "crowdwise.campaign.pool",
    "plan": "crowdwise.campaign.stopping",
    "policy_of": "crowdwise.campaign.policies",
    "race": "crowdwise.campaign.campaign",
    "reached": "crowdwise.campaign.stopping",
    "suggest": "crowdwise.campaign.assign",
    "summary": "crowdwise.campaign.campaign",
    "write_curves": "crowdwise.campaign.campaign",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from crowdwise.campaign.assign import Assignments as Assignments
    from crowdwise.campaign.assign import suggest as suggest
    from crowdwise.campaign.campaign import race as race
    from crowdwise.campaign.campaign import summary as summary
    from crowdwise.campaign.campaign import write_curves as write_curves
    from crowdwise.campaign.loop import ActiveLoop as ActiveLoop
    from crowdwise.campaign.oracle import Oracle as Oracle
    from crowdwise.campaign.oracle import RecordedCrowd as RecordedCrowd
    from crowdwise.campaign.oracle import SimulatedCrowd as SimulatedCrowd
    from crowdwise.campaign.policies import Policy as Policy
    from crowdwise.campaign.policies import policy_of as policy_of
    from crowdwise.campaign.pool import Pool as Pool
    from crowdwise.campaign.pool import extended as extended
    from crowdwise.campaign.state import State as State
    from crowdwise.campaign.stopping import Plan as Plan
    from crowdwise.campaign.stopping import chance_of as chance_of
    from crowdwise.campaign.stopping import expected_accuracy as expected_accuracy
    from crowdwise.campaign.stopping import plan as plan
    from crowdwise.campaign.stopping import reached as reached


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise.campaign' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
