"""What has been asked and answered in a campaign, event by event."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.campaign.certified import CampaignAudit
from crowdwise.campaign.names import as_known, ids_of, mapping_of, names_only
from crowdwise.campaign.pool import Limits, Pool
from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, translate
from crowdwise.data.gold import UNCLEAR
from crowdwise.errors import InputError, listed
from crowdwise.kernels.types import Integers

if TYPE_CHECKING:
    from crowdwise.campaign.journal import Start

__all__ = ["Ledger"]


class Ledger:
    """Votes that a model has seen (`seen`) and those that came since (`pending`), open questions, and used capacity."""

    def __init__(self, start: Start) -> None:
        self.items, self.allowed, self.settings = start.items, start.allowed, start.settings
        self.classes = start.votes.classes
        self.seen: Annotations = start.votes
        self.pending: list[Annotations] = []
        self.tokens: set[str] = set()
        # Items that came after the start.
        self.later: list[Any] = []
        self.n_asks = 0
        # The audit of the labels as they are now, how many there were, and true labels: all, and those no model has seen.
        self.audit: CampaignAudit | None = None
        self.n_audits = 0
        self.known: dict[Any, Any] = {}
        self._new_truth: dict[Any, Any] = {}
        self._open: dict[tuple[Any, Any], None] = {}
        self._used: Counter[Any] = Counter()
        # Pairs of the pending votes, which are few.
        self._fresh: set[tuple[Any, Any]] = set()

    @property
    def votes(self) -> Annotations:
        """All votes so far."""
        return self.seen.concat(*self.pending) if self.pending else self.seen

    @property
    def open_pairs(self) -> list[tuple[Any, Any]]:
        """Item and annotator of the questions asked and not answered."""
        return list(self._open)

    def open_frame(self) -> pl.DataFrame:
        """The same as a table."""
        known = self.seen.items, self.seen.annotators
        columns = [pl.Series([pair[k] for pair in self._open], dtype=tidy(series_of(known[k][:1])).dtype) for k in (0, 1)]
        return pl.DataFrame({"item": columns[0], "annotator": columns[1]})

    def settle(self, votes: Annotations) -> None:
        """A model has seen all votes, and this is how it has them."""
        self.seen, self.pending, self._fresh = votes, [], set()

    def apply(self, event: dict[str, Any]) -> None:
        """Something has happened, now or in a journal."""
        if event["event"] == "ask":
            self.n_asks += 1
            self._open |= dict.fromkeys(map(tuple, event["questions"]))
        elif event["event"] == "withdraw":
            for item, annotator in event["questions"]:
                self._open.pop((item, annotator), None)
        elif event["event"] == "extend":
            self._end_audit()
            self.pending.append(names_only(event["items"], event["annotators"], self.seen.classes))
            self.later += event["items"]
            if self.items is not None and event["items"]:
                self.items = ids_of([*self.items, *event["items"]])
        elif event["event"] == "tell":
            if event["token"] is not None:
                self.tokens.add(event["token"])
            if event["votes"]:
                self._end_audit()
                item, annotator, label, *weight = (list(column) for column in zip(*event["votes"], strict=True))
                self.pending.append(Annotations.from_arrays(item, annotator, label, *weight))
                self._used.update(annotator)
                for pair in zip(item, annotator, strict=True):
                    self._fresh.add(pair)
                    self._open.pop(pair, None)
        elif event["event"] == "audit":
            self._end_audit()
            self.n_audits += 1
            fields = {name: event[name] for name in ("items", "labels", "size", "settled", "pool", "error")}
            self.audit = CampaignAudit(self.n_audits, **fields)
        elif event["event"] == "check" and self.audit is not None:
            self.audit.drawn += event["n"]
        elif event["event"] == "truth" and self.audit is not None:
            for item, label in event["labels"]:
                self.audit.truth[item] = label
                if label != UNCLEAR:
                    self.known[item] = self._new_truth[item] = label
        else:
            raise InputError(f"the campaign's journal holds {event['event']!r}, which this version of crowdwise does not know")

    def _end_audit(self) -> None:
        """Labels change: what was checked is known from now on, and no longer a sample of what they are."""
        self.audit = None
        if self._new_truth:
            names = list(self._new_truth)
            self.pending.append(names_only(names, [], self.seen.classes).with_gold(self._new_truth))
            self._new_truth = {}

    def positions_known(self, votes: Annotations) -> Integers:
        """Items whose true label was checked."""
        return translate(ids_of(self.known), votes.items).astype(np.int64) if self.known else np.empty(0, np.int64)

    def pool(self, votes: Annotations) -> Pool:
        """Who may be asked about what now."""
        limits: Any = {name: mapping_of(self.settings[name]) for name in Limits.__annotations__ if name in self.settings}
        pool = Pool.of(votes, **limits | {"items": self.items, "allowed": self.allowed})
        used = np.array([self._used[name] for name in votes.annotators.tolist()], np.int64)
        pool = replace(pool, capacity=np.maximum(pool.capacity - used, 0))
        if self.known:
            pool = replace(pool, items=np.setdiff1d(pool.items, self.positions_known(votes)))
        if not self._open:
            return pool
        sides = [ids_of([pair[side] for pair in self._open]) for side in (0, 1)]
        return pool.waiting(
            translate(sides[0], votes.items).astype(np.int64), translate(sides[1], votes.annotators).astype(np.int64)
        )

    def rows_of(self, votes: Annotations) -> list[list[Any]]:
        """Votes by name: item, annotator, label and, where given, weight; ids as the campaign has them."""
        known = self.seen
        columns = [
            as_known(votes.items, known.items, "item")[votes.item],
            as_known(votes.annotators, known.annotators, "annotator")[votes.annotator],
            as_known(votes.classes, known.classes, "class")[votes.label],
        ]
        if self.settings["strict"]:
            strange = columns[2][translate(columns[2], self.classes) < 0].tolist()
            if strange:
                classes = listed(self.classes)
                raise InputError(f"label {strange[0]!r} is not among the classes of the campaign: {classes}")
        weights = [] if votes.weight is None else [votes.weight.tolist()]
        return [list(row) for row in zip(*(column.tolist() for column in columns), *weights, strict=True)]

    def first_answers(self, rows: list[list[Any]]) -> tuple[list[list[Any]], list[list[Any]]]:
        """Those that are the first of their annotator about their item, and the others."""
        if not rows:
            return [], []
        seen = self.seen
        names = [ids_of([row[side] for row in rows]) for side in (0, 1)]
        item, annotator = translate(names[0], seen.items), translate(names[1], seen.annotators)
        answered, kept, again = set(self._fresh), [], []
        for n, a, row in zip(item.tolist(), annotator.tolist(), rows, strict=True):
            before = n >= 0 and a >= 0 and (seen.annotator[seen.item_ptr[n] : seen.item_ptr[n + 1]] == a).any()
            if not before and (row[0], row[1]) not in answered:
                answered.add((row[0], row[1]))
                kept.append(row)
            else:
                again.append(row)
        return kept, again
