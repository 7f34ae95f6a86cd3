"""Tags of tokens: sequences of tokens, each tagged by several annotators (`TokenVotes`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.coding import id_codes, label_codes
from crowdwise.data.encode import Where, as_text, find_column, missing_mask, series_of, tidy, to_polars, vocabulary_array
from crowdwise.data.frozen import ReadOnly
from crowdwise.data.storable import pointers, storable
from crowdwise.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["TokenVotes"]

#: A tag that means: this annotator did not label this token.
MISSING = ("?", "-")
_ROLES = ("sequence", "position", "annotator", "label")


@storable
@dataclass(frozen=True, eq=False, repr=False)
class TokenVotes(ReadOnly):
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

    def sound(self) -> bool:
        """Whether the arrays of saved tags agree with each other."""
        n_tokens = self.votes.n_items
        return (
            pointers(self.sequence_ptr, len(self.sequences), n_tokens)
            and self.position.shape == (n_tokens,)
            and (self.tokens is None or self.tokens.shape == (n_tokens,))
        )

    @property
    def items(self) -> NDArray[Any]:
        """Ids of the tokens, [N]."""
        return self.votes.items

    @property
    def annotators(self) -> NDArray[Any]:
        """Ids of the annotators, [A]."""
        return self.votes.annotators

    @property
    def n_items(self) -> int:
        """Number of tokens, N."""
        return self.votes.n_items

    @property
    def n_annotators(self) -> int:
        """Number of annotators, A."""
        return self.votes.n_annotators

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
        return np.repeat(np.arange(self.n_sequences), np.diff(self.sequence_ptr))

    def __len__(self) -> int:
        return self.n_sequences

    def __repr__(self) -> str:
        votes = self.votes
        return (
            f"TokenVotes({votes.n_votes} tags: {self.n_sequences} sequences, {self.n_tokens} tokens, "
            f"{votes.n_annotators} annotators, {votes.n_classes} classes)"
        )

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        *,
        format: str | None = None,
        sequence: str | None = None,
        position: str | None = None,
        token: str | None = None,
        annotator: str | None = None,
        label: str | None = None,
        classes: Sequence[Any] | None = None,
    ) -> TokenVotes:
        """Read a CoNLL file with a column per annotator, or a long table with one row per tag.

        CoNLL: one token per line, then a tag per annotator, between tabs or blanks; an empty line after every sequence;
        ``?``, ``-`` or nothing between two tabs where an annotator did not label. A first line that begins with "token"
        names the annotators. A table (CSV, TSV, JSONL, Parquet, Arrow) has the columns sequence, position, annotator, label
        and perhaps token.

        Parameters
        ----------
        format : "conll" or "table", optional
            What the file is; by default its suffix or its first line decides.
        """
        from crowdwise.io.conll import is_conll, read_conll, read_tag_table

        if format not in (None, "conll", "table"):
            raise InputError(f"format must be 'conll' or 'table', got {format!r}")
        named = {"sequence": sequence, "position": position, "annotator": annotator, "label": label}
        if format == "conll" or (format is None and not any([*named.values(), token]) and is_conll(path)):
            table = read_conll(path)
        else:
            table = read_tag_table(path, named, token)
        return cls.from_columns(table.frame, table.where, classes)

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
    ) -> TokenVotes:
        """Build from a long pandas, polars or Arrow frame with one row per tag; see `read`."""
        where, table = Where("the frame"), to_polars(frame)
        given = {"sequence": sequence, "position": position, "annotator": annotator, "label": label}
        names = {role: find_column(table, role, name, where) for role, name in given.items()}
        if token is not None or "token" in table.columns:
            names["token"] = find_column(table, "token", token, where)
        return cls.from_columns(pl.DataFrame({role: table[name] for role, name in names.items()}), where, classes)

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
    ) -> TokenVotes:
        """Build from columns of equal length, one entry per tag; a missing label leaves the token without that tag."""
        columns = dict(zip(_ROLES, (sequence, position, annotator, label), strict=True))
        if token is not None:
            columns["token"] = token
        return cls.from_columns(to_polars(columns), Where("the tags"), classes)

    @classmethod
    def from_columns(cls, table: pl.DataFrame, where: Where, classes: Sequence[Any] | None) -> TokenVotes:
        if table.height == 0:
            raise InputError(f"{where.source}: no rows; expected one row per tag with {', '.join(_ROLES)}")
        sequence, sequence_ids = id_codes(table["sequence"], None, "sequence", where)
        position = _positions(table["position"], where)
        place = pl.DataFrame({"sequence": sequence, "position": position})
        known = place.unique().sort("sequence", "position").with_row_index("token_code")
        item = place.join(known, on=["sequence", "position"], how="left", maintain_order="left")["token_code"].to_numpy()
        annotator, annotator_ids = id_codes(table["annotator"], None, "annotator", where)
        label = as_text(tidy(table["label"])).str.strip_chars()
        present = (~missing_mask(label, MISSING)).to_numpy()
        codes, class_ids = _tag_codes(label.filter(present), classes, where, np.flatnonzero(present))
        _refuse_repeats(item[present], annotator[present], np.flatnonzero(present), annotator_ids, where)
        votes = Annotations.from_codes(
            item[present], annotator[present], codes, np.arange(known.height), annotator_ids, class_ids
        )
        size = np.bincount(known["sequence"].to_numpy(), minlength=len(sequence_ids))
        words = None if "token" not in table.columns else _words(table["token"], item, known.height, where)
        pointer = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
        return cls(votes, pointer, sequence_ids, known["position"].to_numpy().astype(np.int64), words)

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


def _positions(column: pl.Series, where: Where) -> NDArray[np.int64]:
    column = tidy(column)
    numbers = column.cast(pl.Int64, strict=False)
    if column.dtype == pl.String:
        # Whole numbers may be written 1.0, as they are where a column once had gaps.
        real = column.cast(pl.Float64, strict=False)
        whole = real.cast(pl.Int64, strict=False)
        numbers = pl.DataFrame({"n": numbers, "real": real, "whole": whole}).select(
            pl.coalesce("n", pl.when(pl.col("real") == pl.col("whole")).then("whole"))
        )["n"]
    if numbers.null_count():
        row = int(numbers.is_null().arg_true()[0])
        raise InputError(f"{where.row(row)}: position {column[row]!r} is not a whole number; count the tokens of a sequence")
    return numbers.to_numpy()


def _tag_codes(
    label: pl.Series, classes: Sequence[Any] | None, where: Where, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode tags: O first, then types in order with B before I; a type that only has I gets its B."""
    if classes is not None:
        return label_codes(label, classes, where, rows)
    if len(label) == 0:
        raise InputError(f"{where.source}: nobody labelled a token; every tag is missing")
    found = set(label.unique().to_list())
    spans = {tag[2:] for tag in found if tag[:2] in ("B-", "I-")}
    if spans:
        found |= {"O"} | {f"B-{kind}" for kind in spans}
    order = sorted(found, key=lambda tag: (tag != "O", tag[2:] if tag[:2] in ("B-", "I-") else tag, tag))
    return label_codes(label, vocabulary_array(pl.Series(order)).tolist(), where, rows)


def _refuse_repeats(
    item: NDArray[Any], annotator: NDArray[Any], rows: NDArray[np.int64], annotators: NDArray[Any], where: Where
) -> None:
    """Nobody tags a token twice: which tag came after which would be unknown."""
    key = item.astype(np.int64) * max(len(annotators), 1) + annotator
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if len(again):
        second = int(order[again + 1].min())
        name = annotators[annotator[second]]
        raise InputError(
            f"{where.row(int(rows[second]))}: annotator {name!r} has tagged this token before; keep one of the rows"
        )


def _words(column: pl.Series, item: NDArray[Any], n_tokens: int, where: Where) -> NDArray[Any]:
    """The word of every token; a token must not be called two things."""
    words = pl.DataFrame({"item": item, "word": as_text(tidy(column))}).with_row_index("row")
    first = words.group_by("item").agg(pl.col("word").drop_nulls().first()).sort("item")
    other = words.join(first, on="item", how="left", maintain_order="left", suffix="_first")
    wrong = other.filter(pl.col("word") != pl.col("word_first"))
    if wrong.height:
        row, said, before = wrong["row"][0], wrong["word"][0], wrong["word_first"][0]
        raise InputError(
            f"{where.row(row)}: the token is {said!r} here and {before!r} in an earlier row of the same position; "
            "check the sequence ids and positions"
        )
    found = np.full(n_tokens, None, object)
    found[first["item"].to_numpy()] = first["word"].to_list()
    return found
