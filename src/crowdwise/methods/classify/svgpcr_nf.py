"""SVGPCR-NF: SVGPCR with planar flows on the posterior of the inducing values (Morales-Alvarez et al. 2020, section 5.1).

Model      that of SVGPCR
Posterior  q(z_n) q(u_k) prod_ak Dir(R_ak),  u_k = L flow_k(v0_k),  v0_k Gaussian,  flow_k of `layers` planar layers
Bound      that of SVGPCR, with the expectations over u by draws and KL(u) by draws and log-determinants

Notes
-----
The first half of the epochs is SVGPCR; the flows start from the identity at its posterior. The flows act on whitened values,
where the prior is N(0, I) and the KL does not involve the kernel. Cost of a batch: that of SVGPCR, with the likelihood's
quadrature once per draw, plus O(S K L M).

References
----------
Morales-Alvarez, Ruiz, Coughlin, Molina and Katsaggelos (2020), Scalable variational Gaussian processes for
crowdsourcing: glitch detection in LIGO, IEEE TPAMI. Rezende and Mohamed (2015), Variational inference with normalizing
flows, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import builds
from crowdwise.engines.gradient.rows import Rows
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.svgpcr import SVGPCR, build_process
from crowdwise.parts.heads.flow_process import FlowProcessHead
from crowdwise.parts.priors.flow_gp import FlowGP
from crowdwise.parts.priors.sparse_gp import SparseGP

__all__ = ["SVGPCRNF", "build_flow_process"]


@dataclass(eq=False, repr=False, kw_only=True)
class SVGPCRNF(SVGPCR):
    """SVGPCR with normalising flows on the inducing values."""

    layers: int = setting(9, "Planar layers of the flow of every class.", low=1, whole=True)
    draws: int = setting(10, "Draws of the inducing values per step, in pairs of opposite sign.", low=2, whole=True)
    posterior_steps: str = setting("natural", "Steps of the process before the flows go.", choices=("natural",))
    base: float = setting(0.5, "First share of the epochs, with the flows at rest.", low=0)

    name: ClassVar[str] = "svgpcr-nf"

    def _network(self, rows: Rows, start: Start) -> tuple[nn.Module, dict[str, Any] | None]:
        plain, spec = self._fresh(rows, start)
        spec |= {"kind": "flow-gp", "layers": self.layers, "draws": self.draws}
        own = self.feature_map if isinstance(self.kernel, str) else self.kernel
        made = build_flow_process(spec, own).to(start.dtype)
        made.load_state_dict(plain.state_dict(), strict=False)
        return self._resumed(made, spec), spec

    def _head(self, votes: Annotations, start: Start) -> FlowProcessHead:
        if self.base > 1:
            raise SettingError(f"base is a share of the epochs, at most 1; got {self.base!r}")
        assert isinstance(start.network, nn.Sequential)
        process = start.network[1]
        assert isinstance(process, FlowGP)
        base = 0 if self._earlier is not None and bool(process.flowing) else round(self.base * self._epochs)
        return self._head_of(FlowProcessHead, votes, start, base=base)


@builds("flow-gp")
def build_flow_process(spec: dict[str, Any], own: Any = None) -> nn.Sequential:
    """Make the process of a spec, untrained, behind its standardisation; `own` is the user's kernel or feature map."""
    front, plain = build_process(spec, own)
    assert isinstance(plain, SparseGP)
    inducing = plain.inducing.detach()
    process = FlowGP(
        plain.covariance, plain.likelihood, inducing, spec["n_classes"], spec["layers"], spec["draws"], diagonal=plain.diagonal
    )
    return nn.Sequential(front, process)
