"""Tags of tokens: sequences of tokens, each tagged by several annotators (`TokenVotes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.answers import Answers, frozen
from crowdwise.data.columns import column_source, columns_by_role, plays_role
from crowdwise.data.encode import Where, as_text, id_codes, missing_mask, series_of, tidy, to_polars, union
from crowdwise.data.storable import pointers, storable
from crowdwise.data.tag_columns import refuse_repeats, tag_codes, token_positions, token_words
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["TokenVotes"]

#: A tag that means: this annotator did not label this token.
MISSING = ("?", "-")
_ROLES = ("sequence", "position", "annotator", "label")


@storable
@dataclass(frozen=True, eq=False, repr=False)
class TokenVotes(Answers):
    """Tags of many annotators for the tokens of many sequences.

    Attributes
    ----------
    votes : Annotations
        The items are the tokens in reading order, the classes the tags.
    sequence_ptr : [S + 1]
        Tokens of sequence s are ``sequence_ptr[s]:sequence_ptr[s + 1]``.
    sequences : [S]
        Ids of the sequences.
    position : [N]
        Where a token stands in its sequence, as the user counts.
    tokens : [N] or None
        The words, where they are known.

    Examples
    --------
    >>> tags = TokenVotes.from_arrays(sequence=[1, 1, 1, 1], position=[1, 2, 1, 2], annotator=["x", "x", "y", "y"],
    ...     label=["B-PER", "O", "B-PER", "I-PER"], token=["Ada", "wrote", "Ada", "wrote"])
    >>> tags
    TokenVotes(4 tags: 1 sequences, 2 tokens, 2 annotators, 3 classes)
    >>> tags.votes.classes.tolist()
    ['O', 'B-PER', 'I-PER']
    """

    votes: Annotations
    sequence_ptr: NDArray[np.int64]
    sequences: NDArray[Any]
    position: NDArray[np.int64]
    tokens: NDArray[Any] | None = None

    noun: ClassVar[str] = "tags"

    def sound(self) -> bool:
        """Whether the arrays of saved tags agree with each other."""
        return (
            pointers(self.sequence_ptr, self.n_sequences, self.n_tokens)
            and self.position.shape == (self.n_tokens,)
            and (self.tokens is None or self.tokens.shape == (self.n_tokens,))
        )

    @property
    def annotator(self) -> NDArray[np.int32]:
        """Code of who gave each tag, [E]."""
        return self.votes.annotator

    @property
    def items(self) -> NDArray[Any]:
        """The tokens as numbers in reading order, [N]; see `token_frame`."""
        return self.votes.items

    @property
    def annotators(self) -> NDArray[Any]:
        """Ids of the annotators, [A]."""
        return self.votes.annotators

    @property
    def n_missing(self) -> int:
        """Tags are sparse: what an annotator left out is no missing answer."""
        return 0

    @property
    def votes_per_item(self) -> NDArray[np.int64]:
        """Tags of each token, [N]."""
        return self.votes.votes_per_item

    @property
    def n_sequences(self) -> int:
        """Number of sequences, S."""
        return len(self.sequences)

    @property
    def n_tokens(self) -> int:
        """Number of tokens, N."""
        return self.votes.n_items

    @cached_property
    def sequence(self) -> NDArray[np.int64]:
        """Sequence code of every token, [N]."""
        return frozen(np.repeat(np.arange(self.n_sequences), np.diff(self.sequence_ptr)))

    def __len__(self) -> int:
        return self.n_sequences

    def _described(self) -> str:
        votes = self.votes
        sizes = f"{self.n_sequences} sequences, {self.n_tokens} tokens, {votes.n_annotators} annotators"
        return f"{self.noun}: {sizes}, {votes.n_classes} classes"

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        sequence: str | None = None,
        position: str | None = None,
        token: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Self:
        """Build from a long pandas, polars or Arrow frame with one row per tag.

        Columns not named are found among the usual names; that of the tokens is used where there is one.
        """
        source = column_source(frame)
        if label is None and not plays_role(source.names, "label") and "tag" in source.names:
            label = "tag"
        roles = {"sequence": sequence, "position": position, "annotator": annotator, "label": label}
        if token is not None or plays_role(source.names, "token"):
            roles["token"] = token
        return cls.from_columns(*columns_by_role(source, roles), classes)

    @classmethod
    def from_arrays(
        cls,
        sequence: Any,
        position: Any,
        annotator: Any,
        label: Any,
        *,
        token: Any = None,
        classes: Sequence[Any] | None = None,
    ) -> Self:
        """Build from columns of equal length, one entry per tag; a missing label leaves the token without that tag."""
        columns = dict(zip(_ROLES, (sequence, position, annotator, label), strict=True))
        if token is not None:
            columns["token"] = token
        return cls.from_columns(to_polars(columns), Where("the tags"), classes)

    @classmethod
    def from_columns(cls, table: pl.DataFrame, where: Where, classes: Sequence[Any] | None = None) -> Self:
        """Build from columns that are called by their roles; errors name the rows of `where`."""
        if table.height == 0:
            raise InputError(f"{where.source}: no rows; expected one row per tag with {', '.join(_ROLES)}")
        sequence, sequence_ids = id_codes(table["sequence"], None, "sequence", where)
        position = token_positions(table["position"], where)
        place = pl.DataFrame({"sequence": sequence, "position": position})
        known = place.unique().sort("sequence", "position").with_row_index("token_code")
        item = place.join(known, on=["sequence", "position"], how="left", maintain_order="left")["token_code"].to_numpy()
        annotator, annotator_ids = id_codes(table["annotator"], None, "annotator", where)
        label = as_text(tidy(table["label"])).str.strip_chars()
        present = (~missing_mask(label, MISSING)).to_numpy()
        codes, class_ids = tag_codes(label.filter(present), classes, where, np.flatnonzero(present))
        refuse_repeats(item[present], annotator[present], np.flatnonzero(present), annotator_ids, where)
        votes = Annotations.from_codes(
            item[present], annotator[present], codes, np.arange(known.height), annotator_ids, class_ids
        )
        size = np.bincount(known["sequence"].to_numpy(), minlength=len(sequence_ids))
        words = None if "token" not in table.columns else token_words(table["token"], item, known.height, where)
        pointer = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        return cls(votes, pointer, sequence_ids, known["position"].to_numpy().astype(np.int64), words)

    # -- parts and together --------------------------------------------------------------------

    def take_votes(self, keep: NDArray[Any]) -> Self:
        """Return the tags at these positions (a mask or an index array); tokens and sequences stay."""
        return replace(self, votes=self.votes.take_votes(keep))

    def take_annotators(self, keep: NDArray[Any]) -> Self:
        """Return the tags of the annotators at these positions; tokens and sequences stay."""
        return replace(self, votes=self.votes.take_annotators(keep))

    def take_items(self, keep: NDArray[Any]) -> Self:
        """Return the tokens at these positions, which must make up whole sequences."""
        kept = np.zeros(self.n_tokens, bool)
        kept[keep] = True
        share = np.add.reduceat(kept, self.sequence_ptr[:-1]) if self.n_tokens else np.zeros(self.n_sequences)
        cut = np.flatnonzero((share > 0) & (share < np.diff(self.sequence_ptr)))
        if len(cut):
            raise InputError(
                f"sequence {self.sequences.tolist()[cut[0]]!r} would lose some of its tokens; take whole sequences"
            )
        return self.take_sequences(np.flatnonzero(share))

    def take_sequences(self, keep: NDArray[np.int64]) -> Self:
        """Return the sequences at these positions, in this order, with their tags."""
        size = np.diff(self.sequence_ptr)[keep]
        pointer = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        token = np.repeat(self.sequence_ptr[:-1][keep] - pointer[:-1], size) + np.arange(pointer[-1])
        votes = replace(self.votes.take_items(token), items=np.arange(len(token)))
        words = None if self.tokens is None else self.tokens[token]
        return type(self)(votes, pointer, self.sequences[keep], self.position[token], words)

    @property
    def _n_units(self) -> int:
        return self.n_sequences

    def _take_units(self, keep: NDArray[Any]) -> Self:
        return self.take_sequences(keep)

    def concat(self, *others: Self) -> Self:
        """Append the sequences of others, whose ids must be new; annotators and classes become unions."""
        parts = (self, *others)
        sequences = union([part.sequences for part in parts], sort=False)
        if len(sequences) < sum(part.n_sequences for part in parts):
            raise InputError("two sets of tags share the id of a sequence; give every sequence an id of its own")
        start = np.cumsum([0, *(part.n_tokens for part in parts)])
        shifted = [replace(part.votes, items=part.items + first) for part, first in zip(parts, start, strict=False)]
        pointer = np.concatenate([[0], *(part.sequence_ptr[1:] + first for part, first in zip(parts, start, strict=False))])
        words = None
        if any(part.tokens is not None for part in parts):
            unknown = [np.full(part.n_tokens, None, object) if part.tokens is None else part.tokens for part in parts]
            words = np.concatenate(unknown)
        position = np.concatenate([part.position for part in parts])
        return type(self)(shifted[0].concat(*shifted[1:]), pointer.astype(np.int64), sequences, position, words)

    # -- as a table ----------------------------------------------------------------------------

    def token_frame(self) -> pl.DataFrame:
        """One row per token: sequence, position and, where known, token."""
        frame = pl.DataFrame({"sequence": series_of(self.sequences)[self.sequence], "position": self.position})
        return frame if self.tokens is None else frame.with_columns(token=pl.Series(self.tokens.tolist(), dtype=pl.String))

    def to_frame(self) -> pl.DataFrame:
        """One row per tag: sequence, position, token where known, annotator, label."""
        votes = self.votes
        who, tags = series_of(votes.annotators), series_of(votes.classes)
        return self.token_frame()[votes.item].with_columns(annotator=who[votes.annotator], label=tags[votes.label])
