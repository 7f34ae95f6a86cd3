"""Verdicts between two answers, row by row: which question it was, which stood first, how long both are, and what is right.

`Comparisons` keep what a ranking needs. Whether a judge favours a place or length takes more: the order in which the two
stood, the question (so that both orders of one pair can be compared) and two lengths, as numbers or as the texts themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.annotations import Annotations
from crowdwise.data.columns import columns_by_role
from crowdwise.data.comparisons import Comparisons
from crowdwise.data.encode import Where, as_text, tidy
from crowdwise.io.battles import battle_table
from crowdwise.io.file_columns import FileColumns
from crowdwise.io.roles import battle_shape, compares
from crowdwise.io.source import AnyPath, Source, open_source
from crowdwise.io.verdict_places import are_places, as_places, turn_column, turned

__all__ = ["Verdicts", "are_verdicts", "read_verdicts"]

_QUESTION = (
    "question_id",
    "prompt_id",
    "instruction_id",
    "example_id",
    "item_id",
    "item",
    "id",
    "question",
    "prompt",
    "instruction",
)
_TRUTH = ("gold", "truth", "gold_winner", "true_winner", "correct")
_SIDES = (("a", "b"), ("1", "2"), ("first", "second"), ("left", "right"))
_LENGTHS = ("length", "len", "n_tokens", "tokens", "n_words", "words", "n_chars")
_VERDICTS: tuple[str, ...] = (
    "winner",
    "verdict",
    "preference",
    "preferred",
    "choice",
    "chosen",
    "decision",
    "judgment",
    "judgement",
    "better",
)
_VERDICTS += ("label", "vote", "answer")
_JUDGES = ("judge", "judge_model", "judge_name", "judge_id", "annotator", "rater", "grader", "evaluator", "model")
_TEXTS = ("output", "response", "answer", "completion", "text", "summary")


@dataclass(frozen=True, eq=False)
class Verdicts:
    """One row per verdict.

    Attributes
    ----------
    question : [E] or None
        Text that names the question; None where no column does, and pairs are then compared over all questions.
    first, second, judge : [E]
        Texts: the two, as the judge saw them, and who judged.
    chose_first, truth : [E]
        1 for the first, 0 for the second, a half for a tie, a probability for a degree; `truth` is NaN where nobody knows.
    doublings : [E] or None
        log2 of the first's length over the second's; NaN where one is empty.
    n_missing : int
        Rows without a verdict, which are left out.
    """

    question: NDArray[Any] | None
    first: NDArray[Any]
    second: NDArray[Any]
    judge: NDArray[Any]
    chose_first: NDArray[np.float64]
    truth: NDArray[np.float64] | None
    doublings: NDArray[np.float64] | None
    n_missing: int = 0

    @property
    def in_order(self) -> NDArray[np.bool_]:
        """Whether the two stood in the order of their names, [E]."""
        return np.asarray(self.first < self.second)

    @property
    def pair(self) -> NDArray[Any]:
        """What was judged, whichever order: the two names, and the question where there is one, [E]."""
        low, high = np.where(self.in_order, self.first, self.second), np.where(self.in_order, self.second, self.first)
        names = np.char.add(np.char.add(low.astype(str), " | "), high.astype(str))
        return names if self.question is None else np.char.add(np.char.add(self.question.astype(str), ": "), names)

    def votes(self) -> Annotations:
        """Which of the two is better, as soft votes for one of two classes; verdicts of one judge on one pair are averaged.

        The classes are the two that are compared, where there are no others; else left and right in the order of their names.
        """
        names = sorted({*self.first.tolist(), *self.second.tolist()})
        won = np.where(self.in_order, self.chose_first, 1 - self.chose_first)
        classes = names if len(names) == 2 else ["left", "right"]
        return Annotations.from_probabilities(
            pl.Series(self.pair), pl.Series(self.judge), np.column_stack([won, 1 - won]), classes=classes
        )


def are_verdicts(path: AnyPath, *, label: str | None = None) -> bool:
    """Whether a file compares two things row by row, with their names or with a column that says that they were swapped."""
    source = open_source(path)
    if source.kind in ("folder", "matrix"):
        return False
    verdict = label if label in source.names else _verdict(source.names)
    if compares(source.names) or verdict is None or _swap(source) is None:
        return compares(source.names)
    return are_places(source.table([verdict]).frame[verdict])


def read_verdicts(
    path: AnyPath, *, question: str | None = None, judge: str | None = None, label: str | None = None
) -> Verdicts:
    """Read verdicts from a table, battles, MT-Bench or AlpacaEval; columns are found by their names where none is given."""
    source = open_source(path)
    names = source.names
    beside = _beside(names, question)
    named = judge is not None or label is not None
    found = None if named or battle_shape(names) is None else battle_table(source, None, beside)
    table, where = (found.frame, found.where) if found is not None else _columns(path, names, beside, judge, label)
    won = _chosen(table, "winner", where)
    kept = np.isfinite(won)
    texts = {role: as_text(tidy(table[role])).fill_null("").to_numpy()[kept] for role in ("first", "second", "annotator")}
    asked = [as_text(tidy(table[role])).fill_null("") for role in ("question", "turn") if role in table.columns]
    asked_for = None if not asked else (asked[0] if len(asked) == 1 else asked[0] + " turn " + asked[1]).to_numpy()[kept]
    return Verdicts(
        asked_for,
        texts["first"],
        texts["second"],
        texts["annotator"],
        won[kept],
        _chosen(table, "truth", where)[kept] if "truth" in table.columns else None,
        _doublings(table)[kept] if "length_first" in table.columns else None,
        int((~kept).sum()),
    )


def _beside(names: Sequence[str], question: str | None) -> dict[str, str]:
    """Columns beside the verdict by their roles."""
    usual = {name.lower(): name for name in names}
    found = {"question": question or next((usual[name] for name in _QUESTION if name in usual), None)}
    found["turn"] = usual.get("turn")
    # Where both orders stand in one row, the truth would have to turn with them.
    found["truth"] = None if "g2_winner" in usual else next((usual[name] for name in _TRUTH if name in usual), None)
    for stem in (*_LENGTHS, *_TEXTS):
        for one, other in _SIDES:
            pair = [usual.get(f"{stem}_{side}") for side in (one, other)]
            if None not in pair and "length_first" not in found:
                found["length_first"], found["length_second"] = pair
    return {role: name for role, name in found.items() if name is not None}


def _swap(source: Source) -> str | None:
    """The column that says that two stood in the other order."""
    return turn_column(source.names, lambda name: source.table([name]).frame[name])


def _usual(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    usual = {name.lower(): name for name in names}
    return next((usual[name] for name in wanted if name in usual), None)


def _verdict(names: Sequence[str]) -> str | None:
    """The column that says which place won."""
    return _usual(names, _VERDICTS)


def _columns(
    path: AnyPath, names: Sequence[str], beside: Mapping[str, str], judge: str | None, label: str | None
) -> tuple[pl.DataFrame, Where]:
    """The columns of a plain table; where nobody names the two, they are a and b, and `swapped` says which stood first."""
    file = FileColumns(path)
    swap = None if compares(names) else _swap(file.source)
    roles: dict[str, str | None] = {"first": None, "second": None} if swap is None else {}
    if swap is None:
        roles |= {"annotator": judge, "winner": label}
    else:
        roles |= {"annotator": judge or _usual(names, _JUDGES), "winner": label or _verdict(names)}
    table, where = columns_by_role(file, roles)
    more = dict(beside) | ({} if swap is None else {"swap": swap})
    fetched, _ = file.fetch(list(dict.fromkeys(more.values())))
    table = table.with_columns(fetched[name].alias(role) for role, name in more.items())
    return (table if swap is None else _turned(table)), where


def _turned(table: pl.DataFrame) -> pl.DataFrame:
    """The two as they stood: verdicts name the place, lengths and the truth belong to the answers, a and b."""
    other_order = turned(table["swap"])
    # Names that no verdict has, for a verdict may be the name of what won.
    table = table.with_columns(first=pl.lit("answer a"), second=pl.lit("answer b"), winner=_places(table["winner"]))
    pairs = [(name, name.removesuffix("first") + "second") for name in table.columns if name.endswith("first")]
    both = [both for pair in pairs for both in (pair, pair[::-1])]
    sides = [pl.when(other_order).then(pl.col(other)).otherwise(pl.col(one)).alias(one) for one, other in both]
    table = table.with_columns(sides)
    if "truth" in table.columns:
        said = as_text(table["truth"]).str.to_lowercase().replace({"a": "answer a", "b": "answer b"})
        table = table.with_columns(truth=said)
    return table


def _places(winner: pl.Series) -> pl.Series:
    """Verdicts as places; degrees, which are numbers, as they are."""
    return winner if winner.dtype.is_numeric() else as_places(winner)


def _chosen(table: pl.DataFrame, role: str, where: Where) -> NDArray[np.float64]:
    """How far each row is for what stands first, [E]; NaN where there is no answer."""
    rows = table.select("first", "second", winner=role, annotator=pl.int_range(table.height))
    votes = Comparisons.from_columns(rows, where)
    chosen = np.full(table.height, np.nan)
    # Every row has an annotator of its own, which says where the answer belongs.
    chosen[votes.annotators[votes.annotator]] = np.where(votes.outcome >= 0, votes.degrees, 1 - votes.degrees)
    return chosen


def _doublings(table: pl.DataFrame) -> NDArray[np.float64]:
    """log2 of the ratio of two lengths, which are numbers or those of texts, [E]."""
    lengths = []
    for role in ("length_first", "length_second"):
        numbers = table[role].cast(pl.Float64, strict=False)
        plain = numbers.null_count() == table[role].null_count()
        lengths.append((numbers if plain else table[role].cast(pl.String).str.len_chars().cast(pl.Float64)).to_numpy())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log2(lengths[0]) - np.log2(lengths[1])
    return np.where(np.isfinite(ratio), ratio, np.nan)
