"""What every fitted estimator of class labels shows of its `Result`, label-only method or classifier."""

from __future__ import annotations

from typing import Any

from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import Estimator
from crowdwise.estimator.explain import Explanation
from crowdwise.estimator.label_outcome import LabelOutcome
from crowdwise.estimator.result import Result
from crowdwise.kernels.types import Array, Floats

__all__ = ["ResultViews"]


class ResultViews(Estimator):
    """Fitted attributes as views of the one frozen result."""

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
