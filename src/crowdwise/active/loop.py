"""A campaign as it goes: ask whom about what, tell the answers, stop.

    loop = ActiveLoop(DawidSkene(), "information", votes, path="campaign")
    while not loop.stop(target=0.95):
        questions = loop.ask(100)
        loop.tell(answers_to(questions))

With `path`, everything asked and told is on the disk before the call returns, and `ActiveLoop.load` goes on after a crash:
what a caller was told is there once, what was being written is there once or not at all.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.active.assign import suggest
from crowdwise.active.journal import Journal, Start
from crowdwise.active.ledger import Ledger
from crowdwise.active.names import as_known, ids_of, is_empty, names_only, pairs_of, sliceable
from crowdwise.active.policies import State, policy_of
from crowdwise.active.pool import extended
from crowdwise.active.stopping import Plan, chance_of, plan, reached
from crowdwise.aggregate.base import as_annotations
from crowdwise.annotations import Annotations
from crowdwise.encode import Where, find_column, to_polars, translate
from crowdwise.errors import DataWarning, InputError, SettingError
from crowdwise.learn.align import n_rows_of

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

    from crowdwise.result import Result

__all__ = ["ActiveLoop"]

# Asked before a classifier has any vote to learn from.
_COLD = "random+random"


class ActiveLoop:
    """Asks questions and folds the answers in.

    Parameters
    ----------
    model : Aggregator or classifier
        Label-only methods are updated; classifiers, which need `features`, are fitted again. It belongs to the loop from
        here on.
    policy : str or Policy
        See `crowdwise.active.policies`.
    votes : Annotations or frame, optional
        The votes so far; those of the model if it is fitted. Without any, `items`, `annotators` and `classes` say what
        there is.
    items, capacity, cost, per_item, least, most, repeats, allowed
        As `Pool.of` takes them. New items, and new annotators named by `capacity` or `annotators`, are welcome. Every
        answer told uses an annotator's capacity, and every open question does.
    annotators, classes : sequence, optional
        Beside those of the votes.
    features : [M, ...], optional
        For classifiers and their policies; for label-only methods, to spread the questions out.
    feature_items : sequence, optional
        Ids of the rows of `features`; by default those of `items`, or of the votes.
    path : path, optional
        Folder of the campaign's record. Features, the model and a policy of your own are not in it.
    explore, diverse
        As `crowdwise.active.assign.suggest` takes them.
    random_state : int
        The same seed, votes and answers give the same questions, also when the campaign was resumed in between.
    """

    _result: Result | None
    _journal: Journal | None

    def __init__(
        self,
        model: Any,
        policy: Any = "information",
        votes: Any = None,
        *,
        items: Iterable[Any] | None = None,
        annotators: Iterable[Any] = (),
        classes: Sequence[Any] | None = None,
        capacity: Mapping[Any, int] | int | None = None,
        cost: Mapping[Any, float] | float = 1.0,
        per_item: int = 1,
        least: int = 0,
        most: int | None = None,
        repeats: bool = False,
        allowed: Annotations | None = None,
        features: Any = None,
        feature_items: Iterable[Any] | None = None,
        path: str | PathLike[str] | None = None,
        explore: float = 0.05,
        diverse: bool = True,
        random_state: Any = 0,
    ) -> None:
        if not isinstance(random_state, Integral) or random_state < 0:
            raise SettingError(f"random_state must be a whole number >= 0; got {random_state!r}")
        if not 0 <= explore <= 1:
            raise SettingError(f"explore is a share from 0 to 1; got {explore!r}")
        items = None if items is None else ids_of(items, distinct=True)
        fitted = getattr(model, "result_", None) if votes is None and hasattr(model, "update") else None
        first = _first_votes(votes if fitted is None else fitted.votes, items, classes)
        rows = None
        if features is not None:
            rows = ids_of(feature_items if feature_items is not None else first.items if items is None else items)
        named = [name for given in (capacity, cost) if isinstance(given, Mapping) for name in given]
        new_items = [name for names in (items, rows) if names is not None for name in names.tolist()]
        known = extended(first, new_items, [*annotators, *named])
        settings = {
            "policy": policy if isinstance(policy, str) else None,
            "capacity": pairs_of(capacity),
            "cost": pairs_of(cost),
            "per_item": per_item,
            "least": least,
            "most": most,
            "repeats": bool(repeats),
            "explore": float(explore),
            "diverse": bool(diverse),
            "random_state": int(random_state),
            "strict": classes is not None,
        }
        start = Start(known, items, allowed, settings)
        self._begin(model, policy, start, features, rows)
        if fitted is not None and fitted.votes is first:
            # An update keeps what the model knows beside the votes, such as annotators' history; a fit would not.
            self._result = fitted
            if known is not first:
                more = known.items[first.n_items :].tolist(), known.annotators[first.n_annotators :].tolist()
                self._ledger.seen, self._ledger.pending = first, [names_only(*more, known.classes)]
        self._journal = None if path is None else Journal.create(path, start)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        model: Any,
        *,
        policy: Any = None,
        features: Any = None,
        feature_items: Iterable[Any] | None = None,
    ) -> Self:
        """Go on with a campaign: the settings of its start, all votes told, and the questions still open.

        `model` is fitted to the votes anew, so that one with the same settings will do.
        """
        journal, start, events = Journal.open(path)
        policy = start.settings["policy"] if policy is None else policy
        if policy is None:
            raise SettingError(f"{path} was begun with a policy of your own; give it again: ActiveLoop.load(..., policy=...)")
        loop = cls.__new__(cls)
        rows = None
        if features is not None:
            default = start.votes.items if start.items is None else start.items
            rows = ids_of(default if feature_items is None else feature_items)
        loop._begin(model, policy, start, features, rows)
        for event in events:
            loop._ledger.apply(event)
        loop._journal = journal
        return loop

    def _begin(self, model: Any, policy: Any, start: Start, features: Any, rows: NDArray[Any] | None) -> None:
        self.model, self.policy = model, policy_of(policy)
        self._features, self._rows = features, rows
        if rows is not None and n_rows_of(features) != len(rows):
            raise InputError(
                f"features have {n_rows_of(features):,} rows for {len(rows):,} items; give their ids: feature_items"
            )
        if not self._counts_votes and rows is None:
            raise SettingError(f"{type(model).__name__} learns from features: give features=...")
        self._ledger = Ledger(start)
        self._result = None
        # Settings of the pool are wrong at once, not when the first question is due.
        self._ledger.pool(start.votes)

    # -- what is known -------------------------------------------------------------------------

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
        done = self._fitted(earlier)
        self._ledger.settle(done.votes)
        self._result = done
        return done

    @property
    def open(self) -> pl.DataFrame:
        """Questions asked and not answered: item, annotator."""
        return self._ledger.open_frame()

    # -- the campaign --------------------------------------------------------------------------

    def ask(self, budget: float) -> pl.DataFrame:
        """Questions for at most this much money: item, annotator, score and cost, best first, random ones last.

        They stay open until they are told or withdrawn. No row is left when nobody may be asked anything.
        """
        state, policy = self._state(self._ledger.n_asks)
        found = suggest(
            state, policy, budget, explore=self._ledger.settings["explore"], diverse=self._ledger.settings["diverse"]
        )
        frame = found.frame()
        if len(found):
            pairs = zip(frame["item"].to_list(), frame["annotator"].to_list(), strict=True)
            self._record({"event": "ask", "questions": [list(pair) for pair in pairs]})
        return frame

    def tell(self, votes: Any, token: str | None = None) -> int:
        """Take answers in, to open questions or not; return how many were new.

        Answers told before are left out with a warning, so that after a crash a caller may tell once more what may or may
        not have arrived: all of a `token` told before, and second answers of an annotator about an item unless `repeats`.

        Parameters
        ----------
        votes : Annotations or frame
            Missing labels are no answers: their questions stay open until they are withdrawn.
        token : str, optional
            Any name of your own for this set of answers.
        """
        if token is not None and str(token) in self._ledger.tokens:
            warnings.warn(f"the answers {token!r} were told before; they are left out", DataWarning, stacklevel=2)
            return 0
        rows = [] if is_empty(votes) else self._ledger.rows_of(as_annotations(votes))
        kept, again = (rows, []) if self._ledger.settings["repeats"] else self._ledger.first_answers(rows)
        if again:
            item, annotator = again[0][:2]
            warnings.warn(
                f"{len(again)} of {len(rows)} answers were told before, such as that of {annotator!r} about "
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

    def extend(self, items: Iterable[Any] = (), annotators: Iterable[Any] = ()) -> None:
        """Make new items and annotators known; items join the pool, annotators have the capacity of all, if one was given."""
        if self._rows is not None and not self._counts_votes and len(ids_of(items)):
            raise SettingError("new items of a classifier need features: load the campaign with features of all items")
        votes = self.votes
        more = extended(votes, items, annotators)
        new = more.items[votes.n_items :].tolist(), more.annotators[votes.n_annotators :].tolist()
        if any(new):
            self._record({"event": "extend", "items": new[0], "annotators": new[1]})

    def stop(self, target: float | None = 0.95, probability: float = 0.95, least_gain: float | None = None) -> str:
        """Why to stop now; empty, which is false, while there is something to ask for.

        Parameters
        ----------
        target : float or None
            Share of the pool's labels to get right, with at least this `probability`.
        least_gain : float, optional
            What a unit of cost must gain, in the currency of the policy: nats about a label for "information", right
            labels for "error-reduction". Policies of pairs only.
        """
        state, policy = self._state(self._ledger.n_asks)
        items = state.pool.items
        if target is not None and reached(state.result, target, probability, items):
            chance = chance_of(state.result, target, items)
            return f"at least {target:.0%} of the labels are right with probability {chance:.3f}"
        if least_gain is not None and not self.policy.joint:
            raise SettingError("least_gain compares gains, which item+annotator policies do not have; take information")
        best = suggest(state, policy, float(state.pool.cost.max(initial=1)), explore=0, diverse=False)
        if not len(best):
            return "nobody is left to ask about anything"
        if least_gain is not None and policy is self.policy and best.score.max() < least_gain:
            return f"the best question gains {best.score.max():.2g} per unit of cost, less than {least_gain:g}"
        return ""

    def plan(self, target: float = 0.95, **options: Any) -> Plan:
        """How many more votes: see `crowdwise.active.stopping.plan`."""
        return plan(self.result, target, **options)

    # -- parts ---------------------------------------------------------------------------------

    @property
    def _counts_votes(self) -> bool:
        return hasattr(self.model, "update")

    def _fitted(self, earlier: Result | None) -> Result:
        """The model on all votes, going on from an earlier fit where it can."""
        if not self._counts_votes:
            if not self.votes.n_votes:
                raise InputError(f"{type(self.model).__name__} has no votes to learn from yet; ask and tell first")
            self.model.fit(self._features, self.votes, items=self._rows)
        elif earlier is None:
            self.model.fit(self.votes)
        else:
            first, *others = self._ledger.pending
            self.model.update(first.concat(*others) if others else first)
        result: Result = self.model.result_
        return result

    def _state(self, turn: int) -> tuple[State, Any]:
        """What a policy reads, and the policy: one that asks at random as long as a classifier knows nothing."""
        rng = np.random.default_rng([self._ledger.settings["random_state"], turn])
        if self._counts_votes or self.votes.n_votes:
            result, policy = self.result, self.policy
            model, features = (None, self._aligned(result.votes)) if self._counts_votes else (self.model, self._features)
        else:
            from crowdwise.aggregate.majority import MajorityVote

            result, policy, model = MajorityVote().fit(self.votes).result_, policy_of(_COLD), None
            features = self._aligned(result.votes)
        return State(result, self._ledger.pool(result.votes), rng, model, sliceable(features)), policy

    def _aligned(self, votes: Annotations) -> Any:
        """Features in the order of the items, or None where some item has none."""
        if self._rows is None:
            return None
        place = translate(votes.items, self._rows)
        return None if (place < 0).any() else sliceable(self._features)[place]

    def _record(self, event: dict[str, Any]) -> None:
        """On the disk first, so that what is in memory is always there too."""
        if self._journal is not None:
            self._journal.append(event)
        self._ledger.apply(event)


def _first_votes(votes: Any, items: Any, classes: Sequence[Any] | None) -> Annotations:
    """Votes to start with; none at all where only items, annotators and classes are known."""
    if votes is not None:
        known = as_annotations(votes)
        return known if classes is None else known.with_classes(classes)
    if items is None or classes is None:
        raise SettingError("a campaign without votes needs items=..., classes=... and its annotators= or capacity= by name")
    return Annotations.from_arrays([], [], [], items=items.tolist(), annotators=[], classes=classes)
