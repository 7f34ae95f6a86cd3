"""DALC: a network with dropout, and annotators whose reliability follows from a few traits of the item (Yang et al. 2018).

The model alone, which the paper calls DLC; whom to ask about what is a matter of policies.

Model      p(z = k | x) = f(x)_k, a network with dropout
           P(vote of a = z | x) = eta(x, a) = sigmoid(u_a . F (x, 1)), wrong labels uniform; u_a in R^d
E-step     a vote adds  logit eta + log(K - 1)  to the class it names; the prior is the mean of f over passes with dropout
M-step     an epoch of f on q (some of a small set); given F, all u_a by Newton steps; given u, F by L-BFGS

Notes
-----
Where we depart from the paper. Embeddings are drawn around the crowd's mean, not around zero, so that an annotator with
few votes or none is like the crowd rather than a coin. F has a penalty too: without it, F grows while the embeddings
shrink. The penalties grow with the root of the number of votes, as noise does; the paper's 0.01 leaves embeddings free to
explain a dozen votes by chance, and the labels follow. They grow to the whole over ten rounds, because under the noisy
labels of the start experts look alike. Any number of classes; Newton and L-BFGS instead of a step per vote. Cost of a
round: O(N D d + E d^2) and the passes; memory O(N D + E + A d^2), never items x annotators.

References
----------
Yang, Drake, Damianou and Maarek (2018), Leveraging crowdsourcing data for deep active learning, an application: learning
intents in Alexa, WWW.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, vocabulary_array
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.loop import Progress
from crowdwise.errors import SettingError
from crowdwise.estimator.carry import positions
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import NetworkModel, materialised
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.annotators.expertise import Expertise, Factors, infer_labels
from crowdwise.parts.heads.dropping import drops
from crowdwise.parts.heads.expertise import ExpertiseHead, HiddenRows
from crowdwise.parts.priors.scaling import Scaling

__all__ = ["DALC"]


# Rounds of the last inference, under the finished network, and the mean change of an item that ends them.
_LAST_ROUNDS, _LAST_CHANGE = 20, 1e-6
# Steps of the network, or a few less, from one round of EM to the next: on a small set, an epoch changes next to nothing.
_STEPS = 10


@dataclass(eq=False, repr=False, kw_only=True)
class DALC(NeuralClassifier):
    """Network with dropout x low-rank expertise of annotators, by EM."""

    dropout_passes: int = setting(
        20,
        "Passes with dropout left on that are averaged, in the E-step and in predictions; a network without dropout answers "
        "once.",
        low=0,
        whole=True,
    )
    rank: int = setting(10, "Traits of an item on which reliability depends.", low=1, whole=True)
    embedding: str = setting(
        "low-rank",
        "low-rank, or full: weights per annotator and feature (the paper's DLC/Sparse).",
        choices=("low-rank", "full"),
    )
    reads: str = setting(
        "features",
        "What traits are made of: the features, or hidden, what the network's last linear layer reads.",
        choices=("features", "hidden"),
    )
    penalty: float | None = setting(
        None,
        "L2 penalty that holds embeddings to the crowd's; by default 0.2 sqrt(votes) (1 + sqrt(columns / annotators)), or for "
        "full ones the number of columns.",
        above=0,
        optional=True,
    )
    projection_penalty: float | None = setting(
        None, "L2 penalty of what makes traits of features; by default as that of embeddings.", above=0, optional=True
    )
    init: Any = setting(
        "majority",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares, without a warm-up), or a '
        "posterior [N, K].",
        free=True,
    )
    alternations: int = setting(3, "Turns between embeddings and traits before every epoch.", low=1, whole=True)

    name: ClassVar[str] = "dalc"
    _saved: ClassVar[tuple[str, ...]] = (*NeuralClassifier._saved, "embedding_", "projection_")
    # Traits are read on the way through the network, in the order of the rows.
    takes_streams: ClassVar[bool] = False

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        # As the base's, which would refuse a network without dropout: here it answers once.
        made, spec = self._made(rows, start.n_classes)
        return materialised(made, rows).to(start.dtype), spec

    def _head(self, votes: Annotations, start: Start) -> ExpertiseHead:
        network, table = start.network, start.table
        assert network is not None
        seed = int(torch.randint(2**31, (1,)))
        factors = Factors.start(
            votes,
            HiddenRows.width_of(network) if table is None else table.shape[1],
            np.random.default_rng(seed),
            rank=self.rank,
            full=self.embedding == "full",
            penalty=self.penalty,
            projection_penalty=self.projection_penalty,
        )
        passes, alternations = self.dropout_passes, self.alternations
        every = max(1, _STEPS * self.batch_size // max(votes.n_items, 1))
        return ExpertiseHead(
            votes, factors, start.posterior, network, table, passes=passes, alternations=alternations, every=every, seed=seed
        )

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        scaling, table = self._scaled(features) if self.reads == "features" else (None, None)
        done = self._train(features, votes, progress, table)
        model, head, log_prior = done.model, self.head_, done.log_prior
        assert isinstance(model, NetworkModel)
        assert isinstance(head, ExpertiseHead)
        assert log_prior is not None
        once = _plain(model)
        if not drops(lambda: once.log_prob(features)):
            model = replace(model, passes=0)
        if scaling is None:
            scaling, table = HiddenRows(model.network).read(lambda: _plain(model).log_prob(features))
        factors, annotators = _settled(head, table, votes, log_prior)
        # The features belong to the caller; a fitted model keeps what it made of them.
        head.table = None
        self.embedding_ = factors.embedding
        self.projection_ = scaling.raw_weights(factors.projection.T)
        return replace(done, model=model, annotators=annotators)

    # -- using a fit ---------------------------------------------------------------------------

    def expertise(self, X: Any, annotators: Sequence[Any] | None = None) -> Floats:
        """Probability that each annotator labels each row right, eta, [n, A'].

        Parameters
        ----------
        X : [n, ...]
            Rows, seen in the fit or not.
        annotators : sequence, optional
            Ids of the annotators, in the order of the columns; by default all of the fit. One never seen is like the
            crowd. For many rows and annotators, multiply `traits(X)` and `embedding_` some at a time instead.
        """
        result = self._fitted()
        traits = self.traits(X)
        model: Expertise = result.annotators
        if annotators is not None:
            ids = vocabulary_array(tidy(series_of(np.asarray(annotators))))
            model = model.aligned(positions(ids, result.votes.annotators), np.empty(0, np.int64))
        return model.reliability(traits)

    def traits(self, X: Any) -> Floats:
        """F (x, 1) of rows, [n, d]: eta is the sigmoid of their products with rows of `embedding_`."""
        self._fitted()
        return self._traits_of(checked_features(self, X, fitting=False, images=self.takes_images))

    def _traits_of(self, features: Any) -> Floats:
        model = self.model_
        assert isinstance(model, NetworkModel)
        rows = _rows_of(features)
        if self.reads == "hidden":
            rows = HiddenRows(model.network).read_raw(lambda: _plain(model).log_prob(features))
        return np.asarray(rows @ self.projection_[:-1] + self.projection_[-1])

    def _annotators_on(self, features: Any, who: Integers) -> Expertise:
        """The annotators' part for new rows: reliability follows the rows' own traits."""
        model: Expertise = self._fitted().annotators
        return replace(model.aligned(who, np.empty(0, np.int64)), traits=self._traits_of(features))

    def _scaled(self, features: Any) -> tuple[Scaling, Any]:
        """The features as a table of scaled columns, [N, D]."""
        rows = _rows_of(features)
        if getattr(rows, "ndim", 0) != 2:
            raise SettingError(
                f'{self.name}: reads="features" makes traits of a table of features (two axes); '
                'for images and datasets set reads="hidden"'
            )
        if self.embedding == "full" and hasattr(rows, "tocsr"):
            raise SettingError(f'{self.name}: embedding="full" has a weight per annotator and column; set embedding="low-rank"')
        scaling = Scaling.of(rows)
        return scaling, scaling.apply(rows)


def _settled(head: ExpertiseHead, table: Any, votes: Annotations, log_prior: Floats) -> tuple[Factors, Expertise]:
    """Annotators and labels taken to their end under the finished network."""
    factors = head.factors
    known = votes.known_codes
    posterior = np.zeros_like(log_prior)
    infer_labels(votes, factors.traits(table), factors.embedding, log_prior, known, posterior)
    for _ in range(_LAST_ROUNDS):
        factors = factors.refined(table, votes, posterior, head.alternations)
        _, change = infer_labels(votes, factors.traits(table), factors.embedding, log_prior, known, posterior)
        if change <= _LAST_CHANGE * votes.n_items:
            break
    return factors, factors.annotators(factors.traits(table), votes.n_classes)


def _plain(model: NetworkModel) -> NetworkModel:
    """The first network, without dropout: its hidden rows are those that traits are made of."""
    return replace(model, networks=model.networks[:1], passes=0)


def _rows_of(features: Any) -> Any:
    """A tensor as an array; everything else as it is."""
    return features.detach().cpu().numpy() if isinstance(features, torch.Tensor) else features
