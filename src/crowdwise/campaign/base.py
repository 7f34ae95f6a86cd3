"""The state of a campaign between questions: its record, its votes, its model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.campaign.journal import Journal
from crowdwise.campaign.learner import Learner, default_model
from crowdwise.campaign.ledger import Ledger
from crowdwise.campaign.names import ids_of, names_only
from crowdwise.campaign.policies import DEFAULT_POLICY, State, policy_of
from crowdwise.campaign.start import NewCampaign, settings_of
from crowdwise.errors import InputError, SettingError
from crowdwise.methods.classify.align import n_rows_of

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self, Unpack

    from crowdwise.campaign.pool import Limits
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result

__all__ = ["BaseLoop"]

# Asked before a classifier has any vote to learn from.
_COLD = "random+random"


class BaseLoop:
    """Votes, model and record of a campaign; `crowdwise.campaign.loop.ActiveLoop`, which has the parameters, asks and tells."""

    _result: Result | None
    _journal: Journal | None

    def __init__(
        self,
        model: Any = None,
        policy: Any = DEFAULT_POLICY,
        votes: Any = None,
        *,
        annotators: Iterable[Any] = (),
        classes: Sequence[Any] | None = None,
        features: Any = None,
        feature_items: Iterable[Any] | None = None,
        path: str | PathLike[str] | None = None,
        explore: float = 0.05,
        diverse: bool = True,
        random_state: Any = 0,
        **limits: Unpack[Limits],
    ) -> None:
        settings = settings_of(policy, explore, diverse, random_state)
        model = default_model(features) if model is None else model
        new = NewCampaign(model, votes, annotators, classes, feature_items, features is not None, limits, settings)
        start, first = new.start, new.first
        self.policy = policy_of(policy)
        self._learner = Learner(model, features, new.rows, start.history)
        self._ledger, self._result = Ledger(start), new.fitted
        if new.fitted is not None and start.votes is not first:
            # An update takes newcomers in and keeps what the model knows beside the votes; a fit would not.
            known = start.votes
            more = known.items[first.n_items :].tolist(), known.annotators[first.n_annotators :].tolist()
            self._ledger.seen, self._ledger.pending = first, [names_only(*more, known.classes)]
        self._journal = None if path is None else Journal.create(path, start)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        model: Any = None,
        *,
        policy: Any = None,
        features: Any = None,
        feature_items: Iterable[Any] | None = None,
    ) -> Self:
        """Resume a campaign: the settings of its start, all its votes, and the questions still open.

        `model` is fitted to all votes again, with what was known of annotators before the start, so that one with the same
        settings will do. The rows of `features` are by default the items of the start and then those that came later.
        """
        journal, start, events = Journal.open(path)
        policy = start.settings.get("policy") if policy is None else policy
        if policy is None:
            raise SettingError(f"{path} was started with a policy of your own; give it again: ActiveLoop.load(..., policy=...)")
        try:
            settings_of(policy, *(start.settings[name] for name in ("explore", "diverse", "random_state")))
        except (LookupError, TypeError, SettingError) as problem:
            raise InputError(f"{path}: settings that no campaign has ({problem!s:.200})") from problem
        loop = cls.__new__(cls)
        loop.policy, loop._journal, loop._result, loop._ledger = policy_of(policy), journal, None, Ledger(start)
        for number, event in enumerate(events, 1):
            try:
                loop._ledger.apply(event)
            except InputError:
                raise
            except Exception as problem:  # an event of another shape, which its checksum does not show
                raise InputError(f"{journal.path} line {number}: not an event of a campaign ({problem!s:.200})") from problem
        rows = None
        if features is not None:
            rows = ids_of(
                (start.votes.items if start.items is None else start.items) if feature_items is None else feature_items
            )
            if feature_items is None and n_rows_of(features) == len(rows) + len(loop._ledger.later):
                rows = ids_of([*rows.tolist(), *loop._ledger.later])
        loop._learner = Learner(default_model(features) if model is None else model, features, rows, start.history)
        lost = loop._learner.missing(loop._ledger.later)
        if lost:
            raise InputError(f"no features of {len(lost):,} items that came later, such as {lost[0]!r}; add their rows")
        return loop

    # -- what is known -------------------------------------------------------------------------

    @property
    def model(self) -> Any:
        """The model."""
        return self._learner.model

    @property
    def votes(self) -> Annotations:
        """All votes so far."""
        return self._ledger.votes

    @property
    def result(self) -> Result:
        """What the model makes of all votes so far; a classifier without votes has no opinion yet."""
        if self._result is not None and not self._ledger.pending:
            return self._result
        # An update that is broken off leaves no result, so that a fit to all votes comes next.
        earlier, self._result = self._result, None
        done = self._learner.fitted(self._ledger, earlier)
        self._ledger.settle(done.votes)
        self._result = done
        return done

    @property
    def open(self) -> pl.DataFrame:
        """Questions asked and not answered: item, annotator."""
        return self._ledger.open_frame()

    def _state(self) -> tuple[State, Any]:
        """What a policy reads, and the policy: one that asks at random as long as a classifier knows nothing."""
        rng = np.random.default_rng([self._ledger.settings["random_state"], self._ledger.n_asks])
        if self._learner.counts_votes or self.votes.n_votes:
            return self._learner.state(self.result, self._ledger.pool(self.result.votes), rng), self.policy
        from crowdwise.methods.labels.majority import MajorityVote

        result = MajorityVote().fit(self.votes).result_
        return self._learner.state(result, self._ledger.pool(result.votes), rng, cold=True), policy_of(_COLD)

    def _record(self, event: dict[str, Any]) -> None:
        """On the disk first, so that what is in memory is always there too."""
        if self._journal is not None:
            self._journal.append(event)
        self._ledger.apply(event)
