"""Clusters from features and answers: a network on the simplex, and the likelihood of the answers.

Model      f(x) = softmax of a network; P(link of i and j) = f(x_i) . f(x_j)
           annotator a says "same" with probability hit_a if linked, false_alarm_a if not
Loss       - sum over pairs of log(H_p f_i.f_j + G_p sum_{k != l} f_ik f_jl) - log Beta priors of the rates
           - volume * log det(F^T F / items of the batch)

H and G are the probabilities of all answers on the pair. The probability of no link is summed over different clusters, not
subtracted; rates stay within 0.001 and 0.999. All of it is trained by Adam at once; `restarts` networks are trained and the one
with the smallest loss is kept.

References
----------
Ibrahim, Nguyen and Fu: tutorial on learning from crowdsourced noisy labels (ICASSP 2025), similarity annotations.
Gomes, Welinder, Krause and Perona (2011): Crowdclustering, NIPS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from crowdwise.data.storable import storable
from crowdwise.engines.gradient.weights import load_weights, weights_bytes, weights_of
from crowdwise.errors import InputError
from crowdwise.estimator.estimator import setting
from crowdwise.estimator.storage import members_of, value_of
from crowdwise.kernels.types import Floats, Integers
from crowdwise.methods.clusters.base import Clustering, as_similarities
from crowdwise.methods.clusters.block import BlockFit
from crowdwise.methods.clusters.pairs import Pairs, Rates
from crowdwise.methods.rows import row_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["CrowdClustering", "pair_loss"]

_WEIGHTS = "network.safetensors"
_LOW = 1e-3
# Keeps log det finite while all predictions agree.
_RIDGE = 1e-4


@storable
@dataclass(frozen=True, eq=False)
class ClusterUnits:
    """Width of the hidden layer, mean and standard deviation of the features, [D], and the order of the clusters, [K]."""

    hidden: int
    centre: Floats
    spread: Floats
    order: Integers

    def sound(self) -> bool:
        """Whether saved arrays agree with each other."""
        return self.centre.shape == self.spread.shape and sorted(self.order.tolist()) == list(range(len(self.order)))

    def scaled(self, features: Floats) -> Tensor:
        """Features with mean 0 and variance 1."""
        return torch.as_tensor((features - self.centre) / self.spread, dtype=torch.float32)


@dataclass(eq=False, repr=False, kw_only=True)
class CrowdClustering(Clustering):
    """Crowd clustering with a network: clusters of items seen and unseen, and the annotators' rates.

    Extra: torch. After `fit(X, votes)`, `predict_proba(X)` clusters new items.
    """

    hidden: int = setting(64, "Width of the hidden layer; 0 is a linear map.", low=0, whole=True)
    epochs: int = setting(40, "Passes over the pairs.", low=1, whole=True)
    batch_size: int = setting(512, "Pairs in a batch.", low=1, high=10**9, whole=True)
    learning_rate: float = setting(0.003, "Step of Adam.", above=0)
    weight_decay: float = setting(1e-4, "Weight decay of the network.", low=0)
    volume: float = setting(0.01, "Strength of the log-det penalty that keeps clusters apart.", low=0)
    restarts: int = setting(3, "Networks to train; the smallest loss is kept.", low=1, high=1000, whole=True)

    name: ClassVar[str] = "crowd-clustering"

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        items: Any = None,
        gold: Any = None,
        progress: Progress | None = None,
        engine: Any = None,
        **other: Never,
    ) -> Self:
        """Fit to features and answers on pairs.

        Parameters
        ----------
        X : [N, D]
            Features, a row per item.
        y : Similarities or frame
            The answers.
        items : [N], optional
            Ids of the rows; left out, rows are in the order of the answers' items.
        gold, engine
            No method of similarities takes these yet.
        progress : callable, optional
            Called after every epoch with (epoch, objective, nan).
        """
        self._check_fit(other, gold=gold, engine=engine)
        votes, rows = as_similarities(y), _checked(X)
        return self._cluster(votes, rows[row_positions(votes.items, len(rows), items)], progress)

    def predict_proba(self, X: Any) -> Floats:
        """Probability of every cluster for new rows of features, [M, K]."""
        self._fitted()
        rows = _checked(X)
        if rows.shape[1] != len(self._units.centre):
            raise InputError(f"rows of {rows.shape[1]} features, but the model was fitted to {len(self._units.centre)}")
        return self._predict(self._network, self._units.scaled(rows))[:, self._order]

    def predict(self, X: Any) -> Integers:
        """Cluster of new rows of features, counted from 1, [M]."""
        return np.asarray(self.predict_proba(X).argmax(axis=1) + 1)

    def _members(self) -> dict[str, bytes]:
        model = replace(self._units, order=self._order)
        return members_of(model, "model") | {_WEIGHTS: weights_bytes(self._network.state_dict())}

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        super()._restore(outcome, members, network)
        self._units = value_of(members, "model")
        self._order = self._units.order
        self._network = _network(len(self._units.centre), self._units.hidden, len(self._order), 0)
        load_weights(self._network, weights_of(members[_WEIGHTS]))

    def _fit(
        self, pairs: Pairs, n_clusters: int, features: Any, rng: np.random.Generator, progress: Progress | None = None
    ) -> BlockFit:
        spread = features.std(axis=0)
        self._units = ClusterUnits(
            self.hidden, features.mean(axis=0), np.where(spread > 1e-9, spread, 1.0), np.arange(n_clusters)
        )
        rows = self._units.scaled(features)
        runs = [self._train(pairs, rows, n_clusters, int(rng.integers(2**31)), progress) for _ in range(self.restarts)]
        network, rates, trace = min(runs, key=lambda run: float(np.mean(run[2][-3:])))
        self._network = network
        found = torch.sigmoid(rates).clamp(_LOW, 1 - _LOW).detach().double().numpy()
        fitted = Rates(found[0], found[1], self.right, self.wrong)
        return BlockFit(self._predict(network, rows), fitted, -np.array(trace), True, len(trace))

    @staticmethod
    def _predict(network: nn.Module, rows: Tensor) -> Floats:
        with torch.no_grad():
            return np.asarray(torch.softmax(network(rows).double(), dim=1).numpy())

    def _train(
        self, pairs: Pairs, rows: Tensor, n_clusters: int, seed: int, progress: Progress | None
    ) -> tuple[nn.Module, Tensor, list[float]]:
        """One network from one seed: the network, the logits of the rates [2, A], and the mean loss of every epoch."""
        generator = torch.Generator().manual_seed(seed)
        network = _network(rows.shape[1], self.hidden, n_clusters, seed)
        start = Rates.start(pairs.n_annotators, 4.0, 1.0)
        rates = torch.logit(torch.as_tensor(np.stack([start.hit, start.false_alarm]), dtype=torch.float32)).requires_grad_()
        groups = [{"params": list(network.parameters()), "weight_decay": self.weight_decay}, {"params": [rates], "lr": 0.02}]
        optimiser = torch.optim.Adam(groups, lr=self.learning_rate)
        order = np.argsort(pairs.pair_e, kind="stable")
        pointer = np.searchsorted(pairs.pair_e[order], np.arange(len(pairs) + 1))
        trace: list[float] = []
        for epoch in range(self.epochs):
            total = 0.0
            shuffled = torch.randperm(len(pairs), generator=generator).numpy()
            for begin in range(0, len(pairs), self.batch_size):
                chosen = shuffled[begin : begin + self.batch_size]
                size = pointer[chosen + 1] - pointer[chosen]
                answers = order[np.repeat(pointer[chosen] - np.cumsum(size) + size, size) + np.arange(size.sum())]
                loss = pair_loss(
                    network(rows[pairs.i[chosen]]),
                    network(rows[pairs.j[chosen]]),
                    rates,
                    torch.as_tensor(np.repeat(np.arange(len(chosen)), size)),
                    torch.as_tensor(pairs.annotator[answers], dtype=torch.int64),
                    torch.as_tensor(pairs.same[answers]),
                    torch.as_tensor(pairs.weight[answers], dtype=torch.float32),
                    prior=(self.right / len(pairs), self.wrong / len(pairs)),
                    volume=self.volume,
                )
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                total += float(loss.detach()) * len(chosen)
            trace.append(total / len(pairs))
            if progress is not None:
                progress(epoch + 1, -trace[-1], float("nan"))
        return network, rates, trace


def _checked(X: Any) -> Floats:
    """Rows of finite numbers, [N, D]."""
    if X is None:
        raise InputError("crowd-clustering needs features of the items; without any use similarity-nmf")
    features = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    if features.dtype.kind not in "fiub" or features.ndim < 2:
        raise InputError(f"features must be numbers, a row for each item; got {features.shape}")
    features = features.reshape(len(features), -1).astype(np.float64)
    odd = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if len(odd):
        raise InputError(f"X contains NaN or infinity in row {odd[0]} (counted from 0); fill it in or drop the item")
    return features


def pair_loss(
    logits_i: Tensor,
    logits_j: Tensor,
    rates: Tensor,
    pair: Tensor,
    annotator: Tensor,
    same: Tensor,
    weight: Tensor,
    *,
    prior: tuple[float, float],
    volume: float,
) -> Tensor:
    """Mean loss of a batch of pairs.

    Parameters
    ----------
    logits_i, logits_j : [B, K]
        What the network says of the two items.
    rates : [2, A]
        Logits of hit and false-alarm rates.
    pair, annotator, same, weight : [E]
        The answers: place of their pair in the batch, who gave them, whether "same", and their weight.
    prior : (right, wrong)
        Pseudo-answers per pair of the data, so that an epoch counts the prior once.
    """
    f_i, f_j = torch.softmax(logits_i, 1), torch.softmax(logits_j, 1)
    others = f_j @ (1 - torch.eye(f_j.shape[1], dtype=f_j.dtype))
    linked, apart = (f_i * f_j).sum(1), (f_i * others).sum(1)
    share = torch.sigmoid(rates).clamp(_LOW, 1 - _LOW)
    said = share[:, annotator]
    each = weight * torch.where(same, said, 1 - said).log()
    log_h, log_g = torch.zeros(2, len(linked), dtype=each.dtype).index_add(1, pair, each)
    tiny = torch.finfo(linked.dtype).tiny
    log_z = torch.logaddexp(log_h + linked.clamp(min=tiny).log(), log_g + apart.clamp(min=tiny).log())
    right = share[0].log().sum() + (1 - share[1]).log().sum()
    wrong = (1 - share[0]).log().sum() + share[1].log().sum()
    loss = -log_z.mean() - prior[0] * right - prior[1] * wrong
    if volume > 0:
        f = torch.cat([f_i, f_j]).double()
        gram = f.T @ f / len(f) + _RIDGE * torch.eye(f.shape[1], dtype=f.dtype)
        loss = loss - volume * torch.linalg.slogdet(gram)[1].to(loss.dtype)
    return loss


def _network(width: int, hidden: int, n_clusters: int, seed: int) -> nn.Module:
    """A network whose weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if hidden == 0:
            return nn.Linear(width, n_clusters)
        return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, n_clusters))
