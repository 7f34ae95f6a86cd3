"""Scores from features: a network s(x) and the reliability of annotators, trained end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from crowdwise.data.comparisons import Comparisons
from crowdwise.data.encode import codes_of, series_of, tidy
from crowdwise.engines.gradient.networks import build_network, default_spec
from crowdwise.engines.gradient.rows import Rows, evaluated_at_once, rows_of
from crowdwise.errors import DivergedError, InputError
from crowdwise.estimator.settings import check_settings, setting
from crowdwise.methods.rank.annotators import Ballots, Reliability
from crowdwise.methods.rank.base import Ranker, centred
from crowdwise.methods.rank.crowd_bt import actions
from crowdwise.methods.rank.engine import ballots_of
from crowdwise.methods.rank.games import Floats, Games, as_comparisons
from crowdwise.methods.rank.result import Ranking

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["RankNetwork"]


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, its annotators, the shape of its rows, and the log-likelihood of every epoch."""

    network: nn.Module
    people: Reliability
    shape: tuple[int, ...]
    trace: list[float]

    def scores(self, rows: Rows) -> Floats:
        """Scores of all rows, not centred."""
        return _scores(self.network, rows)


@dataclass(repr=False)
class RankNetwork(Ranker):
    """CrowdBT whose scores are a network of the items' features; new items get scores too.

    Every epoch is a pass over the votes with Adam, under the reliabilities found so far; then these are set to their modes
    given the network. The loss is the negative log-likelihood of the votes. Scores carry no standard errors.

    Examples
    --------
    >>> votes = Comparisons.from_arrays([0, 0, 1], [1, 2, 2], ["ann", "bob", "ann"], [1, 2, 2])
    >>> model = RankNetwork(network="linear", epochs=50).fit(votes, np.array([[0.0], [1.0], [2.0]]))
    >>> bool(np.diff(model.predict(np.array([[0.0], [5.0]])))[0] > 0)
    True
    """

    name: ClassVar[str] = "rank-network"

    network: str = setting("auto", "auto, linear, mlp or cnn", choices=("auto", "linear", "mlp", "cnn"))
    hidden: int | None = setting(None, "width of the hidden layer; None: by the items", low=1, whole=True, optional=True)
    dropout: float | None = setting(0.0, "share of hidden units left out in training", low=0, optional=True)
    epochs: int = setting(60, "passes over the votes", low=1, whole=True)
    batch_size: int = setting(256, "votes per step", low=1, whole=True)
    learning_rate: float = setting(0.01, "step size of Adam, falling to 0 along a cosine", above=0)
    weight_decay: float = setting(1e-3, "decay of the weights (AdamW)", low=0)
    right: float = setting(10.0, "first parameter of the Beta prior of reliabilities", low=1)
    wrong: float = setting(2.0, "second parameter of the Beta prior", low=1)
    random_state: int = setting(0, "seed of the weights and of the order of the votes", low=0, whole=True)

    def fit(self, comparisons: Any, X: Any = None, *, items: Any = None) -> Self:
        """Fit to comparisons and features, a row per item.

        Parameters
        ----------
        comparisons : Comparisons or frame
            The votes.
        X : [N, ...]
            Features; arrays, sparse matrices and tensors.
        items : [N], optional
            Ids of the rows; left out, rows are in the order of the comparisons' items.
        """
        check_settings(self)
        votes = as_comparisons(comparisons)
        if X is None:
            raise InputError("rank-network needs features: fit(comparisons, X), or --features FILE on the command line")
        rows = rows_of(X, torch.float32)
        where = _positions(votes, len(rows), items)
        ballots = ballots_of(votes, Games.of(votes))
        self._trained = self._train(rows, torch.from_numpy(where), ballots)
        raw, people = self._trained.scores(rows), self._trained.people
        score = centred(raw[where], np.zeros(len(where), np.int64))
        lead = score[ballots.first] - score[ballots.second]
        reliability, error = people.probability[0], people.standard_error(ballots, lead)
        unknown = np.full(votes.n_items, np.nan)
        self._shift = float(raw[where].mean())
        self.result_ = Ranking(
            self.name,
            votes,
            score,
            unknown,
            np.ones(votes.n_items, np.int64),
            np.full(votes.n_items, votes.n_items),
            np.zeros(votes.n_items, np.int64),
            level=0.95,
            people={
                "reliability": reliability,
                "standard_error": error,
                "flip_rate": 1 - reliability,
                "action": actions(reliability, error),
            },
            line=people.line(),
            trace=self._trained.trace,
            n_iter=self.epochs,
        )
        return self

    def predict(self, X: Any) -> Floats:
        """Scores of new items, on the scale of those fitted, [N]."""
        self._kept("result_")
        rows, known = rows_of(X, torch.float32), self._trained.shape
        if rows.shape != known:
            raise InputError(f"rows have shape {tuple(rows.shape)}, and the network was trained on {tuple(known)}")
        return self._trained.scores(rows) - self._shift

    def _train(self, rows: Rows, where: Tensor, ballots: Ballots) -> Trained:
        first, second = where[ballots.first], where[ballots.second]
        chose = torch.from_numpy(np.where(ballots.chose_first, 1.0, -1.0)).float()
        weight, annotator = torch.from_numpy(ballots.weight).float(), torch.from_numpy(ballots.annotator)
        people = Reliability(np.full((1, ballots.n_annotators), 0.9), np.array([[self.right, self.wrong]]))
        # Nobody else's random numbers are touched.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            network = build_network(default_spec(self.network, rows, 1, self.dropout, self.hidden), rows).float()
            optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
            n_steps = self.epochs * -(-len(first) // self.batch_size)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, n_steps)
            trace: list[float] = []
            for _ in range(self.epochs):
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
        return Trained(network, people, rows.shape, trace)


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


def _positions(votes: Comparisons, n_rows: int, items: Any) -> Any:
    """The row of every item."""
    if items is None:
        if n_rows != votes.n_items:
            raise InputError(f"{n_rows:,} rows of features and {votes.n_items:,} items; give the ids of the rows: items=...")
        return np.arange(n_rows)
    ids = tidy(series_of(items))
    if len(ids) != n_rows:
        raise InputError(f"{n_rows:,} rows of features and {len(ids):,} ids; give one id per row")
    codes = codes_of(tidy(series_of(votes.items)), ids)
    if (codes < 0).any():
        lost = votes.items[codes < 0]
        raise InputError(f"no features of {len(lost):,} items that were compared, such as {lost.tolist()[0]!r}; add their rows")
    return codes.astype(np.int64)
