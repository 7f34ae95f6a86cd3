"""`audit`: how annotators, consensus labels and predictions treat groups of items, as far as it can be known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.gold import encode_gold
from crowdwise.data.groups import Groups, groups_of
from crowdwise.errors import InputError
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.item_groups import ItemGroupConfusion
from crowdwise.trust.fairness.gaps import FEW, MEASURES, RATE_NAMES, check_bootstrap, classes_of, gap_tables, one_hot
from crowdwise.trust.fairness.rates import Decisions
from crowdwise.trust.fairness.scores import annotator_scores, matrices_given

__all__ = ["CIRCULAR", "UNSEEN", "Audit", "audit"]


UNSEEN = (
    "No true labels were given: a bias that all annotators share cannot be seen in votes, because the consensus takes it "
    "for the truth. Gold labels of some items of every group would show it."
)
CIRCULAR = (
    "Annotators are measured against the consensus of their own votes: circular. It shows how they differ from each other, "
    "not how far they are from the truth."
)


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found.

    Attributes
    ----------
    groups : Groups
    rates : frame
        of (annotators, consensus, predictions), against (truth; consensus, circular; nothing), measure, class, group, n, rate,
        low, high.
        `n` is what the rate is a share of: items for consensus and predictions, votes for annotators.
    gaps : frame
        of, against, measure, class, higher, lower, gap, low, high, n (of the smallest group).
    annotators : frame
        See `crowdwise.trust.fairness.annotator_scores`.
    notes : tuple of str
        What a reader must know to read the tables rightly.
    """

    groups: Groups
    rates: pl.DataFrame
    gaps: pl.DataFrame
    annotators: pl.DataFrame
    notes: tuple[str, ...]

    @property
    def group_frame(self) -> pl.DataFrame:
        """Items of each group: group, n_items."""
        return pl.DataFrame({"group": series_of(self.groups.names), "n_items": self.groups.sizes})


def audit(
    fitted: Any,
    groups: Any,
    *,
    truth: Any = None,
    positive: Any = None,
    predictions: Any = None,
    soft: bool = False,
    level: float = 0.95,
    n_resamples: int = 2000,
    least: float = 0.2,
    fdr: float = 0.05,
    random_state: int | None = 0,
) -> Audit:
    """Compare how groups of items are treated by annotators, by the consensus and by predictions.

    Parameters
    ----------
    fitted : Result or fitted estimator
    groups : Groups, mapping, frame, Series or sequence
        The group of every item: see `groups_of`.
    truth : mapping, frame, Series or sequence, optional
        True labels of all or some items. The consensus is not measured on those that were given to the fit.
    positive : optional
        The class whose rates are compared; by default the second of two, and each of several against the rest.
    predictions : mapping, frame, Series, sequence or [N, K], optional
        What a classifier says of the items: labels, or probabilities in the order of the items and classes.
    soft : bool
        Use class probabilities of consensus and predictions instead of the likeliest class: rates are sums of q.
    level, n_resamples
        Of the intervals, by resampling items, and annotators with all their votes for rates of annotators.
    least, fdr
        Of the annotators' scores: see `annotator_scores`.

    Returns
    -------
    Audit
    """
    check_bootstrap(level, n_resamples)
    result: Result = getattr(fitted, "result_", fitted)
    votes = result.votes
    found = groups_of(votes, groups)
    chosen = classes_of(votes.classes, positive)
    true = np.zeros((votes.n_items, votes.n_classes))
    if truth is not None:
        true = one_hot(encode_gold(votes, truth), votes.n_classes)
    measured = {"consensus": result.posterior if soft else one_hot(result.codes, votes.n_classes)}
    if predictions is not None:
        measured["predictions"] = _predicted(votes, predictions, soft)
    # Labels given to the fit are as good as the truth for judging annotators, not for judging the fit.
    known = (
        true if votes.gold is None else np.where(true.any(axis=1, keepdims=True), true, one_hot(votes.gold, votes.n_classes))
    )
    circular = not known.any()
    parts = []
    judged = result.posterior if circular else known
    by_votes = Decisions(
        one_hot(votes.label, votes.n_classes),
        judged[votes.item],
        found.codes[votes.item],
        found.n_groups,
        votes.annotator,
        votes.weight,
    )
    settings = (found.names, votes.classes, chosen, level, n_resamples, random_state)
    parts.append(("annotators", "consensus, circular" if circular else "truth", gap_tables(by_votes, *settings)))
    for name, decided in measured.items():
        there = np.flatnonzero(decided.any(axis=1))
        held = true
        if name == "consensus" and votes.gold is not None:
            held = np.where((votes.gold >= 0)[:, None], 0.0, true)
        decisions = Decisions(decided[there], held[there], found.codes[there], found.n_groups)
        parts.append((name, "truth", gap_tables(decisions, *settings)))
    model = result.annotators
    if not circular or not isinstance(model, ItemGroupConfusion):
        model = matrices_given(votes, found, judged)
    scores = annotator_scores(votes, found, model, least=least, fdr=fdr, random_state=random_state)
    rates, gaps = (pl.concat([_named(tables[i], of, against) for of, against, tables in parts]) for i in (0, 1))
    return Audit(found, rates, gaps, scores, _notes(votes, found, truth is not None, circular, rates, chosen, positive))


def _named(frame: pl.DataFrame, of: str, against: str) -> pl.DataFrame:
    """Say whose rates these are, and what they were held against: selection rates against nothing."""
    nothing = pl.col("measure").is_in([MEASURES[0], RATE_NAMES[0]])
    words = pl.when(nothing).then(pl.lit("")).otherwise(pl.lit(against))
    return frame.select(pl.lit(of).alias("of"), words.alias("against"), pl.all())


def _predicted(votes: Annotations, predictions: Any, soft: bool) -> Floats:
    """Predictions of the items, [N, K]; rows of zeros for items without one."""
    if getattr(predictions, "ndim", 1) == 2 and not hasattr(predictions, "columns"):
        given = np.asarray(predictions, float)
        if given.shape != (votes.n_items, votes.n_classes):
            raise InputError(
                f"predictions must have shape {(votes.n_items, votes.n_classes)}, one row per item; got {given.shape}"
            )
        if not ((given >= 0).all() and np.allclose(given.sum(axis=1), 1, atol=1e-4)):
            raise InputError("predictions must be probabilities: every row >= 0 and of sum one")
        return given if soft else one_hot(given.argmax(axis=1), votes.n_classes)
    return one_hot(encode_gold(votes, predictions), votes.n_classes)


def _notes(
    votes: Annotations,
    groups: Groups,
    has_truth: bool,
    circular: bool,
    rates: pl.DataFrame,
    chosen: list[int],
    positive: Any,
) -> tuple[str, ...]:
    notes = []
    if not has_truth:
        notes.append(UNSEEN)
    if circular:
        notes.append(CIRCULAR)
    if positive is None and votes.n_classes == 2:
        notes.append(
            f"The positive class is {votes.classes[chosen[0]]}, the second; choose another with positive=... or --positive."
        )
    if groups.n_groups < 2:
        notes.append("All items are in one group: there is nothing to compare.")
    few = rates.filter((pl.col("n") < FEW) & (pl.col("of") != "annotators"))
    if few.height and groups.n_groups > 1:
        small = ", ".join(str(name) for name in few["group"].unique(maintain_order=True).head(5))
        notes.append(
            f"Fewer than {FEW} items are behind some rates (groups: {small}); their intervals are too narrow to trust."
        )
    n_voters = int((votes.votes_per_annotator > 0).sum())
    if n_voters < 10:
        who = "1 annotator" if n_voters == 1 else f"{n_voters} annotators"
        notes.append(f"Only {who} voted: intervals of the annotators' rates are too narrow to trust.")
    return tuple(notes)
