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
One kernel is shared by all classes, hence one Cholesky factor; with class_kernels="own", as in the paper, there are K from half
of the epochs on. Features are standardised. Cost of a batch: O(M^3 + K B M^2 + E_b K), with own kernels K M^3 instead of M^3;
of a prediction: O(K M^2).

References
----------
Morales-Alvarez, Ruiz, Coughlin, Molina and Katsaggelos (2020), Scalable variational Gaussian processes for
crowdsourcing: glitch detection in LIGO, IEEE TPAMI.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise, builds
from crowdwise.engines.gradient.optimisers import make_optimiser
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.loop import Progress
from crowdwise.errors import ConvergenceWarning, InputError, SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.bound import bound_terms
from crowdwise.methods.classify.feature_map import mapped_rows, own_map
from crowdwise.methods.classify.opened import answers_at, standardisation
from crowdwise.methods.classify.process import ProcessClassifier, likelihood_of, standardised_sample
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import rows_before_votes
from crowdwise.parts.heads.head import Head
from crowdwise.parts.heads.process import ProcessHead
from crowdwise.parts.priors.covariance import PerClass, covariance
from crowdwise.parts.priors.logistic_gp import median_distance
from crowdwise.parts.priors.sparse_gp import SparseGP

__all__ = ["SVGP", "SVGPCR", "build_process"]

# Natural steps up to here never lowered the bound of full batches; longer ones may, and those of one diverge.
_SAFE_RATE = 0.6


HeadT = TypeVar("HeadT", bound=ProcessHead)


@dataclass(eq=False, repr=False, kw_only=True)
class SVGPCR(ProcessClassifier):
    """Sparse Gaussian process x Dirichlet confusion matrices, by stochastic variational inference."""

    inducing: int = setting(100, "Inducing points, shared by all classes.", low=1, whole=True)
    kernel: Any = setting("rbf", "rbf, matern, linear, sums and products such as rbf+linear, or a GPyTorch kernel.", free=True)
    ard: bool = setting(False, "A length scale for every feature instead of one for all.")
    class_kernels: str = setting(
        "shared",
        "shared: one kernel for all classes; own: every class learns a variance and length scales of its own.",
        choices=("shared", "own"),
    )
    feature_map: Any = setting(
        None,
        "A torch module from standardised rows to features that the kernel reads, trained along (a deep kernel), or a function "
        "that makes one.",
        free=True,
    )
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
    learning_rate: float = setting(3e-3, "Rate of the kernel and the inducing points.", above=0)

    name: ClassVar[str] = "svgpcr"

    @property
    def bound_(self) -> dict[str, float]:
        """The bound over all items that teach, by its terms, whose sum it is.

        Labels and matrices are inferred to their end with the functions as fitted; class weights and
        anchored class shares have no part in it.
        """
        self._fitted()
        if "bound" not in self.history_:
            raise InputError("this model was saved by a version that did not keep the bound; fit it again")
        return dict(self.history_["bound"])

    @property
    def inducing_points_(self) -> Floats:
        """The inducing points, [M, D], in the units of the features; with a feature map in those of what it returns, [M, F]."""
        process = self._process()
        assert isinstance(process, SparseGP)
        points = process.inducing.detach().double().cpu()
        if self.model_.spec.get("mapped") is None:  # type: ignore[attr-defined]
            standardise = standardisation(self.network_)
            points = points * standardise.scale.double().cpu() + standardise.mean.double().cpu()
        return np.asarray(points.numpy())

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        if self.posterior_steps == "natural" and self.rate > _SAFE_RATE:
            warnings.warn(
                f"rate={self.rate:g}: natural steps above {_SAFE_RATE:g} need not raise the bound, and those of one diverge; "
                "use at most 0.5",
                ConvergenceWarning,
                stacklevel=3,
            )
        return super()._learn(features, votes, progress)

    @torch.no_grad()
    def _bound(self, features: Any, votes: Annotations, done: Learned) -> dict[str, Any]:
        (expected,) = answers_at(done.model, features, lambda process, rows: (process.expected_log(rows),))
        process = done.model.network[1]  # type: ignore[attr-defined]
        return {"bound": bound_terms(votes, done.annotators, expected, float(process.whole_kl()))}

    def _name_network(self, network: Any) -> None:
        if network is not None and self.model_.spec.get("mapped") is not None:  # type: ignore[attr-defined]
            self.feature_map = network
        else:
            super()._name_network(network)

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        made, spec = self._fresh(rows, start)
        return self._resumed(made, spec), spec

    def _fresh(self, rows: Rows, start: Start) -> tuple[nn.Sequential, dict[str, Any]]:
        """A process that knows nothing yet but where the rows are."""
        standardise, sample, chosen = standardised_sample(rows, start.dtype, self._taken["scaling"] == "together")
        own: Any = None if isinstance(self.kernel, str) else self.kernel
        n_columns, more = sample.shape[1], dict[str, Any]()
        if self.feature_map is not None:
            if own is not None:
                raise SettingError("feature_map goes with the built-in kernels; leave kernel= at a name")
            own = own_map(self.feature_map).to(start.dtype)
            sample = mapped_rows(own, sample)
            more = {"mapped": sample.shape[1]}
        label = start.posterior[chosen].argmax(1).numpy()
        centres = _centres(sample.numpy(), label, start.n_classes, self.inducing, int(torch.randint(2**31, ()).item()))
        spec: dict[str, Any] = {
            "kind": "sparse-gp",
            "n_columns": n_columns,
            "n_classes": start.n_classes,
            "n_inducing": len(centres),
            "kernel": self.kernel if isinstance(self.kernel, str) else None,
            "ard": self.ard,
            "covariance": self.covariance,
            "posterior_steps": self.posterior_steps,
            **self._taken,
            "epsilon": self.epsilon,
        }
        if self.class_kernels == "own":
            more["class_kernels"] = "own"
        spec |= more
        made = build_process(spec, own, median_distance(centres)).to(start.dtype)
        standardisation(made).load_state_dict(standardise.state_dict())
        made[1].inducing.data = torch.as_tensor(centres, dtype=start.dtype)
        return made, spec

    def _head(self, votes: Annotations, start: Start) -> ProcessHead:
        return self._head_of(ProcessHead, votes, start)

    def _head_of(self, kind: type[HeadT], votes: Annotations, start: Start, **more: Any) -> HeadT:
        """A head of this kind over the process of the start."""
        assert isinstance(start.network, nn.Sequential)
        process = start.network[1]
        assert isinstance(process, SparseGP)
        head = kind(
            votes,
            rows_before_votes(self.annotator_prior, votes),
            start.posterior,
            process,
            rate=self.rate,
            warmup=self._warm_epochs(),
            learning=self._learning(),
            frozen=self.frozen,
            together=self._epochs // 2,
            memoised=self.steps == "memoised",
            anchored=self.class_shares == "anchored",
            **more,
        )
        self._stepped(head)
        return head

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
    # Labels are those that were given, in a fit that continues as well; without a type, or it would be a setting.
    _labels_go_on = False

    def _head(self, votes: Annotations, start: Start) -> ProcessHead:
        head = super()._head(votes, start)
        head.warmup = self._epochs
        return head


@builds("sparse-gp")
def build_process(spec: dict[str, Any], own: Any = None, lengthscale: float = 1.0) -> nn.Sequential:
    """Make the process of a spec, untrained, behind its standardisation; `own` is the user's kernel or feature map."""
    n_columns, n_classes = spec["n_columns"], spec["n_classes"]
    front: nn.Module = Standardise(n_columns)
    if spec.get("mapped") is not None:
        front, n_columns = nn.Sequential(front, own_map(own)), spec["mapped"]
    made = covariance(own if spec["kernel"] is None else spec["kernel"], n_columns, lengthscale=lengthscale, ard=spec["ard"])
    if spec.get("class_kernels") == "own":
        made = PerClass(made, n_classes)
    process = SparseGP(
        made,
        likelihood_of(spec),
        torch.zeros(spec["n_inducing"], n_columns),
        n_classes,
        diagonal=spec["covariance"] == "diagonal",
        natural=spec["posterior_steps"] == "natural",
    )
    return nn.Sequential(front, process)


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
