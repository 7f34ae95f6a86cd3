"""Columns of tags: where tokens stand, the order of the tags, and what a table of tags must not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.encode import Where, as_text, label_codes, tidy, vocabulary_array
from crowdwise.errors import InputError

__all__ = ["refuse_repeats", "tag_codes", "token_positions", "token_words"]


def token_positions(column: pl.Series, where: Where) -> NDArray[np.int64]:
    """Positions of tokens as integers; one that is no whole number is an error that names its row."""
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


def tag_codes(
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


def refuse_repeats(
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


def token_words(column: pl.Series, item: NDArray[Any], n_tokens: int, where: Where) -> NDArray[Any]:
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
