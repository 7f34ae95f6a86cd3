"""What a fit leaves whose posteriors stay in the shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.engines.potts_shards import FIELD
from crowdwise.engines.shards import Shard, Shards, Tally
from crowdwise.estimator.judgement import in_company, reliability_of
from crowdwise.estimator.outcome import LabelOutcome, Result, expected_counts
from crowdwise.io.stored import load_array
from crowdwise.io.writer import escape_formulas, replacing
from crowdwise.kernels.numerics import best_class, segment_sum
from crowdwise.kernels.types import Array, Floats
from crowdwise.parts.priors.potts import PottsField
from crowdwise.scale.labels import gather_labels
from crowdwise.scale.sharded_crowd import ShardedCrowd

if TYPE_CHECKING:
    from crowdwise.estimator.costs import Costs
    from crowdwise.scale.doubts import Doubt

__all__ = ["ShardedResult", "Written", "account", "write_part"]


class Written(int):
    """Rows written; and of the items with votes and without a known label how many there are, how many of them have one vote,
    and their mean confidence, with what it is at least in nine of ten crowds.
    """

    n_judged: int
    n_single: int
    confidence: float
    low: float

    @classmethod
    def of(cls, n_rows: int, judged: Tally) -> Written:
        """From the sums over the shards."""
        made = cls(n_rows)
        n, single, confidence, low = (float(value) for value in judged.sums[0])
        made.n_judged, made.n_single, made.confidence, made.low = int(n), int(single), confidence / max(n, 1), low / max(n, 1)
        return made


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ShardedResult(LabelOutcome):
    """A fitted crowd model over votes in shards: everything about annotators, and labels as files.

    Attributes
    ----------
    method, settings, seed, prior, annotators, history, trace, n_iter, converged
        As in `crowdwise.estimator.outcome.Result`.
    votes : ShardedCrowd
        Sizes and vocabularies.
    shards : Shards
        Where votes and posteriors lie, until the engine is closed.
    counts : [A, L, K]
        Expected confusion counts under the posterior.
    agree : [A]
        Votes that equal the label.
    company : [2, A]
        Votes on items that others voted on too: those that were right, and all.
    """

    votes: ShardedCrowd
    shards: Shards
    counts: Floats
    agree: Floats
    company: Floats

    def write_labels(
        self,
        path: str | PathLike[str],
        *,
        spreadsheet_safe: bool = False,
        fill_unvoted: bool = False,
        doubts: Sequence[Doubt] = (),
        costs: Costs | None = None,
    ) -> int:
        """Write one row per item: label, confidence, votes, a note and p(class), as `Result.items_frame` has them.

        Parameters
        ----------
        path : path
            A folder gets a Parquet file per shard, as soon as it is made. A file (.parquet, .csv, .tsv, .arrow, .jsonl) is put
            together from these, some rows at a time. Either is there whole or not at all.
        spreadsheet_safe : bool
            Escape formulas in .csv and .tsv, which a spreadsheet would run.
        fill_unvoted : bool
            Label items without votes by the most frequent class.
        doubts
            Readings of the votes in which annotators share errors (`crowdwise.scale.doubts`): they lower the confidence.
        costs : Costs, optional
            Write the labels that are expected to cost least.

        Returns
        -------
        int
            Rows written (`Written`). They come shard by shard, so items are in no order.
        """
        judged: Any = None

        def write_parts(folder: Path) -> None:
            nonlocal judged
            safe = spreadsheet_safe and Path(path).suffix.lower() in (".csv", ".tsv")
            fields = {name: getattr(self, name) for name in ("method", "settings", "prior", "annotators")}
            fields["reliability"] = reliability_of(self.company, self.history)[:-1]
            judged = self.shards.total(
                write_part, str(folder), self.votes.classes, fields, tuple(doubts), safe, fill_unvoted, costs
            )

        return Written.of(gather_labels(Path(path), write_parts), judged)

    def expected_counts(self) -> Floats:
        """Expected confusion counts, [A, L, K], made in the shards."""
        return self.counts

    def agreements(self) -> Floats:
        """Votes of each annotator that equal the label, [A], counted in the shards."""
        return self.agree


def account(shard: Shard, annotators: Any, class_shares: Floats) -> Tally:
    """Expected confusion counts, [A, L, K], and votes that equal the label, [A]."""
    votes = shard.votes
    codes = best_class(shard.posterior, class_shares)
    agree = segment_sum(votes.annotator, (votes.label == codes[votes.item]).astype(float), votes.n_annotators)
    counts = expected_counts(votes, shard.posterior, annotators, class_shares)
    return Tally((counts, agree, in_company(votes, shard.posterior, shard.known)))


def write_part(
    shard: Shard,
    folder: str,
    classes: Array,
    fields: Mapping[str, Any],
    doubts: tuple[Doubt, ...],
    safe: bool,
    fill_unvoted: bool,
    costs: Costs | None = None,
) -> Tally:
    """Write the items of a shard as a Parquet file; what is written is what `Result` says of them."""
    votes = replace(shard.votes, classes=classes)
    if isinstance(fields["prior"], PottsField):
        assert shard.folder is not None
        # Of all items there is the mean; of these, what their neighbours say.
        fields = {**fields, "prior": replace(fields["prior"], log_nk=load_array(Path(shard.folder) / FIELD))}
    # A view: a result makes its arrays read-only, and shards go on to change theirs.
    rest: dict[str, Any] = {"seed": None, "history": None, "trace": {}, "n_iter": 0, "converged": True}
    made = Result.of_fit(votes=votes, posterior=shard.posterior.view(), **fields, **rest)
    if doubts:
        from crowdwise.scale.doubts import believed

        made = believed(made, doubts)
    frame = made.items_frame(fill_unvoted=fill_unvoted)
    if costs is not None:
        frame = costs.applied(frame, made.posterior)
    if shard.folder is not None:
        # Not by way of the votes: as Python's objects, millions of ids would take most of the memory.
        frame = frame.with_columns(pl.read_ipc(Path(shard.folder) / "items.arrow")["item"])
    with replacing(Path(folder) / f"part-{shard.index:05d}.parquet") as partial:
        (escape_formulas(frame) if safe else frame).write_parquet(partial)
    return Tally((_judged(made, shard.known, fields["reliability"]),))


def _judged(made: Result, known: Array, reliability: Floats) -> Floats:
    """Items with votes and without a known label, those of them with one vote, and sums of confidence and its low end, [4]."""
    judged = made.votes.votes_per_item > 0
    if len(known):
        judged = judged & (known < 0)
    low = made.confidence_in(0.9, reliability)
    single = made.votes.votes_per_item[judged] <= 1
    return np.array([judged.sum(), single.sum(), made.confidence[judged].sum(), low[judged].sum()], float)
