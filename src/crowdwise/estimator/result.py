"""`Result`: what every fit of class labels leaves behind, whichever method made it.

Frozen. Reports, policies, detectors and comparisons take a `Result` and never ask for its method.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.storable import storable
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import Estimator
from crowdwise.estimator.explain import Explanation, explain
from crowdwise.estimator.label_outcome import LabelOutcome
from crowdwise.kernels.numerics import best_class, segment_sum
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.parts.annotators.model import counts_of
from crowdwise.parts.priors.rows import RowPrior

__all__ = ["Result", "ResultViews"]


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Result(LabelOutcome):
    """A fitted crowd model over one set of votes; see also `LabelOutcome`.

    Attributes
    ----------
    votes : Annotations
        The votes it was fitted to, with their vocabularies (and gold labels, where given).
    posterior : [N, K]
        Probability of every class for every item.
    """

    votes: Annotations
    posterior: Floats

    def sound(self) -> bool:
        """Whether arrays and parts of a saved result agree with each other."""
        votes, prior = self.votes, self.prior
        shape = votes.n_items, votes.n_classes
        return (
            self.posterior.shape == shape
            and (not isinstance(prior, RowPrior) or prior.log_nk.shape == shape)
            and (self.history is None or self.history.shape == (votes.n_annotators, votes.n_classes, votes.n_classes))
            and hasattr(prior, "log_prob")
            and hasattr(self.annotators, "infer")
        )

    def _repr_html_(self) -> str:
        from crowdwise.data.notebook import result_html

        return result_html(self, settings=True)

    @cached_property
    def codes(self) -> Integers:
        """Class code of every item, [N]: highest posterior, then highest class prior, then lowest index."""
        return best_class(self.posterior, self.class_prior)

    @property
    def labels(self) -> Array:
        """Consensus label of every item, in the user's classes, [N]."""
        return np.asarray(self.votes.classes[self.codes])

    @property
    def confidence(self) -> Floats:
        """Posterior probability of the consensus label, [N]."""
        return np.asarray(self.posterior[np.arange(len(self.codes)), self.codes])

    def items_frame(self, probabilities: bool = True) -> pl.DataFrame:
        """One row per item: label, confidence, votes, a note, and (optionally) p(class) columns.

        The note is "no votes" (the label is the class prior's), "known" (gold) or empty.
        """
        votes = self.votes
        gold = votes.gold if votes.gold is not None else np.full(votes.n_items, -1)
        note = np.where(gold >= 0, "known", np.where(votes.votes_per_item == 0, "no votes", ""))
        columns: dict[str, Any] = {
            "item": series_of(votes.items),
            "label": series_of(votes.classes)[self.codes],
            "confidence": self.confidence,
            "n_votes": votes.votes_per_item,
            "note": note,
        }
        if probabilities:
            columns |= {f"p({name})": self.posterior[:, k] for k, name in enumerate(votes.classes)}
        return pl.DataFrame(columns)

    def explain(self, item: Any) -> Explanation:
        """Say how much the class prior and each vote moved the label of one item."""
        return explain(self, item)

    def all_posteriors(self) -> Floats:
        """Probability of every class for every item, [N, K]."""
        return self.posterior

    def expected_counts(self) -> Floats:
        """Expected confusion counts under the posterior, [A, L, K]."""
        return counts_of(self.votes, self.posterior)

    def agreements(self) -> Floats:
        """Votes of each annotator that equal the label, [A]."""
        votes = self.votes
        return segment_sum(votes.annotator, (votes.label == self.codes[votes.item]).astype(float), votes.n_annotators)


class ResultViews(Estimator):
    """What every fitted estimator of class labels shows of its result, label-only method or classifier."""

    def _outcome(self) -> LabelOutcome:
        """What the fit left, even where labels are not in memory."""
        found: LabelOutcome = super()._outcome()
        return found

    def _fitted(self) -> Result:
        found = self._outcome()
        if not isinstance(found, Result):
            raise SettingError("labels of votes in shards stay there; write them: result_.write_labels('labels.parquet')")
        return found

    def explain(self, item: Any) -> Explanation:
        """Say how much the class prior (or the classifier) and each vote moved the label of one item."""
        return self._fitted().explain(item)

    @property
    def posterior_(self) -> Floats:
        """Probability of every class for every item of the fit, [N, K]."""
        return self._fitted().all_posteriors()

    @property
    def labels_(self) -> Array:
        """Label of every item, in the user's classes, [N]."""
        return self._fitted().labels

    @property
    def confusion_(self) -> Floats:
        """P(observed | true) of every annotator, [A, K, K]; rows sum to one."""
        return self._outcome().confusion

    @property
    def concentration_(self) -> Floats:
        """Dirichlet parameters of every confusion row, [A, K, L]: the model's, or those of expected counts."""
        return self._outcome().concentration

    def confusion_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper ends of the central interval of every confusion entry, two of [A, K, L]."""
        return self._outcome().confusion_interval(level)

    @property
    def prior_(self) -> Floats:
        """Share of each class, [K]."""
        return self._outcome().class_prior
