"""Bayesian sequence combination (BSC-seq): annotators whose tag depends on their own previous tag, variational Bayes.

Model      p(z) = prod over sequences of d[z_1] prod_t A[z_t-1, z_t]
           P(a says l at t | z_t = k, a said m at t - 1) = R_a[m, k, l]
           rows of d, A and R_a have Dirichlet priors; what BIO forbids has no parameter in A
q          q(z) q(d) q(A) q(R): forward-backward with exp E log d, A, R; Dirichlets = prior + expected counts

Notes
-----
Below, an annotator together with a previous tag counts as an annotator: so `DirichletConfusion` serves as it is, and
memory grows with the pairs that occur. Before a sequence, and where the annotator left the token before out, the previous tag
counts as O. Starts from vote shares; the evidence bound never falls. Cost per iteration: O(N K^2 + E K).

References
----------
Simpson and Gurevych (2019): A Bayesian approach for sequence tagging with crowds, EMNLP.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.token_votes import TokenVotes
from crowdwise.engines.loop import ABOUT_TOL, Progress
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.chains import Steps
from crowdwise.kernels.types import Array, Floats
from crowdwise.methods.tags.base import SequenceMethod, shares_of
from crowdwise.methods.tags.engine import ChainFit, fit_chain
from crowdwise.methods.tags.scheme import Tags
from crowdwise.methods.tags.scoring import first_tokens
from crowdwise.methods.tags.transitions import DirichletTransitions, TransitionModel
from crowdwise.methods.tags.word_features import ABOUT_DECAY, ABOUT_FEATURES, FEATURES, feature_chain
from crowdwise.parts.annotators.model import DirichletConfusion

__all__ = ["BSC", "by_previous_tag", "previous_tags"]


@dataclass(eq=False, repr=False, kw_only=True)
class BSC(SequenceMethod):
    """BSC-seq (Simpson and Gurevych, 2019): annotators conditioned on their previous tag, Dirichlet priors.

    Examples
    --------
    >>> from crowdwise.data.token_votes import TokenVotes
    >>> tags = TokenVotes.from_arrays([1] * 6, [1, 2] * 3, ["x", "x", "y", "y", "z", "z"],
    ...     ["B-PER", "I-PER", "B-PER", "I-PER", "B-PER", "O"])
    >>> BSC().fit(tags).labels_.tolist()
    ['B-PER', 'I-PER']
    """

    diagonal: float = setting(5.0, "Dirichlet parameter of a right tag.", above=0)
    off_diagonal: float | None = setting(
        None, "Dirichlet parameter of each wrong tag; by default 2 / (K - 1).", above=0, optional=True
    )
    transition_prior: float = setting(1.0, "Dirichlet parameter of every transition that is allowed.", above=0)
    features: str = setting("none", ABOUT_FEATURES, choices=FEATURES)
    feature_decay: float = setting(1.0, ABOUT_DECAY, above=0)
    max_iter: int = setting(200, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, low=0)

    name: ClassVar[str] = "bsc"

    def _fit(self, tags: TokenVotes, steps: Steps, scheme: Tags, progress: Progress | None) -> ChainFit:
        votes = by_previous_tag(tags)[0]
        return fit_chain(
            votes,
            steps,
            self._chain(tags, steps, scheme),
            DirichletConfusion.start(self._row_prior(votes.n_classes)[None], votes.n_annotators),
            start=shares_of(tags),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )

    def _chain(self, tags: TokenVotes, steps: Steps, scheme: Tags) -> TransitionModel:
        if self.features == "words":
            return feature_chain(tags, steps, self._allowed(scheme), self.feature_decay)
        return DirichletTransitions.start(self._allowed(scheme), self.transition_prior)

    def _row_prior(self, n_classes: int) -> Floats:
        """Dirichlet parameters of a confusion matrix before any vote, [L, K]."""
        wrong = 2 / max(n_classes - 1, 1) if self.off_diagonal is None else self.off_diagonal
        return np.where(np.eye(n_classes, dtype=bool), self.diagonal, wrong)

    def _confusion(self, tags: TokenVotes, fit: ChainFit) -> Floats:
        """Expected counts over all previous tags, with the prior once, [A, K, L]."""
        votes = tags.votes
        prior = self._row_prior(votes.n_classes)
        total = np.repeat(prior[None], votes.n_annotators, axis=0)
        owner = by_previous_tag(tags)[1]
        assert isinstance(fit.annotators, DirichletConfusion)
        np.add.at(total, owner, fit.annotators.beta_alk - prior)
        return np.asarray((total / total.sum(axis=1, keepdims=True)).transpose(0, 2, 1))


def previous_tags(tags: TokenVotes) -> Array:
    """What the same annotator said of the token before, for every vote, [E]; O (or K, if there is no O) where nothing."""
    votes = tags.votes
    outside = np.flatnonzero(votes.classes == "O")
    nothing = int(outside[0]) if len(outside) else votes.n_classes
    order = np.argsort(votes.annotator, kind="stable")
    who, item = votes.annotator[order], votes.item[order]
    joined = (np.diff(who) == 0) & (np.diff(item) == 1) & ~first_tokens(tags.sequence_ptr)[item[1:]]
    previous = np.full(votes.n_votes, nothing)
    previous[order[1:][joined]] = votes.label[order[:-1][joined]]
    return previous


def by_previous_tag(tags: TokenVotes) -> tuple[Annotations, Array]:
    """The votes, with an annotator for every pair of annotator and previous tag that occurs, and whose pair it is."""
    votes = tags.votes
    width = votes.n_classes + 1
    pairs, code = np.unique(votes.annotator.astype(np.int64) * width + previous_tags(tags), return_inverse=True)
    return replace(votes, annotator=code.astype(np.int32), annotators=pairs), pairs // width
