"""Whether votes can carry a comparison of methods: it needs held-out votes that others on the same item predict."""

from __future__ import annotations

import numpy as np

from crowdwise.data.annotations import Annotations

__all__ = ["not_comparable"]

# Held-out votes below which differences between methods are noise.
_FEWEST_VOTES = 200


def not_comparable(votes: Annotations) -> str:
    """Why methods cannot be compared on these votes; empty where they can."""
    if votes.n_classes < 2:
        return "there is one class only"
    item = votes.item if votes.weight is None else votes.item[votes.weight > 0]
    per_item = np.bincount(item, minlength=votes.n_items)
    in_company = int(per_item[per_item > 1].sum())
    if in_company < _FEWEST_VOTES:
        return f"only {in_company:,} votes are on items with another vote, and {_FEWEST_VOTES} are needed"
    return ""
