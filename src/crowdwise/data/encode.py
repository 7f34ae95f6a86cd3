"""From a user's columns to integer codes: find the columns, tidy the ids, build vocabularies.

Vocabularies are sorted, so the same votes in any row order give the same codes. Everything
here is columnar (polars and numpy): ten million string ids pass without a Python loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from crowdwise.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ALIASES",
    "Where",
    "as_text",
    "codes_of",
    "encode",
    "find_column",
    "missing_mask",
    "series_of",
    "tidy",
    "to_polars",
    "translate",
    "vocabulary_array",
    "vocabulary_series",
]

# Spellings seen in crowd-kit, spark-crowd, peerannot, ActiveCrowd and platform exports. The
# comparison ignores case, spaces, dashes and underscores.
ALIASES: dict[str, tuple[str, ...]] = {
    "item": (
        "item", "task", "example", "subject", "unit", "hitid", "itemid", "taskid", "exampleid",
        "subjectid", "subjectids", "unitid", "question", "questionid", "document", "docid", "object",
    ),
    "annotator": (
        "annotator", "worker", "rater", "user", "coder", "performer", "judge", "annotatorid",
        "workerid", "raterid", "userid", "username", "coderid", "judgeid", "model", "labeler", "labeller",
    ),
    "label": (
        "label", "value", "answer", "response", "vote", "annotation", "rating", "workerlabel",
        "verdict", "choice",
    ),
    "weight": ("weight", "weights"),
    # The known class in a table of gold labels, which often calls it what votes call a label.
    "truth": (
        "truth", "gold", "goldlabel", "goldstandard", "groundtruth", "truelabel", "trueclass", "target",
        "class", "label", "value", "answer",
    ),
    # Two things side by side, and which was preferred or whether they are the same.
    "first": ("first", "itema", "left", "a", "item1", "option1", "optiona", "responsea", "modela", "object1", "id1"),
    "second": ("second", "itemb", "right", "b", "item2", "option2", "optionb", "responseb", "modelb", "object2", "id2"),
    "winner": ("winner", "preferred", "preference", "chosen", "better", "outcome", "label", "answer", "choice", "vote"),
    "same": ("same", "similar", "link", "match", "equal", "duplicate", "label", "answer", "response", "vote"),
    # A number instead of a class.
    "value": ("value", "score", "rating", "number", "label", "answer", "response", "vote"),
    # Whom an item is about, and where a token stands.
    "group": ("group", "attribute", "protected", "sensitive"),
    "sequence": ("sequence", "sentence", "sentenceid", "document", "docid", "line"),
    "position": ("position", "index", "tokenid", "offset"),
    "token": ("token", "word", "text"),
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """Where rows come from, so that an error can point at one: a file name and its first data row."""

    source: str = "the votes"
    first_row: int = 0

    def row(self, index: int) -> str:
        """Return, for example, "votes.csv row 17"."""
        return f"{self.source} row {index + self.first_row}"


def to_polars(frame: Any) -> pl.DataFrame:
    """Accept a pandas, polars (eager or lazy) or Arrow frame, or a dict of columns."""
    if isinstance(frame, pl.DataFrame):
        return frame
    if isinstance(frame, pl.LazyFrame):
        return frame.collect()
    if isinstance(frame, dict):
        columns = {str(name): series_of(values) for name, values in frame.items()}
        if len({len(column) for column in columns.values()}) > 1:
            sizes = ", ".join(f"{name!r} has {len(column)}" for name, column in columns.items())
            raise InputError(f"columns must have one length: {sizes}")
        return pl.DataFrame(columns)
    import narwhals as nw

    try:
        native = nw.from_native(frame, eager_only=True)
    except TypeError:
        raise InputError(
            f"expected a pandas, polars or Arrow frame, got {type(frame).__name__}; "
            "for plain sequences use Annotations.from_arrays(item, annotator, label)"
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"two columns of the frame share a name; rename one ({error})") from None
    return pl.DataFrame({str(name): series_of(native[name].to_native()) for name in native.columns})


def find_column(frame: pl.DataFrame, role: str, given: str | None, where: Where) -> str:
    """Name the column that plays `role`: the one given, or the one that an alias matches."""
    if given is not None:
        if given in frame.columns:
            return given
        raise InputError(
            f"{where.source}: no column {given!r}; found {', '.join(map(repr, frame.columns))}"
            + did_you_mean(given, frame.columns)
        )
    plain = {name: "".join(c for c in name.lower() if c.isalnum()) for name in frame.columns}
    # An exact role name wins over an alias, so "label" beside "answer" is not ambiguous.
    exact = [name for name in frame.columns if plain[name] == role]
    found = exact or [name for name in frame.columns if plain[name] in ALIASES[role]]
    if len(found) == 1:
        return found[0]
    problem = f"no {role} column" if not found else f"several columns could be the {role}: {', '.join(map(repr, found))}"
    fix = "Rename it to 'truth'" if role == "truth" else f"Name it: {role}=... in Python, --{role} NAME on the command line"
    raise InputError(f"{where.source}: {problem}; found {', '.join(map(repr, frame.columns)) or 'no columns'}. {fix}")


def tidy(series: pl.Series) -> pl.Series:
    """Bring ids or labels to one of three types: Int64, Boolean or String; NaN becomes null.

    Whole-number floats become integers: pandas turns an integer column with a missing cell into
    floats, and a user who wrote 1 should not get the class 1.0 back.
    """
    dtype = series.dtype
    if dtype.is_integer():
        narrow = series.cast(pl.Int64, strict=False)
        # Hashes of 64 unsigned bits do not fit; as ids they are as good in text.
        return narrow if narrow.null_count() == series.null_count() else series.cast(pl.String)
    if dtype.is_float():
        series = series.fill_nan(None)
        finite = series.drop_nulls()
        whole = bool((finite == finite.round(0)).all()) and bool((finite.abs() < 2**53).all())
        return series.cast(pl.Int64) if whole else series.cast(pl.String)
    if dtype == pl.Boolean or dtype == pl.String:
        return series
    if dtype == pl.Null:
        return series.cast(pl.String)
    if dtype == pl.Object or dtype.is_nested():
        return pl.Series([None if _is_missing(x) else str(x) for x in series.to_list()], dtype=pl.String)
    return series.cast(pl.String)


def as_text(series: pl.Series) -> pl.Series:
    """Cast to text; booleans are spelt as Python spells them, so that True matches "True"."""
    if series.dtype == pl.Boolean:
        return series.replace_strict({True: "True", False: "False"}, default=None, return_dtype=pl.String)
    return series.cast(pl.String)


def missing_mask(series: pl.Series, markers: Any) -> pl.Series:
    """Say which labels are missing: null, empty text, or one of the user's "don't know" markers.

    `markers` is one marker or several; the text "-1" and the number -1 are the same marker.
    """
    # One text is one marker, not a list of letters.
    listed = [markers] if isinstance(markers, str) or not isinstance(markers, Iterable) else list(markers)
    # A label column of whole floats has become integers (see `tidy`), and so must its markers.
    texts = [str(int(m) if isinstance(m, float) and m.is_integer() else m) for m in listed if not _is_missing(m)]
    if series.dtype != pl.String and not texts:
        return series.is_null()
    # One expression: a call of polars costs more than the work on a short column.
    text = pl.col("text")
    mask = text.is_null()
    if series.dtype == pl.String:
        mask |= text.str.strip_chars() == ""
    if texts:
        mask |= text.is_in(texts)
    return as_text(series).to_frame("text").select(mask).to_series()


def encode(series: pl.Series) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return codes (-1 where null) and the sorted vocabulary of a tidy series."""
    unique = series.unique().drop_nulls().sort()
    return codes_of(series, unique), vocabulary_array(unique)


def codes_of(series: pl.Series, vocabulary: pl.Series) -> NDArray[np.int32]:
    """Look every value up in `vocabulary`; -1 where it is null or absent."""
    if len(vocabulary) == 0 or len(series) == 0:
        return np.full(len(series), -1, np.int32)
    if series.dtype != vocabulary.dtype:
        # Ids typed in two places differ in type more often than in meaning ("7" and 7).
        series, vocabulary = as_text(series), as_text(vocabulary)
    if series.equals(vocabulary):
        # A pool that lists the items of the votes, a table in their order: nothing is to be looked up.
        return np.arange(len(series), dtype=np.int32)
    if series.dtype == pl.String:
        codes = series.cast(pl.Enum(vocabulary), strict=False).to_physical().cast(pl.Int32)
        return (codes.fill_null(-1) if codes.null_count() else codes).to_numpy()
    lookup = pl.DataFrame({"id": vocabulary, "code": np.arange(len(vocabulary), dtype=np.int32)})
    joined = pl.DataFrame({"id": series}).join(lookup, on="id", how="left", maintain_order="left")
    return joined["code"].fill_null(-1).to_numpy()


def translate(old: NDArray[Any], new: NDArray[Any]) -> NDArray[np.int32]:
    """Position in the vocabulary `new` of every entry of the vocabulary `old`; -1 where absent."""
    return codes_of(tidy(series_of(old)), tidy(series_of(new)))


def vocabulary_array(unique: pl.Series) -> NDArray[Any]:
    """Return a vocabulary as a numpy array: int64, bool, or objects holding `str`."""
    if unique.dtype == pl.String:
        return np.array([*unique.to_list(), None], dtype=object)[:-1]
    return np.array(unique.to_numpy())


def vocabulary_series(values: Sequence[Any] | NDArray[Any], what: str) -> pl.Series:
    """Check a user's vocabulary (no missing, no repeats) and return it as a tidy series, in their order."""
    series = tidy(series_of(values))
    if series.null_count():
        raise InputError(f"{what} contain a missing value at position {int(series.is_null().arg_true()[0])}")
    repeated = series.filter(series.is_duplicated())
    if len(repeated):
        raise InputError(f"{what} contain {repeated[0]!r} more than once; each may appear once")
    return series


def series_of(values: Any) -> pl.Series:
    """Make a series of anything one-dimensional; numbers of mixed types become floats, other mixtures text."""
    if isinstance(values, pl.Series):
        return values
    if isinstance(values, np.ndarray) and values.dtype != object:
        return pl.Series(values.astype(str).tolist() if values.dtype.kind in "SMm" else values)
    if not (hasattr(values, "__array__") or hasattr(values, "__arrow_c_stream__")):
        values = list(values)
    try:
        series = pl.Series(values)
        if series.dtype != pl.Object or len(series) == 0:
            return series
    except (TypeError, pl.exceptions.PolarsError, ValueError):
        pass
    # What polars refuses or keeps as bare objects: mixed types, or NaN among integers.
    cells = [None if _is_missing(x) else x for x in values]
    kinds = {type(x) for x in cells if x is not None}
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        return pl.Series([None if x is None else int(x) for x in cells])
    if all(issubclass(kind, int | float | np.number) and kind is not bool for kind in kinds):
        return pl.Series([None if x is None else float(x) for x in cells], dtype=pl.Float64)
    if kinds == {bool}:
        return pl.Series(cells, dtype=pl.Boolean)
    return pl.Series([None if x is None else str(x) for x in cells], dtype=pl.String)


def _is_missing(value: Any) -> bool:
    """True for None, NaN and pandas' NA and NaT, without importing pandas."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
