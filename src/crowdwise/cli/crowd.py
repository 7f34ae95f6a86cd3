"""Crowds from options: a mix of families of annotators, drawn or recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import SettingError

if TYPE_CHECKING:
    from crowdwise.campaign.oracle import RecordedCrowd, SimulatedCrowd
    from crowdwise.cli.options import ReadOptions

__all__ = ["parse_classes", "parse_mix", "recorded_crowd", "simulated_crowd"]


def parse_mix(text: str) -> Any:
    """A family as it is, or FAMILY=SHARE pairs between commas."""
    if "=" not in text:
        return text
    try:
        pairs = [part.split("=") for part in text.split(",")]
        return {name.strip(): float(share) for name, share in pairs}
    except ValueError:
        raise SettingError(f"--kind must be a family or a mix such as one-coin=0.8,colluder=0.2; got {text!r}") from None


def parse_classes(text: str) -> dict[str, Any]:
    """A number of classes or their names, as `crowdwise.data.simulate.simulate` takes them."""
    from crowdwise.cli.inputs import parse_list

    if text.strip().isdigit():
        return {"n_classes": int(text), "classes": None}
    named = parse_list(text, "--classes")
    return {"n_classes": len(named), "classes": named}


def recorded_crowd(path: str, truth: Path | None, read: ReadOptions) -> RecordedCrowd:
    """Recorded votes that answer questions; they or the file `truth` carry the true labels."""
    from crowdwise.campaign.oracle import RecordedCrowd
    from crowdwise.cli.inputs import read_gold, read_votes

    data = read_votes(path, read)
    if truth is None and data.gold is None:
        raise SettingError("give the true labels with --truth FILE (columns item and label)")
    return RecordedCrowd(data, read_gold(truth, data))


def simulated_crowd(items: int, annotators: int, kind: str, classes: str | None, seed: int) -> SimulatedCrowd:
    """Annotators of a family or mix, who answer every question."""
    from crowdwise.campaign.oracle import SimulatedCrowd
    from crowdwise.data.simulate import simulate

    drawn = simulate(
        n_items=items,
        n_annotators=annotators,
        **parse_classes(classes or "3"),
        votes_per_item=1,
        annotators=parse_mix(kind),
        random_state=seed,
    )
    return SimulatedCrowd.of(drawn, seed)
