"""Options of commands about campaigns: who may be asked about what, and features that need not be there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdwise.cli.options import FLAG, FeatureOptions, MethodOptions
from crowdwise.errors import SettingError

__all__ = ["MaybeFeatures", "PoolOptions", "learns"]

_POOL, _FEATURES = "Who may be asked about what", "Reading the features"


def _pool(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=_POOL, **more)


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Limits; the options of `crowdwise.campaign.pool.Pool.of`."""

    pool: Annotated[
        Path | None, _pool("--pool", metavar="FILE", help="Items to ask about: item. By default those voted on.")
    ] = None
    capacity: Annotated[
        Path | None,
        _pool("--capacity", metavar="FILE", help="Who can answer how often, and at what price: annotator, capacity[, cost]."),
    ] = None
    asked: Annotated[
        Path | None,
        _pool("--asked", metavar="FILE", help="Earlier assignments (item, annotator): those without a vote still wait."),
    ] = None
    per_item: Annotated[int, _pool("--per-item", metavar="N", help="Most answers to ask for about one item now.")] = 1
    least: Annotated[int, _pool("--least", metavar="N", help="Items with fewer votes come first.")] = 0
    most: Annotated[int | None, _pool("--most", metavar="N", help="Votes after which an item is left alone.")] = None
    repeats: Annotated[bool, _pool("--repeats", metavar=FLAG, help="Annotators may be asked twice about an item.")] = False


@dataclass(frozen=True, kw_only=True)
class MaybeFeatures:
    """As `FeatureOptions`, where features are not needed."""

    features: Annotated[
        str | None,
        typer.Option("--features", metavar="FILE", rich_help_panel=_FEATURES, help="One row per item: .npz .npy .csv .parquet"),
    ] = None
    features_item: Annotated[
        str | None,
        typer.Option("--features-item", metavar="NAME", rich_help_panel=_FEATURES, help="Column or array of the items' ids."),
    ] = None
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="NAME", rich_help_panel=_FEATURES, help="Array of an .npz file that holds the features."),
    ] = None

    def given(self) -> FeatureOptions:
        """The same where features are given."""
        assert self.features is not None
        return FeatureOptions(features=self.features, features_item=self.features_item, key=self.key)


def learns(method: MethodOptions, features: MaybeFeatures) -> bool:
    """Whether a classifier is trained; options that do not go together are refused."""
    from crowdwise.estimator.registry import classifiers

    chosen = method.method in classifiers() or (method.method is None and features.features is not None)
    if chosen and features.features is None:
        raise SettingError(f"{method.method} learns from features: give them with --features FILE")
    if chosen and (method.history is not None or method.class_prior is not None):
        raise SettingError("--history and --class-prior are for methods without features")
    return chosen
