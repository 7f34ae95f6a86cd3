"""Annotators who depend on each other, in ``crowdwise aggregate``: groups that are given, and groups that are found."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.job import QUIET, count, say, some, steps
from crowdwise.errors import InputError, SettingError

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.cli.options import MethodOptions
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.aggregator import Aggregator
    from crowdwise.estimator.outcome import Result

__all__ = ["careful", "cautious", "check_groups", "counted", "grouped", "read_families"]


def cautious(result: Result, trusted: Collection[str] | None) -> tuple[Result, dict[str, Any]]:
    """Look for annotators who share errors; where there are, say so before any number, quiet or not, and lower confidence."""
    from crowdwise.trust.crowd.dependence import Dependence, find

    votes = result.votes
    # Shares of errors are counted by single labels of known annotators.
    with steps(QUIET.get(), "looking for annotators who share errors"):
        found = Dependence() if votes.soft or votes.anonymous else find(votes)
    if trusted:
        from crowdwise.trust.crowd.cautious import settled_by_trust

        found = settled_by_trust(votes, found, trusted)
    if trusted:
        from crowdwise.trust.crowd.cautious import settled_by_trust

        found = settled_by_trust(result.votes, found, trusted)
    if not found:
        return result, {}
    from crowdwise.report.dependence_text import dependence_facts, dependence_lines
    from crowdwise.trust.calibration.base import with_posterior
    from crowdwise.trust.crowd import cautious as lowering

    found = lowering.settled_by_gold(result, found)
    for line in dependence_lines(found, result.votes):
        say(line)
    believed = with_posterior(result, lowering.cautious(result, found), result.confidence_source)
    return believed, {"dependence": dependence_facts(found, result.votes)}


def careful(estimator: Aggregator, trusted: Collection[str] | None) -> Aggregator:
    """The same for a fitted estimator, which then shows the lowered confidence."""
    result, found = cautious(estimator.result_, trusted)
    if found:
        estimator.keep_outcome(result)
    return estimator


def check_groups(groups: Path | None, other_answers: bool, warm_from: Path | None, method: MethodOptions) -> None:
    """Refuse what does not go with annotators who count as one."""
    if groups is None:
        return
    if other_answers:
        raise SettingError("--groups is for votes with one class per item; it does not go with this --type")
    if warm_from is not None:
        raise SettingError("--groups makes several annotators one, so votes cannot be added to a saved model; fit all together")
    if method.history is not None:
        raise SettingError("--history is about single annotators, and --groups makes several of them one; leave one out")
    if method.trusted:
        raise SettingError("--groups says who shares errors and --trusted who does not; leave one out")


def grouped(votes: Annotations, path: Path, quiet: bool) -> Annotations:
    """Votes in which every group of the table is one annotator."""
    from crowdwise.methods.labels.grouping import given_groups
    from crowdwise.trust.crowd.fusion import fused

    try:
        code, names = given_groups(votes, read_families(path))
    except SettingError as problem:
        raise SettingError(f"--groups: {path}: {problem}") from None
    if not quiet:
        size = int((code >= 0).sum())
        say(f"{count(size, 'annotator')} count as {count(len(names), 'group')}: {some(names, 5)}{', ...' * (len(names) > 5)}")
    return fused(votes, code, names)


def counted(items: pl.DataFrame, votes: Annotations) -> pl.DataFrame:
    """The table of items with the number of votes that were read."""
    import polars as pl

    return items.with_columns(pl.Series("n_votes", votes.votes_per_item))


def read_families(path: Path) -> dict[str, str]:
    """Read which annotators belong together: annotator -> group, from a table with these columns."""
    import polars as pl

    from crowdwise.data.encode import Where, find_column, missing_mask, tidy
    from crowdwise.io.source import open_source
    from crowdwise.io.votes import read_columns

    source = open_source(path)
    known = pl.DataFrame(schema=dict.fromkeys(source.columns, pl.String))
    names = [find_column(known, role, None, Where(str(path))) for role in ("annotator", "group")]
    table = read_columns(source, names).frame
    who, group = (tidy(table[name]).cast(pl.String) for name in names)
    kept = ~(missing_mask(who, ()) | missing_mask(group, ()))
    families: dict[str, str] = {}
    for annotator, family in zip(who.filter(kept).to_list(), group.filter(kept).to_list(), strict=True):
        if families.setdefault(annotator, family) != family:
            raise InputError(f"{path}: annotator {annotator!r} is in {families[annotator]!r} and in {family!r}; keep one row")
    return families
