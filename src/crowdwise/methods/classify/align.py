"""Bring features and votes together: row n of the features is item n of the votes."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from crowdwise.data.annotations import Annotations
from crowdwise.data.encode import series_of, tidy, vocabulary_array
from crowdwise.data.vote_arrays import FORMS, ONLY_ANNOTATOR, array_votes, is_nested
from crowdwise.errors import DataWarning, InputError
from crowdwise.estimator.aggregator import as_annotations
from crowdwise.estimator.carry import positions
from crowdwise.kernels.types import Array

__all__ = ["aligned_votes", "is_plain", "labels_of", "n_rows_of", "votes_of_labels", "votes_on_rows", "warn_of_unseen"]

# Ids that are looked at to see how they are sorted.
_COMPARED = 10_000


def n_rows_of(features: Any) -> int:
    """Number of rows of an array, sparse matrix, frame, tensor or dataset."""
    shape = getattr(features, "shape", None)
    return int(shape[0]) if shape else len(features)


def aligned_votes(features: Any, y: Any, items: Any, gold: Any, classes: Any = None, named: Any = None) -> Annotations:
    """Votes whose item n is row n of the features.

    Parameters
    ----------
    y
        Annotations, a long frame; in the order of the rows a matrix [N, A], one label per row, one-hot labels or
        probabilities [N, K], or probabilities by several annotators [N, A, K].
    items : sequence or None
        Ids of the rows; None where the rows are in the order of the votes' items.
    gold
        Known labels, as `Annotations.with_gold` takes them.
    classes : sequence or None
        All classes, where the votes need not have each of them.
    named
        The rows as they were given: the index of a frame may name items.
    """
    n_rows = n_rows_of(features)
    if isinstance(y, str | PathLike):
        raise InputError(f"votes are read first: crowdwise.read({str(y)!r})")
    plain = is_plain(y)
    if plain:
        _warn_of_minus_one(y)
    read = None if plain else array_votes(y)
    votes = votes_of_labels(y) if plain else as_annotations(y) if read is None else read
    votes = votes if classes is None else votes.with_classes(classes)
    # Labels and bare matrices are in the order of the rows, whatever the rows are called.
    in_order = plain or read is not None or isinstance(y, np.ndarray | list) or hasattr(y, "detach")
    streamed = _streamed(features)
    if streamed is not None:
        if in_order or items is not None:
            raise InputError(
                "a stream brings the ids of its rows: give votes by item id (Annotations, or a frame with item, annotator and "
                "label), and leave items= out"
            )
        items = streamed
    if items is not None and not in_order:
        votes = _by_id(votes, items, n_rows)
    elif votes.n_items != n_rows:
        what = "labels" if plain else "items with votes"
        hint = "" if plain else "; say which row is which item with items=... (ids of the rows, in their order)"
        raise InputError(f"X has {n_rows:,} rows but there are {votes.n_items:,} {what}{hint}")
    elif items is not None:
        votes = replace(votes, items=_ids(items, n_rows))
    elif not in_order and not _named_alike(named, votes):
        _warn_of_order(votes)
    if gold is not None:
        votes = votes.with_gold(gold)
    if votes.n_classes < 2:
        only = f"the class {votes.classes.tolist()[0]!r} only" if votes.n_classes else "no class"
        raise InputError(
            f"a classifier needs at least two classes, and the votes have {only}; "
            "one class leaves nothing to learn: name them all with classes=... or --classes"
        )
    if votes.n_votes == 0 and not votes.n_gold:
        raise InputError("there is no vote to learn from")
    return votes


def is_plain(y: Any) -> bool:
    """Whether `y` is one label per row, as scikit-learn has it, rather than votes."""
    return not isinstance(y, Annotations | dict) and _n_axes(y) < 2


def labels_of(y: Any, known: Annotations) -> Any:
    """One label per row, of labels or of one-hot ones; None where `y` is votes. `known` are those of the fit."""
    if is_plain(y):
        _check_labels(y)
        return y
    read = _read(y, known)
    one_each = read is not None and not read.soft and read.n_annotators == 1 and bool((read.votes_per_item == 1).all())
    return read.classes[read.label] if one_each and read is not None else None


def votes_on_rows(y: Any, known: Annotations, features: Any, n_rows: int) -> Annotations:
    """Votes on so many new rows, in the classes of the fit, whose votes are `known`; by id where a stream has ids."""
    read = votes_of_labels(y) if is_plain(y) else _read(y, known)
    votes = as_annotations(y) if read is None else read
    ids = _streamed(features)
    if ids is not None and read is None and not isinstance(y, np.ndarray | list):
        votes = _by_id(votes, ids, len(ids))
    votes = votes.with_classes(known.classes.tolist())
    if votes.n_items != n_rows:
        raise InputError(f"X has {n_rows:,} rows but there are {votes.n_items:,} items with votes")
    return votes


def _streamed(features: Any) -> list[Any] | None:
    """Ids that a stream has brought; a frame may have a column of that name."""
    found = getattr(features, "item_ids", None)
    return found if isinstance(found, list) else None


def _read(y: Any, known: Annotations) -> Annotations | None:
    """Votes of one-hot labels or probabilities; who trained on plain labels cannot mean votes of several annotators."""
    classes = known.classes.tolist()
    return array_votes(y, classes=classes, certain=known.annotators.tolist() == [ONLY_ANNOTATOR])


def votes_of_labels(y: Any) -> Annotations:
    """One label per row as the votes of one annotator."""
    _check_labels(y)
    from sklearn.utils import assert_all_finite
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    labels = column_or_1d(y.detach().cpu() if hasattr(y, "detach") else y, warn=True)
    assert_all_finite(labels, input_name="y")
    odd = labels[labels != np.round(labels)] if labels.dtype.kind == "f" else labels[:0]
    if len(odd):
        raise InputError(
            f"Unknown label type: continuous; y of shape {labels.shape} holds numbers such as {odd[0]:.4g}, which are no "
            "classes: probabilities have a column per class (of two: np.column_stack([1 - y, y])), measures are cut into "
            "classes (np.digitize)"
        )
    try:
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError as problem:
        raise InputError(f"y must hold one label of one type per row, none missing ({problem})") from problem
    return Annotations(
        item_ptr=np.arange(len(labels) + 1),
        annotator=np.zeros(len(labels), np.int32),
        label=codes.astype(np.int16),
        items=np.arange(len(labels)),
        annotators=np.array([ONLY_ANNOTATOR], dtype=object),
        classes=classes,
    )


def _check_labels(y: Any) -> None:
    """Refuse what is no sequence of labels, or lacks some."""
    if y is None:
        # As scikit-learn has it.
        raise InputError(f"votes are needed: the method requires y to be passed, but the target y is None; {FORMS}")
    if not (hasattr(y, "__len__") or hasattr(y, "__array__")) or isinstance(y, str | bytes | set | frozenset):
        raise InputError(
            f"y should be a 1d array or a list, in the order of the rows, and is of type {type(y).__name__}; {FORMS}"
        )
    if isinstance(y, list | tuple) or getattr(getattr(y, "dtype", None), "kind", "") == "O":
        absent = next((n for n, label in enumerate(y) if label is None), None)
        if absent is not None:
            raise InputError(
                f"y has no label in row {absent} (counted from 0): leave such rows out, or give votes, where NaN is no vote: "
                "Annotations.from_matrix(y), of shape [N, A]"
            )


def _warn_of_minus_one(y: Any) -> None:
    """Say that -1 is a class to scikit-learn, where the other labels are whole numbers from 0 up."""
    labels = np.asarray(y) if isinstance(y, np.ndarray | list) else None
    if labels is None or labels.dtype.kind not in "if" or labels.ndim != 1 or not (labels == -1).any():
        return
    others = labels[labels != -1]
    if (others >= 0).all() and len(np.unique(others)) > 1:
        warnings.warn(
            f"-1 is read as a class, of {len(labels) - len(others):,} of {len(labels):,} rows; if it means no label, leave "
            "these rows out: X[y >= 0], y[y >= 0]",
            DataWarning,
            stacklevel=4,
        )


def warn_of_unseen(labels: Any, classes: Any) -> None:
    """Say how many labels are classes that were never seen in the fit, and hence count as wrong."""
    given = np.asarray(labels)
    # Text beside numbers is scikit-learn's to refuse.
    if given.ndim != 1 or (given.dtype.kind in "OUS") != (classes.dtype.kind in "OUS"):
        return
    unseen = given[~np.isin(given, classes)]
    if len(unseen):
        known = ", ".join(map(repr, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
        warnings.warn(
            f"{len(unseen):,} of {len(given):,} labels, such as {unseen[:1].tolist()[0]!r}, are no class of the fit ({known}) "
            "and count as wrong",
            DataWarning,
            stacklevel=3,
        )


def _by_id(votes: Annotations, items: Any, n_rows: int) -> Annotations:
    """Spread votes over rows with these ids; rows without votes become items without votes."""
    ids = _ids(items, n_rows)
    where = positions(votes.items, ids)
    lost = np.flatnonzero((where < 0) & (votes.votes_per_item > 0))
    if len(lost):
        some = ", ".join(str(votes.items[n]) for n in lost[:3])
        raise InputError(
            f"{len(lost):,} of {votes.n_items:,} items have votes but no row of features, such as {some}; "
            f"ids of rows are such as {', '.join(map(str, ids[:3].tolist()))}. Keep the others with votes.select(items=...)"
        )
    where_row = np.full(n_rows, votes.n_items)
    kept = where >= 0
    where_row[where[kept]] = np.flatnonzero(kept)
    padded = replace(
        votes,
        item_ptr=np.append(votes.item_ptr, votes.item_ptr[-1]),
        items=np.arange(votes.n_items + 1),
        gold=None if votes.gold is None else np.append(votes.gold, np.int16(-1)),
        groups=None,
    )
    # A row that the votes do not know has no group; methods that need groups refuse it.
    groups = votes.groups[where_row] if votes.groups is not None and (where_row < votes.n_items).all() else None
    return replace(padded.take_items(where_row), items=ids, groups=groups)


def _named_alike(rows: Any, votes: Annotations) -> bool:
    """Whether the index of a frame has the ids of the votes' items, in their order; other ids are refused.

    Numbers are often an index that is left over from a selection: they are believed to be ids where some are ids of items.
    """
    index = rows.index if hasattr(rows, "iloc") else None
    if index is None or getattr(index, "nlevels", 1) > 1 or type(index).__name__ == "RangeIndex":
        return False
    ids = vocabulary_array(tidy(series_of(np.asarray(index))))
    if (ids.dtype == object) != (votes.items.dtype == object):
        return False
    where = positions(ids, votes.items)
    if (where == np.arange(len(ids))).all():
        return True
    numbers, n_other = ids.dtype.kind in "iu", int((where < 0).sum())
    if numbers and n_other == len(ids):
        return False
    other = "it names the items of the votes in another order"
    if n_other:
        other = f"{n_other:,} of {len(ids):,} ids are of no item with votes, such as {ids[where < 0].tolist()[0]!r}"
    said = f"the index of X: {other}; items=X.index matches rows by it, X.reset_index(drop=True) by order"
    if not numbers:
        raise InputError(said)
    warnings.warn(said, DataWarning, stacklevel=4)
    return False


def _warn_of_order(votes: Annotations) -> None:
    """Text ids are sorted as text (img1, img10, img2), which is seldom the order of the rows."""
    names = votes.items[:_COMPARED].tolist()
    if not all(isinstance(name, str) for name in names) or names != sorted(names):
        return
    # Text and numbers alternate, so that equal places hold equal types.
    counted = sorted(names, key=lambda name: [int(part) if n % 2 else part for n, part in enumerate(re.split(r"(\d+)", name))])
    if counted != names:
        shown = ", ".join(names[:3])
        warnings.warn(
            f"rows are matched to the items of the votes in their order, which is {shown}, ...; "
            "if your rows are in another, say which row is which item with items=... (ids of the rows)",
            DataWarning,
            stacklevel=4,
        )


def _ids(items: Any, n_rows: int) -> Array:
    """Ids of the rows, each of them once."""
    ids = vocabulary_array(tidy(series_of(np.asarray(items))))
    if len(ids) != n_rows:
        raise InputError(f"X has {n_rows:,} rows but items has {len(ids):,} ids")
    twice = np.flatnonzero(positions(ids, ids) != np.arange(len(ids)))
    if len(twice):
        raise InputError(f"the id {ids.tolist()[twice[0]]!r} stands for two rows of features")
    return ids


def _n_axes(y: Any) -> int:
    if is_nested(y):
        return 2
    shape: tuple[int, ...] = getattr(y, "shape", (0,))
    if len(shape) == 2 and shape[1] == 1:
        return 1
    return 2 if hasattr(y, "columns") else int(getattr(y, "ndim", 1))
