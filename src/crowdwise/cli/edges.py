"""Items that depend on each other: ``--edges``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.cli.fitting import noted
from crowdwise.cli.job import naming, note

if TYPE_CHECKING:
    from crowdwise.data.edges import Edges
    from crowdwise.estimator.outcome import Result

__all__ = ["read_edges", "said_of_edges"]


def read_edges(path: Path, items: Any = ()) -> Edges:
    """Edges between items, from a table; says where its first row joins two of these `items` and is no row of names."""
    from crowdwise.io.edge_tables import read_edges

    with naming("--edges"), noted() as notes:
        return read_edges(path, items, notes)


def said_of_edges(result: Result) -> dict[str, Any]:
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
