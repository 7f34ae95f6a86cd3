"""CrowdLayer for numbers: a network, and a bias and a scale per annotator on its output (needs torch)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from crowdwise.engines.gradient.rows import Rows, rows_of
from crowdwise.errors import DivergedError
from crowdwise.estimator.settings import check_settings, setting
from crowdwise.methods.ratings.base import NumberMethod, check_values
from crowdwise.methods.ratings.features import aligned, checked_features
from crowdwise.methods.ratings.finish import point_estimates
from crowdwise.methods.ratings.gaussian import Items, infer_items, relative_noise, update_annotators
from crowdwise.methods.ratings.problem import Problem

if TYPE_CHECKING:
    from typing_extensions import Self

    from crowdwise.data.ratings import Ratings

__all__ = ["CrowdLayerRegression"]

Floats = NDArray[np.float64]
_CHUNK = 4096
_ROUNDS = 50


@dataclass(repr=False)
class CrowdLayerRegression(NumberMethod):
    """A network whose output passes through a layer per annotator: a bias (b), a scale (s), or both.

    With mu(x) the network's output, the value of annotator a is fitted by mu + b_a (`b`), s_a mu (`s`), s_a mu + b_a (`s+b`)
    or s_a (mu + b_a) (`b+s`), by squared error over the answers that exist. Scale and level of mu are free; afterwards they
    are set so that the mean scale is one and the mean bias zero, over answers. Estimates of items with answers combine the
    network, as the prior of each item, with these, as `gaussian-crowd` does; `predict` is the network alone.

    References
    ----------
    Rodrigues and Pereira (2018), Deep learning from crowds, AAAI.
    """

    layer: str = setting("b", "what an annotator does to the output", choices=("b", "s", "s+b", "b+s"))
    hidden: int = setting(128, "units of the hidden layer; 0 makes the network linear", low=0, whole=True)
    dropout: float = setting(0.5, "share of hidden units left out in training", low=0)
    epochs: int = setting(50, "passes over the items", low=1, whole=True)
    batch: int = setting(64, "items in a step", low=1, whole=True)
    rate: float = setting(1e-3, "step size of Adam", above=0)
    decay: float = setting(1e-4, "weight decay of the network", low=0)
    standardise: bool = setting(True, "bring every feature to mean 0 and variance 1; sparse ones stay as they are")
    random_state: int = setting(0, "seed of the network, of batches and dropout", low=0, whole=True)

    name: ClassVar[str] = "crowd-layer-regression"

    def fit(self, X: Any, values: Ratings, gold: Any = None, *, items: Any = None) -> Self:  # type: ignore[override]
        """Fit to features and values.

        Parameters
        ----------
        X : [N, F]
            A row of features per item: an array or a sparse matrix.
        values : Ratings
        gold : mapping or frame, optional
            Known values of some items; the network learns them as it learns answers without bias.
        items : sequence, optional
            Ids of the rows; without them rows are in the order of ``values.items``.
        """
        check_settings(self)
        check_values(values)
        matrix = checked_features(X)
        values = aligned(values, matrix.shape[0], items)
        dense = not hasattr(matrix, "tocsr")
        self.n_features_in_ = int(matrix.shape[1])
        self._centre = matrix.mean(axis=0) if dense and self.standardise else None
        self._scale = np.maximum(matrix.std(axis=0), 1e-12) if dense and self.standardise else None
        problem = Problem.of(values, values.known(gold))
        rows = self._rows(matrix)
        generator = torch.Generator().manual_seed(self.random_state)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            self._network = self._made(int(matrix.shape[1]), problem.n_dimensions)
            scale, bias = self._train(rows, problem, generator)
        self._identify(problem, scale, bias)
        self._problem = problem
        vars(self)["result_"] = self._estimates(values, problem, self._outputs(rows))
        return self

    def predict(self, X: Any) -> Floats:
        """Values of items by their features alone, [N, D]."""
        found: Floats = (
            self._outputs(self._rows(checked_features(X, self._kept("n_features_in_")))) * self._problem.spread
            + self._problem.centre
        )
        return found

    # -- the network -----------------------------------------------------------------------------

    def _rows(self, matrix: Any) -> Rows:
        if self._centre is not None and not hasattr(matrix, "tocsr"):
            matrix = (matrix - self._centre) / self._scale
        return rows_of(matrix, torch.float32)

    def _made(self, n_in: int, n_out: int) -> torch.nn.Module:
        if self.hidden == 0:
            return torch.nn.Linear(n_in, n_out)
        first, last = torch.nn.Linear(n_in, self.hidden), torch.nn.Linear(self.hidden, n_out)
        return torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Dropout(min(self.dropout, 0.99)), last)

    def _train(self, rows: Rows, problem: Problem, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Train network and layer; return scales and biases, [A, D], of the form s mu + b."""
        shape = (problem.n_annotators, problem.n_dimensions)
        scale, bias = torch.nn.Parameter(torch.ones(shape)), torch.nn.Parameter(torch.zeros(shape))
        learned = [part for part, letter in ((scale, "s"), (bias, "b")) if letter in self.layer]
        groups: list[dict[str, Any]] = [
            {"params": list(self._network.parameters()), "weight_decay": self.decay},
            {"params": learned},
        ]
        optimiser = torch.optim.Adam(groups, lr=self.rate)
        value = torch.from_numpy(problem.value.astype(np.float32))
        weight = torch.from_numpy(problem.weight.astype(np.float32))[:, None]
        annotator = torch.from_numpy(problem.annotator.astype(np.int64))
        pointer = np.searchsorted(problem.item, np.arange(problem.n_items + 1))
        known = torch.from_numpy(np.nan_to_num(problem.known).astype(np.float32))
        held = torch.from_numpy(problem.is_known)
        useful = np.flatnonzero((np.diff(pointer) > 0) | problem.is_known)
        trace = []
        for _ in range(self.epochs):
            order, total = useful[torch.randperm(len(useful), generator=generator).numpy()], 0.0
            for start in range(0, len(order), self.batch):
                chosen = order[start : start + self.batch]
                votes, place = _votes_of(pointer, chosen)
                output = self._network(rows.take(torch.from_numpy(chosen)))
                mine, who = output[place], annotator[votes]
                said = scale[who] * (mine + bias[who]) if self.layer == "b+s" else scale[who] * mine + bias[who]
                loss = (weight[votes] * (said - value[votes]) ** 2).sum()
                loss = loss + ((output - known[chosen]) ** 2)[held[chosen]].sum()
                loss = loss / max(len(votes), 1)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                total += float(loss.detach()) * len(chosen)
            trace.append(total / max(len(order), 1))
            if not np.isfinite(trace[-1]):
                raise DivergedError(f"{self.name}: the loss is no finite number; lower rate or scale the features")
        self.trace_, self.n_iter_, self.converged_ = np.array(trace), len(trace), True
        return scale.detach(), (scale * bias if self.layer == "b+s" else bias).detach()

    def _identify(self, problem: Problem, scale: torch.Tensor, bias: torch.Tensor) -> None:
        """Set the mean scale to one and the mean bias to zero by moving the output; with known values it stays."""
        share = problem.count / problem.count.sum()
        s, b = scale.numpy().astype(np.float64), bias.numpy().astype(np.float64)
        fixed = bool(problem.is_known.any())
        unit = np.ones(s.shape[1]) if fixed else share @ s
        unit = np.where(np.abs(unit) > 1e-3, unit, 1.0)
        level = np.zeros(s.shape[1]) if fixed else share @ b
        self._unit, self._level = unit, level
        self.scale_ = s / unit
        self.bias_ = b - self.scale_ * level

    def _outputs(self, rows: Rows) -> Floats:
        self._network.eval()
        with torch.no_grad():
            parts = [
                self._network(rows.take(torch.arange(start, min(start + _CHUNK, len(rows))))).numpy()
                for start in range(0, len(rows), _CHUNK)
            ]
        self._network.train()
        found: Floats = np.concatenate(parts).astype(np.float64) * self._unit + self._level
        return found

    # -- estimates -------------------------------------------------------------------------------

    def _estimates(self, values: Ratings, problem: Problem, output: Floats) -> Any:
        """Items with the network as their prior: a few rounds of EM for the noise of annotators and of the network."""
        prior: dict[str, Any] = {"shrinkage": 1.0, "strength": 1.0, "shared": True}
        scale = np.where(np.abs(self.scale_) > 0.05, self.scale_, 0.05)
        # In the units of the items, where an annotator's scale is one.
        plain = replace(problem, value=problem.value / scale[problem.annotator])
        noise = relative_noise(problem.noise())
        shape = (problem.n_annotators, problem.n_dimensions)
        bias, tau = self.bias_ / scale, np.broadcast_to(noise / problem.noise(), shape)
        items = Items(output, np.zeros(output.shape), output, np.broadcast_to(0.2, output.shape))
        for _ in range(_ROUNDS):
            precision = plain.weight[:, None] * (tau / noise)[plain.annotator]
            items = infer_items(plain, items, precision, bias)
            _, tau, noise = update_annotators(plain, items, noise, **prior)
            spread = np.maximum(((items.mean - output) ** 2 + items.variance).mean(axis=0), 1e-4)
            items = replace(items, prior_variance=np.broadcast_to(spread, output.shape))
        signal = float((output.var(axis=0) + items.prior_variance[0]).sum())
        found = point_estimates(values, self.name, plain, items, tau, noise, bias, level="annotators", signal=signal, **prior)
        more = {**found.more, "scale": self.scale_}
        own = np.abs(scale) * found.noise
        return replace(found, bias=self.bias_ * problem.spread, noise=own, more=more)


def _votes_of(pointer: NDArray[np.int64], chosen: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """Positions of the answers on these items, and which of the items each is on."""
    sizes = pointer[chosen + 1] - pointer[chosen]
    place = np.repeat(np.arange(len(chosen)), sizes)
    within = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return torch.from_numpy(pointer[chosen][place] + within), torch.from_numpy(place)
