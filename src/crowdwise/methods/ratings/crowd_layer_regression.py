"""CrowdLayer for numbers: a network, and a bias and a scale per annotator on its output (needs torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from crowdwise.data.ratings import Ratings
from crowdwise.data.storable import storable
from crowdwise.engines.gradient.rows import Rows, rows_of
from crowdwise.engines.gradient.weights import load_weights, weights_bytes, weights_of
from crowdwise.engines.loop import Progress, Round, Run
from crowdwise.errors import DivergedError
from crowdwise.estimator.estimator import random_state_setting, seed_of, setting
from crowdwise.estimator.storage import members_of, value_of
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.ratings.base import FeatureRatingMethod, Found
from crowdwise.methods.ratings.features import checked_features
from crowdwise.methods.ratings.finish import point_estimates
from crowdwise.methods.ratings.gaussian import Items, infer_items, relative_noise, update_annotators
from crowdwise.methods.ratings.problem import Problem

__all__ = ["CrowdLayerRegression"]

_WEIGHTS = "network.safetensors"
_CHUNK = 4096
_ROUNDS = 50


@storable
@dataclass(frozen=True, eq=False)
class LayerUnits:
    """Sizes of the network, and the units of rows and values.

    Attributes
    ----------
    hidden, n_in, n_out : int
    row_centre, row_scale : [F] or None
        Mean and standard deviation of the features, where these are brought to 0 and 1.
    unit, level : [D]
        What the output is multiplied by and moved by.
    centre, spread : [D]
        Mean and standard deviation of the values.
    """

    hidden: int
    n_in: int
    n_out: int
    row_centre: Floats | None
    row_scale: Floats | None
    unit: Floats
    level: Floats
    centre: Floats
    spread: Floats

    def sound(self) -> bool:
        """Whether saved arrays agree with each other."""
        rows = [part for part in (self.row_centre, self.row_scale) if part is not None]
        values = self.unit, self.level, self.centre, self.spread
        return all(part.shape == (self.n_in,) for part in rows) and all(part.shape == (self.n_out,) for part in values)


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdLayerRegression(FeatureRatingMethod):
    """A network whose output passes through a layer per annotator: a bias (b), a scale (s), or both.

    With mu(x) the network's output, the value of annotator a is fitted by mu + b_a (`b`), s_a mu (`s`), s_a mu + b_a (`s+b`)
    or s_a (mu + b_a) (`b+s`), by squared error over the answers that exist. Scale and level of mu are free; afterwards they
    are set so that the mean scale is one and the mean bias zero, over answers. Estimates of items with answers combine the
    network, as the prior of each item, with these, as `gaussian-crowd` does; `predict` is the network alone.

    References
    ----------
    Rodrigues and Pereira (2018), Deep learning from crowds, AAAI.
    """

    layer: str = setting("b", "What an annotator does to the output.", choices=("b", "s", "s+b", "b+s"))
    hidden: int = setting(128, "Units of the hidden layer; 0 makes the network linear.", low=0, whole=True)
    dropout: float = setting(0.5, "Share of hidden units left out in training.", low=0)
    epochs: int = setting(50, "Passes over the items.", low=1, whole=True)
    batch: int = setting(64, "Items in a step.", low=1, high=10**9, whole=True)
    rate: float = setting(1e-3, "Step size of Adam.", above=0)
    decay: float = setting(1e-4, "Weight decay of the network.", low=0)
    standardise: bool = setting(True, "Bring every feature to mean 0 and variance 1; sparse ones stay as they are.")
    random_state: int | None = random_state_setting("Seed of the network, of batches and dropout.")

    name: ClassVar[str] = "crowd-layer-regression"

    def _checked_rows(self, X: Any, n_features: int | None = None) -> Any:
        return checked_features(X, n_features)

    def _fit_rows(self, rows: Any, ratings: Ratings, known: Floats, progress: Progress | None) -> tuple[Found, Run[Any]]:
        scaled = self.standardise and not hasattr(rows, "tocsr")
        row_centre = rows.mean(axis=0) if scaled else None
        row_scale = np.maximum(rows.std(axis=0), 1e-12) if scaled else None
        problem, seed = Problem.of(ratings, known), seed_of(self.random_state)
        n_in, n_out = int(rows.shape[1]), problem.n_dimensions
        plain = np.ones(n_out), np.zeros(n_out)
        self._units = LayerUnits(self.hidden, n_in, n_out, row_centre, row_scale, *plain, problem.centre, problem.spread)
        table = self._rows(rows)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = _made(self._units, self.dropout)
            run = self._train(table, problem, torch.Generator().manual_seed(seed), progress)
        scale, bias = self._identify(problem, *run.state)
        return self._estimates(problem, self._outputs(table), scale, bias), run

    def predict(self, X: Any) -> Floats:
        """Values of items by their features alone, [N, D]."""
        rows = self._checked_rows(X, self._kept("n_features_in_"))
        found: Floats = self._outputs(self._rows(rows)) * self._units.spread + self._units.centre
        return found

    @property
    def scale_(self) -> Floats:
        """Scale of every annotator on the network's output, [A, D]."""
        return self._fitted().more["scale"]

    def _members(self) -> dict[str, bytes]:
        return members_of(self._units, "model") | {_WEIGHTS: weights_bytes(self._network.state_dict())}

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        super()._restore(outcome, members, network)
        self._units = value_of(members, "model")
        self._network = _made(self._units, self.dropout)
        load_weights(self._network, weights_of(members[_WEIGHTS]))
        self.n_features_in_ = self._units.n_in

    # -- the network -----------------------------------------------------------------------------

    def _rows(self, matrix: Any) -> Rows:
        if self._units.row_centre is not None and not hasattr(matrix, "tocsr"):
            matrix = (matrix - self._units.row_centre) / self._units.row_scale
        return rows_of(matrix, torch.float32)

    def _train(
        self, rows: Rows, problem: Problem, generator: torch.Generator, progress: Progress | None
    ) -> Run[tuple[torch.Tensor, torch.Tensor]]:
        """Train network and layer; the state is scales and biases, [A, D], of the form s mu + b."""
        shape = (problem.n_annotators, problem.n_dimensions)
        scale, bias = torch.nn.Parameter(torch.ones(shape)), torch.nn.Parameter(torch.zeros(shape))
        learned = [part for part, letter in ((scale, "s"), (bias, "b")) if letter in self.layer]
        groups: list[dict[str, Any]] = [
            {"params": list(self._network.parameters()), "weight_decay": self.decay},
            {"params": learned},
        ]
        optimiser = torch.optim.Adam(groups, lr=self.rate)
        answers = _Answers.of(problem)
        rounds: list[Round] = []
        for epoch in range(self.epochs):
            order, total = answers.shuffled(generator), 0.0
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                loss = self._loss(rows, answers, chosen, scale, bias)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                total += float(loss.detach()) * len(chosen)
            rounds.append(Round(0.0, {"objective": -total / max(len(order), 1)}))
            if not np.isfinite(rounds[-1].bound):
                raise DivergedError(f"{self.name}: the loss is no finite number; lower rate or scale the features")
            if progress is not None:
                progress(epoch + 1, rounds[-1].bound, 0.0)
        return Run((scale.detach(), (scale * bias if self.layer == "b+s" else bias).detach()), rounds, True)

    def _loss(self, rows: Rows, answers: _Answers, chosen: Any, scale: torch.Tensor, bias: torch.Tensor) -> Any:
        """Mean squared error of the answers on these items, and of known values."""
        votes, place = _votes_of(answers.pointer, chosen)
        output = self._network(rows.take(torch.from_numpy(chosen)))
        mine, who = output[place], answers.annotator[votes]
        said = scale[who] * (mine + bias[who]) if self.layer == "b+s" else scale[who] * mine + bias[who]
        loss = (answers.weight[votes] * (said - answers.value[votes]) ** 2).sum()
        loss = loss + ((output - answers.known[chosen]) ** 2)[answers.held[chosen]].sum()
        return loss / max(len(votes), 1)

    def _identify(self, problem: Problem, scale: torch.Tensor, bias: torch.Tensor) -> tuple[Floats, Floats]:
        """Set the mean scale to one and the mean bias to zero by moving the output; with known values it stays."""
        share = problem.count / problem.count.sum()
        s, b = scale.numpy().astype(np.float64), bias.numpy().astype(np.float64)
        fixed = bool(problem.is_known.any())
        unit = np.ones(s.shape[1]) if fixed else share @ s
        unit = np.where(np.abs(unit) > 1e-3, unit, 1.0)
        level = np.zeros(s.shape[1]) if fixed else share @ b
        self._units = replace(self._units, unit=unit, level=level)
        return s / unit, b - s / unit * level

    def _outputs(self, rows: Rows) -> Floats:
        self._network.eval()
        with torch.no_grad():
            parts = [
                self._network(rows.take(torch.arange(start, min(start + _CHUNK, len(rows))))).numpy()
                for start in range(0, len(rows), _CHUNK)
            ]
        self._network.train()
        found: Floats = np.concatenate(parts).astype(np.float64) * self._units.unit + self._units.level
        return found

    # -- estimates -------------------------------------------------------------------------------

    def _estimates(self, problem: Problem, output: Floats, own_scale: Floats, own_bias: Floats) -> Found:
        """Items with the network as their prior: a few rounds of EM for the noise of annotators and of the network."""
        prior: dict[str, Any] = {"shrinkage": 1.0, "strength": 1.0, "shared": True}
        scale = np.where(np.abs(own_scale) > 0.05, own_scale, 0.05)
        # In the units of the items, where an annotator's scale is one.
        plain = replace(problem, value=problem.value / scale[problem.annotator])
        noise = relative_noise(problem.noise())
        shape = (problem.n_annotators, problem.n_dimensions)
        bias, tau = own_bias / scale, np.broadcast_to(noise / problem.noise(), shape)
        items = Items(output, np.zeros(output.shape), output, np.broadcast_to(0.2, output.shape))
        for _ in range(_ROUNDS):
            precision = plain.weight[:, None] * (tau / noise)[plain.annotator]
            items = infer_items(plain, items, precision, bias)
            _, tau, noise = update_annotators(plain, items, noise, **prior)
            spread = np.maximum(((items.mean - output) ** 2 + items.variance).mean(axis=0), 1e-4)
            items = replace(items, prior_variance=np.broadcast_to(spread, output.shape))
        signal = float((output.var(axis=0) + items.prior_variance[0]).sum())
        found = point_estimates(plain, items, tau, noise, bias, level="annotators", signal=signal, **prior)
        more = {**found["more"], "scale": own_scale}
        return found | {"bias": own_bias * problem.spread, "noise": np.abs(scale) * found["noise"], "more": more}


def _made(units: LayerUnits, dropout: float) -> torch.nn.Module:
    """The network, untrained."""
    if units.hidden == 0:
        return torch.nn.Linear(units.n_in, units.n_out)
    first, last = torch.nn.Linear(units.n_in, units.hidden), torch.nn.Linear(units.hidden, units.n_out)
    return torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Dropout(min(dropout, 0.99)), last)


@dataclass(frozen=True, eq=False)
class _Answers:
    """The answers as tensors; those on item n stand at ``pointer[n]:pointer[n + 1]``."""

    value: torch.Tensor
    weight: torch.Tensor
    annotator: torch.Tensor
    pointer: Integers
    known: torch.Tensor
    held: torch.Tensor
    useful: Integers

    @classmethod
    def of(cls, problem: Problem) -> _Answers:
        pointer = np.searchsorted(problem.item, np.arange(problem.n_items + 1))
        return cls(
            torch.from_numpy(problem.value.astype(np.float32)),
            torch.from_numpy(problem.weight.astype(np.float32))[:, None],
            torch.from_numpy(problem.annotator.astype(np.int64)),
            pointer,
            torch.from_numpy(np.nan_to_num(problem.known).astype(np.float32)),
            torch.from_numpy(problem.is_known),
            np.flatnonzero((np.diff(pointer) > 0) | problem.is_known),
        )

    def shuffled(self, generator: torch.Generator) -> Integers:
        """Items with answers or known values, in a random order."""
        found: Integers = self.useful[torch.randperm(len(self.useful), generator=generator).numpy()]
        return found


def _votes_of(pointer: Integers, chosen: Integers) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the answers on these items, and which of the items each is on."""
    sizes = pointer[chosen + 1] - pointer[chosen]
    place = np.repeat(np.arange(len(chosen)), sizes)
    within = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return torch.from_numpy(pointer[chosen][place] + within), torch.from_numpy(place)
