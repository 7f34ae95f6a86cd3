"""The table of shapes in the docs is what happens to files of these shapes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdwise.cli import app
from tools import shapes

NEEDING = [shape for shape in shapes.SHAPES if shape.options]


@pytest.mark.slow
def test_the_page_shows_what_happens() -> None:
    page = Path(shapes.__file__).resolve().parents[1] / "docs" / "howto" / "read-data.md"
    shown = page.read_text(encoding="utf-8").partition("<!-- shapes -->\n")[2].partition("<!-- end of shapes -->")[0]
    assert shown.strip() == shapes.table().strip(), "print it again with python -m tools.shapes"


@pytest.mark.parametrize("shape", NEEDING, ids=[shape.name for shape in NEEDING])
def test_the_options_of_the_page_are_options_of_the_command(shape: shapes.Shape, tmp_path: Path) -> None:
    printed = shapes.outcome(shape)[1].partition(";")[0]
    words = [word for part in re.findall(r"`(--[^`]+)`", printed) for word in shlex.split(part)]
    assert sum(word.startswith("--") for word in words) == len(shape.options)
    path = shapes.write_files(shape, tmp_path / "in")
    result = CliRunner().invoke(app, [shapes.COMMANDS[shape.kind], str(path), *words, "--quiet"])
    assert result.exit_code == 0, result.stderr
