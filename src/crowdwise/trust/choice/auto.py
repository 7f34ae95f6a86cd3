"""Automatic choice: the default method, or the simplest, that predicts held-out votes about as well as the best.

score      mean over held-out votes of log p(y_e | the other votes) = log sum_k q_nk T_a[k, y_e]
q          posterior of a candidate fitted without the votes of the fold, tempered by the number of votes on the item
T          how each annotator votes, given q: counted on held-out votes in the same way for every candidate, so that
           posteriors are judged and not the form in which a method keeps its annotators (`crowdwise.trust.choice.scoring`)
choice     of the candidates within one standard error of the best (paired differences, clustered by item) consensus, or
           else the one with the fewest numbers per annotator; of equally simple ones the best

Notes
-----
Where votes are too few for a comparison (`crowdwise.trust.choice.data_check`), the answer is `consensus`. Gold labels are held
out in turn, too; see `crowdwise.trust.choice.scoring`. Cost: `folds` fits of every candidate, and one of the chosen one. Which
candidates are worth that is decided by counting operations (`crowdwise.trust.choice.operations`), never by the clock.

References
----------
Hastie, Tibshirani and Friedman (2009), The Elements of Statistical Learning, section 7.10, for the rule of one standard error.
Yao, Vehtari, Simpson and Gelman (2018), Using stacking to average Bayesian predictive distributions, Bayesian Analysis 13.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.engines.loop import Fit
from crowdwise.errors import DataWarning, NotFittedError
from crowdwise.estimator.aggregator import Aggregator
from crowdwise.estimator.estimator import random_state_setting, setting
from crowdwise.estimator.registry import METHODS, make_aggregator
from crowdwise.kernels.types import Floats
from crowdwise.parts.annotators.model import Confusion, row_smoothing
from crowdwise.trust.choice.candidates import FALLBACK, check_methods, rank_of
from crowdwise.trust.choice.data_check import not_comparable
from crowdwise.trust.choice.decision import Chooses, Decision, decide, fall_back
from crowdwise.trust.choice.operations import keep_affordable, operations_of
from crowdwise.trust.choice.scoring import HeldOut, tempered_score
from crowdwise.trust.choice.selection import Row
from crowdwise.trust.choice.trial import try_all

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from crowdwise.data.annotations import Annotations
    from crowdwise.engines.loop import Progress
    from crowdwise.estimator.aggregator import Problem
    from crowdwise.estimator.outcome import Result

__all__ = ["Auto"]


_DOCUMENT = "choice.json"


@dataclass(eq=False, repr=False, kw_only=True)
class Auto(Chooses, Aggregator):
    """The method that predicts held-out votes best, or the default or a simpler one that is about as good.

    The fit of the chosen method is what the estimator then shows; `result_.method` names it. `reason_` says in one line
    why, `choice_` holds the comparison.

    Examples
    --------
    >>> from crowdwise.data.datasets import demo
    >>> model = Auto(methods=["majority", "one-coin"]).fit(demo().votes)
    >>> model.choice_.columns
    ['method', 'score', 'difference', 'se', 'seconds', 'note']
    """

    class_prior: Any = setting(
        "learn", 'Class shares: "learn" (as each method does by itself), "uniform", or K probabilities.', free=True
    )
    methods: Any = setting(
        None, "Candidates by name, simplest first, as a list or comma-separated; by default a fast and diverse few.", free=True
    )
    folds: int = setting(5, "Parts into which votes are dealt; each is predicted by fits to the others.", low=2, whole=True)
    operations: float = setting(
        5e9,
        "Most operations (votes x classes x rounds) of the comparison, by default about a minute of them; candidates that do "
        "not fit are skipped, and named.",
        low=0,
    )
    standard_errors: float = setting(
        1.0,
        "The default, or else a simpler method, is preferred if it is behind the best by no more standard errors.",
        low=0,
    )
    stack: bool = setting(False, "Combine the candidates' posteriors, with weights fitted to held-out votes.")
    random_state: int | None = random_state_setting("Seed of the folds and of the candidates.")

    name: ClassVar[str] = "auto"

    # -- fitting -------------------------------------------------------------------------------

    def _run(self, votes: Annotations, history: Floats | None, earlier: Result | None, progress: Progress | None) -> Self:
        return super()._run(votes, history, earlier, progress)

    def summary_fields(self, done: Fit, history: Floats | None) -> dict[str, Any]:
        """What a result says, with the name of the method that was chosen."""
        return super().summary_fields(done, history) | {"method": f"{self.name}: {self.chosen_}"}

    def _fit(self, problem: Problem) -> Fit:
        decision = self._decision = self._decided(problem, check_methods(self.methods))
        fits = {name: self._fitted_by(name, problem) for name in decision.weights}
        return next(iter(fits.values())) if len(fits) == 1 else _stacked(fits, decision.weights, problem)

    def _decided(self, problem: Problem, methods: tuple[str, ...]) -> Decision:
        rows = [_row(name, problem.votes) for name in methods]
        suited = [row.method for row in rows if row.eligible] or list(methods)
        instead = FALLBACK if FALLBACK in suited else suited[0]
        reason = not_comparable(problem.votes) or ("there is one candidate" if len(suited) < 2 else "")
        if not reason:
            keep_affordable(rows, {name: self.folds * operations_of(name, problem.votes) for name in suited}, self.operations)
            left = sum(row.eligible for row in rows)
            reason = f"{self.operations:.1e} operations are enough for {left} of {len(suited)} candidates" if left < 2 else ""
        if reason:
            return fall_back(instead, rows, reason)
        held = HeldOut(problem.votes, self.folds, int(problem.rng.integers(2**31)))

        def posterior(name: str, part: Annotations) -> Floats:
            return self._fitted_by(name, problem.with_votes(part, warm=None, progress=None)).posterior

        def shares(name: str, number: int) -> Floats:
            return held.shares(partial(posterior, name), number)

        try_all(rows, shares, held.terms, tempered_score)
        if not any(row.eligible for row in rows):
            return fall_back(instead, rows, "no candidate could be fitted")
        return decide(rows, held.terms.item, standard_errors=self.standard_errors, stack=self.stack)

    def _fitted_by(self, name: str, problem: Problem) -> Fit:
        """The fit of a candidate, with this estimator's class shares and seed."""
        method = make_aggregator(name)
        if not (isinstance(self.class_prior, str) and self.class_prior == "learn"):
            method.set_params(class_prior=self.class_prior)
        if "random_state" in method.get_params():
            method.set_params(random_state=self.random_state)
        with warnings.catch_warnings():
            # What votes and settings deserve a word was said when this estimator looked at them.
            warnings.simplefilter("ignore", DataWarning)
            own = method.problem_of(problem.shards, problem.votes, problem.history, problem.progress)
        return method.solve(replace(own, warm=problem.warm))

    # -- what was chosen -----------------------------------------------------------------------

    @property
    def weights_(self) -> dict[str, float]:
        """Weight of every method in the fit: more than one with ``stack=True`` only."""
        return self._decided_before().weights

    def _decided_before(self) -> Decision:
        if "_decision" not in vars(self):
            raise NotFittedError("this Auto has not chosen yet; call fit(votes) first")
        decision: Decision = vars(self)["_decision"]
        return decision

    def _members(self) -> dict[str, bytes]:
        """The choice."""
        return {_DOCUMENT: self._decided_before().document()}

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        """Take over a saved choice; a result alone says no more than which method it was."""
        super()._restore(outcome, members, network)
        if _DOCUMENT in members:
            self._decision = Decision.of(members[_DOCUMENT])
        else:
            chosen = outcome.method.partition(": ")[2]
            self._decision = fall_back(chosen, [Row(chosen)], "the saved result does not hold the comparison")


def _row(name: str, votes: Annotations) -> Row:
    """A candidate that is still to be tried, or why it is not."""
    if not METHODS[name].suits(votes.n_classes):
        return Row(name, note="left out: for two classes only", eligible=False)
    return Row(name, rank_of(name, votes.n_classes))


def _stacked(fits: Mapping[str, Fit], weights: Mapping[str, float], problem: Problem) -> Fit:
    """The convex combination of posteriors; annotators are counted under it, as parts of several methods do not add up."""
    votes = problem.votes
    posterior = np.sum([weights[name] * fit.posterior for name, fit in fits.items()], axis=0)
    annotators = Confusion.start(row_smoothing(votes, 1 / votes.n_classes), votes.n_annotators).update(votes, posterior)
    prior = problem.marginals().update(posterior[votes.votes_per_item > 0])
    converged = all(fit.converged for fit in fits.values())
    return Fit(posterior, prior, annotators, trace={}, n_iter=max(fit.n_iter for fit in fits.values()), converged=converged)
