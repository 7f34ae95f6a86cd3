"""What the Gaussian processes of engine 2 share: their likelihood, their annotators, and double precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise
from crowdwise.engines.gradient.rows import Rows
from crowdwise.engines.gradient.stopping import most_epochs, warm_epochs
from crowdwise.engines.loop import Progress
from crowdwise.errors import SettingError
from crowdwise.estimator.estimator import setting
from crowdwise.kernels.numerics import log_softmax
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.chosen_settings import SCALINGS, chosen_settings
from crowdwise.methods.classify.network_model import NetworkModel
from crowdwise.methods.classify.opened import SAMPLE, OpenedProcess, answers_at, sampled
from crowdwise.methods.classify.runs import Start
from crowdwise.methods.classify.variational import settled
from crowdwise.parts.annotators.model import AnnotatorModel
from crowdwise.parts.heads.batch import n_batches
from crowdwise.parts.heads.dirichlet import DirichletHead
from crowdwise.parts.heads.head import Head
from crowdwise.parts.priors.robust_max import LIKELIHOODS, RobustMax, Softmax

__all__ = ["SAMPLE", "ProcessClassifier", "likelihood_of", "standardised_sample"]


# Steps that are taken before a likelihood learns.
_FIRST_STEPS = 50
# The paper's epsilon.
_PAPERS = 1e-3


@dataclass(eq=False, repr=False, kw_only=True)
class ProcessClassifier(OpenedProcess):
    """Base of the Gaussian processes that are trained in batches."""

    likelihood: str = setting(
        "auto",
        "robust-max: the largest function wins but for a share epsilon; softmax; auto: the one under which votes on items that "
        "did not teach are likelier.",
        choices=("auto", *LIKELIHOODS),
    )
    epsilon: Any = setting(
        "learned",
        "Share of robust-max that goes to the other classes: learned from votes on items that wait, fixed (the paper's 0.001), "
        "or a number to keep. Of softmax, a temperature of its probabilities is learned likewise, unless it is fixed.",
        choices=("learned", "fixed"),
        free=True,
    )
    annotator_prior: Any = setting(
        "crowd",
        'Dirichlet prior of confusion rows: "crowd" (what votes alone say of all annotators), "dir:R,W" (R on the diagonal, '
        'W spread over the wrong labels; the paper has R = 1 and W = K - 1), or annotator -> such a prior, with "*" for all '
        "others.",
        free=True,
    )
    class_shares: str = setting(
        "anchored",
        "anchored: shares of the classes among the labels stay near those among the votes; free: as the paper's, which lets a "
        "class that features cannot tell fade.",
        choices=("anchored", "free"),
    )
    steps: str = setting(
        "memoised",
        "Steps of the confusion matrices: memoised (exact expected counts of all items) or natural (towards those of a batch).",
        choices=("memoised", "natural"),
    )
    scaling: str = setting(
        "auto",
        "columns: every feature is brought to unit spread; together: all are divided by one number, for pixels, activations "
        "and other columns in one unit; auto: the one under which votes on items that did not teach are likelier.",
        choices=("auto", *SCALINGS),
    )
    epochs: int | None = setting(
        None,
        "Most passes over the items; by default 50, or as many as 333 steps take on a small set.",
        low=1,
        whole=True,
        optional=True,
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

    _saved: ClassVar[tuple[str, ...]] = (*OpenedProcess._saved, "log_shares_")
    # By default: epochs of a set that is not small, and steps of one that is. Adam moves a logarithm by about its rate in a
    # step, so that in 1 / rate of them a length scale can change by a factor of e; the likelihood learns within them too.
    _usual_epochs: ClassVar[int] = 50
    _least_steps: ClassVar[int] = 333

    def _name_network(self, network: Any) -> None:
        if network is not None:
            self.kernel = network

    def _before_votes(self, log_prob: Floats) -> Floats:
        return log_softmax(log_prob + self.log_shares_)

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        self._n_items = int(((votes.votes_per_item > 0) | votes.is_known).sum())
        before = self._previous(features, votes)
        if before is None:
            self._taken, tried = chosen_settings(self, features, votes)
        else:
            assert before.model.spec is not None
            likelihood = before.model.spec["likelihood"] if self.likelihood == "auto" else self.likelihood
            self._taken, tried = {"likelihood": likelihood, "scaling": before.model.spec["scaling"]}, {}
        done = super()._learn(features, votes, progress)
        if tried:
            self.history_["tried"] = tried
        return done

    @property
    def likelihood_(self) -> str:
        """The likelihood of the fitted process."""
        return self._of_spec("likelihood")

    @property
    def scaling_(self) -> str:
        """How the features of the fitted process were scaled: columns or together."""
        return self._of_spec("scaling")

    def _of_spec(self, name: str) -> str:
        self._process()
        assert isinstance(self.model_, NetworkModel)
        assert self.model_.spec is not None
        return str(self.model_.spec[name])

    def _most_epochs(self, n_items: int) -> int:
        return most_epochs(self.epochs, n_items, self.batch_size, self._usual_epochs, self._least_steps)

    @property
    def _epochs(self) -> int:
        """Of the fit under way."""
        return self._most_epochs(self._n_items)

    def _warm_epochs(self) -> int:
        """`warmup`, or more where epochs have few steps: in less than so many, functions are still where they began."""
        if self._earlier is not None:
            return 0
        return warm_epochs(self.warmup, self._epochs, self._n_items, self.batch_size)

    def _enough(self) -> int:
        """Epochs that have `_FIRST_STEPS` steps."""
        return -(-_FIRST_STEPS // max(n_batches(self._n_items, self.batch_size), 1))

    def _learning(self) -> tuple[int, int] | None:
        """Epochs from which, and before which, the likelihood learns; None where it is fixed.

        Learned at once it would make up for functions that have not learned yet, and they would have no reason to any more:
        in trainings of few steps it stays as it is. The items that are asked must teach too. Where a fit continues, all have.
        """
        warm = self._warm_epochs()
        quarter = (self._epochs - warm) // 4
        learns, joins = max(warm + quarter, self._enough()), warm + 3 * quarter
        return (learns, joins) if self.epsilon == "learned" and learns < joins and self._earlier is None else None

    def _first_epochs(self) -> int:
        learning = self._learning()
        return self._warm_epochs() if learning is None else learning[1]

    def _warmup(self, start: Start, n_items: int) -> int:
        return 0  # the heads have their own: in training these do not answer with logits

    @torch.no_grad()
    def _answers(self, model: NetworkModel, features: Any) -> Floats:
        """E log nu, as in training: labels and matrices are those of the bound."""
        (expected,) = answers_at(model, features, lambda process, rows: (process.expected_log(rows).log_softmax(1),))
        return expected

    def _inferred(self, votes: Annotations, log_prob: Floats, heads: list[Head]) -> tuple[AnnotatorModel, Floats]:
        """Inference to its end under the finished process."""
        head = heads[0]
        assert isinstance(head, DirichletHead)
        self.log_shares_ = head.log_shares().cpu().numpy()
        log_prior = self._prior(votes, log_prob)
        return settled(votes, head.annotators(), log_prior), log_prior

    def _dtype(self, features: Any) -> torch.dtype:
        if self.precision == "mixed":
            raise SettingError(f'precision: the Cholesky factors of {self.name} need float64 (or "float32" at your own risk)')
        return torch.float32 if self.precision == "float32" else torch.float64


def standardised_sample(
    rows: Rows, dtype: torch.dtype, together: bool = False
) -> tuple[Standardise, torch.Tensor, torch.Tensor]:
    """A standardisation fitted to some of the rows, these rows after it [n, D], and their positions [n]."""
    chosen = sampled(len(rows))
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
    if spec["likelihood"] == "softmax":
        return Softmax(spec["n_classes"])
    epsilon = spec["epsilon"] if isinstance(spec["epsilon"], (int, float)) else _PAPERS
    if not 0 < epsilon < 1 - least:
        raise SettingError(
            f'epsilon must be "learned", "fixed", or a number above 0 and below {1 - least:.3g}, where the largest function '
            f"would not win; got {epsilon!r}"
        )
    return RobustMax(epsilon)
