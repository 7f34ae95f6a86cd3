"""Refit without annotators: their votes go, every item stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import aggregators, make_aggregator

__all__ = ["refit_without"]


def refit_without(result: Result, annotators: Iterable[Any]) -> Result:
    """Fit the same method with the same settings to the votes of everybody else.

    Gold labels and the record of the annotators who stay are kept. Items that lose all their votes
    keep their rows: they get the class prior and the note "no votes".
    """
    gone = list(annotators)
    if not gone:
        return result
    # "auto: dawid-skene" chooses again.
    name = result.method.partition(":")[0]
    if name not in aggregators():
        raise InputError(
            f"{result.method} was trained with features, which a saved result does not hold; "
            "drop these annotators from the votes and train again"
        )
    votes = result.votes.drop(annotators=gone)
    if votes.n_annotators == 0:
        raise InputError("every annotator would be dropped, so nobody is left to learn from; lower --fdr, or keep some")
    history = None
    if result.history is not None:
        kept = result.votes.positions(votes.annotators, "annotator")
        history = {name: result.history[a].T for name, a in zip(votes.annotators.tolist(), kept, strict=True)}
    return make_aggregator(name, **result.settings).fit(votes, history=history).result_
