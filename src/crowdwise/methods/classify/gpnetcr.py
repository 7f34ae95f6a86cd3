"""GPNETCR: Gaussian processes by inference networks, and Dirichlet confusion matrices (Morales-Alvarez et al. 2020, 5.2).

Model      that of SVGPCR
Posterior  q(z_n) q(f_k) prod_ak Dir(R_ak),  q(f_k) a random-feature network with Gaussian weights
Fit        functional mirror descent: at every step q(f) nears  q_t^(1 - beta_t) (prior x likelihood)^beta_t  on the batch and
           a measurement set drawn from the training rows

Notes
-----
A few natural steps on the labels of the start come first; without them a short training can lose a class. The loss is not
minus a bound of the evidence: the divergence is that on the compared points alone, and grows with their number.

The capacity of q is that of its features, not of the measurement set, which may be small. Cost of a batch:
O(K (B H^2 + n^3)) with n = min(B + measured, 2 H); of a prediction: O(K H^2).

References
----------
Morales-Alvarez, Ruiz, Coughlin, Molina and Katsaggelos (2020), Scalable variational Gaussian processes for
crowdsourcing: glitch detection in LIGO, IEEE TPAMI. Shi, Khan and Zhu (2019), Scalable training of inference networks for
Gaussian-process models, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise, builds
from crowdwise.engines.gradient.rows import Rows
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.opened import NotThere
from crowdwise.methods.classify.process import SAMPLE, ProcessClassifier, likelihood_of, standardised_sample
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.start import rows_before_votes
from crowdwise.parts.heads.inference_network import InferenceNetworkHead
from crowdwise.parts.priors.covariance import covariance
from crowdwise.parts.priors.inference_network import InferenceNetwork, RandomFeatures
from crowdwise.parts.priors.logistic_gp import median_distance

__all__ = ["GPNETCR", "build_inference_network"]


# Rows that the labels of the start are shown on.
_SHOWN = 5_000


@dataclass(eq=False, repr=False, kw_only=True)
class GPNETCR(ProcessClassifier):
    """Inference networks x Dirichlet confusion matrices, by functional mirror descent."""

    hidden: int = setting(100, "Random frequencies; there are twice as many features.", low=1, whole=True)
    measured: int = setting(50, "Rows of the measurement set; less than twice `hidden`.", low=1, whole=True)
    kernel: str = setting("rbf", "Covariance of the prior: rbf or matern.", choices=("rbf", "matern"))
    beta: float = setting(1.0, "Step size of mirror descent at the start, at most 1.", above=0)
    decay: float = setting(0.1, "How fast it falls: beta / (1 + decay sqrt(t)).", low=0)
    hold: int = setting(
        1,
        "Steps of the optimiser per mirror step; with one, as in the authors' code, beta has no influence.",
        low=1,
        whole=True,
    )
    epochs: int | None = setting(
        None,
        "Most passes over the items; by default 30, or as many as 100 steps take on a small set.",
        low=1,
        whole=True,
        optional=True,
    )
    learning_rate: float = setting(1e-2, "Rate of the inference network and the kernel.", above=0)

    name: ClassVar[str] = "gpnetcr"
    _usual_epochs: ClassVar[int] = 30
    _least_steps: ClassVar[int] = 100

    @property
    def bound_(self) -> dict[str, float]:
        """There is none: the loss compares the network with its prior on some points, and no bound follows from that."""
        raise NotThere("gpnetcr has no bound_: its loss is no bound of the evidence; use svgpcr to compare models by one")

    @property
    def inducing_points_(self) -> Floats:
        """There are none."""
        raise NotThere("gpnetcr has no inducing points: its functions are weights on random features; see network_")

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        if self.measured >= 2 * self.hidden:
            raise SettingError(
                f"measured must be less than 2 hidden = {2 * self.hidden}, the rank of the network; got {self.measured}"
            )
        if self.beta > 1:
            raise SettingError(f"beta is a share, at most 1; got {self.beta!r}")
        standardise, pool, _ = standardised_sample(rows, start.dtype, self._taken["scaling"] == "together")
        spec = {
            "kind": "gpnet",
            "n_columns": pool.shape[1],
            "n_classes": start.n_classes,
            "hidden": self.hidden,
            "measured": self.measured,
            "kernel": self.kernel,
            **self._taken,
            "epsilon": self.epsilon,
        }
        made = build_inference_network(spec, median_distance(pool.numpy()), pool).to(start.dtype)
        made[0].load_state_dict(standardise.state_dict())
        self._resumed(made, spec)
        if self._earlier is not None:
            # Measured points stand where the earlier standardisation puts them.
            made.get_buffer("1.pool").copy_(made[0](standardise.mean + standardise.scale * pool))
        return made, spec

    def _head(self, votes: Annotations, start: Start) -> InferenceNetworkHead:
        assert isinstance(start.network, nn.Sequential)
        network = start.network[1]
        assert isinstance(network, InferenceNetwork)
        if self._earlier is None:
            self._learn_start(network, votes, start)
        head = InferenceNetworkHead(
            votes,
            rows_before_votes(self.annotator_prior, votes),
            start.posterior,
            network,
            beta=self.beta,
            decay=self.decay,
            hold=self.hold,
            warmup=self._warm_epochs(),
            learning=self._learning(),
            memoised=self.steps == "memoised",
            anchored=self.class_shares == "anchored",
        )
        self._stepped(head)
        return head

    def _learn_start(self, network: InferenceNetwork, votes: Annotations, start: Start) -> None:
        """Show the labels of the start to a network that knows nothing, before the crowd's matrices can explain them away."""
        taught = (votes.votes_per_item > 0) | votes.is_known
        position = np.arange(0, votes.n_items, max(1, votes.n_items // SAMPLE))
        chosen = np.flatnonzero(taught[position])
        chosen = chosen[:: max(1, len(chosen) // _SHOWN)]
        if len(chosen):
            target = start.posterior[torch.from_numpy(position[chosen])]
            network.learn(network.pool[torch.from_numpy(chosen)], target, float(taught.sum() / len(chosen)))


@builds("gpnet")
def build_inference_network(spec: dict[str, Any], lengthscale: float = 1.0, pool: torch.Tensor | None = None) -> nn.Sequential:
    """Make the network of a spec, untrained, behind its standardisation; `pool` is for training alone."""
    n_columns, n_classes = spec["n_columns"], spec["n_classes"]
    posterior = RandomFeatures(spec["kernel"], n_columns, n_classes, spec["hidden"], lengthscale)
    prior = covariance(spec["kernel"], n_columns, lengthscale=lengthscale)
    pool = torch.zeros(0, n_columns) if pool is None else pool
    return nn.Sequential(
        Standardise(n_columns), InferenceNetwork(posterior, prior, likelihood_of(spec), spec["measured"], pool)
    )
