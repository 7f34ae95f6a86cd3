"""Crowds from options: a mix of families of annotators, drawn or recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.fitting import parse_list, read_gold, read_votes
from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.campaign.oracle import RecordedCrowd, SimulatedCrowd
    from crowdwise.cli.options import ReadOptions

__all__ = ["drawn", "recorded_crowd", "simulated_crowd"]


def drawn(items: int, annotators: int, classes: str, kind: str, votes_per_item: Any, seed: int, **more: Any) -> Any:
    """A simulated campaign; `classes` are their number or their names, `kind` is a family or FAMILY=SHARE pairs."""
    from crowdwise.data.simulate import simulate

    named = None if classes.strip().isdigit() else parse_list(classes, "--classes")
    return simulate(
        n_items=items,
        n_annotators=annotators,
        n_classes=int(classes) if named is None else len(named),
        classes=named,
        votes_per_item=votes_per_item,
        annotators=_mix(kind),
        random_state=seed,
        **more,
    )


def _mix(text: str) -> Any:
    """A family as it is, or comma-separated FAMILY=SHARE pairs."""
    if "=" not in text:
        return text
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        raise SettingError(f"--kind must be a family or a mix such as one-coin=0.8,colluder=0.2; got {text!r}") from None


def recorded_crowd(path: str, truth: Path | None, read: ReadOptions) -> RecordedCrowd:
    """Recorded votes that answer questions; they or the file `truth` carry the true labels."""
    from crowdwise.campaign.oracle import RecordedCrowd

    data = read_votes(path, read)
    if truth is None and data.gold is None:
        raise SettingError("give the true labels with --truth FILE (columns item and label)")
    return RecordedCrowd(data, read_gold(truth, data))


def simulated_crowd(items: int, annotators: int, kind: str, classes: str | None, seed: int) -> SimulatedCrowd:
    """Annotators of a family or mix, who answer every question."""
    from crowdwise.campaign.oracle import SimulatedCrowd

    return SimulatedCrowd.of(drawn(items, annotators, classes or "3", kind, 1, seed), seed)
