"""What a sequence method returns: tags, spans with confidence, and annotators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import series_of
from crowdwise.data.frozen import ReadOnly
from crowdwise.data.token_votes import TokenVotes
from crowdwise.methods.tags.scheme import Spans, Tags
from crowdwise.methods.tags.scoring import spans_of_annotators, strict_scores

__all__ = ["SequenceResult"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SequenceResult(ReadOnly):
    """Tags of tokens and spans, with their probabilities.

    Attributes
    ----------
    tags : TokenVotes
        What was fitted.
    posterior : [N, K]
        Probability of every tag of every token.
    path : [N]
        Codes of the most probable tag sequences.
    spans : Spans
        Spans of the path.
    confidence : [M]
        Probability of each span: exactly these tokens, exactly this type.
    transition : [K + 1, K]
        Probability of tag k after tag j, and in the last row of the first tag.
    confusion : [A, K, K]
        Probability that an annotator gives tag l (last axis) to a token of tag k.
    trace : [n_iter]
        The bound after every iteration.
    """

    method: str
    settings: dict[str, Any]
    tags: TokenVotes
    scheme: Tags
    posterior: Floats
    path: NDArray[np.int64]
    spans: Spans
    confidence: Floats
    transition: Floats
    confusion: Floats
    trace: Floats
    n_iter: int
    converged: bool

    @cached_property
    def labels(self) -> NDArray[Any]:
        """The most probable tag sequences, by name, [N]."""
        return self.tags.votes.classes[self.path]

    def token_frame(self) -> pl.DataFrame:
        """One row per token: sequence, position, token where known, tag, and the tag's probability."""
        confidence = self.posterior[np.arange(len(self.path)), self.path]
        return self.tags.token_frame().with_columns(tag=series_of(self.labels).cast(pl.String), confidence=confidence)

    def span_frame(self) -> pl.DataFrame:
        """One row per span: sequence, positions of its first and last token, type, confidence, and text where known."""
        tags, spans = self.tags, self.spans
        types = pl.Series([self.scheme.types[kind] for kind in spans.kind.tolist()], dtype=pl.String)
        columns = {
            "sequence": series_of(tags.sequences)[tags.sequence[spans.start]],
            "start": tags.position[spans.start],
            "end": tags.position[spans.end],
            "type": types,
            "confidence": self.confidence,
        }
        if tags.tokens is not None:
            words = [str(word) if word is not None else "" for word in tags.tokens.tolist()]
            text = [" ".join(words[a : b + 1]) for a, b in zip(spans.start.tolist(), spans.end.tolist(), strict=True)]
            columns["text"] = pl.Series(text, dtype=pl.String)
        return pl.DataFrame(columns)

    def annotator_frame(self) -> pl.DataFrame:
        """One row per annotator, best first.

        accuracy is the expected share of right tags; precision, recall and f1 count whole spans against those of the result,
        in the sequences that the annotator labelled.
        """
        votes = self.tags.votes
        right = self.posterior[votes.item, votes.label]
        size = votes.votes_per_annotator
        accuracy = np.bincount(votes.annotator, weights=right, minlength=votes.n_annotators) / np.maximum(size, 1)
        found, of_result, both = spans_of_annotators(self.tags, self.scheme, self.spans)
        precision, recall, f1 = strict_scores(both, found, of_result)
        frame = pl.DataFrame(
            {
                "annotator": series_of(votes.annotators),
                "n_tokens": size,
                "n_spans": found,
                "accuracy": np.where(size > 0, accuracy, np.nan),
                "precision": precision,
                "recall": recall,
                "f1": f1,
            }
        ).fill_nan(None)
        return frame.sort("f1", "accuracy", descending=True, nulls_last=True, maintain_order=True)
