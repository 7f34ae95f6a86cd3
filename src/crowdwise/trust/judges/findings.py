"""One look at a crowd of judges: how good each is and what it adds, and what panels of them cost and are worth.

>>> import crowdwise
>>> from crowdwise.trust.judges import Families, examine
>>> votes = crowdwise.Annotations.from_matrix([[0, 0, 0], [1, 1, 1], [0, 0, 1], [1, 1, 0]] * 10)
>>> found = examine(votes, Families.of(votes, {}), crowdwise.make("dawid-skene").fit(votes).result_.posterior)
>>> found.table.columns[:4]
['annotator', 'family', 'person', 'n_votes']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of
from crowdwise.data.meetings import answers_of
from crowdwise.errors import SettingError
from crowdwise.kernels.numerics import beta_interval
from crowdwise.kernels.types import Floats, Integers
from crowdwise.trust.judges.cells import Cells
from crowdwise.trust.judges.families import Families
from crowdwise.trust.judges.information import added_bits, entropy, group_bits
from crowdwise.trust.judges.model import JudgeModel
from crowdwise.trust.judges.panels import Panel, Panels, in_human_votes
from crowdwise.trust.judges.resampling import Resamples, with_people

__all__ = ["LEAST_VOICES", "Findings", "examine", "human_confusion"]

# With fewer independent voices and no known labels, votes do not say how often anybody is right.
LEAST_VOICES = 3
# The sizes of which the best panel is named, and people whom a panel may ask.
_SIZES, _PERSONS = 5, 5
# Fits to drawn votes, and the votes up to which they are made: both by what they cost.
_RESAMPLES, _FEW_VOTES = 8, 20_000


@dataclass(frozen=True, eq=False)
class Findings:
    """What was found.

    Attributes
    ----------
    model : JudgeModel or None
        None where too few independent voices say how good anybody is; accuracies are then empty, and there are no panels.
    posterior : [N, K] or None
        Of the labels, by the model.
    table : frame
        A row per annotator: family, model where families have groups within them, person, n_votes, accuracy with its 95 %
        interval, bits alone, bits added to all others and those of the whole model and family, price.
    panels : frame
        A row per panel: what it is, its judges, n_judges, people, price of a label, accuracy, accuracy_sd, accuracy_low, which
        it is at least in nine of ten sets of votes drawn from the model, human_votes, and the share that is right of items with
        a known label.
    people : [K, K] or None
        The confusion matrix by which human votes are counted.
    """

    model: JudgeModel | None
    posterior: Floats | None
    table: pl.DataFrame
    panels: pl.DataFrame
    people: Floats | None


def examine(
    votes: Annotations,
    families: Families,
    posterior: Floats,
    *,
    price: Floats | None = None,
    human_accuracy: float | None = None,
    target: float = 0.9,
    truth: Integers | None = None,
    resamples: int | None = None,
) -> Findings:
    """Fit judges in families from a posterior of the labels, [N, K], and weigh them.

    Parameters
    ----------
    votes : Annotations
        One vote per annotator and item (`one_vote_each`); known labels in `gold` stay.
    price : [A], optional
        Of a vote of every annotator; NaN where it is not known.
    human_accuracy : float, optional
        How often a person is right, where no people are among the annotators, or to be used instead of them.
    target : float
        Expected accuracy that the cheapest panel must reach.
    truth : [N], optional
        True classes by which panels are measured, -1 where not known; `votes.gold` without it.
    resamples : int, optional
        Fits to drawn votes by which accuracies of panels are corrected, 0 or at least two; by default 8 up to 20,000 votes, and
        none beyond, where there is little to correct. Soft votes are not drawn.
    """
    n_votes = answers_of(votes).annotator
    table = pl.DataFrame(
        {
            "annotator": series_of(votes.annotators),
            "family": pl.Series(families.name, dtype=pl.String),
            **({"model": pl.Series(families.inner_name[-1], dtype=pl.String)} if families.inner_name else {}),
            "person": families.person,
            "n_votes": np.bincount(n_votes, minlength=votes.n_annotators),
        }
    )
    prices = {} if price is None else {"price": pl.Series(price).fill_nan(None)}
    if (families.n_voices < LEAST_VOICES and not votes.n_gold) or votes.n_classes < 2 or votes.n_votes == 0:
        return Findings(None, None, table.with_columns(**prices), _panel_frame([]), None)
    model, found = JudgeModel.fit(votes, families.codes, posterior)
    table = table.with_columns(**_measures(model, votes, found), **prices)
    people = human_confusion(votes, found, families, human_accuracy)
    known = votes.gold if truth is None else truth
    n_fits = resamples if resamples is not None else _RESAMPLES if votes.n_votes <= _FEW_VOTES else 0
    again = Resamples.of(model, votes, n_fits) if n_fits and not votes.soft else None
    rows = list(_panels(model, votes, families, price, people, target, known, again))
    return Findings(model, found, table.sort("accuracy", descending=True, nulls_last=True), _panel_frame(rows), people)


def human_confusion(votes: Annotations, posterior: Floats, families: Families, accuracy: float | None) -> Floats | None:
    """The confusion matrix of a human vote, [K, K]: one accuracy, or that of all people together; None where nobody knows."""
    n_classes = votes.n_classes
    if accuracy is not None:
        wrong = (1 - accuracy) / (n_classes - 1)
        if accuracy <= 1 / n_classes:
            raise SettingError(f"a human accuracy of {accuracy:g} is no better than guessing among {n_classes} classes")
        return np.full((n_classes, n_classes), wrong) + (accuracy - wrong) * np.eye(n_classes)
    if not families.person.any():
        return None
    cells = Cells.of(answers_of(votes), families.codes, votes.n_items)
    counts = cells.counts(posterior)[families.person].sum(axis=0)
    counts += counts.sum(axis=0) / max(counts.sum(), 1e-300)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _measures(model: JudgeModel, votes: Annotations, posterior: Floats) -> dict[str, Any]:
    """Accuracy with its interval, bits alone and bits given all others; empty for those without votes."""
    cells = Cells.of(answers_of(votes), model.codes, votes.n_items)
    counts = cells.counts(posterior) + cells.labels[0][:, None, :]
    total = counts.sum(axis=2, keepdims=True)
    mean, prior = counts / total, model.prior_k
    variance = np.einsum("akk,k->a", mean * (1 - mean) / (total + 1), prior**2)
    # Of a soft vote, the probability that it gives to the class.
    accuracy = np.einsum("akk,k->a", mean, prior)
    low, high = beta_interval(accuracy, variance)
    alone = entropy(np.einsum("k,akl->al", prior, mean)) - np.einsum("k,ak->a", prior, entropy(mean))
    columns = {"accuracy": accuracy, "accuracy_low": low, "accuracy_high": high, "bits": np.maximum(alone, 0.0)}
    columns["bits_added"] = added_bits(model, votes)
    families = len(model.codes)
    for level in range(max(families - 1, 1), families + 1):
        code = model.codes[level - 1]
        # One quantity where a judge is the whole group, of which the sum over its possible answers is the less noisy estimate.
        single = np.bincount(code)[code] == 1
        name = "family_bits_added" if level == families else "model_bits_added"
        columns[name] = np.where(single, columns["bits_added"], group_bits(model, votes, level)[code])
    none = np.bincount(cells.annotator, minlength=votes.n_annotators) == 0
    return {name: pl.Series(np.where(none, np.nan, values)).fill_nan(None) for name, values in columns.items()}


def _panels(
    model: JudgeModel,
    votes: Annotations,
    families: Families,
    price: Floats | None,
    people: Floats | None,
    target: float,
    known: Integers | None,
    resamples: Resamples | None,
) -> Iterator[dict[str, Any]]:
    """The panels that are worth a row, each once."""
    judges = np.flatnonzero(~families.person & (votes.answers_per_annotator > 0))
    if not len(judges):
        return
    priced = price is not None and bool(np.isfinite(price[judges]).all())
    cost = price[judges] if price is not None and priced else None
    names, again = votes.annotators, resamples and resamples.of_judges(judges)

    def soft(members: tuple[int, ...]) -> float:
        return _believed(model, votes, judges[list(members)])

    panels = Panels(model.of(judges), cost, resamples=again, measure=soft if votes.soft else None)

    def row(what: str, panel: Panel, persons: int = 0) -> dict[str, Any]:
        members, panel = judges[[a for a in panel.members if a < len(judges)]], panel if persons else panels.corrected(panel)
        return {
            "panel": what,
            "judges": ", ".join(str(names[a]) for a in members),
            "n_judges": len(members),
            "n_people": persons,
            "price": panel.price if priced else None,
            "accuracy": panel.accuracy,
            "accuracy_sd": None if np.isnan(panel.sd) else panel.sd,
            "accuracy_low": None if np.isnan(panel.low) else panel.low,
            "human_votes": None if people is None else in_human_votes(panel.accuracy, model.prior_k, people),
            "right_on_gold": None if persons else _measured(model, votes, members, known),
        }

    yield row("all judges", panels.panel(range(len(judges))))
    for size in range(1, min(_SIZES, len(judges) - 1) + 1):
        yield row(f"best {size}", panels.best(size))
    if priced and len(judges) > 3:
        yield row("cheapest 3", panels.panel(np.argsort(panels.price, kind="stable")[:3].tolist()))
    found = panels.cheapest(target)
    what = f"cheapest for {target:g}" if priced else f"fewest for {target:g}"
    if found is not None:
        yield row(what, found)
        surely = panels.cheapest(target, sure=True)
        if surely is not None and surely.members != found.members:
            yield row(f"{what} with a margin", surely)
    if price is None or not priced or people is None or votes.soft:
        return
    if np.isfinite(price[families.person]).any():
        every = np.append(panels.price, np.repeat(np.nanmean(price[families.person]), _PERSONS))
        more = again and again.with_people(people, _PERSONS)
        mixed = Panels(with_people(panels.model, people, _PERSONS), every, _PERSONS, more).cheapest(target)
        persons = 0 if mixed is None else sum(a >= len(judges) for a in mixed.members)
        if mixed is not None and persons:
            yield row(f"cheapest for {target:g} with people", mixed, persons)


def _believed(model: JudgeModel, votes: Annotations, members: Integers) -> float:
    """The mean probability of the best label by soft votes of these judges, over the items that one of them answered."""
    alone = replace(votes.take_votes(np.isin(votes.annotator, members)), gold=None)
    given = alone.votes_per_item > 0
    return float(model.posterior(alone)[given].max(axis=1).mean()) if given.any() else float(model.prior_k.max())


def _measured(model: JudgeModel, votes: Annotations, members: Integers, known: Integers | None) -> float | None:
    """The share of known labels that the panel gives; None where none is known."""
    if known is None or not (known >= 0).any():
        return None
    alone = replace(votes.take_votes(np.isin(votes.annotator, members)), gold=None)
    given = (known >= 0) & (alone.votes_per_item > 0)
    return float((model.posterior(alone).argmax(axis=1) == known)[given].mean()) if given.any() else None


def _panel_frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    kinds: dict[str, Any] = {"panel": pl.String, "judges": pl.String, "n_judges": pl.Int64, "n_people": pl.Int64}
    numbers = dict.fromkeys(["price", "accuracy", "accuracy_sd", "accuracy_low", "human_votes", "right_on_gold"], pl.Float64)
    return pl.DataFrame(rows, schema=kinds | numbers)
