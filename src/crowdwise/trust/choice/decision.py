"""From measured candidates to one of them, a sentence that says why, and a table for those who want to see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np
import polars as pl

from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.choice.selection import Row, frame_of, paired, simplest, stacking_weights

__all__ = ["Chooses", "Decision", "decide", "fall_back"]

# A method with less weight in a stack does not repay its fit.
_SMALLEST_WEIGHT = 0.01


@dataclass(frozen=True, eq=False)
class Decision:
    """What was chosen.

    Attributes
    ----------
    chosen : str
        A method, or "stack".
    reason : str
        One line.
    weights : dict
        Method -> weight in the stack; the chosen one alone otherwise.
    table : frame
        See `crowdwise.trust.choice.selection.frame_of`.
    """

    chosen: str
    reason: str
    weights: dict[str, float]
    table: pl.DataFrame

    def document(self) -> bytes:
        """As JSON, for `save`."""
        plain = {"chosen": self.chosen, "reason": self.reason, "weights": self.weights, "table": self.table.write_json()}
        return json.dumps(plain, indent=1).encode()

    @classmethod
    def of(cls, document: bytes) -> Decision:
        """What `document` wrote."""
        import polars as pl

        plain = json.loads(document)
        numbers = dict.fromkeys(("score", "difference", "se", "seconds"), pl.Float64())
        table = pl.read_json(StringIO(plain["table"]), schema={"method": pl.String(), **numbers, "note": pl.String()})
        return cls(str(plain["chosen"]), str(plain["reason"]), dict(plain["weights"]), table)


class Chooses:
    """What an estimator shows of its choice."""

    def _decided_before(self) -> Decision:
        raise NotImplementedError

    @property
    def chosen_(self) -> str:
        """What was chosen: a method, with settings that are not its defaults, or "stack"."""
        return self._decided_before().chosen

    @property
    def reason_(self) -> str:
        """Why it was chosen, in one line."""
        return self._decided_before().reason

    @property
    def choice_(self) -> pl.DataFrame:
        """One row per candidate: method, score, difference from the best, its standard error, seconds, note.

        The score is the mean log-probability of a held-out vote; of classifiers, by the class that they name for its item.
        """
        return self._decided_before().table


def fall_back(chosen: str, rows: Sequence[Row], reason: str) -> Decision:
    """Without a comparison."""
    for row in rows:
        row.note = "taken without comparison" if row.method == chosen else row.note or "not tried"
    return Decision(chosen, f"{chosen}, without comparing methods: {reason}", {chosen: 1.0}, frame_of(rows))


def decide(
    rows: Sequence[Row],
    cluster: Integers,
    *,
    standard_errors: float,
    stack: bool = False,
    does: str = "predicts held-out votes",
    per: str = "vote",
) -> Decision:
    """Choose among measured rows.

    Parameters
    ----------
    cluster : [H]
        Item of everything that was held out.
    stack : bool
        Combine rather than choose.
    does, per : str
        What is measured, for the reason: a method `does` it best, so much better per vote.
    """
    table = frame_of(rows, cluster)
    chosen, best = simplest(rows, cluster, standard_errors)
    measured = [k for k, row in enumerate(rows) if row.eligible and row.terms is not None]
    skipped = [row.method for row in rows if row.note.startswith("skipped")]
    limits = f" (skipped, as they take too many operations: {', '.join(skipped)})" if skipped else ""
    if stack and len(measured) > 1:
        weight = stacking_weights(np.array([_terms(rows[k]) for k in measured]))
        kept = {rows[k].method: float(w) for k, w in zip(measured, weight, strict=True) if w >= _SMALLEST_WEIGHT}
        total = sum(kept.values())
        weights = {name: w / total for name, w in kept.items()}
        shares = ", ".join(f"{w:.2f} {name}" for name, w in sorted(weights.items(), key=lambda pair: -pair[1]))
        return Decision("stack", f"a stack of {shares}{limits}", weights, table)
    name = rows[chosen].method
    if len(measured) == 1:
        behind = any(row.note.startswith("behind") for row in rows)
        reason = f"{name}, which {does} best (clearly)" if behind else f"{name}, the only method that could be tried"
    elif chosen != best:
        mean, error = paired(_terms(rows[best]), _terms(rows[chosen]), cluster)
        kind = "default" if rows[chosen].rank < 0 else "simplest"
        reason = (
            f"{name}, the {kind} method that {does} about as well as the best, {rows[best].method} "
            f"({mean:.4f} behind per {per}, standard error {error:.4f})"
        )
    else:
        next_best = max((k for k in measured if k != best), key=lambda k: float(_terms(rows[k]).mean()))
        mean, error = paired(_terms(rows[best]), _terms(rows[next_best]), cluster)
        reason = (
            f"{name}, which {does} best ({mean:.4f} better per {per} than {rows[next_best].method}, standard error {error:.4f})"
        )
    return Decision(name, reason + limits, {name: 1.0}, table)


def _terms(row: Row) -> Floats:
    assert row.terms is not None
    return row.terms
