"""Accept or review, for every item of a result: selection, label sets and the table of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.errors import InputError, SettingError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Flags, Floats, Integers
from crowdwise.trust.calibration.calibrating import calibrate, truth_of
from crowdwise.trust.calibration.conformal import ConformalSets
from crowdwise.trust.calibration.selection import Selection, select

__all__ = ["Decisions", "credible_sets", "decide"]

# Nine of ten crowds.
_RANGE = 0.9


@dataclass(frozen=True, eq=False)
class Decisions:
    """What to do with every item.

    Attributes
    ----------
    result : Result
        Calibrated.
    accept : [N]
        True where the label needs no review; items of known label are accepted with that.
    known : [N]
        Class code of known labels, -1 elsewhere.
    selection : Selection
        Over the items with votes whose label the fit did not know: the threshold, and what is known of the error.
    sets : [N, K] or None
        Label sets, where asked for.
    account, sets_account : str
        What was done, a line each.
    range_error : float or None
        What the expected error of the accepted stays below in nine of ten crowds; None where known labels decided.
    checked : bool
        Whether true labels, which the fit has not seen, decided how far to accept.
    """

    result: Result
    accept: Flags
    known: Integers
    selection: Selection
    sets: Flags | None
    account: str
    sets_account: str
    range_error: float | None = None
    checked: bool = False

    @property
    def n_known(self) -> int:
        """Items whose label is known."""
        return int((self.known >= 0).sum())

    def facts(self) -> dict[str, Any]:
        """All of it but the items, by name."""
        facts = {"calibration": self.account, "n_known": self.n_known, **self.selection.facts()}
        open_items = self.known < 0
        facts |= {"range_error": self.range_error, "confidence_source": self.result.confidence_source}
        facts |= {"n_accepted": int((self.accept & open_items).sum()), "n_review": int((~self.accept).sum())}
        if self.sets is not None:
            facts |= {"sets": self.sets_account, "mean_set_size": self.mean_set_size}
        return facts

    @property
    def mean_set_size(self) -> float:
        """Labels in a set, on average over the items whose label is not known; NaN where there is none."""
        rows = None if self.sets is None else self.sets[self.known < 0]
        return float(rows.sum(axis=1).mean()) if rows is not None and len(rows) else float("nan")

    def frame(self) -> pl.DataFrame:
        """One row per item: item, label, confidence, decision, note and, where asked for, the label set.

        Classes of a set are ordered from the most probable and joined by " | ".
        """
        votes, known = self.result.votes, self.known >= 0
        code = np.where(known, self.known, self.result.codes)
        columns: dict[str, Any] = {
            "item": series_of(votes.items),
            "label": series_of(votes.classes)[code],
            "confidence": np.where(known, 1.0, self.result.confidence),
            "decision": np.where(self.accept, "accept", "review"),
            "note": np.where(known, "known", np.where(votes.votes_per_item == 0, "no votes", "")),
        }
        if self.sets is not None:
            names = [str(name) for name in votes.classes]
            order = np.argsort(-self.result.posterior, axis=1, kind="stable").tolist()
            columns["set"] = [
                " | ".join(names[k] for k in row if held[k]) for row, held in zip(order, self.sets.tolist(), strict=True)
            ]
        return pl.DataFrame(columns)


def decide(
    result: Result,
    error: float = 0.05,
    *,
    truth: Any = None,
    how: str = "experience",
    delta: float = 0.05,
    assurance: float | None = None,
    sets: bool = False,
    score: str = "lac",
    by_class: bool = False,
) -> Decisions:
    """Accept labels at a stated rate of errors.

    Parameters
    ----------
    result : Result
        Fitted without the labels in `truth`.
    error : float
        Share of wrong labels among the accepted; of label sets, the share that miss the true label.
    truth : mapping, frame, Series or sequence, optional
        True labels of some items, chosen at random: they decide how far to accept (see `crowdwise.trust.calibration.selection`)
        and make the sets conformal. Without any, the calibrated posterior is believed.
    how : {"experience", "groups", "none"}
        Calibration of the posterior, without the true labels: they are kept for the check.
    assurance : float, optional
        Share of crowds in which the expected error of the accepted stays within `error`, such as 0.9. By default the rate
        is that of a crowd as crowds are on average. Without `truth` only.
    delta : float
        With `truth`, the chance that the accepted have more errors all the same.

    Examples
    --------
    >>> from crowdwise.estimator.registry import make
    >>> from crowdwise.data.datasets import demo
    >>> decisions = decide(make("dawid-skene").fit(demo().votes).result_, 0.05)
    >>> decisions.frame()["decision"].unique().sort().to_list()
    ['accept', 'review']
    """
    votes = result.votes
    if votes.n_classes < 2 and truth is None:
        raise InputError(
            "one class only occurs in the votes, so nothing says how often it is wrong; name all, such as --classes yes,no"
        )
    known = np.full(votes.n_items, -1) if truth is None else truth_of(result, truth)
    done = calibrate(result, how)
    # What the fit was told is certain, and must not buy errors among the others.
    voted = np.flatnonzero((votes.votes_per_item > 0) & ~votes.is_known)
    wrong = None
    if truth is not None:
        wrong = np.where(known >= 0, done.result.codes != known, -1)[voted]
    if assurance is not None and (truth is not None or done.result.confidence_source != "experience"):
        raise SettingError("assurance is about crowds in general: it needs confidence by experience, and no true labels")
    judged = done.result.confidence if assurance is None else done.result.confidence_in(assurance)
    selection = select(judged[voted], error, wrong, delta=delta)
    nine_of_ten = None
    if truth is None and done.result.confidence_source == "experience" and selection.accept.any():
        nine_of_ten = float(1 - done.result.confidence_in(_RANGE)[voted][selection.accept].mean())
    accept = np.zeros(votes.n_items, bool)
    accept[voted] = selection.accept
    given = known if votes.gold is None else np.maximum(known, votes.gold)
    accept |= given >= 0
    label_sets, account = None, ""
    if sets:
        label_sets, account = _sets(done.result.posterior, known, error, score, by_class)
        hold = np.flatnonzero(given >= 0)
        label_sets[hold] = False
        label_sets[hold, given[hold]] = True
    known_codes = np.asarray(given, np.int64)
    checked = truth is not None
    return Decisions(done.result, accept, known_codes, selection, label_sets, done.account, account, nine_of_ten, checked)


def credible_sets(probability: Floats, error: float) -> Flags:
    """Smallest sets whose probabilities sum to at least 1 - error, [N, K]: as good as the probabilities are."""
    order = np.argsort(-probability, axis=1, kind="stable")
    ranked = np.take_along_axis(probability, order, axis=1)
    needed = np.cumsum(ranked, axis=1) - ranked < 1 - error - 1e-12
    held = np.zeros(probability.shape, bool)
    np.put_along_axis(held, order, needed, axis=1)
    return held


def _sets(posterior: Floats, known: Integers, error: float, score: str, by_class: bool) -> tuple[Flags, str]:
    if not (known >= 0).any():
        return credible_sets(posterior, error), f"holding {1 - error:.4g} of the posterior"
    made = ConformalSets.fit(posterior, known, error, score=score, by_class=by_class)
    each = " in every class" if by_class else ""
    return made.sets(posterior), f"holding the true label at a rate of at least {1 - error:.4g}{each} (conformal)"
