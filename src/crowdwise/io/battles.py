"""Comparisons of models as judges and arenas publish them.

Four shapes: battles (model_a, model_b, winner, and a judge; Chatbot Arena and MT-Bench's human votes), battles with a column
per outcome (winner_model_a, winner_model_b, winner_tie), MT-Bench's pair judgments (model_1, model_2, g1_winner and g2_winner,
one for each order of the two answers; https://github.com/lm-sys/FastChat/tree/main/fastchat/llm_judge), and AlpacaEval's
annotations (generator_1, generator_2, preference; https://github.com/tatsu-lab/alpaca_eval). A preference between 1 and 2 is
the probability that the second is better, plus one: see `Comparisons`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from crowdwise.errors import DataWarning, InputError, did_you_mean
from crowdwise.io.roles import battle_shape
from crowdwise.io.source import Places, Source, Table
from crowdwise.io.votes import column

__all__ = ["battle_table", "ranking_table"]

_JUDGES = ("annotator", "judge", "judge_hash", "user", "user_id", "annotator_index", "annotator_id", "evaluation_session_id")
ANONYMOUS = "anonymous"


def battle_table(source: Source, weight: str | None, beside: Mapping[str, str] | None = None) -> Table | None:
    """Columns first, second, annotator, winner and perhaps weight; None where the file has none of the four shapes.

    The first is what the judge saw first: MT-Bench's second game has the two in the other order. `beside` are
    further columns by the names that they get; those called *_first and *_second turn with the two.
    """
    if source.kind not in ("delimited", "json", "jsonl", "parquet", "arrow"):
        return None
    names = source.names
    shape = battle_shape(names)
    if shape is None:
        return None
    if weight is not None and weight not in names:
        raise InputError(f"{source.name}: no column {weight!r}{did_you_mean(weight, names)}")
    (first, second), said = shape
    judge = next((name for name in _JUDGES if name in names), None)
    if judge is None:
        warnings.warn(
            f"{source.name}: no column says who compared ({', '.join(_JUDGES[:5])}, ...): all comparisons count as those of "
            f"one annotator, {ANONYMOUS!r}",
            DataWarning,
            stacklevel=5,
        )
    wanted = [first, second, *(name for name in ("g2_winner", "winner_tie", *said) if name in names)]
    more = [name for name in dict.fromkeys((beside or {}).values()) if name not in (*wanted, judge, weight)]
    table = _cells(source, [*wanted, *([judge] if judge else []), *([weight] if weight else []), *more])
    frame = table.frame
    columns = {"first": frame[first], "second": frame[second]}
    columns["annotator"] = frame[judge] if judge else pl.repeat(ANONYMOUS, frame.height, eager=True)
    if weight is not None:
        columns["weight"] = frame[weight]
    base = pl.DataFrame(columns | {role: frame[name] for role, name in (beside or {}).items()})
    games = _games(base, frame, said)
    rows = np.arange(frame.height) + table.where.first_row if table.where.rows is None else table.where.rows
    where = Places(source.name, rows=np.tile(rows, len(games)), unit=table.where.unit)
    return Table(pl.concat(games), where)


def _games(base: pl.DataFrame, frame: pl.DataFrame, said: tuple[str, ...]) -> list[pl.DataFrame]:
    """The rows with their winners; where both orders of two answers were judged, once for each, as they stood."""
    winners = _winners(frame, said)
    games = [base.with_columns(winner=winner) for winner in winners]
    if len(games) > 1:
        sides = [(name, name.removesuffix("first") + "second") for name in base.columns if name.endswith("first")]
        turned = games[1].rename({old: new for one, other in sides for old, new in ((one, other), (other, one))})
        games[1] = turned.with_columns(winner=winners[1].replace({"a": "b", "b": "a"})).select(games[0].columns)
    return games


def _winners(frame: pl.DataFrame, said: tuple[str, ...]) -> list[pl.Series]:
    """The winner of every row, a for the first of the two columns; where both orders were judged, once for each."""
    if said == ("winner_model_a", "winner_model_b"):
        won = [frame[name].cast(pl.String).is_in(["1", "1.0", "true", "True"]) for name in said]
        return [pl.DataFrame({"a": won[0], "b": won[1]}).select(pl.when("a").then(pl.lit("a")).when("b").then(pl.lit("b"))
                .otherwise(pl.lit("tie")).alias("winner")).to_series()]  # fmt: skip
    if said == ("preference",):
        # AlpacaEval writes draws as 1.5, earlier as 0.
        preference = frame["preference"].cast(pl.Float64, strict=False)
        return [preference.to_frame("winner").select(pl.when(pl.col("winner") == 0).then(1.5).otherwise("winner")).to_series()]
    games = [name for name in ("winner", "g1_winner", "g2_winner") if name in frame.columns]
    # A judge whose verdict could not be read is none.
    return [frame[name].cast(pl.String).replace({"error": None, "model_1": "a", "model_2": "b"}) for name in games]


def _cells(source: Source, names: list[str]) -> Table:
    """These columns; a judge of several parts (a model and its prompt) is their texts together."""
    if source.kind not in ("json", "jsonl"):
        return source.table(names)
    where = Places(source.name, rows=np.array([row for row, _ in source.records], np.int64), unit=source.unit)

    def values(name: str) -> list[Any]:
        cells = [record.get(name) for _, record in source.records]
        return [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in cells]

    return Table(pl.DataFrame({name: column(values(name), where) for name in names}), where)


def ranking_table(rankings: Sequence[tuple[int, Any, list[Any]]], source: Source) -> Table:
    """Every pair of every ranking, the earlier of the two as the winner."""
    pairs = [(row, a, b, person) for row, person, order in rankings for a, b in combinations(order, 2)]
    if not pairs:
        raise InputError(f"{source.name}: no ranking of two things or more")
    number, first, second, person = zip(*pairs, strict=True)
    where = Places(source.name, rows=np.array(number, np.int64), unit=source.unit)
    both = column([*first, *second], where)
    columns = {"first": both[: len(first)], "second": both[len(first) :], "annotator": column(person, where)}
    return Table(pl.DataFrame(columns).with_columns(winner=pl.lit("first")), where)
