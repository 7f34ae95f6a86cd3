"""What the Gaussian processes of engine 2 share: their likelihood, their annotators, and double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise
from crowdwise.engines.gradient.rows import Rows, evaluated_at_once, rows_of
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import NetworkModel
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.trained import TrainedClassifier
from crowdwise.methods.classify.variational import settled
from crowdwise.parts.annotators.model import AnnotatorModel
from crowdwise.parts.heads.dirichlet import DirichletHead
from crowdwise.parts.heads.head import Head
from crowdwise.parts.priors.robust_max import LIKELIHOODS, RobustMax, Softmax

__all__ = ["SAMPLE", "ProcessClassifier", "likelihood_of", "standardised_sample"]


# Steps that a warm-up takes at least, in up to a quarter of the epochs.
_WARM_STEPS = 50
# Training rows that standardise, and that points are chosen from.
SAMPLE = 20_000


@dataclass(eq=False, repr=False, kw_only=True)
class ProcessClassifier(TrainedClassifier):
    """Base of the Gaussian processes that are trained in batches."""

    likelihood: str = setting(
        "robust-max", "robust-max: the largest function wins but for a share eps; softmax.", choices=LIKELIHOODS
    )
    eps: float = setting(1e-3, "Share of robust-max that goes to the other classes.", above=0)
    annotator_prior: Any = setting(
        "dir:2,1",
        'Dirichlet prior of confusion rows, "dir:R,W": R on the diagonal, W spread over the wrong labels; "dir:1,W" with '
        'W = K - 1 is the paper\'s. Or annotator -> such a prior, with "*" for all others.',
        free=True,
    )
    steps: str = setting(
        "memoised",
        "Steps of the confusion matrices: memoised (exact expected counts of all items) or natural (towards those of a batch).",
        choices=("memoised", "natural"),
    )
    scaling: str = setting(
        "columns",
        "Features are brought to unit spread column by column, or together: by one number, for pixels and other columns in "
        "the same unit.",
        choices=("columns", "together"),
    )
    batch_size: int = setting(100, "Items per step.", low=1, high=10**9, whole=True)
    warmup: int = setting(
        2, "First epochs, trained on the labels of the start; more where they have few steps, 0 for none.", low=0, whole=True
    )
    validation: float = setting(0.0, "Share of the items whose votes only judge, for early stopping; 0 for none.", low=0)

    @property
    def takes_images(self) -> bool:
        """Whether rows may be images: a process reads a table of numbers."""
        return False

    def _name_network(self, network: Any) -> None:
        if network is not None:
            self.kernel = network

    @torch.no_grad()
    def latent(self, X: Any) -> tuple[Floats, Floats]:
        """Means and variances of the latent functions at rows, two of [N, K]: before the likelihood makes classes of them."""
        self._fitted()
        model = self.model_
        assert isinstance(model, NetworkModel)
        assert isinstance(model.network, nn.Sequential)
        standardise, process = model.network
        rows = rows_of(checked_features(self, X, fitting=False, images=False), model.dtype)
        parts = [
            process.latent(standardise(rows.take(index).to(model.device)))  # type: ignore[operator]
            for index in torch.split(torch.arange(len(rows)), evaluated_at_once(rows))
        ]
        mean, variance = (torch.cat(part).double().cpu().numpy() for part in zip(*parts, strict=True))
        return mean, variance

    def _warm_epochs(self, votes: Annotations) -> int:
        """`warmup`, or more where epochs have few steps: in less than so many, functions are still where they began."""
        steps = -(-votes.n_items // self.batch_size)
        return max(self.warmup, min(-(-_WARM_STEPS // steps), self.epochs // 4)) if self.warmup and steps else self.warmup

    def _warmup(self, start: Start) -> int:
        return 0  # the heads have their own: in training these do not answer with logits

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """Inference to its end under the finished process."""
        head = heads[0]
        assert isinstance(head, DirichletHead)
        return settled(votes, head.annotators(), log_prob), log_prob

    def _dtype(self, features: Any) -> torch.dtype:
        if self.precision == "mixed":
            raise SettingError(f'precision: the Cholesky factors of {self.name} need float64 (or "float32" at your own risk)')
        return torch.float32 if self.precision == "float32" else torch.float64


def standardised_sample(
    rows: Rows, dtype: torch.dtype, together: bool = False
) -> tuple[Standardise, torch.Tensor, torch.Tensor]:
    """A standardisation fitted to some of the rows, these rows after it [n, D], and their positions [n]."""
    chosen = torch.arange(0, len(rows), max(1, len(rows) // SAMPLE))
    sample = rows.take(chosen).to(dtype)
    standardise = Standardise(sample.shape[1])
    standardise.fit([sample])
    if together:
        spread = sample.double().var(0, correction=0).mean().sqrt()
        standardise.scale = (spread if spread > 0 else torch.ones(())).expand(sample.shape[1]).clone()
    return standardise.to(dtype), standardise(sample), chosen


def likelihood_of(spec: dict[str, Any]) -> nn.Module:
    """The likelihood that a spec names."""
    least = 1 / max(spec["n_classes"], 2)
    if not spec["eps"] < 1 - least:
        raise SettingError(f"eps must be less than {1 - least:.3g}, or the largest function would not win; got {spec['eps']!r}")
    return RobustMax(spec["eps"]) if spec["likelihood"] == "robust-max" else Softmax(spec["n_classes"])
