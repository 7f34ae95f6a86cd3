"""The shell of the online methods: a state that updates append to, and a `Result` that is made only when asked for.

Every update visits the items that got votes: their posteriors under the present counts (E-step), then these posteriors in the
place of the old ones in the counts (M-step). `revisit` goes once through items that have waited
longest, some for every item touched, so that what was thought of them early on does not stay in the counts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, union, vocabulary_array
from crowdwise.errors import DataWarning, InputError, NotFittedError, SettingError
from crowdwise.estimator.aggregator import Aggregator, as_annotations
from crowdwise.estimator.estimator import check_settings, check_tables, setting
from crowdwise.estimator.history import encode_history
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.methods.online.arriving import arriving_votes, known_classes, without_votes
from crowdwise.parts.priors.marginals import given_class_prior

if TYPE_CHECKING:
    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Fit, LabelPrior, Progress
    from crowdwise.estimator.aggregator import Problem
    from crowdwise.estimator.outcome import LabelOutcome
    from crowdwise.methods.online.records import Memory, Rules
    from crowdwise.methods.online.scheme import Scheme
    from crowdwise.methods.online.state import State

__all__ = ["OnlineAggregator"]


# Up to here a fit makes its result at once, as every other method does; beyond, when it is asked for.
_AT_ONCE = 100_000


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineAggregator(Aggregator):
    """Base of the methods whose verb is `update(votes)`; a method supplies `rules_for`, `memory_for` and `parts_of`.

    After an update `work_` is the number of votes it read, the measure of its cost.
    """

    batch: int = setting(
        1, "Items whose posteriors are found together before the counts take them in.", low=1, high=10**9, whole=True
    )
    sweeps: int = setting(1, "Most visits to every item that an update touches.", low=1, whole=True)
    tol: float = setting(
        1e-5,
        "An update ends its sweeps when the share of an item's probability that is still to move, estimated and in the mean, "
        "is at most this.",
        above=0,
    )
    revisit: float = setting(3.0, "Older items visited again, per item that an update touches.", low=0)

    #: Settings of `memory_for`: with others, what was counted could not be taken out again.
    lasting: ClassVar[tuple[str, ...]]

    def rules_for(self, n_classes: int, history: Floats, history_total: Floats, fixed: Floats) -> Rules:
        """How counts become evidence."""
        raise NotImplementedError

    def memory_for(self, size: int) -> Memory:
        """Tables of weights for turns up to `size`; refuses settings under which there are none."""
        raise NotImplementedError

    def parts_of(self, state: State, scheme: Scheme, who: Integers) -> tuple[LabelPrior, Any]:
        """Label prior and annotator model of a state, annotators in the order of `who`."""
        raise NotImplementedError

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        data: Any,
        gold: Any = None,
        *,
        history: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Forget everything and take in these votes; see `update`, which continues from there.

        Parameters
        ----------
        data : Annotations, frame or matrix
            May be without any vote, to name all classes before the first: ``Annotations.from_arrays([], [], [],
            items=[], annotators=[], classes=["cat", "dog"])``.
        gold, history, progress, engine
            As in every method. On an engine votes arrive shard by shard, each an update, and none is revisited.
        """
        self._check_fit(other, gold=gold, history=history, engine=engine)
        if engine is not None:
            self._forget_all()
            engine.fit(self, data, gold=gold, history=history, progress=progress)
            return self
        votes = as_annotations(data)
        if gold is not None:
            votes = votes.with_gold(gold)
        if votes.n_classes == 1:
            warnings.warn(
                f"only one class occurs ({votes.classes[0]}); if there are others, name them all with classes=... or --classes",
                DataWarning,
                stacklevel=2,
            )
        counts = None if history is None else encode_history(votes, history)
        self._check(votes.classes, votes.n_annotators, votes.n_votes)
        from crowdwise.methods.online.state import State

        self._start_over(State(votes.classes), counts)
        self._take_in(votes, None, progress)
        if votes.n_votes <= _AT_ONCE:
            self._fitted()
        return self

    def _fit(self, problem: Problem) -> Fit:
        from crowdwise.methods.online.scheme import Scheme
        from crowdwise.methods.online.sharded import fit_shards

        # Settings alone: a fit that this estimator holds must not travel to the shards.
        return fit_shards(Scheme(type(self)(**self.get_params()), problem.history), problem)

    def update(self, data: Any, *, gold: Any = None, progress: Progress | None = None) -> Self:
        """Fold in new votes at a cost that grows with them and with the votes on their items, not with the state.

        The first update starts the model. New items, annotators and classes are welcome; a new class makes every array
        wider, once. Nothing changes if the votes or the gold labels are refused.
        """
        check_settings(self)
        if "_state" not in vars(self) and "result_" not in vars(self):
            return self.fit(data, gold=gold, progress=progress)
        state = self._present()
        changed = [name for name, value in self._begun_with.items() if getattr(self, name) != value]
        if changed:
            raise SettingError(f"{type(self).__name__}: {changed[0]} cannot change between updates; call fit again")
        arriving = arriving_votes(data, state.classes)
        classes = union([state.classes, arriving.classes], sort=False)
        self._check(classes, len(state.annotators) + arriving.n_annotators, state.n_votes + arriving.n_votes)
        known = None if gold is None else known_classes(gold, state, arriving, classes)
        added = classes[len(state.classes) :].tolist()
        if added:
            warnings.warn(
                f"classes that the earlier votes did not have: {', '.join(map(str, added))}", DataWarning, stacklevel=2
            )
        vars(self).pop("result_", None)
        self._take_in(arriving, known, progress)
        return self

    def start_from(self, result: Any) -> Self:
        """Continue from a fit of any method, given as its result or estimator: its posteriors become the counts."""
        check_settings(self)
        result = getattr(result, "result_", result)
        if not isinstance(result, Result):
            raise InputError(f"start_from needs a result or a fitted estimator; got {type(result).__name__}")
        self._check(result.votes.classes, result.votes.n_annotators, result.votes.n_votes)
        self._forget_all()
        self._begin_with(result)
        return self

    def opinion(self, items: Any) -> Floats:
        """Posterior of some items under the present state, [len(items), K]: cheap, however large the state is.

        It is the model's own; `result_.posterior` says how far it can be believed.
        """
        from crowdwise.methods.online.loops import opinions

        state = self._present()
        codes = state.items.find(vocabulary_array(tidy(series_of(items))))
        if (codes < 0).any():
            raise InputError(f"no item {series_of(items)[int(np.flatnonzero(codes < 0)[0])]!r} in these votes")
        return opinions(codes, state.arrays, self._scheme.rules(state))

    def _take_in(self, votes: Annotations, known: tuple[Array, Integers] | None, progress: Progress | None) -> None:
        state, scheme = self._state, self._scheme
        touched = state.add(votes)
        if known is not None:
            news = state.set_known(state.items.find(known[0]), known[1])
            touched = np.union1d(touched, news)
        n_revisits = min(math.ceil(self.revisit * len(touched)), len(state.items) - len(touched))
        new = state.arrays.annotator[state.n_votes - votes.n_votes : state.n_votes]
        longest = int(state.arrays.turns[new].max(initial=0)) + votes.n_votes
        memory = scheme.memory(max(longest, int(state.arrays.clock[0]) + len(touched) + n_revisits))
        run, self.work_ = scheme.sweep(state, touched, memory, max_iter=self.sweeps, progress=progress)
        self._settled = run.converged or self.sweeps == 1
        if n_revisits > 0:
            waiting = (state.cursor + np.arange(n_revisits)) % len(state.items)
            state.cursor = int(waiting[-1] + 1) % len(state.items)
            counted = waiting[(state.arrays.arrival[waiting] > 0) & ~np.isin(waiting, touched)]
            self.work_ += scheme.sweep(state, counted, memory, max_iter=1)[1]
        state.n_updates += 1

    # -- using a fit ---------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        # Only what is missing comes here: a result that no one has asked for yet, or a view of one that is not there.
        if name == "result_":
            return self._fitted()
        if isinstance(getattr(type(self), name, None), property):
            self._fitted()
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _fitted(self) -> Result:
        """The result, made again after an update: labels of all items under the present counts."""
        if "result_" in vars(self):
            return super()._fitted()
        if "_state" not in vars(self):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(votes) or update(votes) first")
        state = self._state
        votes, _, who = state.votes()
        prior, annotators = self._scheme.parts(state, who)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        evidence, _ = annotators.infer(votes, prior.log_prob(), votes.known_codes, posterior)
        terms = {"votes": evidence, "class prior": -prior.penalty(), "annotators": -annotators.penalty()}
        result = Result.of_fit(
            method=self.name,
            settings=self.get_params(),
            seed=None,
            votes=votes,
            posterior=posterior,
            prior=prior,
            annotators=annotators,
            history=None if self._scheme.history is None else self._scheme.grown_history(state)[0][who],
            trace={name: np.array([value]) for name, value in terms.items()},
            n_iter=state.n_updates,
            converged=self._settled,
        )
        vars(self)["result_"] = result
        result.warn_if_switched()
        return result

    def _outcome(self) -> LabelOutcome:
        if "result_" not in vars(self):
            self._fitted()
        return super()._outcome()

    def _members(self) -> dict[str, bytes]:
        """The state, so that a loaded model continues to the bit."""
        return self._present().members()

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        """Take over a saved result with the state that lies beside it; without one, the votes are counted again."""
        from crowdwise.methods.online.state import State

        super()._restore(outcome, members, network)
        result: Result = outcome
        self._forget_all()
        vars(self)["result_"] = result
        state = State.from_members(result, members)
        if state is not None:
            order = state.annotators.order()
            self._start_over(state, None if result.history is None else result.history[np.argsort(order)])
            vars(self)["result_"] = result
            self._settled = result.converged

    # -- parts ---------------------------------------------------------------------------------

    def _present(self) -> State:
        if "_state" not in vars(self):
            # A result without its state: `fit` was not called on this estimator.
            result = super()._fitted()
            self._forget_all()
            vars(self)["result_"] = result
            self._begin_with(result)
        return self._state

    def _begin_with(self, result: Result) -> None:
        from crowdwise.methods.online.scheme import Scheme
        from crowdwise.methods.online.state import State

        self._scheme = Scheme(self, result.history)
        longest = int(result.votes.votes_per_annotator.max(initial=0))
        memory = self._scheme.memory(max(longest, result.votes.n_items))
        self._state, self._settled = State.from_result(result, memory), result.converged

    def _start_over(self, state: State, history: Floats | None) -> None:
        from crowdwise.methods.online.scheme import Scheme

        self._forget_all()
        self._state, self._scheme = state, Scheme(self, history)

    def _forget_all(self) -> None:
        for name in ("result_", "_state", "_scheme"):
            vars(self).pop(name, None)
        self._begun_with = {name: getattr(self, name) for name in self.lasting}

    def _check(self, classes: Array, n_annotators: int, n_votes: int) -> None:
        check_tables(n_annotators, len(classes), n_votes)
        given_class_prior(self.class_prior, without_votes(classes))
        self.memory_for(0)
