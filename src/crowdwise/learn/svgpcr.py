"""SVGPCR: a sparse Gaussian process and Dirichlet confusion matrices (Morales-Alvarez et al. 2020).

Model      f_k ~ GP(0, kappa) for every class;  z_n ~ nu(f(x_n));  R_ak ~ Dir(alpha);  vote of a on n ~ R_a[z_n]
Posterior  q(z_n) q(u_k) prod_ak Dir(R_ak), inducing values u_k at M shared points
Bound      sum_n [ sum_k q_nk (E log nu_k(f_n) + sum_e E log R[a_e, k, y_e]) + H(q_n) ] - KL(u) - KL(R)

Notes
-----
q(z) and q(R) are exact for every batch, where the released code optimises N x K free logits with Adam; q(u) moves along
its natural gradient in closed form; kernel and inducing points by Adam. Inducing points start at k-means centres, the
length scale at their median distance. One kernel is shared by all classes, hence one Cholesky factor. Features are
standardised. Cost of a batch: O(M^3 + K B M^2 + E_b K); of a prediction: O(K M^2).

References
----------
Morales-Alvarez, Ruiz, Coughlin, Molina and Katsaggelos (2020), Scalable variational Gaussian processes for
crowdsourcing: glitch detection in LIGO, IEEE TPAMI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from crowdwise.aggregate.settings import setting
from crowdwise.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise
from crowdwise.engines.gradient.optimisers import make_optimiser
from crowdwise.engines.gradient.rows import Rows
from crowdwise.errors import SettingError
from crowdwise.heads.process import ProcessHead
from crowdwise.learn.trained import Start, TrainedClassifier
from crowdwise.learn.variational import settled
from crowdwise.priors.abilities import dirichlet_rows
from crowdwise.priors.covariance import covariance
from crowdwise.priors.robust_max import LIKELIHOODS, RobustMax, Softmax
from crowdwise.priors.sparse_gp import SparseGP

if TYPE_CHECKING:
    from crowdwise.annotators.protocol import AnnotatorModel
    from crowdwise.engines.gradient.head import Head

__all__ = ["SVGP", "SVGPCR", "build_process"]

Floats = NDArray[np.float64]

# Rows that the centres are found among.
_SAMPLE = 20_000


@dataclass(eq=False, repr=False, kw_only=True)
class SVGPCR(TrainedClassifier):
    """Sparse Gaussian process x Dirichlet confusion matrices, by stochastic variational inference."""

    inducing: int = setting(100, "Inducing points, shared by all classes.", low=1, whole=True)
    kernel: Any = setting("rbf", "rbf, matern, linear, sums and products such as rbf+linear, or a GPyTorch kernel.", free=True)
    ard: bool = setting(False, "A length scale for every feature instead of one for all.")
    likelihood: str = setting(
        "robust-max", "robust-max: the largest function wins but for a share eps; softmax.", choices=LIKELIHOODS
    )
    eps: float = setting(1e-3, "Share of robust-max that goes to the other classes.", above=0)
    worker_prior: Any = setting(
        "dir:2,1",
        'Dirichlet prior of confusion rows, "dir:R,W": R on the diagonal, W spread over the wrong labels; "dir:1,W" with '
        "W = K - 1 is the paper's.",
        free=True,
    )
    rate: float = setting(0.1, "Size of the natural steps of the process.", above=0)
    frozen: int = setting(5, "Epochs before inducing points begin to move.", low=0, whole=True)
    epochs: int = setting(50, "Most passes over the items.", low=1, whole=True)
    batch_size: int = setting(100, "Items per step.", low=1, whole=True)
    learning_rate: float = setting(3e-3, "Rate of the kernel and the inducing points.", above=0)
    warmup: int = setting(2, "First epochs, trained on the labels of the start.", low=0, whole=True)
    validation: float = setting(0.0, "Share of the items whose votes only judge, for early stopping; 0 for none.", low=0)

    name: ClassVar[str] = "svgpcr"

    _accepts_images: ClassVar[bool] = False

    def _network(self, rows: Rows, n_classes: int, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any] | None]:
        sample = rows.take(torch.arange(0, len(rows), max(1, len(rows) // _SAMPLE))).to(dtype)
        standardise = Standardise(sample.shape[1])
        standardise.fit([sample])
        standardise.to(dtype)
        centres = _centres(standardise(sample), self.inducing, int(torch.randint(2**31, ()).item()))
        named = isinstance(self.kernel, str)
        spec = {
            "kind": "sparse-gp",
            "n_columns": sample.shape[1],
            "n_classes": n_classes,
            "n_inducing": len(centres),
            "kernel": self.kernel if named else None,
            "ard": self.ard,
            "likelihood": self.likelihood,
            "eps": self.eps,
        }
        made = build_process(spec, None if named else self.kernel, _spread(centres)).to(dtype)
        made[0].load_state_dict(standardise.state_dict())
        made[1].inducing.data = centres
        return made, spec

    def _warmup(self, start: Start) -> int:
        return 0  # the head has its own: training rows give moments, not logits

    def _head(self, votes: Annotations, start: Start) -> ProcessHead:
        prior = dirichlet_rows(self.worker_prior, votes.n_classes)
        assert isinstance(start.network, nn.Sequential)
        process = start.network[1]
        assert isinstance(process, SparseGP)
        return ProcessHead(votes, prior, start.posterior, process, rate=self.rate, warmup=self.warmup, frozen=self.frozen)

    def _optimiser(self, network: nn.Module, head: Head) -> Any:
        def make(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
            optimiser = make_optimiser(self.optimizer, groups)
            assert isinstance(head, ProcessHead)
            optimiser.register_step_post_hook(lambda *_: head.natural_step())
            return optimiser

        return make

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """Inference to its end under the finished process."""
        head = heads[0]
        assert isinstance(head, ProcessHead)
        annotators, start = head.annotators(), np.zeros_like(log_prob)
        annotators.infer(votes, log_prob, np.empty(0, np.int16), start)
        return settled(votes, annotators, log_prob, start), log_prob

    def _dtype(self, features: Any) -> torch.dtype:
        if self.precision == "mixed":
            raise SettingError('precision: the Cholesky factors of svgpcr need float64 (or "float32" at your own risk)')
        return torch.float32 if self.precision == "float32" else torch.float64


@dataclass(eq=False, repr=False, kw_only=True)
class SVGP(SVGPCR):
    """The same process on labels taken as they are: true ones, or those of an aggregation (``init="dawid-skene"``)."""

    init: Any = setting(
        "identity",
        "Labels to train on: identity (vote shares; a plain y as it is), the posterior of an aggregation method by its name, "
        "or a posterior [N, K].",
        free=True,
    )

    name: ClassVar[str] = "svgp"

    def _head(self, votes: Annotations, start: Start) -> ProcessHead:
        head = super()._head(votes, start)
        head.warmup = self.epochs
        return head


def build_process(spec: dict[str, Any], kernel: Any = None, lengthscale: float = 1.0) -> nn.Sequential:
    """Make the process of a spec, untrained, behind its standardisation; `kernel` is the user's own."""
    n_columns, n_classes = spec["n_columns"], spec["n_classes"]
    made = covariance(kernel if spec["kernel"] is None else spec["kernel"], n_columns, lengthscale=lengthscale, ard=spec["ard"])
    likelihood = RobustMax(spec["eps"]) if spec["likelihood"] == "robust-max" else Softmax(n_classes)
    process = SparseGP(made, likelihood, torch.zeros(spec["n_inducing"], n_columns), n_classes)
    return nn.Sequential(Standardise(n_columns), process)


def _centres(rows: torch.Tensor, n_centres: int, seed: int) -> torch.Tensor:
    """K-means centres of the rows, [M, D]; fewer where there are fewer different rows."""
    from sklearn.cluster import KMeans

    array = rows.numpy()
    n_different = len(np.unique(array, axis=0))
    fitted = KMeans(min(n_centres, n_different), n_init=1, max_iter=20, random_state=seed % 2**32).fit(array)
    return torch.as_tensor(fitted.cluster_centers_, dtype=rows.dtype)


def _spread(centres: torch.Tensor) -> float:
    """Median distance of the centres: a length scale at which neighbours know of each other."""
    distance = torch.pdist(centres)
    middle = float(distance.median()) if len(distance) else 1.0
    return middle if middle > 0 else 1.0
