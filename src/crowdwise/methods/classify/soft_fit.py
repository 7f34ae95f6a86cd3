"""Any classifier of scikit-learn on soft labels: every item once per class, weighted by the class's probability.

    sum over n, k of  q_nk loss(f(x_n), k)

is what a classifier that takes weights minimises then: for a log-loss, the cross-entropy with q. In a pipeline the last step
gets the weights, and the steps before it see every item once, with its likeliest label. What takes no weights (k nearest
neighbours, which would find copies of one row; searches, whose folds would) is trained on the likeliest labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import has_fit_parameter

from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import CrowdClassifier

__all__ = ["SklearnModel", "check_classifier", "fitted_classifier", "some_rows", "takes_weights"]

_CALIBRATED = "sklearn.calibration.CalibratedClassifierCV"
# Repeated rows with less weight than this cost time and change nothing.
_SMALLEST_WEIGHT = 1e-3
# A forest says 0 of what it has not seen; votes must be able to object.
_SMALLEST_PROBABILITY = 1e-6


@dataclass(frozen=True, eq=False)
class SklearnModel:
    """A fitted scikit-learn classifier; `codes` are the classes that its own, counted from 0, stand for."""

    classifier: Any
    codes: Any
    n_classes: int

    def log_prob(self, features: Any) -> Floats:
        """[N, K]; classes that it never saw are all but impossible."""
        found = np.asarray(self.classifier.predict_proba(features))
        proba = np.full((len(found), self.n_classes), _SMALLEST_PROBABILITY)
        seen = self.codes[np.asarray(self.classifier.classes_, int)]
        proba[:, seen] = np.maximum(found, _SMALLEST_PROBABILITY)
        return np.asarray(np.log(proba / proba.sum(axis=1, keepdims=True)))


def check_classifier(classifier: Any, setting: str) -> None:
    """Refuse what is no classifier with class probabilities; `setting` is what it was given as."""
    if isinstance(classifier, CrowdClassifier):
        raise SettingError(
            f"{classifier.name} learns from the votes itself and needs no first stage; call its own fit(X, votes)"
        )
    if isinstance(classifier, type) or not hasattr(classifier, "fit"):
        raise SettingError(f"{setting} must be a name or a scikit-learn classifier (an instance); got {classifier!r}")
    if hasattr(classifier, "predict_proba"):
        return
    name, last = type(classifier).__name__, _last(classifier)
    if hasattr(last, "__sklearn_tags__") and is_regressor(last):
        raise SettingError(f"{name} predicts numbers; {setting} must be a classifier")
    # A stack says only once it is fitted that it has probabilities, which its own final classifier gives.
    if getattr(last, "final_estimator", last) is None:
        return
    way = 'make it with voting="soft"' if getattr(last, "voting", "") == "hard" else f"wrap it in {_CALIBRATED}"
    raise SettingError(f"{name} gives no class probabilities; {way}")


def some_rows(features: Any, rows: Integers) -> Any:
    """These rows of an array, frame, sparse matrix or list, in a thing of its kind."""
    return _safe_indexing(features, rows)


def takes_weights(classifier: Any) -> bool:
    """Whether the `fit` of a classifier, or of the last step of a pipeline, takes weights of rows."""
    return bool(has_fit_parameter(_last(classifier), "sample_weight"))


def fitted_classifier(classifier: Any, features: Any, target: Floats, *, soft: bool = True) -> SklearnModel:
    """A copy of a scikit-learn classifier, fitted to soft labels, [N, K], or to the likeliest ones."""
    hard = target.argmax(axis=1)
    if soft and takes_weights(classifier):
        row, code = np.nonzero(target > _SMALLEST_WEIGHT)
        weight = target[row, code]
    else:
        row, code, weight = np.arange(len(target)), hard, None
    # Some libraries take classes only if they count from 0 without a gap.
    codes, own = np.unique(code, return_inverse=True)
    # Most refuse to learn one class; what they would say of it is clear.
    model = clone(classifier) if len(codes) > 1 else DummyClassifier()
    return SklearnModel(_fitted(model, features, row, own, weight, hard), codes, target.shape[1])


def _last(classifier: Any) -> Any:
    """The last step of a pipeline, or the classifier itself."""
    return _last(classifier.steps[-1][1]) if isinstance(classifier, Pipeline) else classifier


def _fitted(model: Any, features: Any, row: Any, code: Any, weight: Any, hard: Any) -> Any:
    """Fit to these rows of the features; the steps of a pipeline before the last see each once."""
    if weight is None:
        return model.fit(some_rows(features, row), code)
    if isinstance(model, Pipeline):
        *front, (name, last) = model.steps
        before = Pipeline(front, memory=model.memory) if front else None
        seen = features if before is None else before.fit_transform(features, hard)
        steps = [] if before is None else before.steps
        return Pipeline([*steps, (name, _fitted(last, seen, row, code, weight, hard))])
    return model.fit(some_rows(features, row), code, sample_weight=weight)
