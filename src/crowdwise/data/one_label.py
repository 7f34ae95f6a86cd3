"""Votes as one label per item: what scikit-learn needs to cut folds into strata, and to measure accuracy.

A label is the known one, or that of most votes, in a tie the first of the classes: it depends on the item alone, so that folds
agree about it. That is enough for strata and scores, and too little to train on: whoever trained on it would never see the
annotators, and not say so. So it is refused to classifiers, with the way that works.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.errors import InputError
from crowdwise.kernels.numerics import best_class

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["one_label_each", "refuse_to_trainers"]

# They convert for others: what counts is who called them.
_ON_BEHALF = ("numpy", "sklearn.utils", "sklearn.base", "sklearn.preprocessing", "sklearn.externals", "array_api_compat")
# A calibrator trains on the votes themselves, and needs labels of the items held out from that.
_NO_TRAINER = "sklearn.calibration"


def one_label_each(votes: Annotations) -> Any:
    """The known label of every item, or that of most votes, [N]."""
    counts = votes.by_class(votes.weight)
    known = np.full(votes.n_items, -1) if votes.gold is None else votes.gold
    silent = int(((counts.sum(axis=1) == 0) & (known < 0)).sum())
    if silent:
        raise InputError(
            f"{silent:,} of {votes.n_items:,} items have neither votes nor a known label, and so none for strata and scores; "
            "leave them out, or cut folds with KFold(5)"
        )
    return votes.classes[np.where(known >= 0, known, best_class(counts, np.zeros(votes.n_classes)))]


def refuse_to_trainers() -> None:
    """Raise if the code that converts votes to an array is a classifier's own training, which would lose the annotators."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_ON_BEHALF):
        frame = frame.f_back
    owner, module = frame.f_locals.get("self"), frame.f_globals.get("__name__", "")
    if frame.f_code.co_name == "cross_val_predict" and module.startswith("sklearn."):
        raise InputError(
            "cross_val_predict encodes y before it trains, and one label per item would be left of the votes; "
            'use method="predict", or train in a loop over KFold(5).split(X); '
            "CalibratedClassifierCV: with cv=5 and ensemble=True, or of a fitted model with FrozenEstimator(model) and labels, "
            "fit(X, np.asarray(votes))"
        )
    # Of the class: a stack of classifiers has `predict` only once it is fitted.
    if hasattr(type(owner), "predict") and hasattr(owner, "get_params") and not module.startswith(_NO_TRAINER):
        name = type(owner).__name__
        raise InputError(
            f"{name} trains on one label per row, and the annotators would be lost; train it on votes with "
            f"crowdwise.CrowdEM(estimator={name}(...)), or on labels that you infer first: "
            "crowdwise.DawidSkene().fit(votes).labels_"
        )
