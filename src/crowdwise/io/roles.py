"""Which column plays which role, where no name is a usual one: what the words in names, and the values, say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from crowdwise.data.encode import ALIASES
from crowdwise.errors import InputError, listed
from crowdwise.io.advice import instead
from crowdwise.io.exports import Request
from crowdwise.io.source import Source

__all__ = [
    "GOLD",
    "answer_columns",
    "battle_shape",
    "by_alias",
    "by_id",
    "by_words",
    "compares",
    "doubt_item",
    "example",
    "find_gold",
    "find_item",
    "named_items",
    "naming_column",
]
__all__ += ["never_votes", "recurs", "suggested", "words_of"]

_WORDS = {
    "annotator": {"annotator", "worker", "rater", "coder", "labeler", "labeller", "judge", "user", "performer", "reviewer"}
    | {"participant", "respondent", "turker"},
    "item": {
        "item",
        "image",
        "photo",
        "picture",
        "video",
        "audio",
        "clip",
        "document",
        "doc",
        "text",
        "tweet",
        "post",
        "comment",
    }
    | {"sentence", "example", "sample", "file", "filename", "url", "link", "page", "article", "review", "message", "utterance"}
    | {"instance", "stimulus", "snippet", "passage", "object", "subject", "unit", "record", "case"},
    "label": {"label", "annotation", "answer", "response", "vote", "rating", "judgment", "judgement", "choice", "verdict"},
}
# Words of columns that say something about an item or about its votes, and are no vote.
GOLD = {"gold", "golden", "truth", "true", "groundtruth", "correct"}
_NO_VOTE = GOLD | {
    "majority", "maj", "consensus", "final", "aggregated", "adjudicated", "hard", "soft", "mean", "median", "mode", "average",
    "avg", "std",
    "entropy", "agreement", "confidence", "kappa", "alpha", "count", "counts", "num", "number", "total", "n", "sum",
    "index", "idx", "id", "ids", "uid", "key", "row", "text", "sentence", "comment", "comments", "note", "notes", "tweet",
    "title",
    "url", "link", "image", "file", "filename", "path", "split", "fold", "source", "lang", "language", "date", "time",
    "timestamp",
    "duration", "start", "end", "email", "name", "age", "gender", "country", "unnamed", "weight", "score",
    "prediction", "predictions", "predicted", "pred", "suggestion", "baseline", "resolved", "agreed",
    "conf", "certainty", "sure", "difficulty", "length", "len", "words", "tokens", "seconds", "ip",
    "set", "subset", "batch", "seed", "sex", "year", "ethnicity", "race", "education", "occupation", "phase",
    "pct", "percent", "percentage", "share", "shares", "fraction", "prob", "proba", "probability", "probabilities",
}  # fmt: skip
# More words than these are a question that was asked, whatever it is about.
_MOST_WORDS = 4
# What is longer is a text, not its name.
_LONGEST_ID = 80
# Columns of which every two are tried.
_MOST_EXAMPLES = 12
# Rows by which pairs of columns are judged.
_MOST_ROWS = 100_000
# Of fewer rows nobody can tell by their values what they are.
_LEAST_EXAMPLE = 12
_PAIR = ("item", "annotator")
_ID = {"id", "ids", "uid", "uuid", "key", "hash", "no", "number", "idx", "index"}


def words_of(name: str) -> list[str]:
    """The words in a column's name: "labelGold", "label_gold" and "Label gold" have the same."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+", name)]


def by_words(names: Sequence[str], role: str) -> list[str]:
    """Columns whose names hold a word of the role, in the singular or plural, and end in it, in "id" or in "name"."""
    found = []
    for name in names:
        words = [re.sub(r"(?<=..[^u])s$", "", word) for word in words_of(name)]
        plays = [word for word in words if word in _WORDS[role]]
        ends = _WORDS[role] | _ID | (set() if role == "label" else {"name"})
        if plays and words[-1] in ends and (role == "item" or _NO_VOTE.isdisjoint(words[:-1])):
            found.append(name)
    return found


# Two things that were compared, and what says which won; in the order in which files are looked at.
BATTLES: tuple[tuple[tuple[str, str], tuple[str, ...]], ...] = (
    (("model_a", "model_b"), ("winner",)),
    (("model_a", "model_b"), ("winner_model_a", "winner_model_b")),
    (("model_1", "model_2"), ("g1_winner",)),
    (("generator_1", "generator_2"), ("preference",)),
)


def battle_shape(names: Sequence[str]) -> tuple[tuple[str, str], tuple[str, ...]] | None:
    """The columns by which a table is one of comparisons between models; None where it is none."""
    return next((shape for shape in BATTLES if {*shape[0], *shape[1]} <= set(names)), None)


def compares(names: Sequence[str]) -> bool:
    """Whether a table is one of comparisons: between models, or with two things side by side and the one that won."""
    sides = [[name for name in by_alias(names, role) if len(name) > 1] for role in ("first", "second")]
    return battle_shape(names) is not None or (all(len(found) == 1 for found in sides) and bool(by_alias(names, "winner")))


def suggested(source: Source, role: str, request: Request, taken: Mapping[str, str]) -> str:
    """The command that names the column, where one looks like the role by its name, or by its values; else nothing."""
    names = [name for name in source.names if name not in taken.values()]
    if compares(source.names):
        return f". These are comparisons: {instead('rank', source.name)}"
    likely = by_words(names, role)
    if role == "label" and not likely and source.kind not in ("json", "jsonl"):
        others = {name for role in _PAIR for name in (*by_alias(names, role), *by_words(names, role))}
        pair = [getattr(request, who) or next(iter(_played(source, who)), None) for who in _PAIR]
        likely = _likely_labels(source.table([name for name in source.names if name not in others or name in pair]).frame, pair)
    if role == "item":
        people = taken.get("annotator")
        likely = named_items(names)
        # An id that never recurs numbers the rows.
        flat = [name for name in names if not isinstance(source.first.get(name), dict | list)]
        told = {name: people is not None and recurs(source.table([name, people]).frame) for name in flat}
        near = [name for name in likely if name in told]
        asked = [name for name in near if told[name]] or [name for name in near if people and _meets(source, name, people)]
        likely = asked or [name for name in flat if told[name]] or likely
    if not likely:
        return ""
    if len(likely) > 1:
        joined = "; where it takes several to name an item, join them in one column first" if role == "item" else ""
        return f"; it may be {listed(map(repr, likely), 6)}{joined}"
    named: dict[str, Any] = {role: likely[0]}
    return f", for example {replace(request, **named).command(source.name)}"


def _played(source: Source, role: str) -> list[str]:
    """Columns that may play the role by their names."""
    names = source.names
    return by_alias(names, role) or by_words(names, role) or (named_items(names) if role == "item" else [])


def _likely_labels(frame: pl.DataFrame, pair: Sequence[str | None]) -> list[str]:
    """Columns with a word for labels anywhere in their names; else those of few values that recur.

    Where items and annotators are known, only what differs among the votes on an item, and among those of an annotator.
    """
    plain = [name for name in frame.columns if name not in pair and not frame[name].dtype.is_nested()]
    if None not in pair:
        # Of few votes, all on an item may be alike.
        plain = answer_columns(frame, plain, *map(str, pair)) or plain
    named = [name for name in plain if _WORDS["label"] & set(words_of(name)) and not never_votes(name)]
    sizes = {name: frame[name].drop_nulls().n_unique() for name in plain if not named and find_gold([name]) is None}
    few = [name for name, n in sizes.items() if 1 < n <= max(2, frame.height / 3) and words_of(name)]
    return named or [name for name in few if not never_votes(name)] or few


def answer_columns(frame: pl.DataFrame, names: Sequence[str], item: str, people: str) -> list[str]:
    """Columns that differ among votes on an item and among votes of an annotator: what says nothing of either alone."""
    found = [name for name in names if name not in (item, people) and not frame[name].dtype.is_nested()]
    for by in (item, people):
        if found and not frame[by].dtype.is_nested():
            differ = frame.group_by(by).agg(pl.col(found).drop_nulls().n_unique()).select(pl.col(found).max()).row(0)
            found = [name for name, n in zip(found, differ, strict=True) if (n or 0) > 1]
    return found


def named_items(names: Sequence[str]) -> list[str]:
    """Columns whose names have a word for items in them, or end in a word for an id that is no annotator's."""
    ids = [name for name in names if words_of(name) and words_of(name)[-1] in _ID and not by_words([name], "annotator")]
    return list(dict.fromkeys([*by_words(names, "item"), *ids]))


def recurs(frame: pl.DataFrame) -> bool:
    """Whether the first column's values recur, and hardly ever with the same value of the second: as items do with people."""
    name = frame.columns[0]
    if frame[name].dtype.is_nested() or frame[name].null_count() or frame[name].n_unique() == frame.height:
        return False
    return frame.height < 2 or bool(frame.n_unique() >= 0.95 * frame.height)


def _meets(source: Source, name: str, people: str) -> bool:
    """Whether values of a column stand beside several annotators each, as items do that are asked about more than once."""
    frame = source.table([name, people]).frame
    return frame.n_unique() > 1.5 * frame[name].n_unique()


def example(source: Source, request: Request, lost: Sequence[str]) -> str:
    """The command that names the columns of `lost` roles, by what is in them; nothing where they do not look like it.

    Labels are few and recur; items recur, hardly ever with the same annotator, and there are more of them.
    """
    named = {role: [getattr(request, role)] for role in _WORDS if getattr(request, role) is not None}
    named |= {role: by_alias(source.names, role) or by_words(source.names, role) for role in _WORDS if role not in named}
    known = {role: names[0] for role, names in named.items() if role not in lost and names}
    names = source.names[:_MOST_EXAMPLES]
    frame = source.table(names).frame
    plain = [name for name in names if not frame[name].dtype.is_nested()]
    sizes = {name: frame[name].drop_nulls().n_unique() for name in plain}
    likely = [name for name in plain if 1 < sizes[name] < frame.height]
    few = [name for name in likely if sizes[name] <= frame.height / 3 and frame.height >= _LEAST_EXAMPLE]
    few = [name for name in few if name not in known.values()]
    label = known.get("label") or min(few, key=sizes.__getitem__, default=None)
    ids = [name for name in likely if not frame[name].cast(pl.String).str.contains(r"^-?\d*\.\d*[1-9]").any()]
    rest = sorted((name for name in ids if name != label and not frame[name].null_count()), key=_first_named(names, sizes))
    pairs = [(item, who) for k, item in enumerate(rest) for who in rest[k + 1 :] if recurs(frame.select(item, who))]
    pairs = [pair for pair in pairs if all(known.get(role, name) == name for role, name in zip(_PAIR, pair, strict=True))]
    if label is None or not pairs:
        return ""
    found: dict[str, Any] = {"item": pairs[0][0], "annotator": pairs[0][1], "label": label}
    # Of several questions, each with the same answers, one is as likely as another.
    alike = [name for name in answer_columns(frame, few, *pairs[0]) if set(frame[name]) == set(frame[label]) and name != label]
    others = f" (--label may as well be {listed(map(repr, alike), 4)})" if "label" in lost and alike else ""
    found = {role: found[role] for role in lost}
    return f"{replace(request, **found).command(source.name)}{others}"


def _first_named(names: Sequence[str], sizes: Mapping[str, int]) -> Callable[[str], tuple[bool, int]]:
    """By which columns are ordered as items: those called so first, then those of most values."""
    named = set(named_items(names))
    return lambda name: (name not in named, -sizes[name])


def never_votes(name: str) -> bool:
    """Whether a column's name says that it is gold, a majority, a count, an index or a text."""
    words = words_of(name)
    return not name.strip() or (len(words) <= _MOST_WORDS and bool(_NO_VOTE & set(words))) or "%" in name


def find_gold(names: Sequence[str]) -> str | None:
    """The column of known classes, by its name."""
    found = [name for name in names if GOLD & set(words_of(name))]
    return found[0] if len(found) == 1 else None


def find_item(frame: pl.DataFrame, request: Request, source: str) -> str | None:
    """The column that names the rows: the one given, a usual name, an id without repeats, or a nameless index."""
    names = frame.columns
    if request.item is not None:
        if request.item not in names:
            raise InputError(f"{source}: no column {request.item!r}; found {', '.join(map(repr, names[:20]))}")
        return request.item
    usual = [name for name in names if "".join(c for c in name.lower() if c.isalnum()) in (*ALIASES["item"], "id")]
    ids = by_id(names)
    nameless = [name for name in names[:1] if not name.strip() or name.lower() in ("index", "column 1")]
    for name in (*usual, *ids, *nameless):
        if frame[name].dtype.is_nested():
            continue
        cells = frame[name].drop_nulls()
        if len(cells) == frame.height and cells.n_unique() == frame.height:
            return name
    return None


def naming_column(frame: pl.DataFrame, among: Sequence[str]) -> str | None:
    """Where no name is a usual one: the first of these columns that names every row by a short text of its own, if any."""
    for name in (name for name in among if frame[name].dtype == pl.String and find_gold([name]) is None):
        cells = frame[name].drop_nulls()
        short = bool((cells.str.len_chars() <= _LONGEST_ID).all()) and not cells.str.contains("\n").any()
        if 1 < len(cells) == frame.height == cells.n_unique() and short:
            return name
    return None


def doubt_item(frame: pl.DataFrame, source: str, request: Request, taken: str) -> None:
    """Refuse an item column in which annotators repeat themselves, where another column has none of that."""
    found = by_alias(frame.columns, "annotator") or by_words(frame.columns, "annotator")
    people = request.annotator or next(iter(found), None)
    if people is None:
        return
    better, n_items = [], frame[taken].n_unique()
    for name in (name for name in frame.columns if name not in (people, taken)):
        n = frame[name].n_unique()
        if frame[name].null_count() == 0 and n_items < n <= frame.height / 1.5:
            alone = frame.select(pl.struct(name, people).n_unique()).item()
            if alone > 0.95 * frame.height:
                better.append((_ID.isdisjoint(words_of(name)), name, n))
    if not better:
        _doubt_alone(frame, source, people, taken)
    else:
        _, name, n = min(better)
        right = replace(request, item=name)
        raise InputError(
            f"{source}: the column {taken!r} was taken as the item, but has {n_items:,} values: most votes would be an "
            f"annotator's second on one item. {name!r} has {n:,}: {right.command(source)} (item=...); if "
            f"{taken!r} is meant: --item {taken}"
        )


def _doubt_alone(frame: pl.DataFrame, source: str, people: str, taken: str) -> None:
    """Refuse an item column where it takes a second one to tell items apart: a document and the number of a sentence in it."""
    frame = frame.head(_MOST_ROWS)
    names = [name for name in frame.columns if name not in (people, taken) and not frame[name].dtype.is_nested()][
        :_MOST_EXAMPLES
    ]
    sizes = {name: frame[name].n_unique() for name in names if not frame[name].null_count()}
    pairs = [(taken, name) for name in sizes] + [(one, other) for k, one in enumerate(sizes) for other in list(sizes)[k + 1 :]]
    for pair in pairs:
        n = frame.select(pl.struct(pair).n_unique()).item()
        alone = frame.select(pl.struct(*pair, people).n_unique()).item() > 0.95 * frame.height
        if named_items(pair) and n <= frame.height / 1.5 and alone:
            raise InputError(
                f"{source}: the column {taken!r} was taken as the item, and most votes would be an annotator's second on one "
                f"item. {pair[0]!r} and {pair[1]!r} together tell {n:,} items apart: join them in one column, and name it "
                f"with --item (item=...); if {taken!r} is meant: --item {taken}"
            )


def by_id(names: Sequence[str]) -> list[str]:
    """Columns whose names end in a word for an id."""
    return [name for name in names if words_of(name) and words_of(name)[-1] in _ID - {"no", "number"}]


def by_alias(names: Sequence[str], role: str) -> list[str]:
    """Columns with a usual name of the role."""
    return [name for name in names if "".join(c for c in name.lower() if c.isalnum()) in ALIASES[role]]
