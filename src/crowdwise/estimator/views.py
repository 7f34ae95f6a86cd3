"""What every fitted estimator shows of its `Result`, label-only method or classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.errors import NotFittedError

if TYPE_CHECKING:
    from crowdwise.estimator.annotator_views import AnnotatorViews
    from crowdwise.estimator.explain import Explanation
    from crowdwise.estimator.result import Result

__all__ = ["ResultViews"]

Floats = NDArray[np.float64]


class ResultViews:
    """Fitted attributes as views of the one frozen result; an estimator supplies `_fitted`."""

    def _fitted(self) -> Result:
        raise NotImplementedError

    def _outcome(self) -> AnnotatorViews:
        """What the fit left, even where labels are not in memory."""
        return self._fitted()

    def _repr_html_(self) -> str:
        from crowdwise.data.markup import plain

        try:
            return self._fitted()._repr_html_()
        except NotFittedError:
            return f"<code>{plain(repr(self), 2000)}</code>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Notebooks ask for this first, and scikit-learn's shows a diagram of the settings alone.
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def explain(self, item: Any) -> Explanation:
        """Say how much the class prior (or the classifier) and each vote moved the label of one item."""
        return self._fitted().explain(item)

    @property
    def posterior_(self) -> Floats:
        """Probability of every class for every item of the fit, [N, K]."""
        return self._fitted().all_posteriors()

    @property
    def labels_(self) -> NDArray[Any]:
        """Label of every item, in the user's classes, [N]."""
        return self._fitted().labels

    @property
    def items_(self) -> NDArray[Any]:
        """The items, in the order of `labels_` and `posterior_`, [N]."""
        return self._fitted().votes.items

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

    @property
    def trace_(self) -> Floats:
        """The bound or objective after every iteration or epoch; empty for methods without one."""
        trace = self._outcome().trace
        return np.sum(list(trace.values()), axis=0) if trace else np.empty(0)

    @property
    def n_iter_(self) -> int:
        """Iterations or epochs run."""
        return self._outcome().n_iter

    @property
    def converged_(self) -> bool:
        """Whether the stopping rule was met."""
        return self._outcome().converged
