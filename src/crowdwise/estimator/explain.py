"""Why an item got its label: the additive, exact contributions of the prior and of each vote.

Log-odds of a model are the sum of what the class prior and every vote add. Where a posterior is the mean of several models,
votes add the mean of what each model says of them, and one more row what remains, because the logarithm of a mean is not the
mean of logarithms. Where confidence was calibrated, the last row takes back what experience does not grant: dividing
log-odds by a temperature T takes 1 - 1 / T of them away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.errors import InputError
from crowdwise.kernels.numerics import log_floored, segment_sum

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result
    from crowdwise.kernels.types import Floats, Integers

__all__ = ["Explanation", "explain", "further_terms", "voters_of"]

# Below this, what remains is rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """How one item got its label.

    Attributes
    ----------
    item, label, against
        The item, its label, and the runner-up that the contributions speak against.
    confidence : float
        Posterior probability of the label.
    unit : str
        "log-odds" (natural log of label : against) for models, "share" for votes that are counted.
    rows : frame
        One row for the class prior (or the classifier), one per vote, and where they apply one each for the mean of
        several models ("models") and for calibration ("caution"): source, vote, contribution. Contributions add up to
        `total`: the log-odds, or the difference of shares.
    known : bool
        The label was given as gold; the contributions show what the votes alone would say.
    said : mapping
        How many votes name each class, the most first; weights count.
    n_voters : int
        Annotators who voted on the item.
    by_model : float
        Probability of the label as the model inferred it, before calibration.
    confidence_source : str
        What the confidence rests on: experience, gold, audit or model.
    """

    item: Any
    label: Any
    against: Any
    confidence: float
    unit: str
    rows: pl.DataFrame
    total: float
    known: bool
    said: dict[Any, float]
    n_voters: int
    by_model: float
    confidence_source: str

    def __repr__(self) -> str:
        """The label and the table of contributions: the other fields are for programs."""
        return f"Explanation({self.item}: {self.label}, not {self.against}, probability {self.confidence:.4g})\n{self.rows}"


def explain(result: Result, item: Any) -> Explanation:
    """Decompose the label of `item` against the best other class."""
    votes = result.votes
    found = votes.positions([item], "item")
    n = int(found[0])
    if votes.n_classes < 2:
        raise InputError(
            "there is one class only, so there is nothing to explain; name the others with classes=... or --classes"
        )
    index = np.arange(votes.item_ptr[n], votes.item_ptr[n + 1])
    evidence = result.annotators.log_lik(votes, index)
    unit = getattr(result.annotators, "additive_in", "log-odds")
    if unit == "share":
        # Shares are of votes only; the class prior decides nothing but ties and items without (weighted) votes.
        prior = np.zeros(votes.n_classes) if evidence.any() else result.class_prior
    else:
        log_prior = result.prior.log_prob()
        prior = log_prior[n if len(log_prior) > 1 else 0]
    label = int(result.codes[n])
    known = bool(votes.is_known[n])
    # What is reported may order the other classes in another way than the model: a single vote is mixed with class shares.
    others = (prior + evidence.sum(axis=0) if known else result.posterior[n]).copy()
    others[label] = -np.inf
    against = int(others.argmax())
    contribution = np.concatenate([[prior[label] - prior[against]], evidence[:, label] - evidence[:, against]])
    further = {} if known else further_terms(result, n, label, against, unit, float(contribution.sum()))
    voters, said, moved = voters_of(votes, index, contribution[1:])
    rows = pl.DataFrame(
        {
            "source": [getattr(result.prior, "said_by", "class prior"), *voters, *further],
            "vote": [None, *(str(c) for c in votes.classes[said]), *(None for _ in further)],
            "contribution": [float(contribution[0]), *moved.tolist(), *further.values()],
        },
        schema_overrides={"vote": pl.String},
    )
    return Explanation(
        item=votes.items[n],
        label=votes.classes[label],
        against=votes.classes[against],
        confidence=float(result.confidence[n]),
        unit=unit,
        rows=rows,
        total=float(contribution.sum()) + sum(further.values()),
        known=known,
        said=_counted(votes, index),
        n_voters=len(np.unique(votes.annotator[index][votes.weights[index] > 0])),
        by_model=float(result.model_posterior[n, label]),
        confidence_source=result.confidence_source,
    )


def _counted(votes: Annotations, index: Integers) -> dict[Any, float]:
    """Weights of these votes by the class that they name, the most first."""
    mass = np.bincount(votes.label[index], votes.weights[index], minlength=votes.n_classes)
    order = np.argsort(-mass, kind="stable")[: np.count_nonzero(mass)]
    return dict(zip(votes.classes[order].tolist(), mass[order].tolist(), strict=True))


def voters_of(votes: Annotations, index: Integers, contribution: Floats) -> tuple[list[str], Integers, Floats]:
    """Who gave these votes, the class codes that they name, and what they add; anonymous ones together, by class."""
    said = votes.label[index]
    if not votes.anonymous:
        return [str(a) for a in votes.annotators[votes.annotator[index]]], said, contribution
    kinds = np.flatnonzero(np.bincount(said, minlength=votes.n_classes))
    number = np.bincount(said, minlength=votes.n_classes)[kinds].tolist()
    added = segment_sum(said, contribution, votes.n_classes)[kinds]
    return [f"{n:,} vote{'s' * (n > 1)}" for n in number], kinds, added


def further_terms(result: Result, n: int, label: int, against: int, unit: str, total: float) -> dict[str, float]:
    """What the mean of several models and calibration add to the votes' `total`, by their names."""
    further = {}
    before, after = result.model_posterior[n], result.posterior[n]
    if unit == "share":
        of_model, believed = before[label] - before[against], after[label] - after[against]
    else:
        of_model, believed = (np.subtract(*log_floored(row[[label, against]])) for row in (before, after))
        if abs(of_model - total) > _ROUNDING * max(1.0, abs(total)) and getattr(result.annotators, "averages", False):
            further["models"] = float(of_model - total)
    if result.inferred is not None:
        # From the sum so far, which knows more digits than a posterior next to zero.
        further["caution"] = float(believed - total - sum(further.values()))
    return further
