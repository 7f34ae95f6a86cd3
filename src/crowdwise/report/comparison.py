"""A comparison of methods for people: as Markdown, as a page and as a file; every foreign text is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.errors import SettingError
from crowdwise.report.text import Table, count, framed, number, one_line

if TYPE_CHECKING:
    import polars as pl

    from crowdwise.trust.compare import Comparison

__all__ = ["check_suffix", "differences", "document", "level", "markdown", "overview", "page", "tables", "write_comparison"]

TEXTS = (".md", ".html", ".htm", ".json")
_MARKDOWN = re.compile(r"([\\`*_\[\]|~])")
# What a terminal of 100 columns has room for.
_SHOWN = ("accuracy", "log_loss", "held_out")
_HEADS = {
    "method": "Method",
    "accuracy": "Accuracy",
    "macro_f1": "Macro F1",
    "auc": "AUC",
    "log_loss": "Log loss",
    "ece": "ECE",
    "ece_debiased": "ECE without chance",
    "held_out": "Held-out votes",
    "agreement": "Agreement",
    "seconds": "Seconds",
    "memory_mb": "Memory (MB)",
    "note": "Note",
}


def overview(found: Comparison) -> pl.DataFrame:
    """The table that people read: no counts of iterations, and one column of notes where there are any."""
    import polars as pl

    table = found.table.with_columns(
        pl.col("memory_mb").round().cast(pl.Int64),
        pl.coalesce("error", pl.when(~pl.col("converged")).then(pl.lit("not converged"))).alias("note"),
    ).drop("n_iter", "converged", "error")
    # With true labels there is something better to look at; the file has it all.
    left_out = ["agreement"] if "accuracy" in table.columns else []
    left_out += [name for name in ("held_out", "memory_mb", "note") if table[name].null_count() == table.height]
    return table.drop(left_out)


def tables(found: Comparison) -> Iterator[Table]:
    """What a terminal shows: the overview and, where there are any, the differences."""
    shown = overview(found)
    # Measures against the truth take the room of the memory, which the file has.
    yield framed(shown.drop("memory_mb", strict=False) if "ece" in shown.columns else shown)
    measures = [name for name in _SHOWN if name in found.measures]
    rows = differences(found, measures, "{} {}".format)
    if rows:
        title = f"Difference to {found.reference}, with its {level(found)} interval over items; * where that leaves out 0"
        yield title, ["method", *measures], rows, measures


def differences(found: Comparison, measures: Sequence[str], shown: Callable[[str, str], str]) -> list[list[str]]:
    """A row per method other than the reference: its name, and a cell per measure."""
    cells = {
        (row["method"], row["measure"]): shown(f"{row['difference']:.3f}", _interval(row, "difference_"))
        for row in _defined(found, "difference").iter_rows(named=True)
    }
    rows = [[name, *(cells.get((name, measure), "") for measure in measures)] for name in found.table["method"]]
    return [row for row in rows if any(row[1:])]


def _defined(found: Comparison, what: str) -> pl.DataFrame:
    """The rows of the intervals that have such a number: AUC has none where the known labels are all of one class."""
    return found.intervals.fill_nan(None).drop_nulls([what, "low"])


def _interval(row: dict[str, Any], what: str = "") -> str:
    low, high = row[f"{what}low"], row[f"{what}high"]
    return f"({low:.3f}, {high:.3f}){'*' if what and (low > 0 or high < 0) else ''}"


def level(found: Comparison) -> str:
    """The level of the intervals, in percent."""
    return f"{100 * found.facts['level']:g} %"


def document(found: Comparison) -> dict[str, Any]:
    """Everything, for JSON."""
    names = found.agreement["method"].to_list()
    shares = found.agreement.drop("method").rows()
    return {
        **found.facts,
        "reference": found.reference,
        "methods": found.wide().fill_nan(None).to_dicts(),
        "agreement": {"methods": names, "shares": [list(row) for row in shares]},
    }


def write_comparison(found: Comparison, path: Path, *, raw: bool = False) -> None:
    """Write as the suffix says, whole or not at all; in CSV, formulas are escaped unless it is to be `raw`."""
    from crowdwise.io.writer import escape_formulas, open_replacing, write_json, write_table

    suffix = path.suffix.lower()
    if suffix == ".json":
        write_json(document(found), path)
    elif suffix in TEXTS:
        with open_replacing(path) as file:
            file.write((markdown(found) if suffix == ".md" else page(found)).encode("utf-8", "replace"))
    else:
        # Without a warning: the one column of words, reasons, is for people.
        write_table(found.wide() if raw or suffix not in (".csv", ".tsv") else escape_formulas(found.wide()), path)


class _Part(NamedTuple):
    """A table whose cells are escaped already."""

    title: str
    about: str
    heads: list[str]
    rows: list[list[str]]


def _parts(found: Comparison, escape: Callable[[Any], str], shown: Callable[[str, str], str]) -> list[_Part]:
    """The tables of a document; `shown` joins a number and its interval to a cell."""
    table = overview(found)
    bounds = {(row["method"], row["measure"]): _interval(row) for row in _defined(found, "value").iter_rows(named=True)}

    def cell(method: str, name: str, value: Any) -> str:
        interval = bounds.get((method, name))
        return escape(number(value)) if interval is None else shown(number(value), interval)

    rows = [[cell(row["method"], name, value) for name, value in row.items()] for row in table.to_dicts()]
    parts = [_Part("Methods", f"With {level(found)} intervals over items", [_HEADS[name] for name in table.columns], rows)]
    distances = differences(found, found.measures, shown)
    if distances:
        about = f"With {level(found)} intervals over items; an asterisk where that leaves out 0"
        parts.append(
            _Part(f"Difference to {found.reference}", about, [_HEADS[m] for m in ("method", *found.measures)], distances)
        )
    if found.agreement.height > 1:
        shares = [[row[0], *(f"{share:.3f}" for share in row[1:])] for row in found.agreement.rows()]
        heads = ["Method", *found.agreement["method"]]
        parts.append(_Part("Agreement", "Share of items with the same label", heads, shares))
    return parts


def _lead(found: Comparison) -> str:
    facts = found.facts
    votes = f"{count(facts['n_votes'], 'vote')} by {count(facts['n_annotators'], 'annotator')}"
    parts = [f"{votes} on {count(facts['n_items'], 'item')}, {count(facts['n_classes'], 'class')}"]
    if facts["n_known"]:
        parts.append(f"{count(facts['n_known'], 'item')} with a known label")
    if facts["n_held_out"]:
        parts.append(f"{count(facts['n_held_out'], 'vote')} held out in {facts['folds']} folds")
    parts.append(f"seed {facts['seed']}")
    return "; ".join(parts) + "."


def markdown(found: Comparison) -> str:
    """The comparison as a Markdown document."""

    def escape(value: Any) -> str:
        return _MARKDOWN.sub(r"\\\1", html.escape(one_line(value), quote=False))

    lines = ["# Comparison of methods", "", _lead(found)]
    for part in _parts(found, escape, lambda value, interval: f"{value} {escape(interval)}"):
        lines += ["", f"## {part.title}", "", f"{part.about}.", "", f"| {' | '.join(part.heads)} |"]
        lines += ["|---" + "|---:" * (len(part.heads) - 1) + "|", *(f"| {' | '.join(row)} |" for row in part.rows)]
    return "\n".join(lines) + "\n"


def page(found: Comparison) -> str:
    """The comparison as a page that needs nothing else."""
    from crowdwise.report.markup import plain, table
    from crowdwise.report.stylesheet import STYLE

    parts = _parts(found, lambda value: plain(value, 300), lambda value, interval: f"{value}<br><small>{interval}</small>")
    tables = [
        f"<h2>{part.title}</h2>"
        + table(part.about, part.heads, part.rows, [k for k, head in enumerate(part.heads) if k and head != _HEADS["note"]])
        for part in parts
    ]
    # The policy is a second lock: even markup that slipped through could load and run nothing.
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Comparison of methods</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>Comparison of methods</h1>\n<p class="lead">{plain(_lead(found), 400)}</p>\n'
        + "\n".join(tables)
        + "\n</main>\n</body>\n</html>\n"
    )


def check_suffix(path: Path) -> None:
    """Refuse, before any work, a file whose format is not known."""
    from crowdwise.io.writer import SUFFIXES, table_suffix

    if path.suffix.lower() not in TEXTS:
        try:
            table_suffix(path)
        except ValueError:
            known = ", ".join([".md", ".html", *SUFFIXES])
            raise SettingError(f"-o: {path}: cannot write {path.suffix or 'no suffix'}; use one of {known}") from None
