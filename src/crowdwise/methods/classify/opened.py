"""What users can see of a fitted Gaussian process (kernel, functions, draws of them), and how a fit continues another."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import nn

from crowdwise.data.annotations import Annotations
from crowdwise.engines.gradient.networks import Standardise
from crowdwise.engines.gradient.rows import evaluated_at_once, rows_of
from crowdwise.engines.loop import Progress
from crowdwise.errors import DataWarning, InputError, SettingError, listed
from crowdwise.estimator.carry import positions
from crowdwise.estimator.estimator import seed_of, setting
from crowdwise.kernels.types import Floats
from crowdwise.methods.classify.base import Learned
from crowdwise.methods.classify.features import checked_features
from crowdwise.methods.classify.network_model import NetworkModel
from crowdwise.methods.classify.runs import Task
from crowdwise.methods.classify.trained import TrainedClassifier
from crowdwise.parts.heads.dirichlet import DirichletHead
from crowdwise.parts.priors.covariance import PerClass
from crowdwise.parts.priors.fitted_kernel import FittedKernel, read_kernel

__all__ = ["SAMPLE", "Earlier", "NotThere", "OpenedProcess", "answers_at", "levelled_off", "sampled", "standardisation"]

# Training rows that standardise, that points are chosen from, and that constant columns are looked for in.
SAMPLE = 20_000
# Numbers of a joint covariance, and rows whose covariance is factored for draws.
_MOST_ENTRIES, _MOST_ROWS = 10**8, 4_000
# Rows that a likelihood takes at once.
_AT_ONCE = 10_000
# A fit has levelled off if the mean loss of so many epochs differs by at most so much, in nats per item, from those before.
_EPOCHS, _CHANGE = 5, 0.01
# Columns that a warning names.
_NAMED = 5


class NotThere(SettingError, AttributeError):
    """A fitted attribute that this method does not have."""


@dataclass(frozen=True, eq=False)
class Earlier:
    """What a fit continues: the fitted network, what rebuilds it, and the steps that it has behind it."""

    model: NetworkModel
    posterior: Floats
    n_steps: int


class _GoingOn:
    """What is no setting: what the fit under way continues, whether its labels do, what it takes for settings left open, and
    how many items have votes or a known label.
    """

    _earlier: Earlier | None = None
    _labels_go_on: bool = True
    _taken: Mapping[str, str] = MappingProxyType({})
    _n_items: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class OpenedProcess(_GoingOn, TrainedClassifier):
    """Base of the Gaussian processes: what can be seen of a fitted one."""

    warm_start: bool = setting(False, "Continue from the previous fit when `fit` is called again.")

    # -- looking -------------------------------------------------------------------------------

    @property
    def kernel_(self) -> FittedKernel | dict[Any, FittedKernel]:
        """The trained kernel: variance, length scales, and of sums and products the parts.

        Where every class has its own, class -> kernel.
        Length scales are in units of standardised features (of the feature map's, where there is one).
        """
        process = self._process()
        assert isinstance(process.covariance, nn.Module)
        names = self._column_names()
        if isinstance(process.covariance, PerClass):
            classes = self._fitted().votes.classes.tolist()
            kernels = [read_kernel(kernel, names) for kernel in process.covariance.kernels]
            return dict(zip(classes, kernels, strict=True))
        return read_kernel(process.covariance, names)

    @torch.no_grad()
    def latent(self, X: Any, covariance: bool = False) -> tuple[Floats, Floats]:
        """The latent functions at rows, before the likelihood makes classes of them.

        Returns means [N, K] and variances [N, K]; with `covariance`, instead of the variances the covariances between
        all rows, [K, N, N].
        """
        if not covariance:
            mean, variance = self._at(X, lambda process, rows: process.latent(rows))
            return mean, variance
        n_classes = self._fitted().votes.n_classes
        most = int((_MOST_ENTRIES / n_classes) ** 0.5)
        process, rows = self._rows_at_once(X, most, f"covariances of {n_classes} functions are computed for")
        return _array(process.latent(rows)[0]), _array(process.joint(rows))  # type: ignore[operator]

    @torch.no_grad()
    def latent_draws(self, X: Any, n_draws: int = 100, *, random_state: int | None = None, probability: bool = False) -> Floats:
        """Joint draws of the latent functions at rows from their posterior, [S, N, K].

        Parameters
        ----------
        n_draws : int
            S.
        random_state : int, optional
            Seed; without one, draws differ from call to call.
        probability : bool
            Class probabilities given the drawn functions, [S, N, K], instead of the functions.
        """
        wanted = _whole(n_draws)
        generator = torch.Generator("cpu").manual_seed(seed_of(random_state))
        most = _MOST_ROWS
        if isinstance(self._process().covariance, PerClass):
            # A covariance for every class, where one serves them all.
            most = min(most, int((_MOST_ENTRIES / self._fitted().votes.n_classes) ** 0.5))
        process, rows = self._rows_at_once(X, most, "functions are drawn jointly for")
        drawn = process.draw(rows, wanted, generator)  # type: ignore[operator]
        if not probability:
            return _array(drawn)
        # Functions that are known have next to no variance. As many draws at a time as a likelihood gets rows elsewhere.
        parts = [
            process.likelihood.log_predictive(flat, torch.full_like(flat, 1e-12))  # type: ignore[operator, union-attr]
            for flat in torch.split(drawn.flatten(0, 1), _AT_ONCE)
        ]
        return _array(torch.cat(parts).exp().view_as(drawn))

    def _process(self) -> nn.Module:
        self._fitted()
        assert isinstance(self.model_, NetworkModel)
        assert isinstance(self.model_.network, nn.Sequential)
        return self.model_.network[1]

    def _column_names(self) -> Sequence[Any]:
        """Names of the columns that the kernel reads, or their positions."""
        assert isinstance(self.model_, NetworkModel)
        assert self.model_.spec is not None
        width = self.model_.spec.get("mapped")
        names: Any = getattr(self, "feature_names_in_", None)
        if width is None and names is not None:
            return [str(name) for name in names]
        return range(self.model_.spec["n_columns"] if width is None else width)

    def _rows_at_once(self, X: Any, most: int, what: str) -> tuple[nn.Module, torch.Tensor]:
        """The process, and rows as it reads them; more than so many are refused, with what they are for."""
        process, model = self._process(), self.model_
        assert isinstance(model, NetworkModel)
        rows = rows_of(checked_features(self, X, fitting=False, images=False), model.dtype)
        if len(rows) > most:
            raise InputError(f"{what} at most {most:,} rows at a time; got {len(rows):,}")
        front = model.network[0]  # type: ignore[index]
        return process, front(rows.take(torch.arange(len(rows))).to(model.device))

    def _at(self, X: Any, answer: Callable[[Any, torch.Tensor], tuple[torch.Tensor, ...]]) -> tuple[Floats, ...]:
        """What the process answers at rows, some at a time."""
        self._process()
        return answers_at(self.model_, checked_features(self, X, fitting=False, images=False), answer)

    # -- fitting -------------------------------------------------------------------------------

    def _learn(self, features: Any, votes: Annotations, progress: Progress | None) -> Learned:
        self._warn_of_constants(features)
        self._earlier = self._previous(features, votes)
        try:
            done = self._train(features, votes, progress)
            # Whether it went on: a process of another shape starts afresh.
            n_warm = 0 if self._earlier is not None else self._first_epochs()
        finally:
            self._earlier = None
        head = self.head_
        assert isinstance(head, DirichletHead)
        self.history_ |= {"steps": int(head.n_steps)} | self._bound(features, votes, done)
        return replace(done, converged=done.converged or levelled_off(self.history_["loss"][n_warm:]))

    def _bound(self, features: Any, votes: Annotations, done: Learned) -> dict[str, Any]:
        """What there is to tell of the bound, for `history_`."""
        return {}

    def _first_epochs(self) -> int:
        """Epochs whose loss is another than that of the later ones."""
        raise NotImplementedError

    def _warn_of_constants(self, features: Any) -> None:
        rows = rows_of(features, torch.float64)
        if len(rows) < 2:
            return
        sample = rows.take(sampled(len(rows)))
        constant = (sample == sample[0]).all(0).nonzero()[:, 0].tolist()
        if constant:
            names: Any = getattr(self, "feature_names_in_", None)
            named = [f"'{names[i]}'" if names is not None else str(i) for i in constant]
            columns = "1 column is" if len(named) == 1 else f"{len(named):,} columns are"
            where = "" if names is not None else ", counted from 0"
            warnings.warn(
                f"{columns} the same in all rows and cannot tell classes apart: {listed(named, _NAMED)}{where}; leave them out",
                DataWarning,
                stacklevel=4,
            )

    # -- going on ------------------------------------------------------------------------------

    def _previous(self, features: Any, votes: Annotations) -> Earlier | None:
        """The fit to continue, with labels of these items under it; None without `warm_start` or a fit that suits."""
        before = vars(self).get("result_")
        if not self.warm_start or before is None:
            return None
        model = self.model_
        assert isinstance(model, NetworkModel)
        assert model.spec is not None
        if before.votes.classes.tolist() != votes.classes.tolist() or features.shape[1] != model.spec["n_columns"]:
            _warn_afresh("other classes or columns")
            return None
        log_prob = model.log_prob(features)
        posterior = np.zeros_like(log_prob)
        who = positions(votes.annotators, before.votes.annotators)
        before.annotators.aligned(who, np.full(votes.n_items, -1)).infer(votes, log_prob, votes.known_codes, posterior)
        return Earlier(model, posterior, int(self.history_.get("steps", 0)))

    def _task(self, *given: Any) -> Task:
        task = super()._task(*given)
        if self._earlier is None or not self._labels_go_on:
            return task
        posterior = torch.tensor(self._earlier.posterior, dtype=task.start.dtype)
        return replace(task, start=replace(task.start, posterior=posterior))

    def _resumed(self, made: nn.Module, spec: dict[str, Any]) -> nn.Module:
        """A network that is yet to be trained with the state of the earlier one, where there is one that suits."""
        if self._earlier is not None:
            state = {name: value.cpu() for name, value in self._earlier.model.network.state_dict().items()}
            own = {name: value.shape for name, value in made.state_dict().items()}
            if spec == self._earlier.model.spec and own == {name: value.shape for name, value in state.items()}:
                made.load_state_dict(state)
            else:
                self._earlier = None
                _warn_afresh("settings that make another process, or fewer different rows than inducing points")
        return made

    def _stepped(self, head: Any) -> Any:
        """A head with the steps of the earlier fit behind it: the sizes of steps go on falling, and all points may move."""
        if self._earlier is not None:
            head.n_steps.fill_(self._earlier.n_steps)
            head.frozen = head.together = 0
        return head


def answers_at(
    model: Any, features: Any, answer: Callable[[Any, torch.Tensor], tuple[torch.Tensor, ...]]
) -> tuple[Floats, ...]:
    """What a process answers at checked features, some rows at a time."""
    rows = rows_of(features, model.dtype)
    front, process = model.network
    parts = [
        answer(process, front(rows.take(index).to(model.device)))
        for index in torch.split(torch.arange(len(rows)), evaluated_at_once(rows))
    ]
    return tuple(_array(torch.cat(part)) for part in zip(*parts, strict=True))


def standardisation(network: Any) -> Standardise:
    """The one in front of a process, be there a feature map behind it or not."""
    front = network[0]
    found = front if isinstance(front, Standardise) else front[0]
    assert isinstance(found, Standardise)
    return found


def sampled(n_rows: int) -> torch.Tensor:
    """Positions of some of the rows."""
    return torch.arange(0, n_rows, max(1, n_rows // SAMPLE))


def levelled_off(loss: Sequence[float]) -> bool:
    """Whether the loss has ceased to fall, or to rise: see the numbers above."""
    if len(loss) < 2 * _EPOCHS:
        return False
    last, before = float(np.mean(loss[-_EPOCHS:])), float(np.mean(loss[-2 * _EPOCHS : -_EPOCHS]))
    return abs(last - before) <= _CHANGE


def _whole(n_draws: Any) -> int:
    if isinstance(n_draws, bool) or not isinstance(n_draws, Integral) or n_draws < 1:
        raise SettingError(f"n_draws must be a whole number of at least 1; got {n_draws!r}")
    return int(n_draws)


def _warn_afresh(why: str) -> None:
    warnings.warn(f"warm_start: {why}; the process starts afresh", DataWarning, stacklevel=5)


def _array(tensor: torch.Tensor) -> Floats:
    found: Floats = tensor.double().cpu().numpy()
    return found
