"""BayesDGC: network potentials x Dirichlet class shares x Dirichlet confusion matrices (Li, Huang and Chen 2021).

Model      p proportional to Dir(d | alpha0) prod_ak Dir(R_ak | beta0_k)
                             prod_n d[z_n] f(x_n)[z_n] prod_{votes e on n} R[a_e, z_n, y_e]
Inference  log q_nk = E log d_k + log f(x_n)_k + sum_e E log R[a_e, k, y_e] + const, in closed form for every batch
Learning   natural-gradient steps of the Dirichlets and steps of the network on -sum q log f, batch by batch

Notes
-----
Without the network this is `bayes-gc`. Since log f is itself the natural parameter of a categorical distribution, the
paper's surrogate potentials equal the true factors: q is the exact optimum and needs no correction. A network trained on
q learns the class shares too; with d beside it they count twice, and in a weak crowd the larger class takes in the
other. d is therefore left out of q unless ``class_shares=True`` asks for the paper's model; its posterior is reported
either way. ``steps="memoised"`` keeps the expected counts of every item, so that the Dirichlets are exact at all times
and no step lowers the bound; ``"natural"`` is the paper's stochastic step, of size `rate` or falling as step ** -0.7.
Other defaults are the paper's: alpha0 = 1.1, 5 on the diagonal, 2 beside it (spread over the K - 1 wrong answers), one
layer of 100 units. q contains f, and f is trained on q: the two can carry each other away; `deep-mf` and `deep-bp`
bound f. Cost: O(E K) per epoch. `trace_` is the evidence lower bound, with the labels and f of every item as its last visit
had them and the Dirichlets at the end of the epoch: see `crowdwise.parts.heads.evidence_bound`.

References
----------
Li, Huang and Chen (2021), Crowdsourcing aggregation with deep Bayesian learning, Science China Information Sciences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.numerics import log_softmax
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.neural import NeuralClassifier
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.variational import settled
from crowdwise.parts.annotators.model import AnnotatorModel
from crowdwise.parts.heads.dirichlet import DirichletHead
from crowdwise.parts.heads.head import Head
from crowdwise.parts.priors.abilities import dirichlet_rows

__all__ = ["BayesDGC"]


@dataclass(eq=False, repr=False, kw_only=True)
class BayesDGC(NeuralClassifier):
    """Network x Dirichlet class shares x Dirichlet confusion matrices, by stochastic variational inference."""

    hidden: int | None = setting(
        100, "Hidden units of the built-in MLP; None sizes it from the data.", low=1, whole=True, optional=True
    )
    dropout: float | None = setting(
        0.0, "Dropout of the built-in networks; None for 0.5 (MLP) or 0.25 (CNN).", low=0, optional=True
    )
    alpha0: float = setting(1.1, "Dirichlet parameter of every class share.", above=0)
    annotator_prior: Any = setting(
        "dir:5,2",
        'Dirichlet prior of confusion rows, "dir:R,W": R on the diagonal, W spread over the wrong labels; or annotator -> such '
        'a prior, with "*" for all others.',
        free=True,
    )
    class_shares: bool = setting(
        False,
        "Dirichlet class shares beside the network, as in the paper; the network learns them too, so that they count twice.",
    )
    steps: str = setting("memoised", "Steps of the Dirichlets: see the notes.", choices=("memoised", "natural"))
    rate: float | None = setting(
        None, "Size of natural steps, at most 1; by default it falls with the number of steps.", above=0, optional=True
    )
    init: Any = setting(
        "majority",
        'Start: the posterior of an aggregation method by its name, "identity" (vote shares, without a warm-up), or a '
        "posterior [N, K].",
        free=True,
    )

    name: ClassVar[str] = "bayes-dgc"
    _saved: ClassVar[tuple[str, ...]] = (*NeuralClassifier._saved, "class_concentration_", "log_shares_")

    def _head(self, votes: Annotations, start: Start) -> DirichletHead:
        if self.rate is not None and self.rate > 1:
            raise SettingError(f"rate must be at most 1; got {self.rate!r}")
        return DirichletHead(
            votes,
            dirichlet_rows(self.annotator_prior, votes.n_classes, votes.annotators),
            self.alpha0,
            start.posterior,
            memoised=self.steps == "memoised",
            rate=self.rate,
            shares=self.class_shares,
        )

    def _before_votes(self, log_prob: Floats) -> Floats:
        return log_softmax(log_prob + self.log_shares_)

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """Inference to its end under the finished network and class shares."""
        head = heads[0]
        assert isinstance(head, DirichletHead)
        self.log_shares_ = head.log_shares().cpu().numpy()
        self.class_concentration_ = head.alpha.cpu().numpy()
        log_prior = self._prior(votes, log_prob)
        annotators, start = head.annotators(), np.zeros_like(log_prob)
        annotators.infer(votes, log_prior, np.empty(0, np.int16), start)
        return settled(votes, annotators, log_prior, start), log_prior
