"""Votes beside the votes of others, and votes with other classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.data.encode import codes_of, series_of, tidy, translate, union, vocabulary_array, vocabulary_series
from crowdwise.data.gold import joined_gold
from crowdwise.data.groups import joined_groups
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from crowdwise.data.annotations import Annotations

__all__ = ["joined", "reclassed"]


def joined(first: Annotations, *others: Annotations) -> Annotations:
    """All votes in one; vocabularies become unions, the first one's classes first."""
    parts = (first, *others)
    items, item_codes = first._union(parts, "items")
    annotators, annotator_codes = first._union(parts, "annotators")
    classes = union([part.classes for part in parts], sort=False)
    item = np.concatenate([codes[part.item] for codes, part in zip(item_codes, parts, strict=True)])
    annotator = np.concatenate([codes[part.annotator] for codes, part in zip(annotator_codes, parts, strict=True)])
    label = np.concatenate([translate(part.classes, classes)[part.label] for part in parts])
    weight, gold = first._joined_weights(parts), joined_gold(parts, items, classes)
    n_missing, groups = sum(part.n_missing for part in parts), joined_groups(parts, items)
    codes, soft = (item, annotator, label), any(part.soft for part in parts)
    return first.from_codes(*codes, items, annotators, classes, weight, gold, n_missing=n_missing, groups=groups, soft=soft)


def reclassed(votes: Annotations, classes: Sequence[Any]) -> Annotations:
    """The votes with these classes, in this order; one that is in use and not given is an error."""
    gold = votes.gold
    known = votes.label[:0] if gold is None else gold[gold >= 0]
    used = np.bincount(np.concatenate([votes.label, known]), minlength=votes.n_classes) > 0
    wanted = vocabulary_series(classes, "classes")
    new = codes_of(tidy(series_of(votes.classes)), wanted)
    lost = [str(c) for c in votes.classes[(new < 0) & used]]
    if lost:
        raise InputError(f"labels {lost} occur in the votes or in gold but are not among the classes {wanted.to_list()}")
    if gold is not None:
        gold = np.where(gold >= 0, new[gold], -1).astype(np.int16)
    codes = (votes.item, votes.annotator, new[votes.label], votes.items, votes.annotators, vocabulary_array(wanted))
    return votes.from_codes(*codes, votes.weight, gold, n_missing=votes.n_missing, groups=votes.groups, soft=votes.soft)
