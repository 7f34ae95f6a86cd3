"""Annotators who share errors, in votes in shards: found in a sample, and heeded in the confidence of every label.

The check reads the votes of some shards into memory. Where it fires, the method is fitted to them once for every reading of the
votes, as `crowdwise.trust.crowd.cautious` does with all; the shards then weigh their own votes by these models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.engines.independence import Dependence, find
from crowdwise.estimator.aggregator import Aggregator
from crowdwise.estimator.judgement import in_company, reliability_of
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats
from crowdwise.scale.collecting import collected
from crowdwise.scale.store import Store
from crowdwise.trust.calibration.base import with_posterior
from crowdwise.trust.calibration.effective_votes import EffectiveVotes
from crowdwise.trust.crowd.cautious import lowest, refitted
from crowdwise.trust.crowd.dependence import settled, trusted_codes

__all__ = ["Doubt", "believed", "doubts_of", "found_in"]

# Votes of whole shards that are looked at; the check itself draws from these if they meet too often.
SAMPLE = 2_000_000


@dataclass(frozen=True, eq=False)
class Doubt:
    """A reading in which votes of groups count for less, and the model that was fitted to them."""

    discount: EffectiveVotes
    fields: dict[str, Any]
    reliability: Floats

    def posterior(self, votes: Annotations) -> Floats:
        """Posterior of the items of a shard by this reading, as far as it can be believed, [n, K]."""
        votes = self.discount.discounted(votes)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        # Items of the sample may have parameters of their own, which those of other shards have not.
        annotators = self.fields["annotators"].aligned(np.arange(votes.n_annotators), np.full(votes.n_items, -1))
        annotators.infer(votes, self.fields["prior"].log_prob(), votes.known_codes, posterior)
        fields = self.fields | {"annotators": annotators}
        return Result.of_fit(votes=votes, posterior=posterior, reliability=self.reliability, **fields).posterior


def found_in(store: Store) -> tuple[Dependence, Annotations]:
    """Groups of annotators who share errors, and the votes in which they were sought."""
    sample = collected(store, SAMPLE)
    return find(sample), sample


def doubts_of(
    found: Dependence, sample: Annotations, estimator: Aggregator, history: Any = None, trusted: Sequence[Any] = ()
) -> tuple[Dependence, list[Doubt]]:
    """Readings that known labels leave, and the method fitted to the sample by each."""
    trusted_codes(sample, trusted)
    if not found:
        return found, []
    result = type(estimator)(**estimator.get_params()).fit(sample, history=history).result_
    found = settled(result, found, trusted)
    doubts = []
    for reading in found.readings:
        fit = refitted(result, sample, reading).result_
        fields = {name: getattr(fit, name) for name in ("method", "settings", "prior", "annotators")}
        rest: dict[str, Any] = {"seed": None, "history": None, "trace": {}, "n_iter": 0, "converged": True}
        reliability = reliability_of(in_company(fit.votes, fit.model_posterior), fit.history)[:-1]
        doubts.append(Doubt(EffectiveVotes(reading.code, reading.correlation), fields | rest, reliability))
    return found, doubts


def believed(result: Result, doubts: Sequence[Doubt]) -> Result:
    """The result of a shard with the confidence that every doubt leaves; labels stay."""
    posterior = lowest(result, (doubt.posterior(result.votes) for doubt in doubts))
    return with_posterior(result, posterior, result.confidence_source)
