"""Labels to start from: the posterior of an aggregation method, which settles who is adversarial and which class is which."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import ConvergenceWarning, DataWarning, SettingError, did_you_mean
from crowdwise.estimator.registry import label_methods, make_aggregator
from crowdwise.kernels.numerics import clamp, vote_shares
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.habits import Habits
from crowdwise.parts.annotators.model import counts_of, weight_of

__all__ = ["attended_rows", "crowd_confusion", "crowd_rows", "start_confusion", "start_posterior"]

# Steps of attention and habits for given labels: they hardly move after twenty.
_STEPS = 50


def start_posterior(votes: Annotations, init: Any) -> Floats:
    """Posterior of every item, [N, K].

    Parameters
    ----------
    init
        A label-only method by name; "identity", which starts from vote shares; or a posterior [N, K].
    """
    if isinstance(init, str):
        if init != "identity" and init not in label_methods():
            known = ["identity", *label_methods()]
            raise SettingError(f"init: no start {init!r}{did_you_mean(init, known)} (there are {', '.join(known)})")
        # One annotator leaves nothing to aggregate.
        if init == "identity" or votes.n_annotators == 1:
            posterior = vote_shares(votes.item_ptr, votes.label, weight_of(votes), votes.n_classes)
            clamp(posterior, votes.known_codes)
            return posterior
        with warnings.catch_warnings():
            # The start need not have converged; the fit itself says what deserves a look.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", DataWarning)
            return make_aggregator(init).fit(votes).result_.model_posterior
    try:
        posterior = np.asarray(init, float)
    except (TypeError, ValueError):
        posterior = np.empty(0)
    shape = (votes.n_items, votes.n_classes)
    if posterior.shape != shape or not np.allclose(posterior.sum(axis=1), 1) or (posterior < 0).any():
        raise SettingError(f"init must be a method's name, 'identity', or a posterior of shape {shape} whose rows sum to one")
    posterior = posterior.copy()
    clamp(posterior, votes.known_codes)
    return posterior


def crowd_confusion(votes: Annotations, posterior: Floats) -> Floats:
    """The confusion matrix of the crowd as one, [K, L], shrunk by K pseudo-votes per row towards its accuracy.

    A class that nobody saw therefore starts near the truth.
    """
    n_classes = votes.n_classes
    pooled = counts_of(votes, posterior).sum(axis=0).T
    right = (np.trace(pooled) + 1) / (pooled.sum() + 2)
    plain = np.full((n_classes, n_classes), (1 - right) / max(n_classes - 1, 1))
    np.fill_diagonal(plain, right)
    crowd = pooled + n_classes * plain
    return np.asarray(crowd / crowd.sum(axis=1, keepdims=True))


def attended_rows(votes: Annotations, posterior: Floats) -> Floats:
    """What confusion rows of every annotator look like before their own entries are counted, [A, L, K]; columns sum to one.

    The crowd's common matrix, as far as the annotator attends, and a habit otherwise: two numbers of the annotator's own, so
    that good annotators are not drawn down to the crowd, nor bad ones up.
    """
    counts = counts_of(votes, posterior)
    habits = Habits.start(counts.sum(axis=2), np.zeros((1, votes.n_classes, votes.n_classes)), own=False)
    for _ in range(_STEPS):
        habits = habits.conditioned((counts,))
    return habits.mean_alk()


def crowd_rows(votes: Annotations) -> Floats:
    """What the votes say of this crowd as a whole: Dirichlet parameters of a confusion matrix that is not known yet, [1, L, K].

    They are those of a single community to which all annotators belong.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataWarning)
        fitted = make_aggregator("cbcc", communities=1, class_prior="anchored").fit(votes)
    return np.asarray(fitted.result_.annotators.eta_mlk)


def start_confusion(votes: Annotations, posterior: Floats) -> Floats:
    """Confusion matrices under a posterior, [A, K, L]: each row shrunk by K pseudo-votes towards the crowd's."""
    shrunk = counts_of(votes, posterior).transpose(0, 2, 1) + votes.n_classes * crowd_confusion(votes, posterior)
    return np.asarray(shrunk / shrunk.sum(axis=2, keepdims=True))
