"""Two stages: aggregate the votes, then train a classifier on the posterior.

    stage 1    q_n = posterior of item n by any label-only method
    stage 2    max over theta of  sum_n sum_k q_nk log f_theta(x_n)_k

The classifier never sees a vote and the aggregation never sees a feature; every other method here asks what is gained by
doing both at once. Labels are the aggregation's, too, except for items without votes. With votes on new rows,
`predict_proba(X, votes)` does combine classifier and annotators.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from crowdwise.data.annotations import Annotations
from crowdwise.engines.loop import Progress
from crowdwise.errors import DataWarning, SettingError
from crowdwise.estimator.aggregator import Aggregator
from crowdwise.estimator.estimator import check_settings, random_state_setting, setting
from crowdwise.estimator.outcome import Result
from crowdwise.estimator.registry import find, label_methods, make
from crowdwise.kernels.numerics import harden
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import CrowdClassifier, Learned, Model
from crowdwise.methods.classify.logistic_model import LogisticModel
from crowdwise.methods.classify.raykar import teaching_items
from crowdwise.methods.classify.soft_fit import SklearnModel, check_classifier, fitted_classifier, some_rows, takes_weights
from crowdwise.parts.annotators.model import AnnotatorModel, Confusion
from crowdwise.parts.priors.logistic import LogisticPrior, log_softmax

__all__ = ["TwoStage"]


_MOST_STEPS = 1000


@dataclass(eq=False, repr=False, kw_only=True)
class TwoStage(CrowdClassifier):
    """Any aggregation, then any classifier.

    Examples
    --------
    >>> from crowdwise.data.datasets import crowd_digits
    >>> X, votes, truth = crowd_digits()
    >>> model = TwoStage(aggregator="one-coin").fit(X[:300], votes[:300])
    >>> bool(model.score(X[300:], truth[300:]) > 0.8)
    True
    """

    aggregator: Any = setting(
        "dawid-skene", "Label-only method: its name, or an estimator with settings of its own.", free=True
    )
    classifier: Any = setting(
        "logistic",
        '"logistic"; "network", the default network; a `SoftNetwork` with settings of its own; or any scikit-learn classifier.',
        choices=("logistic", "network"),
        free=True,
    )
    soft: bool = setting(True, "Train on class probabilities; otherwise on the likeliest label of every item.")
    l2: float | None = setting(
        None,
        "L2 penalty of logistic regression on scaled columns (1 / C of scikit-learn); by default columns / 3.",
        low=0,
        optional=True,
    )
    random_state: int | None = random_state_setting("Seed of the network.")

    name: ClassVar[str] = "two-stage"

    @property
    def takes_images(self) -> bool:
        """Whether rows may be images: where the second stage is a network."""
        return self.has_network

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows go as they are to a classifier of scikit-learn."""
        return not isinstance(self.classifier, str | CrowdClassifier)

    @property
    def has_network(self) -> bool:
        """Whether the second stage is a network."""
        return (
            self.classifier == "network" if isinstance(self.classifier, str) else isinstance(self.classifier, CrowdClassifier)
        )

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        _check_classifier(self.classifier)
        stage_one = self.aggregation_ = self._aggregated(votes, progress)
        target = stage_one.model_posterior if self.soft else harden(stage_one.model_posterior)
        annotators = _annotators_of(stage_one)
        log_prior = log_softmax(np.repeat(stage_one.prior.log_prob(), votes.n_items, axis=0))
        if self.has_network:
            done = self._network(target)._learn(features, votes, progress)
            return replace(done, annotators=annotators, log_prior=_seen_by(done.model, features, votes, log_prior))
        taught = teaching_items(votes)
        model: Model
        if isinstance(self.classifier, str):
            start = LogisticPrior.start(features[taught], votes.n_classes, l2=self.l2, steps=_MOST_STEPS)
            model = LogisticModel(start.update(target[taught]).raw_weights)
        else:
            model = _fitted_classifier(self.classifier, some_rows(features, taught), target[taught], soft=self.soft)
        log_prior = _seen_by(model, features, votes, log_prior)
        return Learned(model, annotators, stage_one.trace, stage_one.n_iter, stage_one.converged, log_prior)

    def _aggregated(self, votes: Annotations, progress: Progress | None) -> Result:
        """Stage 1."""
        if isinstance(self.aggregator, str):
            find(self.aggregator, label_methods(), "label-only method (aggregator)")
            # One annotator leaves nothing to aggregate.
            method = make("majority" if votes.n_annotators == 1 else self.aggregator)
        elif isinstance(self.aggregator, Aggregator):
            method = clone(self.aggregator)
        else:
            raise SettingError(f"aggregator must be a label-only method or its name; got {type(self.aggregator).__name__}")
        result: Result = method.fit(votes, progress=progress).result_
        return result

    def _members(self) -> dict[str, bytes]:
        if isinstance(self.model_, SklearnModel):
            raise SettingError(
                f"a {type(self.model_.classifier).__name__} cannot be saved without pickle; "
                'use classifier="logistic" or "network", or keep the estimator in memory'
            )
        return super()._members()

    def _name_network(self, network: Any) -> None:
        if not isinstance(self.model_, LogisticModel) and (network is not None or not self.has_network):
            from crowdwise.methods.classify.soft_network import SoftNetwork

            # A network with settings of its own is not saved with them.
            self.classifier = "network" if network is None else SoftNetwork(network=network)

    def _network(self, target: Floats) -> CrowdClassifier:
        from crowdwise.methods.classify.soft_network import SoftNetwork

        network = SoftNetwork(random_state=self.random_state) if isinstance(self.classifier, str) else clone(self.classifier)
        check_settings(network.set_params(init=target))
        made: CrowdClassifier = network
        return made


def _seen_by(model: Model, features: Any, votes: Annotations, log_prior: Floats) -> Floats:
    """Where an item has no votes, the classifier's opinion instead of the class shares, [N, K]."""
    silent = votes.votes_per_item == 0
    return np.where(silent[:, None], model.log_prob(features), log_prior) if silent.any() else log_prior


def _check_classifier(classifier: Any) -> None:
    own = isinstance(classifier, CrowdClassifier) and classifier.name == "soft-network"
    if not isinstance(classifier, str) and not own:
        check_classifier(classifier, "classifier")


def _annotators_of(stage_one: Result) -> AnnotatorModel:
    """The aggregation's, or, where it only counts votes, confusion matrices counted under its posterior."""
    annotators: AnnotatorModel = stage_one.annotators
    if stage_one.trace:
        return annotators
    votes = stage_one.votes
    one_vote = np.full((1, votes.n_classes, votes.n_classes), 1 / votes.n_classes)
    return Confusion.start(one_vote, votes.n_annotators).update(votes, stage_one.model_posterior)


def _fitted_classifier(classifier: Any, features: Any, target: Floats, *, soft: bool) -> SklearnModel:
    """Fit a scikit-learn classifier, and say so where it cannot learn soft labels."""
    if soft and not takes_weights(classifier):
        warnings.warn(
            f"the fit of {type(classifier).__name__} takes no sample_weight: trained on the likeliest labels "
            "(soft=False says so)",
            DataWarning,
            stacklevel=5,
        )
    return fitted_classifier(classifier, features, target, soft=soft)
