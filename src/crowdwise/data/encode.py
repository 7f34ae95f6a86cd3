"""From a user's columns to integer codes: find the columns, tidy the ids, build vocabularies, sort the votes.

Vocabularies are sorted, so the same votes in any row order give the same codes. Errors name the row and the fix. Everything
here is columnar (polars and numpy): ten million string ids pass without a Python loop.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from crowdwise.data.aliases import ALIASES
from crowdwise.data.text_form import EDGES
from crowdwise.errors import DataWarning, InputError, did_you_mean, listed

__all__ = ["ALIASES", "EDGES", "Where", "as_text", "checked_weights", "codes_of", "encode", "find_column", "first_of_runs"]
__all__ += ["id_codes", "label_codes", "means_missing", "missing_mask", "series_of", "sorted_votes", "tidy", "to_polars"]
__all__ += ["decimal_points", "plain_name", "translate", "union", "vocabulary_array", "vocabulary_series"]
__all__ += ["warn_of_missing_words"]


# No leading zeros, so that "007" stays text; at most 18 digits, so that it fits 64 bits.
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"
# A weight says how many votes a vote counts as; sums and products of larger ones leave the numbers that computers have.
HEAVIEST = 1e9
_MISSING_WORDS = {
    "nan", "na", "n/a", "n.a.", "#n/a", "null", "none", "<na>", "nil", "-", "--", "---", ".", "?", "??", "???",
    "skip", "skipped", "unsure", "not sure", "uncertain", "unclear", "undecided", "unknown", "dk",
    "idk",
    "dont know", "do not know", "i dont know", "no answer", "no response", "no opinion", "not answered", "unanswered",
    "missing", "cant say", "cant tell", "cannot say", "cannot tell", "cant decide", "cannot decide",
    "prefer not to say", "weiß nicht", "weiss nicht", "keine angabe", "k.a.", "je ne sais pas", "no sé", "no se",
}  # fmt: skip


@dataclass(frozen=True)
class Where:
    """Where rows come from, so that an error can point at one: a file name and its first data row."""

    source: str = "the votes"
    first_row: int = 0

    def row(self, index: int) -> str:
        """Return, for example, "votes.csv row 17"."""
        return f"{self.source} row {index + self.first_row}"

    def votes(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Votes that each of some rows stands for."""
        return np.ones(len(rows), np.int64)


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
            "plain sequences go through from_arrays, such as Annotations.from_arrays(item, annotator, label)"
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"two columns of the frame share a name; rename one ({error})") from None
    return pl.DataFrame({str(name): series_of(native.get_column(name).to_native()) for name in native.columns})


def plain_name(name: str) -> str:
    """The name of a column without case, spaces and dashes, as aliases are."""
    return "".join(c for c in name.lower() if c.isalnum())


def find_column(frame: pl.DataFrame, role: str, given: str | None, where: Where, fix: str | None = None) -> str:
    """Name the column that plays `role`: the one given, or the one that an alias matches; `fix` is what to do without one."""
    if given is not None:
        if given in frame.columns:
            return given
        raise InputError(
            f"{where.source}: no column {given!r}; found {listed(map(repr, frame.columns))}"
            + did_you_mean(given, frame.columns)
        )
    plain = {name: plain_name(name) for name in frame.columns}
    # An exact role name wins over an alias, so "label" beside "answer" is not ambiguous.
    exact = [name for name in frame.columns if plain[name] == role]
    found = exact or [name for name in frame.columns if plain[name] in ALIASES[role]]
    if len(found) == 1:
        return found[0]
    problem = f"no {role} column" if not found else f"several columns could be the {role}: {', '.join(map(repr, found))}"
    if fix is None:
        naming = f"Name it: {role}=... in Python, --{role} NAME on the command line"
        fix = "Rename it to 'truth'" if role == "truth" else naming
    raise InputError(f"{where.source}: {problem}; found {listed(map(repr, frame.columns)) or 'no columns'}. {fix}")


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
        # Before polars 2, 1e+18 was spelt 1e18, which an id may be that is text.
        return series.cast(pl.Int64) if whole else series.cast(pl.String).str.replace(r"e(\d)", "e+${1}")
    if dtype == pl.Boolean or dtype == pl.String:
        return series
    if dtype == pl.Null:
        return series.cast(pl.String)
    if dtype == pl.Object or dtype.is_nested():
        return pl.Series([None if _is_missing(x) else str(x) for x in series.to_list()], dtype=pl.String)
    return series.cast(pl.String)


def decimal_points(text: pl.Series) -> pl.Series:
    """Numbers in text with a comma before their fractions, as many spreadsheets write them, with a point.

    Only where no cell has a point and a comma stands once in a number: then it cannot separate thousands from hundreds in one
    cell and fractions in another. A number such as 1,000 is 1 here, which three digits after every comma leave open: it stays.
    """
    given = text.drop_nulls()
    commas = given.filter(given.str.contains(",", literal=True))
    if not len(commas) or given.str.contains(".", literal=True).any():
        return text
    if not commas.str.contains(r"^[+-]?\d+,\d+\s*%?$").all() or commas.str.contains(r"^[+-]?[1-9]\d{0,2},\d{3}$").all():
        return text
    return text.str.replace(",", ".", literal=True)


def integers(series: pl.Series) -> pl.Series:
    """Turn text into Int64 when every value that is not empty is a plain integer."""
    if series.dtype != pl.String:
        return series
    present = series.filter(series != "").drop_nulls()
    # Looking at a few values first saves a pass over ten million names.
    if len(present) == 0 or not present.head(100).str.contains(INTEGER).all() or not present.str.contains(INTEGER).all():
        return series
    return series.cast(pl.Int64, strict=False)


def as_text(series: pl.Series) -> pl.Series:
    """Cast to text; booleans are spelt as Python spells them, so that True matches "True"."""
    if series.dtype == pl.Boolean:
        return series.replace_strict({True: "True", False: "False"}, default=None, return_dtype=pl.String)
    if series.dtype.is_nested() or series.dtype == pl.Object:
        return pl.Series(series.name, [None if _is_missing(x) else str(x) for x in series.to_list()], dtype=pl.String)
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
        mask |= text.str.strip_chars(EDGES) == ""
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
        heads, run = first_of_runs(series)
        if run is not None:
            return np.asarray(codes_of(heads, vocabulary)[run])
        codes = series.cast(pl.Enum(vocabulary), strict=False).to_physical().cast(pl.Int32)
        return (codes.fill_null(-1) if codes.null_count() else codes).to_numpy()
    lookup = pl.DataFrame({"id": vocabulary, "code": np.arange(len(vocabulary), dtype=np.int32)})
    joined = pl.DataFrame({"id": series}).join(lookup, on="id", how="left", maintain_order="left")
    return joined["code"].fill_null(-1).to_numpy()


def first_of_runs(series: pl.Series) -> tuple[pl.Series, NDArray[Any] | None]:
    """The first value of every run of equal ones and the run of every row, where runs are long; else the series, None.

    A file that is sorted by item names every item in one run of rows, and looking names up is what reading takes long for.
    """
    if series.dtype != pl.String or not len(series):
        return series, None
    run = series.rle_id()
    if 2 * (run[-1] + 1) > len(series):
        return series, None
    numbers = run.to_numpy()
    return series[np.flatnonzero(np.diff(numbers, prepend=-1))], numbers


def translate(old: NDArray[Any], new: NDArray[Any]) -> NDArray[np.int32]:
    """Position in the vocabulary `new` of every entry of the vocabulary `old`; -1 where absent."""
    return codes_of(tidy(series_of(old)), tidy(series_of(new)))


def vocabulary_array(unique: pl.Series) -> NDArray[Any]:
    """Return a vocabulary as a numpy array: int64, bool, or objects holding `str`."""
    if unique.dtype == pl.String:
        return np.array([*unique.to_list(), None], dtype=object)[:-1]
    return np.array(unique.to_numpy())


def vocabulary_series(values: Sequence[Any] | NDArray[Any] | pl.Series, what: str) -> pl.Series:
    """Check a user's vocabulary (no missing, no repeats) and return it as a tidy series, in their order."""
    series = tidy(series_of(values))
    if series.null_count():
        raise InputError(f"{what} contain a missing value at position {int(series.is_null().arg_true()[0])}")
    if series.n_unique() < len(series):
        repeated = series.filter(series.is_duplicated())
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


# -- columns to checked codes -------------------------------------------------------------------


def id_codes(
    column: pl.Series, given: Sequence[Any] | pl.Series | None, what: str, where: Where, *, n_rows: int | None = None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode item or annotator ids; a missing id is an error that names its row.

    With `n_rows`, the column is several of the table's columns, of so many rows each, one below the other.
    """
    column = tidy(column)
    n_rows = n_rows or max(len(column), 1)
    absent = missing_mask(column, ())
    if absent.any():
        row = int(absent.arg_true()[0]) % n_rows
        raise InputError(f"{where.row(row)}: the {what} id is missing; remove the row or fill it in")
    if given is None:
        return encode(column)
    vocabulary = vocabulary_series(given, f"{what} ids")
    codes = codes_of(column, vocabulary)
    if (codes < 0).any():
        at = int(np.flatnonzero(codes < 0)[0])
        raise InputError(f"{where.row(at % n_rows)}: {what} {column[at]!r} is not among the given {what}s")
    return codes, vocabulary_array(vocabulary)


def label_codes(
    labels: pl.Series, classes: Sequence[Any] | None, where: Where, rows: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Encode labels against the given classes, or against those that occur."""
    if classes is None:
        if len(labels) == 0:
            raise InputError(
                f"{where.source}: every label is missing, so no class is known; name them with classes=... or --classes"
            )
        return encode(labels)
    vocabulary = vocabulary_series(classes, "classes")
    codes = codes_of(labels, vocabulary)
    if (codes < 0).any():
        index = int(np.flatnonzero(codes < 0)[0])
        row = index if rows is None else int(rows[index])
        known = [str(c) for c in vocabulary.to_list()]
        raise InputError(
            f"{where.row(row)}: label {str(labels[index])!r} is not among the classes {listed(known)}"
            + did_you_mean(str(labels[index]), known)
        )
    return codes, vocabulary_array(vocabulary)


def checked_weights(weight: pl.Series, where: Where) -> NDArray[np.float64]:
    """Weights as floats; anything but a finite number >= 0 is an error that names its row."""
    if not (weight.dtype.is_numeric() or weight.dtype in (pl.String, pl.Boolean, pl.Null)):
        raise InputError(f"{where.source}: the weight column holds {weight.dtype}, not numbers; name another")
    weight = decimal_points(weight) if weight.dtype == pl.String else weight
    values = np.array(weight.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy())
    bad = ~((values >= 0) & (values <= HEAVIEST))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        fix = "" if not values[row] > HEAVIEST else f" and at most {HEAVIEST:g}; divide all weights by the largest"
        raise InputError(f"{where.row(row)}: weight {weight[row]!r:.60} is not a finite number >= 0{fix}")
    return values


def sorted_votes(
    item: NDArray[Any],
    annotator: NDArray[Any],
    label: NDArray[Any],
    weight: NDArray[np.float64] | None,
    sizes: tuple[int, int, int],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int16], NDArray[np.float64] | None]:
    """Sort votes by item, annotator and label; return item_ptr, annotator, label and weight."""
    n_items, n_annotators, n_classes = sizes[0], max(sizes[1], 1), max(sizes[2], 1)
    if n_classes > np.iinfo(np.int16).max:
        raise InputError(f"{n_classes} different labels: these look like values, not classes (the limit is 32767)")
    if n_items * n_annotators * n_classes >= 2**63 or n_annotators * n_classes >= 2**31:
        raise InputError(f"{n_items} items x {n_annotators} annotators x {n_classes} classes exceed 64-bit codes")
    # One sortable key per vote; sorting keys themselves is several times faster than an argsort.
    key = (item.astype(np.int64) * n_annotators + annotator) * n_classes + label
    if weight is None:
        key.sort()
    else:
        order = np.lexsort((weight, key))
        key, weight = key[order], np.ascontiguousarray(weight[order])
    pair = key // n_classes
    item_ptr = np.searchsorted(pair, np.arange(n_items + 1, dtype=np.int64) * n_annotators).astype(np.int64)
    return item_ptr, (pair % n_annotators).astype(np.int32), (key - pair * n_classes).astype(np.int16), weight


def union(vocabularies: list[NDArray[Any]], sort: bool) -> NDArray[Any]:
    """Union of vocabularies: the first one's order, or sorted as `encode` does."""
    series = [tidy(series_of(vocabulary)) for vocabulary in vocabularies if len(vocabulary)]
    if len({part.dtype for part in series}) > 1:
        series = [as_text(part) for part in series]
    union = pl.concat(series).unique(maintain_order=True) if series else pl.Series([], dtype=pl.String)
    return vocabulary_array(union.sort() if sort else union)


def warn_of_missing_words(classes: NDArray[Any], codes: NDArray[Any], rows: NDArray[Any], where: Where) -> None:
    """Warn of classes called NaN, skip, don't know, ...: they usually mean "no answer"; `codes` are the classes of `rows`.

    So does -1 below whole numbers from 0 up; -1, 0 and 1 are as often three classes. Other numbers: `missing_codes`.
    """
    names = classes.tolist()
    words = [k for k, c in enumerate(names) if isinstance(c, str) and means_missing(c)]
    if not names:
        return
    if classes.dtype.kind == "i" and -1 in names and min(names) == -1 and len(names) > 2 and max(names) > 1:
        words = [names.index(-1)]
    elif classes.dtype.kind == "i" and (names[0] < 0 or names[-1] > 8):
        from crowdwise.data.missing_codes import missing_codes

        words = [names.index(code) for code in missing_codes(sorted(names))]
    if words:
        import shlex

        times = np.bincount(codes, where.votes(rows), minlength=len(classes))
        shown = ", ".join(f"{str(classes[k])!r} ({times[k]:,.0f})" for k in words[:8])
        more = f" and {len(words) - 8:,} more" if len(words) > 8 else ""
        counts = "count as classes; if they mean" if len(words) > 1 else "counts as a class; if it means"
        options = " ".join(shlex.join(["--missing", str(classes[k])]) for k in words)
        warnings.warn(
            f"{where.source}: {shown}{more} {counts} a missing answer, add {options} (missing=[...] in Python)",
            DataWarning,
            stacklevel=4,
        )


def means_missing(name: str) -> bool:
    """Whether a label is a usual word for "no answer"."""
    plain = name.strip().lower()
    return plain in _MISSING_WORDS or " ".join(re.sub(r"['\u2019`]", "", plain).replace("_", " ").split()).strip(" .!?()") in (
        _MISSING_WORDS
    )
