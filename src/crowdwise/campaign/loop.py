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
from crowdwise.campaign.certified import begun
from crowdwise.campaign.names import as_known, ids_of, is_empty, sliceable
from crowdwise.campaign.policies import stage_of
from crowdwise.campaign.pool import extended
from crowdwise.campaign.stopping import Plan, accuracy_words, chance_of, plan, reached
from crowdwise.data.encode import Where, find_column, series_of, tidy, to_polars, translate
from crowdwise.data.gold import TRUE_LABEL, UNCLEAR
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.estimator.aggregator import as_annotations

__all__ = ["ActiveLoop"]


class ActiveLoop(BaseLoop):
    """Asks questions and folds the answers in.

    Parameters
    ----------
    model : Aggregator or classifier, optional
        Label-only methods are updated. Classifiers, which need `features`, label items by features and votes together; they
        are fitted again, every time from the shares of the votes unless their setting `init` says otherwise. By default
        dawid-skene, and with features raykar. It belongs to the loop from here on.
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

    def check(self, n: int = 20) -> pl.DataFrame:
        """Items whose labels somebody who knows should check, drawn by chance: item, and an empty column "true label".

        The first check after new votes begins an audit of the labels as they are now; see `crowdwise.campaign.certified`.
        Items handed out before and not told yet come first.
        """
        if n < 1:
            raise SettingError(f"the number of items to check must be at least 1; got {n}")
        state, _ = self._state()
        ledger, votes = self._ledger, state.votes
        if ledger.audit is None:
            seed = [ledger.settings["random_state"], ledger.n_asks, 1 + ledger.n_audits]
            self._record(begun(state.result, state.pool.items, ledger.positions_known(votes), seed))
        assert ledger.audit is not None
        more = min(n - len(ledger.audit.waiting), len(ledger.audit.items) - ledger.audit.drawn)
        if more > 0:
            self._record({"event": "check", "n": more})
        waiting = ledger.audit.waiting[:n]
        column = tidy(series_of(ids_of(waiting) if waiting else votes.items[:0]))
        return pl.DataFrame({"item": column, TRUE_LABEL: pl.Series([None] * len(waiting), dtype=pl.String)})

    def tell_checked(self, checked: Any) -> int:
        """Take the true labels of items that `check` gave, a frame with item and "true label"; return how many were new.

        An empty cell means that nobody looked yet; "?" that nobody can tell, which counts as wrong. From the first empty cell
        on, in the order of `check`, labels are kept but prove nothing.
        """
        frame, audit = to_polars(checked), self._ledger.audit
        if audit is None:
            raise InputError("nothing is being checked: votes have come since, or check() was not called; call check() again")
        missing = [name for name in ("item", TRUE_LABEL) if name not in frame.columns]
        if missing:
            raise InputError(f"checked labels need the column {missing[0]!r}; fill in the table that check() gave")
        frame = frame.filter(pl.col(TRUE_LABEL).is_not_null() & (pl.col(TRUE_LABEL).cast(pl.String).str.strip_chars() != ""))
        if not frame.height:
            return 0
        items = as_known(ids_of(frame["item"]), self._ledger.seen.items, "item").tolist()
        classes = {str(name): name for name in self._ledger.seen.classes.tolist()}
        labels = [classes.get(str(label).strip(), str(label).strip()) for label in frame[TRUE_LABEL].to_list()]
        drawn = set(audit.items[: audit.drawn])
        for item, label in zip(items, labels, strict=True):
            if item not in drawn:
                raise InputError(f"item {item!r} was not drawn to be checked; give the items of check() only")
            if label != UNCLEAR and str(label) not in classes:
                named = ", ".join(classes)
                raise InputError(f"true label {label!r} of item {item!r} is not among the classes: {named}, or {UNCLEAR}")
        new = [[item, label] for item, label in zip(items, labels, strict=True) if item not in audit.truth]
        if new:
            self._record({"event": "truth", "labels": new})
        return len(new)

    def labels(self) -> pl.DataFrame:
        """The labels now, as `Result.items_frame` has them without probabilities; checked ones are true (note "checked")."""
        frame, known = self.result.items_frame(probabilities=False), self._ledger.known
        if not known:
            return frame
        names = frame["item"].to_list()
        true = pl.Series([known.get(name) for name in names], dtype=frame["label"].dtype)
        told = true.is_not_null()
        return frame.with_columns(
            pl.when(told).then(true).otherwise(pl.col("label")).alias("label"),
            pl.when(told).then(1.0).otherwise(pl.col("confidence")).alias("confidence"),
            pl.when(told).then(pl.lit("gold")).otherwise(pl.col("confidence_source")).alias("confidence_source"),
            pl.when(told).then(pl.lit("checked")).otherwise(pl.col("note")).alias("note"),
        )

    def certified(self, probability: float = 0.95) -> float:
        """The share of the pool's labels that checked labels prove to be right, with this probability; 0 without an audit."""
        audit = self._ledger.audit
        return 0.0 if audit is None or not audit.pool else audit.right_from(probability)

    def stop(
        self,
        target: float | None = 0.95,
        probability: float = 0.95,
        least_gain: float | None = None,
        certified: bool = False,
    ) -> str:
        """Why to stop now; empty, which is false, while there is something to ask for.

        Parameters
        ----------
        target : float or None
            Share of the pool's labels to get right, with at least this `probability` over crowds and the luck of the items:
            that of 0.95 is the lower end of the range that is printed. Never reached before most items have two votes.
        certified : bool
            Believe checked labels only: the target is reached when those of `check` prove it with this probability, whatever
            the votes are like. A certificate ends a campaign in any case.
        least_gain : float, optional
            What a unit of cost must gain, in the currency of the policy: nats about a label for "information", right
            labels for "error-reduction". Policies of pairs only. All questions that may be asked are looked at; random
            questions, with which "warm-information" begins, are no reason to stop.
        """
        state, policy = self._state()
        items, audit = state.pool.items, self._ledger.audit
        if target is not None and audit is not None and audit.pool and audit.right_from(probability) >= target:
            return audit.words(probability)
        if target is not None and not certified and reached(state.result, target, probability, items):
            chance = chance_of(state.result, target, items)
            return f"{accuracy_words(state.result, items)}: at least {target:.0%} are right with probability {chance:.3f}"
        if least_gain is not None and not self.policy.joint:
            raise SettingError("least_gain compares gains, which item+annotator policies do not have; take information")
        policy = stage_of(policy, state)
        # Random questions have no gain to compare.
        wanted = least_gain if least_gain is not None and policy.joint else -np.inf
        best = best_gain(state, policy, wanted)
        if best == -np.inf:
            return f"nobody is left to ask about anything; {accuracy_words(state.result, items)}"
        if best >= wanted:
            return ""
        gain = f"the best question gains {best:.2g} per unit of cost, less than {least_gain:g}"
        return f"{gain}; {accuracy_words(state.result, items)}"

    def plan(self, target: float = 0.95, probability: float = 0.95, **options: Any) -> Plan:
        """How many more votes: see `crowdwise.campaign.stopping.plan`."""
        return plan(self.result, target, probability, **options)
