"""What the pages of docs/evidence have measured of one method, cut out of their tables: no figure is copied by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["Table", "anchor", "read_tables", "results_of", "tables_of"]

PAGES = Path(__file__).parents[1] / "evidence"
# Rooms in the order in which a method's figures are shown.
ROOMS = (
    "accuracy", "calibration", "classifiers", "gp", "campaigns", "crowds", "papers", "speed", "versus", "scale",
)  # fmt: skip
# Sections of real data, as their markers name them, and for whom alone they speak where others are only beside it.
REAL = {
    "real data": (),
    "binary": ("eigen",),
    "auto": ("auto",),
    "auto classifier": ("auto-classifier",),
    "experience": ("consensus",),
    "learn labelme": (),
    "learn cifar10n": (),
    "learn cifar10n_images": (),
    "learn sentence_polarity": (),
    "learn rte": (),
    "learn convarg_pairs": (),
    "learn ner_mturk": (),
    "learn relatives": ("conal", "mbem", "annot-mix", "union-net"),
    "gp honest labelme": ("svgpcr",),
    "gp honest rte": ("svgpcr",),
    "gp honest sentence_polarity": ("svgpcr",),
    "gp honest cifar10n": ("svgpcr",),
    "gp honest convarg_pairs": ("svgpcr",),
    "gp honest ner_mturk": ("svgpcr",),
    "online tutorial": ("online-em", "streaming-ds"),
    "sequences": (),
    "ordinal": ("cumulative-link", "ordinal-binary"),
    "multilabel": ("label-wise", "consensus-sets"),
    "ranking": ("bradley-terry", "crowd-bt", "noisy-bt", "rank-network"),
    "regression": (),
}  # fmt: skip
BASELINES = ("majority", "two-stage majority", "mean", "token-majority", "more than half", "majority per label")
UNWANTED = re.compile(r"simulated|\d+ simulated|processor seconds of a fit|large\.|uneven crowds", re.IGNORECASE)
# Tables that are all about one method and do not repeat its name.
WHOLE = {"consensus": "experience", "auto": "auto"}
DROPPED = ("collapsed", "seconds", "ms", "processor s", "operations")


@dataclass(frozen=True)
class Table:
    """One table with its page, the heading it stands under, its marker, and the paragraph above it, which explains it."""

    page: str
    heading: str
    marker: str
    label: str
    note: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def rows_of(self, name: str) -> list[tuple[str, ...]]:
        """Rows about a method, under this name or with a variant before or behind it."""
        return [row for row in self.rows if any(_names(cell, name) for cell in row[:2])]

    def is_about(self, name: str) -> bool:
        """Whether all of it is about the method."""
        return WHOLE.get(name) == self.marker and self.header[0] in ("set", "votes")

    def mentions(self, name: str) -> bool:
        """Whether the method has a column or a row."""
        return name in self.header or self.is_about(name) or bool(self.rows_of(name))


def results_of(name: str) -> str:
    """Markdown: what was measured of a method on real sets, and where else the benchmarks have it."""
    tables = [table for table in read_tables() if table.mentions(name)]
    real = [table for table in tables if _is_real(table, name)]
    parts = [part for group in _groups(real, name) for part in _shown(group, name)]
    elsewhere = dict.fromkeys(_link(table) for table in tables if table.heading not in {shown.heading for shown in real})
    links = ", ".join(elsewhere)
    if not parts:
        parts = ["No real set has been measured with this method."]
    if links:
        parts.append(f"Also measured: {links}.")
    return "\n\n".join(parts)


def _is_real(table: Table, name: str) -> bool:
    subjects = REAL.get(table.marker)
    if subjects is None or UNWANTED.match(table.note.lstrip("*")):
        return False
    if name in WHOLE:
        return table.is_about(name)
    return not subjects or name in subjects


def _groups(tables: list[Table], name: str) -> Iterator[list[Table]]:
    """Tables that can be shown as one: of equal headers, or with a column each for the same rows."""
    groups: dict[object, list[Table]] = {}
    for table in tables:
        by_column = name in table.header and not table.is_about(name)
        key = (table.heading, table.label and "columns", _keys(table)) if by_column else (table.heading, table.header)
        groups.setdefault(key, []).append(table)
    yield from groups.values()


def _shown(group: list[Table], name: str) -> list[str]:
    first = group[0]
    if first.is_about(name):
        header, rows = list(first.header), [list(row) for row in first.rows]
    elif name in first.header:
        header, rows = _by_column(group, name)
    else:
        header, rows = _by_row(group, name)
    keep = [place for place, column in enumerate(header) if column not in DROPPED]
    lines = ["| " + " | ".join(row[place] for place in keep) + " |" for row in (header, *rows)]
    lines.insert(1, "|---" + "|---:" * (len(keep) - 1) + "|")
    said = f" {_sentences(first.note)}" if len(group) == 1 else ""
    return [f"From {_link(first)}.{said}", "\n".join(lines)]


def _by_column(group: list[Table], name: str) -> tuple[list[str], list[list[str]]]:
    """The column of the method from each table, and from the first one those of the baselines."""
    first = group[0]
    beside = [column for column in first.header if column in BASELINES and column != name]
    several = len(group) > 1
    own_columns = [f"{name}: {_short(table.label)}" if several else name for table in group]
    header = [first.header[0], *own_columns, *(f"{column}: {_short(first.label)}" if several else column for column in beside)]
    rows = []
    for position, row in enumerate(first.rows):
        own = [table.rows[position][table.header.index(name)] for table in group]
        rows.append([row[0].partition(" (")[0], *own, *(row[first.header.index(column)] for column in beside)])
    return header, rows


def _by_row(group: list[Table], name: str) -> tuple[list[str], list[list[str]]]:
    """The rows of the method and of the baselines, with the set in front where there are several tables."""
    several = all(table.label for table in group) and (len(group) > 1 or group[0].marker.startswith("learn "))
    header = [*(["set"] if several else []), *(group[0].header)]
    rows = []
    for table in group:
        own = table.rows_of(name)
        for row in table.rows:
            if row in own or any(_names(cell, base) for cell in row[:2] for base in BASELINES):
                rows.append([*([_short(table.label)] if several else []), *row])
    return header, rows


def _names(cell: str, name: str) -> bool:
    return cell == name or cell.startswith(f"{name}, ") or cell.endswith(f", {name}")


def _link(table: Table) -> str:
    """To the heading, where MkDocs puts it; a wrong guess would be a broken link, which its build refuses."""
    return f"[{table.heading}](../evidence/{table.page}.md#{anchor(table.heading)})"


def anchor(heading: str) -> str:
    """What MkDocs calls a heading in links."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def _keys(table: Table) -> tuple[str, ...]:
    return tuple(row[0].partition(" (")[0] for row in table.rows if not row[0].startswith("*"))


def _short(label: str) -> str:
    name = re.split(r"[(,.:]", label)[0].strip()
    return name if name.isupper() else name.lower()


def _sentences(note: str) -> str:
    """The first two sentences of a paragraph, without its links, which lead from another folder."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", note)
    return " ".join(re.split(r"(?<=[.:]) (?=[A-Z*`])", plain)[:2])


@cache
def read_tables() -> tuple[Table, ...]:
    """Every table of the rooms, in their order."""
    return tuple(table for room in ROOMS if (PAGES / f"{room}.md").exists() for table in tables_of(PAGES / f"{room}.md"))


def tables_of(path: Path) -> list[Table]:
    """Every table of a page."""
    found: list[Table] = []
    heading = marker = label = note = ""
    block: list[str] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("|"):
            block.append(line)
            continue
        if len(block) > 2:
            header, _, *rows = (tuple(cell.strip(" `") for cell in row.strip().strip("|").split("|")) for row in block)
            found.append(Table(path.stem, heading, marker, label, note, header, tuple(rows)))
            note = ""
        block = []
        if title := re.match(r"#{2,} (.*)", line):
            heading, label = title[1], ""
        elif begin := re.match(r"<!-- begin: (.*) -->", line):
            marker, label = begin[1], ""
        elif line.startswith("<!-- end: "):
            marker = label = ""
        elif bold := re.match(r"\*\*(.*?)\*\*", line):
            label = bold[1]
        if line and not line.startswith(("Measured on", "<!--", "#", "![")):
            note = line
    return found
