"""Thresholds per group that bring groups within a given gap, and what they cost.

Items are sorted by their margin, q of the class in question minus the largest q of the others; a group's items above its
threshold get the class, all others their best other class. For every group, raising the number of items above the threshold
raises the constrained rate; so all choices whose rate lies in a window [L, L + within] are a run of neighbours, the best of
which a table of range maxima gives at once. L goes over all rates that occur, O(N log N) in all, and the best total is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.gold import encode_gold
from crowdwise.data.groups import Groups, groups_of
from crowdwise.errors import InputError, SettingError, did_you_mean
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.numerics import ratio
from crowdwise.kernels.types import Array, Flags, Floats, Integers
from crowdwise.trust.fairness.gaps import classes_of, one_hot

__all__ = ["CONSTRAINTS", "ParityLabels", "parity_labels"]


CONSTRAINTS = ("demographic", "opportunity", "false-positives")
# Where the truth leaves thresholds tied, the one nearest to the model's own labels is taken.
_TIE = 1e-6


@dataclass(frozen=True, eq=False)
class ParityLabels:
    """Labels under a parity constraint.

    Attributes
    ----------
    votes, groups
    codes, before : [N]
        Class codes of the items, and those without the constraint.
    margin : [N]
        q of the class minus the largest q of the others; above zero without a constraint.
    threshold : [G]
        Least margin that gets the class in each group; infinite where nobody does.
    rate, rate_before : [G]
        The constrained rate in each group.
    gap, gap_before : float
        Largest difference between two groups of it.
    accuracy, accuracy_before : float
        Against the truth; NaN without it.
    cost : (float, float, float)
        Accuracy lost, with its 95 % interval over items; NaN without a truth.
    expected_cost : float
        Accuracy lost if the probabilities are right.
    n_changed, n_known : int
        Labels that differ from those without the constraint; items of known class.
    against : str
        What rates of right and wrong positives rest on: "truth", "the model's own probabilities, circular", or "".
    """

    votes: Annotations
    groups: Groups
    positive: int
    constraint: str
    within: float
    codes: Integers
    before: Integers
    margin: Floats
    threshold: Floats
    rate: Floats
    rate_before: Floats
    gap: float
    gap_before: float
    accuracy: float
    accuracy_before: float
    cost: tuple[float, float, float]
    expected_cost: float
    n_changed: int
    n_known: int
    against: str

    @property
    def labels(self) -> Array:
        """Labels in the user's classes, [N]."""
        return np.asarray(self.votes.classes[self.codes])

    def items_frame(self) -> pl.DataFrame:
        """One row per item: item, group, label, label_before, margin."""
        classes = series_of(self.votes.classes)
        return pl.DataFrame(
            {
                "item": series_of(self.votes.items),
                "group": self.groups.of_items,
                "label": classes[self.codes],
                "label_before": classes[self.before],
                "margin": self.margin,
            }
        )

    def groups_frame(self) -> pl.DataFrame:
        """One row per group: group, n_items, threshold (on the probability, for two classes), rate_before, rate, n_changed."""
        changed = np.bincount(self.groups.codes[self.codes != self.before], minlength=self.groups.n_groups)
        on_q = (1 + self.threshold) / 2 if self.votes.n_classes == 2 else self.threshold
        numbers = {"threshold": on_q, "rate_before": self.rate_before, "rate": self.rate}
        return pl.DataFrame(
            {
                "group": series_of(self.groups.names),
                "n_items": self.groups.sizes,
                **{name: pl.Series(np.where(np.isfinite(v), v, np.nan)).fill_nan(None) for name, v in numbers.items()},
                "n_changed": changed,
            }
        )


def parity_labels(
    fitted: Any,
    groups: Any,
    *,
    constraint: str = "demographic",
    within: float = 0.02,
    positive: Any = None,
    truth: Any = None,
    scores: Any = None,
    split_ties: bool = False,
    random_state: int | None = 0,
) -> ParityLabels:
    """Choose a threshold per group so that groups differ by at most `within`, at the least cost in accuracy.

    Parameters
    ----------
    fitted : Result or fitted estimator
    groups : Groups, mapping, frame, Series or sequence
    constraint : "demographic", "opportunity" or "false-positives"
        Equal rates of the class, of right answers among items that are of it, or of wrong ones among items that are not.
    within : float
        Largest difference allowed between any two groups.
    positive : optional
        The class; by default the second of two. With more classes it must be named.
    truth : mapping, frame, Series or sequence, optional
        True labels of some items: accuracy, and the rates of the last two constraints, are then those on these items.
        Without it both are what the probabilities expect, which is circular.
    scores : [N, K], optional
        Class probabilities instead of the fit's own, such as a classifier's.
    split_ties : bool
        Allow items of one group and equal margin to get different labels, in an order drawn by `random_state`. Vote shares
        take few values, and a threshold alone may not meet a narrow constraint.

    Notes
    -----
    A group without items to measure its rate on (no known positives, say) is left at the model's own threshold.
    """
    result: Result = getattr(fitted, "result_", fitted)
    votes = result.votes
    _check(constraint, within, votes, positive)
    found, k = groups_of(votes, groups), classes_of(votes.classes, positive)[0]
    q = result.posterior if scores is None else np.asarray(scores, float)
    if q.shape != result.posterior.shape:
        raise InputError(f"scores must have shape {result.posterior.shape}; got {q.shape}")
    others = np.where(np.arange(votes.n_classes) == k, -np.inf, q)
    other = others.argmax(axis=1)
    margin = q[:, k] - others.max(axis=1)
    before = result.codes if scores is None else np.where(margin > 0, k, other)
    known = np.full(votes.n_items, -1) if truth is None else encode_gold(votes, truth).astype(np.int64)
    has_truth = bool((known >= 0).any())
    t = one_hot(known, votes.n_classes) if has_truth else q
    mass = {"demographic": np.ones(len(q)), "opportunity": t[:, k], "false-positives": t.sum(axis=1) - t[:, k]}[constraint]
    # What is gained by the class over the best other one, in right labels.
    gain = margin + 0.0
    if has_truth:
        gain = t[:, k] - t[np.arange(len(t)), other] + _TIE * margin
    rng = np.random.default_rng(random_state)
    taken, threshold = _thresholds(margin, gain, mass, found, within, rng if split_ties else None)
    codes = np.where(taken, k, other)
    was = before == k
    rate, rate_before = (_rates(mass, chosen, found) for chosen in (taken, was))
    right, right_before = (t[np.arange(len(t)), c] for c in (codes, before))
    on = known >= 0
    return ParityLabels(
        votes=votes,
        groups=found,
        positive=k,
        constraint=constraint,
        within=within,
        codes=codes,
        before=np.asarray(before),
        margin=margin,
        threshold=threshold,
        rate=rate,
        rate_before=rate_before,
        gap=_spread(rate),
        gap_before=_spread(rate_before),
        accuracy=float(right[on].mean()) if has_truth else float("nan"),
        accuracy_before=float(right_before[on].mean()) if has_truth else float("nan"),
        cost=_cost(right_before[on] - right[on], rng),
        expected_cost=float((q[np.arange(len(q)), before] - q[np.arange(len(q)), codes]).mean()) if len(q) else 0.0,
        n_changed=int((codes != before).sum()),
        n_known=int(on.sum()),
        against="" if constraint == "demographic" else "truth" if has_truth else "the model's own probabilities, circular",
    )


def _check(constraint: str, within: float, votes: Annotations, positive: Any) -> None:
    if constraint not in CONSTRAINTS:
        hint = did_you_mean(constraint, list(CONSTRAINTS))
        raise SettingError(f"constraint must be one of {', '.join(CONSTRAINTS)}; got {constraint!r}{hint}")
    if not 0 <= within <= 1:
        raise SettingError(f"within must lie between 0 and 1; got {within!r}")
    if votes.n_classes < 2:
        raise InputError("there is only one class; a threshold needs another to choose from")
    if positive is None and votes.n_classes > 2:
        raise SettingError(f"name the class of the constraint with positive: {', '.join(map(str, votes.classes[:20]))}")


def _thresholds(
    margin: Floats, gain: Floats, mass: Floats, groups: Groups, within: float, rng: np.random.Generator | None
) -> tuple[Flags, Floats]:
    """Which items get the class, [N], and the least margin of those in each group, [G]."""
    lists = []
    for g in range(groups.n_groups):
        mine = np.flatnonzero(groups.codes == g)
        if rng is not None:
            mine = rng.permutation(mine)
        mine = mine[np.argsort(-margin[mine], kind="stable")]
        # A threshold cannot cut through equal margins, up to rounding.
        ends = np.flatnonzero(np.append(np.diff(margin[mine]) < -1e-9, True)) + 1 if len(mine) else np.empty(0, np.int64)
        cut = np.arange(len(mine) + 1) if rng is not None else np.append(0, ends)
        all_mass = float(mass[mine].sum())
        rate = np.append(0, np.cumsum(mass[mine]))[cut] / all_mass if all_mass > 0 else np.empty(0)
        lists.append((mine, cut, rate, np.append(0, np.cumsum(gain[mine]))[cut]))
    free = [len(rate) == 0 for _, _, rate, _ in lists]
    bound = [part for part, loose in zip(lists, free, strict=True) if not loose]
    lows = np.unique(np.concatenate([rate for _, _, rate, _ in bound])) if bound else np.empty(0)
    total, best = np.zeros(len(lows)), []
    for _, _, rate, value in bound:
        # Rounding of cumulative sums must not shut out a rate that is meant to be equal.
        start = np.searchsorted(rate, lows - 1e-12)
        stop = np.searchsorted(rate, lows + within + 1e-12, side="right")
        place = _best_between(value, start, stop)
        total = total + np.where(place >= 0, value[place], -np.inf)
        best.append(place)
    chosen = int(np.argmax(total)) if len(lows) else 0
    taken, threshold = np.zeros(len(margin), bool), np.empty(groups.n_groups)
    places = iter(best)
    for g, (mine, cut, _, _) in enumerate(lists):
        # A group in which the rate is undefined keeps the threshold of the model.
        n = int(np.searchsorted(-margin[mine], 0)) if free[g] else int(cut[next(places)[chosen]])
        taken[mine[:n]] = True
        threshold[g] = margin[mine[n - 1]] if n else np.inf
    return taken, threshold


def _best_between(value: Floats, start: Integers, stop: Integers) -> Integers:
    """Position of the largest value in each of the ranges start:stop; -1 for an empty one."""
    # Tables of the best position among 1, 2, 4, ... neighbours: two of them cover any range.
    level = np.arange(len(value))
    tables = [level]
    width = 1
    while 2 * width <= len(value):
        left, right = level[:-width], level[width:]
        level = np.where(value[right] > value[left], right, left)
        tables.append(level)
        width *= 2
    size = stop - start
    place = np.full(len(start), -1)
    power = np.floor(np.log2(np.maximum(size, 1))).astype(np.int64)
    for p in np.unique(power[size > 0]):
        rows = np.flatnonzero((size > 0) & (power == p))
        left, right = tables[p][start[rows]], tables[p][stop[rows] - 2**p]
        place[rows] = np.where(value[right] > value[left], right, left)
    return place


def _rates(mass: Floats, chosen: Flags, groups: Groups) -> Floats:
    total = np.bincount(groups.codes, mass, groups.n_groups)
    return ratio(np.bincount(groups.codes, mass * chosen, groups.n_groups), total, np.nan)


def _spread(rate: Floats) -> float:
    return float(np.nanmax(rate) - np.nanmin(rate)) if (~np.isnan(rate)).any() else float("nan")


def _cost(lost: Floats, rng: np.random.Generator, n_resamples: int = 2000) -> tuple[float, float, float]:
    """Mean loss, one of -1, 0 and 1 per item, and its percentile interval: what counts is how many items are of each kind."""
    if not len(lost):
        return (float("nan"),) * 3
    kinds, count = np.unique(lost, return_counts=True)
    drawn = rng.multinomial(len(lost), count / len(lost), size=n_resamples) @ kinds / len(lost)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(lost.mean()), float(low), float(high)
