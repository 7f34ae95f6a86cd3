"""MkDocs hook: every measured table of the evidence as a CSV file, with a link below it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FOLDER = "evidence/"
BLOCK = re.compile(r"<!-- begin: (?P<name>.*?) -->\n(?P<body>.*?)<!-- end: (?P=name) -->", re.DOTALL)
TABLE = re.compile(r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|(?:\n|$))+", re.MULTILINE)
# Spreadsheets run what begins like a formula; a sign before a number, or alone, is none.
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.]|$)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the tables of all pages of the evidence."""
    from mkdocs.structure.files import File

    for page in files.documentation_pages():
        if page.src_uri.startswith(FOLDER):
            for name, table in tables(Path(page.abs_src_path or "").read_text(encoding="utf-8")):
                files.append(File.generated(config, f"{FOLDER}tables/{name}", content=as_csv(table)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Say below every measured table where its file is."""
    return with_links(markdown) if page.file.src_uri.startswith(FOLDER) else markdown


def with_links(markdown: str) -> str:
    """A page with a link below every table of its blocks."""
    names = (name for name, _ in tables(markdown))

    def linked(block: re.Match[str]) -> str:
        return TABLE.sub(lambda table: f"{table[0].rstrip()}\n\n[CSV](tables/{next(names)})\n", block[0])

    return BLOCK.sub(linked, markdown)


def tables(markdown: str) -> Iterator[tuple[str, str]]:
    """File name and text of every table of a page's blocks; tables of one block are counted."""
    for block in BLOCK.finditer(markdown):
        stem = re.sub(r"[^a-z0-9]+", "-", block["name"].lower()).strip("-")
        for number, table in enumerate(TABLE.findall(block["body"]), 1):
            yield (f"{stem}.csv" if number == 1 else f"{stem}-{number}.csv"), table


def as_csv(table: str) -> str:
    """Cells without Markdown."""
    head, _, *rows = table.strip().splitlines()
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([plain(cell) for cell in cells(row)] for row in (head, *rows))
    return written.getvalue()


def cells(row: str) -> list[str]:
    """Cells of a line; an escaped bar is no border."""
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip())[1:-1]]


def plain(cell: str) -> str:
    """Text of a cell without links, emphasis and code marks."""
    cell = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", cell)
    for mark in (r"\*\*", "__", "`"):
        cell = re.sub(f"{mark}(.+?){mark}", r"\1", cell)
    cell = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*(?![\w*])", r"\1", cell)
    return f"'{cell}" if FORMULA.match(cell) else cell
