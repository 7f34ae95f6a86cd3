"""Cross-fitting: known items get probabilities from calibrators that have not seen their class.

Judged by the items it was fitted to, any calibrator looks better than it is. Here every fold of the known items is
calibrated by a fit to the others; items of unknown class by the fit to all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from crowdwise.errors import SettingError
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.calibration.base import ProbabilityMap, known_of

__all__ = ["cross_fitted"]

Fit = Callable[[Floats, Integers], ProbabilityMap]


def cross_fitted(
    fit: Fit, probability: ArrayLike, truth: ArrayLike, *, folds: int = 5, seed: int | None = 0
) -> tuple[Floats, ProbabilityMap]:
    """Calibrated probabilities, [N, K], and the calibrator fitted to all known items.

    Parameters
    ----------
    fit : callable
        From (probability, truth) to a calibrator: ``Temperature.fit``.
    probability : [N, K]
    truth : [N]
        Class codes, -1 where unknown.
    folds : int
        Of the known items, each with its share of every class; at most one per item.

    Examples
    --------
    >>> from crowdwise.trust.calibration import Temperature
    >>> q = [[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]
    >>> calibrated, fitted = cross_fitted(Temperature.fit, q, [0, 0, 1, 1, -1], folds=4)
    >>> bool((calibrated[4] == fitted.apply([q[4]])[0]).all())
    True
    """
    if folds < 2:
        raise SettingError(f"folds must be at least 2; got {folds!r}")
    q_nk, z_n = np.asarray(probability, float), np.asarray(truth)
    known_of(q_nk, z_n, least=4)
    fitted = fit(q_nk, z_n)
    calibrated = fitted.apply(q_nk)
    known = np.flatnonzero(z_n >= 0)
    # In random order within each class, dealt one after the other: every fold gets its share of every class.
    rng = np.random.default_rng(seed)
    order = known[np.lexsort((rng.random(len(known)), z_n[known]))]
    fold = np.arange(len(order)) % min(folds, len(order))
    for number in range(int(fold.max()) + 1):
        held = order[fold == number]
        others = z_n.copy()
        others[held] = -1
        calibrated[held] = fit(q_nk, others).apply(q_nk[held])
    return calibrated, fitted
