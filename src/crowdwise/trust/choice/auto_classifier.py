"""Automatic choice of a classifier: by how well the labels that it infers predict votes that were hidden from it.

score      mean over hidden votes of log sum_k q_nk T_a[k, y_e]
q          the candidate's posterior of the item, from its row and the votes that were not hidden
T          an accuracy per annotator, counted on hidden votes in the same way for every candidate
choice     the simplest candidate within one standard error of the best (paired differences, clustered by item)

Notes
-----
What classifiers say of rows whose votes are all hidden was the worse guide where this rule was chosen, on the sets of the
benchmarks: with a table per annotator a class may drift to whatever features say about the votes, and with an accuracy vague
classifiers win.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.estimator.estimator import check_settings, check_tables, random_state_setting, setting
from crowdwise.estimator.registry import make_classifier
from crowdwise.kernels.numerics import generator
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.align import aligned_votes
from crowdwise.methods.classify.base import CrowdClassifier
from crowdwise.methods.classify.features import checked_features
from crowdwise.trust.choice.classifiers import Candidate, check_methods
from crowdwise.trust.choice.data_check import check_data
from crowdwise.trust.choice.decision import Chooses, Decision, decide, fall_back
from crowdwise.trust.choice.scoring import HeldOut, by_accuracy
from crowdwise.trust.choice.selection import Row
from crowdwise.trust.choice.trial import Budget, try_all

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Self

    from crowdwise.engines.loop import Progress

__all__ = ["AutoClassifier"]


# Items below which a classifier trained on some of them says little about one trained on all.
_FEWEST_ITEMS = 200


@dataclass(eq=False, repr=False, kw_only=True)
class AutoClassifier(Chooses, CrowdClassifier):
    """The classifier that predicts held-out votes best, or a simpler one that is about as good.

    `estimator_` is the chosen classifier, trained on everything; this one answers as it does. `reason_` says in one line
    why it was chosen, `choice_` holds the comparison.

    Examples
    --------
    >>> from crowdwise.data.datasets import crowd_digits
    >>> X, votes, truth = crowd_digits()
    >>> model = AutoClassifier(methods="two-stage,raykar").fit(X[:300], votes[:300])
    >>> bool(model.score(X[300:], truth[300:]) > 0.8)
    True
    """

    methods: Any = setting(
        None, "Candidates by name, simplest first, as a list or comma-separated; by default a fast and diverse few.", free=True
    )
    folds: int = setting(3, "Parts into which votes are dealt; each is predicted by fits to the others.", low=2, whole=True)
    seconds: float = setting(
        120.0, "Time to compare methods in; candidates for which it is too short are skipped, and named.", low=0
    )
    standard_errors: float = setting(
        1.0, "A simpler method is preferred if it is behind the best by no more standard errors than this.", low=0
    )
    random_state: int | None = random_state_setting("Seed of the folds and of the candidates.")

    name: ClassVar[str] = "auto-classifier"

    @property
    def takes_images(self) -> bool:
        """Whether rows may be images: candidates that take none are skipped."""
        return True

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any, *, items: Any = None, gold: Any = None, progress: Progress | None = None, engine: Any = None
    ) -> Self:
        """Choose here, and fit the chosen one, on an engine where there is one; see `CrowdClassifier.fit` for the arguments."""
        check_settings(self)
        candidates = check_methods(self.methods)
        seed = int(generator(self.random_state).integers(2**31))
        features = checked_features(self, X, fitting=True, images=True)
        votes = aligned_votes(features, y, items, gold)
        check_tables(votes.n_annotators, votes.n_classes, votes.n_votes)
        self._decision = self._decided(features, votes, candidates, seed)
        chosen = next(candidate for candidate in candidates if candidate.label == self._decision.chosen)
        self.estimator_ = self._made(chosen).fit(X, y, items=items, gold=gold, progress=progress, engine=engine)
        self.model_, self.classes_ = self.estimator_.model_, self.estimator_.classes_
        self.result_ = replace(self.estimator_.result_, method=f"{self.name}: {chosen.label}")
        return self

    def _decided(self, features: Any, votes: Annotations, candidates: tuple[Candidate, ...], seed: int) -> Decision:
        rows = [_row(candidate, features) for candidate in candidates]
        tried = [row.method for row in rows if row.eligible]
        found = check_data(votes)
        voted = np.flatnonzero(votes.votes_per_item > 0)
        reasons = found.reasons if not found.comparable else ()
        if len(voted) < _FEWEST_ITEMS:
            reasons = (f"only {len(voted):,} items have votes, and {_FEWEST_ITEMS} are needed",)
        if reasons or len(tried) < 2:
            return fall_back((tried or [candidates[0].label])[0], rows, reasons or ("there is one candidate",))
        return self._compared(features, votes, {c.label: c for c in candidates}, rows, tried, seed)

    def _compared(
        self,
        features: Any,
        votes: Annotations,
        candidates: dict[str, Candidate],
        rows: list[Row],
        tried: list[str],
        seed: int,
    ) -> Decision:
        held = HeldOut(votes, self.folds, seed)

        def shares(label: str, number: int) -> Floats:
            return held.shares(lambda part: self._made(candidates[label]).fit(features, part).result_.posterior, number)

        try_all(rows, shares, held.terms, Budget(self.seconds), by_accuracy)
        if not any(row.eligible for row in rows):
            return fall_back(tried[0], rows, ("no candidate could be measured",))
        return decide(rows, held.terms, standard_errors=self.standard_errors)

    def _made(self, candidate: Candidate) -> CrowdClassifier:
        """A candidate with its settings and this estimator's seed."""
        made: CrowdClassifier = make_classifier(candidate.method, **candidate.settings)
        if "random_state" in made.get_params(deep=False):
            made.set_params(random_state=self.random_state)
        return made

    # -- using a fit ---------------------------------------------------------------------------

    def predict_proba(self, X: Any, votes: Any = None) -> Floats:
        """As the chosen classifier does."""
        return self._estimator().predict_proba(X, votes)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """As the chosen classifier does."""
        return self._estimator().score(X, y, sample_weight)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the chosen classifier into `folder`; `crowdwise.load` reads it back as what it is."""
        self._estimator().save(folder)

    def _estimator(self) -> CrowdClassifier:
        self._fitted()
        return self.estimator_

    # -- what was chosen -----------------------------------------------------------------------

    def _decided_before(self) -> Decision:
        self._fitted()
        return self._decision


def _row(candidate: Candidate, features: Any) -> Row:
    """A candidate that is still to be tried, or why it is not."""
    if len(getattr(features, "shape", ())) != 2 and not candidate.network:
        return Row(candidate.label, note="left out: for tables only", eligible=False)
    if candidate.network and find_spec("torch") is None:
        return Row(candidate.label, note="left out: it needs torch", eligible=False)
    return Row(candidate.label, candidate.rank)
