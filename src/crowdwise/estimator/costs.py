"""The decision that costs least: what each mistake costs in, labels that minimise the expected cost out, or no label at all.

    cost of deciding l on item n = sum_k p_nk costs[k, l]

p is the posterior as far as it can be believed. Where even the cheapest label is expected to cost more than leaving the item to
somebody else (`abstain`), there is no label. Equal costs of all mistakes give the most probable class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.columns import ColumnSource
from crowdwise.data.encode import as_text, decimal_points, plain_name, series_of, tidy, to_polars
from crowdwise.errors import InputError, SettingError, did_you_mean, listed
from crowdwise.kernels.types import Array, Floats, Integers

__all__ = ["Costs"]

_SHAPES = (
    "a table with columns true, label and cost; a square table with a row per true class (named in its first column) and a "
    "column per label, or the other way round where the first column is called label; a pandas frame whose index names the "
    "true classes; {(true, label): cost} or {true: {label: cost}}; or an array [true, label] in the order of the classes"
)
_LONG = ("true", "label", "cost")
# What a column may be called that says which label was given, and that says which would be right.
_DECIDED = ("label", "decision", "decided", "predicted", "prediction", "observed")
_TRUE = ("true", "truth", "actual", "gold", "trueclass", "truelabel")
ABSTAINED = "abstained"


@dataclass(frozen=True, eq=False)
class Costs:
    """What it costs to label an item of a class with each class, and to give it no label.

    Attributes
    ----------
    classes : [K]
    matrix : [K, K]
        Cost by true class, then label; 0 or more.
    abstain : float or None
        Cost of giving no label; None where every item needs one.

    Examples
    --------
    >>> Costs.of({("sick", "well"): 10, ("well", "sick"): 1}, ["sick", "well"]).decide(np.array([[0.2, 0.8]]))[0].tolist()
    [0]
    """

    classes: Array
    matrix: Floats
    abstain: float | None = None

    @classmethod
    def of(cls, costs: Any, classes: Any, abstain: float | None = None) -> Costs:
        """Read costs in any usual shape; None means that all mistakes cost 1."""
        names = np.asarray(classes)
        texts = as_text(tidy(series_of(names))).to_list()
        if abstain is not None and (isinstance(abstain, str | bool) or not 0 <= abstain < np.inf):
            raise SettingError(f"abstain must be a cost of 0 or more, that of giving no label; got {abstain!r}")
        if costs is None:
            return cls(names, 1 - np.eye(len(texts)), abstain)
        if isinstance(costs, Costs):
            return costs
        if isinstance(costs, ColumnSource):
            costs = costs.fetch(costs.names)[0]
        if isinstance(costs, Mapping) and all(isinstance(key, tuple) and len(key) == 2 for key in costs):
            rows = [(str(true), str(label), value) for (true, label), value in costs.items()]
            return cls(names, _of_rows(rows, texts), abstain)
        if isinstance(costs, Mapping) and costs and all(isinstance(row, Mapping) for row in costs.values()):
            rows = [(str(true), str(label), value) for true, row in costs.items() for label, value in row.items()]
            return cls(names, _of_rows(rows, texts), abstain)
        if hasattr(costs, "columns") or isinstance(costs, Mapping):
            if hasattr(costs, "reset_index") and all(str(name) in texts for name in costs.columns):
                return cls(names, _of_rows(_of_index(costs), texts), abstain)
            return cls(names, _of_table(to_polars(costs), texts), abstain)
        return cls(names, _of_array(costs, texts), abstain)

    @property
    def are_alike(self) -> bool:
        """Whether all mistakes cost the same."""
        wrong = self.matrix[~np.eye(len(self.matrix), dtype=bool)]
        return bool((wrong == wrong[:1]).all())

    def dearest(self) -> tuple[Any, Any, float]:
        """The mistake that costs most: true class, label, cost."""
        true, label = np.unravel_index(self.matrix.argmax(), self.matrix.shape)
        names = self.classes.tolist()
        return names[true], names[label], float(self.matrix[true, label])

    def decide(self, posterior: Floats) -> tuple[Integers, Floats]:
        """Code of the cheapest label of every item, -1 for none, and its expected cost, [N] each.

        Among equals the more probable class, then the first one; and a label rather than none.
        """
        expected = posterior @ self.matrix
        least = expected.min(axis=1, initial=np.inf, keepdims=True)
        # A sum of products may differ in its last digits where costs are equal.
        cheapest = expected <= least + 1e-12 * np.maximum(least, 1e-300) + 1e-15
        codes = np.where(cheapest, posterior, -1.0).argmax(axis=1)
        cost = np.take_along_axis(expected, codes[:, None], axis=1)[:, 0]
        if self.abstain is not None:
            without = cost > self.abstain
            codes, cost = np.where(without, -1, codes), np.where(without, self.abstain, cost)
        return codes, cost

    def applied(self, items: pl.DataFrame, posterior: Floats) -> pl.DataFrame:
        """A table of items with the cheapest labels, their probabilities as confidence, and what they are expected to cost.

        Items that had no label have none; those that are left to somebody else have the note "abstained".
        """
        codes, cost = self.decide(posterior)
        held = posterior[np.arange(len(codes)), np.maximum(codes, 0)]
        labels = series_of(self.classes)[np.maximum(codes, 0)]
        given, chosen = items["label"].is_not_null(), pl.Series(codes >= 0)
        noted = given & ~chosen
        if items["note"].dtype == pl.String:
            note = pl.select(pl.when(noted).then(pl.lit(ABSTAINED)).otherwise(items["note"])).to_series().alias("note")
            items = items.with_columns(note)
        columns = {
            name: pl.select(pl.when(shown).then(values)).to_series()
            for name, values, shown in (
                ("label", labels, given & chosen),
                ("confidence", pl.Series(held), given & chosen),
                ("expected_cost", pl.Series(cost), given),
            )
        }
        names = items.columns
        return items.with_columns(**columns).select(*names[:3], "expected_cost", *names[3:])


def _of_index(frame: Any) -> list[tuple[str, str, Any]]:
    """From a square frame of pandas whose columns are classes, so that its index names the others: (true, label, cost)."""
    rows = [
        (str(name), str(column), value)
        for column, values in frame.items()
        for name, value in zip(frame.index, values, strict=True)
    ]
    named = plain_name(str(frame.index.name))
    return [(true, label, value) for label, true, value in rows] if named in _DECIDED else rows


def _of_table(frame: pl.DataFrame, texts: list[str]) -> Floats:
    """From a long table, or from a square one whose first column names the true classes."""
    plain = {plain_name(name): name for name in frame.columns}
    if "cost" in plain:
        decided, true = (next((word for word in words if word in plain), None) for words in (_DECIDED, _TRUE))
        if true is None or decided is None:
            raise InputError(f"costs need the columns {', '.join(_LONG)}; found {listed(map(repr, frame.columns))}")
        columns = [frame[plain[true]], frame[plain[decided]], frame[plain["cost"]]]
        ends = [as_text(tidy(column)).to_list() for column in columns[:2]]
        return _of_rows(list(zip(*ends, columns[2].to_list(), strict=True)), texts)
    if len(frame.columns) < 2:
        raise InputError(f"costs must be {_SHAPES}; found the column {listed(map(repr, frame.columns)) or 'none'}")
    first, labels = frame.columns[0], frame.columns[1:]
    names = as_text(tidy(frame[first])).to_list()
    rows = [(k, label, value) for label in labels for k, value in zip(names, frame[label].to_list(), strict=True)]
    if next(iter(plain)) in _DECIDED:
        # Its rows are what was decided, and its columns what would be right.
        rows = [(true, label, value) for label, true, value in rows]
    return _of_rows(rows, texts)


def _of_rows(rows: list[tuple[Any, Any, Any]], texts: list[str]) -> Floats:
    """From (true, label, cost); the right label costs nothing unless it is said otherwise."""
    place = {text: k for k, text in enumerate(texts)}
    matrix = np.full((len(texts), len(texts)), np.nan)
    for true, label, value in rows:
        for name in (true, label):
            if str(name) not in place:
                known = f"the classes are {listed(texts)}{did_you_mean(str(name), texts)}"
                raise InputError(f"costs name the class {str(name)!r}, which the votes do not have; {known}")
        cost, at = _number(value, true, label), (place[str(true)], place[str(label)])
        if not np.isnan(matrix[at]) and matrix[at] != cost:
            raise InputError(f"costs say both {matrix[at]:g} and {cost:g} for {label!r} on items that are {true!r}; keep one")
        matrix[at] = cost
    right = np.isnan(np.diag(matrix))
    matrix[right, right] = 0.0
    lost = [(texts[k], texts[c]) for k, c in np.argwhere(np.isnan(matrix)).tolist()]
    if lost:
        words = listed([f"{label!r} on items that are {true!r}" for true, label in lost], 3)
        raise InputError(f"costs say nothing of {len(lost)} of the {matrix.size - len(matrix)} mistakes: {words}; add them")
    return matrix


def _number(value: Any, true: Any, label: Any) -> float:
    if isinstance(value, str):
        value = decimal_points(pl.Series([value]))[0].strip()
    try:
        cost = float("nan") if value is None or value == "" else float(value)
    except (TypeError, ValueError):
        cost = float("nan")
    if not 0 <= cost < np.inf:
        raise InputError(
            f"the cost of {label!r} on items that are {true!r} is {value!r}; costs are numbers of 0 or more (a gain is a right "
            "label that costs less than the others)"
        )
    return cost


def _of_array(costs: Any, texts: list[str]) -> Floats:
    try:
        matrix = np.array(costs, float)
    except (TypeError, ValueError):
        raise InputError(f"costs must be {_SHAPES}; got {type(costs).__name__}") from None
    if matrix.shape != (len(texts), len(texts)):
        raise InputError(f"costs need a row and a column per class, in this order: {listed(texts)}; got shape {matrix.shape}")
    return _of_rows([(true, label, matrix[k, c]) for k, true in enumerate(texts) for c, label in enumerate(texts)], texts)
