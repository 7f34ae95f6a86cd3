"""The shell of every feature-based method: a scikit-learn classifier that also knows its annotators.

A method supplies `_learn`, which returns a `Learned`: something with class probabilities for new rows,
and the fitted annotator model. The shell validates, aligns features and votes, infers the labels of the
training items from both, and keeps one `Result`, so reports, detectors and policies work on it as on any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.weights import check_safetensors
from crowdwise.errors import InputError, NotFittedError
from crowdwise.estimator.aggregator import ResultViews
from crowdwise.estimator.carry import positions
from crowdwise.estimator.estimator import Estimator, check_tables
from crowdwise.estimator.judgement import exponent_of
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.storage import check_folder
from crowdwise.kernels.numerics import best_class, tempered
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.methods.classify.align import aligned_votes, labels_of, n_rows_of, votes_on_rows, warn_of_unseen
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.named_features import forget_unused
from crowdwise.methods.classify.stored import members_of, restored
from crowdwise.parts.annotators.model import predictive
from crowdwise.parts.priors.rows import RowPrior

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress
    from crowdwise.parts.annotators.model import AnnotatorModel

    # scikit-learn has no types, and below a base that is `Any`, type checkers let every misspelt setting pass.
    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

else:
    from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["CrowdClassifier", "Learned", "Model"]


_COLUMNS, _ROW_SHAPE = "feature_names_in_", "row_shape_"


class Model(Protocol):
    """A fitted classifier; to be saved, it is @storable or a network (see `crowdwise.methods.classify.stored`)."""

    def log_prob(self, features: Any) -> Floats:
        """Log class probabilities, [N, K]."""
        ...


@dataclass(frozen=True, eq=False)
class Learned:
    """What a method returns; `log_prior` [N, K] where it is not what the model says of the rows."""

    model: Model
    annotators: AnnotatorModel
    trace: dict[str, Floats]
    n_iter: int
    converged: bool
    log_prior: Floats | None = None


class _NotFitted(NotFittedError, SklearnNotFittedError):
    """Known to those who catch either library's."""


class CrowdClassifier(ResultViews, ClassifierMixin, BaseEstimator):
    """Base of the feature-based methods."""

    # Settings of settings, as scikit-learn's searches read them; and change them, by names such as "classifier__C".
    get_params = BaseEstimator.get_params

    def set_params(self, **params: Any) -> Self:
        """Change settings by name, those of a setting that is an estimator as ``setting__name``."""
        own = {name: value for name, value in params.items() if "__" not in name}
        super().set_params(**own)
        BaseEstimator.set_params(self, **{name: value for name, value in params.items() if name not in own})
        return self

    # Fitted names that are saved beside the model, where a fit leaves them.
    _saved: ClassVar[tuple[str, ...]] = ("n_features_in_", _COLUMNS, _ROW_SHAPE, "history_")

    @property
    def has_network(self) -> bool:
        """Whether a network is trained."""
        return False

    @property
    def takes_images(self) -> bool:
        """Whether rows may be images, tensors and datasets, not tables of numbers alone."""
        return False

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows go as they are to an estimator of scikit-learn: frames, texts, missing values."""
        return False

    #: Whether rows may come as a stream, in any order.
    takes_streams: ClassVar[bool] = True

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        raise NotImplementedError

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
        """Fit to features and votes.

        Parameters
        ----------
        X : [N, ...]
            One row per item: an array or data frame, a scipy sparse matrix, a memory-mapped array, and for
            networks also images, tensors, torch datasets (of arrays or of dicts), dicts of arrays as tokenisers give them,
            and streams: a `DataLoader` or `IterableDataset` whose batches are ``(features, item ids)``. An estimator of
            scikit-learn within `CrowdEM` or `TwoStage` gets whatever it takes: frames, texts, missing values.
        y : Annotations, frame, matrix or labels
            The votes. A plain sequence of N labels is one annotator, and so are one-hot labels and probabilities [N, K];
            probabilities [N, A, K] are those of several.
        items : sequence, optional
            Ids of the rows of X. Without it, rows are in the order of the votes' items.
        gold : mapping, frame or sequence, optional
            Known labels of some items.
        progress : callable, optional
            Called after every epoch or iteration with (number, objective, change or held-out score).
        engine : optional
            Trains in other processes: `crowdwise.scale.Torchrun` or `crowdwise.scale.RayTrain`.
        """
        self._check_fit(other, gold=gold, engine=engine)
        if engine is not None:
            engine.train(self, X, y, items=items, gold=gold, progress=progress)
            return self
        features = checked_features(self, X, fitting=True, images=self.takes_images)
        self._fit_to(features, aligned_votes(features, y, items, gold, named=X), progress)
        return self

    def _fit_to(self, features: Any, votes: Annotations, progress: Progress | None) -> None:
        """Learn from checked features and votes, and keep what was learned."""
        check_tables(votes.n_annotators, votes.n_classes, votes.n_votes)
        done = self._learn(features, votes, progress)
        self.model_ = done.model
        self.classes_ = votes.classes
        forget_unused(self)
        log_prior = done.model.log_prob(features) if done.log_prior is None else done.log_prior
        posterior = np.zeros((votes.n_items, votes.n_classes))
        done.annotators.infer(votes, log_prior, votes.known_codes, posterior)
        self.result_ = Result.of_fit(
            method=self.name,
            settings=self.kept_settings(),
            seed=getattr(self, "random_state", None),
            votes=votes,
            posterior=posterior,
            prior=RowPrior(log_prior),
            annotators=done.annotators,
            history=None,
            trace=done.trace,
            n_iter=done.n_iter,
            converged=done.converged,
        )

    def kept_settings(self) -> dict[str, Any]:
        """Settings that the outcome keeps."""
        return self.get_params(deep=False)

    # -- using a fit ---------------------------------------------------------------------------

    def predict_proba(self, X: Any, votes: Any = None) -> Floats:
        """Class probabilities of new rows, [N, K]; with votes on them, the posterior given both.

        Row n of X is item n of `votes`; of a stream with ids, votes go to the row with their id. Annotators never seen
        in the fit get the population's model. Given votes, it is as sure as the setting `confidence` says; without, it is
        what the classifier says: experience with crowds is about votes.
        """
        posterior, votes = self._infer(X, votes)
        if votes is None or self.confidence == "model":
            return posterior
        result = self._fitted()
        exponent = exponent_of(result.method, result.votes.anonymous)
        return tempered(posterior, np.maximum(votes.weight_per_item, 1) ** exponent)

    def _infer(self, X: Any, votes: Any) -> tuple[Floats, Annotations | None]:
        """Class probabilities of rows by the model, [N, K], and their votes where there are any."""
        result = self._fitted()
        features = checked_features(self, X, fitting=False, images=self.takes_images)
        log_prob = self.model_.log_prob(features)
        if votes is None:
            return np.exp(log_prob), None
        votes = votes_on_rows(votes, result.votes, features)
        if votes.n_items != len(log_prob):
            raise InputError(f"X has {len(log_prob):,} rows but there are {votes.n_items:,} items with votes")
        who = positions(votes.annotators, result.votes.annotators)
        posterior = np.zeros((votes.n_items, votes.n_classes))
        self._annotators_on(features, who).infer(votes, self._prior(votes, log_prob), np.empty(0, np.int16), posterior)
        return posterior, votes

    def predict(self, X: Any, votes: Any = None) -> Array:
        """Labels of new rows, [N]; with votes on them, from both."""
        # By the model: tempering keeps the order of classes but may bring them closer than a tie.
        posterior = self._infer(X, votes)[0]
        return np.asarray(self.classes_[best_class(posterior, self._fitted().class_prior)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy for one label per row, one-hot or not; for votes, the mean log-probability of a vote, which needs no truth.

        So cross-validation on votes alone works: ``GridSearchCV(..., cv=5).fit(X, votes)``.
        """
        result = self._fitted()
        labels = labels_of(y, result.votes)
        if labels is not None:
            warn_of_unseen(labels, self.classes_)
            return float(super().score(X, labels, sample_weight))
        if sample_weight is not None:
            raise InputError("sample_weight weighs labels, and votes have weights of their own; leave it out")
        features = checked_features(self, X, fitting=False, images=self.takes_images)
        log_prob = self.model_.log_prob(features)
        votes = votes_on_rows(y, result.votes, features)
        if votes.n_items != len(log_prob):
            raise InputError(f"X has {len(log_prob):,} rows but there are {votes.n_items:,} items with votes")
        model = self._annotators_on(features, positions(votes.annotators, result.votes.annotators))
        evidence, _ = predictive(model).infer(
            votes, self._prior(votes, log_prob), np.empty(0, np.int16), np.zeros_like(log_prob)
        )
        mass = votes.total_weight
        return evidence / mass if mass > 0 else 0.0

    def _before_votes(self, log_prob: Floats) -> Floats:
        """What the classifier's answer, [N, K], counts for where there are votes too."""
        return log_prob

    def _prior(self, votes: Annotations, log_prob: Floats) -> Floats:
        """What is known of the items before their votes; the classifier's own answer where there are none."""
        return np.where((votes.votes_per_item > 0)[:, None], self._before_votes(log_prob), log_prob)

    def _annotators_on(self, features: Any, who: Integers) -> AnnotatorModel:
        """The annotators' part for new rows; a method whose annotators read features overrides it."""
        model: AnnotatorModel = self._fitted().annotators
        return model.aligned(who, np.full(n_rows_of(features), -1))

    # -- saving --------------------------------------------------------------------------------

    def check_save(self, folder: str | PathLike[str]) -> None:
        """Refuse, before training, what `save` would refuse after it."""
        check_folder(folder)
        if self.has_network:
            check_safetensors()

    def _members(self) -> dict[str, bytes]:
        fitted = {name: getattr(self, name) for name in self._saved if hasattr(self, name)}
        if _COLUMNS in fitted:
            fitted[_COLUMNS] = fitted[_COLUMNS].tolist()
        return members_of(self.name, self.model_, fitted)

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        device = getattr(self, "device", "auto")
        model, fitted = restored(members, outcome, row_shape=_ROW_SHAPE, device=device, network=network)
        unknown = next((name for name in fitted if name not in self._saved), None)
        if unknown is not None:
            raise ValueError(f"an unknown fitted value {unknown!r}")
        if "n_features_in_" in fitted and [fitted["n_features_in_"]] != list(fitted.get(_ROW_SHAPE, ())):
            raise ValueError(f"{fitted['n_features_in_']!r:.40} features in rows of another shape")
        if _COLUMNS in fitted:
            fitted[_COLUMNS] = np.array(fitted[_COLUMNS], dtype=object)
        for name, value in fitted.items():
            setattr(self, name, value)
        self.model_, self.classes_ = model, outcome.votes.classes
        self._name_network(network)

    def _name_network(self, network: Any) -> None:
        """After loading: settings that say what the network was, where it could not be saved."""

    def _fitted(self) -> Result:
        if "result_" not in vars(self):
            raise _NotFitted(f"this {type(self).__name__} is not fitted yet; call fit(X, votes) first")
        result: Result = vars(self)["result_"]
        return result

    def __sklearn_tags__(self) -> Any:
        # Not the bare ones of `Estimator`, which does not load scikit-learn.
        tags = super(Estimator, self).__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return super().__repr__()
