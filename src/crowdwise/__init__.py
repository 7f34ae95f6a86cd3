"""crowdwise: labels you can trust from the noisy votes of many annotators.

>>> import crowdwise
>>> votes = crowdwise.Annotations.from_arrays(
...     item=[1, 1, 1, 2, 2, 2], annotator=["x", "y", "z"] * 2, label=["cat", "cat", "dog", "dog", "dog", "dog"])
>>> crowdwise.make("dawid-skene").fit(votes).labels_.tolist()
['cat', 'dog']
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module. Loaded on first use, so that `import crowdwise` and the CLI's --help stay fast.
_LAZY = {
    "Annotations": "crowdwise.annotations",
    "BayesGC": "crowdwise.aggregate.bayes_gc",
    "ConfusionVector": "crowdwise.aggregate.confusion_vector",
    "DawidSkene": "crowdwise.aggregate.dawid_skene",
    "GLAD": "crowdwise.aggregate.glad",
    "MACE": "crowdwise.aggregate.mace",
    "MajorityVote": "crowdwise.aggregate.majority",
    "OneCoin": "crowdwise.aggregate.one_coin",
    "Result": "crowdwise.result",
    "Wawa": "crowdwise.aggregate.wawa",
    "ZeroBasedSkill": "crowdwise.aggregate.zero_based_skill",
    "load": "crowdwise.aggregate.loading",
    "make": "crowdwise.aggregate.registry",
    "read": "crowdwise.io",
}

__all__ = ["__version__", *sorted(_LAZY)]

if TYPE_CHECKING:
    from crowdwise.aggregate.bayes_gc import BayesGC as BayesGC
    from crowdwise.aggregate.confusion_vector import ConfusionVector as ConfusionVector
    from crowdwise.aggregate.dawid_skene import DawidSkene as DawidSkene
    from crowdwise.aggregate.glad import GLAD as GLAD
    from crowdwise.aggregate.loading import load as load
    from crowdwise.aggregate.mace import MACE as MACE
    from crowdwise.aggregate.majority import MajorityVote as MajorityVote
    from crowdwise.aggregate.one_coin import OneCoin as OneCoin
    from crowdwise.aggregate.registry import make as make
    from crowdwise.aggregate.wawa import Wawa as Wawa
    from crowdwise.aggregate.zero_based_skill import ZeroBasedSkill as ZeroBasedSkill
    from crowdwise.annotations import Annotations as Annotations
    from crowdwise.io import read as read
    from crowdwise.result import Result as Result


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'crowdwise' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
