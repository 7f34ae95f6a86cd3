"""Edges between items on the command line: ``crowdwise aggregate --edges``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.job import naming, note

if TYPE_CHECKING:
    from crowdwise.data.edges import Edges

__all__ = ["read_edges", "said_of_edges"]


def read_edges(path: Path) -> Edges:
    """Edges between items, from a table."""
    from crowdwise.data.edges import Edges
    from crowdwise.io.file_columns import FileColumns

    with naming("--edges"):
        return Edges.of(FileColumns(path))


def said_of_edges(result: Any) -> dict[str, Any]:
    """Say whether neighbours are alike, and how much that counts."""
    coupling, association = result.prior.coupling, result.prior.association
    alike = f"{association:.1f} standard deviations more alike than any two items"
    if coupling:
        note(f"neighbours are {alike}; an edge adds {coupling:.2f} to the log-odds of the neighbour's class")
    elif association > 0:
        note(f"neighbours are {alike}, but edges do not help to predict the votes, so they were left aside")
    else:
        note("neighbours are no more alike than any two items, so edges were left aside")
    return {"coupling": coupling, "association": association}
