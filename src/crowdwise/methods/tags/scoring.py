"""Spans against spans: strict precision, recall and F1 (same tokens, same type)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.kernels.types import Flags, Floats, Integers

if TYPE_CHECKING:
    from crowdwise.data.token_votes import TokenVotes
    from crowdwise.methods.tags.scheme import Spans, Tags

__all__ = ["first_tokens", "span_scores", "spans_of_annotators", "strict_scores"]


def first_tokens(sequence_ptr: Integers) -> Flags:
    """Mark the first token of every sequence, [N]."""
    first = np.zeros(int(sequence_ptr[-1]), bool)
    first[sequence_ptr[:-1][np.diff(sequence_ptr) > 0]] = True
    return first


def strict_scores(both: Any, found: Any, wanted: Any) -> tuple[Floats, Floats, Floats]:
    """Precision, recall and F1 from numbers of spans; NaN where there is nothing to count."""
    both, found, wanted = (np.asarray(values, float) for values in (both, found, wanted))
    with np.errstate(invalid="ignore", divide="ignore"):
        return both / found, both / wanted, 2 * both / (found + wanted)


def span_scores(found: Spans, wanted: Spans) -> dict[str, float]:
    """Strict precision, recall and F1 of spans found against spans wanted."""
    both = len(np.intersect1d(_keys(found), _keys(wanted)))
    precision, recall, f1 = strict_scores(both, len(found), len(wanted))
    return {"precision": float(precision), "recall": float(recall), "f1": float(f1)}


def spans_of_annotators(tags: TokenVotes, scheme: Tags, spans: Spans) -> tuple[Integers, Integers, Integers]:
    """Per annotator: spans of their own tags, spans of the result in what they tagged, and spans in both, [A] each."""
    votes = tags.votes
    order = np.argsort(votes.annotator, kind="stable")
    who, item, label = votes.annotator[order], votes.item[order].astype(np.int64), votes.label[order]
    # A run of somebody's tags ends with the sequence, or where a token was left out.
    fresh = np.ones(len(order), bool)
    fresh[1:] = (np.diff(who) != 0) | (np.diff(item) != 1) | first_tokens(tags.sequence_ptr)[item[1:]]
    own = scheme.spans(label, fresh)
    own_key = _keys_of(item[own.start], item[own.end], own.kind)
    wanted = _keys(spans)
    size = votes.n_annotators
    both = np.bincount(who[own.start], weights=np.isin(own_key, wanted), minlength=size).astype(int)
    begins = np.zeros(tags.n_tokens, bool)
    begins[spans.start] = True
    of_result = np.bincount(who, weights=begins[item], minlength=size).astype(int)
    return np.bincount(who[own.start], minlength=size), of_result, both


def _keys(spans: Spans) -> Integers:
    return _keys_of(spans.start, spans.end, spans.kind)


def _keys_of(start: Integers, end: Integers, kind: Integers) -> Integers:
    """One number for a span: structured keys would sort slowly. Spans are shorter than 2^16 and types fewer."""
    length = np.minimum(end - start, 65_535).astype(np.int64)
    return np.asarray((start.astype(np.int64) << 32) | (length << 16) | kind.astype(np.int64))
