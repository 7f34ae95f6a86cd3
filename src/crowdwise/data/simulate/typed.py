"""Sizes and mixes of a crowd as they are typed."""

from __future__ import annotations

from typing import Any

from crowdwise.errors import SettingError

__all__ = ["mix_of", "range_of"]


def range_of(text: str) -> int | tuple[int, int]:
    """A number of votes per item, or the ends of a range."""
    low, dash, high = text.partition("-")
    if not low.strip().isdigit() or (dash and not high.strip().isdigit()):
        raise SettingError(f"--votes-per-item must be a number such as 5 or a range such as 3-7; got {text!r}")
    return (int(low), int(high)) if dash else int(low)


def mix_of(text: str) -> Any:
    """A family as it is, or comma-separated FAMILY=SHARE pairs."""
    if "=" not in text:
        return text
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        raise SettingError(f"--kind must be a family or a mix such as one-coin=0.8,colluder=0.2; got {text!r}") from None
