"""Differences between groups, with intervals, as tidy tables.

    demographic parity    selection rates            equal opportunity     true-positive rates
    equalised odds        the larger of the gaps of true and of false positives
    accuracy              shares of right decisions

A gap is the largest difference between two groups, and its interval is that of the signed difference of these two: it may
reach below zero, and then the votes do not show which group is better off. With two groups it is the percentile interval
of the bootstrap. With more, the pair was chosen for its gap, so the interval is that of all pairs at once (Bonferroni, by the
bootstrap's standard errors).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.errors import InputError, SettingError
from crowdwise.kernels.types import Array, Floats
from crowdwise.trust.fairness.rates import Decisions, Rates, rates_of

__all__ = ["FEW", "MEASURES", "RATE_NAMES", "disparity", "gap_tables"]


MEASURES = ("demographic parity", "equal opportunity", "false-positive rate", "accuracy", "equalised odds")
#: The rates whose differences the first four measures are.
RATE_NAMES = ("share", "true-positive rate", "false-positive rate", "accuracy")
# Below this many items a bootstrap of a share means little.
FEW = 30


def disparity(
    labels: Any,
    groups: Any,
    truth: Any = None,
    *,
    positive: Any = None,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: int | None = 0,
) -> pl.DataFrame:
    """Gaps between groups of any labels, such as a classifier's on a test set; no votes needed.

    Parameters
    ----------
    labels, groups : [N]
    truth : [N], optional
        True labels; None or NaN where unknown. Without any, only demographic parity can be said.
    positive : optional
        The class whose rates are compared; by default the last of two, and each of several against the rest.

    Returns
    -------
    frame
        measure, class, higher, lower, gap, low, high, n: see `crowdwise.trust.fairness.audit`.

    Examples
    --------
    >>> disparity([1, 1, 0, 0], ["x", "x", "y", "y"], positive=1)["gap"].to_list()
    [1.0]
    """
    from crowdwise.data.annotations import Annotations
    from crowdwise.data.gold import encode_gold
    from crowdwise.data.groups import groups_of

    check_bootstrap(level, n_resamples)
    seen = series_of(labels)
    known = series_of([]) if truth is None else series_of(truth)
    classes = sorted({*seen.drop_nulls().to_list(), *known.drop_nulls().to_list()}, key=lambda value: (str(type(value)), value))
    items = np.arange(len(seen))
    frame = Annotations.from_arrays([], [], [], items=items.tolist(), annotators=[], classes=classes)
    found = groups_of(frame, groups)
    decided = one_hot(encode_gold(frame, seen), len(classes))
    true = np.zeros_like(decided) if truth is None else one_hot(encode_gold(frame, known), len(classes))
    decisions = Decisions(decided, true, found.codes, found.n_groups)
    chosen = classes_of(frame.classes, positive)
    _, gaps = gap_tables(decisions, found.names, frame.classes, chosen, level, n_resamples, random_state)
    return gaps


def one_hot(codes: Array, n_classes: int) -> Floats:
    """[N, K]; rows of zeros for -1."""
    return np.asarray(np.eye(n_classes + 1, n_classes)[codes])


def classes_of(classes: Array, positive: Any) -> list[int]:
    """Codes of the classes whose rates are compared."""
    if positive is None:
        return [1] if len(classes) == 2 else list(range(len(classes)))
    names = [str(name) for name in classes]
    if str(positive) not in names:
        from crowdwise.errors import did_you_mean

        hint = did_you_mean(str(positive), names)
        raise SettingError(f"positive: no class {str(positive)!r}{hint} (there are {', '.join(names[:20])})")
    return [names.index(str(positive))]


def check_bootstrap(level: float, n_resamples: int) -> None:
    """Refuse a level outside (0, 1), and less than a handful of resamples."""
    if not 0 < level < 1:
        raise SettingError(f"level must lie strictly between 0 and 1; got {level!r}")
    if n_resamples < 20:
        raise SettingError(f"n_resamples must be at least 20; got {n_resamples!r}")


def gap_tables(
    decisions: Decisions,
    names: Array,
    classes: Array,
    chosen: list[int],
    level: float,
    n_resamples: int,
    random_state: int | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rates by group (measure, class, group, n, rate, low, high), and gaps; measures without a truth are left out."""
    if decisions.n_groups < 1:
        raise InputError("there are no items, so there are no groups to compare")
    rates: list[dict[str, Any]] = []
    gaps: list[dict[str, Any]] = []
    groups, labels = series_of(names).to_list(), series_of(classes).to_list()
    for number, k in enumerate(chosen):
        found = rates_of(decisions, k, n_resamples, np.random.default_rng(random_state))
        ends = _quantiles(found.drawn, level)
        odds = []
        for m, measure in enumerate(MEASURES[:4]):
            # Accuracy is the same whichever class is in question.
            if not found.n[:, m].any() or (measure == "accuracy" and number):
                continue
            named = {"measure": measure, "class": None if measure == "accuracy" else labels[k]}
            for g, group in enumerate(groups):
                numbers = {"n": found.n[g, m], "rate": found.value[g, m], "low": ends[0][g, m], "high": ends[1][g, m]}
                rates.append(named | {"measure": RATE_NAMES[m], "group": group} | numbers)
            pair = _largest(found, m, level)
            gaps.append(named | _gap(pair, groups, found.n[:, m]))
            if 1 <= m <= 2:
                odds.append((pair, _largest(found, m, (1 + level) / 2), found.n[:, m]))
        if len(odds) == 2:
            gaps.append({"measure": "equalised odds", "class": labels[k]} | _odds(odds, groups))
    kind = {"class": series_of(classes).dtype, "group": series_of(names).dtype}
    return _frame(rates, ("n", "rate", "low", "high"), kind, _RATE_COLUMNS), _frame(
        gaps,
        ("gap", "low", "high", "n"),
        {"class": kind["class"], "higher": kind["group"], "lower": kind["group"]},
        _GAP_COLUMNS,
    )


_RATE_COLUMNS = ("measure", "class", "group", "n", "rate", "low", "high")
_GAP_COLUMNS = ("measure", "class", "higher", "lower", "gap", "low", "high", "n")


def _frame(
    rows: list[dict[str, Any]], numbers: tuple[str, ...], kinds: dict[str, Any], columns: tuple[str, ...]
) -> pl.DataFrame:
    schema = {name: pl.Float64 if name in numbers else kinds.get(name, pl.String) for name in columns}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pl.col(list(numbers)).fill_nan(None))


def _quantiles(drawn: Floats, level: float) -> tuple[Floats, Floats]:
    """Central interval over the draws; NaN where a draw had nothing below the line in most of them."""
    empty = np.isnan(drawn).mean(axis=0) > 0.5
    filled = np.where(empty, 0.0, drawn)
    low, high = np.nanquantile(filled, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


def _largest(found: Rates, m: int, level: float) -> tuple[int, int, float, float, float]:
    """Groups with the highest and the lowest rate, their difference and its interval."""
    value = found.value[:, m]
    some = np.flatnonzero(~np.isnan(value))
    if len(some) < 2:
        return -1, -1, np.nan, np.nan, np.nan
    high, low = int(some[np.argmax(value[some])]), int(some[np.argmin(value[some])])
    if high == low:
        high, low = int(some[0]), int(some[1])
    gap, drawn = value[high] - value[low], found.drawn[:, high, m] - found.drawn[:, low, m]
    if len(some) == 2:
        ends = _quantiles(drawn, level)
        return high, low, gap, float(ends[0]), float(ends[1])
    from scipy.special import ndtri

    n_pairs = len(some) * (len(some) - 1) / 2
    half = -ndtri((1 - level) / 2 / n_pairs) * np.nanstd(drawn)
    return high, low, gap, max(gap - half, -1.0), min(gap + half, 1.0)


def _gap(pair: tuple[int, int, float, float, float], groups: list[Any], n: Floats) -> dict[str, Any]:
    high, low, gap, start, stop = pair
    named = {"higher": groups[high], "lower": groups[low]} if high >= 0 else {"higher": None, "lower": None}
    return named | {"gap": gap, "low": start, "high": stop, "n": float(n.min())}


def _odds(parts: list[tuple[Any, Any, Floats]], groups: list[Any]) -> dict[str, Any]:
    """The larger of two gaps; its interval from those of both at once, which is wide enough whichever is larger."""
    pairs, wide = [part[0] for part in parts], [part[1] for part in parts]
    if any(pair[0] < 0 for pair in pairs):
        return _gap((-1, -1, np.nan, np.nan, np.nan), groups, np.minimum(parts[0][2], parts[1][2]))
    first = int(pairs[1][2] > pairs[0][2])
    low = max(max(start, -stop, 0.0) for _, _, _, start, stop in wide)
    high = max(max(abs(start), abs(stop)) for _, _, _, start, stop in wide)
    return _gap((*pairs[first][:3], low, high), groups, np.minimum(parts[0][2], parts[1][2]))
