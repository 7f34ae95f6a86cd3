"""Automatic choice of a classifier: by how well it labels items that it has not seen, as far as their votes tell.

Candidates are trained on the items of all folds but one, and name classes for those of that fold: from features alone, and from
features and half of the votes. The classes are scored by the votes that were not shown (`crowdwise.trust.choice.new_rows`). The
simplest candidate within one standard error of the best is chosen; those that are clearly behind are given up on the way.

Notes
-----
Where there are more items than the budget of operations allows, all candidates are compared on a sample of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import DataWarning
from crowdwise.estimator.estimator import check_tables, random_state_setting, setting
from crowdwise.estimator.registry import make_classifier
from crowdwise.kernels.numerics import generator
from crowdwise.kernels.types import Array, Floats
from crowdwise.methods.classify.align import aligned_votes
from crowdwise.methods.classify.base import CrowdClassifier
from crowdwise.methods.classify.features import checked_features
from crowdwise.trust.choice.classifiers import Candidate, check_methods
from crowdwise.trust.choice.decision import Chooses, Decision, decide, fall_back
from crowdwise.trust.choice.new_rows import NewRows
from crowdwise.trust.choice.operations import keep_affordable, training_operations
from crowdwise.trust.choice.selection import Row

if TYPE_CHECKING:
    from os import PathLike

    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["AutoClassifier"]


# Items below which a classifier trained on some of them says little about one trained on all; and to which a sample shrinks
# before candidates are skipped instead.
_FEWEST_ITEMS, _FEWEST_SAMPLED = 200, 1_000
# What is trained on rows that are no array, and cannot be dealt into folds here; and on so few items that there is no
# comparison: a model of how features come about needs fewer items than one of classes given features (Ng and Jordan 2002).
_ON_OTHER_ROWS, _ON_FEW_ITEMS = "ccem", "raykar (classifier=gaussian)"


@dataclass(eq=False, repr=False, kw_only=True)
class AutoClassifier(Chooses, CrowdClassifier):
    """The classifier that labels new items best, as far as votes tell, or a simpler one that is about as good.

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
    folds: int = setting(3, "Parts into which items are dealt; each is labelled by fits to the others.", low=2, whole=True)
    operations: float = setting(
        5e11,
        "Most operations (rows x rounds x parameters) of the comparison, by default a minute or two of them; with more, "
        "a sample of the items is compared, and candidates that do not fit are skipped with a warning.",
        low=0,
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

    @property
    def has_network(self) -> bool:
        """Whether a network may be chosen, which also takes dicts as rows: without torch there is none."""
        return find_spec("torch") is not None

    # -- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        items: Any = None,
        gold: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Choose here, and fit the chosen one, on an engine where there is one; see `CrowdClassifier.fit` for the arguments."""
        self._check_fit(other, engine=engine)
        candidates = check_methods(self.methods)
        seed = int(generator(self.random_state).integers(2**31))
        features = checked_features(self, X, fitting=True, images=True)
        votes = aligned_votes(features, y, items, gold, named=X)
        check_tables(votes.n_annotators, votes.n_classes, votes.n_votes)
        self._decision = self._decided(features, votes, candidates, seed)
        chosen = next(candidate for candidate in candidates if candidate.label == self._decision.chosen)
        self.estimator_ = self._made(chosen).fit(X, y, items=items, gold=gold, progress=progress, engine=engine)
        self.model_, self.classes_ = self.estimator_.model_, self.estimator_.classes_
        self.result_ = replace(self.estimator_.result_, method=f"{self.name}: {chosen.label}")
        return self

    def _decided(self, features: Any, votes: Annotations, candidates: tuple[Candidate, ...], seed: int) -> Decision:
        if not hasattr(features, "shape"):
            others = [Row(candidate.label) for candidate in candidates]
            name = next((c.label for c in candidates if c.method == _ON_OTHER_ROWS), candidates[-1].label)
            return fall_back(name, others, "X is no array, whose rows could be dealt into folds")
        rows = [_row(candidate, features) for candidate in candidates]
        tried = [row.method for row in rows if row.eligible]
        sample = np.flatnonzero(votes.votes_per_item > 0)
        reason = "there is one class only" if votes.n_classes < 2 else "there is one candidate" if len(tried) < 2 else ""
        if not reason and len(sample) < _FEWEST_ITEMS:
            tried.sort(key=lambda label: label != _ON_FEW_ITEMS)
            reason = f"only {len(sample):,} items have votes, and {_FEWEST_ITEMS} are needed"
        if not reason:
            # Operations are as good as proportional to rows.
            each = {c.label: self.folds * training_operations(c, features, votes.n_classes) / len(sample) for c in candidates}
            wanted = int(self.operations / sum(each[name] for name in tried))
            size = min(len(sample), max(wanted, _FEWEST_SAMPLED))
            sample = np.sort(np.random.default_rng(seed).permutation(sample)[:size])
            keep_affordable(rows, {name: size * one for name, one in each.items()}, self.operations)
            left = sum(row.eligible for row in rows)
            reason = f"{self.operations:.1e} operations are enough for {left} of {len(tried)} candidates" if left < 2 else ""
        if reason:
            return fall_back((tried or [candidates[0].label])[0], rows, reason)
        _warn_of_skipped(rows)
        return self._compared(NewRows(features, votes, sample, self.folds, seed), {c.label: c for c in candidates}, rows)

    def _compared(self, held: NewRows, candidates: dict[str, Candidate], rows: list[Row]) -> Decision:
        tried = [row.method for row in rows if row.eligible]
        held.try_all(rows, lambda label, X, votes: self._made(candidates[label]).fit(X, votes))
        if not any(row.eligible for row in rows):
            return fall_back(tried[0], rows, "no candidate could be measured")
        items = np.arange(len(held.fold))
        return decide(rows, items, standard_errors=self.standard_errors, does="labels new items", per="vote")

    def _made(self, candidate: Candidate) -> CrowdClassifier:
        """A candidate with its settings, and this estimator's seed and confidence."""
        made: CrowdClassifier = make_classifier(candidate.method, **candidate.settings).set_params(confidence=self.confidence)
        if "random_state" in made.get_params(deep=False):
            made.set_params(random_state=self.random_state)
        return made

    # -- using a fit ---------------------------------------------------------------------------

    def predict_proba(self, X: Any, votes: Any = None) -> Floats:
        """As the chosen classifier does."""
        return self._estimator().predict_proba(X, votes)

    def predict(self, X: Any, votes: Any = None) -> Array:
        """As the chosen classifier does."""
        return self._estimator().predict(X, votes)

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


def _warn_of_skipped(rows: list[Row]) -> None:
    skipped = [row.method for row in rows if row.note.startswith("skipped")]
    if skipped:
        warnings.warn(
            f"not compared, as they take too many operations: {', '.join(skipped)}; raise operations= for them",
            DataWarning,
            stacklevel=4,
        )


def _row(candidate: Candidate, features: Any) -> Row:
    """A candidate that is still to be tried, or why it is not."""
    table = len(features.shape) == 2 and (isinstance(features, np.ndarray) or hasattr(features, "tocsr"))
    if not table and not candidate.network:
        return Row(candidate.label, note="left out: for tables only", eligible=False)
    if candidate.network and find_spec("torch") is None:
        return Row(candidate.label, note="left out: it needs torch", eligible=False)
    return Row(candidate.label, candidate.rank)
