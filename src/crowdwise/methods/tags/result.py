"""What a sequence method returns: tags, spans with confidence, and annotators."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from crowdwise.data.encode import series_of
from crowdwise.data.storable import storable, within
from crowdwise.data.token_votes import TokenVotes
from crowdwise.estimator.outcome import Outcome
from crowdwise.kernels.types import Array, Floats, Integers
from crowdwise.methods.tags.scheme import Spans, Tags
from crowdwise.methods.tags.scoring import spans_of_annotators, strict_scores

__all__ = ["SequenceResult"]


@storable
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SequenceResult(Outcome):
    """Tags of tokens and spans, with their probabilities; see also `Outcome`.

    Attributes
    ----------
    votes : TokenVotes
        What was fitted.
    scheme : Tags
        What the tags mean.
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
    """

    votes: TokenVotes
    scheme: Tags
    posterior: Floats
    path: Integers
    spans: Spans
    confidence: Floats
    transition: Floats
    confusion: Floats

    def sound(self) -> bool:
        """Whether the arrays of saved tags agree with each other."""
        votes, spans, n_types = self.votes.votes, self.spans, len(self.scheme.types)
        n_tokens, n_tags = votes.n_items, votes.n_classes
        return (
            self.posterior.shape == (n_tokens, n_tags)
            and self.path.shape == (n_tokens,)
            and within(self.path, 0, n_tags)
            and self.scheme.role.shape == self.scheme.kind.shape == (n_tags,)
            and within(self.scheme.kind, -1, n_types)
            and spans.start.shape == spans.end.shape == spans.kind.shape == self.confidence.shape
            and within(spans.start, 0, n_tokens)
            and within(spans.end, 0, n_tokens)
            and within(spans.kind, 0, n_types)
            and self.transition.shape == (n_tags + 1, n_tags)
            and self.confusion.shape == (votes.n_annotators, n_tags, n_tags)
        )

    @cached_property
    def labels(self) -> Array:
        """The most probable tag sequences, by name, [N]."""
        return self.votes.votes.classes[self.path]

    def items_frame(self) -> pl.DataFrame:
        """One row per token: item, sequence, position, token where known, tag, the tag's probability, and n_votes."""
        votes = self.votes.votes
        confidence = self.posterior[np.arange(len(self.path)), self.path]
        frame = self.votes.token_frame().select(pl.Series("item", series_of(votes.items)), pl.all())
        tag = series_of(self.labels).cast(pl.String)
        return frame.with_columns(tag=tag, confidence=confidence, n_votes=votes.votes_per_item)

    def spans_frame(self) -> pl.DataFrame:
        """One row per span: sequence, positions of its first and last token, type, confidence, and text where known."""
        tags, spans = self.votes, self.spans
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

    def annotators_frame(self) -> pl.DataFrame:
        """One row per annotator.

        accuracy is the expected share of right tags; precision, recall and f1 count whole spans against those of the result,
        in the sequences that the annotator labelled.
        """
        votes = self.votes.votes
        right = self.posterior[votes.item, votes.label]
        size = votes.votes_per_annotator
        accuracy = np.bincount(votes.annotator, weights=right, minlength=votes.n_annotators) / np.maximum(size, 1)
        found, of_result, both = spans_of_annotators(self.votes, self.scheme, self.spans)
        precision, recall, f1 = strict_scores(both, found, of_result)
        return pl.DataFrame(
            {
                "annotator": series_of(votes.annotators),
                "n_votes": size,
                "n_spans": found,
                "accuracy": np.where(size > 0, accuracy, np.nan),
                "precision": precision,
                "recall": recall,
                "f1": f1,
            }
        ).fill_nan(None)
