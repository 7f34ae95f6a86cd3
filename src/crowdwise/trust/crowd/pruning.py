"""Refit without annotators, whose votes go while every item stays; or with groups of them as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crowdwise.engines.readings import Reading
from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import aggregators, make_aggregator
from crowdwise.trust.crowd.dependence import is_majority
from crowdwise.trust.crowd.fusion import fused

__all__ = ["refit_fused", "refit_without"]


def refit_without(result: Result, annotators: Iterable[Any], *, even_most: bool = False) -> Result:
    """Fit the same method with the same settings to the votes of everybody else.

    Gold labels and the record of the annotators who stay are kept. Items that lose all their votes
    keep their rows: they get the class prior and the note "no votes". Most of the votes or annotators are
    left out only with `even_most`: a detector that flags so many has probably followed the others.
    """
    gone = list(annotators)
    if not gone:
        return result
    name = _method(result)
    votes = result.votes.drop(annotators=gone)
    if votes.n_annotators == 0:
        raise InputError("every annotator would be dropped, so nobody is left to learn from; lower --fdr, or keep some")
    if not even_most and is_majority(result.votes, gone):
        raise InputError(
            f"{len(gone)} of {result.votes.n_annotators} annotators would be dropped, most of the crowd; if they are known to "
            "answer at random, say so: even_most=True"
        )
    history = None
    if result.history is not None:
        kept = result.votes.positions(votes.annotators, "annotator")
        history = {name: result.history[a].T for name, a in zip(votes.annotators.tolist(), kept, strict=True)}
    return make_aggregator(name, **result.settings).fit(votes, history=history).result_


def refit_fused(result: Result, reading: Reading) -> Result:
    """Fit the same method with the same settings to votes in which every group of the reading is one annotator."""
    if result.history is not None:
        raise InputError("a record is about single annotators, and groups make several of them one; fit without history")
    return make_aggregator(_method(result), **result.settings).fit(fused(result.votes, reading.code)).result_


def _method(result: Result) -> str:
    # "auto: dawid-skene" chooses again.
    name = result.method.partition(":")[0]
    if name not in aggregators():
        raise InputError(
            f"{result.method} was trained with features, which a saved result does not hold; change the votes and train again"
        )
    return name
