"""Labels to start from: the posterior of an aggregation method, which settles who is adversarial and which class is which."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdwise.aggregate.registry import METHODS, make
from crowdwise.annotations import Annotations
from crowdwise.annotators.protocol import weight_of
from crowdwise.errors import ConvergenceWarning, DataWarning, SettingError, did_you_mean
from crowdwise.kernels.posterior import clamp
from crowdwise.kernels.votes import vote_shares

__all__ = ["start_posterior"]

Floats = NDArray[np.float64]


def start_posterior(votes: Annotations, init: Any) -> Floats:
    """Posterior of every item, [N, K].

    Parameters
    ----------
    init
        A label-only method by name; "identity", which starts from vote shares; or a posterior [N, K].
    """
    if isinstance(init, str):
        # One annotator leaves nothing to aggregate.
        if init == "identity" or votes.n_annotators == 1:
            posterior = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)
            if votes.gold is not None:
                clamp(posterior, votes.gold)
            return posterior
        if init not in METHODS:
            known = ["identity", *METHODS]
            raise SettingError(f"init: no start {init!r}{did_you_mean(init, known)} (there are {', '.join(known)})")
        with warnings.catch_warnings():
            # The start need not have converged; the fit itself says what deserves a look.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", DataWarning)
            return make(init).fit(votes).posterior_
    try:
        posterior = np.asarray(init, float)
    except (TypeError, ValueError):
        posterior = np.empty(0)
    shape = (votes.n_items, votes.n_classes)
    if posterior.shape != shape or not np.allclose(posterior.sum(axis=1), 1) or (posterior < 0).any():
        raise SettingError(f"init must be a method's name, 'identity', or a posterior of shape {shape} whose rows sum to one")
    return posterior
