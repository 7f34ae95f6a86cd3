"""From the arguments of a campaign to its start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from crowdwise.campaign.history import history_of
from crowdwise.campaign.journal import Start
from crowdwise.campaign.names import ids_of, pairs_of
from crowdwise.campaign.pool import Pool, extended
from crowdwise.data.annotations import Annotations
from crowdwise.errors import SettingError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.estimator.outcome import Result
from crowdwise.kernels.types import Array

__all__ = ["NewCampaign", "settings_of"]


class NewCampaign:
    """Votes, pool and settings of a new campaign.

    Attributes
    ----------
    start : Start
        What is written down.
    rows : [M] or None
        The item of every row of the features.
    first : Annotations
        The votes before newcomers were added.
    fitted : Result or None
        That of a model which was fitted before, if its votes are the first ones.
    """

    def __init__(
        self,
        model: Any,
        votes: Any,
        annotators: Iterable[Any],
        classes: Sequence[Any] | None,
        feature_items: Iterable[Any] | None,
        has_features: bool,
        limits: Mapping[str, Any],
        settings: dict[str, Any],
    ) -> None:
        items = None if limits.get("items") is None else ids_of(limits["items"], distinct=True)
        fitted: Result | None = getattr(model, "result_", None) if votes is None and hasattr(model, "update") else None
        self.first = _first_votes(votes if fitted is None else fitted.votes, items, classes)
        self.rows: Array | None = None
        if has_features:
            self.rows = ids_of(feature_items if feature_items is not None else self.first.items if items is None else items)
        named = [name for key in ("capacity", "cost") if isinstance(limits.get(key), Mapping) for name in limits[key]]
        new_items = [name for names in (items, self.rows) if names is not None for name in names.tolist()]
        known = extended(self.first, new_items, [*annotators, *named])
        # Settings of the pool are wrong at once, not when the first question is due.
        Pool.of(known, **{**limits, "items": items})
        saved = {name: pairs_of(value) for name, value in limits.items() if name not in ("items", "allowed")}
        more = settings | saved | {"repeats": bool(limits.get("repeats", False)), "strict": classes is not None}
        self.start = Start(known, items, limits.get("allowed"), more, history_of(fitted))
        self.fitted = fitted if fitted is not None and fitted.votes is self.first else None


def settings_of(policy: Any, explore: float, diverse: bool, random_state: Any) -> dict[str, Any]:
    """Settings beside the pool's, checked, as JSON can hold them."""
    if not isinstance(random_state, Integral) or random_state < 0:
        raise SettingError(f"random_state must be a whole number >= 0; got {random_state!r}")
    if not 0 <= explore <= 1:
        raise SettingError(f"explore is a share from 0 to 1; got {explore!r}")
    return {
        "policy": policy if isinstance(policy, str) else None,
        "explore": float(explore),
        "diverse": bool(diverse),
        "random_state": int(random_state),
    }


def _first_votes(votes: Any, items: Any, classes: Sequence[Any] | None) -> Annotations:
    """Votes to start with; none at all where only items, annotators and classes are known."""
    if votes is not None:
        known = as_annotations(votes)
        return known if classes is None else known.with_classes(classes)
    if items is None or classes is None:
        raise SettingError("a campaign without votes needs items=..., classes=... and its annotators= or capacity= by name")
    return Annotations.from_arrays([], [], [], items=items.tolist(), annotators=[], classes=classes)
