"""One table of the annotators that a project lead can act on: how good, how sure, what goes wrong, what is odd."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from crowdwise.engines.independence import Dependence, find
from crowdwise.estimator.judgement import GRADES, ONE_LABEL, Crowd, answered, can_tell, crowd_of
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Array, Floats
from crowdwise.trust.crowd import against, capacity, copiers, drift, groups, spammers
from crowdwise.trust.crowd.pairs import of_pairs
from crowdwise.trust.crowd.report import Report

__all__ = ["Findings", "annotator_table", "examine", "for_terminal", "run_detectors", "with_dropped"]

# Flags that say what somebody is.
_KINDS = ("spammer", "copier", "colluder", "group")


@dataclass(frozen=True, eq=False)
class Findings:
    """Reports of all detectors by the flag they give, and the table that sums them up."""

    reports: dict[str, Report]
    table: pl.DataFrame

    @property
    def spammers(self) -> list[Any]:
        """Annotators flagged as spammers."""
        return self.reports["spammer"].flagged

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of all detectors."""
        return tuple(dict.fromkeys(note for found in self.reports.values() for note in found.notes))


def examine(
    result: Result,
    *,
    fdr: float = 0.05,
    time: Any = None,
    shared: Dependence | None = None,
    detectors: Sequence[str] = (),
    random_state: int | None = 0,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Findings:
    """Run every detector and sum up what they find.

    Parameters
    ----------
    fdr : float
        Expected share of wrong flags among the flags of each detector.
    time : [E] or frame, optional
        When votes were given (see `crowdwise.trust.crowd.drift`); without it nobody is tested for drift.
    shared : Dependence, optional
        `crowdwise.trust.crowd.dependence.find`, perhaps settled by known labels or a trusted annotator.
    detectors : sequence of str
        Further detectors by name (`crowdwise.trust.crowd.named`): their scores become columns, and their flags are flags.
    random_state : int or None
        Of the posterior draws behind the capacities.
    progress : function, optional
        Called with what is looked for, the number of steps done, and their number.
    """
    met = of_pairs(result.votes)
    shared = find(result.votes) if shared is None else shared
    looks: dict[str, Callable[[], Report]] = {
        "spammer": lambda: spammers.score(result, fdr=fdr, random_state=random_state),
        "copier": lambda: copiers.score(result, fdr=fdr, met=met, found=shared),
        "colluder": lambda: against.score(result, found=shared),
        "group": lambda: groups.score(result, found=shared),
    }
    if time is not None:
        looks["drift"] = lambda: drift.score(result, time, fdr=fdr)
    if detectors:
        from crowdwise.trust.crowd import named

        looks |= {name.partition(":")[0]: partial(named.score, result, name, fdr=fdr) for name in detectors}
    reports = run_detectors(looks, progress)
    bits = capacity.channel_capacity(result.confusion, tol=1e-6)
    verdict = capacity.verdicts(result, fdr=fdr, random_state=random_state)
    return Findings(reports, annotator_table(result, reports, bits, verdict))


def run_detectors(
    detectors: Mapping[str, Callable[[], Report]], progress: Callable[[str, int, int | None], None] | None = None
) -> dict[str, Report]:
    """Reports of detectors by the flag they give, one after the other."""
    reports = {}
    for done, (name, detector) in enumerate(detectors.items()):
        if progress is not None:
            what = f"looking for {name}s" if name in _KINDS else f"looking for {name}"
            progress(what, done, len(detectors))
        reports[name] = detector()
    return reports


def annotator_table(result: Result, reports: dict[str, Report], bits: Floats, verdict: Array) -> pl.DataFrame:
    """Annotators, most accurate first: votes, accuracy with its 95 % interval, bits, worst confusion, flags, reasons.

    Between them, where the model knows of it, `attention`: the share of votes that were no guesses; and where annotators share
    errors, `group`.
    """
    own = result.annotators_frame()
    low, _ = result.accuracy_interval()
    flags: list[list[str]] = [[] for _ in range(own.height)]
    reasons: list[list[str]] = [[] for _ in range(own.height)]
    for name, found in reports.items():
        for a in found.codes.tolist():
            flags[a].append(name)
            reasons[a].append(str(found.frame["reason"][a]))
    crowd = crowd_of(result)
    for a in crowd.unreliable.tolist():
        grade = GRADES[crowd.grade[a]]
        if grade.paint == "bad" and "spammer" not in flags[a]:
            flags[a].append(grade.name)
            reasons[a].append(_standing_reason(result, crowd, a))
    votes_told = answered(result)
    clear = ((verdict != "unknown") | (low > crowd.chance)) & can_tell(votes_told, crowd.chance)
    for a in np.flatnonzero(~clear).tolist():
        if not flags[a]:
            flags[a].append("unknown")
            alone = votes_told[a] == 0 and own["n_votes"][a] > 0
            reasons[a].append("nobody else voted on the same items" if alone else "too few votes to tell from chance")
    table = own.select("annotator", "n_votes", "accuracy", "accuracy_low", "accuracy_high").with_columns(
        **{name: own[name] for name in ("agreement", "attention") if name in own.columns},
        bits=bits,
        **{name: found.frame["score"] for name, found in reports.items() if name not in (*_KINDS, "drift")},
        worst_confusion=pl.Series(_worst_confusions(result), dtype=pl.String),
        **_groups(reports.get("group")),
        flags=pl.Series([", ".join(names) for names in flags], dtype=pl.String),
        reasons=pl.Series(["; ".join(texts) for texts in reasons], dtype=pl.String),
    )
    return table.sort("accuracy", descending=True, nulls_last=True, maintain_order=True)


def _groups(found: Report | None) -> dict[str, pl.Series]:
    """The column of groups, where there are any: the table then says who belongs together, as `--groups` reads it."""
    if found is None or not len(found.codes):
        return {}
    number = found.frame["group"]
    return {"group": pl.select(pl.when(number > 0).then(pl.format("group {}", number))).to_series()}


def _standing_reason(result: Result, crowd: Crowd, a: int) -> str:
    if crowd.grade[a] == ONE_LABEL:
        return f"{crowd.top_share[a]:.0%} of the votes are {result.votes.classes[crowd.top_label[a]]}"
    return f"right {crowd.accuracy[a]:.0%} of the time, where the same labels given blindly would be {crowd.chance[a]:.0%}"


def with_dropped(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """The table after a refit, with the annotators left out of it at the end, as they were judged before."""
    gone = before.join(after.select("annotator"), on="annotator", how="anti", maintain_order="left")
    return pl.concat([after, gone.with_columns(flags=pl.col("flags") + ", dropped")], how="diagonal")


def for_terminal(table: pl.DataFrame) -> pl.DataFrame:
    """The columns that fit a screen, those who deserve a look first: the flagged, then from the least accurate on."""
    fine = table["flags"].is_in(["", "unknown"])
    table = table.sort(fine, table["accuracy"], nulls_last=True, maintain_order=True)
    interval = pl.format("{} ({} to {})", *(pl.col(c).round(2) for c in ("accuracy", "accuracy_low", "accuracy_high")))
    # The bits, and the scores of detectors that were asked for by name.
    first, last = (table.columns.index(name) for name in ("bits", "worst_confusion"))
    scores = pl.col(table.columns[first:last]).round(2)
    return table.select("annotator", "n_votes", interval.alias("accuracy"), scores, "worst_confusion", "flags")


def _worst_confusions(result: Result) -> list[str | None]:
    """The likeliest error of each annotator in words; None without votes or without a second class."""
    return [None if error is None else f"{error[0]} ({error[1]:.0%})" for error in result.likeliest_errors()]
