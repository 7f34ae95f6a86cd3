"""Scores from features: a network s(x) and the reliability of annotators, trained end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.storable import storable
from crowdwise.engines.gradient.networks import build_network, default_spec
from crowdwise.engines.gradient.rows import Rows, evaluated_at_once, rows_of
from crowdwise.engines.gradient.weights import load_weights, weights_bytes, weights_of
from crowdwise.errors import DivergedError, InputError
from crowdwise.estimator.estimator import random_state_setting, seed_of, setting
from crowdwise.estimator.storage import members_of, value_of
from crowdwise.methods.rank.annotators import Ballots, Reliability
from crowdwise.methods.rank.base import Ranker
from crowdwise.methods.rank.crowd_bt import described
from crowdwise.methods.rank.engine import ballots_of
from crowdwise.methods.rank.games import Floats, Games, as_comparisons
from crowdwise.methods.rank.result import Ranking
from crowdwise.methods.rows import row_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Never, Self

    from crowdwise.engines.loop import Progress

__all__ = ["RankNetwork"]

_WEIGHTS = "network.safetensors"


@storable
@dataclass(frozen=True, eq=False)
class RankSpec:
    """What makes the network again, and what is taken off its output so that the mean score is 0."""

    spec: dict[str, Any]
    shift: float


@dataclass(eq=False, repr=False, kw_only=True)
class RankNetwork(Ranker):
    """CrowdBT whose scores are a network of the items' features; new items get scores too.

    Every epoch is a pass over the votes with Adam, under the reliabilities found so far; then these are set to their modes
    given the network. The loss is the negative log-likelihood of the votes. Scores carry no standard errors.

    Examples
    --------
    >>> votes = Comparisons.from_arrays([0, 0, 1], [1, 2, 2], ["ann", "bob", "ann"], [1, 2, 2])
    >>> model = RankNetwork(network="linear", epochs=50).fit(np.array([[0.0], [1.0], [2.0]]), votes)
    >>> bool(np.diff(model.predict(np.array([[0.0], [5.0]])))[0] > 0)
    True
    """

    name: ClassVar[str] = "rank-network"

    network: str = setting("auto", "Auto, linear, mlp or cnn.", choices=("auto", "linear", "mlp", "cnn"))
    hidden: int | None = setting(None, "Width of the hidden layer; None: by the items.", low=1, whole=True, optional=True)
    dropout: float | None = setting(0.0, "Share of hidden units left out in training.", low=0, optional=True)
    epochs: int = setting(60, "Passes over the votes.", low=1, whole=True)
    batch_size: int = setting(256, "Votes per step.", low=1, high=10**9, whole=True)
    learning_rate: float = setting(0.01, "Step size of Adam, falling to 0 along a cosine.", above=0)
    weight_decay: float = setting(1e-3, "Decay of the weights (AdamW).", low=0)
    right: float = setting(10.0, "First parameter of the Beta prior of reliabilities.", low=1)
    wrong: float = setting(2.0, "Second parameter of the Beta prior.", low=1)
    random_state: int | None = random_state_setting("Seed of the weights and of the order of the votes.")

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
        """Fit to features and comparisons.

        Parameters
        ----------
        X : [N, ...]
            Features, a row per item; arrays, sparse matrices and tensors.
        y : Comparisons or frame
            The votes.
        items : [N], optional
            Ids of the rows; left out, rows are in the order of the comparisons' items.
        gold, engine
            No method of comparisons takes these yet.
        progress : callable, optional
            Called after every epoch with (epoch, log-likelihood, nan).
        """
        self._check_fit(other, gold=gold, engine=engine)
        if X is None:
            raise InputError("rank-network needs features: fit(X, comparisons), or --features FILE on the command line")
        votes = as_comparisons(y)
        rows = rows_of(X, torch.float32)
        where = row_positions(votes.items, len(rows), items)
        ballots = ballots_of(votes, Games.of(votes))
        spec = default_spec(self.network, rows, 1, self.dropout, self.hidden)
        network, people, trace = self._train(spec, rows, torch.from_numpy(where), ballots, progress)
        raw = _scores(network, rows)[where]
        self._network, self._model = network, RankSpec(spec, float(raw.mean()))
        self.result_ = self._ranking(votes, raw - raw.mean(), people, ballots, trace)
        return self

    def _ranking(self, votes: Comparisons, score: Floats, people: Reliability, ballots: Ballots, trace: Any) -> Ranking:
        lead = score[ballots.first] - score[ballots.second]
        return Ranking(
            method=self.name,
            settings=self.get_params(),
            votes=votes,
            score=score,
            standard_error=np.full(votes.n_items, np.nan),
            rank_lower=np.ones(votes.n_items, np.int64),
            rank_upper=np.full(votes.n_items, votes.n_items),
            component=np.zeros(votes.n_items, np.int64),
            level=0.95,
            columns=described(people, ballots, lead),
            line=people.line(),
            trace={"objective": np.array(trace)},
            n_iter=self.epochs,
            converged=True,
        )

    def predict(self, X: Any) -> Floats:
        """Scores of new items, on the scale of those fitted, [N]."""
        self._fitted()
        rows, known = rows_of(X, torch.float32), tuple(self._model.spec["shape"])
        if tuple(rows.shape) != known:
            raise InputError(f"rows have shape {tuple(rows.shape)}, and the network was trained on {known}")
        return _scores(self._network, rows) - self._model.shift

    def _members(self) -> dict[str, bytes]:
        return members_of(self._model, "model") | {_WEIGHTS: weights_bytes(self._network.state_dict())}

    def _restore(self, outcome: Any, members: Mapping[str, bytes], network: Any = None) -> None:
        super()._restore(outcome, members, network)
        self._model = value_of(members, "model")
        self._network = build_network(self._model.spec).float()
        load_weights(self._network, weights_of(members[_WEIGHTS]))

    def _train(
        self, spec: dict[str, Any], rows: Rows, where: Tensor, ballots: Ballots, progress: Progress | None
    ) -> tuple[nn.Module, Reliability, list[float]]:
        first, second = where[ballots.first], where[ballots.second]
        chose = torch.from_numpy(np.where(ballots.chose_first, 1.0, -1.0)).float()
        weight, annotator = torch.from_numpy(ballots.weight).float(), torch.from_numpy(ballots.annotator)
        people = Reliability(np.full((1, ballots.n_annotators), 0.9), np.array([[self.right, self.wrong]]))
        # Nobody else's random numbers are touched.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(self.random_state))
            network = build_network(spec, rows).float()
            optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
            n_steps = self.epochs * -(-len(first) // self.batch_size)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_steps)
            trace: list[float] = []
            for epoch in range(self.epochs):
                log_odds, total = torch.from_numpy(people.logits()[0]).float()[annotator], 0.0
                network.train()
                for batch in torch.split(torch.randperm(len(first)), self.batch_size):
                    lead = chose[batch] * _lead(network, rows, first[batch], second[batch])
                    right = logsigmoid(log_odds[batch]) + logsigmoid(lead)
                    wrong = logsigmoid(-log_odds[batch]) + logsigmoid(-lead)
                    loss = -(weight[batch] * torch.logaddexp(right, wrong)).sum()
                    optimiser.zero_grad()
                    torch.autograd.backward(loss / len(batch))
                    optimiser.step()
                    schedule.step()
                    total += loss.item()
                if not np.isfinite(total):
                    raise DivergedError("the loss of rank-network left the finite numbers; lower learning_rate")
                raw = _scores(network, rows)
                people = people.update(people.expect(ballots, raw[first.numpy()] - raw[second.numpy()]))
                trace.append(-total)
                if progress is not None:
                    progress(epoch + 1, trace[-1], float("nan"))
        return network, people, trace


def _lead(network: nn.Module, rows: Rows, first: Tensor, second: Tensor) -> Tensor:
    """Scores of the first items minus those of the second; every item of the batch is evaluated once."""
    unique, place = torch.unique(torch.cat([first, second]), return_inverse=True)
    scores: Tensor = network(rows.take(unique))[:, 0]
    return scores[place[: len(first)]] - scores[place[len(first) :]]


def _scores(network: nn.Module, rows: Rows) -> Floats:
    network.eval()
    with torch.no_grad():
        parts = [network(rows.take(part))[:, 0] for part in torch.split(torch.arange(len(rows)), evaluated_at_once(rows))]
    found: Floats = torch.cat(parts).double().numpy()
    return found
