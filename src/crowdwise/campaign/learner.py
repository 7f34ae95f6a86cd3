"""The model of a campaign and the features of its items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.campaign.history import prior_of
from crowdwise.campaign.names import ids_of, sliceable
from crowdwise.campaign.policies import State
from crowdwise.data.encode import translate
from crowdwise.errors import InputError, SettingError
from crowdwise.kernels.types import Array
from crowdwise.methods.classify.align import n_rows_of

if TYPE_CHECKING:
    from crowdwise.campaign.ledger import Ledger
    from crowdwise.campaign.pool import Pool
    from crowdwise.data.annotations import Annotations
    from crowdwise.estimator.outcome import Result

__all__ = ["Learner", "default_model", "from_shares"]

# What a refit starts from: shares of votes, which a few more of them never turn round, as they may the estimates of annotators.
_START = "majority"
# Of the Gaussians: in later ones labels follow features rather than votes, and the next batch may send them elsewhere.
_ROUNDS = 20


def default_model(features: Any) -> Any:
    """The method of a campaign: of votes alone without features, of both with a table of them, a network for images.

    Chosen on simulated crowds (`python -m benchmarks run campaign_models`), and quick enough to be fitted after every answer.
    """
    from crowdwise.estimator.registry import make

    if features is None:
        return make("dawid-skene")
    if len(getattr(features, "shape", (0, 0))) > 2:
        return make("ccem", init=_START)
    return make("raykar", classifier="auto", init=_START, gaussian_iter=_ROUNDS)


def from_shares(model: Any) -> Any:
    """A classifier whose fits start from the votes' shares, unless its setting `init` says otherwise than usual."""
    usual = next((one.default for one in fields(model) if one.name == "init"), None) if is_dataclass(model) else None
    now = getattr(model, "init", None)
    if not hasattr(model, "update") and isinstance(now, str) and now == usual != "identity":
        model.set_params(init=_START)
    return model


class Learner:
    """Fits a model to the votes of a ledger.

    Parameters
    ----------
    model : Aggregator or classifier
        What has `update` counts votes; anything else learns from features, and starts every fit from the votes' shares unless
        its setting `init` says otherwise.
    features, rows : [M, ...] and [M], or None
        Features, and the item of every row.
    history : DataFrame or None
        What is known of annotators from before: see `crowdwise.campaign.history`.
    """

    def __init__(self, model: Any, features: Any, rows: Array | None, history: pl.DataFrame | None) -> None:
        self.model, self.features, self.rows, self.history = model, features, rows, history
        if rows is not None and n_rows_of(features) != len(rows):
            raise InputError(
                f"features have {n_rows_of(features):,} rows for {len(rows):,} items; give their ids: feature_items"
            )
        if not self.counts_votes and rows is None:
            raise SettingError(f"{type(model).__name__} learns from features: give features=...")
        from_shares(model)

    @property
    def counts_votes(self) -> bool:
        """Whether the model needs votes only."""
        return hasattr(self.model, "update")

    def fitted(self, ledger: Ledger, earlier: Result | None) -> Result:
        """The model on all votes, continuing an earlier fit where it can."""
        votes = ledger.votes
        if not self.counts_votes:
            if not votes.n_votes:
                raise InputError(f"{type(self.model).__name__} has no votes to learn from yet; ask and tell first")
            self.model.fit(self.features, votes, items=self.rows)
        elif earlier is None:
            prior = prior_of(self.history, votes)
            # Methods of your own need not know of histories.
            self.model.fit(votes, **({} if prior is None else {"history": prior}))
        else:
            first, *others = ledger.pending
            self.model.update(first.concat(*others) if others else first)
        result: Result = self.model.result_
        return result

    def state(self, result: Result, pool: Pool, rng: np.random.Generator, *, cold: bool = False) -> State:
        """What a policy reads; `cold` where the result is not the model's own, which has no votes yet."""
        if self.counts_votes or cold:
            return State(result, pool, rng, None, sliceable(self._aligned(result.votes)))
        return State(result, pool, rng, self.model, sliceable(self.features))

    def missing(self, items: Iterable[Any]) -> list[Any]:
        """Those of some items that a classifier has no features of."""
        names = ids_of(items)
        if self.counts_votes or self.rows is None or not len(names):
            return []
        return list(names[translate(names, self.rows) < 0].tolist())

    def add(self, items: Array, features: Any) -> None:
        """Features of new items; what is refused changes nothing."""
        self.features, self.rows = (
            self._stacked(items, features),
            np.concatenate([ids_of(() if self.rows is None else self.rows), items]),
        )

    def check(self, items: Array, features: Any) -> None:
        """Refuse what `add` cannot take."""
        if self.rows is None:
            raise SettingError("the campaign has no features: begin it, or load it, with features=...")
        if n_rows_of(features) != len(items):
            raise InputError(f"features have {n_rows_of(features):,} rows for {len(items):,} new items")
        self._stacked(items, features)

    def _stacked(self, items: Array, features: Any) -> Any:
        old, new = sliceable(self.features), sliceable(features)
        if isinstance(old, pl.DataFrame) or isinstance(new, pl.DataFrame):
            if not (isinstance(old, pl.DataFrame) and isinstance(new, pl.DataFrame)) or old.columns != new.columns:
                raise InputError("features of new items must have the columns of those there are")
            return pl.concat([old, new], how="vertical_relaxed")
        if old.shape[1:] != new.shape[1:]:
            raise InputError(f"features of new items have the shape {new.shape[1:]}, and those there are {old.shape[1:]}")
        if hasattr(old, "tocsr"):
            from scipy.sparse import vstack

            return vstack([old, new]).tocsr()
        return np.concatenate([old, new.toarray() if hasattr(new, "toarray") else new])

    def _aligned(self, votes: Annotations) -> Any:
        """Features in the order of the items, or None where some item has none."""
        if self.rows is None:
            return None
        place = translate(votes.items, self.rows)
        return None if (place < 0).any() else sliceable(self.features)[place]
