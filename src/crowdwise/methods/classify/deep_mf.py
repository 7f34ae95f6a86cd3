"""deepMF: a network as the prior of the labels, annotators by mean field (Kim et al. 2022).

Model      p(votes, z, R | x) = prod_a p(R_a) prod_n f(x_n)[z_n] prod_{votes e on n} R[a_e, z_n, y_e]
Inference  before every epoch, with f clipped to the ceiling c:
           q(R_a) = prior conditioned on expected counts (Beta or Dirichlet in closed form)
           log q_nk = log clip(f(x_n))_k + sum_e E log R[a_e, k, y_e] + const
Learning   an epoch of cross-entropy with q, on f as it is

Notes
-----
`mean-field` is the same without features. Kim et al. find it too sure of itself where the prior of the annotators is
wrong and one of them answers everything at random; `deep-bp` is their remedy, at the price of messages. The published
code clips f in the loss too, which stops the network where it is sure; it uses Dirichlet rows for annotators drawn with
one accuracy, here ``family="one-coin"`` or ``"confusion"`` says which. With q := f and R a point, the objective is that
of the crowd layers (CCEM) up to Jensen's inequality, and a Dirichlet prior below one on the diagonal is the trace
penalty: the paper's Table 1. Cost of a round: O(E) for one-coin, else O(E K).

References
----------
Kim, Cho, Kim and Ok (2022), Robust deep learning from crowds with belief propagation, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crowdwise.methods.classify.variational import VariationalClassifier
from crowdwise.methods.labels.mean_field import MeanField

__all__ = ["DeepMF"]


@dataclass(eq=False, repr=False, kw_only=True)
class DeepMF(VariationalClassifier):
    """Network x mean field over annotators with Beta, Dirichlet or discrete priors."""

    name: ClassVar[str] = "deep-mf"

    def _aggregator(self) -> MeanField:
        return MeanField(family=self.family, annotator_prior=self.annotator_prior, annotator_weights=self.annotator_weights)
