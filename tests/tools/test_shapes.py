"""The table of shapes in the docs is what happens to files of these shapes."""

from __future__ import annotations

from pathlib import Path

from tools import shapes


def test_the_page_shows_what_happens() -> None:
    page = Path(shapes.__file__).resolve().parents[1] / "docs" / "howto" / "read-data.md"
    shown = page.read_text(encoding="utf-8").partition("<!-- shapes -->\n")[2].partition("<!-- end of shapes -->")[0]
    assert shown.strip() == shapes.table().strip(), "print it again with python -m tools.shapes"
