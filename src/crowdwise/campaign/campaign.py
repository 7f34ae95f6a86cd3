"""Race policies on the same crowd: learning curves as a table, CSV and PNG."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.campaign.loop import ActiveLoop
from crowdwise.campaign.policies import policy_of
from crowdwise.campaign.stopping import expected_accuracy, unknown_for
from crowdwise.data.encode import translate
from crowdwise.errors import CrowdwiseWarning, InputError, MissingExtraError, SettingError
from crowdwise.io.writer import replacing

if TYPE_CHECKING:
    from os import PathLike

    from crowdwise.campaign.oracle import Oracle
    from crowdwise.estimator.outcome import Result

__all__ = ["draw_curves", "race", "summary", "write_curves"]

CURVES, PLOT = "curves.csv", "curves.png"
_SCHEMA = {
    "policy": pl.String,
    "seed": pl.Int64,
    "votes": pl.Int64,
    "cost": pl.Float64,
    "accuracy": pl.Float64,
    "expected_accuracy": pl.Float64,
    "expected_low": pl.Float64,
    "expected_high": pl.Float64,
}
_EXPECTED = ("expected_accuracy", "expected_low", "expected_high")


def race(
    policies: Sequence[Any],
    oracle: Oracle,
    model: Any,
    budget: float,
    batch: float,
    *,
    seeds: Iterable[int] = range(5),
    start: float = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> pl.DataFrame:
    """Run a campaign per policy and seed, from no votes at all, on one crowd.

    Parameters
    ----------
    policies : sequence
        Names, or objects with a `name`.
    oracle : Oracle
        See `crowdwise.campaign.oracle`; it must know the truth of some items.
    model : Aggregator or classifier
        Every campaign gets a copy.
    budget, batch : float
        To spend in all, and at a time.
    start : float
        To spend on random questions first: the same ones for all policies of a seed.
    progress : callable, optional
        Called with (policy, campaigns done, campaigns in all).
    options
        Of `ActiveLoop`.

    Returns
    -------
    DataFrame
        A row after every batch: policy, seed, votes, cost, accuracy on the items whose truth is known, and the accuracy
        that is expected, with the ends of its range in nine of ten crowds; these three are null while nothing can be said.
    """
    names = [policy if isinstance(policy, str) else getattr(policy, "name", type(policy).__name__) for policy in policies]
    if len(set(names)) < len(names) or not names:
        raise SettingError(f"policies must be one or more different ones; got {', '.join(names) or 'none'}")
    chosen = [policy_of(policy) for policy in policies]
    if not (oracle.truth >= 0).any():
        raise InputError("the crowd does not know the truth of any item, so that no accuracy can be measured")
    if not 0 < batch <= budget or not 0 <= start <= budget:
        raise SettingError(f"batch and start must be within the budget of {budget}; got {batch!r} and {start!r}")
    listed, rows = list(seeds), list[tuple[Any, ...]]()
    for place, (name, policy) in enumerate(zip(names, chosen, strict=True)):
        for index, seed in enumerate(listed):
            if progress is not None:
                progress(name, place * len(listed) + index, len(names) * len(listed))
            with warnings.catch_warnings():
                # Hundreds of fits to the first few votes: what they are warned of is the point of having more.
                warnings.simplefilter("ignore", CrowdwiseWarning)
                points = _campaign(policy, oracle, model, budget, batch, start, seed, options)
            rows += [(name, seed, *point) for point in points]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def usual_budget(oracle: Oracle) -> int:
    """Three votes per item; of a recorded crowd, half of its votes."""
    return 3 * len(oracle.items) if oracle.allowed is None else max(oracle.allowed.n_votes // 2, 1)


def summary(curves: pl.DataFrame) -> pl.DataFrame:
    """The end of every policy's curves, over the seeds.

    A row per policy: campaigns; at their end, means of votes, accuracy, expected_accuracy, expected_low and expected_high;
    on_the_way, the mean accuracy after all batches; and standard_error, of the accuracy at the end over the seeds.
    """
    whole = curves.group_by("policy", "seed", maintain_order=True).agg(
        pl.col("votes", "accuracy", *_EXPECTED).last(), pl.col("accuracy").mean().alias("on_the_way")
    )
    error = pl.when(pl.len() > 1).then(pl.col("accuracy").std() / pl.len().sqrt()).alias("standard_error")
    means = pl.col("votes", "accuracy", *_EXPECTED, "on_the_way").mean()
    return whole.group_by("policy", maintain_order=True).agg(pl.len().alias("campaigns"), means, error)


def write_curves(curves: pl.DataFrame, folder: str | PathLike[str], *, plot: bool = True) -> list[Path]:
    """Write ``curves.csv`` and ``curves.png`` into a folder, which is made if needed; return their paths.

    Without matplotlib there is a warning in the place of the plot.
    """
    from crowdwise.io import write_table

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_table(curves, folder / CURVES, spreadsheet_safe=True)
    if not plot:
        return [folder / CURVES]
    try:
        draw_curves(curves, folder / PLOT)
    except MissingExtraError as problem:
        warnings.warn(f"{PLOT} is not drawn: {problem}", CrowdwiseWarning, stacklevel=2)
        return [folder / CURVES]
    return [folder / CURVES, folder / PLOT]


def draw_curves(curves: pl.DataFrame, path: str | PathLike[str]) -> None:
    """Draw mean accuracy by the number of votes, with a band of two standard errors over the seeds."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError('plots need matplotlib: pip install "crowdwise[report]"') from problem
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for (name,), part in curves.group_by("policy", maintain_order=True):
        points = (
            part.group_by("votes")
            .agg(pl.col("accuracy").mean().alias("mean"), pl.col("accuracy").std().fill_null(0).alias("sd"), pl.len())
            .sort("votes")
        )
        votes, mean = points["votes"].to_numpy(), points["mean"].to_numpy()
        band = 2 * points["sd"].to_numpy() / np.sqrt(points["len"].to_numpy())
        # Dollar signs would start a formula, and a leading underscore hide the line from the legend.
        line = axes.plot(votes, mean, label=" " + str(name).replace("$", r"\$"))[0]
        axes.fill_between(votes, mean - band, mean + band, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set_xlabel("votes")
    axes.set_ylabel("accuracy")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    with replacing(path) as partial:
        figure.savefig(partial, dpi=120, format="png")


def _campaign(
    policy: Any, oracle: Oracle, model: Any, budget: float, batch: float, start: float, seed: int, options: dict[str, Any]
) -> list[tuple[float | None, ...]]:
    loop = ActiveLoop(
        copy.deepcopy(model),
        "random+random" if start else policy,
        items=oracle.items,
        annotators=oracle.annotators,
        classes=oracle.classes.tolist(),
        allowed=oracle.allowed,
        random_state=seed,
        **options,
    )
    spent, points = 0.0, list[tuple[float | None, ...]]()
    while spent < budget - 1e-9:
        first = bool(start) and not points
        questions = loop.ask(min(start if first else batch, budget - spent))
        if not questions.height:
            break
        if first:
            loop.policy = policy
        spent += float(questions["cost"].sum())
        loop.tell(oracle.answer(questions))
        result = loop.result
        # What is not known is no number: an empty cell, and left out of means.
        expected = [None] * 3 if unknown_for(result) else expected_accuracy(result)
        points.append((result.votes.n_votes, spent, _accuracy(result, oracle), *expected))
    return points


def _accuracy(result: Result, oracle: Oracle) -> float:
    """Share of right labels among the items whose truth is known."""
    place = translate(oracle.items, result.votes.items)
    code = translate(result.votes.classes, oracle.classes)[result.codes[place]]
    known = oracle.truth >= 0
    return float((code[known] == oracle.truth[known]).mean())
