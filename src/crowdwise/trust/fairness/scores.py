"""How differently one annotator treats the groups: the distance of their matrices, with its posterior.

    score_a = largest over pairs of groups s, t with votes of a of || R_a^(s) - R_a^(t) ||_F

R_a^(s) are the posterior means of Dirichlet rows, shrunk towards the annotator's pooled matrix (see `item-group-ds`), so that
few votes in a group make no distance. `probability` is the posterior probability that this pair is farther apart than `least`,
by draws; without any votes it is about one half. Not the largest distance of all pairs in each draw: with many groups of few
votes that is large by noise alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.groups import Groups
from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import dirichlet_draw
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.methods.labels.bayes_gc import BayesGC
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion
from crowdwise.parts.annotators.model import counts_of

__all__ = ["annotator_scores", "matrices_given"]


# Matrices that are drawn at once.
_AT_ONCE = 200_000


def matrices_given(votes: Annotations, groups: Groups, truth: Floats, kappa: float = 10.0) -> ItemGroupConfusion:
    """Dirichlet rows per annotator and group given the classes of the items, [N, K]; rows of zeros teach nothing."""
    base_lk = BayesGC().row_prior(votes.n_classes)
    own = base_lk + counts_of(votes, truth)
    parent = kappa * own / own.sum(axis=1, keepdims=True) + base_lk
    return ItemGroupConfusion.start(votes, groups.codes, groups.n_groups, parent, base_lk).update(votes, truth)


def annotator_scores(
    votes: Annotations,
    groups: Groups,
    model: ItemGroupConfusion,
    *,
    least: float = 0.2,
    fdr: float = 0.05,
    n_draws: int = 400,
    random_state: int | None = 0,
) -> pl.DataFrame:
    """One row per annotator: n_votes, group and other (the farthest pair), score, low, high, probability, q_value, flag.

    `n_least` is the smaller number of votes in the two groups. An annotator with votes in one group alone has no score.

    Parameters
    ----------
    model : ItemGroupConfusion
        From `item-group-ds`, or from `matrices_given`.
    least : float
        A Frobenius distance that matters. With two classes, rates that differ by d in one row are sqrt(2) d apart.
    fdr : float
        Expected share of wrong flags: `q_value` is the mean of 1 - `probability` down to this annotator.
    """
    if least <= 0:
        raise SettingError(f"least must be above 0; got {least!r}")
    if not 0 < fdr < 1:
        raise SettingError(f"fdr must lie strictly between 0 and 1; got {fdr!r}")
    rng = np.random.default_rng(random_state)
    n_annotators, size = votes.n_annotators, max(model.n_groups * votes.n_classes**2, 1)
    score, low, high, probability = (np.empty(n_annotators) for _ in range(4))
    pair = np.zeros((n_annotators, 2), np.int64)
    n_votes = np.zeros((n_annotators, model.n_groups))
    n_votes[model.pair_a, model.pair_s] = (model.beta_plk - model.parent_alk[model.pair_a]).sum(axis=(1, 2))
    step = max(1, _AT_ONCE // size)
    for start in range(0, n_annotators, step):
        part = slice(start, min(start + step, n_annotators))
        beta = model.by_group(part)
        pair[part] = _farthest(beta / beta.sum(axis=3, keepdims=True), n_votes[part] > 0)
        beta = np.take_along_axis(beta, pair[part][:, :, None, None], axis=1)
        score[part] = _distance(beta / beta.sum(axis=3, keepdims=True))
        drawn = np.array([_distance(dirichlet_draw(rng, beta)) for _ in range(n_draws)])
        low[part], high[part] = np.quantile(drawn, [0.025, 0.975], axis=0)
        probability[part] = (drawn > least).mean(axis=0)
    seen = (n_votes > 0).sum(axis=1) > 1
    order = np.argsort(np.where(seen, -probability, np.inf), kind="stable")
    q_value = np.empty(n_annotators)
    q_value[order] = np.cumsum(1 - probability[order]) / np.arange(1, n_annotators + 1)
    names = series_of(groups.names)
    said: dict[str, Any] = {"score": score, "low": low, "high": high, "probability": probability, "q_value": q_value}
    return pl.DataFrame(
        {
            "annotator": series_of(votes.annotators),
            "n_votes": n_votes.sum(axis=1).round(6),
            "group": _masked(names[pair[:, 0]], seen),
            "other": _masked(names[pair[:, 1]], seen),
            "n_least": np.where(seen, np.take_along_axis(n_votes, pair, axis=1).min(axis=1), 0).round(6),
            **{name: pl.Series(np.where(seen, values, np.nan)).fill_nan(None) for name, values in said.items()},
            "flag": seen & (q_value <= fdr),
        }
    )


def _farthest(matrices: Floats, seen: Flags) -> Integers:
    """The two seen groups whose matrices are farthest apart, in order, [a, 2]; from [a, G, K, L] and [a, G]."""
    rows = matrices.reshape(*matrices.shape[:2], -1)
    # All pairs at once by |x - y|^2 = |x|^2 + |y|^2 - 2 x y.
    size = (rows**2).sum(axis=2)
    square = size[:, :, None] + size[:, None] - 2 * rows @ rows.transpose(0, 2, 1)
    n_groups = rows.shape[1]
    allowed = seen[:, :, None] & seen[:, None] & np.triu(np.ones((n_groups, n_groups), bool), 1)
    best = np.where(allowed, square, -1.0).reshape(len(rows), -1).argmax(axis=1)
    return np.stack(np.divmod(best, n_groups), axis=1)


def _distance(matrices: Floats) -> Floats:
    """Frobenius distance between two groups' matrices, [a]; from [a, 2, K, L]."""
    return np.asarray(np.sqrt(((matrices[:, 0] - matrices[:, 1]) ** 2).sum(axis=(1, 2))))


def _masked(names: pl.Series, keep: Flags) -> pl.Series:
    return names.set(pl.Series(~keep), None) if len(names) else names
