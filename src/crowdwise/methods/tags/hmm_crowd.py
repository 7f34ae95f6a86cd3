"""HMM-crowd: tags that follow each other as a Markov chain, a confusion matrix or vector per annotator, EM.

Model      p(z) = prod over sequences of d[z_1] prod_t A[z_t-1, z_t];  P(annotator a says l | z_t = k) = R_a[k, l]
E-step     forward-backward over every sequence, evidence of a token = prod over its votes of R_a[:, l]
M-step     d, A proportional to expected counts + transition_smoothing; R_a as in Dawid-Skene

Notes
-----
Starts from the vote shares of every token. The paper fits Dirichlet posteriors of the annotators by variational Bayes; here
they are MAP points, as in `dawid-skene`, and the objective (log-evidence plus log prior) never falls. The default is
the matrix: the vector spreads wrong answers evenly over all tags, although B-X is taken for O or I-X far more often
than for other types. Cost per iteration: O(N K^2 + E K).

References
----------
Nguyen, Wallace, Li, Nenkova and Lease (2017): Aggregating and predicting sequence labels from crowd annotations, ACL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from crowdwise.data.token_votes import TokenVotes
from crowdwise.engines.loop import ABOUT_TOL, Progress
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.chains import Steps
from crowdwise.kernels.types import Floats
from crowdwise.methods.tags.base import SequenceMethod, shares_of
from crowdwise.methods.tags.engine import ChainFit, fit_chain
from crowdwise.methods.tags.scheme import Tags
from crowdwise.methods.tags.transitions import TransitionModel, Transitions
from crowdwise.methods.tags.word_features import ABOUT_DECAY, ABOUT_FEATURES, FEATURES, feature_chain
from crowdwise.parts.annotators.accuracy import ClassAccuracy
from crowdwise.parts.annotators.model import AnnotatorModel, Confusion, row_smoothing

__all__ = ["HMMCrowd"]


@dataclass(eq=False, repr=False, kw_only=True)
class HMMCrowd(SequenceMethod):
    """HMM-crowd (Nguyen et al., 2017): Markov tags, confusion per annotator, EM.

    Examples
    --------
    >>> from crowdwise.data.token_votes import TokenVotes
    >>> tags = TokenVotes.from_arrays([1] * 6, [1, 2] * 3, ["x", "x", "y", "y", "z", "z"],
    ...     ["B-PER", "I-PER", "B-PER", "I-PER", "B-PER", "O"])
    >>> HMMCrowd().fit(tags).labels_.tolist()
    ['B-PER', 'I-PER']
    """

    annotators: str = setting(
        "matrix", "What an annotator is: a confusion matrix, or a vector of one accuracy per tag.", choices=("matrix", "vector")
    )
    smoothing: float | None = setting(
        None, "Pseudo-votes per tag added to every confusion row; by default 1 / K.", low=0, optional=True
    )
    transition_smoothing: float = setting(1.0, "Pseudo-count of every transition that is allowed.", low=0)
    features: str = setting("none", ABOUT_FEATURES, choices=FEATURES)
    feature_decay: float = setting(1.0, ABOUT_DECAY, above=0)
    max_iter: int = setting(200, "Most iterations.", low=1, whole=True)
    tol: float = setting(1e-6, ABOUT_TOL, low=0)

    name: ClassVar[str] = "hmm-crowd"

    def _fit(self, tags: TokenVotes, steps: Steps, scheme: Tags, progress: Progress | None) -> ChainFit:
        return fit_chain(
            tags.votes,
            steps,
            self._chain(tags, steps, scheme),
            self._start(tags),
            start=shares_of(tags),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=progress,
        )

    def _chain(self, tags: TokenVotes, steps: Steps, scheme: Tags) -> TransitionModel:
        if self.features == "words":
            return feature_chain(tags, steps, self._allowed(scheme), self.feature_decay)
        return Transitions.start(self._allowed(scheme), self.transition_smoothing)

    def _start(self, tags: TokenVotes) -> AnnotatorModel:
        votes = tags.votes
        pseudo = 1 / votes.n_classes if self.smoothing is None else self.smoothing
        if self.annotators == "matrix":
            return Confusion.start(row_smoothing(votes, pseudo), votes.n_annotators)
        size = (votes.n_annotators, votes.n_classes)
        # The same number of pseudo-votes per row, two of three right.
        return ClassAccuracy.start(np.full(size, pseudo * votes.n_classes * 2 / 3), np.full(size, pseudo * votes.n_classes / 3))

    def _confusion(self, tags: TokenVotes, fit: ChainFit) -> Floats:
        assert fit.annotators is not None
        found = fit.annotators.confusion()
        assert found is not None
        return found
