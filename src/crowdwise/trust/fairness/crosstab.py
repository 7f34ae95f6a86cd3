"""Who is flagged or pruned, by the group of the annotator: checks of annotators can fall on a minority."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from crowdwise.data.encode import codes_of, encode, series_of, tidy
from crowdwise.errors import InputError

__all__ = ["flagged_by_group"]


def flagged_by_group(flagged: Iterable[Any], annotator_groups: Mapping[Any, Any], level: float = 0.95) -> pl.DataFrame:
    """Count the flagged among the annotators of each group.

    Parameters
    ----------
    flagged : iterable
        Annotators with a flag, such as ``crowdwise.trust.crowd.spammers.score(result).flagged``.
    annotator_groups : mapping
        The group of every annotator who was checked.

    Returns
    -------
    frame
        group, n_annotators, n_flagged, share, low, high; the interval is exact (Clopper and Pearson 1934).

    Examples
    --------
    >>> flagged_by_group(["x"], {"x": "south", "y": "north", "z": "north"}).select("group", "n_annotators", "n_flagged").rows()
    [('north', 2, 0), ('south', 1, 1)]
    """
    from scipy.special import betaincinv

    who = tidy(series_of(list(annotator_groups)))
    code, names = encode(tidy(series_of(list(annotator_groups.values()))))
    if (code < 0).any():
        raise InputError(f"annotator {who[int(np.argmax(code < 0))]!r} has no group; name one such as 'unknown'")
    place = codes_of(tidy(series_of(list(dict.fromkeys(flagged)))), who)
    if (place < 0).any():
        raise InputError(f"{int((place < 0).sum())} flagged annotators have no group; add them to annotator_groups")
    total, hit = (np.bincount(index, minlength=len(names)) for index in (code, code[place]))
    tail = (1 - level) / 2
    low = np.where(hit > 0, betaincinv(np.maximum(hit, 1), total - hit + 1, tail), 0.0)
    high = np.where(hit < total, betaincinv(hit + 1, np.maximum(total - hit, 1), 1 - tail), 1.0)
    columns = {"n_annotators": total, "n_flagged": hit, "share": hit / total, "low": low, "high": high}
    return pl.DataFrame({"group": series_of(names), **columns})
