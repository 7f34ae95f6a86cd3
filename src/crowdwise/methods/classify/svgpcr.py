"""SVGPCR: a sparse Gaussian process and Dirichlet confusion matrices (Morales-Alvarez et al. 2020).

Model      f_k ~ GP(0, kappa) for every class;  z_n ~ nu(f(x_n));  R_ak ~ Dir(alpha);  vote of a on n ~ R_a[z_n]
Posterior  q(z_n) q(u_k) prod_ak Dir(R_ak), inducing values u_k at M shared points
Bound      sum_n [ sum_k q_nk (E log nu_k(f_n) + sum_e E log R[a_e, k, y_e]) + H(q_n) ] - KL(u) - KL(R)

Notes
-----
q(z) and q(R) are exact for every batch, where the released code optimises N x K free logits with Adam; q(u) moves along
its natural gradient in closed form, by steps that fall; kernel and inducing points by Adam. Inducing points start at k-means
centres within the classes of the start, the length scale at their median distance. The warm-up goes by a softmax likelihood:
under robust-max a function that is never the largest has no gradient, and a class that is not there at the start stays away.
One kernel is shared by all classes, hence one Cholesky factor. Features are standardised. Cost of a batch:
O(M^3 + K B M^2 + E_b K); of a prediction: O(K M^2).

References
----------
Morales-Alvarez, Ruiz, Coughlin, Molina and Katsaggelos (2020), Scalable variational Gaussian processes for
crowdsourcing: glitch detection in LIGO, IEEE TPAMI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise, builds
from crowdwise.engines.gradient.optimisers import make_optimiser
from crowdwise.engines.gradient.rows import Rows
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.process import ProcessClassifier, likelihood_of, standardised_sample
from crowdwise.methods.classify.runs import Start
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.process import ProcessHead
from crowdwise.parts.priors.abilities import dirichlet_rows
from crowdwise.parts.priors.covariance import covariance
from crowdwise.parts.priors.logistic_gp import median_distance
from crowdwise.parts.priors.sparse_gp import SparseGP

__all__ = ["SVGP", "SVGPCR", "build_process"]


@dataclass(eq=False, repr=False, kw_only=True)
class SVGPCR(ProcessClassifier):
    """Sparse Gaussian process x Dirichlet confusion matrices, by stochastic variational inference."""

    inducing: int = setting(100, "Inducing points, shared by all classes.", low=1, whole=True)
    kernel: Any = setting("rbf", "rbf, matern, linear, sums and products such as rbf+linear, or a GPyTorch kernel.", free=True)
    ard: bool = setting(False, "A length scale for every feature instead of one for all.")
    covariance: str = setting(
        "full", "Covariance of the inducing values in the posterior: full or diagonal.", choices=("full", "diagonal")
    )
    posterior_steps: str = setting(
        "natural",
        "Steps of that posterior: natural (in closed form), or optimizer (along the gradient, with the kernel's).",
        choices=("natural", "optimizer"),
    )
    rate: float = setting(0.1, "Size of the first natural steps of the process; it falls with their number.", above=0)
    frozen: int = setting(5, "Epochs before inducing points begin to move.", low=0, whole=True)
    epochs: int = setting(50, "Most passes over the items.", low=1, whole=True)
    learning_rate: float = setting(3e-3, "Rate of the kernel and the inducing points.", above=0)

    name: ClassVar[str] = "svgpcr"

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        standardise, sample, chosen = standardised_sample(rows, start.dtype, self.scaling == "together")
        label = start.posterior[chosen].argmax(1).numpy()
        centres = _centres(sample.numpy(), label, start.n_classes, self.inducing, int(torch.randint(2**31, ()).item()))
        named = isinstance(self.kernel, str)
        spec = {
            "kind": "sparse-gp",
            "n_columns": sample.shape[1],
            "n_classes": start.n_classes,
            "n_inducing": len(centres),
            "kernel": self.kernel if named else None,
            "ard": self.ard,
            "covariance": self.covariance,
            "posterior_steps": self.posterior_steps,
            "likelihood": self.likelihood,
            "eps": self.eps,
        }
        made = build_process(spec, None if named else self.kernel, median_distance(centres)).to(start.dtype)
        made[0].load_state_dict(standardise.state_dict())
        made[1].inducing.data = torch.as_tensor(centres, dtype=start.dtype)
        return made, spec

    def _head(self, votes: Annotations, start: Start) -> ProcessHead:
        prior = dirichlet_rows(self.annotator_prior, votes.n_classes, votes.annotators)
        assert isinstance(start.network, nn.Sequential)
        process = start.network[1]
        assert isinstance(process, SparseGP)
        return ProcessHead(
            votes,
            prior,
            start.posterior,
            process,
            rate=self.rate,
            warmup=self._warm_epochs(votes),
            frozen=self.frozen,
            memoised=self.steps == "memoised",
        )

    def _optimiser(self, network: nn.Module, head: Head) -> Any:
        def make(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
            optimiser = make_optimiser(self.optimizer, groups)
            assert isinstance(head, ProcessHead)
            optimiser.register_step_post_hook(lambda *_: head.natural_step())
            return optimiser

        return make


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


@builds("sparse-gp")
def build_process(spec: dict[str, Any], kernel: Any = None, lengthscale: float = 1.0) -> nn.Sequential:
    """Make the process of a spec, untrained, behind its standardisation; `kernel` is the user's own."""
    n_columns, n_classes = spec["n_columns"], spec["n_classes"]
    made = covariance(kernel if spec["kernel"] is None else spec["kernel"], n_columns, lengthscale=lengthscale, ard=spec["ard"])
    process = SparseGP(
        made,
        likelihood_of(spec),
        torch.zeros(spec["n_inducing"], n_columns),
        n_classes,
        diagonal=spec["covariance"] == "diagonal",
        natural=spec["posterior_steps"] == "natural",
    )
    return nn.Sequential(Standardise(n_columns), process)


def _centres(rows: Floats, label: Integers, n_classes: int, n_centres: int, seed: int) -> Floats:
    """K-means centres within the classes of the start, [M, D]; fewer where there are fewer different rows.

    Over all rows together, centres follow spread and numbers: large classes would take most, rare ones none. Every class
    gets one and a share by the root of its size.
    """
    from sklearn.cluster import KMeans

    size = np.bincount(label, minlength=n_classes)
    if n_centres < np.count_nonzero(size):
        label, size = np.zeros_like(label), np.array([len(label)])
    wanted = np.sqrt(size) * n_centres / np.sqrt(size).sum()
    quota = np.minimum(np.maximum(np.floor(wanted), 1), size).astype(int)
    while quota.sum() != n_centres and (quota.sum() > n_centres or (quota < size).any()):
        if quota.sum() > n_centres:
            quota[np.argmax(np.where(quota > 1, quota - wanted, -np.inf))] -= 1
        else:
            quota[np.argmax(np.where(quota < size, wanted - quota, -np.inf))] += 1
    found = []
    for k in np.flatnonzero(quota):
        own = rows[label == k]
        n_own = min(quota[k], len(np.unique(own, axis=0)))
        found.append(KMeans(n_own, n_init=1, max_iter=20, random_state=seed % 2**32).fit(own).cluster_centers_)
    return np.concatenate(found)
