"""The loop of a campaign: ask whom about what, tell the answers, stop.

    loop = ActiveLoop(DawidSkene(), votes=votes, path="campaign")
    while not loop.stop(target=0.95):
        questions = loop.ask(100)
        loop.tell(answers_to(questions))

With `path`, every question and answer is on the disk before the call returns, and `ActiveLoop.load` resumes after a crash:
what a call has returned is there once, what was being written is there once or not at all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from crowdwise.campaign.assign import suggest
from crowdwise.campaign.base import BaseLoop
from crowdwise.campaign.best_question import best_gain
from crowdwise.campaign.names import as_known, ids_of, is_empty, sliceable
from crowdwise.campaign.policies import stage_of
from crowdwise.campaign.pool import extended
from crowdwise.campaign.stopping import Plan, chance_of, plan, reached
from crowdwise.data.encode import Where, find_column, to_polars, translate
from crowdwise.errors import DataWarning, SettingError
from crowdwise.estimator.aggregator import as_annotations

__all__ = ["ActiveLoop"]


class ActiveLoop(BaseLoop):
    """Asks questions and folds the answers in.

    Parameters
    ----------
    model : Aggregator or classifier
        Label-only methods are updated; classifiers, which need `features`, are fitted again. It belongs to the loop from
        here on.
    policy : str or Policy
        See `crowdwise.campaign.policies`.
    votes : Annotations or frame, optional
        The votes so far; those of the model if it is fitted. Without any, `items`, `annotators` and `classes` say what
        there is.
    annotators, classes : sequence, optional
        Beside those of the votes.
    features : [M, ...], optional
        For classifiers and their policies; for label-only methods, to ask about items that differ from each other.
    feature_items : sequence, optional
        Ids of the rows of `features`; by default those of `items`, or of the votes.
    path : path, optional
        Folder of the campaign's record. Features, the model and a policy of your own are not in it.
    explore, diverse
        As `crowdwise.campaign.assign.suggest` takes them.
    random_state : int
        The same seed, votes and answers give the same questions, also when the campaign was resumed in between.
    limits
        As `Pool.of` takes them: items, capacity, cost, per_item, least, most, repeats, allowed. New items, and new
        annotators named by `capacity` or `annotators`, are welcome. Every answer uses an annotator's capacity, and
        every open question does.
    """

    def ask(self, budget: float) -> pl.DataFrame:
        """Questions for at most this much money: item, annotator, score and cost, best first, random ones last.

        They stay open until they are answered or withdrawn. No row is left when nobody may be asked anything.
        """
        state, policy = self._state()
        settings = self._ledger.settings
        found = suggest(state, policy, budget, explore=settings["explore"], diverse=settings["diverse"])
        frame = found.frame()
        if len(found):
            pairs = zip(frame["item"].to_list(), frame["annotator"].to_list(), strict=True)
            self._record({"event": "ask", "questions": [list(pair) for pair in pairs]})
        return frame

    def tell(self, votes: Any, token: str | None = None) -> int:
        """Take answers in, to open questions or not; return how many were new.

        Answers that were taken before are left out with a warning, so that after a crash a caller may tell once more what
        may or may not have arrived: all of a `token` used before, and, unless `repeats`, second answers of an annotator about
        an item.

        Parameters
        ----------
        votes : Annotations or frame
            Missing labels are no answers: their questions stay open until they are withdrawn.
        token : str, optional
            Any name of your own for this set of answers.
        """
        if token is not None and str(token) in self._ledger.tokens:
            warnings.warn(f"the answers {token!r} were taken before; they are left out", DataWarning, stacklevel=2)
            return 0
        rows = [] if is_empty(votes) else self._ledger.rows_of(as_annotations(votes))
        kept, again = (rows, []) if self._ledger.settings["repeats"] else self._ledger.first_answers(rows)
        if again:
            item, annotator = again[0][:2]
            warnings.warn(
                f"{len(again)} of {len(rows)} answers were taken before, such as that of {annotator!r} about "
                f"{item!r}; they are left out (repeats=True takes second answers)",
                DataWarning,
                stacklevel=2,
            )
        if kept or token is not None:
            self._record({"event": "tell", "token": None if token is None else str(token), "votes": kept})
        return len(kept)

    def withdraw(self, questions: Any = None) -> int:
        """Take open questions back, all of them or those in a frame with item and annotator; return how many."""
        chosen = self._ledger.open_pairs
        if questions is not None:
            frame = to_polars(questions)
            named = [frame[find_column(frame, role, None, Where("the questions"))] for role in ("item", "annotator")]
            seen = (self._ledger.seen.items, "item"), (self._ledger.seen.annotators, "annotator")
            sides = [as_known(ids_of(column), *known).tolist() for column, known in zip(named, seen, strict=True)]
            wanted = set(zip(*sides, strict=True))
            chosen = [pair for pair in chosen if pair in wanted]
        if chosen:
            self._record({"event": "withdraw", "questions": [list(pair) for pair in chosen]})
        return len(chosen)

    def extend(self, items: Iterable[Any] = (), annotators: Iterable[Any] = (), *, features: Any = None) -> None:
        """Make new items and annotators known; items join the pool, annotators have the capacity of all, if one was given.

        A campaign with a classifier needs the `features` of its new items, a row for each of `items`.
        """
        given = ids_of(items)
        votes = self.votes
        more = extended(votes, given, annotators)
        new = more.items[votes.n_items :], more.annotators[votes.n_annotators :]
        if features is None and self._learner.missing(new[0]):
            raise SettingError("new items of a classifier need features: extend(items, features=...)")
        if features is not None:
            self._learner.check(given, features)
        if len(new[0]) or len(new[1]):
            self._record({"event": "extend", "items": new[0].tolist(), "annotators": new[1].tolist()})
        if features is not None and len(new[0]):
            self._learner.add(new[0], sliceable(features)[translate(new[0], given)])

    def stop(self, target: float | None = 0.95, probability: float = 0.95, least_gain: float | None = None) -> str:
        """Why to stop now; empty, which is false, while there is something to ask for.

        Parameters
        ----------
        target : float or None
            Share of the pool's labels to get right, with at least this `probability`.
        least_gain : float, optional
            What a unit of cost must gain, in the currency of the policy: nats about a label for "information", right
            labels for "error-reduction". Policies of pairs only. All questions that may be asked are looked at; random
            questions, with which "warm-information" begins, are no reason to stop.
        """
        state, policy = self._state()
        items = state.pool.items
        if target is not None and reached(state.result, target, probability, items):
            chance = chance_of(state.result, target, items)
            return f"at least {target:.0%} of the labels are right with probability {chance:.3f}"
        if least_gain is not None and not self.policy.joint:
            raise SettingError("least_gain compares gains, which item+annotator policies do not have; take information")
        policy = stage_of(policy, state)
        # Random questions have no gain to compare.
        wanted = least_gain if least_gain is not None and policy.joint else -np.inf
        best = best_gain(state, policy, wanted)
        if best == -np.inf:
            return "nobody is left to ask about anything"
        return "" if best >= wanted else f"the best question gains {best:.2g} per unit of cost, less than {least_gain:g}"

    def plan(self, target: float = 0.95, **options: Any) -> Plan:
        """How many more votes: see `crowdwise.campaign.stopping.plan`."""
        return plan(self.result, target, **options)
