"""Say up front what a fit will cost, where a method's mathematics makes it expensive."""

from __future__ import annotations

import os
import warnings

from crowdwise.errors import CostWarning, InputError

__all__ = ["announce", "check_tables"]

# Vectorised float operations per second that plain numpy reaches on one ordinary core.
_PER_SECOND = 5e8
_SLOW_SECONDS = 60.0


def announce(method: str, *, operations: float, memory: float, advice: str) -> None:
    """Warn before a fit that will take minutes; refuse one that cannot fit into memory.

    Parameters
    ----------
    operations, memory : float
        Foreseen floating-point operations of the whole fit, and bytes held at its peak.
    advice : str
        What to do instead, such as "use dawid-skene, or select fewer annotators".
    """
    available = _memory()
    if memory > available:
        raise InputError(
            f"{method} would need about {memory / 1e9:.0f} GB of memory; this machine has {available / 1e9:.0f} GB; {advice}"
        )
    seconds = operations / _PER_SECOND
    if seconds > _SLOW_SECONDS:
        warnings.warn(
            f"{method} will take about {seconds / 60:.0f} minutes on these votes; {advice}", CostWarning, stacklevel=4
        )


def check_tables(n_annotators: int, n_classes: int, n_votes: int) -> None:
    """Refuse votes whose confusion matrices cannot fit into memory: free text taken for labels, as a rule."""
    # A fit holds the matrices, their counts and their logs at once; reports need them for every method.
    memory = 4.0 * 8 * n_annotators * n_classes**2
    if memory > _memory():
        raise InputError(
            f"{n_classes:,} different labels on {n_votes:,} votes: confusion matrices of {n_annotators:,} annotators "
            f"would need about {memory / 1e9:.0f} GB of memory; is this the label column? (name it: label=... or --label)"
        )


def _memory() -> float:
    """Bytes of memory of this machine; infinity where the system does not say."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
