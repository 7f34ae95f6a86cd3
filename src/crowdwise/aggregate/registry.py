"""Every method by name: the registry alone drives the CLI, the contract tests and the docs' table."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from crowdwise.errors import SettingError, did_you_mean

if TYPE_CHECKING:
    from crowdwise.aggregate.base import Aggregator

__all__ = ["METHODS", "Method", "make"]


@dataclass(frozen=True)
class Method:
    """One line of the registry; the class is imported when it is asked for."""

    name: str
    path: str
    summary: str
    family: str
    needs: str
    reference: str

    @property
    def cls(self) -> type[Aggregator]:
        """The estimator class."""
        module, _, name = self.path.partition(":")
        found: type[Aggregator] = getattr(import_module(f"crowdwise.aggregate.{module}"), name)
        return found


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("majority", "majority:MajorityVote", "share of votes for each class", "vote", "votes", "folklore"),
        Method("wawa", "wawa:Wawa", "vote weighted by agreement with the majority", "vote", "votes", "Appen; crowd-kit"),
        Method(
            "zbs",
            "zero_based_skill:ZeroBasedSkill",
            "vote weighted by skill, adjusted step by step",
            "vote",
            "votes",
            "crowd-kit",
        ),
        Method(
            "dawid-skene",
            "dawid_skene:DawidSkene",
            "confusion matrix per annotator, EM",
            "EM",
            "votes",
            "Dawid and Skene (1979)",
        ),
        Method("one-coin", "one_coin:OneCoin", "one accuracy per annotator, EM", "EM", "votes", "after Dawid and Skene (1979)"),
        Method(
            "confusion-vector",
            "confusion_vector:ConfusionVector",
            "one accuracy per annotator and class, EM",
            "EM",
            "votes",
            "after Dawid and Skene (1979)",
        ),
        Method("glad", "glad:GLAD", "ability of annotators, difficulty of items", "EM", "votes", "Whitehill et al. (2009)"),
        Method("mace", "mace:MACE", "honest at times, spamming at others", "variational", "votes", "Hovy et al. (2013)"),
        Method(
            "bayes-gc",
            "bayes_gc:BayesGC",
            "Dawid-Skene with Dirichlet posteriors",
            "variational",
            "votes",
            "Li, Huang and Chen; Kim and Ghahramani (2012)",
        ),
    )
}


def make(name: str, **settings: Any) -> Aggregator:
    """Build a registered method by name with these settings.

    Examples
    --------
    >>> make("dawid-skene", tol=1e-8)
    DawidSkene(tol=1e-08)
    """
    if name not in METHODS:
        raise SettingError(f"no method {name!r}{did_you_mean(name, list(METHODS))} (there are {', '.join(METHODS)})")
    return METHODS[name].cls().set_params(**settings)
