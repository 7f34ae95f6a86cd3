"""What was known of annotators before a campaign, by name, so that it can be written down and given to a model again."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.campaign.names import ids_of
from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, translate
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats

__all__ = ["history_of", "prior_of"]


def history_of(result: Result | None) -> pl.DataFrame | None:
    """Counts from before the votes of a result: annotator, true, observed, count; None where there are none."""
    if result is None or result.history is None:
        return None
    votes = result.votes
    annotator, observed, true = np.nonzero(result.history)
    classes = series_of(votes.classes)
    return pl.DataFrame(
        {
            "annotator": series_of(votes.annotators)[annotator],
            "true": classes[true],
            "observed": classes[observed],
            "count": result.history[annotator, observed, true],
        }
    )


def prior_of(history: pl.DataFrame | None, votes: Annotations) -> dict[Any, Floats] | None:
    """The same as `fit` takes it (`history`): counts of true x observed classes, [K, K], of every annotator."""
    if history is None:
        return None
    true, observed = (translate(ids_of(history[name]), votes.classes).tolist() for name in ("true", "observed"))
    matrices: dict[Any, Floats] = {}
    for name, k, label, count in zip(history["annotator"].to_list(), true, observed, history["count"].to_list(), strict=True):
        matrices.setdefault(name, np.zeros((votes.n_classes, votes.n_classes)))[k, label] = count
    return matrices
